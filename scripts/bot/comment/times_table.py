"""A judgement's times as a table: each benchmark and their mean, compared with those of its rivals.

    | Benchmark      |            Time |   Your last | First place | Speedup vs anchor |
    | `size: 1024`   | 40.00 µs ±0.4 % | **−12.3 %** |    ≈ +0.2 % |             2.50× |
    | geometric mean | …

`≈` marks differences within the noise, by the same rule that makes rows tied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.records.judgement import CaseResult, Judgement
from harness.records.stats import Interval, score, tied
from harness.task.task import Board
from scripts.bot.comment.markdown import case_name, first_paragraph, solid, table
from scripts.bot.comment.rivals import Rival, find_rivals, measured
from scripts.common.text import format_gap, format_interval, format_us, inline
from scripts.standings.case_times import CaseTime
from scripts.standings.eligibility import shape
from scripts.standings.standings import Standings

MAX_CASES = 40
"""Maximum number of rows in a table."""
MAX_NOTES = 8

_LEGEND = "<sub>Compared with others: minus is faster, ≈ is within the noise.</sub>"
_MEANS: Mapping[str, str] = {"geom": "**geometric mean**", "mean": "**mean**"}


def benchmarks(
    judgement: Judgement, board: Board, standings: Standings | None, earlier: Sequence[Judgement] = ()
) -> str:
    """The table with remarks below it; empty if nothing was timed.

    Args:
        standings: those that include this judgement; without them there is nothing to compare with.
        earlier: the author's judgements on this board, in ledger order.
    """
    cases = judgement.benchmarks[:MAX_CASES]
    if not cases:
        return ""
    rivals = find_rivals(judgement, standings, earlier) if standings else ()
    times = [measured(case, _nominal_us(case, board, standings)) for case in cases]
    rows = [_row(case, time, rivals) for case, time in zip(cases, times, strict=True)]
    known = [time for time in times if time]
    if len(known) == len(board.benchmarks) > 1 and board.ranking_by in _MEANS:
        rows.append(_together(known, rivals, board.ranking_by))
    time, last = ("Time:", "Speedup vs anchor:") if board.task.is_refereed else ("Time, self-timed:", "Best call:")
    shown = table(("Benchmark", time, *(f"{rival.name}:" for rival in rivals), last), rows)
    return "\n\n".join([shown, *([_LEGEND] if rivals and known else []), *_notes(cases)])


def _nominal_us(case: CaseResult, board: Board, standings: Standings | None) -> float | None:
    known = zip(board.benchmarks, standings.nominal_us if standings else (), strict=False)
    return next((us for one, us in known if shape(one.params) == shape(case.params)), None)


def _row(case: CaseResult, time: CaseTime | None, rivals: Sequence[Rival]) -> tuple[str, ...]:
    if not time:
        return _name(case), case.verdict, *("" for _ in rivals), first_paragraph(case.message)
    others = (rival.find_case(case.params) for rival in rivals)
    gaps = (_against(time.time_us, other.time_us if other else None) for other in others)
    best_us = min(run.best_us for run in case.told.runs) if case.told else 0.0
    last = f"{1 / time.ratio.value:.2f}×" if time.ratio else solid(format_us(best_us))
    return _name(case), solid(format_interval(time.time_us)), *gaps, last


def _name(case: CaseResult) -> str:
    """The case's name without a seed: each timed call has its own."""
    return case_name(case.kind, {name: value for name, value in case.params.items() if name != "seed"})


def _together(times: Sequence[CaseTime], rivals: Sequence[Rival], ranking_by: str) -> tuple[str, ...]:
    own = score([time.time_us for time in times], ranking_by)
    gaps = (_against(own, rival.find_score(ranking_by, len(times))) for rival in rivals)
    return _MEANS[ranking_by], solid(format_interval(own)), *gaps, ""


def _against(own: Interval, other: Interval | None) -> str:
    if not other:
        return ""
    gap = solid(format_gap(own.value / other.value - 1))
    if tied(own, other):
        return f"≈\u00a0{gap}"
    return f"**{gap}**" if own.value < other.value else gap


def _notes(cases: Sequence[CaseResult]) -> Iterator[str]:
    unsteady = [case.timing.note for case in cases if case.timing and not case.timing.steady]
    told = [case.told.note for case in cases if case.told and case.told.note]
    yield from map(inline, list(dict.fromkeys([*unsteady, *told]))[:MAX_NOTES])
