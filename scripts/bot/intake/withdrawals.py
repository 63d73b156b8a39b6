"""Take an author's results off the boards, because they commented `/withdraw` or remove their file.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from scripts.bot.intake.decision import Endings, EventFacts
from scripts.common.text import inline
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import Ending, EndState


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """The judgements and open requests that are taken back."""

    decisions: tuple[Moderation, ...]
    endings: Endings
    places: str
    """The boards, as Markdown."""


def ranked_beside(history: Iterable[RequestStatus], number: int) -> list[RequestStatus]:
    """An author's ranked requests, in any pull request, on the boards on which this one asked to rank."""
    ranked = [status for status in history if status.request.is_ranked]
    boards = {(one.request.task, one.request.gpu) for one in ranked if one.request.pull_request == number}
    return [one for one in ranked if (one.request.task, one.request.gpu) in boards]


def ranked_in(history: Iterable[RequestStatus], task: str) -> list[RequestStatus]:
    """An author's ranked requests, in any pull request, on the boards of a task."""
    return [one for one in history if one.request.is_ranked and one.request.task == task]


def was_obeyed(facts: EventFacts, name: str, note: str) -> bool:
    """Whether results were withdrawn before for the same reason, however often its event arrives."""
    noted = (status.ending.note for status in facts.history if status.ending)
    return note in noted or any(one.id.startswith(f"{name}-") for one in facts.competition.moderated.withdrawn.values())


def withdraw(
    facts: EventFacts, ranked: Sequence[RequestStatus], until: datetime, *, name: str, note: str, reason: str
) -> Withdrawal | None:
    """Withdraw the author's results of ranked requests that are not younger than `until`; None if there are none.

    Includes rematches that the bot requested later for a file that was ranked before.

    Args:
        name: the beginning of the decisions' ids.
        note: why open requests are cancelled.
        reason: why the results do not count any more, for the board's page.
    """
    author, moderated = facts.pull.author, facts.competition.moderated
    early = {one.request.series for one in ranked if one.request.in_time_at <= until}
    asked = [
        one
        for one in ranked
        if one.request.in_time_at <= until or (one.request.is_rematch and one.request.series in early)
    ]
    found = [facts.judged[one.request.id] for one in asked if one.request.id in facts.judged]
    mine = [one for one in found if one.is_rankable and one.submission.user_id == author.id]
    left = [one for one in mine if one.checksum not in moderated.withdrawn]
    waiting = [one.request for one in asked if one.is_open]
    if not (left or waiting):
        return None
    places = sorted({(one.task, one.gpu) for one in left} | {(one.task, one.gpu) for one in waiting})
    return Withdrawal(
        decisions=tuple(
            Moderation.about(
                one, Action.WITHDRAW, id=f"{name}-{one.checksum[:12]}", reason=reason, by=author.id, at=facts.now
            )
            for one in left
        ),
        endings=tuple(
            (one, Ending(request=one.id, state=EndState.CANCELLED, at=facts.now, note=note)) for one in waiting
        ),
        places=", ".join(f"{inline(task)} on {inline(gpu)}" for task, gpu in places),
    )
