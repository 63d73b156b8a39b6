"""What a judged board costs of the thousand requests that a token has in an hour, counted by the server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.ledger.request import Request
from tests.competition import FASTER, SOURCE, Make, Scene, cases_of, judgement_of, path_of, the_board
from tests.github_server import Pull, Run

CLAIM = 12
"""Requests for one judged board, from the pull request's opening to its merge and publication."""


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
        """What resolve and report cost."""
        resolved = self.of(lambda: self.scene.resolve(run))
        self.scene.judge(run, make)
        reported = self.of(lambda: self.scene.report(run))
        self.scene.world.finish_run(run, "success")
        return resolved, reported

    def of_first(self, make: Make, source: bytes = SOURCE, **how: object) -> tuple[int, int, int]:
        """What intake, resolve and report cost, for a pull request of alice's with one board."""
        self.scene.world.open_pull(self.scene.alice, {path_of("alice"): source}, **how)  # type: ignore[arg-type]
        heard = self.of(self.scene.intake)
        (run,) = self.scene.waiting()
        return heard, *self.of_run(run, make)


@pytest.fixture
def meter(scene: Scene) -> Meter:
    return Meter(scene)


def test_a_first_submission_costs_twelve_requests(scene: Scene, meter: Meter) -> None:
    assert sum(meter.of_first(scene.honest())) == CLAIM
    (pull,) = scene.world.pulls.values()
    assert pull.merged_at and scene.runs("publish.yml")


def test_each_of_the_twelve_has_its_reason(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest())
    assert [(entry.route or "").replace("/repos/{owner}/{repo}", "") for entry in scene.server.rest_requests()] == [
        # intake
        "POST /issues/{issue_number}/comments",
        "POST /actions/workflows/{workflow_id}/dispatches",
        # resolve: still open, ready, and the same head?
        "GET /pulls/{pull_number}",
        "POST /check-runs",
        # report: when the job ran by GitHub's clock, and what it has left
        "GET /actions/runs/{run_id}/jobs",
        "GET /actions/artifacts/{artifact_id}/{archive_format}",
        "PATCH /check-runs/{check_run_id}",
        # others write to the comment, too
        "GET /issues/{issue_number}/comments",
        "PATCH /issues/comments/{comment_id}",
        # still open, and for the same branch?
        "GET /pulls/{pull_number}",
        "PUT /pulls/{pull_number}/merge",
        "POST /actions/workflows/{workflow_id}/dispatches",
    ]


def test_what_is_judged_and_refused_costs_nine(scene: Scene, meter: Meter) -> None:
    assert meter.of_first(scene.honest(wrong="line 2: output[3] is 1, expected 2")) == (2, 2, 5)


def test_a_draft_costs_nine(scene: Scene, meter: Meter) -> None:
    assert meter.of_first(scene.honest(), draft=True) == (2, 2, 5)


def test_an_entry_that_improves_nothing_costs_ten(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(ratio=0.5))
    assert meter.of_first(scene.honest(ratio=0.8), FASTER + b"# slower\n") == (2, 2, 6)


def test_a_better_entry_costs_as_much_as_the_first(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(ratio=0.5))
    assert sum(meter.of_first(scene.honest(ratio=0.3), FASTER)) == CLAIM


def test_a_push_costs_one_more_for_the_comment_that_is_there(scene: Scene, meter: Meter) -> None:
    meter.of_first(scene.honest(wrong="no"))
    (pull,) = scene.world.pulls.values()
    scene.world.push(pull, {path_of("alice"): FASTER})
    heard = meter.of(scene.intake)
    (run,) = scene.waiting()
    assert heard + sum(meter.of_run(run, scene.honest())) == CLAIM + 1


def test_what_intake_refuses_costs_two(scene: Scene, meter: Meter) -> None:
    scene.world.open_pull(scene.alice, {path_of("alice"): b"x = 1\n"})
    assert meter.of(scene.intake) == 2
    assert not scene.waiting()


def test_what_is_no_submission_costs_at_most_one(scene: Scene, meter: Meter) -> None:
    scene.world.open_pull(scene.alice, {"README.md": b"Better.\n"})
    assert meter.of(scene.intake) <= 1


def test_two_boards_of_one_pull_request_cost_less_than_twice_as_much(scene: Scene, meter: Meter) -> None:
    pull = two_boards(scene)
    heard = meter.of(scene.intake)
    costs = [meter.of_run(run, of_its_board(scene)) for run in scene.waiting()]
    assert pull.merged_at and len(scene.judgements()) == 2
    assert heard == 3
    assert heard + sum(map(sum, costs)) < 2 * CLAIM


def two_boards(scene: Scene) -> Pull:
    """A pull request in a competition that judges on two kinds of machine."""
    scene.root = scene.copy_of_main()
    settings = scene.root / ".github/pullrank.yml"
    settings.write_text(
        settings.read_text().replace("\ngpus:\n", "\ngpus:\n  H100:\n    runs_on: h100\n    device: CPU\n")
    )
    return scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})


def of_its_board(scene: Scene) -> Make:
    def make(request: Request, run: Run) -> object:
        board = the_board().task.board(request.gpu)
        # Slow enough to be possible: a time below a GPU's floor is held back.
        cases = tuple(cases_of(board, request.mode, 500.0))
        return judgement_of(request, scene.run_url(run), edition=board.edition, cases=cases)

    return make  # type: ignore[return-value]
