"""A task's own examples, judged one after the other behind one set of walls.

accepted      build, tests, benchmarks beside the anchor: two pairs of runs, which show whether outputs are right and
              how long they take, and rank nobody
the anchor    build and tests: its benchmarks were played, and every output checked, beside another accepted
              example; where there is no such other, beside itself; by a task's own program, as any accepted one
all others    build and tests, and benchmarks only where these are accepted: it may be too slow on the benchmarks alone
skipped       what needs a package or a program that is not here, or is for other boards by its directive `gpus`
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.judge import OnProgress, Sitting
from harness.records.errors import PullRankError, SubmissionError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.rules.needs import why_skipped
from harness.task.submission import Submission, read_directives, read_submission
from harness.task.task import Board, Example

_PAIRS = 2
"""Of runs of each benchmark, in mirrored order."""


@dataclass(frozen=True, kw_only=True)
class Rehearsed:
    """What came of one example: a judgement, or the error that kept it from one, or why it was skipped."""

    example: Example
    seconds: float
    judgement: Judgement | None = None
    error: PullRankError | None = None
    skipped: str = ""

    @property
    def got(self) -> Verdict | None:
        """None if it was skipped."""
        if self.judgement:
            return self.judgement.verdict
        return Verdict.JUDGING_ERROR if self.error else None

    @property
    def message(self) -> str:
        return self.judgement.message if self.judgement else self.skipped or str(self.error)


def rehearse(
    board: Board,
    *,
    sandbox: str = "auto",
    meanwhile: Callable[[], bool] = lambda: True,
    on_begin: Callable[[Example], None] = lambda _: None,
    on_progress: OnProgress | None = None,
) -> Iterator[Rehearsed]:
    """Judge all examples of a board's task, the anchor last.  An error is what came of one, and the others go on.

    Args:
        meanwhile: what to do while the walls go up, which takes seconds; whether there is any sense in judging then.
    """
    is_anchor_timed = False
    with Sitting(board, sandbox=sandbox, on_progress=on_progress) as sitting:
        sitting.begin()
        if not meanwhile():
            return
        for example in sorted(board.task.examples, key=lambda one: one.path == board.task.anchor):
            on_begin(example)
            is_anchor = example.path == board.task.anchor
            done = _judge(sitting, example, (Mode.TEST,) if is_anchor and is_anchor_timed else _modes(example))
            # Only the referee plays the anchor beside another.
            is_anchor_timed = is_anchor_timed or (board.task.is_refereed and done.got is Verdict.ACCEPTED)
            yield done


def _why_elsewhere(submission: Submission, board: Board) -> str:
    """What to say of an example that is for other boards; empty for all others."""
    try:
        gpus = read_directives(submission.text, submission.name).gpus
    except SubmissionError:
        return ""  # the judge says what is wrong with them
    return f"for {' and '.join(gpus)} only" if gpus and board.gpu not in gpus else ""


def _modes(example: Example) -> tuple[Mode, ...]:
    """What to judge it in, one after the other, while it is accepted."""
    return (Mode.BENCHMARK,) if example.verdict is Verdict.ACCEPTED else (Mode.TEST, Mode.BENCHMARK)


def _judge(sitting: Sitting, example: Example, modes: Sequence[Mode]) -> Rehearsed:
    began = time.monotonic()
    judgement, error, skipped = None, None, ""
    try:
        submission = read_submission(example.path, login="example")
        if not (skipped := _why_elsewhere(submission, sitting.board) or why_skipped(submission)):
            for mode in modes:
                judgement = sitting.judge(submission, mode, pairs=_PAIRS)
                if judgement.verdict is not Verdict.ACCEPTED:
                    break
    except PullRankError as caught:
        error = caught
    return Rehearsed(
        example=example, seconds=time.monotonic() - began, judgement=judgement, error=error, skipped=skipped
    )
