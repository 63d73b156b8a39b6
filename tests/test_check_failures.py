"""One call of a `/check` fails, each call in turn: the next `/check` reports everything once.

Nothing reconciles checks: the maintainer who asked for one sees that its run failed, and asks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.competition import Scene
from tests.github_server import Failure, Pull, Run, Way
from tests.test_ci_check import FIT, RIGHT, ask, asked, comments, files_of, zipped

API = "* /[rg]*/*"
CALLS = 9
"""The calls of a check of one task, after intake."""
HOW = {
    "an outage": (Failure(status=503), 1000),
    "502 after it was done": (Failure(status=502, is_done=True), 1),
    "reset after it was done": (Failure(way=Way.RESET, is_done=True), 1),
}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr("scripts.ledger.branch.time", SimpleNamespace(sleep=lambda seconds: None))
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def step(scene: Scene, job: str, *arguments: str, **environment: str) -> bool:
    """Whether a step of a job succeeded.  An outage ends with the step where it began."""
    code = scene.step(*arguments, workflow="check.yml", job=job, **environment)
    if any(entry.status >= 500 for entry in scene.server.log[-3:]):
        scene.server.failures.clear()
    return code == 0


def play(scene: Scene, run: Run) -> None:
    """A run of check.yml, without the judge's own job, which makes no calls to GitHub."""
    is_prepared = step(scene, "prepare", "prepare-check", "--out", str(scene.folder / f"bundle-{run.id}"), **asked(run))
    if is_prepared:
        lines = b"".join(result.to_line() for result in (FIT, *RIGHT))
        scene.world.add_artifact(run, "checked", zipped(lines, "checked.jsonl"))
    step(scene, "report", "report-check", **asked(run, CHECK="success" if is_prepared else "skipped"))
    scene.world.finish_run(run, "success")


def assert_whole(scene: Scene, pull: Pull) -> None:
    (body,) = comments(scene, pull)
    assert "2 of 2 examples got the verdict of their folder" in body
    assert scene.checks()[-1] == "PullRank / tasks: success"
    assert all(check.status == "completed" for check in scene.world.checks.values())


def test_a_check_without_failures_makes_the_expected_number_of_calls(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    before = len(scene.server.requests(API))
    play(scene, run)
    assert_whole(scene, pull)
    assert len(scene.server.requests(API)) - before == CALLS


def sampled() -> list[tuple[int, str]]:
    """Every call fails in the worst way, and also in one of the other ways, in turn."""
    worst, *others = HOW
    return [(nth, how) for nth in range(1, CALLS + 1) for how in (worst, others[nth % len(others)])]


@pytest.mark.parametrize(("nth", "how"), sampled())
def test_the_next_check_recovers_from_a_failed_call(scene: Scene, nth: int, how: str) -> None:
    pull, run = ask(scene, files_of("tiny"))
    failure, times = HOW[how]
    scene.server.fail(API, failure, nth=nth, times=times)
    play(scene, run)
    scene.server.failures.clear()
    scene.world.add_comment(pull.number, scene.world.owner, "/check")
    scene.intake()
    play(scene, scene.runs("check.yml")[-1])
    assert_whole(scene, pull)
