"""What a judgement's times are compared with: its author's last and best, and first place.  Pure.

    earlier judgements of the author   the last with times                  ─┐
    standings, and the earlier ones    the best of the author's other files ─┼─▶ Rival: a time for each benchmark
    standings                          first place, if it is another's      ─┘

Each time is the ratio to the anchor multiplied by the anchor's usual time on this board, so that differences between
judging machines cancel out.  On a first attempt or an empty board there are fewer rivals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.records.judgement import CaseResult, Judgement
from harness.records.stats import Interval, score
from scripts.standings.case_times import CaseTime, case_times
from scripts.standings.eligibility import ranking, shape
from scripts.standings.standings import Standings


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
    return CaseTime(params=case.params, time_us=ratio.scaled(us), ratio=ratio, nominal_us=us)


def find_rivals(judgement: Judgement, standings: Standings, earlier: Sequence[Judgement]) -> tuple[Rival, ...]:
    """The rivals to compare a judgement with.

    Args:
        standings: including this judgement, if it counts.
        earlier: the author's judgements in ledger order; those that are later or do not rank are skipped.
    """
    known = [one for one in ranking(standings.board, earlier) if one.finished_at < judgement.finished_at]
    return (*_own_rivals(judgement, standings, known), *_first(judgement, standings))


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
