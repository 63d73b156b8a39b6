"""The rows of a board: each author's place, with a note why a row that looks faster than the champion's is behind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from harness.records.judgement import Claim, Judgement
from harness.records.stats import Interval, beats
from harness.records.times import Duel
from harness.task.task import Board
from scripts.common.text import format_error
from scripts.standings.author_files import AuthorFiles, PooledFile
from scripts.standings.case_times import CaseTime
from scripts.standings.claims import is_unwalled
from scripts.standings.first_place import Contest, Record, author_key
from scripts.standings.roofline import Roofline
from scripts.standings.ties import in_bands

DUEL_TRIES = 3
"""How often the bot requests a judging for a row's duel, with pauses as for provisional rows: the duel may be void, or
not be played because the file was slower that time."""


class DuelStatus(StrEnum):
    """Whether a row that looks faster than the champion's has dueled it."""

    DUE = "duel due"
    LOST = "duel lost"
    UNDECIDED = "duel undecided"
    NOT_PLAYED = "duel not played"


@dataclass(frozen=True, kw_only=True)
class Position:
    """An author's place: `rank` counts rows from 1, `band` counts groups of ties from 1.

    `gap` is to the first row; negative if a row looks faster but has not won first place.  `note` explains that in
    words, and `duel_status` in two; None for other rows.  `unproven`: it looks faster by more than a tie.  `claim` is
    the weakest of its judgements'.

    `provisional`: its time is too uncertain to take a place yet, so it ranks after all rows that are not provisional.
    A board without any other row has no champion: its first row is the provisional one with the lowest score.
    """

    rank: int
    band: int
    login: str
    score_us: Interval
    gap: float
    digest: str
    language: str
    lines: int
    first_at: datetime
    note: str
    unwalled: bool
    champion: bool
    provisional: bool
    unproven: bool
    duel_status: DuelStatus | None
    claim: Claim

    @property
    def contends(self) -> bool:
        """Whether it is unproven, and their duel is still to be held."""
        return self.unproven and self.duel_status is DuelStatus.DUE

    @property
    def self_timed(self) -> bool:
        """Whether its times come from the task's own program alone."""
        return self.claim is Claim.SELF_TIMED


@dataclass(frozen=True, kw_only=True)
class Row(Position):
    """A position with its file, and the newest duel that this has lost to the champion's.

    A former first place that no longer ranks is a row with the rank and band 0.
    """

    file: PooledFile
    lost_duel: Duel | None

    @property
    def cases(self) -> tuple[CaseTime, ...]:
        return self.file.cases

    @property
    def judgements(self) -> tuple[Judgement, ...]:
        return self.file.judgements

    @property
    def newest(self) -> Judgement:
        return self.file.newest

    def facts(self, board: Board, roofline: Roofline, **more: Any) -> dict[str, Any]:
        """The row for scripts, and `more` about it: times in microseconds, the gap as a share; None for a rank of 0."""
        return {
            "task": board.task.name,
            "gpu": board.gpu,
            "rank": self.rank or None,
            "band": self.band or None,
            "login": self.login,
            "score_us": self.score_us.model_dump(),
            "gap": self.gap,
            "digest": self.digest,
            "language": self.language,
            "lines": self.lines,
            "first_at": self.first_at.isoformat(),
            "judgements": len(self.judgements),
            "champion": self.champion,
            "provisional": self.provisional,
            "unproven": self.unproven,
            "unwalled": self.unwalled,
            "claim": self.claim,
            "note": self.note,
            **more,
            "cases": [case.facts(roofline) for case in self.cases],
        }


def gap_between(ours: Interval, theirs: Interval) -> float:
    """How much longer our score is than theirs, as a share of theirs."""
    return ours.value / theirs.value - 1


def rows_of(contest: Contest, places: int | None = None, *, is_over: bool = False) -> tuple[Row, ...]:
    """All rows, or the first `places`; arguments as for `standings`."""
    placed = [*islice(in_bands(contest.authors, contest.champion), places)]
    return tuple(
        _row(contest, placed[0][1].standing, author, rank=rank, band=band, is_over=is_over)
        for rank, (band, author) in enumerate(placed, start=1)
    )


def _row(contest: Contest, first: PooledFile, author: AuthorFiles, *, rank: int, band: int, is_over: bool) -> Row:
    file, champion = author.standing, contest.champion
    is_provisional = file.is_provisional and author is not champion
    may_be_first = contest.has_duels and author is not champion and not is_provisional
    lost_duel = _find_lost_duel(first, file) if may_be_first else None
    # The same bytes cannot be faster than themselves, whatever was measured.
    is_other = may_be_first and file.digest != first.digest
    status, note = None, f"the same file as {first.login}'s" if may_be_first and not is_other else ""
    if is_other and file.score_us.value < first.score_us.value:
        status = _duel_status(contest, first, file, lost_duel, is_over=is_over)
        note = _note(file, first, status)
    if is_provisional:
        note = f"provisional: its 95 % interval is {format_error(file.score_us)}"
    return replace(
        _without_rank(file, first, file.first_at),
        rank=rank,
        band=band,
        note=note,
        champion=author is champion,
        provisional=is_provisional,
        unproven=is_other and beats(file.score_us, first.score_for_ties),
        duel_status=status,
        lost_duel=lost_duel,
    )


def former_row(record: Record, first: Row) -> Row:
    """A file that set a record and no longer ranks, as it was then; `first_at` is when it became first."""
    return _without_rank(record.file, first.file, record.at)


def _without_rank(file: PooledFile, first: PooledFile, first_at: datetime) -> Row:
    submission = file.newest.submission
    return Row(
        rank=0,
        band=0,
        login=file.login,
        score_us=file.score_us,
        gap=gap_between(file.score_us, first.score_us),
        digest=file.digest,
        language=submission.language,
        lines=submission.lines,
        first_at=first_at,
        note="",
        unwalled=any(map(is_unwalled, file.judgements)),
        champion=False,
        provisional=False,
        unproven=False,
        duel_status=None,
        claim=max((one.claim for one in file.judgements), key=lambda claim: claim.weakness),
        file=file,
        lost_duel=None,
    )


def _find_lost_duel(first: PooledFile, file: PooledFile) -> Duel | None:
    duels = (one.duel for one in reversed(file.judgements) if one.duel)
    return next((duel for duel in duels if not duel.won and duel.opponent_digest == first.digest), None)


def _duel_status(
    contest: Contest, first: PooledFile, file: PooledFile, lost_duel: Duel | None, *, is_over: bool
) -> DuelStatus:
    if lost_duel:
        return DuelStatus.LOST
    if is_over:
        return DuelStatus.NOT_PLAYED
    record = contest.records[-1]
    if record.digest != first.digest:  # pooling has brought back an older file of the champion's
        return DuelStatus.DUE
    tries = sum(one.finished_at > record.at for one in file.judgements[1:])
    return DuelStatus.UNDECIDED if tries >= DUEL_TRIES else DuelStatus.DUE


def _note(file: PooledFile, first: PooledFile, status: DuelStatus) -> str:
    """Why a row that looks faster than the champion's ranks behind it."""
    if status is DuelStatus.LOST:
        return f"looks faster, but lost its duel with {first.login}"
    outcome = {
        DuelStatus.DUE: "is due",
        DuelStatus.UNDECIDED: f"was not decided in {DUEL_TRIES} more judgings",
        DuelStatus.NOT_PLAYED: "was never played",
    }[status]
    last = next((one.duel for one in reversed(file.judgements) if one.duel), None)
    same = last is not None and author_key(last.opponent) == author_key(first.login)
    if not last or (same and last.opponent_digest == first.digest):
        return f"looks faster; its duel with {first.login} {outcome}"
    whom = f"an earlier file of {last.opponent}'s" if same else last.opponent
    return f"looks faster; it last played {whom}, and its duel with {first.login} {outcome}"
