"""A judgement's times as a table: each benchmark and their mean, compared with those of its rivals.

    | Benchmark      |            Time |   Your last | First place | Speedup vs anchor |
    | `size: 1024`   | 40.00 µs ±0.4 % | **−12.3 %** |    ≈ +0.2 % |             2.50× |
    | geometric mean | …

`≈` marks differences within the noise, by the same rule that makes rows tied.  If the task counts its `work`, the
throughput is below the time: `412 GB/s · 61 % of the limit`.

The rivals are the author's last judgement and best other file, and first place if it is another's.  Each time is the
ratio to the anchor multiplied by the anchor's usual time on this board, so that differences between judging machines
cancel out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records.judgement import CaseResult, Judgement
from harness.records.stats import Interval, score, tied
from harness.task.task import Board
from scripts.bot.comment.markdown import NBSP, case_name, first_paragraph, not_shown, solid, table
from scripts.common.text import format_gap, format_interval, format_us, inline
from scripts.standings.case_times import CaseTime, case_times
from scripts.standings.eligibility import ranking, shape
from scripts.standings.roofline import NO_ROOFLINE, Roofline
from scripts.standings.standings import Standings

MAX_CASES = 40
"""Maximum number of rows in a table."""
MAX_NOTES = 8

_LEGEND = "<sub>Compared with others: minus is faster, ≈ is within the noise.</sub>"
_MEANS: Mapping[str, str] = {"geom": "**geometric mean**", "mean": "**mean**"}


@dataclass(frozen=True, kw_only=True)
class Rival:
    """`name` heads its column; `cases` are its times, of some or all benchmarks."""

    name: str
    cases: tuple[CaseTime, ...]

    def find_case(self, params: Mapping[str, Any]) -> CaseTime | None:
        """Its time of a case, found by parameters: after a failed benchmark, later cases are missing."""
        return next((case for case in self.cases if shape(case.params) == shape(params)), None)

    def find_score(self, ranking_by: str, cases: int) -> Interval | None:
        """Its score over all benchmarks; None unless it has times for all `cases` of them."""
        return score([case.time_us for case in self.cases], ranking_by) if len(self.cases) == cases else None


def measured(case: CaseResult, nominal_us: float | None) -> CaseTime | None:
    """One judgement's time of one benchmark; None if there is none.

    Args:
        nominal_us: the anchor's usual time in microseconds; if None, the anchor's time in this judgement.
    """
    if case.told:
        return CaseTime(params=case.params, time_us=case.told.time_us)
    if not case.timing:
        return None
    ratio, us = case.timing.ratio, nominal_us or case.timing.anchor_us
    return CaseTime(params=case.params, time_us=ratio.scaled(us), ratio=ratio)


def find_rivals(judgement: Judgement, standings: Standings, earlier: Sequence[Judgement]) -> tuple[Rival, ...]:
    """The rivals to compare a judgement with.

    Args:
        standings: including this judgement, if it counts.
        earlier: the author's judgements in ledger order; those that are later or do not rank are skipped.
    """
    known = [one for one in ranking(standings.board, earlier) if one.finished_at < judgement.finished_at]
    own = () if judgement.baseline else _own_rivals(judgement, standings, known)
    return (*own, *_first(judgement, standings))


def _own_rivals(judgement: Judgement, standings: Standings, known: Sequence[Judgement]) -> Iterator[Rival]:
    if not known:
        return
    last, best = known[-1], _best_file(judgement, standings, known)
    if best and best[-1].submission.digest == last.submission.digest:
        yield Rival(name="Your last and best", cases=case_times(best, standings.nominal_us))
        return
    yield Rival(name="Your last", cases=case_times([last], standings.nominal_us))
    if best:
        yield Rival(name="Your best", cases=case_times(best, standings.nominal_us))


def _best_file(judgement: Judgement, standings: Standings, known: Sequence[Judgement]) -> Sequence[Judgement]:
    """The judgements of the author's best other file: the one that keeps the row, or else the fastest."""
    files: dict[str, list[Judgement]] = defaultdict(list)
    for one in known:
        files[one.submission.digest].append(one)
    files.pop(judgement.submission.digest, None)
    row = standings.find_row(judgement.submission.login)
    if row and row.digest in files:
        return files[row.digest]
    return min(files.values(), key=lambda file: _score(file, standings), default=())


def _score(file: Sequence[Judgement], standings: Standings) -> float:
    times = [case.time_us for case in case_times(file, standings.nominal_us)]
    return score(times, standings.board.ranking_by).value


def _first(judgement: Judgement, standings: Standings) -> Iterator[Rival]:
    first = standings.champion
    if first and first.login.casefold() != judgement.submission.login.casefold():
        yield Rival(name="First place", cases=first.cases)


def benchmarks(
    judgement: Judgement,
    board: Board,
    standings: Standings | None,
    earlier: Sequence[Judgement] = (),
    roofline: Roofline = NO_ROOFLINE,
) -> str:
    """The table with remarks below it; empty if nothing was timed.

    Args:
        standings: those that include this judgement; without them there is nothing to compare with.
        earlier: the author's judgements on this board, in ledger order.
    """
    cases = judgement.benchmarks
    if not cases:
        return ""
    rivals = find_rivals(judgement, standings, earlier) if standings else ()
    times = [measured(case, _nominal_us(case, board, standings)) for case in cases]
    rows = [_row(case, time, rivals, roofline) for case, time in zip(cases, times, strict=True)][:MAX_CASES]
    known = [time for time in times if time]
    if len(known) == len(board.benchmarks) > 1 and board.ranking_by in _MEANS:
        rows.append(_together(known, rivals, board.ranking_by))
    time, last = ("Time:", "Speedup vs anchor:") if board.task.is_refereed else ("Time, self-timed:", "Best call:")
    shown = table(("Benchmark", time, *(f"{rival.name}:" for rival in rivals), last), rows)
    legend = _LEGEND if rivals and known else ""
    return "\n\n".join(filter(None, [shown, not_shown(len(cases) - MAX_CASES), legend, *_notes(cases)]))


def _nominal_us(case: CaseResult, board: Board, standings: Standings | None) -> float | None:
    known = zip(board.benchmarks, standings.nominal_us if standings else (), strict=False)
    return next((us for one, us in known if shape(one.params) == shape(case.params)), None)


def _row(case: CaseResult, time: CaseTime | None, rivals: Sequence[Rival], roofline: Roofline) -> tuple[str, ...]:
    if not time:
        return _name(case), case.verdict, *("" for _ in rivals), first_paragraph(case.message)
    others = (rival.find_case(case.params) for rival in rivals)
    gaps = (_against(time.time_us, other.time_us if other else None) for other in others)
    best_us = min(run.best_us for run in case.told.runs) if case.told else 0.0
    last = f"{1 / time.ratio.value:.2f}×" if time.ratio else solid(format_us(best_us))
    return _name(case), solid(format_interval(time.time_us)) + _below(time, roofline), *gaps, last


def _below(time: CaseTime, roofline: Roofline) -> str:
    """The throughput as a small line of its own; it breaks only after a dot."""
    throughput = roofline.throughput(time.params, time.time_us.value)
    return f"<br><sub>{solid(str(throughput)).replace(f'·{NBSP}', '· ')}</sub>" if throughput else ""


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
