"""One call of a whole competition fails, each call in turn and in each way: the next reconcile repairs everything.

    open ─▶ intake ─▶ resolve ─▶ judge ─▶ report        one call fails, or that and all later ones of its step
         ─▶ reconcile, and the runs that it starts      until nothing is left to do
         ─▶ judged once, merged, one comment, published

The tests never wait: they skip the client's sleeps, and a machine that answers too late is given up at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from scripts.github.gh import GitHub
from tests.competition import SOURCE, Make, Scene, digest_of, path_of
from tests.github_server import Failure, Pull, Run, Way

pytestmark = pytest.mark.judges_nothing

API, GIT, PUSH = "* /[rg]*/*", "* */kernels.git/*", "POST */kernels.git/git-receive-pack"
CALLS = 12
"""The calls of a first submission; see test_requests_per_board.py."""
RECONCILING = 28
"""The calls of one run of the reconciler that makes a lost request, delivers a judgement and ends a closed request."""
GIT_CALLS = 50
ROUNDS = 4
TOO_LATE_S = 3

OUTAGE = "an outage"
ONCE = {
    "502 after it was done": Failure(status=502, is_done=True),
    "500": Failure(status=500),
    "secondary limit": Failure(way=Way.SECONDARY_LIMIT, retry_after=30),
    "429": Failure(status=429, retry_after=30),
    "reset": Failure(way=Way.RESET),
    "reset after it was done": Failure(way=Way.RESET, is_done=True),
    "no answer": Failure(way=Way.SILENCE, seconds=2 * TOO_LATE_S),
}
WRITES = (1, 2, 3, 7, 9, 11, 12)
"""The calls of a first submission that matter differently if they took effect before they failed."""
IN_OTHER_WAYS = [(8, "500"), (3, "429"), (4, "reset"), (9, "reset after it was done"), (12, "no answer")]
"""How the client handles each failure is in test_gh.py; see also the last test here."""


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr("scripts.ledger.branch.time", SimpleNamespace(sleep=lambda seconds: None))
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


# A competition in which steps may fail.


def step(scene: Scene, do: partial[object]) -> bool:
    """Whether a step succeeded.  An outage ends with the step where it began."""
    before = len(scene.server.log)
    ended = do()
    rules = scene.server.failures
    if any(entry.status == 0 or entry.status >= 500 for entry in scene.server.log[before:]):
        rules.clear()
    return ended in (0, None)


def judged(scene: Scene, run: Run, make: Make) -> None:
    """A run of evaluate.yml: its jobs, with the workflow's conditions."""
    is_resolved = step(scene, partial(scene.resolve, run))
    wanted = scene.resolved.get(run.id, {}).get("wanted") == "true"
    if wanted and is_resolved:
        scene.judge(run, make)
    is_reported = not wanted or step(scene, partial(scene.report, run))
    scene.world.finish_run(run, "success" if is_resolved and is_reported else "failure")


def whole_story(scene: Scene, make: Make) -> Pull:
    """A first submission, then the reconciler until it finds nothing to do."""
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    step(scene, partial(scene.intake))
    for round_ in range(ROUNDS):
        for run in scene.waiting():
            judged(scene, run, make)
        before = len(scene.server.requests("P*")), len(scene.runs())
        step(scene, partial(scene.reconcile, after=timedelta(minutes=10 * (round_ + 1))))
        if before == (len(scene.server.requests("P*")), len(scene.runs())):
            break
    return pull


def assert_whole(scene: Scene, pull: Pull) -> None:
    assert [one.submission.digest for one in scene.judgements()] == [digest_of(SOURCE)]
    assert pull.merged_at and scene.world.git.read("main", path_of("alice")) == SOURCE
    assert "rank 1 of 1" in scene.comment(pull.number)  # which is the only one
    assert scene.checks() == ["PullRank / CPU: success"]
    assert scene.runs("publish.yml") and not scene.waiting()
    assert not [status for status in scene.ledger().values() if status.is_open]


def break_call(scene: Scene, pattern: str, nth: int, how: str) -> None:
    failure, times = (Failure(status=503), 1000) if how == OUTAGE else (ONCE[how], 1)
    scene.server.fail(pattern, failure, nth=nth, times=times)


# Each call in turn.


def test_a_submission_without_failures_makes_the_expected_number_of_calls(scene: Scene) -> None:
    pull = scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    scene.intake()
    judged(scene, scene.waiting()[0], scene.honest())
    assert pull.merged_at
    calls = scene.server.requests(API)
    assert len(calls) == CALLS
    assert [nth for nth, call in enumerate(calls, 1) if call.route and call.method != "GET"] == list(WRITES)
    assert len(scene.server.requests(GIT)) <= GIT_CALLS


def sampled() -> list[tuple[int, str]]:
    """An outage at every call; a lost answer at every write; every other way once, at calls of every kind."""
    outages = [(nth, OUTAGE) for nth in range(1, CALLS + 1)]
    return [*outages, *((nth, "502 after it was done") for nth in WRITES), *IN_OTHER_WAYS]


@pytest.mark.parametrize(("nth", "how"), sampled())
def test_the_bot_recovers_from_a_failed_api_call(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, nth: int, how: str
) -> None:
    if how == "no answer":
        monkeypatch.setattr("scripts.github.gh.GitHub", partial(GitHub, timeout_s=TOO_LATE_S))
    break_call(scene, API, nth, how)
    assert_whole(scene, whole_story(scene, scene.honest()))


def test_the_bot_recovers_from_an_outage_of_artifact_storage(scene: Scene) -> None:
    break_call(scene, "GET /artifacts/*", 1, OUTAGE)
    assert_whole(scene, whole_story(scene, scene.honest()))


@pytest.mark.parametrize("nth", [3, 12, 21, 30, 39])
def test_the_bot_recovers_from_an_outage_of_git(scene: Scene, nth: int) -> None:
    break_call(scene, GIT, nth, OUTAGE)
    assert_whole(scene, whole_story(scene, scene.honest()))


@pytest.mark.parametrize("how", [OUTAGE, "reset after it was done"])
@pytest.mark.parametrize("nth", [1, 2])
def test_the_bot_recovers_from_a_failed_push(scene: Scene, nth: int, how: str) -> None:
    break_call(scene, PUSH, nth, how)
    assert_whole(scene, whole_story(scene, scene.honest()))


# The reconciler's own calls.


def missed(scene: Scene) -> tuple[Pull, Pull, Pull]:
    """Three pull requests: one whose event was lost, one judged but not delivered, one closed while it waits."""
    judged_one, closed, unheard = (
        scene.world.open_pull(author, {path_of(author.login): SOURCE + f"# {author.login}\n".encode()})
        for author in (scene.alice, scene.world.add_user("bob"), scene.world.add_user("carol"))
    )
    scene.events.pop()
    scene.intake()
    first = next(run for run in scene.waiting() if run.inputs["request"].startswith(f"{judged_one.number}-"))
    scene.evaluate(first, scene.honest(), report=False)
    scene.world.close(closed)
    scene.events.clear()
    return judged_one, closed, unheard


def made_up_for(scene: Scene) -> None:
    """Run the reconciler, before and after the judge works off the queue."""
    for round_ in range(1, ROUNDS + 1):
        step(scene, partial(scene.reconcile, after=timedelta(minutes=10 * round_)))
        for run in scene.waiting() if round_ > 1 else ():
            judged(scene, run, scene.honest(ratio=0.6))


def assert_made_up_for(scene: Scene, judged_one: Pull, closed: Pull, unheard: Pull) -> None:
    assert judged_one.merged_at and unheard.merged_at and not closed.merged_at
    assert sorted(one.submission.login for one in scene.judgements()) == ["alice", "carol"]
    assert [status.is_open for status in scene.ledger().values()] == [False] * 3
    assert "rank 1 of" in scene.comment(judged_one.number) and "rank 2 of 2" in scene.comment(unheard.number)
    assert "cancelled" in scene.comment(closed.number)
    assert sorted(scene.checks()) == ["PullRank / CPU: cancelled", *["PullRank / CPU: success"] * 2]
    assert scene.runs("publish.yml") and not scene.waiting()


def test_the_reconciler_makes_up_for_everything_missed(scene: Scene) -> None:
    pulls = missed(scene)
    before = len(scene.server.requests(API))
    assert scene.reconcile(after=timedelta(minutes=10)) == 0
    assert len(scene.server.requests(API)) - before == RECONCILING
    made_up_for(scene)
    assert_made_up_for(scene, *pulls)


@pytest.mark.parametrize(
    ("nth", "how"),
    [
        *((nth, OUTAGE) for nth in (4, 9, 15, 21, 27)),  # reading, delivering, commenting, ending, requesting
        *((nth, "502 after it was done") for nth in (18, 25)),  # stopping a run, a first comment
    ],
)
def test_the_reconciler_recovers_from_a_failed_call(scene: Scene, nth: int, how: str) -> None:
    pulls = missed(scene)
    break_call(scene, API, nth, how)
    made_up_for(scene)
    assert_made_up_for(scene, *pulls)


# A line is annotated once.


@pytest.mark.parametrize("how", [OUTAGE, "502 after it was done"])
def test_a_wrong_line_is_annotated_once_despite_a_failed_call(scene: Scene, how: str) -> None:
    break_call(scene, "PATCH */check-runs/*", 1, how)
    pull = whole_story(scene, scene.honest(wrong="line 2: output[3] is 1, expected 2"))
    (check,) = scene.world.checks.values()
    assert check.conclusion == "failure" and len(check.annotations) == 1
    assert "output[3] is 1, expected 2" in scene.comment(pull.number)


def test_the_client_waits_as_long_as_it_is_asked_to(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=waited.append))
    break_call(scene, API, 1, "secondary limit")
    assert_whole(scene, whole_story(scene, scene.honest()))
    assert waited == [30]
