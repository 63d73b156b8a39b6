"""`pullrank ci intake`: an event in; requests, endings, a comment, check runs and started judgings out.

    payload ─▶ read_event ─▶ what it needs, read ─▶ decide (pure) ─▶ done, in this order
                                                                     ledger     one commit
                                                                     comment    the pull request's, or an answer
                                                                     checks     one for each board
                                                                     dispatch   one evaluate.yml for each board

Whatever is left undone by a failure on the way, the reconciler does: the ledger knows what was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import PullRankError
from harness.task import Task, load_task
from scripts import evaluation
from scripts.admission import Competition, Offer, Refused, find_entry
from scripts.checks import CheckState
from scripts.clones import Original
from scripts.commands import decide_on_comment
from scripts.comment import MARKER, PullComment, ended_section, queued_section, read_comment
from scripts.decision import Decision, Facts
from scripts.events import CommentEvent, Event, Nothing, PullAction, PullEvent, read_event
from scripts.moderation import Moderated
from scripts.offers import decide_on_pull
from scripts.path_rule import FOLDER, Entry, TaskChange
from scripts.pulls import Comment, Permission, PullRequest
from scripts.request import EndState, Request
from scripts.slash import Command, Verb
from scripts.standings import Standings, standings

if TYPE_CHECKING:
    from scripts.gh import GitHub
    from scripts.git_ledger import LedgerBranch
    from scripts.settings import Settings

MAX_PAYLOAD_BYTES = 32 * 1024 * 1024
CHECK_WORKFLOW = "check.yml"
"""Runs a changed task, on GitHub's own machines and inside the walls, once a maintainer has said `/check`."""

_BLIND = frozenset({Verb.HELP, Verb.CANCEL})
"""Commands that need nothing of the pull request's files."""


class IntakeError(PullRankError):
    """The event cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Doors:
    """What intake talks to.

    `open_ledger` checks out some folders of the branch; `find_task_faults` reads the tasks of a commit.
    """

    github: GitHub
    open_ledger: Callable[[Collection[str]], LedgerBranch]
    find_task_faults: Callable[[str, Sequence[str]], str]
    settings: Settings
    root: Path


def decide(event: Event, facts: Facts) -> Decision:
    """What is to be done about an event.  Pure."""
    return decide_on_comment(event, facts) if isinstance(event, CommentEvent) else decide_on_pull(event, facts)


def run(event_name: str, payload: Path, doors: Doors, now: datetime | None = None) -> str:
    """Do what an event asks for, and say in a line what was done.

    Raises:
        PullRankError: GitHub, the ledger, or the repository's own files fail.
    """
    event = read_event(event_name, _load(payload))
    if isinstance(event, Nothing):
        return f"Nothing to do: {event.reason}."
    return follow(event, doors, now)


def follow(event: Event, doors: Doors, now: datetime | None = None) -> str:
    """Do what an event asks for; a line that says what was done."""
    pull = event.pull if isinstance(event, PullEvent) else doors.github.get_pull(event.number)
    with doors.open_ledger(_folders(event)) as branch:
        facts = _read(event, pull, doors, branch, (now or datetime.now(UTC)).replace(microsecond=0))
        decision = decide(event, facts)
        asked = _write(decision, pull, branch)
    is_opening = isinstance(event, PullEvent) and event.action is PullAction.OPENED
    is_first = is_opening and bool(asked) and not facts.of_pull
    _show(decision, pull, asked, doors.github, is_first=is_first)
    for request in asked:
        evaluation.start(doors.github, request, event.default_branch)
    _answer(event, decision, pull, doors.github)
    if decision.checks_tasks:
        inputs = {"pull_request": str(pull.number), "head_sha": pull.head_sha}
        doors.github.dispatch(CHECK_WORKFLOW, inputs, event.default_branch)
    return f"#{pull.number}: {decision.why}."


def _load(payload: Path) -> object:
    try:
        if payload.stat().st_size > MAX_PAYLOAD_BYTES:
            raise IntakeError(f"{payload} is larger than any event of GitHub's")
        return json.loads(payload.read_bytes())
    except OSError as error:
        raise IntakeError(f"{payload} cannot be read: {error.strerror}; GITHUB_EVENT_PATH names the event") from None
    except (ValueError, RecursionError) as error:
        raise IntakeError(f"{payload} is not JSON: {error}") from None


# Reading.


def _folders(event: Event) -> tuple[str, ...]:
    folders = ("requests", "accounts", "moderation")
    return (*folders, "judgements") if _verb(event) is Verb.SHOW else folders


def _verb(event: Event) -> Verb | None:
    match event:
        case CommentEvent(command=Command(verb=verb)):
            return verb
    return None


def _read(event: Event, pull: PullRequest, doors: Doors, branch: LedgerBranch, now: datetime) -> Facts:
    """What an event needs, with as few requests as can be."""
    ledger = branch.ledger
    competition = Competition(
        settings=doors.settings,
        accounts=ledger.accounts().facts,
        moderated=Moderated.after(ledger.moderations()),
        task_names=tuple(sorted(path.parent.name for path in doors.root.glob("tasks/*/task.yml"))),
    )
    permission = _permission(event, pull, doors.github)
    is_obeyed = permission.can_write or not isinstance(event, CommentEvent) or _is_author(event, pull)
    offer, task_faults = Offer(pull=pull), ""
    if is_obeyed and _needs_files(event):
        offer, task_faults = _read_offer(event, pull, competition, doors)
    boards: tuple[Standings, ...] = ()
    if offer.task and _verb(event) is Verb.SHOW:
        boards = tuple(
            standings(board, ledger.judgements(board.task.name, board.gpu).judgements)
            for board in offer.task.boards
            if board.gpu in doors.settings.gpus
        )
    return Facts(
        now=now,
        offer=offer,
        competition=competition,
        history=ledger.requests(user_id=pull.author.id).facts,
        permission=permission,
        task_faults=task_faults,
        standings=boards,
    )


def _is_author(event: CommentEvent, pull: PullRequest) -> bool:
    return event.comment.author.id == pull.author.id


def _permission(event: Event, pull: PullRequest, github: GitHub) -> Permission:
    """The commenter's; an author is asked for it only where it counts."""
    if not isinstance(event, CommentEvent) or (_is_author(event, pull) and _verb(event) is not Verb.CHECK):
        return Permission.NONE
    return github.permission_of(event.comment.author)


def _needs_files(event: Event) -> bool:
    if isinstance(event, PullEvent):
        return event.action not in (PullAction.CLOSED, PullAction.DRAFTED) and event.pull.is_open
    verb = _verb(event)
    return verb is not None and verb not in _BLIND


def _read_offer(event: Event, pull: PullRequest, competition: Competition, doors: Doors) -> tuple[Offer, str]:
    """The changed files; of a submission its bytes, too, of tasks their faults."""
    offer = Offer(pull=pull, files=doors.github.changed_files(pull.number))
    try:
        change = find_entry(offer, competition)
    except Refused:
        return offer, ""
    if isinstance(change, TaskChange):
        return offer, doors.find_task_faults(pull.head_sha, change.tasks)
    if not isinstance(change, Entry) or change.task not in competition.task_names:
        return offer, ""
    task = load_task(doors.root / "tasks" / change.task)
    if _verb(event) is Verb.SHOW:
        return Offer(pull=pull, files=offer.files, task=task), ""
    return _read_file(offer, change, task, doors), ""


def _read_file(offer: Offer, entry: Entry, task: Task, doors: Doors) -> Offer:
    blob = doors.github.tree_entry(offer.pull.head_sha, entry.path)
    max_bytes = doors.settings.limits.file_kib * 1024
    source = b""
    if blob and blob.is_plain and blob.size <= max_bytes:
        source = doors.github.read_blob(blob.sha, max_bytes)
    return Offer(
        pull=offer.pull,
        files=offer.files,
        blob=blob,
        source=source,
        task=task,
        merged=_merged_by_others(doors.root, entry),
        given=tuple(path.read_bytes() for path in (*task.templates.values(), *(e.path for e in task.examples))),
    )


def _merged_by_others(root: Path, entry: Entry) -> tuple[Original, ...]:
    """The merged files of a task but for one author's, as they stand on the default branch."""
    files = sorted((root / FOLDER / entry.task).glob(f"*/{entry.name}"))
    others = [file for file in files if file.parent.name.lower() != entry.login.lower() and not file.is_symlink()]
    return tuple(Original(login=file.parent.name, name=file.name, source=file.read_bytes()) for file in others)


# Writing.


def _write(decision: Decision, pull: PullRequest, branch: LedgerBranch) -> tuple[Request, ...]:
    """Put what was decided into the ledger; returns the requests that are new there, and ours to start."""
    ledger = branch.ledger
    added = [ledger.append_account(decision.account)] if decision.account else []
    new = [request for request in decision.requests if ledger.append_request(request)]
    added += [ledger.append_ending(request, ending) for request, ending in decision.endings]
    if not new and not any(added):
        return ()
    standing = set(branch.commit(f"#{pull.number}: {decision.why}"))
    return tuple(request for request in new if request.place in standing)


def _show(decision: Decision, pull: PullRequest, asked: Sequence[Request], github: GitHub, *, is_first: bool) -> None:
    """Say it in the pull request's comment and in its checks.

    `is_first`: nobody can have written the comment before us, for the requests of an opened one are ours.
    """
    if decision.notice or decision.endings or asked or decision.is_settled:
        known = None if is_first else github.find_comment(pull.number, MARKER)
        _show_in_comment(decision, pull, asked, github, known)
    for request in asked:
        github.create_check(evaluation.check_of(request, CheckState.QUEUED, f"{request.mode}: waits for a machine"))
    _show_cancelled(decision, asked, github)


def _show_in_comment(
    decision: Decision, pull: PullRequest, asked: Sequence[Request], github: GitHub, known: Comment | None
) -> None:
    text = _next_comment(read_comment(known.body) if known else PullComment(), decision, asked).render()
    if known:
        github.upsert_comment(pull.number, MARKER, text, known)
    elif decision.notice or asked:
        # What nobody has to be told is no reason for a first comment.
        github.comment(pull.number, text)


def _next_comment(comment: PullComment, decision: Decision, asked: Sequence[Request]) -> PullComment:
    """The comment after a decision."""
    if decision.notice or decision.is_settled:
        comment = comment.with_notice(decision.notice)
    if decision.file:
        comment = comment.with_file(decision.file)
    for request, ending in decision.endings:
        if comment.shows(request.id):
            comment = comment.with_board(ended_section(request, ending))
    for request in asked:
        comment = comment.with_board(queued_section(request))
    return comment


def _show_cancelled(decision: Decision, asked: Sequence[Request], github: GitHub) -> None:
    """Runs that somebody cancelled are stopped; those that a newer one replaces, GitHub stops by their group."""
    cancelled = [request for request, ending in decision.endings if ending.state is EndState.CANCELLED]
    if not cancelled:
        return
    evaluation.stop(github, cancelled)
    for request in cancelled:
        if request.gpu not in {one.gpu for one in asked}:
            github.upsert_check(evaluation.check_of(request, CheckState.CANCELLED, "cancelled"))


def _answer(event: Event, decision: Decision, pull: PullRequest, github: GitHub) -> None:
    """Answer a comment, once; and react to it, so that its author sees that it was read."""
    if decision.answer:
        marker = f"<!-- pullrank answer to {decision.answer.key} -->"
        github.upsert_comment(pull.number, marker, f"{marker}\n{decision.answer.text}")
    if decision.reaction and isinstance(event, CommentEvent):
        github.react(event.comment.id, decision.reaction)
