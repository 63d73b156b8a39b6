"""What has to be done so that the world matches the ledger.  Pure: a few lists in, steps out.

open, no run ever              ──▶  Start      evaluate.yml once more
open, its run has ended        ──▶  Deliver    what the run left; without a judgement: failed, and asked for again
open, wanted no more           ──▶  End        banned; or the event that should have ended it was lost
withdrawn, and its run lives   ──▶  Stop       a machine is at work for nobody
the comment is behind          ──▶  Tell       queued; Deliver or Tell again: how it ended
its row's duel is due          ──▶  Rematch    judged once more, beside who is first now
judged, it makes a row         ──▶  Merge
judged, improves nothing       ──▶  Close      after two quiet weeks
our comment stands there twice ──▶  Drop       the younger
judged since the last build    ──▶  Publish
an event of it was lost        ──▶  Offer      as intake would have, had it heard; last, for it may take long

A banned author's pull requests are left to people, but for what waits of them: that ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from random import Random

from harness.records.verdict import Verdict
from scripts.bot.comment import evaluation
from scripts.bot.comment.comment import BoardState, PullComment
from scripts.bot.reconcile.duels_due import DueDuel
from scripts.bot.reconcile.lost_events import is_unheard
from scripts.bot.reconcile.steps import (
    AskForJudging,
    Close,
    Deliver,
    Drop,
    End,
    MergePull,
    Publish,
    Rematch,
    Start,
    Step,
    Stop,
    Tell,
)
from scripts.bot.report.tables import PlaceKind
from scripts.competition.settings import Ban
from scripts.github.pulls import PullRequest, WorkflowRun
from scripts.ledger.ledger import LedgerFault, RequestStatus
from scripts.ledger.moderation import Moderated
from scripts.ledger.request import WITHDRAWN, Ending, EndState, Request

PATIENCE = timedelta(minutes=5)
"""So long whoever is at work may need: younger things are left to them."""
LOOK_BACK = timedelta(days=2)
"""What is older is not told or merged any more, but for what came since we last got through."""
LONGEST_LOOK_BACK = timedelta(days=14)
"""And nothing older than this, however long Actions were off; nor are older pull requests read anew."""
QUIET = timedelta(days=14)
MERGE_WAIT = timedelta(hours=1)
"""So long a merge waits for the pull request's other boards, so that its author can mend what fails there."""
MAX_OFFERS = 20
"""So many pull requests are read anew each time, drawn by lot: each is a clone of the ledger and a few fetches."""
OFTEN = timedelta(hours=1)
"""For so long each run reads anew what nothing came of: it is refused, or no submission.  Then only now and again."""
TURN = timedelta(minutes=15)
TURNS = 8
"""Of what is read now and again, so many runs, a `TURN` apart, each take a part."""


@dataclass(frozen=True, kw_only=True)
class RepositoryState:
    """What the plan follows from.

    `statuses` are the oldest first.  `pulls` are open, `closed` those that are not, and of which something waits still;
    of what is in neither nobody knows, and it is left alone.  `runs` are evaluate.yml's.  `comments` are ours by pull
    request, and `spare` ours beside them, by id: those that were written or edited since `comments_since`, if that is
    not as far as we look back.  `places` are those of judged requests by id, `duels` all that are due.  `published_at`
    is when the last publish.yml began, `decided_at` when a maintainer last held or released something, and the like,
    and `last_at` when the reconciler last began that got through.  `faults` are the decisions that cannot be read.
    """

    now: datetime
    default_branch: str
    statuses: tuple[RequestStatus, ...] = ()
    pulls: tuple[PullRequest, ...] = ()
    closed: tuple[PullRequest, ...] = ()
    runs: tuple[WorkflowRun, ...] = ()
    comments: Mapping[int, PullComment] = field(default_factory=dict)
    comments_since: datetime | None = None
    spare: Mapping[int, int] = field(default_factory=dict)
    places: Mapping[str, PlaceKind] = field(default_factory=dict)
    duels: tuple[DueDuel, ...] = ()
    published_at: datetime | None = None
    decided_at: datetime | None = None
    last_at: datetime | None = None
    merges: bool = True
    bans: tuple[Ban, ...] = ()
    moderated: Moderated = field(default_factory=Moderated)
    faults: tuple[LedgerFault, ...] = ()

    def is_banned(self, user_id: int, login: str) -> bool:
        return user_id in self.moderated.banned or any(ban.meets(user_id, login) for ban in self.bans)

    def is_settled(self, since: datetime) -> bool:
        """Whether it is so long ago that nobody is at work on it any more."""
        return since <= self.now - PATIENCE

    def is_recent(self, since: datetime) -> bool:
        return since >= look_back(self.now, self.last_at)

    def knows_what_was_told(self, since: datetime) -> bool:
        """Whether a comment that tells of it would be among `comments`."""
        return self.is_recent(since) and (not self.comments_since or since > self.comments_since)

    def is_turn_of(self, pull: PullRequest) -> bool:
        """Whether this run reads anew a pull request of which nothing may come, as nothing did when others read it."""
        is_new = not self.last_at or pull.updated_at >= self.last_at - OFTEN
        return is_new or (pull.number + self.now.timestamp() // TURN.total_seconds()) % TURNS == 0

    @cached_property
    def of_pull(self) -> Mapping[int, list[RequestStatus]]:
        """What was asked for in each pull request."""
        found: dict[int, list[RequestStatus]] = defaultdict(list)
        for status in self.statuses:
            found[status.request.pull_request].append(status)
        return found

    def runs_of(self, request: Request) -> list[WorkflowRun]:
        title = evaluation.run_title(request.id)
        return sorted((run for run in self.runs if run.title == title), key=lambda run: run.id)


def look_back(now: datetime, last_at: datetime | None) -> datetime:
    """From when on anything may have been missed, if the reconciler last got through at `last_at`."""
    last = last_at - PATIENCE if last_at else now - LONGEST_LOOK_BACK
    return max(now - LONGEST_LOOK_BACK, min(now - LOOK_BACK, last))


def plan(facts: RepositoryState) -> tuple[Step, ...]:
    """What is to be done.  Pure."""
    offers = _offers(facts)
    offered = {offer.pull.number for offer in offers}  # A merge would come before what is still to be asked for.
    ready = [pull for pull in _ours(facts) if not pull.is_draft and pull.number not in offered]
    steps: list[Step] = list(_for_live_runs(facts))
    steps += [step for status in facts.statuses if (step := _for_request(status, facts))]
    steps += _for_duels(facts)
    steps += [step for pull in ready for step in _for_judged(pull, facts)]
    steps += [Drop(number=number, comment_id=comment_id) for comment_id, number in facts.spare.items()]
    if not _is_published(facts):
        steps.append(Publish())
    return (*steps, *offers)


def _for_live_runs(facts: RepositoryState) -> Iterator[Step]:
    """The first of all steps: what follows may need the machines."""
    withdrawn = {
        evaluation.run_title(status.request.id): status.request
        for status in facts.statuses
        if status.ending and status.ending.state in WITHDRAWN and facts.is_settled(status.ending.at)
    }
    for run in facts.runs:
        if not run.is_done and (request := withdrawn.get(run.title)):
            yield Stop(request=request, run=run)


def _for_request(status: RequestStatus, facts: RepositoryState) -> Step | None:
    if status.ending:
        return _after_end(status.request, status.ending, facts)
    if not facts.is_settled(status.request.asked_at):
        return None
    runs = facts.runs_of(status.request)
    if end := _why_unwanted(status.request, facts):
        return replace(end, runs=tuple(run for run in runs if not run.is_done))
    if any(not run.is_done for run in runs):
        return _shown(status.request, None, facts)
    return Deliver(request=status.request, run=runs[-1]) if runs else Start(request=status.request)


def _why_unwanted(request: Request, facts: RepositoryState) -> End | None:
    if facts.is_banned(request.user_id, request.login):
        return End(request=request, state=EndState.CANCELLED, note="its author is banned")
    if request.is_rematch:
        is_due = any(due.is_of(request) for due in facts.duels)
        return None if is_due else End(request=request, state=EndState.SUPERSEDED, note="its duel is due no more")
    pull = next((pull for pull in (*facts.pulls, *facts.closed) if pull.number == request.pull_request), None)
    if not pull:
        return None
    if not (pull.is_open or pull.merged):
        return End(request=request, state=EndState.CANCELLED, note="the pull request was closed")
    if pull.head_sha != request.head_sha:
        return End(request=request, state=EndState.SUPERSEDED, note="there is a newer commit")
    if pull.is_open and pull.is_draft and request.is_ranked:
        return End(request=request, state=EndState.CANCELLED, note="the pull request became a draft")
    return None


def _after_end(request: Request, ending: Ending, facts: RepositoryState) -> Step | None:
    return _shown(request, ending, facts) if facts.is_settled(ending.at) else None


def _shown(request: Request, ending: Ending | None, facts: RepositoryState) -> Step | None:
    """Nothing, if the comment says how a request stands; of each board only the newest request counts."""
    since = ending.at if ending else request.asked_at
    if _newest(request, facts) != request or not facts.knows_what_was_told(since):
        return None
    comment = facts.comments.get(request.pull_request, PullComment())
    section = next((board for board in comment.boards if board.facts.gpu == request.gpu), None)
    is_shown = section is not None and section.facts.request == request.id
    if not ending:
        return None if is_shown else Tell(request=request, ending=None)
    if is_shown and section and section.facts.state is not BoardState.QUEUED:
        return None
    if ending.state is EndState.JUDGED:
        return Deliver(request=request, run=next(reversed(facts.runs_of(request)), None))
    if not is_shown:
        return None  # Nobody waits to read it.
    return Tell(request=request, ending=ending)


def _newest(request: Request, facts: RepositoryState) -> Request:
    of_board = (
        status.request
        for status in facts.statuses
        if (status.request.pull_request, status.request.gpu) == (request.pull_request, request.gpu)
    )
    return max(of_board, key=lambda one: (one.asked_at, one.attempt, one.id))


def _for_duels(facts: RepositoryState) -> Iterator[Step]:
    """A row's file is judged once for each champion that its duel is due with, whatever comes of it."""
    for due in (due for due in facts.duels if not facts.is_banned(due.last.user_id, due.last.login)):
        history = [one for one in facts.statuses if due.is_of(one.request)]
        # One that was superseded had no duel due any more: now there is one again.
        tried = [one for one in history if not one.ending or one.ending.state is not EndState.SUPERSEDED]
        is_asked = any(one.is_open or one.request.reason == due.reason for one in tried)
        if not is_asked and all(one.ending and facts.is_settled(one.ending.at) for one in history):
            yield Rematch(request=due.request(facts.now))


def _ours(facts: RepositoryState) -> tuple[PullRequest, ...]:
    """The open pull requests for the default branch, of people who are welcome."""
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
    # What GitHub refuses, it refuses again: after two days it is left to people, who were told.
    is_due = is_settled and facts.is_recent(max(filter(None, (*ends, facts.decided_at))))
    # A machine that is away holds back its own board, no other, nor the merge.
    if is_due and facts.merges and all(one.request.asked_at <= facts.now - MERGE_WAIT for one in waiting):
        yield MergePull(request=rows[0].request)
    # What is held, or failed by our fault, may still make a row.
    may_rank = [one for one in of_head if _may_rank(one) and _newest(one.request, facts) == one.request]
    improves_nothing = bool(places) and not rows and all(one.request.id in places for one in may_rank)
    if improves_nothing and not waiting and pull.updated_at <= facts.now - QUIET:
        yield Close(pull=pull)


def _may_rank(status: RequestStatus) -> bool:
    """Whether it was judged to be right, or could not be judged."""
    end = status.ending
    return bool(status.request.is_ranked and end and (end.state is EndState.FAILED or end.verdict is Verdict.ACCEPTED))


def _offers(facts: RepositoryState) -> list[AskForJudging]:
    missed = [
        pull
        for pull in _ours(facts)
        if facts.is_settled(pull.updated_at)
        and pull.updated_at >= facts.now - LONGEST_LOOK_BACK
        and facts.is_turn_of(pull)
        and is_unheard(pull, facts.of_pull[pull.number])
    ]
    # By lot: else those that nothing comes of would stand in the way of the others each time.
    drawn = Random(facts.now.timestamp()).sample(missed, min(len(missed), MAX_OFFERS))  # noqa: S311  no secret
    return [AskForJudging(pull=pull, happened_at=_offered_at(pull, facts)) for pull in drawn]


def _offered_at(pull: PullRequest, facts: RepositoryState) -> datetime:
    """When what is made up for happened, at the latest: a push, if nothing was asked for since.

    Not `updated_at`: by a comment after the deadline, anybody could make it late.  When it was opened again, or marked
    as ready, nothing tells, so that is now.
    """
    is_known = any(one.request.head_sha == pull.head_sha for one in facts.of_pull[pull.number])
    return facts.now if is_known else pull.head_at


def _is_published(facts: RepositoryState) -> bool:
    """Whether the site knows all that is old enough for its own publication to have begun: judgements, decisions."""
    news = [facts.decided_at] if facts.decided_at else []
    news += [
        one.ending.at
        for one in facts.statuses
        if one.request.is_ranked and one.ending and one.ending.verdict is Verdict.ACCEPTED
    ]
    settled = [at for at in news if facts.is_settled(at)]
    return not settled or (facts.published_at is not None and facts.published_at >= max(settled))
