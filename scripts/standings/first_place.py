"""First place of a board: who holds it after each judgement, and the records.

The first entry takes it, and keeps it until another wins a duel with the file that is first then, or that file fails
in it.  If a task's own program takes the times, there are no duels: a time that beats the champion's takes first place.

A file that no longer counts has no row, but its duels were played.  Whoever won first place from it keeps that place.
If its author withdrew it, the duels that it won itself remain, too: whoever lost first place to it stays behind those
who won it from that file.  If a maintainer removed it, these duels are void: the loser has first place back.

A provisional file takes first place by none of these, not even by a won duel.  The duel's own interval would be enough
to say who is faster.  But the score of the file in first place decides who may duel it: if chance has made it too low,
nobody would ever get a duel.  A provisional file is judged again, and each judging holds the duel again.  So nothing
is lost but time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from harness.records.judgement import Judgement
from harness.records.stats import DUEL_LOOKS, beats, is_faster, is_won
from harness.records.times import Duel, Forfeit, duel_ratio
from harness.task.task import Board
from scripts.ledger.moderation import Action, Moderation
from scripts.standings.author_files import AuthorFiles, Improvement, PooledFile


@dataclass(frozen=True, kw_only=True)
class Record(Improvement):
    """A new best: another champion, or a faster file of the champion.  `file` is as of that moment.

    `cause` is the judgement that decided it.  It is usually the file's own, but may be of another file: one of the
    author's that won the duel, or, without duels, one of the former champion's.  `gain` is the share of time saved:
    from the duel with the record before it, if there was one, else from the scores; None for a first entry and after a
    forfeit.
    """

    cause: Judgement
    gain: float | None

    @property
    def judgement(self) -> Judgement:
        """The file's newest."""
        return self.file.newest

    @property
    def at(self) -> datetime:
        return self.cause.finished_at

    @property
    def duel(self) -> Duel | None:
        """The file's duel that decided it."""
        return self.judgement.duel if self.judgement is self.cause else None


class _Won(NamedTuple):
    """A won duel for first place; `place` counts the removed leaders up to its loser: 0 if that is the champion."""

    duel: Duel | Forfeit
    loser: AuthorFiles
    place: int


class Contest:
    """A board's authors, its champion and its records, after the judgements that were added."""

    def __init__(
        self, board: Board, nominal_us: tuple[float, ...], removed: Mapping[str, Moderation] | None = None
    ) -> None:
        """`removed` are the decisions about judgements that do not count, by checksum."""
        self.has_duels = board.task.is_refereed
        self._ranking_by = board.ranking_by
        self._nominal_us = nominal_us
        self._authors: dict[str, AuthorFiles] = {}
        self._removed = removed or {}
        self._removed_files: dict[str, AuthorFiles] = {}
        self._unbeaten: PooledFile | None = None
        """Without duels: the champion's file that no author beat, but for later judgements."""
        self._above: list[AuthorFiles] = []
        """Authors whose removed files took first place after the champion did, each from the one before."""
        self.undecided: Counter[tuple[str, str]] = Counter()
        """The number of duels without a result, by author and opponent's file."""
        self.champion: AuthorFiles | None = None
        self.records: list[Record] = []

    @property
    def authors(self) -> Iterator[AuthorFiles]:
        return iter(self._authors.values())

    def find(self, login: str) -> AuthorFiles | None:
        return self._authors.get(author_key(login))

    def add(self, judgement: Judgement) -> None:
        self._add(judgement)
        author, duel = author_key(judgement.submission.login), judgement.duel
        if duel and (_is_without_result(duel) or (duel.won and not self._is_won(duel, author))):
            self.undecided[author, duel.opponent_digest] += 1

    def _add(self, judgement: Judgement) -> None:
        if self._removed and (decision := self._removed.get(judgement.checksum)):
            if self.has_duels:
                self._add_removed(judgement, decision)
            return
        author, file = self._pool(judgement, self._authors)
        won = None if file.is_provisional else self._find_won(judgement)
        if won and (author is not self.champion or author.standing.digest != file.digest):
            gain = self._gain(won, file)
            won.loser.lose(won.duel.opponent_digest)
            self._crown(author, file, judgement, gain)
            self._note_improvement(author, author.standing, judgement)
        elif author is self.champion:
            self._note_improvement(author, file, judgement)
        elif self.champion is None and not file.is_provisional:
            self._crown(author, file, judgement, gain=None)
        if won:
            del self._above[: won.place]
        if self.champion and not self.has_duels:
            self._crown_the_best(self.champion, author, judgement)

    def _add_removed(self, judgement: Judgement, decision: Moderation) -> None:
        """Note whether a judgement that does not count took first place.  A maintainer's decision voids its duel."""
        author, file = self._pool(judgement, self._removed_files)
        if file.is_provisional:
            return
        won = self._find_won(judgement) if decision.action is Action.WITHDRAW else None
        if won and author not in self._above[won.place :]:
            won.loser.lose(won.duel.opponent_digest)
            self._above.insert(won.place, author)
            author.crown(file)
        elif not (self.champion or self._above):
            self._above.append(author)
            author.crown(file)

    def _pool(self, judgement: Judgement, authors: dict[str, AuthorFiles]) -> tuple[AuthorFiles, PooledFile]:
        """The author and the file of a judgement, which is added to them."""
        file = PooledFile(judgements=(judgement,), ranking_by=self._ranking_by, nominal_us=self._nominal_us)
        key = author_key(file.login)
        if key in authors:
            file = authors[key].add(file)
        else:
            authors[key] = AuthorFiles(file)
        if judgement.duel and not self._is_won(judgement.duel, key):
            authors[key].lose(file.digest)
        return authors[key], file

    def _find_won(self, judgement: Judgement) -> _Won | None:
        """The duel by which a judgement takes first place."""
        author, duel = author_key(judgement.submission.login), judgement.forfeit or judgement.duel
        if not duel or duel.opponent_digest == judgement.submission.digest:
            return None
        opponent = author_key(duel.opponent)
        if opponent == author or (isinstance(duel, Duel) and not self._is_won(duel, author)):
            return None
        theirs = self._authors.get(opponent), self._removed_files.get(opponent)
        for place, leader in reversed([*enumerate([self.champion, *self._above])]):
            if leader and leader in theirs and leader.standing.digest == duel.opponent_digest:
                return _Won(duel, leader, place)
        return None

    def _is_won(self, duel: Duel, author: str) -> bool:
        """Whether a duel is won, even if others were played at the same time: then it may not know of them."""
        earlier = self.undecided[author, duel.opponent_digest]
        if not duel.won or earlier <= duel.earlier:
            return duel.won
        return is_won(duel_ratio(duel.cases, self._ranking_by, earlier), duel.cases[0].blocks, earlier)

    def _gain(self, won: _Won, file: PooledFile) -> float | None:
        if not self.records:
            return None
        if won.place:
            return max(0.0, 1 - file.score_us.value / self.records[-1].score_us.value)
        return None if isinstance(won.duel, Forfeit) else 1 - won.duel.ratio.value

    def _crown_the_best(self, champion: AuthorFiles, judged: AuthorFiles, cause: Judgement) -> None:
        """Without duels, an author who beats the champion takes first place, even if only pooling changed the times."""
        first = champion.standing.score_for_ties
        is_same, self._unbeaten = champion.standing is self._unbeaten, champion.standing
        settled = (one for one in ([judged] if is_same else self.authors) if not one.standing.is_provisional)
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
        self.records.append(Record(file=file, cause=cause, gain=gain))


def _is_without_result(duel: Duel) -> bool:
    """Whether a duel showed neither side to be faster: one more might be won by luck.

    A duel of the first blocks alone does not count: if there was no time for more, the next would have none, either.
    """
    return duel.cases[0].blocks > DUEL_LOOKS[0] and not duel.won and not is_faster(duel.ratio.inverse)


def author_key(login: str) -> str:
    # GitHub's logins are the same in any case.
    return login.lower()
