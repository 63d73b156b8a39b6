"""`pullrank task archive --purge`: what it deletes, here and on a GitHub on loopback, and who may use it."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scripts.cli import run
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import KnownAccount
from scripts.ledger.request import Spent
from tests.competition import OWN, ROOT, SOURCE, Scene

PURGE = ["task", "archive", "vectoradd", "--purge", "--confirm", "vectoradd"]
ABOUT = ["--reason", "Returns an old output."]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """Alice and bob have results, bob's is disqualified; the maintainer is the repository's owner."""
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        for author, ratio, source in ((made.alice, 0.5, OWN), (made.world.add_user("bob"), 0.9, SOURCE)):
            made.submit(author, source)
            made.evaluate(made.waiting()[0], made.honest(ratio=ratio))
        monkeypatch.setenv("GH_TOKEN", made.world.personal_token().value)
        with LedgerBranch(made.server.git_url, token=made.world.personal_token().value) as branch:
            request = next(iter(branch.ledger.requests())).request
            branch.ledger.append_spent(request, Spent(request=request.id, seconds=9.0, at=request.asked_at))
            branch.commit("What it had cost")
        assert run(["moderate", "disqualify", "vectoradd/CPU/bob", *ABOUT]) == 0
        assert run(["moderate", "ban", "bob", *ABOUT]) == 0
        yield made


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clone with tasks and submissions: those of the task, and of another one that stays."""
    for name in ("vectoradd", "softmax"):
        shutil.copytree(ROOT / "tasks" / name, tmp_path / "clone" / "tasks" / name)
        (tmp_path / "clone" / "submissions" / name / "ada").mkdir(parents=True)
    return tmp_path / "clone" / "tasks"


def names(scene: Scene) -> set[str]:
    with LedgerBranch(scene.server.git_url) as branch:
        return set(branch.names)


def commits(scene: Scene) -> list[str]:
    return scene.world.git.git("log", "--format=%s", "ledger").decode().splitlines()


def folders(tree: Path) -> set[str]:
    root = tree.parent
    return {str(path.relative_to(root)) for path in (*root.glob("tasks/*"), *root.glob("submissions/*"))}


def test_the_owner_purges_one_task_in_one_commit_and_keeps_the_rest(scene, tree, capsys):
    before, log = names(scene), commits(scene)
    assert {name.partition("/")[0] for name in before} >= {
        "requests",
        "origins",
        "judgements",
        "moderation",
        "accounts",
    }
    assert run([*PURGE, "--tasks", str(tree)]) == 0
    said = capsys.readouterr().out
    left = names(scene)
    kept = {name for name in before if name.startswith(("accounts/", "announced/", "README"))}
    bans = {name for name in before if name.startswith("moderation/") and "-ban-" in name}
    assert left == kept | bans and len(bans) == 1
    assert commits(scene) == ["Purge vectoradd", *log]
    assert f"deleted {len(before - left)} files of vectoradd from the branch" in said
    assert folders(tree) == {"tasks/softmax", "submissions/softmax"}


def test_a_non_owner_purges_nothing_and_the_owner_only_the_named_task(scene, tree, monkeypatch, capsys):
    before, here = names(scene), folders(tree)
    owner = scene.world.personal_token().value
    maintainer = scene.world.add_user("carol", permission="write")
    monkeypatch.setenv("GH_TOKEN", scene.world.personal_token(maintainer).value)
    assert run([*PURGE, "--tasks", str(tree)]) == 2
    assert "only an admin of" in capsys.readouterr().err
    assert (names(scene), folders(tree)) == (before, here)
    monkeypatch.setenv("GH_TOKEN", owner)
    assert run(["task", "archive", "softmax", "--purge", "--confirm", "softmax", "--tasks", str(tree)]) == 0
    assert names(scene) == before, "another task's files"


def test_a_purge_with_a_rejected_token_fails_and_deletes_nothing(scene, tree, monkeypatch, capsys):
    before, here = names(scene), folders(tree)
    monkeypatch.setenv("GH_TOKEN", "ghp_wrong")
    assert run([*PURGE, "--tasks", str(tree)]) == 2
    assert "GitHub rejects this token" in capsys.readouterr().err
    assert (names(scene), folders(tree)) == (before, here)


def test_a_purge_loses_nothing_written_at_the_same_time(scene, tree, monkeypatch):
    zoe = KnownAccount(user_id=999, login="zoe", first_seen=datetime(2026, 11, 2, tzinfo=UTC))
    build = LedgerBranch._build
    late = [zoe]

    def overtaken(self, new, message, gone=()):
        if gone and late:
            with LedgerBranch(scene.server.git_url, token=scene.world.personal_token().value) as other:
                other.ledger.append_account(late.pop())
                other.commit("Come in between")
        return build(self, new, message, gone)

    monkeypatch.setattr(LedgerBranch, "_build", overtaken)
    assert run([*PURGE, "--tasks", str(tree)]) == 0
    assert not late and str(zoe.place) in names(scene)
    assert not any(name.startswith("judgements/") for name in names(scene))
    assert commits(scene)[:2] == ["Purge vectoradd", "Come in between"]


def test_a_purge_of_a_ledger_folder_needs_no_token(scene, tree, tmp_path, monkeypatch, capsys):
    with LedgerBranch(scene.server.git_url) as branch:
        shutil.copytree(branch.ledger.path, tmp_path / "ledger", ignore=shutil.ignore_patterns(".git"))
    (tmp_path / "ledger/descriptions/vectoradd").mkdir(parents=True)
    monkeypatch.delenv("GH_TOKEN")
    assert run([*PURGE, "--tasks", str(tree), "--ledger", str(tmp_path / "ledger")]) == 0
    ledger = Ledger(tmp_path / "ledger")
    assert not ledger.judgements().judgements and not ledger.requests().facts
    assert not (ledger.path / "origins/vectoradd").exists()
    assert not (ledger.path / "descriptions/vectoradd").exists()
    assert [one.login for one in ledger.moderations()] == ["bob"]
    assert len(ledger.accounts().facts) == 2
    assert "deleted" in capsys.readouterr().out
