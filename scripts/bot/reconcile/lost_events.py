"""Which heads nobody has asked to judge as their pull request's state wants it: an event of theirs was lost.  Pure.

    draft     nothing was asked for at all
    ready     nothing ranked was, nor, after the deadline, a test by an event: it became ready, and nobody heard of it
    both      what was asked for last on a board was taken back, by what holds no more: it was closed, and is open
              again; an older event came late; its author is banned no more

What somebody has cancelled stays so.  As intake sees it too (`offers`), which decides what is then asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from harness.records.fields import Mode
from scripts.bot.intake.events import PullAction
from scripts.github.pulls import PullRequest
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Request

_EVENTS = frozenset(PullAction)


def is_unheard(pull: PullRequest, of_pull: Iterable[RequestStatus]) -> bool:
    """Whether an event of an open pull request was lost, by all that was asked for in it, the oldest first."""
    of_head = (one for one in of_pull if one.request.head_sha == pull.head_sha and not one.request.is_rematch)
    last_on = {one.request.gpu: one for one in of_head if pull.is_draft or _is_for_ready(one.request)}
    return not last_on or any(_was_taken_back(one, pull) for one in last_on.values())


def _is_for_ready(request: Request) -> bool:
    """Whether it is what a pull request gets that is ready for review.  Commands may ask for anything besides."""
    return request.is_ranked or (request.reason in _EVENTS and request.mode is not Mode.BENCHMARK)


def _was_taken_back(status: RequestStatus, pull: PullRequest) -> bool:
    """Whether an event's request was ended by what holds no more.  A draft's ranked ones were ended by its being one.

    What a command had asked for, no event asks for again.
    """
    request, ending = status.request, status.ending
    is_by_event = request.reason in _EVENTS or request.is_retry
    is_still_so = pull.is_draft and request.is_ranked
    return bool(ending and ending.is_taken_back and is_by_event and not is_still_so)
