"""The standings of a board: turns judgements in ledger order into ranked rows.  Pure; only this module ranks.

    judgements that rank   accepted, in the sandbox, of this edition, on this board's cases; others are only counted
      └─ files             an author's judgements of the same bytes are pooled, so repeated judging is no lottery
          └─ authors       a new file replaces the author's current one only if it beats it
              ├─ champion  the first entry, until another wins a duel with the current champion
              └─ rows      champion first, the others by score, in bands of ties, the earlier first in each

If a task's own program takes the times, there is no anchor and no duel: a time that beats the champion's takes first
place.

A time is the ratio to the anchor times the anchor's nominal time on this board, its median over all judgements.  With
`geom` and `last` the nominal time cancels out of every comparison.  With `mean` it weights the cases, so that later
judgements can change a close earlier result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from typing import Any, Protocol, TypeVar

from harness.records.fields import Mode
from harness.records.judgement import Claim, Judgement
from harness.records.stats import MIN_PAIRS, Interval, beats, score
from harness.records.times import Duel
from harness.records.verdict import Verdict
from harness.task.task import Board
from scripts.standings.case_times import MAX_POOLED, CaseTime, case_times, nominal_times
from scripts.standings.claims import is_unwalled


@dataclass(frozen=True, kw_only=True)
class Row:
    """An author's place: `rank` counts rows from 1, `band` counts groups of ties from 1.

    `gap` is the score over the champion's, minus 1; negative if a row looks faster but has not won first place.
    `note` explains that in words.  `unproven`: it looks faster by more than a tie.  It is in the champion's band
    because it has not won their duel, but is not tied with its rows.  `judgements` are this file's, oldest first.
    """

    rank: int
    band: int
    login: str
    score_us: Interval
    gap: float
    cases: tuple[CaseTime, ...]
    digest: str
    language: str
    lines: int
    judgements: tuple[Judgement, ...]
    first_at: datetime
    note: str
    unwalled: bool
    champion: bool
    unproven: bool

    @property
    def claim(self) -> Claim:
        """The weakest claim of its judgements."""
        return max((one.claim for one in self.judgements), key=list(Claim).index)

    @property
    def self_timed(self) -> bool:
        """Whether its times come from the task's own program alone."""
        return self.claim is Claim.SELF_TIMED

    @property
    def facts(self) -> dict[str, Any]:
        """The row for scripts: times in microseconds, the gap as a share."""
        return {
            "rank": self.rank,
            "band": self.band,
            "login": self.login,
            "score_us": self.score_us.model_dump(),
            "gap": self.gap,
            "digest": self.digest,
            "language": self.language,
            "lines": self.lines,
            "first_at": self.first_at.isoformat(),
            "judgements": len(self.judgements),
            "champion": self.champion,
            "unproven": self.unproven,
            "unwalled": self.unwalled,
            "claim": self.claim,
            "note": self.note,
        }


@dataclass(frozen=True, kw_only=True)
class Record:
    """A new best: another champion, or a faster file of the champion.  `score_us` is as of that moment.

    `gain` is the share of time saved: from the duel if there was one, else from the scores; None for the first entry.
    """

    at: datetime
    login: str
    score_us: Interval
    digest: str
    gain: float | None
    judgement: Judgement


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """An author's first file, or one that beat their best so far; `score_us` is the current one.

    `judgement` is the file's first.
    """

    at: datetime
    login: str
    score_us: Interval
    digest: str
    judgement: Judgement


class Banded(Protocol):
    """A row in a band, perhaps `unproven`: from here, or from a published site."""

    @property
    def band(self) -> int: ...

    @property
    def unproven(self) -> bool: ...


B = TypeVar("B", bound=Banded)


def ahead_of(row: Banded, rows: Sequence[B]) -> B | None:
    """The row to beat next, the last one of a better band; None for rows of the first band.

    Skips rows that only look faster than the champion: they have yet to win their duel.
    """
    return next((other for other in reversed(rows) if other.band < row.band and not other.unproven), None)


@dataclass(frozen=True, kw_only=True)
class Standings:
    """A ranked board.

    `unranked` counts this edition's judgements that don't rank; `earlier_editions` are oldest first.  `scores_us` has
    each ranked judgement's own score by checksum, while rows pool the judgements of a file.
    """

    board: Board
    rows: tuple[Row, ...]
    records: tuple[Record, ...]
    improvements: tuple[Improvement, ...]
    scores_us: Mapping[str, Interval]
    nominal_us: tuple[float, ...]
    unranked: int
    earlier_editions: tuple[str, ...]

    @property
    def champion(self) -> Row | None:
        return self.rows[0] if self.rows else None

    def find_row(self, login: str) -> Row | None:
        return next((row for row in self.rows if row.login.lower() == login.lower()), None)

    def leader_of(self, row: Row) -> Row:
        """The first row in this row's band."""
        return next(other for other in self.rows if other.band == row.band)


def standings(
    board: Board, judgements: Sequence[Judgement], *, allow_unwalled: bool = False, is_over: bool = False
) -> Standings:
    """Rank a board.

    Args:
        judgements: in ledger order; those of other boards are ignored.
        allow_unwalled: also rank judgements without a sandbox: for one's own code on one's own machine.
        is_over: judging has ended, so duels that were due will not be held.
    """
    ours = [one for one in judgements if (one.task, one.gpu) == (board.task.name, board.gpu)]
    current = [one for one in ours if one.edition == board.edition]
    counted = ranking(board, current, allow_unwalled=allow_unwalled)
    season = _Season(board, nominal_times(counted), is_over=is_over)
    for judgement in counted:
        season.add(judgement)
    return Standings(
        board=board,
        rows=_rows(season),
        records=tuple(season.records),
        improvements=tuple(chain.from_iterable(author.improvements for author in season.authors.values())),
        scores_us={one.checksum: score_us for file in season.files for one, score_us in file.scores_us},
        nominal_us=season.nominal_us,
        unranked=len(current) - len(counted),
        earlier_editions=tuple(dict.fromkeys(one.edition for one in ours if one.edition != board.edition)),
    )


@dataclass(frozen=True, kw_only=True)
class Podium:
    """The first rows after a judgement that changed their authors or files; `former` are those before it."""

    judgement: Judgement
    rows: tuple[Row, ...]
    former: tuple[Row, ...]


def podiums(board: Board, judgements: Sequence[Judgement], places: int = 3) -> Iterator[Podium]:
    """The changes of a board's first places, in ledger order; arguments as for `standings`."""
    counted = ranking(board, judgements)
    season = _Season(board, nominal_times(counted))
    former: tuple[Row, ...] = ()
    for judgement in counted:
        season.add(judgement)
        rows = _rows(season, places)
        if [(row.login, row.digest) for row in rows] != [(row.login, row.digest) for row in former]:
            yield Podium(judgement=judgement, rows=rows, former=former)
            former = rows


def ranking(board: Board, judgements: Sequence[Judgement], *, allow_unwalled: bool = False) -> list[Judgement]:
    """The judgements that rank on a board as it is now; arguments as for `standings`."""
    cases = [shape(case.params) for case in board.benchmarks]
    return [one for one in judgements if _ranks(one, board, cases, allow_unwalled)]


def _ranks(judgement: Judgement, board: Board, cases: list[dict[str, Any]], allow_unwalled: bool) -> bool:
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


# The fold.


class _File:
    """One author's judgements of the same bytes, pooled."""

    def __init__(self, ranking_by: str, nominal_us: tuple[float, ...]) -> None:
        self._ranking_by = ranking_by
        self._nominal_us = nominal_us
        self.judgements: list[Judgement] = []

    def add(self, judgement: Judgement) -> None:
        self.judgements.append(judgement)
        self.__dict__.pop("cases", None)
        self.__dict__.pop("score_us", None)

    @property
    def digest(self) -> str:
        return self.newest.submission.digest

    @property
    def newest(self) -> Judgement:
        return self.judgements[-1]

    @property
    def first_at(self) -> datetime:
        return self.judgements[0].finished_at

    @cached_property
    def cases(self) -> tuple[CaseTime, ...]:
        return case_times(self.judgements[-MAX_POOLED:], self._nominal_us)

    @cached_property
    def score_us(self) -> Interval:
        return self._score(self.cases)

    @property
    def scores_us(self) -> Iterator[tuple[Judgement, Interval]]:
        """Each judgement with its own score."""
        if len(self.judgements) == 1:
            yield self.newest, self.score_us
            return
        for one in self.judgements:
            yield one, self._score(case_times([one], self._nominal_us))

    def _score(self, cases: Sequence[CaseTime]) -> Interval:
        return score([case.time_us for case in cases], self._ranking_by)


class _Author:
    """An author's files, in order of first judgement, and the one that ranks."""

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self._crowned: _File | None = None
        self._best: _File | None = None
        self._compared = 0

    @property
    def login(self) -> str:
        return self.standing.newest.submission.login

    @property
    def standing(self) -> _File:
        """The file that ranks: the first, or the one that won first place, unless a later one beats it, and so on."""
        best = self._best or self._crowned or next(iter(self.files.values()))
        for file in islice(self.files.values(), self._compared, None):
            if beats(file.score_us, best.score_us):
                best = file
        self._best, self._compared = best, len(self.files)
        return best

    def add(self, judgement: Judgement, file: _File) -> _File:
        """Add a judgement to `file` if its bytes are new, else to the file with the same bytes; return that file."""
        known = self.files.setdefault(judgement.submission.digest, file)
        known.add(judgement)
        if known is not file:
            self._compare_anew()  # Pooling changed a time that was compared before.
        return known

    @property
    def improvements(self) -> Iterator[Improvement]:
        best: _File | None = None
        for file in self.files.values():
            if not best or beats(file.score_us, best.score_us):
                best = file
                login = file.newest.submission.login
                yield Improvement(
                    at=file.first_at, login=login, score_us=file.score_us, digest=file.digest,
                    judgement=file.judgements[0],
                )  # fmt: skip

    def crown(self, file: _File) -> None:
        self._crowned = file
        self._compare_anew()

    def _compare_anew(self) -> None:
        self._best, self._compared = None, 0


class _Season:
    """The state of a board after some judgement."""

    def __init__(self, board: Board, nominal_us: tuple[float, ...], *, is_over: bool = False) -> None:
        self.is_over = is_over
        self.ranking_by = board.ranking_by
        self.has_duels = board.task.is_refereed
        self.nominal_us = nominal_us
        self.authors: dict[str, _Author] = {}
        self.champion: _Author | None = None
        self.records: list[Record] = []

    @property
    def files(self) -> Iterator[_File]:
        return (file for author in self.authors.values() for file in author.files.values())

    def add(self, judgement: Judgement) -> None:
        author = self.authors.setdefault(_author_key(judgement.submission.login), _Author())
        file = author.add(judgement, _File(self.ranking_by, self.nominal_us))
        if self.champion is None:
            self._crown(author, file, gain=None)
        elif author is self.champion:
            self._note_improvement(author, file)
        elif self._is_won(judgement):
            assert judgement.duel
            self._crown(author, file, gain=1 - judgement.duel.ratio.value)
        if not self.has_duels:
            self._crown_the_best(self.champion or author)

    def _crown_the_best(self, champion: _Author) -> None:
        """Without duels, an author who beats the champion takes first place, even if only pooling changed the times."""
        first = champion.standing.score_us
        better = [one for one in self.authors.values() if beats(one.standing.score_us, first)]
        if better:
            best = min(better, key=lambda one: one.standing.score_us.value)
            gain = 1 - best.standing.score_us.value / first.value
            self._crown(best, best.standing, gain)

    def is_with_champion(self, duel: Duel) -> bool:
        """Whether a duel was against the file in first place now: any other duel decides nothing."""
        champion = self.champion
        if not champion or self.authors.get(_author_key(duel.opponent)) is not champion:
            return False
        return duel.opponent_digest == champion.standing.digest

    def _is_won(self, judgement: Judgement) -> bool:
        duel = judgement.duel
        if not duel or not duel.won or judgement.submission.digest == duel.opponent_digest:
            return False
        return self.is_with_champion(duel)

    def _crown(self, author: _Author, file: _File, gain: float | None) -> None:
        self.champion = author
        author.crown(file)
        self._record(file, gain)

    def _note_improvement(self, author: _Author, file: _File) -> None:
        """Record when another file of the champion takes over; pooling alone sets no record."""
        last = self.records[-1]
        if file.digest == last.digest:
            return
        standing = author.standing
        if standing.digest != last.digest and standing.score_us.value < last.score_us.value:
            self._record(standing, gain=1 - standing.score_us.value / last.score_us.value)

    def _record(self, file: _File, gain: float | None) -> None:
        judgement = file.newest
        self.records.append(
            Record(
                at=judgement.finished_at,
                login=judgement.submission.login,
                score_us=file.score_us,
                digest=file.digest,
                gain=gain,
                judgement=judgement,
            )
        )


def _author_key(login: str) -> str:
    # GitHub's logins are the same in any case.
    return login.lower()


# The table.


def _rows(season: _Season, places: int | None = None) -> tuple[Row, ...]:
    """All rows, or the first `places`."""
    if not season.champion:
        return ()
    placed = ((band, author) for band, authors in enumerate(_bands(season, season.champion), 1) for author in authors)
    ranked = enumerate(islice(placed, places), start=1)
    return tuple(_row(season, season.champion, author, rank=rank, band=band) for rank, (band, author) in ranked)


def _bands(season: _Season, champion: _Author) -> list[list[_Author]]:
    """Authors in bands of ties with the band's best; the champion's band also has those who look faster."""
    by_score = sorted(
        season.authors.values(),
        key=lambda one: (one is not champion, one.standing.score_us.value, one.standing.first_at),
    )
    bands: list[list[_Author]] = []
    for author in by_score:
        if bands and not beats(bands[-1][0].standing.score_us, author.standing.score_us):
            bands[-1].append(author)
        else:
            bands.append([author])
    return [sorted(band, key=lambda one: (one is not champion, one.standing.first_at)) for band in bands]


def _row(season: _Season, champion: _Author, author: _Author, *, rank: int, band: int) -> Row:
    file, first = author.standing, champion.standing
    submission = file.newest.submission
    has_lost = any(one.duel and not one.duel.won and season.is_with_champion(one.duel) for one in file.judgements)
    return Row(
        rank=rank,
        band=band,
        login=submission.login,
        score_us=file.score_us,
        gap=file.score_us.value / first.score_us.value - 1,
        cases=file.cases,
        digest=file.digest,
        language=submission.language,
        lines=submission.lines,
        judgements=tuple(file.judgements),
        first_at=file.first_at,
        note=_note(season, file, champion, has_lost=has_lost) if season.has_duels and author is not champion else "",
        unwalled=any(map(is_unwalled, file.judgements)),
        champion=author is champion,
        # The same bytes cannot be faster than themselves, whatever was measured.
        unproven=season.has_duels and file.digest != first.digest and beats(file.score_us, first.score_us),
    )


def _note(season: _Season, file: _File, champion: _Author, *, has_lost: bool) -> str:
    """Why a row that looks faster than the champion's ranks behind it."""
    first = champion.standing
    if file.digest == first.digest:
        return f"the same file as {champion.login}'s"
    if file.score_us.value >= first.score_us.value:
        return ""
    if has_lost:
        return f"looks faster, but lost its duel with {champion.login}"
    former = next((one.duel.opponent for one in reversed(file.judgements) if one.duel), None)
    if not former:
        return f"looks faster; its duel with {champion.login} {'was never held' if season.is_over else 'is due'}"
    same = _author_key(former) == _author_key(champion.login)
    whom = f"an earlier file of {former}'s" if same else f"{former}, who is not first"
    due = f"; one with {champion.login} was never held" if season.is_over else f", so one with {champion.login} is due"
    return f"looks faster; its duel was with {whom}{due}"
