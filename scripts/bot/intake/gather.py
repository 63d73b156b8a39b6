"""Read what a decision about an event needs, with as few API requests as possible.

ledger            participants, the author's requests, maintainers' decisions, who offered a file first; all requests
                  on boards with a limit; for /show and withdrawals judgements
GitHub            the commenter's permission; a new author's age, if there is a limit
the fork, by git  the changed files, and a submission's bytes
the checkout      settings, tasks, the merged files of others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.task.task import load_task
from scripts.bot.admission.admission import (
    Competition,
    PullContents,
    Refused,
    find_entry,
    find_known,
    merged_by_others,
    removed_task,
)
from scripts.bot.admission.copies import own_fingerprint
from scripts.bot.admission.path_rule import SubmissionPath, TaskChange
from scripts.bot.admission.quotas import WINDOW
from scripts.bot.admission.task_tree import open_tasks
from scripts.bot.comment.write_comment import find_ours
from scripts.bot.context import BotContext
from scripts.bot.intake.decision import EventFacts
from scripts.bot.intake.events import CommentEvent, Event, PullAction, PullEvent
from scripts.bot.intake.slash import Command, Verb
from scripts.bot.intake.withdrawals import ranked_beside, ranked_in
from scripts.bot.report.places import LedgerBoards
from scripts.competition.boards import offered
from scripts.competition.settings import Settings
from scripts.github.fork import Fork
from scripts.github.pulls import Account, Permission, PullRequest
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Moderated
from scripts.ledger.names import origins_of, requests_on, these, under
from scripts.ledger.origin import Origin
from scripts.standings.standings import Standings

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

_WITHOUT_FILES = frozenset({Verb.HELP, Verb.CANCEL, Verb.CI})
"""Commands that need none of the pull request's files."""


def _verb(event: Event) -> Verb | None:
    match event:
        case CommentEvent(command=Command(verb=verb)):
            return verb
    return None


def gather(event: Event, pull: PullRequest, context: BotContext, branch: LedgerBranch, now: datetime) -> EventFacts:
    """Read what a decision about an event needs."""
    ledger, settings = branch.ledger, context.settings
    task_names = tuple(sorted(path.parent.name for path in context.root.glob("tasks/*/task.yml")))
    competition = Competition(settings=settings, task_names=task_names)
    facts = renew(EventFacts(now=now, pull=pull, competition=competition), ledger)
    competition, permission = facts.competition, _permission(event, pull, context.github)
    is_obeyed = permission.can_write or not isinstance(event, CommentEvent) or _is_author(event, pull)
    contents, task_faults = PullContents(), ""
    if is_obeyed and _needs_files(event):
        with context.open_fork() as fork:
            contents, task_faults = _read_contents(event, pull, competition, context, fork)
        if contents.source:
            at = min(_happened_at(event, pull), now)
            contents = replace(contents, origin=_origin_of(contents, pull, competition, at))
    if origin := contents.origin:
        branch.check_out(origins_of(origin.task, origin.fingerprint))
    boards: tuple[Standings, ...] = ()
    if contents.task and _verb(event) is Verb.SHOW:
        branch.check_out(under(f"judgements/{contents.task.name}"))
        boards = tuple(map(LedgerBoards(ledger, context.root).of, offered(contents.task, settings.gpus).boards))
    if (is_obeyed and _verb(event) is Verb.WITHDRAW) or removed_task(contents.files, pull.author, competition):
        ranked = _that_may_be_withdrawn(facts.history, contents, pull, competition)
        branch.check_out(these(one.request.place_of_judgement for one in ranked))
    if limited := _boards_with_limits(contents, settings):
        # A request may wait for a day before it runs.
        branch.check_out(requests_on(limited, (now - 2 * WINDOW).date()))
    facts = replace(
        facts,
        contents=contents,
        author_joined_at=_author_joined_at(event, pull, competition, context.github, now) if contents.source else None,
        has_merged=_has_merged(pull.author, competition, context.root),
        permission=permission,
        task_faults=task_faults,
        standings=boards,
        happened_at=now if _was_refused(event, pull, contents, context.github, now) else _happened_at(event, pull),
    )
    return renew(facts, ledger)


def _author_joined_at(
    event: Event, pull: PullRequest, competition: Competition, github: GitHub, now: datetime
) -> datetime | None:
    """When a new author's account was created, or now if GitHub does not say; None if that does not matter."""
    is_others = isinstance(event, CommentEvent) and not _is_author(event, pull)
    if is_others or not competition.settings.limits.account_days or find_known(pull.author, competition):
        return None
    return github.joined_at(pull.author) or now


def _has_merged(author: Account, competition: Competition, root: Path) -> bool:
    """Whether a submission of the author's is on `main`."""
    known = find_known(author, competition)
    return any(root.glob(f"submissions/*/{known.login if known else author.login}/*"))


def _boards_with_limits(contents: PullContents, settings: Settings) -> list[str]:
    """The GPUs of the task whose boards have a limit of their own."""
    known = ((gpu, settings.gpus.get(gpu)) for gpu in (contents.task.gpus if contents.task else ()))
    return [gpu for gpu, board in known if board and (board.minutes_per_day or board.board_minutes_per_day)]


def _happened_at(event: Event, pull: PullRequest) -> datetime:
    """When it was requested, by GitHub's clock: a comment cannot request a commit before its push."""
    if isinstance(event, PullEvent):
        return event.happened_at or pull.updated_at
    return max(event.comment.created_at, pull.head_at)


def _was_refused(event: Event, pull: PullRequest, contents: PullContents, github: GitHub, now: datetime) -> bool:
    """Whether an event that seems lost was refused before the deadline: its repetition is not in time."""
    task, is_again = contents.task, isinstance(event, PullEvent) and event.happened_at
    if not (task and is_again and task.is_open(_happened_at(event, pull)) and not task.is_open(now)):
        return False
    notice = find_ours(pull.number, github)[1].notice
    if not notice or notice.head_sha != pull.head_sha or not notice.refused_at:
        return False
    return task.is_open(notice.refused_at)


def _origin_of(contents: PullContents, pull: PullRequest, competition: Competition, at: datetime) -> Origin | None:
    """This submission as an `Origin`, at `at`; None if it has no fingerprint of its own."""
    entry = find_entry(contents.files, pull.author, competition)
    assert isinstance(entry, SubmissionPath)
    mine = own_fingerprint(contents.source, entry.name, contents.given)
    if not mine:
        return None
    return Origin(
        fingerprint=mine,
        task=entry.task,
        user_id=pull.author.id,
        login=entry.login,
        pull_request=pull.number,
        head_sha=pull.head_sha,
        at=at,
    )


def renew(facts: EventFacts, ledger: Ledger) -> EventFacts:
    """The same facts, read again from the files of the ledger that are checked out."""
    competition = replace(
        facts.competition, accounts=ledger.accounts().facts, moderated=Moderated.after(ledger.moderations())
    )
    history, contents = ledger.requests(user_id=facts.pull.author.id).facts, facts.contents
    if contents.origin:
        contents = replace(contents, origins=ledger.origins(contents.origin.task, contents.origin.fingerprint))
    limited = _boards_with_limits(contents, competition.settings)
    on_limited = tuple(one for one in ledger.requests() if one.request.gpu in limited) if limited else ()
    ranked = _that_may_be_withdrawn(history, contents, facts.pull, competition)
    found = {one.request.id: ledger.judgement_of(one.request) for one in ranked}
    return replace(
        facts,
        competition=competition,
        history=history,
        on_limited_boards=on_limited,
        contents=contents,
        judged={request: judgement for request, judgement in found.items() if judgement},
    )


def _that_may_be_withdrawn(
    history: Sequence[RequestStatus], contents: PullContents, pull: PullRequest, competition: Competition
) -> list[RequestStatus]:
    """The author's requests whose results a pull request that removes a file withdraws, or a command in another."""
    if task := removed_task(contents.files, pull.author, competition):
        return ranked_in(history, task)
    return ranked_beside(history, pull.number)


def _is_author(event: CommentEvent, pull: PullRequest) -> bool:
    return event.comment.author.id == pull.author.id


def _permission(event: Event, pull: PullRequest, github: GitHub) -> Permission:
    """The commenter's permission; the author's is read only if it matters."""
    is_for_maintainers = _verb(event) in (Verb.CHECK, Verb.CI)
    if not isinstance(event, CommentEvent) or (_is_author(event, pull) and not is_for_maintainers):
        return Permission.NONE
    return github.permission_of(event.comment.author)


def _needs_files(event: Event) -> bool:
    if isinstance(event, PullEvent):
        return event.action not in (PullAction.CLOSED, PullAction.DRAFTED) and event.pull.is_open
    verb = _verb(event)
    return verb is not None and verb not in _WITHOUT_FILES


def _read_contents(
    event: Event, pull: PullRequest, competition: Competition, context: BotContext, fork: Fork
) -> tuple[PullContents, str]:
    """The changed files; also a submission's bytes, or the faults of tasks."""
    contents = PullContents(files=fork.changes(pull.head_sha))
    if _verb(event) is Verb.WITHDRAW:
        return contents, ""
    try:
        change = find_entry(contents.files, pull.author, competition)
    except Refused:
        return contents, ""
    if isinstance(change, TaskChange):
        with open_tasks(fork, pull.head_sha) as tree:
            return contents, tree.find_faults(change.tasks)
    if not isinstance(change, SubmissionPath) or change.task not in competition.task_names:
        return contents, ""
    task = load_task(context.root / "tasks" / change.task)
    if _verb(event) is Verb.SHOW:
        return replace(contents, task=task), ""
    blob, source = fork.read(pull.head_sha, change.path, context.settings.limits.file_kib * 1024)
    given = (*task.templates.values(), *(example.path for example in task.examples))
    return replace(
        contents,
        blob=blob,
        source=source,
        task=task,
        merged=merged_by_others(context.root, change),
        given=tuple(path.read_bytes() for path in given),
    ), ""
