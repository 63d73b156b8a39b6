"""Plan the steps that make GitHub match the ledger.  Pure: a few lists in, steps out.

open, never had a run          ──▶  StartRun       start evaluate.yml again
open, its run has ended        ──▶  DeliverResult  if there is no judgement: failed, and requested again
open, no longer wanted         ──▶  EndRequest     banned; or the event that should have ended it was lost
withdrawn, its run goes on     ──▶  StopRun        it takes a machine's time
the comment is out of date     ──▶  UpdateComment  that it is queued, or how it ended; or DeliverResult again
first, and never reviewed      ──▶  HoldRow        its time needed no review until it came to lead
its row's duel is due          ──▶  Rematch        judge it again, against the current champion
its row is provisional         ──▶  Rematch        judge it again, when its machine has nothing else to do
judged, it makes a row         ──▶  MergePull
judged, improves nothing       ──▶  ClosePull      after two weeks without activity
our comment is there twice     ──▶  DeleteComment  the younger one
judged since the last build    ──▶  PublishSite
one of its events was lost, or
its task is open again         ──▶  AskForJudging  as intake would have done; last, because it may take long

The pull requests of a banned author are left to people, but their open requests end.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from random import Random

from harness.records.verdict import Verdict
from scripts.bot.comment.markers import BoardMarker, BoardState
from scripts.bot.comment.pull_record import newest_by_gpu
from scripts.bot.evaluate import workflow_runs
from scripts.bot.reconcile.judged_again import DueJudging
from scripts.bot.reconcile.lost_events import is_lost
from scripts.bot.reconcile.steps import (
    AskForJudging,
    ClosePull,
    DeleteComment,
    DeliverResult,
    EndRequest,
    HoldRow,
    MergePull,
    PublishSite,
    Rematch,
    StartRun,
    Step,
    StopRun,
    UpdateComment,
)
from scripts.bot.report.places import PlaceKind
from scripts.competition.settings import Ban
from scripts.github.pulls import PullRequest, WorkflowRun
from scripts.ledger.ledger import LedgerFault, RequestStatus
from scripts.ledger.moderation import Moderated
from scripts.ledger.request import WITHDRAWN, Ending, EndState, Request
from scripts.standings.provisional import PAUSES

PATIENCE = timedelta(minutes=5)
"""Leave younger things alone: another run may still be working on them."""
LOOK_BACK = timedelta(days=2)
"""Ignore anything older, unless it arrived since the last successful run."""
LONGEST_LOOK_BACK = timedelta(days=14)
"""Ignore anything older even if Actions were off for longer; older pull requests are not reread either."""
QUIET = timedelta(days=14)
MERGE_WAIT = timedelta(hours=1)
"""A merge waits this long for the pull request's other boards, so that its author can fix what fails there."""
MAX_LOST_EVENTS = 20
"""Pull requests to reread per run, drawn at random: each costs a clone of the ledger and a few fetches."""
OFTEN = timedelta(hours=1)
"""For this long after an update, every run rereads a pull request that has no requests; it may be refused for good."""
TURN = timedelta(minutes=15)
TURNS = 8
"""Later, one run in this many rereads it; runs are a `TURN` apart."""


# What the plan depends on.


@dataclass(frozen=True, kw_only=True)
class RepositoryState:
    """What the plan depends on.

    Attributes:
        statuses: requests, oldest first.
        pulls: open pull requests.
        closed: closed ones with open requests.  A pull request in neither is unknown and left alone.
        runs: those of evaluate.yml.
        shown: the boards that our comments show, by pull request.
        comments_since: if set, `shown` and `spare` hold only comments written or edited since then.
        spare: our superfluous second comments: pull request by comment id.
        places: of judged requests, by request id.
        duels: all that are due.
        unreviewed: the first rows that need a review.
        provisional: the judgings of provisional rows that are due, the one that waits longest first.
        published_at: start of the last publish.yml run.
        decided_at: a maintainer's last moderation, such as a hold or a release.
        opened: tasks that are open now, although events have requested tests of them, as for closed tasks.
        last_at: start of the last successful reconcile.yml run.
        faults: moderations that cannot be read.
    """

    now: datetime
    default_branch: str
    statuses: tuple[RequestStatus, ...] = ()
    pulls: tuple[PullRequest, ...] = ()
    closed: tuple[PullRequest, ...] = ()
    runs: tuple[WorkflowRun, ...] = ()
    shown: Mapping[int, tuple[BoardMarker, ...]] = field(default_factory=dict)
    comments_since: datetime | None = None
    spare: Mapping[int, int] = field(default_factory=dict)
    places: Mapping[str, PlaceKind] = field(default_factory=dict)
    duels: tuple[DueJudging, ...] = ()
    unreviewed: tuple[HoldRow, ...] = ()
    provisional: tuple[DueJudging, ...] = ()
    published_at: datetime | None = None
    decided_at: datetime | None = None
    opened: frozenset[str] = frozenset()
    last_at: datetime | None = None
    merges: bool = True
    bans: tuple[Ban, ...] = ()
    moderated: Moderated = field(default_factory=Moderated)
    faults: tuple[LedgerFault, ...] = ()

    def is_banned(self, user_id: int, login: str) -> bool:
        return user_id in self.moderated.banned or any(ban.meets(user_id, login) for ban in self.bans)

    def is_settled(self, since: datetime) -> bool:
        """Whether it is so long ago that no other run is working on it."""
        return since <= self.now - PATIENCE

    def is_recent(self, since: datetime) -> bool:
        return since >= look_back(self.now, self.last_at)

    def covers_comments_since(self, since: datetime) -> bool:
        """Whether `shown` would include a comment about it."""
        return self.is_recent(since) and (not self.comments_since or since > self.comments_since)

    def is_turn_of(self, pull: PullRequest) -> bool:
        """Whether this run rereads a pull request, although earlier runs may have requested nothing for it."""
        is_new = not self.last_at or pull.updated_at >= self.last_at - OFTEN
        return is_new or (pull.number + self.now.timestamp() // TURN.total_seconds()) % TURNS == 0

    @cached_property
    def of_pull(self) -> Mapping[int, list[RequestStatus]]:
        """The requests of each pull request."""
        found: dict[int, list[RequestStatus]] = defaultdict(list)
        for status in self.statuses:
            found[status.request.pull_request].append(status)
        return found

    def runs_of(self, request: Request) -> list[WorkflowRun]:
        title = workflow_runs.run_title(request.id)
        return sorted((run for run in self.runs if run.title == title), key=lambda run: run.id)


def look_back(now: datetime, last_at: datetime | None) -> datetime:
    """The earliest time of anything that may have been missed; `last_at` is when the reconciler last succeeded."""
    last = last_at - PATIENCE if last_at else now - LONGEST_LOOK_BACK
    return max(now - LONGEST_LOOK_BACK, min(now - LOOK_BACK, last))


# The plan.


def plan(facts: RepositoryState) -> tuple[Step, ...]:
    """Plan the steps.  Pure."""
    lost = _lost_events(facts)
    unjudged = {event.pull.number for event in lost}  # These still need judgings, so they are not merged now.
    ready = [pull for pull in _ours(facts) if not pull.is_draft and pull.number not in unjudged]
    steps: list[Step] = list(_for_live_runs(facts))
    steps += [step for status in facts.statuses if (step := _for_request(status, facts))]
    steps += facts.unreviewed
    steps += (rematches := [*_for_duels(facts)])
    steps += _for_provisional(facts, {step.request.gpu for step in rematches})
    steps += [step for pull in ready for step in _for_judged(pull, facts)]
    steps += [DeleteComment(number=number, comment_id=comment_id) for comment_id, number in facts.spare.items()]
    if not _is_published(facts):
        steps.append(PublishSite())
    return (*steps, *lost)


def _for_live_runs(facts: RepositoryState) -> Iterator[Step]:
    """Stop runs of withdrawn requests.  First, because later steps may need the machines."""
    withdrawn = {
        workflow_runs.run_title(status.request.id): status.request
        for status in facts.statuses
        if status.ending and status.ending.state in WITHDRAWN and facts.is_settled(status.ending.at)
    }
    for run in facts.runs:
        if not run.is_done and (request := withdrawn.get(run.title)):
            yield StopRun(request=request, run=run)


def _for_request(status: RequestStatus, facts: RepositoryState) -> Step | None:
    if not facts.is_settled(status.ending.at if status.ending else status.request.asked_at):
        return None
    if status.ending:
        return _shown(status.request, status.ending, facts)
    runs = facts.runs_of(status.request)
    if end := _why_unwanted(status.request, facts):
        return replace(end, runs=tuple(run for run in runs if not run.is_done))
    if any(not run.is_done for run in runs):
        return _shown(status.request, None, facts)
    return DeliverResult(request=status.request, run=runs[-1]) if runs else StartRun(request=status.request)


def _why_unwanted(request: Request, facts: RepositoryState) -> EndRequest | None:
    if facts.is_banned(request.user_id, request.login):
        return EndRequest(request=request, state=EndState.CANCELLED, note="its author is banned")
    if request.is_rematch:
        is_due = any(due.is_of(request) for due in (*facts.duels, *facts.provisional))
        return None if is_due else EndRequest(request=request, state=EndState.SUPERSEDED, note="it is no longer due")
    pull = next((pull for pull in (*facts.pulls, *facts.closed) if pull.number == request.pull_request), None)
    if not pull:
        return None
    if not (pull.is_open or pull.merged):
        return EndRequest(request=request, state=EndState.CANCELLED, note="the pull request was closed")
    if pull.head_sha != request.head_sha:
        return EndRequest(request=request, state=EndState.SUPERSEDED, note="there is a newer commit")
    if pull.is_open and pull.is_draft and request.is_ranked:
        return EndRequest(request=request, state=EndState.CANCELLED, note="the pull request became a draft")
    return None


def _shown(request: Request, ending: Ending | None, facts: RepositoryState) -> Step | None:
    """The step that updates the comment, if it is out of date; only the newest request of a board counts."""
    since = ending.at if ending else request.asked_at
    if _newest(request, facts) != request or not facts.covers_comments_since(since):
        return None
    of_pull = facts.shown.get(request.pull_request, ())
    state = next((board.state for board in of_pull if board.request == request.id), None)
    if not ending:
        return None if state else UpdateComment(request=request, ending=None)
    if state not in (None, BoardState.QUEUED):
        return None
    if ending.state is EndState.JUDGED:
        return DeliverResult(request=request, run=next(reversed(facts.runs_of(request)), None))
    if not state:
        return None  # No author is waiting for it.
    return UpdateComment(request=request, ending=ending)


def _newest(request: Request, facts: RepositoryState) -> Request:
    return newest_by_gpu(facts.of_pull[request.pull_request])[request.gpu].request


def _for_duels(facts: RepositoryState) -> Iterator[Rematch]:
    """Rematches: a row's file is judged for each champion that it must duel, again if the duel is void."""
    for due in facts.duels:
        if _is_to_be_asked(due, facts):
            yield Rematch(request=due.request(facts.now))


def _for_provisional(facts: RepositoryState, taken: Collection[str]) -> Iterator[Step]:
    """Judge provisional rows again, one at a time on each machine, and only if nothing else waits for it.

    Args:
        taken: the GPUs that other steps of this plan request.
    """
    busy = {one.request.gpu for one in facts.statuses if one.is_open}.union(taken)
    for due in facts.provisional:
        if due.last.gpu not in busy and _is_to_be_asked(due, facts):
            busy.add(due.last.gpu)
            yield Rematch(request=due.request(facts.now))


def _is_to_be_asked(due: DueJudging, facts: RepositoryState) -> bool:
    """Whether a judging that is due was not requested too often before, and no other of its file goes on."""
    if facts.is_banned(due.last.user_id, due.last.login):
        return False
    history = [one for one in facts.statuses if due.is_of(one.request)]
    # A superseded rematch was no longer due then; now one is due again.
    tried = [one for one in history if not one.ending or one.ending.state is not EndState.SUPERSEDED]
    if not all(one.ending and facts.is_settled(one.ending.at) for one in history):
        return False
    count = sum(one.request.reason == due.reason for one in tried)
    if not count:
        return True
    last = max(tried, key=lambda one: one.request.attempt)
    return count < due.tries and _is_worth_another(last, count, facts.now)


def _is_worth_another(last: RequestStatus, count: int, now: datetime) -> bool:
    """Whether to judge a file again, though its last judging did not do; a file that is no longer accepted is not."""
    return _is_accepted(last) and bool(last.ending and last.ending.at + PAUSES[count - 1] <= now)


def _is_accepted(status: RequestStatus) -> bool:
    end = status.ending
    return bool(end and end.verdict is Verdict.ACCEPTED)


def _ours(facts: RepositoryState) -> tuple[PullRequest, ...]:
    """The open pull requests for the default branch, without those of bots and banned authors."""
    people = (pull for pull in facts.pulls if not pull.author.is_bot and pull.base_ref == facts.default_branch)
    return tuple(pull for pull in people if not facts.is_banned(pull.author.id, pull.author.login))


def _for_judged(pull: PullRequest, facts: RepositoryState) -> Iterator[Step]:
    of_pull = facts.of_pull[pull.number]
    of_head = [one for one in of_pull if one.request.head_sha == pull.head_sha]
    waiting = [one for one in of_pull if one.is_open]
    places = {one.request.id: place for one in of_head if (place := facts.places.get(one.request.id))}
    rows = [one for one in of_head if places.get(one.request.id) is PlaceKind.ROW]
    ends = [one.ending.at for one in of_head if one.ending]
    is_settled = bool(rows) and all(map(facts.is_settled, ends))
    # If GitHub refuses a merge, it will refuse again.  The bot has commented on it; stop trying after two days.
    is_due = is_settled and facts.is_recent(max(filter(None, (*ends, facts.decided_at))))
    # A missing machine must not hold up other boards or the merge.
    if is_due and facts.merges and all(one.request.asked_at <= facts.now - MERGE_WAIT for one in waiting):
        yield MergePull(request=rows[0].request)
    # Held judgements, and judgings that failed on our side, may still make a row.
    may_rank = [one for one in of_head if _may_rank(one) and _newest(one.request, facts) == one.request]
    improves_nothing = bool(places) and not rows and all(one.request.id in places for one in may_rank)
    if improves_nothing and not waiting and pull.updated_at <= facts.now - QUIET:
        yield ClosePull(pull=pull)


def _may_rank(status: RequestStatus) -> bool:
    """Whether it was accepted, or could not be judged."""
    end = status.ending
    has_failed = end is not None and end.state is EndState.FAILED
    return status.request.is_ranked and (has_failed or _is_accepted(status))


def _lost_events(facts: RepositoryState) -> list[AskForJudging]:
    missed = [
        pull
        for pull in _ours(facts)
        if facts.is_settled(pull.updated_at)
        and pull.updated_at >= facts.now - LONGEST_LOOK_BACK
        and facts.is_turn_of(pull)
        and is_lost(pull, facts.of_pull[pull.number], facts.opened)
    ]
    # At random: otherwise those that never get requests would block the others each time.
    drawn = Random(facts.now.timestamp()).sample(missed, min(len(missed), MAX_LOST_EVENTS))  # noqa: S311  no secret
    return [AskForJudging(pull=pull, happened_at=_lost_at(pull, facts)) for pull in drawn]


def _lost_at(pull: PullRequest, facts: RepositoryState) -> datetime:
    """The latest time at which the lost event can have happened: that of the push, if the head has no requests.

    Not `updated_at`: anybody could make it late with a comment after the deadline.  GitHub does not say when a pull
    request was reopened or marked as ready, so for these it is now.
    """
    is_known = any(one.request.head_sha == pull.head_sha for one in facts.of_pull[pull.number])
    return facts.now if is_known else pull.head_at


def _is_published(facts: RepositoryState) -> bool:
    """Whether the site shows all judgements and moderations whose own publication must have begun by now."""
    news = [facts.decided_at] if facts.decided_at else []
    news += [
        one.ending.at
        for one in facts.statuses
        if one.request.is_ranked and one.ending and one.ending.verdict is Verdict.ACCEPTED
    ]
    settled = [at for at in news if facts.is_settled(at)]
    return not settled or (facts.published_at is not None and facts.published_at >= max(settled))
