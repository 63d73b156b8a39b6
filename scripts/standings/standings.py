"""The standings of a board: turns judgements in ledger order into ranked rows.

    judgements that count  accepted, in the sandbox, of this edition, on this board's cases; of others only the number
      ├─ baselines         files of the task, such as a library's function: a time without a rank
      └─ files             an author's judgements of the same bytes are pooled, so repeated judging is no lottery
          └─ authors       a new file replaces the author's current one only if it beats it
              ├─ champion  the first entry, until another wins a duel with the current champion
              └─ rows      champion first; the next is the earliest that none of the rest beats, in bands of
                         ties; provisional ones last

A time is the ratio to the anchor times the anchor's nominal time on this board, its median over all judgements.  It
cancels out of every comparison.  With `mean`, where nominal times weight the cases, their proportions are those of the
board's first judgement.  So no judgement changes how earlier ones of other files compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from harness.records.judgement import Judgement
from harness.records.stats import Interval, score
from harness.task.task import Board
from scripts.ledger.moderation import Moderation
from scripts.standings.author_files import Improvement
from scripts.standings.baselines import BaselineTime, baseline_times
from scripts.standings.case_times import nominal_times
from scripts.standings.eligibility import counted, ranking
from scripts.standings.first_place import Contest, Record, author_key
from scripts.standings.rows import Row, rows_of
from scripts.standings.ties import RankingTime, are_ahead, in_bands


@dataclass(frozen=True, kw_only=True)
class Standings:
    """A ranked board.

    `unranked` is the number of this edition's judgements that don't count; `earlier_editions` are oldest first.
    `scores_us` has each ranked judgement's own score by checksum, while rows pool the judgements of a file.
    `undecided` counts duels without a result by author, in small letters, and the opponent's file.
    """

    board: Board
    rows: tuple[Row, ...]
    records: tuple[Record, ...]
    improvements: tuple[Improvement, ...]
    scores_us: Mapping[str, Interval]
    nominal_us: tuple[float, ...]
    baselines: tuple[BaselineTime, ...]
    unranked: int
    earlier_editions: tuple[str, ...]
    undecided: Mapping[tuple[str, str], int]

    @property
    def anchor_us(self) -> float | None:
        """The anchor's score, combined from its nominal times.  None if no ranked judgement has timed an anchor."""
        if not self.nominal_us:
            return None
        times = [Interval(value=us, low=us, high=us) for us in self.nominal_us]
        return score(times, self.board.ranking_by).value

    @property
    def champion(self) -> Row | None:
        """The row in first place; None on a board without rows, or with provisional ones only."""
        return next((row for row in self.rows[:1] if row.champion), None)

    def undecided_duels(self, login: str) -> int:
        """The number of an author's duels without a result against the file in first place."""
        return self.undecided.get((author_key(login), self.champion.digest), 0) if self.champion else 0

    def find_row(self, login: str) -> Row | None:
        return next((row for row in self.rows if row.login.lower() == login.lower()), None)

    def find_baseline(self, judgement: Judgement) -> BaselineTime | None:
        """The baseline that a judgement belongs to; None for any other judgement."""
        if not judgement.baseline:
            return None
        return next((one for one in self.baselines if one.digest == judgement.submission.digest), None)

    def leader_of(self, row: Row) -> Row:
        """The first row in this row's band."""
        return next(other for other in self.rows if other.band == row.band)


def standings(
    board: Board,
    judgements: Sequence[Judgement],
    removed: Mapping[str, Moderation] | None = None,
    *,
    allow_unwalled: bool = False,
    is_over: bool = False,
) -> Standings:
    """Rank a board.

    Args:
        judgements: in ledger order; those of other boards are ignored.
        removed: decisions about judgements that do not count, by checksum: see `Moderated.removed`.
        allow_unwalled: also rank judgements without a sandbox: for one's own code on one's own machine.
        is_over: judging has ended, so duels that were due will not be held.
    """
    removed = removed or {}
    ours = [one for one in judgements if (one.task, one.gpu) == (board.task.name, board.gpu)]
    current = [one for one in ours if one.edition == board.edition]
    played = counted(board, current, allow_unwalled=allow_unwalled)
    timed = _without(removed, played)
    nominal_us = nominal_times(played, board.ranking_by)
    contest = Contest(board, nominal_us, removed)
    for judgement in played:
        if not judgement.baseline:
            contest.add(judgement)
    files = chain.from_iterable(author.files for author in contest.authors)
    return Standings(
        board=board,
        rows=rows_of(contest, is_over=is_over),
        records=tuple(contest.records),
        improvements=tuple(chain.from_iterable(author.improvements for author in contest.authors)),
        scores_us={one.checksum: score_us for file in files for one, score_us in file.scores_us},
        nominal_us=nominal_us,
        baselines=baseline_times(board, timed, nominal_us),
        unranked=len(_without(removed, current)) - len(timed),
        earlier_editions=tuple(
            dict.fromkeys(one.edition for one in _without(removed, ours) if one.edition != board.edition)
        ),
        undecided=contest.undecided,
    )


def _without(removed: Mapping[str, Moderation], judgements: Sequence[Judgement]) -> Sequence[Judgement]:
    return [one for one in judgements if one.checksum not in removed] if removed else judgements


@dataclass(frozen=True, kw_only=True)
class Podium:
    """The first rows after a judgement that changed their authors or files; `former` are those before it.

    Provisional rows are left out.
    """

    judgement: Judgement
    rows: tuple[Row, ...]
    former: tuple[Row, ...]


def podiums(
    board: Board, judgements: Sequence[Judgement], removed: Mapping[str, Moderation] | None = None, places: int = 3
) -> Iterator[Podium]:
    """The changes of a board's first places, in ledger order; arguments as for `standings`.

    Most judgements change the time of one author only, who is behind all these places before and after.  They change
    no place there, so the rows need no new order.
    """
    contest = Contest(board, nominal_times(counted(board, judgements), board.ranking_by), removed)
    former: tuple[Row, ...] = ()
    first, others = None, list[RankingTime]()
    for judgement in ranking(board, judgements):
        login = judgement.submission.login
        was_behind = are_ahead(others, contest.find(login))
        contest.add(judgement)
        champion = contest.champion.standing if contest.champion else None
        if was_behind and champion is first and are_ahead(others, contest.find(login)):
            continue
        placed = [author for _, author in islice(in_bands(contest.authors, contest.champion), places)]
        settled = [author for author in placed if author is contest.champion or not author.standing.is_provisional]
        first, least_us = champion, champion.score_us.value if champion else 0.0
        others = [RankingTime.of(author, least_us) for author in settled[1:]] if len(settled) == places else []
        files = [author.standing for author in settled]
        if [(file.login, file.digest) for file in files] != [(row.login, row.digest) for row in former]:
            rows = tuple(row for row in rows_of(contest, places) if not row.provisional)
            yield Podium(judgement=judgement, rows=rows, former=former)
            former = rows
