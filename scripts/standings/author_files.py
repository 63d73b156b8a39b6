"""An author's files on a board, each with all its judgements, and the one that ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property

from harness.records.judgement import Judgement
from harness.records.stats import Interval, beats, is_provisional, score
from scripts.standings.case_times import MAX_POOLED, CaseTime, case_times


@dataclass(frozen=True, kw_only=True)
class PooledFile:
    """One author's judgements of the same bytes, oldest first: repeated judging is no lottery."""

    judgements: tuple[Judgement, ...]
    ranking_by: str
    nominal_us: tuple[float, ...]
    narrowest: float = math.inf
    """Half the width of the narrowest interval of its time before its newest judgement, in logarithms."""

    @property
    def newest(self) -> Judgement:
        return self.judgements[-1]

    @property
    def login(self) -> str:
        return self.newest.submission.login

    @property
    def digest(self) -> str:
        return self.newest.submission.digest

    @property
    def first_at(self) -> datetime:
        return self.judgements[0].finished_at

    @cached_property
    def cases(self) -> tuple[CaseTime, ...]:
        return case_times(self.judgements[-MAX_POOLED:], self.nominal_us)

    @cached_property
    def score_us(self) -> Interval:
        return self._score(self.cases)

    @cached_property
    def is_provisional(self) -> bool:
        """Whether its time is too uncertain to take a place."""
        return is_provisional(self.score_us)

    @cached_property
    def score_for_ties(self) -> Interval:
        """The score that others must beat: with the narrowest interval that its time has had.

        So no noisy judging helps a file to tie with those that beat it.
        """
        if self.score_us.log_half_width <= self.narrowest:
            return self.score_us
        value, factor = self.score_us.value, math.exp(self.narrowest)
        return Interval(value=value, low=value / factor, high=value * factor)

    @property
    def scores_us(self) -> Iterator[tuple[Judgement, Interval]]:
        """Each judgement with its own score."""
        if len(self.judgements) == 1:
            yield self.newest, self.score_us
            return
        for one in self.judgements:
            yield one, self._score(case_times([one], self.nominal_us))

    def _score(self, cases: Sequence[CaseTime]) -> Interval:
        return score([case.time_us for case in cases], self.ranking_by)


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """An author's first file, or one that beat their best so far, with all its judgements."""

    file: PooledFile

    @property
    def judgement(self) -> Judgement:
        """The file's first."""
        return self.file.judgements[0]

    @property
    def at(self) -> datetime:
        return self.judgement.finished_at

    @property
    def login(self) -> str:
        return self.file.login

    @property
    def digest(self) -> str:
        return self.file.digest

    @property
    def score_us(self) -> Interval:
        return self.file.score_us


class AuthorFiles:
    """An author's files, in order of first judgement."""

    def __init__(self, first: PooledFile) -> None:
        self._files = {first.digest: first}
        self._crowned: str | None = None
        """The file that took first place, or the last one that replaced it there; kept when another author takes it."""
        self._is_first = False
        self._losers: set[str] = set()
        """The files that have lost a duel, or first place in one."""
        self._passed_over: dict[str, int] = {}
        """The files that had lost a duel when another took first place, and how often each had been judged."""
        self._standing: PooledFile | None = first

    @property
    def files(self) -> Sequence[PooledFile]:
        return [*self._files.values()]

    @property
    def standing(self) -> PooledFile:
        """The file that ranks: the first, or the one that was in first place last, unless a better one replaces it."""
        if not self._standing:
            self._standing = self._files[self._crowned or next(iter(self._files))]
            for file in self._files.values():
                is_new = len(file.judgements) != self._passed_over.get(file.digest)
                if is_new and self._replaces(file, self._standing):
                    self._standing = file
        return self._standing

    def _replaces(self, file: PooledFile, standing: PooledFile) -> bool:
        """Whether it beats the file that ranks; a provisional time gives way to any other, and replaces none.

        A file in first place was not provisional when it took it.  If judging again widens its interval, it gives way
        only to a time that beats its own.
        """
        gives_way = standing.is_provisional and not self._is_first
        if file.is_provisional:
            return gives_way and beats(file.score_us, standing.score_us)
        return gives_way or beats(file.score_us, standing.score_for_ties)

    def add(self, file: PooledFile) -> PooledFile:
        """Add a file that was judged once; return it, pooled with its earlier judgements."""
        if self._is_first:
            self._crowned = self.standing.digest
        if known := self._files.get(file.digest):
            narrowest = known.score_for_ties.log_half_width
            file = replace(known, judgements=known.judgements + file.judgements, narrowest=narrowest)
            self._standing = None  # A time that was compared before has changed.
        elif self._standing and self._replaces(file, self._standing):
            self._standing = file
        self._files[file.digest] = file
        return file

    def crown(self, file: PooledFile) -> None:
        """Rank a file because it has taken first place.

        Files that have lost a duel do not replace it, however fast they looked, until they are judged again.
        """
        self._crowned, self._is_first = file.digest, True
        passed_over = self._losers - {file.digest}
        self._passed_over = {digest: len(self._files[digest].judgements) for digest in passed_over}
        self._standing = None

    def lose(self, digest: str) -> None:
        """Note that a file of this author did not win a duel as the challenger, or has lost first place in one.

        The opponent does not matter: each later first place was won from that file, or from one that had won it so.
        """
        self._losers.add(digest)

    def dethrone(self) -> None:
        """Another author has taken first place: a provisional time gives way to any other again."""
        self._crowned, self._is_first = self.standing.digest, False
        self._standing = None

    @property
    def improvements(self) -> Iterator[Improvement]:
        """Each file that is better than all before it, without those that are provisional."""
        best: PooledFile | None = None
        for file in (file for file in self._files.values() if not file.is_provisional):
            if not best or beats(file.score_us, best.score_for_ties):
                best = file
                yield Improvement(file=file)
