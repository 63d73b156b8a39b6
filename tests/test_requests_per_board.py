"""The number of requests for judging one board, out of a token's thousand an hour; the server counts.

GitHub counts GraphQL queries separately: a token also has a thousand of these an hour.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.competition import FASTER, SOURCE, Make, Scene, of_its_board, path_of, two_boards
from tests.github_server import Run

CLAIM = 9
"""The requests for one judged board, from a new pull request or a push to merge and publication."""
QUERIES = 4
"""The queries: for the pull request, twice, and for the comment, twice after a push."""
COMMAND = 1
"""The request for a command: the reaction to it."""


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


class Meter:
    """Counts the requests of each step."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    def of(self, step: Callable[[], object]) -> int:
        before = len(self.scene.server.rest_requests())
        assert not step()
        return len(self.scene.server.rest_requests()) - before

    def of_run(self, run: Run, make: Make) -> tuple[int, int]:
        """The requests of resolve and report."""
        resolved = self.of(lambda: self.scene.resolve(run))
        self.scene.judge(run, make)
        reported = self.of(lambda: self.scene.report(run))
        self.scene.world.finish_run(run, "success")
        return resolved, reported

    def of_first(self, make: Make, source: bytes = SOURCE, **how: object) -> tuple[int, int, int]:
        """The requests of intake, resolve and report, for a pull request of alice's with one board."""
        self.scene.world.open_pull(self.scene.alice, {path_of("alice"): source}, **how)  # type: ignore[arg-type]
        heard = self.of(self.scene.intake)
        (run,) = self.scene.waiting()
        return heard, *self.of_run(run, make)


@pytest.fixture
def meter(scene: Scene) -> Meter:
    return Meter(scene)


def test_a_first_submission_costs_nine_requests_and_three_queries(scene: Scene, meter: Meter) -> None:
    assert sum(meter.of_first(scene.honest())) == CLAIM
    assert len(scene.server.queries()) == QUERIES - 1
    (pull,) = scene.world.pulls.values()
    assert pull.merged_at and scene.runs("publish.yml")


def test_a_first_submission_makes_only_the_expected_requests(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest())
    api = [entry for entry in scene.server.log if entry.route or entry in scene.server.queries()]
    assert [(entry.route or str(entry)).replace("/repos/{owner}/{repo}", "") for entry in api] == [
        # intake
        "POST /issues/{issue_number}/comments",
        "POST /actions/workflows/{workflow_id}/dispatches",
        # resolve
        "POST /check-runs",
        # report: the job's times by GitHub's clock, and its artifacts
        "GET /actions/runs/{run_id}/jobs",
        "GET /actions/artifacts/{artifact_id}/{archive_format}",
        # still open, ready, and for the same branch?
        "POST /graphql/Pull/1",
        "PATCH /check-runs/{check_run_id}",
        # others may have written to the comment
        "POST /graphql/Comments/1",
        "PATCH /issues/comments/{comment_id}",
        # again, since its author can change its target at any time
        "POST /graphql/Pull/1",
        "PUT /pulls/{pull_number}/merge",
        "POST /actions/workflows/{workflow_id}/dispatches",
    ]


def test_a_wrong_answer_costs_seven_requests(scene: Scene, meter: Meter) -> None:
    assert meter.of_first(scene.honest(wrong="line 2: output[3] is 1, expected 2")) == (2, 1, 4)


def test_a_draft_costs_seven_requests(scene: Scene, meter: Meter) -> None:
    assert meter.of_first(scene.honest(), draft=True) == (2, 1, 4)


def test_an_entry_that_improves_nothing_costs_eight_requests(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(ratio=0.5))
    assert meter.of_first(scene.honest(ratio=0.8), FASTER + b"# slower\n") == (2, 1, 5)


def test_a_late_event_costs_one_more_query(scene: Scene, meter: Meter) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    opened = scene.events[-1].payload["pull_request"]
    opened["updated_at"] = "2026-01-01T00:00:00Z"
    assert meter.of(scene.intake) == 2
    assert len(scene.server.queries()) == 1


def test_a_better_entry_costs_as_much_as_the_first(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(ratio=0.5))
    assert sum(meter.of_first(scene.honest(ratio=0.3), FASTER)) == CLAIM


def again(scene: Scene, meter: Meter) -> int:
    """The requests of another event, for a board that was judged before."""
    heard = meter.of(scene.intake)
    (run,) = scene.waiting()
    return heard + sum(meter.of_run(run, scene.honest()))


def test_a_push_costs_nine_requests_and_one_more_query(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(wrong="no"))
    (pull,) = scene.world.pulls.values()
    scene.world.push(pull, {path_of("alice"): FASTER})
    before = len(scene.server.queries())
    assert again(scene, meter) == CLAIM
    assert len(scene.server.queries()) - before == QUERIES
    assert pull.merged_at


def test_a_draft_that_becomes_ready_costs_nine_requests(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(), draft=True)
    (pull,) = scene.world.pulls.values()
    scene.world.mark_ready(pull)
    assert again(scene, meter) == CLAIM
    assert pull.merged_at


def test_stopping_a_waiting_benchmark_costs_two_more_requests(scene: Scene, meter: Meter) -> None:
    pull = scene.submit(scene.alice, SOURCE, draft=True)
    scene.world.mark_ready(pull)
    assert again(scene, meter) == CLAIM + 2
    assert pull.merged_at


def test_a_push_that_replaces_a_waiting_run_costs_nine_requests(scene: Scene, meter: Meter) -> None:
    pull = scene.submit(scene.alice, SOURCE)
    (older,) = scene.waiting()
    scene.world.push(pull, {path_of("alice"): FASTER})
    heard = meter.of(scene.intake)
    assert older.status == "queued"
    scene.world.finish_run(older, "cancelled")  # as GitHub does for its group
    (run,) = scene.waiting()
    assert heard + sum(meter.of_run(run, scene.honest())) == CLAIM
    assert pull.merged_at


@pytest.mark.parametrize("command", ["/rerun", "/rank", "/benchmark gpu=CPU"])
def test_a_command_costs_at_most_one_more_request(scene: Scene, meter: Meter, command: str) -> None:
    meter.of_first(scene.honest(wrong="no"))
    (pull,) = scene.world.pulls.values()
    scene.world.add_comment(pull.number, scene.alice, command)
    assert again(scene, meter) <= CLAIM + COMMAND


def test_a_refusal_by_intake_costs_one_request_and_one_query(scene: Scene, meter: Meter) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): b"x = 1\n"})
    assert meter.of(scene.intake) == len(scene.server.queries()) == 1
    assert not scene.waiting()


def test_a_refusal_by_resolve_costs_five_requests(scene: Scene, meter: Meter) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})
    heard = meter.of(scene.intake)
    scene.root = scene.copy_of_main()
    shutil.rmtree(scene.root / "tasks/vectoradd")
    (run,) = scene.waiting()
    costs = heard, meter.of(lambda: scene.resolve(run)), meter.of(lambda: scene.report(run))
    assert costs == (2, 0, 3) and "no longer exists" in scene.comment(1)


def test_a_pull_request_without_a_submission_costs_at_most_one_request(scene: Scene, meter: Meter) -> None:
    scene.world.open_pull(scene.alice, {"README.md": b"Better.\n"})
    assert meter.of(scene.intake) <= 1


def test_two_boards_of_one_pull_request_cost_less_than_twice_as_much(scene: Scene, meter: Meter) -> None:
    pull = two_boards(scene)
    heard = meter.of(scene.intake)
    costs = [meter.of_run(run, of_its_board(scene)) for run in scene.waiting()]
    assert pull.merged_at and len(scene.judgements()) == 2
    assert heard == 3
    assert heard + sum(map(sum, costs)) < 2 * CLAIM
