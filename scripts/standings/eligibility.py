"""The judgements that count on a board: accepted, in the sandbox, of its edition, on its cases.

All of them rank but those of baselines, which only have a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.stats import MIN_PAIRS
from harness.records.verdict import Verdict
from harness.task.task import Board


def counted(board: Board, judgements: Sequence[Judgement], *, allow_unwalled: bool = False) -> list[Judgement]:
    """The judgements that count on a board as it is now; arguments as for `standings`."""
    cases = [shape(case.params) for case in board.benchmarks]
    return [one for one in judgements if _counts(one, board, cases, allow_unwalled)]


def ranking(board: Board, judgements: Sequence[Judgement]) -> list[Judgement]:
    """The judgements that rank on a board as it is now."""
    return [one for one in counted(board, judgements) if not one.baseline]


def _counts(judgement: Judgement, board: Board, cases: list[dict[str, Any]], allow_unwalled: bool) -> bool:
    is_own = allow_unwalled and judgement.mode is Mode.RANKED and judgement.verdict is Verdict.ACCEPTED
    if not (judgement.is_rankable or is_own):
        return False
    if (judgement.task, judgement.gpu, judgement.edition) != (board.task.name, board.gpu, board.edition):
        return False
    # An edition fixes the cases: with other cases it is not a judgement of this board, whatever it claims.
    if [shape(case.params) for case in judgement.benchmarks] != cases:
        return False
    # Times from a task's program do not count on a refereed board, and vice versa.
    if not board.task.is_refereed:
        return all(case.told for case in judgement.benchmarks)
    # With fewer pairs, the interval is too narrow.
    return all(case.timing and len(case.timing.submission) >= MIN_PAIRS for case in judgement.benchmarks)


def shape(params: Mapping[str, Any]) -> dict[str, Any]:
    """A case's parameters without the seed, which ranked runs draw at random."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in params.items() if key != "seed"}
