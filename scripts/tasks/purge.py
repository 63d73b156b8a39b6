"""`pullrank task archive --purge`: delete a task, its submissions and its facts in the ledger.

name typed? ─▶ no other task uses its files? ─▶ repository admin? ─▶ one commit on the branch ─▶ the local folders

It deletes from the ledger the task's judgements, its requests with their endings and costs, who offered its files
first, what their authors say about them, and the decisions about those judgements.  Accounts stay, and so do the
records of Discord announcements, so that none is sent twice.  The branch's history keeps everything.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Task, load_tasks
from scripts.competition.repository import require_ledger
from scripts.github.access import connect, require_repository, require_token, server_url
from scripts.github.contribute import explaining
from scripts.github.credentials import AccessError
from scripts.ledger.ledger import Ledger
from scripts.ledger.names import either, these, under

_FOLDERS = ("judgements", "origins", "descriptions")
"""The ledger's folders with a folder for each task."""
_RIGHTS = "for this repository only, with Contents: read and write"


def purge_task(task: Task, typed: str, folder: Path | None, repo: str | None) -> None:
    """Delete everything of a task, first in the ledger: in a folder or on GitHub's branch.

    Raises:
        TaskError: the task's name was not typed, or another task uses its files.
        AccessError: the token's account does not administer the repository.
        LedgerError: the branch could not be changed.
    """
    if typed != task.name:
        raise TaskError(f"nothing was deleted: --purge needs the task's name; add --confirm {task.name}")
    _require_unshared(task)
    if folder:
        ledger = require_ledger(folder)
        _delete(ledger.path / place for place in facts_of(task.name, ledger))
    else:
        _purge_branch(task.name, repo)
    _delete((task.folder, task.folder.parent.parent / "submissions" / task.name))
    click.echo("Commit and push this now: until it is on the default branch, the task is judged as before.")


def facts_of(task: str, ledger: Ledger) -> set[Path]:
    """A task's paths in the ledger: its folders, and other files."""
    checksums = {judgement.checksum for judgement in ledger.judgements(task).judgements}
    requests = [one.request for one in ledger.requests() if one.request.task == task]
    decisions = {decision.place for decision in ledger.moderations() if decision.judgement in checksums}
    asked = {place for request in requests for place in (request.place, request.place_of_ending, request.place_of_cost)}
    return {Path(folder, task) for folder in _FOLDERS} | asked | decisions


def _purge_branch(task: str, repo: str | None) -> None:
    from scripts.ledger.branch import LedgerBranch

    token, repository = require_token(_RIGHTS), require_repository(repo, for_maintainers=True)
    _require_owner(repository, token)
    folders = under(*(f"{folder}/{task}" for folder in _FOLDERS))
    wanted = either(folders, under("requests", "moderation"))
    with LedgerBranch(f"{server_url()}/{repository}.git", token=token, wanted=wanted) as branch:
        gone = either(folders, these(facts_of(task, branch.ledger)))
        count = branch.remove(gone, f"Purge {task}")
    click.echo(f"deleted {count} files of {task} from the branch `ledger`; its history keeps them")


def _require_owner(repository: str, token: str) -> None:
    """Raises AccessError: the token's account does not administer the repository."""
    from scripts.github.admin import Admin

    with connect(repository, token) as github, explaining(repository):
        if not Admin(github).is_admin:
            login = github.whoami().login
            raise AccessError(
                f"nothing was deleted: only an admin of {repository} may purge, and this token belongs to {login}, who "
                f"is not one. `pullrank task archive` without --purge closes a task"
            )


def _delete(places: Iterable[Path]) -> None:
    for place in sorted(places):
        if place.is_dir():
            shutil.rmtree(place)
            click.echo(f"deleted {display(place)}/")
        elif place.is_file():
            place.unlink()
            click.echo(f"deleted {display(place)}")


def _require_unshared(task: Task) -> None:
    """Raises TaskError: another task uses files of this one."""
    for other in load_tasks(task.folder.parent):
        paths = [*other.sources.values(), *other.templates.values()]
        if other.name != task.name and any(path.is_relative_to(task.folder) for path in paths):
            raise TaskError(f"nothing was deleted: {other.name} uses files of {task.name}; copy them there first")
