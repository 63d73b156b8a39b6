"""Open pull requests whose event was lost: the judging that their state demands was not requested.  Pure.

    draft     it has no requests at all
    ready     it has no ranked request and, while its task is closed, no test requested by an event: "ready" was lost,
              or the task has been opened again
    both      a board's last request was withdrawn for a reason that no longer holds: the pull request was closed and
              is open again; an older event came late; its author is no longer banned

A person's `/cancel` stays in force.  Intake (`pull_events`) has the same rules and decides what to request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harness.records.fields import Mode
from scripts.bot.intake.events import PullAction
from scripts.github.pulls import PullRequest
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Request

_EVENTS = frozenset(PullAction)


def is_lost(pull: PullRequest, of_pull: Iterable[RequestStatus], opened: Collection[str] = ()) -> bool:
    """Whether an event of an open pull request was lost.

    Args:
        of_pull: all of its requests, oldest first.
        opened: tasks that are open now, although events have requested tests of them.
    """
    of_head = (one for one in of_pull if one.request.head_sha == pull.head_sha and not one.request.is_rematch)
    last_on = {one.request.gpu: one for one in of_head if pull.is_draft or _is_for_ready(one.request, opened)}
    return not last_on or any(_was_taken_back(one, pull) for one in last_on.values())


def _is_for_ready(request: Request, opened: Collection[str]) -> bool:
    """Whether it is a request that intake makes for a pull request that is ready for review, not an extra command."""
    is_test = request.reason in _EVENTS and request.mode is not Mode.BENCHMARK
    return request.is_ranked or (is_test and request.task not in opened)


def _was_taken_back(status: RequestStatus, pull: PullRequest) -> bool:
    """Whether an event's request was ended for a reason that no longer holds.

    A draft's ranked requests stay ended: it is still a draft.  Events do not repeat the requests of commands.
    """
    request, ending = status.request, status.ending
    is_by_event = request.reason in _EVENTS or request.is_retry
    is_still_so = pull.is_draft and request.is_ranked
    return bool(ending and ending.is_taken_back and is_by_event and not is_still_so)
