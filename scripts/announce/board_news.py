"""News about a board's results, from its standings and their history.  Pure.

the first judgement that ranks     ─▶ first entry; provisional ones are no news
a record                           ─▶ record: by a duel with the champion, or by the champion's own faster file
other logins on the podium         ─▶ change in the top three; a better time at the same rank is none
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from harness.records.judgement import Judgement
from harness.task.task import Board
from scripts.announce.news import FRESH, NewsKind, NewsResult, PodiumPlace
from scripts.ledger.moderation import Moderation
from scripts.standings.claims import claim_sentence, duel_result, is_bounded
from scripts.standings.first_place import Record
from scripts.standings.standings import Podium, podiums, standings


def results_of(
    board: Board,
    judgements: Sequence[Judgement],
    removed: Mapping[str, Moderation],
    absences: Mapping[str, tuple[datetime, datetime]],
) -> Iterator[NewsResult]:
    """All news about a board, in the order of its judgements.

    Args:
        judgements: in ledger order.
        removed: decisions about judgements that do not count, by checksum.
        absences: for judgements that maintainers had removed, by checksum: from when until when.
    """
    records = standings(board, judgements, removed).records
    setters: dict[str, tuple[Record, Record | None]] = {}
    for former, record in zip([None, *records], records, strict=False):
        first, beaten = setters.get(record.cause.checksum, (record, former))
        if first is not record and beaten:  # the author's other file won the duel, and this one is their row
            first = replace(first, gain=max(0.0, 1 - record.score_us.value / beaten.score_us.value))
        setters[record.cause.checksum] = first, beaten
    for podium in podiums(board, judgements, removed):
        checksum = podium.judgement.checksum
        until = podium.judgement.finished_at + FRESH
        removed_at, restored_at = absences.get(checksum, (until, until))
        if removed_at < until:  # while it was news
            until = max(until, restored_at + FRESH)
        new_first, beaten = setters.get(checksum, (None, None))
        if not podium.former:
            yield _result(NewsKind.FIRST_ENTRY, board, podium, until)
        elif new_first and beaten:
            yield _record(board, podium, until, new_first, beaten)
        elif [row.login for row in podium.rows] != [row.login for row in podium.former]:
            yield _result(NewsKind.TOP_THREE, board, podium, until)


def _record(board: Board, podium: Podium, until: datetime, record: Record, former: Record) -> NewsResult:
    duel = record.duel
    by_duel = duel_result(duel) if duel and duel.won and duel.opponent.lower() == former.login.lower() else ""
    result = _result(NewsKind.RECORD, board, podium, until)
    return replace(
        result,
        who=result.podium[0],
        over=former.login,
        beaten=former.judgement.checksum,
        gain=record.gain,
        by_duel=by_duel,
    )


def _result(kind: NewsKind, board: Board, podium: Podium, until: datetime) -> NewsResult:
    judgement, places = podium.judgement, tuple(map(PodiumPlace.of, podium.rows))
    return NewsResult(
        kind=kind,
        key=f"{kind}/{board.task.name}/{board.gpu}/{judgement.checksum[:16]}",
        task=board.task.name,
        title=board.task.title,
        at=judgement.finished_at,
        until=until,
        gpu=board.gpu,
        edition=board.edition,
        who=_mover(podium, places),
        podium=places,
        former=tuple(row.login for row in podium.former),
        caveat="" if is_bounded(judgement) else claim_sentence(judgement),
    )


def _mover(podium: Podium, places: Sequence[PodiumPlace]) -> PodiumPlace:
    """The judged author's row; if pooled times have moved other rows instead, the first of those."""
    author = podium.judgement.submission.login.lower()
    former = [row.login for row in podium.former]
    own = next((place for place in places if place.login.lower() == author), None)
    return own or next((place for place in places if place.login not in former[: place.rank]), places[0])
