"""Requests that may no longer be judged when their turn comes: each ends, and its author reads why, once."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.records.fields import Mode
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import EndState, make_id
from tests.competition import FASTER, SOURCE, Scene, path_of

Harm = Callable[[Scene], object]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        made.root = made.copy_of_main()
        yield made


def write(scene: Scene, place: str, old: str, new: str) -> None:
    path = scene.root / place
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def decide(scene: Scene, action: Action) -> None:
    with LedgerBranch(str(scene.world.git.path)) as branch:
        at = datetime.now(UTC).replace(microsecond=0)
        fields = {"id": f"m-{action}", "user_id": scene.alice.id, "reason": "copied", "by": 1, "at": at}
        branch.ledger.append_fact(Moderation(action=action, **fields))
        branch.commit(action)


def close(scene: Scene) -> None:
    write(scene, "tasks/vectoradd/task.yml", "\ngpus:", "\ndeadline: 2026-01-01T00:00:00Z\ngpus:")


HARMS: list[tuple[str, Harm, str]] = [
    ("banned", lambda scene: decide(scene, Action.BAN), "not judged: `copied`. Ask a maintainer."),
    ("closed", close, "`vectoradd` closed at 2026-01-01 00:00 UTC. `/test` still works."),
    ("no machine", lambda scene: write(scene, ".github/pullrank.yml", "\n  CPU:", "\n  H100:"), "longer a machine for"),
    ("no board", lambda scene: write(scene, "tasks/vectoradd/task.yml", "CPU", "CPU-2"), "no longer has a board `CPU`"),
    ("no task", lambda scene: (scene.root / "tasks/vectoradd").rename(scene.root / "tasks/gone"), "no longer exists"),
]  # fmt: skip


@pytest.mark.parametrize(("harm", "words"), [row[1:] for row in HARMS], ids=[row[0] for row in HARMS])
def test_a_refused_request_ends_and_its_author_reads_why(scene: Scene, harm: Harm, words: str) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    harm(scene)
    scene.evaluate(scene.waiting()[0], scene.honest())
    told = scene.comment(pull.number)
    assert "> [!WARNING]\n> **Not judged.** " in told and words in told
    assert "| ⚪\u00a0`CPU` | ranked | not judged: `" in told
    (status,) = scene.ledger().values()
    assert status.ending and status.ending.state is EndState.REFUSED and words in status.ending.note
    assert scene.checks() == ["PullRank / CPU: neutral"] and not scene.judgements()


def test_a_new_push_after_an_unban_is_judged_and_the_refusal_disappears(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    decide(scene, Action.BAN)
    scene.evaluate(scene.waiting()[0], scene.honest())
    told = scene.comment(pull.number)
    capsys.readouterr()
    scene.reconcile(after=timedelta(hours=1))
    assert capsys.readouterr().out == "started to publish the site\n"  # after the ban
    assert scene.comment(pull.number) == told and not scene.waiting()
    decide(scene, Action.UNBAN)
    scene.world.push(pull, {path_of("alice"): FASTER})
    scene.intake()
    assert "Not judged" not in scene.comment(pull.number)
    scene.evaluate(scene.waiting()[0], scene.honest())
    assert "rank 1 of 1" in scene.comment(pull.number)


def test_one_board_is_refused_and_the_other_judged(scene: Scene) -> None:
    write(scene, ".github/pullrank.yml", "\ngpus:\n", "\ngpus:\n  H100:\n    runs_on: h100\n    device: CPU\n")
    pull = scene.submit(scene.alice, SOURCE)
    of_cpu, of_h100 = sorted(scene.waiting(), key=lambda run: run.inputs["request"])
    write(scene, ".github/pullrank.yml", "\n  H100:\n    runs_on: h100\n    device: CPU\n", "\n")
    scene.evaluate(of_h100, scene.honest())
    scene.evaluate(of_cpu, scene.honest())
    told = scene.comment(pull.number)
    assert "🟢\u00a0`CPU` | ranked | accepted (AC), rank 1 of 1 |" in told
    assert (
        "⚪\u00a0`H100` | ranked | not judged: `There is no longer a machine for 'H100' here. Ask a maintainer.` |"
        in told
    )


def test_a_refused_request_that_ended_meanwhile_gets_no_report(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    (run,) = scene.waiting()
    decide(scene, Action.BAN)
    assert scene.resolve(run) == 0
    scene.world.push(pull, {path_of("alice"): FASTER})
    decide(scene, Action.UNBAN)
    scene.intake()
    before = scene.comment(pull.number)
    assert scene.report(run) == 0
    assert "already ended; nothing to report" in capsys.readouterr().out
    assert scene.comment(pull.number) == before and scene.checks() == []


def test_a_refused_rematch_does_not_change_the_comment(scene: Scene) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    scene.evaluate(scene.waiting()[0], scene.honest())
    before = scene.comment(pull.number)
    (status,) = scene.ledger().values()
    again = make_id(pull.number, pull.head_sha, "CPU", Mode.RANKED, 2)
    changes = {"id": again, "asked_by": ACTIONS_BOT.id, "reason": "its duel is due"}
    request = status.request.model_copy(update=changes)
    with LedgerBranch(str(scene.world.git.path)) as branch:
        branch.ledger.append_request(request)
        branch.commit("rematch")
    decide(scene, Action.BAN)
    run = scene.world.start_run("evaluate.yml", "workflow_dispatch", inputs={"request": again})
    scene.evaluate(run, scene.honest())
    assert scene.ledger()[again].ending.state is EndState.REFUSED  # type: ignore[union-attr]
    assert scene.comment(pull.number) == before
