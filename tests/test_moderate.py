"""`pullrank moderate`: decisions of maintainers and their effects, in a folder and on a GitHub on loopback."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.records.judgement import Judgement
from harness.task.task import load_task
from scripts.cli import run
from scripts.competition.settings import Ban
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action, KnownAccount, Moderated, Moderation
from scripts.pages.parts.site import Site
from scripts.pages.parts.words import iso
from scripts.pages.publishing.publish import build_site
from tests.competition import ROOT, SOURCE, Scene
from tests.github_server import Failure, Way

BOBS = b"def custom_kernel(data):\n    return data[0].add(data[1])\n"
ROW = "vectoradd/CPU/alice"


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Alice is first on the board, bob second; the maintainer is the repository's owner."""
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        play(made)
        monkeypatch.setenv("GH_TOKEN", made.world.personal_token().value)
        yield made


def play(scene: Scene) -> None:
    for author, source, ratio in ((scene.alice, SOURCE, 0.5), (scene.world.add_user("bob"), BOBS, 0.9)):
        scene.submit(author, source)
        scene.evaluate(scene.waiting()[0], scene.honest(ratio=ratio))


def copy_of(scene: Scene, folder: Path) -> Ledger:
    """The ledger's branch as a folder."""
    with LedgerBranch(scene.server.git_url) as branch:
        for place in branch.names:
            target = folder / place
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((branch.ledger.path / place).read_bytes())
    return Ledger(folder)


def moderate(*words: str, code: int = 0) -> None:
    reason = [] if words[0] == "list" else ["--reason", "Returns an old output."]
    assert run(["moderate", *words, *reason]) == code


def logins(ledger: Ledger, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert run(["board", "vectoradd", "--gpu", "CPU", "--json", "--ledger", str(ledger.path)]) == 0
    return [row["login"] for row in json.loads(capsys.readouterr().out)["rows"]]


def site_of(ledger: Ledger, out: Path, bans: Sequence[Ban] = ()) -> Path:
    build_site(
        [load_task(ROOT / "tasks/vectoradd")],
        ledger,
        out,
        Site(sources=lambda _: None, title="Cup", now=datetime.now(UTC), bans=bans),
    )
    return out


# On GitHub.


def test_a_decision_adds_one_file_to_the_branch_and_rebuilds_the_site(scene, tmp_path, capsys) -> None:
    before = len(list(copy_of(scene, tmp_path / "before").path.rglob("*.json")))
    published = len(scene.runs("publish.yml"))
    moderate("disqualify", ROW, "--by", str(scene.alice.id), code=2)
    assert "the token belongs to account" in capsys.readouterr().err
    moderate("disqualify", ROW)
    assert "disqualify: 1 judgement of alice on vectoradd / CPU" in capsys.readouterr().out
    ledger = copy_of(scene, tmp_path / "after")
    (decision,) = ledger.moderations()
    assert (decision.action, decision.by) == (Action.DISQUALIFY, scene.world.owner.id)
    assert len(list(ledger.path.rglob("*.json"))) == before + 1
    assert len(scene.runs("publish.yml")) == published + 1
    assert logins(ledger, capsys) == ["bob"]
    moderate("restore", ROW)
    assert logins(copy_of(scene, tmp_path / "restored"), capsys) == ["alice", "bob"]


def test_a_decision_stands_even_if_github_does_not_say_which_branch_to_publish(scene, tmp_path, capsys) -> None:
    scene.server.fail(f"GET /repos/{scene.world.repository}", Failure(way=Way.NONSENSE))
    moderate("disqualify", ROW)
    assert "the decision is recorded; the site shows it after the next build" in capsys.readouterr().err
    assert len(list(copy_of(scene, tmp_path / "after").moderations())) == 1


def test_a_file_on_the_branch_is_restored_by_the_path_of_any_of_its_judgements(scene, tmp_path, capsys) -> None:
    moderate("disqualify", ROW)
    with LedgerBranch(scene.server.git_url, token=scene.world.personal_token().value) as branch:
        (first,) = (one for one in branch.ledger.judgements().judgements if one.submission.login == "alice")
        later = first.model_copy(update={"finished_at": first.finished_at + timedelta(minutes=1)})
        path = branch.ledger.append(later, "again")
        branch.commit("Judged again")
        place = str(path.relative_to(branch.ledger.path))
    assert logins(copy_of(scene, tmp_path / "before"), capsys) == ["bob"]
    moderate("restore", place)
    assert logins(copy_of(scene, tmp_path / "after"), capsys) == ["alice", "bob"]


def test_a_ban_ends_the_authors_pending_requests(scene, capsys) -> None:
    bob = scene.world.users["bob"]
    scene.submit(bob, BOBS + b"# anew\n")
    (run,) = scene.waiting()
    moderate("ban", "bob")
    assert "cancelled 1 of their pending requests" in capsys.readouterr().out
    assert run.conclusion == "cancelled"
    assert scene.resolve(run) == 0
    assert scene.outputs()["wanted"] == "false"
    assert run.inputs["request"] not in [one.request.id for one in scene.ledger().values() if one.is_open]


def test_a_banned_author_is_not_judged_until_the_ban_is_lifted(scene) -> None:
    bob = scene.world.users["bob"]
    moderate("ban", "bob")
    pull = scene.submit(bob, BOBS + b"# anew\n")
    assert "Returns an old output." in scene.comment(pull.number) and not scene.waiting()
    moderate("unban", str(bob.id))
    scene.world.push(pull, {"submissions/vectoradd/bob/submission.py": BOBS + b"# again\n"})
    scene.intake()
    assert scene.waiting()


def test_a_maintainer_can_ban_an_outsider_by_current_login_and_others_cannot(
    scene, tmp_path, monkeypatch, capsys
) -> None:
    mallory = scene.world.add_user("mallory")
    moderate("ban", "Mallory")
    monkeypatch.setenv("GH_TOKEN", scene.world.personal_token(scene.alice).value)
    moderate("disqualify", "vectoradd/CPU/bob", code=2)
    assert "push to the branch 'ledger'" in capsys.readouterr().err
    (decision,) = copy_of(scene, tmp_path / "ledger").moderations()
    assert (decision.user_id, decision.login) == (mallory.id, "mallory")


# In a folder.


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The ledger of a competition, made once."""
    with pytest.MonkeyPatch.context() as patch:
        made = Scene(tmp_path_factory.mktemp("judged"), patch)
        with made.server:
            play(made)
            yield copy_of(made, made.folder / "ledger").path


@pytest.fixture
def ledger(judged: Path, tmp_path: Path) -> Ledger:
    shutil.copytree(judged, tmp_path / "ledger")
    return Ledger(tmp_path / "ledger")


def there(ledger: Ledger) -> list[str]:
    return ["--ledger", str(ledger.path), "--by", "7"]


def test_a_judgement_can_be_named_by_row_checksum_or_file(ledger, capsys) -> None:
    path = next(ledger.path.glob("judgements/vectoradd/CPU/alice/*.json"))
    checksum = json.loads(path.read_text())["checksum"]
    for what in (ROW, checksum, checksum[:8].upper(), str(path.relative_to(ledger.path)), str(path)):
        moderate("hold", what, *there(ledger))
        assert logins(ledger, capsys) == ["bob"], what
        moderate("release", ROW, *there(ledger))
        assert logins(ledger, capsys) == ["alice", "bob"], what


def test_disqualifying_a_row_removes_all_judgements_of_its_file(ledger, capsys) -> None:
    path = next(ledger.path.glob("judgements/vectoradd/CPU/alice/*.json"))
    judgement = Judgement.from_json(path.read_text())
    later = judgement.model_copy(update={"finished_at": judgement.finished_at + timedelta(minutes=1)})
    ledger.append(Judgement.from_json(later.to_json()), "again")
    moderate("disqualify", ROW, *there(ledger))
    assert logins(ledger, capsys) == ["bob"]
    assert len(Moderated.after(ledger.moderations()).disqualified) == 2


def test_a_disqualified_row_appears_with_its_reason_on_page_and_in_json(ledger, tmp_path) -> None:
    moderate("disqualify", ROW, *there(ledger))
    site = site_of(ledger, tmp_path / "_site")
    page = (site / "vectoradd/CPU/index.html").read_text()
    assert "Removed results" in page and "Returns an old output." in page and "disqualified" in page
    facts = json.loads((site / "vectoradd/CPU/board.json").read_text())
    assert [row["login"] for row in facts["rows"]] == ["bob"]
    (out,) = facts["taken_out"]
    assert (out["login"], out["action"], out["reason"]) == ("alice", "disqualify", "Returns an old output.")
    boards = {board["gpu"]: board for board in json.loads((site / "index.json").read_text())["boards"]}
    assert boards["CPU"]["first"]["login"] == "bob"
    assert not (site / "authors/alice").exists()
    hacks = (site / "hacks/index.html").read_text()
    assert hacks.count("Returns an old output.") == 1 and "../vectoradd/CPU/index.html" in hacks and "alice" in hacks
    assert 'href="hacks/index.html"' in (site / "index.html").read_text()
    decided = max(one.at for one in ledger.moderations())
    assert all(iso(decided) in text.partition("<footer")[2] for text in (page, hacks)), "the page is as of that moment"


def test_without_a_disqualified_file_there_is_no_page_of_hacks(ledger, tmp_path) -> None:
    moderate("hold", ROW, *there(ledger))
    site = site_of(ledger, tmp_path / "_site")
    assert not (site / "hacks").exists() and "hacks" not in (site / "index.html").read_text()


def test_a_withdrawn_row_appears_on_page_and_in_commands_with_its_date(ledger, tmp_path, capsys) -> None:
    (judgement,) = (one for one in ledger.judgements().judgements if one.submission.login == "alice")
    at, by = datetime(2026, 11, 25, 12, tzinfo=UTC), judgement.submission.user_id
    about = {"judgement": judgement.checksum, "reason": "Commented /withdraw on #1.", "by": by, "at": at}
    ledger.append_fact(Moderation(id="w", action=Action.WITHDRAW, **about))
    assert logins(ledger, capsys) == ["bob"]
    assert run(["board", "vectoradd", "--gpu", "CPU", "--ledger", str(ledger.path)]) == 0
    words = "withdrawn by its author 2026-11-25. Commented /withdraw on #1."
    assert words in capsys.readouterr().out
    site = site_of(ledger, tmp_path / "_site")
    page = " ".join(re.sub("<[^>]*>", "", (site / "vectoradd/CPU/index.html").read_text()).split())
    assert re.search(r"alice, judged [^:]*: withdrawn by its author on .* Commented /withdraw on #1\.", page)
    (out,) = json.loads((site / "vectoradd/CPU/board.json").read_text())["taken_out"]
    assert (out["login"], out["action"], out["at"]) == ("alice", "withdraw", at.isoformat())
    moderate("list", "--ledger", str(ledger.path))
    assert "withdraw" in capsys.readouterr().out
    moderate("restore", ROW, *there(ledger), code=2)  # a maintainer cannot lift it
    assert logins(ledger, capsys) == ["bob"]


def test_an_authors_page_shows_their_ban_until_lifted_but_not_a_namesakes(ledger, tmp_path) -> None:
    def page_of(login: str, folder: str) -> tuple[bool, object]:
        place = site_of(ledger, tmp_path / folder) / "authors" / login
        ban = json.loads((place / "author.json").read_text())["ban"]
        return "Returns an old output." in (place / "index.html").read_text(), ban and ban["reason"]

    assert page_of("bob", "before") == (False, None)
    moderate("ban", "bob", *there(ledger))
    assert page_of("bob", "banned") == (True, "Returns an old output.")
    assert page_of("alice", "other") == (False, None)
    moderate("unban", "bob", *there(ledger))
    assert page_of("bob", "lifted") == (False, None)
    stranger = Moderation(
        id="m", action=Action.BAN, user_id=4242, login="bob", reason="Attacks.", by=7, at=datetime.now(UTC)
    )
    ledger.append_fact(stranger)
    assert page_of("bob", "stranger") == (False, None), "another account that is called bob today"
    moderate("disqualify", ROW, *there(ledger))
    moderate("ban", "alice", *there(ledger))
    assert page_of("alice", "gone") == (True, "Returns an old output."), "although she is on no board any more"


def test_a_ban_in_the_settings_also_appears_on_the_authors_page(ledger, tmp_path) -> None:
    (bob,) = [account for account in ledger.accounts() if account.login == "bob"]
    bans = {
        "by login": Ban(login="Bob", reason="Attacks the judge."),
        "by id": Ban(user_id=bob.user_id, reason="Attacks the judge."),
        "another": Ban(user_id=4242, login="bob", reason="Attacks the judge."),
    }
    said = {}
    for name, ban in bans.items():
        place = site_of(ledger, tmp_path / name, [ban]) / "authors/bob"
        facts = json.loads((place / "author.json").read_text())["ban"]
        said[name] = "Banned. Attacks the judge." in (place / "index.html").read_text(), facts
    facts = {"reason": "Attacks the judge.", "at": None}
    assert said == {"by login": (True, facts), "by id": (True, facts), "another": (False, None)}
    both = site_of(ledger, tmp_path / "nobody", [Ban(login="mallory", reason="Attacks.")])
    assert "Banned. Attacks." in (both / "authors/mallory/index.html").read_text()


def test_a_hostile_reason_stays_text(ledger, tmp_path) -> None:
    words = ["moderate", "disqualify", ROW, "--reason", "<script>alert(1)</script>\x1b[2J", *there(ledger)]
    assert run(words) == 0
    page = (site_of(ledger, tmp_path / "_site") / "vectoradd/CPU/index.html").read_text()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page and "\x1b" not in page


def test_the_list_shows_decisions_in_force(ledger, capsys) -> None:
    moderate("disqualify", ROW, *there(ledger))
    moderate("ban", "bob", *there(ledger))
    capsys.readouterr()
    moderate("list", "--ledger", str(ledger.path), "--json")
    listed = json.loads(capsys.readouterr().out)
    assert {one["action"] for one in listed} == {"ban", "disqualify"}
    assert all(Moderation.model_validate_json(json.dumps(one)) for one in listed)
    moderate("list", "--ledger", str(ledger.path))
    assert "Returns an old output." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["disqualify", "vectoradd/CPU/nobody"], "nobody is not ranked on vectoradd / CPU"),
        (["disqualify", "vectoradd/CPV/alice"], "did you mean 'CPU'?"),
        (["disqualify", "00000000"], "no judgement has this checksum"),
        (["disqualify", "alice"], "write TASK/GPU/LOGIN"),
        (["disqualify", "nowhere.json"], "no such file"),
        (["restore", ROW], "alice has no removed judgements on vectoradd / CPU"),
        (["ban", "nobody"], "no participant has the login 'nobody'"),
        (["ban", "bbob"], "did you mean 'bob'?"),
        (["unban", "bob"], "bob is not banned"),
        (["ban", "0"], "no participant has the login '0'"),
        (["disqualify", "judgements/torn.json"], "judgements/torn.json: not JSON"),
    ],
)
def test_a_decision_without_a_valid_target_is_refused(ledger, capsys, words, message) -> None:
    (ledger.path / "judgements/torn.json").write_text('{"format": ')
    moderate(*words, *there(ledger), code=2)
    said = capsys.readouterr().err
    assert message in said and "Traceback" not in said
    assert not ledger.moderations().facts


def test_a_held_file_can_be_disqualified_by_name_and_restored_by_checksum(ledger, capsys) -> None:
    path = next(ledger.path.glob("judgements/vectoradd/CPU/alice/*.json"))
    judgement = Judgement.from_json(path.read_text())
    later = judgement.model_copy(update={"finished_at": judgement.finished_at + timedelta(minutes=1)})
    ledger.append(later, "r2")
    moderate("hold", judgement.checksum, *there(ledger))
    moderate("disqualify", ROW, *there(ledger))
    assert all(one.whole_file for one in Moderated.after(ledger.moderations()).disqualified.values())
    assert logins(ledger, capsys) == ["bob"]
    moderate("restore", judgement.checksum, *there(ledger))
    moderate("release", ROW, *there(ledger))
    assert logins(ledger, capsys) == ["alice", "bob"]
    assert not Moderated.after(ledger.moderations()).disqualified


@pytest.mark.parametrize("action", ["hold", "disqualify"])
def test_a_decision_about_one_judgement_can_become_one_about_its_file(ledger, capsys, action: str) -> None:
    first = next(one for one in ledger.judgements().judgements if one.submission.login == "alice")
    moderate(action, first.checksum, *there(ledger))
    which = f"{ROW}/{first.submission.digest[:12]}"
    moderate(action, which, *there(ledger))
    ledger.append(first.model_copy(update={"finished_at": first.finished_at + timedelta(minutes=1)}), "again")
    assert logins(ledger, capsys) == ["bob"], "the file does not come back by another judging"
    moderate(action, first.checksum, *there(ledger), code=2)


@pytest.mark.parametrize("decided", ["hold", "disqualify"])
def test_an_authors_name_never_means_a_file_that_was_held_before_the_ranked_one(ledger, capsys, decided: str) -> None:
    path = next(ledger.path.glob("judgements/vectoradd/CPU/alice/*.json"))
    old = Judgement.from_json(path.read_text())
    moderate("hold", old.checksum, *there(ledger))
    if decided == "disqualify":
        moderate("disqualify", ROW, *there(ledger))
    newer = old.submission.model_copy(update={"digest": "f" * 64})
    ledger.append(
        old.model_copy(update={"submission": newer, "finished_at": old.finished_at + timedelta(days=3)}), "r2"
    )
    assert set(logins(ledger, capsys)) == {"alice", "bob"}
    which = ROW
    if decided == "hold":
        moderate("disqualify", ROW, *there(ledger), code=2)
        said = capsys.readouterr().err
        which = f"{ROW}/ffffffffffff"
        assert (
            f"has 2 files on vectoradd / CPU, ranked or held: write {which} or {ROW}/{old.submission.digest[:12]}"
            in said
        )
    moderate("disqualify", which, *there(ledger))
    assert "disqualify: 1 judgement of alice on vectoradd / CPU, file ffffffffffff" in capsys.readouterr().out
    assert logins(ledger, capsys) == ["bob"]
    decisions = Moderated.after(ledger.moderations()).disqualified
    assert (old.checksum in decisions) is (decided == "disqualify")
    assert all(one.whole_file for one in decisions.values())
    moderate("restore", which, *there(ledger))
    assert set(logins(ledger, capsys)) == {"alice", "bob"}


def test_a_number_that_is_one_accounts_id_and_anothers_login_is_refused(ledger, capsys) -> None:
    ledger.append_account(KnownAccount(user_id=99, login="12345", first_seen=datetime(2026, 11, 2, tzinfo=UTC)))
    moderate("ban", "12345", *there(ledger), code=2)
    assert "12345 is also the login of account 99: write id:12345 or 99" in capsys.readouterr().err
    moderate("ban", "99", *there(ledger))
    moderate("ban", "id:12345", *there(ledger))
    assert [(one.user_id, one.login) for one in ledger.moderations()] == [(99, "12345"), (12345, None)]


def test_a_repeated_decision_or_one_without_author_or_reason_is_refused(ledger, capsys) -> None:
    checksum = ledger.judgements().judgements[0].checksum
    moderate("hold", checksum, *there(ledger))
    moderate("hold", checksum, *there(ledger), code=2)
    assert "is held" in capsys.readouterr().err
    moderate("hold", checksum, "--ledger", str(ledger.path), code=2)
    assert "--by NUMBER" in capsys.readouterr().err
    assert run(["moderate", "hold", checksum, "--reason", "  ", *there(ledger)]) == 2
    assert "--reason must have" in capsys.readouterr().err
    assert len(ledger.moderations().facts) == 1
