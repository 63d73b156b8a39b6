"""`pullrank ci intake`: an event in; requests, endings, a comment and started judgings out.

    payload ─▶ read_event ─▶ gather ─▶ decide (pure) ─▶ carried out, in this order
                                                        ledger     one commit
                                                        comment    the pull request's, or a reply
                                                        dispatch   one evaluate.yml for each board

If a step fails, the reconciler does the rest: the ledger knows what was requested.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from harness.records.errors import PullRankError
from scripts.bot.comment.comment_text import PullComment
from scripts.bot.comment.markers import Tone
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.write_comment import find_ours, write
from scripts.bot.context import PUBLISH_WORKFLOW, BotContext
from scripts.bot.evaluate import workflow_runs
from scripts.bot.intake.comment_commands import decide_on_comment
from scripts.bot.intake.decision import Decision, EventFacts
from scripts.bot.intake.events import CommentEvent, Event, Nothing, PullAction, PullEvent, read_event
from scripts.bot.intake.gather import gather, renew
from scripts.bot.intake.pull_events import decide_on_pull
from scripts.github.checks import CheckState
from scripts.github.pulls import GitHubError, PullRequest
from scripts.github.start_workflow import start_workflow
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import Ledger
from scripts.ledger.names import account_of, either, requests_of, under
from scripts.ledger.request import BY_COMMAND, EndState, Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

LATE = timedelta(minutes=1)
"""An older event may have been overtaken by a newer one that left nothing in the ledger, such as the closing of a pull
request without requests; this is checked.  A younger event may be, too, but then `report` makes no row of it."""
MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
WORKFLOW = "intake.yml"
CI_WORKFLOW = "ci.yml"
CHECK_WORKFLOW = "check.yml"
"""Runs a changed task in the sandbox on GitHub's own machines, after a maintainer's `/check`."""


def decide(event: Event, facts: EventFacts) -> Decision:
    """Decide what to do about an event.  Pure."""
    return decide_on_comment(event, facts) if isinstance(event, CommentEvent) else decide_on_pull(event, facts)


def run(event_name: str, payload: Path, context: BotContext, now: datetime | None = None) -> str:
    """Do what an event asks for; returns a log line.

    Raises:
        PullRankError: GitHub, the ledger, or the repository's own files fail.
    """
    event = read_event(event_name, _load(payload))
    if isinstance(event, Nothing):
        return f"Nothing to do: {event.reason}."
    return handle_event(event, context, now)


def handle_event(event: Event, context: BotContext, now: datetime | None = None) -> str:
    """Do what an event asks for; returns a log line."""
    pull = event.pull if isinstance(event, PullEvent) else context.github.get_pull(event.number)
    author = pull.author
    wanted = either(requests_of(author.id), account_of(author.id, author.login), under("moderation"))
    with context.open_ledger(wanted) as branch:
        facts = gather(event, pull, context, branch, (now or datetime.now(UTC)).replace(microsecond=0))
        decision, asked = _write(event, facts, branch, context.github)
        record = PullRecord.of(pull.number, branch.ledger.requests(user_id=pull.author.id), context.root)
    is_opening = isinstance(event, PullEvent) and event.action is PullAction.OPENED
    is_first = is_opening and bool(asked) and not facts.of_pull
    is_news = decision.notice or decision.endings or asked or decision.is_settled
    short = _show(decision, record, facts, asked, context.github, is_first=is_first) if is_news else ""
    _stop(decision, asked, context.github)
    _answer(event, decision, pull, context.github)
    _start(decision, pull, asked, context.github, event.default_branch)
    return f"#{pull.number}: {'; '.join(filter(None, [decision.why, short]))}."


def _load(payload: Path) -> object:
    try:
        if payload.stat().st_size > MAX_PAYLOAD_BYTES:
            raise PullRankError(f"{payload} is larger than any GitHub event")
        return json.loads(payload.read_bytes())
    except OSError as error:
        raise PullRankError(
            f"{payload} cannot be read: {error.strerror}; GITHUB_EVENT_PATH must name the event's file"
        ) from None
    except (ValueError, RecursionError) as error:
        raise PullRankError(f"{payload} is not JSON: {error}") from None


# Writing.


def _write(
    event: Event, facts: EventFacts, branch: LedgerBranch, github: GitHub
) -> tuple[Decision, tuple[Request, ...]]:
    """Decide, and write the decision to the ledger; also returns the requests that this run added and must start.

    If an author's events arrive together, each decision builds on the ones before, so that quotas hold.
    """
    decision = _decide(event, facts, github)
    if not _append(decision, branch.ledger):
        return decision, ()

    def decide_anew() -> str:
        nonlocal decision
        decision = _decide(event, renew(facts, branch.ledger), github)
        _append(decision, branch.ledger)
        return _message(decision, facts)

    standing = set(branch.commit(_message(decision, facts), decide_anew))
    return decision, tuple(request for request in decision.requests if request.place in standing)


def _decide(event: Event, facts: EventFacts, github: GitHub) -> Decision:
    """Decide what to do; nothing if a newer event has overtaken this one, which must not end newer requests."""
    decision = decide(event, facts)
    if isinstance(event, PullEvent) and _may_be_overtaken(event.pull, decision, facts):
        then, now = event.pull, github.get_pull(event.pull.number)
        if (then.head_sha, then.is_open, then.is_draft) != (now.head_sha, now.is_open, now.is_draft):
            return Decision(why="left to a newer event of the pull request")
    return decision


def _may_be_overtaken(pull: PullRequest, decision: Decision, facts: EventFacts) -> bool:
    """Whether the pull request's current state is worth a request."""
    is_late = facts.now - pull.updated_at > LATE and bool(decision.requests or decision.endings)
    # The reconciler requests a judging again that a late event ended by mistake, but not one that its author withdrew.
    withdraws = decision.withdrawals or any(ending.note.startswith(BY_COMMAND) for _, ending in decision.endings)
    is_behind = any(one.request.asked_at > pull.updated_at for one in facts.of_pull)
    return is_late or bool(withdraws) or is_behind


def _append(decision: Decision, ledger: Ledger) -> bool:
    """Append the decision's facts; returns whether any of them is new."""
    added = [ledger.append_account(decision.account)] if decision.account else []
    added += [ledger.append_fact(decision.origin)] if decision.origin else []
    added += [ledger.append_request(request) for request in decision.requests]
    added += [ledger.append_ending(request, ending) for request, ending in decision.endings]
    added += [ledger.append_fact(withdrawal) for withdrawal in decision.withdrawals]
    return any(added)


def _message(decision: Decision, facts: EventFacts) -> str:
    return f"#{facts.pull.number}: {decision.why}"


def _show(
    decision: Decision,
    record: PullRecord,
    facts: EventFacts,
    asked: Sequence[Request],
    github: GitHub,
    *,
    is_first: bool,
) -> str:
    """Update the pull request's comment; returns why it is shorter than it should be.

    Each board's own run makes its check run, which links to the run.

    `is_first`: no comment can exist yet, because this run has made the first requests of a new pull request.
    """
    pull = facts.pull
    known, kept = (None, PullComment()) if is_first else find_ours(pull.number, github)
    # An ending alone is no reason for a first comment.
    if not (known or decision.notice or asked):
        return ""
    notice = None if decision.is_settled else kept.notice
    if decision.notice:
        before = kept.notice.refused_at if kept.notice and kept.notice.head_sha == pull.head_sha else None
        refused_at = before or (facts.now if decision.notice.tone is Tone.REFUSED else None)
        notice = decision.notice.model_copy(update={"head_sha": pull.head_sha, "refused_at": refused_at})
    return write(record, known, kept, github, notice=notice, ours={request.id for request in asked})


def _stop(decision: Decision, asked: Sequence[Request], github: GitHub) -> None:
    """Stop the runs of ended requests, except those that a newer run of their group replaces."""
    groups = {workflow_runs.group_of(request) for request in asked}
    ended = [request for request, _ in decision.endings if workflow_runs.group_of(request) not in groups]
    workflow_runs.stop(github, ended)
    cancelled = {request.id for request, ending in decision.endings if ending.state is EndState.CANCELLED}
    for request in ended:
        if request.id in cancelled and request.gpu not in {one.gpu for one in asked}:
            github.upsert_check(workflow_runs.check_of(request, CheckState.CANCELLED, "cancelled"))


def _answer(event: Event, decision: Decision, pull: PullRequest, github: GitHub) -> None:
    """Reply to a comment, once even if its event repeats, and react to it, so that its author sees that it was read."""
    if not isinstance(event, CommentEvent):
        return
    if decision.answer:
        marker = f"<!-- pullrank answer to comment {event.comment.id} -->"
        github.upsert_comment(pull.number, marker, f"{marker}\n{decision.answer}")
    if decision.reaction:
        github.react(event.comment.id, decision.reaction)


# Starting.


def _start(decision: Decision, pull: PullRequest, asked: Sequence[Request], github: GitHub, branch: str) -> None:
    """Start all judgings; a failure does not stop the others.

    Raises:
        GitHubError: the first failure.
    """
    failures = []
    for request in asked:
        try:
            workflow_runs.start(github, request, branch)
        except GitHubError as error:
            failures.append(error)
    if decision.withdrawals:
        start_workflow(github, PUBLISH_WORKFLOW, {}, branch)
    if decision.checks_tasks:
        inputs = {"pull_request": str(pull.number), "head_sha": pull.head_sha}
        start_workflow(github, CHECK_WORKFLOW, inputs, branch)
    if decision.tested_branch:
        # In full: a tag of the same name would win.
        start_workflow(github, CI_WORKFLOW, {}, f"refs/heads/{decision.tested_branch}")
    if failures:
        raise failures[0]
