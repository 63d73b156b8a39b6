"""Judge a task's own examples, one after the other, in one sandbox.

accepted      build, tests and benchmarks against the anchor: two pairs of runs, enough to check the outputs and to
              estimate times, but not for ranking
the anchor    build and tests only, if its benchmarks were already played and checked against another accepted
              example; otherwise its benchmarks, too, against itself; with a task's own program, as any accepted one
all others    build and tests until one fails, then benchmarks if all are accepted: it may be too slow only there
skipped       examples that need a missing package or program, or whose directive `gpus` names other boards only
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from harness.judge import JudgeSession
from harness.records.errors import PullRankError, SubmissionError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.progress import OnProgress
from harness.records.verdict import Verdict
from harness.task.submission import Submission, read_directives, read_submission
from harness.task.task import Board, Example
from harness.task_check.needs import why_skipped

_PAIRS = 2
"""Pairs of runs per benchmark, in mirrored order."""


@dataclass(frozen=True, kw_only=True)
class ExampleOutcome:
    """Result of one example: a judgement, an error, or the reason why it was skipped."""

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
    def is_good(self) -> bool:
        return self.got is self.example.verdict and not self.error

    @property
    def exit_code(self) -> int:
        if self.error:
            return self.error.exit_code
        return 0 if self.is_good or self.skipped else 3 if self.got is Verdict.JUDGING_ERROR else 1

    @property
    def message(self) -> str:
        return self.judgement.message if self.judgement else self.skipped or str(self.error)


def judge_examples(
    board: Board,
    *,
    sandbox: str = "auto",
    meanwhile: Callable[[], bool] = lambda: True,
    on_begin: Callable[[Example], None] = lambda _: None,
    on_progress: OnProgress | None = None,
) -> Iterator[ExampleOutcome]:
    """Judge all examples of a board's task, the anchor last.  An error in one does not stop the others.

    Args:
        meanwhile: called while the sandbox starts, which takes seconds; if it returns False, nothing is judged.
    """
    is_anchor_timed = False
    with JudgeSession(board, sandbox=sandbox, on_progress=on_progress) as session:
        session.begin()
        if not meanwhile():
            return
        for example in sorted(board.task.examples, key=lambda one: one.path == board.task.anchor):
            on_begin(example)
            is_anchor = example.path == board.task.anchor
            done = _judge(session, example, (Mode.TEST,) if is_anchor and is_anchor_timed else _modes(example))
            # Only the referee plays the anchor against an example.
            is_anchor_timed = is_anchor_timed or (board.task.is_refereed and done.got is Verdict.ACCEPTED)
            yield done


def why_not_here(submission: Submission, board: Board) -> str:
    """Why an example cannot be judged on this board and machine; "" if it can."""
    return _why_elsewhere(submission, board) or why_skipped(submission)


def _why_elsewhere(submission: Submission, board: Board) -> str:
    try:
        gpus = read_directives(submission.text, submission.name).gpus
    except SubmissionError:
        return ""  # the judge reports the invalid directive
    return f"for {' and '.join(gpus)} only" if gpus and board.gpu not in gpus else ""


def _modes(example: Example) -> tuple[Mode, ...]:
    """The modes to judge it in, one after the other, for as long as it is accepted."""
    return (Mode.BENCHMARK,) if example.verdict is Verdict.ACCEPTED else (Mode.TEST, Mode.BENCHMARK)


def _judge(session: JudgeSession, example: Example, modes: Sequence[Mode]) -> ExampleOutcome:
    began = time.monotonic()
    judgement, error, skipped = None, None, ""
    try:
        submission = read_submission(example.path, login="example")
        if not (skipped := why_not_here(submission, session.board)):
            for mode in modes:
                judgement = session.judge(submission, mode, pairs=_PAIRS, until_failure=True)
                if judgement.verdict is not Verdict.ACCEPTED:
                    break
    except PullRankError as caught:
        error = caught
    return ExampleOutcome(
        example=example, seconds=time.monotonic() - began, judgement=judgement, error=error, skipped=skipped
    )
