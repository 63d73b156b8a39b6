"""First place of a board: who holds it after each judgement, and the records.

The first entry takes it, and keeps it until another wins a duel with the file that is first then, or that file fails
in it.  If a task's own program takes the times, there are no duels: a time that beats the champion's takes first place.

A provisional file takes first place by none of these, not even by a won duel.  The duel's own interval would be enough
to say who is faster.  But the score of the file in first place decides who may duel it: if chance has made it too low,
nobody would ever get a duel.  A provisional file is judged again, and each judging holds the duel again.  So nothing
is lost but time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from harness.records.judgement import Judgement
from harness.records.stats import beats
from harness.records.times import Duel, Forfeit
from harness.task.task import Board
from scripts.standings.author_files import AuthorFiles, Improvement, PooledFile


@dataclass(frozen=True, kw_only=True)
class Record(Improvement):
    """A new best: another champion, or a faster file of the champion.  `score_us` is as of that moment.

    `cause` is the judgement that decided it.  It is usually the file's own, but may be of another file: one of the
    author's that won the duel, or, without duels, one of the former champion's.  `gain` is the share of time saved:
    from the duel if there was one, else from the scores; None for a first entry and after a forfeit.
    """

    cause: Judgement
    gain: float | None

    @property
    def at(self) -> datetime:
        return self.cause.finished_at

    @property
    def duel(self) -> Duel | None:
        """The file's duel that decided it."""
        return self.judgement.duel if self.judgement is self.cause else None


class Contest:
    """A board's authors, its champion and its records, after the judgements that were added."""

    def __init__(self, board: Board, nominal_us: tuple[float, ...]) -> None:
        self.has_duels = board.task.is_refereed
        self._ranking_by = board.ranking_by
        self._nominal_us = nominal_us
        self._authors: dict[str, AuthorFiles] = {}
        self.champion: AuthorFiles | None = None
        self.records: list[Record] = []

    @property
    def authors(self) -> Iterator[AuthorFiles]:
        return iter(self._authors.values())

    def add(self, judgement: Judgement) -> None:
        file = PooledFile(judgements=(judgement,), ranking_by=self._ranking_by, nominal_us=self._nominal_us)
        author = self._authors.get(author_key(file.login))
        if author:
            file = author.add(file)
        else:
            author = self._authors[author_key(file.login)] = AuthorFiles(file)
        if self.champion is None:
            if not file.is_provisional:
                self._crown(author, file, judgement, gain=None)
        elif author is self.champion:
            self._note_improvement(author, file, judgement)
        elif self._is_won(judgement) and not file.is_provisional:
            first = self.champion.standing
            self.champion.lose(first.digest)
            ratio = judgement.duel.ratio.value if judgement.duel else file.score_us.value / first.score_us.value
            self._crown(author, file, judgement, gain=None if judgement.forfeit else max(0.0, 1 - ratio))
            self._note_improvement(author, author.standing, judgement)
        if self.champion and not self.has_duels:
            self._crown_the_best(self.champion, judgement)

    def is_with_champion(self, duel: Duel | Forfeit) -> bool:
        """Whether a duel was against the file in first place now: any other duel decides nothing."""
        champion = self.champion
        if not champion or self._authors.get(author_key(duel.opponent)) is not champion:
            return False
        return duel.opponent_digest == champion.standing.digest

    def _is_won(self, judgement: Judgement) -> bool:
        won = judgement.forfeit or (judgement.duel if judgement.duel and judgement.duel.won else None)
        return bool(won and judgement.submission.digest != won.opponent_digest and self.is_with_champion(won))

    def _crown_the_best(self, champion: AuthorFiles, cause: Judgement) -> None:
        """Without duels, an author who beats the champion takes first place, even if only pooling changed the times."""
        first = champion.standing.score_for_ties
        settled = (one for one in self.authors if not one.standing.is_provisional)
        better = [one for one in settled if beats(one.standing.score_us, first)]
        if better:
            best = min(better, key=lambda one: one.standing.score_us.value)
            gain = 1 - best.standing.score_us.value / first.value
            self._crown(best, best.standing, cause, gain)

    def _crown(self, author: AuthorFiles, file: PooledFile, cause: Judgement, gain: float | None) -> None:
        if self.champion:
            self.champion.dethrone()
        self.champion = author
        author.crown(file)
        self._record(file, cause, gain)

    def _note_improvement(self, author: AuthorFiles, file: PooledFile, cause: Judgement) -> None:
        """Record when another file of the champion takes over; pooling alone sets no record."""
        last = self.records[-1]
        if file.digest == last.digest:
            return
        standing = author.standing
        is_new = standing.digest != last.digest and not standing.is_provisional
        if is_new and standing.score_us.value < last.score_us.value:
            self._record(standing, cause, gain=1 - standing.score_us.value / last.score_us.value)

    def _record(self, file: PooledFile, cause: Judgement, gain: float | None) -> None:
        self.records.append(Record(score_us=file.score_us, judgement=file.newest, cause=cause, gain=gain))


def author_key(login: str) -> str:
    # GitHub's logins are the same in any case.
    return login.lower()
