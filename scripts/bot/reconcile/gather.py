"""Read what the plan depends on, with as few API requests as possible.

ledger      open requests, recent endings, all requests of open pull requests; the boards that may have changed
GitHub      open pull requests, runs of evaluate.yml, recent comments; the last runs of reconcile.yml and publish.yml
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from harness.records.fields import Mode
from scripts.bot.comment.comment_text import read_comment
from scripts.bot.comment.markers import MARKER, BoardMarker
from scripts.bot.context import PUBLISH_WORKFLOW, BotContext
from scripts.bot.evaluate import workflow_runs
from scripts.bot.reconcile.judged_again import find_due_rows, find_provisional_rows
from scripts.bot.reconcile.plan import PATIENCE, RepositoryState, look_back
from scripts.bot.reconcile.steps import HoldRow
from scripts.bot.reconcile.unreviewed import find_unreviewed
from scripts.bot.report.places import LedgerBoards, find_board
from scripts.competition.settings import Merge as MergeSetting
from scripts.github.pulls import MAX_LISTED, PER_PAGE, Comment, GitHubError, PullRequest, WorkflowRun
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Action, Moderated
from scripts.ledger.names import (
    boards,
    boards_in,
    either,
    endings_since,
    open_requests,
    requests_of_pulls,
    these,
    under,
)

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

MAX_ASKED = 20
"""Pull requests to look up one by one, per run."""
WORKFLOW = "reconcile.yml"
LONGEST_WAIT = timedelta(days=14)
"""Longest time from a request to its ending.  Ample, because GitHub ends a job that has waited for a day."""


def gather(context: BotContext, now: datetime) -> RepositoryState:
    """Read the state, with six API requests, or a few more in a busy repository."""
    github, settings = context.github, context.settings
    last_at = max((run.created_at for run in github.runs(WORKFLOW, status="success")), default=None)
    since = look_back(now, last_at)
    ended = endings_since((since - LONGEST_WAIT).date())
    with context.open_ledger(either(open_requests, ended, under("moderation"))) as branch:
        # The ledger first: a request that ends meanwhile looks open here, and its step then finds it ended.
        ledger, pulls = branch.ledger, github.open_pulls()
        recent = these(ledger.ended_since(since))
        branch.check_out(either(recent, requests_of_pulls({pull.number for pull in pulls})))
        statuses = ledger.requests().facts
        is_open = {(pull.number, pull.head_sha) for pull in pulls}
        waiting = (one.request for one in statuses if one.is_open and not one.request.is_rematch)
        asked_in = {request.pull_request for request in waiting if request.asked_at <= now - PATIENCE}
        closed = tuple(_closed(github, asked_in - {pull.number for pull in pulls}))
        decisions = ledger.moderations()
        moderated, decided_at = Moderated.after(decisions), max((one.at for one in decisions), default=None)
        of_heads = [one for one in statuses if (one.request.pull_request, one.request.head_sha) in is_open]
        active = {(task, gpu) for task, gpu in _active_boards(branch, statuses, since) if gpu in settings.gpus}
        branch.check_out(boards(active | {(one.request.task, one.request.gpu) for one in of_heads}))
        tables = LedgerBoards(ledger, context.root)
        places = {one.request.id: place for one in of_heads if (place := tables.place(one))}
        active_tables = [table for name in sorted(active) if (table := tables.find(*name))]
        duels = tuple(find_due_rows(active_tables))
        unreviewed = tuple(
            HoldRow(judgements=row.judgements, reason=reason, request_id=tables.request_of(row.newest))
            for row, reason in find_unreviewed(active_tables, decisions)
        )
        provisional = find_provisional_rows(active_tables, now)
        if of_rows := {row.pull_request for row in (*duels, *provisional)}:
            branch.check_out(requests_of_pulls(of_rows))
            more = {*statuses, *ledger.requests(pulls=of_rows)}
            statuses = tuple(sorted(more, key=lambda one: (one.request.asked_at, one.request.id)))
    published = (run for run in github.runs(PUBLISH_WORKFLOW) if run.conclusion in (None, "", "success"))
    shown, spare, comments_since = _comments(github, since - PATIENCE)
    return RepositoryState(
        now=now,
        default_branch=context.default_branch,
        statuses=statuses,
        pulls=pulls,
        closed=closed,
        runs=_runs(github, statuses),
        shown=shown,
        comments_since=comments_since,
        spare=spare,
        places=places,
        duels=tuple(due for row in duels if (due := row.find_due(statuses))),
        unreviewed=unreviewed,
        provisional=tuple(due for row in provisional if (due := row.find_due(statuses))),
        published_at=max((run.created_at for run in published), default=None),
        decided_at=decided_at,
        opened=_reopened_tasks(of_heads, context.root, now),
        last_at=last_at,
        merges=settings.merge is MergeSetting.AUTO,
        bans=settings.bans,
        moderated=moderated,
        faults=decisions.faults,
    )


def _reopened_tasks(statuses: Iterable[RequestStatus], root: Path, now: datetime) -> frozenset[str]:
    """The tasks with a test among these requests that are open now."""
    boards = {(one.request.task, one.request.gpu) for one in statuses if one.request.mode is Mode.TEST}
    found = (find_board(task, gpu, root) for task, gpu in boards)
    return frozenset(board.task.name for board in found if board and board.task.is_open(now))


def _active_boards(branch: LedgerBranch, statuses: Iterable[RequestStatus], since: datetime) -> set[tuple[str, str]]:
    """The boards whose rows may be due to be judged again: reading all boards would take too long."""
    # A lifted ban may concern any board.
    decided = [one for one in branch.ledger.moderations() if one.at >= since and one.action is not Action.BAN]
    if not all(one.task and one.gpu for one in decided):
        return boards_in(branch.names)
    return {(one.task, one.gpu) for one in decided if one.task and one.gpu} | {
        (one.request.task, one.request.gpu)
        for one in statuses
        if one.request.is_ranked and (one.ending.at >= since if one.ending else one.request.is_rematch)
    }


def _closed(github: GitHub, numbers: set[int]) -> Iterator[PullRequest]:
    """Pull requests that are no longer open, as far as GitHub shows them; looks up at most `MAX_ASKED` one by one."""
    if not numbers:
        return
    newest: dict[int, PullRequest] = {}
    with contextlib.suppress(GitHubError):
        newest = {pull.number: pull for pull in github.closed_pulls() if pull.number in numbers}
    yield from newest.values()
    for number in sorted(numbers - newest.keys())[:MAX_ASKED]:
        # GitHub hides the pull requests of flagged accounts.
        with contextlib.suppress(GitHubError):
            yield github.get_pull(number)


def _runs(github: GitHub, statuses: Iterable[RequestStatus]) -> tuple[WorkflowRun, ...]:
    """The newest, back to where one may have been missed; of older ones those that wait or run, perhaps for days."""
    runs = github.all_runs(workflow_runs.WORKFLOW)
    newest = tuple(islice(runs, PER_PAGE))
    if len(newest) < PER_PAGE:
        return newest
    found = {run.id: run for run in (*newest, *workflow_runs.live_runs(github))}
    titles = {run.title for run in found.values() if not run.is_done}
    waiting = (one.request for one in statuses if one.is_open)
    missed = [request for request in waiting if workflow_runs.run_title(request.id) not in titles]
    since, oldest = min((request.asked_at for request in missed), default=None), newest[-1]
    while since and oldest.created_at >= since and (run := next(runs, None)):
        oldest = found.setdefault(run.id, run)
    return tuple(found.values())


def _comments(
    github: GitHub, since: datetime
) -> tuple[dict[int, tuple[BoardMarker, ...]], dict[int, int], datetime | None]:
    """The boards that our comments show, by pull request; the pull requests of second comments, by comment id; a time.

    The time is None if all comments were read; otherwise only those written or edited since then were.
    """
    ours: dict[int, list[Comment]] = defaultdict(list)
    recent = list(github.recent_comments(since))
    for number, comment in recent:
        # Our replies may quote our marker, too.
        if github.is_me(comment.author) and comment.body.startswith(MARKER):
            ours[number].append(comment)
    oldest = {number: min(found, key=lambda one: one.id) for number, found in ours.items()}
    spare = {one.id: number for number, found in ours.items() for one in found if one is not oldest[number]}
    is_cut = len(recent) >= MAX_LISTED
    shown = {
        number: tuple(board.facts for board in read_comment(comment.body).boards) for number, comment in oldest.items()
    }
    return shown, spare, recent[-1][1].updated_at if is_cut else None
