"""Take an author's own results off the boards: by `/withdraw`, or by a pull request that deletes their file.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from scripts.bot.admission.path_rule import Removal
from scripts.bot.comment.markers import Notice, Tone
from scripts.bot.intake.decision import Decision, Endings, EventFacts
from scripts.bot.intake.replies import WITHDRAWAL
from scripts.common.text import inline
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import Ending, EndState


@dataclass(frozen=True, kw_only=True)
class Order:
    """An author's order to withdraw.

    `key` is the beginning of its decisions' ids, so that an event that arrives twice is obeyed once.  `note` is for the
    endings of open judgings, and `reason` for the site.  Results that were requested after `given_at` stay.
    """

    key: str
    note: str
    reason: str
    given_at: datetime


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """What an order does; without effect if it has no `endings` and no `decisions`."""

    decisions: tuple[Moderation, ...] = ()
    endings: Endings = ()
    boards: tuple[str, ...] = ()

    def says(self, text: str) -> str:
        """A text with the names of the boards."""
        return text.format(", ".join(self.boards))


def beside(history: Iterable[RequestStatus], number: int) -> list[RequestStatus]:
    """An author's ranked requests, in any pull request, on the boards on which this one asked to rank."""
    ranked = [status for status in history if status.request.is_ranked]
    boards = {(one.request.task, one.request.gpu) for one in ranked if one.request.pull_request == number}
    return [one for one in ranked if (one.request.task, one.request.gpu) in boards]


def of_task(history: Iterable[RequestStatus], task: str) -> list[RequestStatus]:
    """An author's ranked requests for a task, on all boards."""
    return [status for status in history if status.request.is_ranked and status.request.task == task]


def was_obeyed(order: Order, facts: EventFacts) -> bool:
    noted = (status.ending.note for status in facts.history if status.ending)
    withdrawn = facts.competition.moderated.withdrawn.values()
    return order.note in noted or any(one.id.startswith(f"{order.key}-") for one in withdrawn)


def obey(order: Order, asked: Iterable[RequestStatus], facts: EventFacts) -> Withdrawal:
    """Withdraw the results of these requests, as far as they were made before the order.

    Includes all rematches: the bot may have requested them later, but they judge an earlier file.
    """
    author, moderated = facts.pull.author, facts.competition.moderated
    asked = [one for one in asked if one.request.is_rematch or one.request.in_time_at <= order.given_at]
    found = [facts.judged[one.request.id] for one in asked if one.request.id in facts.judged]
    mine = [one for one in found if one.is_rankable and one.submission.user_id == author.id]
    left = [one for one in mine if one.checksum not in moderated.withdrawn]
    waiting = [one.request for one in asked if one.is_open]
    places = sorted({(one.task, one.gpu) for one in left} | {(one.task, one.gpu) for one in waiting})
    return Withdrawal(
        decisions=tuple(
            Moderation(
                id=f"{order.key}-{one.checksum[:12]}",
                action=Action.WITHDRAW,
                judgement=one.checksum,
                reason=order.reason,
                by=author.id,
                at=facts.now,
            )
            for one in left
        ),
        endings=tuple(
            (one, Ending(request=one.id, state=EndState.CANCELLED, at=facts.now, note=order.note)) for one in waiting
        ),
        boards=tuple(f"{inline(task)} on {inline(gpu)}" for task, gpu in places),
    )


def decide_on_removal(change: Removal, facts: EventFacts, ended: Endings) -> Decision:
    """Withdraw from all boards of a task, whose file the pull request deletes; once for each commit."""
    number, sha = facts.pull.number, facts.pull.head_sha[:12]
    if facts.pull.is_draft:
        text = "This removes your file. Mark the pull request as ready for review to withdraw your results, too."
        return Decision(why="a draft that removes a file", endings=ended, notice=Notice(text=text, tone=Tone.REMARK))
    order = Order(
        key=f"withdraw-{number}-{sha}",
        note=f"removed, #{number} at {sha}",
        reason=f"Removed the file in #{number}.",
        given_at=facts.in_time_at,
    )
    if was_obeyed(order, facts):
        return Decision(why="already withdrawn by the same commit", endings=ended)
    done = obey(order, of_task(facts.history, change.task), facts)
    text = f"You have no results for {inline(change.task)} to withdraw."
    if done.boards:
        text = done.says(WITHDRAWAL)
    return Decision(
        why=f"withdraws {len(done.decisions)} judgements",
        withdrawals=done.decisions,
        endings=ended + done.endings,
        notice=Notice(
            text=f"{text}\n\nA maintainer can merge this pull request, which removes the file.", tone=Tone.REMARK
        ),
    )
