"""May this author request more judgings?  Pure: requests, the limits and the time in; a refusal out.

    limit            counts                                                                  for how long
    pending          open requests                                                           until they end
    judgings         every request                                                           24 hours
    ranked           ranked requests, but not those withdrawn before they ran                24 hours
    minutes          the judge's wall time, and a minute for each new request                24 hours

Requests that failed on our side cost an author nothing, nor do those of a maintainer or the bot.  A GPU may have limits
for all its boards and for each of them, for all authors together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import accumulate
from statistics import median

from harness.records.fields import Mode
from scripts.competition.settings import Quotas
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import EndState

WINDOW = timedelta(hours=24)


class Limit(StrEnum):
    """The limit that was reached.  Messages show its value."""

    PENDING = "pending judgings"
    JUDGINGS = "judgings in 24 hours"
    RANKED = "ranked judgings in 24 hours"
    MINUTES = "minutes of judging in 24 hours"
    BOARDS = "minutes of judging in 24 hours for all authors together"


@dataclass(frozen=True, kw_only=True)
class LimitUse:
    """How much of one limit is used: amounts, each with the time at which it is free again, earliest first."""

    limit: Limit
    allowed: int
    parts: tuple[tuple[datetime, float], ...]

    @property
    def used(self) -> float:
        return sum(amount for _, amount in self.parts)


@dataclass(frozen=True, kw_only=True)
class QuotaRefusal:
    """`next_at` is when as many judgings may be requested; None if that does not depend on time.

    `boards` names those whose limit was reached, in Markdown; it is empty if that limit is the author's.
    """

    use: LimitUse
    wanted: int
    next_at: datetime | None
    boards: str = ""

    @property
    def is_hopeless(self) -> bool:
        """Whether it requests more than is ever allowed at once."""
        return self.wanted > self.use.allowed

    def __str__(self) -> str:
        limit, allowed, used = self.use.limit, self.use.allowed, f"{round(self.use.used, 1):g}"
        more = f" and request {self.wanted} more" if self.wanted > 1 else ""
        if self.is_hopeless:
            return f"This requests {self.wanted} judgings at once; the limit is {allowed} {limit}. Name fewer boards."
        if not self.next_at:
            return f"You have {used} of {allowed} {limit}{more}. Wait until one ends, or `/cancel` what you don't need."
        who = f"{self.boards} has" if self.boards else "You have"
        return f"{who} used {used} of {allowed} {limit}{more}. Try again at {self.next_at:%Y-%m-%d %H:%M} UTC."


def limit_uses(history: Iterable[RequestStatus], quotas: Quotas, now: datetime) -> tuple[LimitUse, ...]:
    """How much of each limit an author has used; `history` holds the author's requests of at least the last day."""
    costing = [status for status in history if _costs(status)]
    recent = [status for status in costing if status.request.asked_at > now - WINDOW]
    open_ones = [status for status in costing if status.is_open]
    ranked = [status for status in recent if status.request.mode is Mode.RANKED and not _never_ran(status)]
    return (
        LimitUse(limit=Limit.JUDGINGS, allowed=quotas.judgings_per_day, parts=_parts(recent)),
        LimitUse(limit=Limit.RANKED, allowed=quotas.ranked_per_day, parts=_parts(ranked)),
        LimitUse(limit=Limit.MINUTES, allowed=quotas.minutes_per_day, parts=_minutes(recent)),
        LimitUse(limit=Limit.PENDING, allowed=quotas.pending, parts=_parts(open_ones)),
    )


def find_refusal(
    history: Iterable[RequestStatus], mode: Mode, quotas: Quotas, now: datetime, *, wanted: int = 1
) -> QuotaRefusal | None:
    """Why an author may not request `wanted` judgings (one per board) now; None if they may.

    If several limits are reached, it is the one that lasts longest.
    """
    concerned = [
        use for use in limit_uses(history, quotas, now) if use.limit is not Limit.RANKED or mode is Mode.RANKED
    ]
    return longest_refusal(refusal for use in concerned if (refusal := _refusal(use, wanted)))


def longest_refusal(refusals: Iterable[QuotaRefusal]) -> QuotaRefusal | None:
    """The refusal that lasts longest; None if there is none.

    A hopeless refusal outweighs any waiting time, and a waiting time outweighs pending judgings.
    """
    return max(refusals, key=lambda one: (one.is_hopeless, one.next_at.timestamp() if one.next_at else 0), default=None)


def find_board_refusal(
    history: Iterable[RequestStatus], gpu: str, minutes: int, now: datetime, *, task: str | None = None
) -> QuotaRefusal | None:
    """Why no author may request a judging on a GPU's boards now; None if they may.

    An open request counts as much as a typical one of the day, and at least a minute.

    Args:
        history: all authors' open requests, and those that ended within a day.
        minutes: the limit of these boards for a day.
        task: only this task's board.
    """
    of_boards = [one for one in history if one.request.gpu == gpu and task in (None, one.request.task)]
    ended = [(one.ending.at, one.seconds / 60) for one in of_boards if one.ending and one.ending.at > now - WINDOW]
    typical = max(1.0, median([used for _, used in ended if used] or [1.0]))
    parts = [(at.astimezone(UTC) + WINDOW, used) for at, used in ended]
    parts += [(now + WINDOW, typical) for one in of_boards if one.is_open]
    refusal = _refusal(LimitUse(limit=Limit.BOARDS, allowed=minutes, parts=tuple(sorted(parts))), 1)
    return replace(refusal, boards=f"`{task}` on `{gpu}`" if task else f"`{gpu}`") if refusal else None


def _refusal(use: LimitUse, wanted: int) -> QuotaRefusal | None:
    excess = use.used + wanted - use.allowed
    if excess <= 0:
        return None
    is_timed = use.limit is not Limit.PENDING and wanted <= use.allowed
    return QuotaRefusal(use=use, wanted=wanted, next_at=_given_back(use, excess) if is_timed else None)


def _given_back(use: LimitUse, excess: float) -> datetime:
    """When `excess` is free again; rounded up to a minute, because messages show no seconds."""
    totals = accumulate(amount for _, amount in use.parts)
    # Sums of floats are not exact.
    at = next(at for (at, _), total in zip(use.parts, totals, strict=True) if total >= excess - 1e-9)
    return (at + timedelta(seconds=59, microseconds=999_999)).replace(second=0, microsecond=0)


def _costs(status: RequestStatus) -> bool:
    request, ending = status.request, status.ending
    return request.asked_by == request.user_id and not (ending and ending.state is EndState.FAILED)


def _never_ran(status: RequestStatus) -> bool:
    ending = status.ending
    return bool(ending and ending.state is not EndState.JUDGED and not status.seconds)


def _parts(history: Sequence[RequestStatus]) -> tuple[tuple[datetime, float], ...]:
    return tuple(sorted((_back_at(status), 1.0) for status in history))


def _minutes(history: Sequence[RequestStatus]) -> tuple[tuple[datetime, float], ...]:
    return tuple(sorted((_back_at(one), one.seconds / 60) for one in history))


def _back_at(status: RequestStatus) -> datetime:
    """When what a request used is free again."""
    return status.request.asked_at.astimezone(UTC) + WINDOW
