"""`pullrank moderate …`: record maintainers' decisions in a ledger folder or on the branch `ledger`.

decisions ─▶ one file each in `moderation/` ─▶ standings, medals and board pages are computed from them
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scripts.common.git_command import GitError
from scripts.common.options import PATH, Group, as_json_too, of_maintainers, options
from scripts.common.terminal import cell, console, table
from scripts.competition.boards import find_settings
from scripts.competition.repository import home_of, require_ledger
from scripts.github.access import connect, require_repository, require_token, server_url
from scripts.github.contribute import explaining
from scripts.github.pulls import GitHubError, require
from scripts.ledger.ledger import Ledger, LedgerError
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.names import Choose, requests_of, under
from scripts.ledger.request import Ending, EndState, Request
from scripts.moderate.decide import (
    ModerationError,
    Why,
    about_author,
    about_judgements,
    find_author,
    find_judgements,
    in_force,
    now_because,
    unknown_author,
    wanted_for,
)

if TYPE_CHECKING:
    from scripts.github.gh import GitHub
    from scripts.ledger.branch import LedgerBranch

_RIGHTS = "for this repository only, with Actions and Contents: read and write"

_in_ledger = options(
    click.option("--ledger", "folder", type=PATH, help="Ledger folder. Default: the branch on GitHub."),
    of_maintainers,
)
_deciding = options(
    click.option("--reason", required=True, help="The reason, in a sentence; the site shows it."),
    click.option(
        "--by", type=click.IntRange(min=1), help="Your account's numeric id. Default on GitHub: the token's account."
    ),
    _in_ledger,
)


@dataclass(frozen=True, kw_only=True)
class DecisionWriter:
    """The ledger that decisions are written to.  `branch` and `github` are None for a folder."""

    ledger: Ledger
    by: int
    branch: LedgerBranch | None = None
    github: GitHub | None = None

    def cancel_open_requests(self, user_id: int, why: Why) -> list[Request]:
        """Cancel an author's requests that are not judged yet, and return them."""
        if self.branch:
            self.branch.check_out(requests_of(user_id))
        waiting = [one.request for one in self.ledger.requests(user_id=user_id) if one.is_open]
        for request in waiting:
            ending = Ending(request=request.id, state=EndState.CANCELLED, at=why.at, note="the author was banned")
            self.ledger.append_ending(request, ending)
        return waiting

    def write(self, decisions: Sequence[Moderation], message: str) -> None:
        """Write the decisions; on the branch, all in one commit."""
        for decision in decisions:
            self.ledger.append_fact(decision)
        if self.branch:
            self.branch.commit(message)


@contextmanager
def _open_writer(
    folder: Path | None, repo: str | None, by: int | None, wanted: Choose, *, decides: bool = True
) -> Iterator[DecisionWriter]:
    if folder and repo:
        raise click.UsageError("--ledger cannot be combined with --repo.")
    if folder:
        if decides and not by:
            raise ModerationError("--by NUMBER is missing: `gh api user --jq .id` prints your account's id")
        yield DecisionWriter(ledger=require_ledger(folder), by=by or 0)
        return
    from scripts.ledger.branch import LedgerBranch

    token, repository = require_token(_RIGHTS), require_repository(repo, for_maintainers=True)
    url = f"{server_url()}/{repository}.git"
    with connect(repository, token) as github, LedgerBranch(url, token=token, wanted=wanted) as branch:
        with explaining(repository):
            me = github.whoami().id if decides else 0
        if decides and by not in (None, me):
            raise ModerationError(f"--by {by}: the token belongs to account {me}; leave --by out")
        yield DecisionWriter(ledger=branch.ledger, by=me, branch=branch, github=github)


@click.group(cls=Group)
def moderate() -> None:
    """Review, disqualify, hold and restore results, and ban authors, each with a reason.

    Nothing is deleted: each decision is a file in the ledger, and a later decision can reverse it.

    Example: pullrank moderate disqualify vectoradd/H100/ada --reason 'Returns an output of an earlier call.'
    """


_JUDGEMENT = (
    "WHAT is TASK/GPU/LOGIN for an author's row, TASK/GPU/LOGIN/DIGEST for one of their files, a judgement's checksum, "
    "or its path in the ledger."
)
_AUTHOR = "WHO is a login or an account's numeric id."
_ROW = "vectoradd/H100/ada --reason"


def _decide_judgements(
    action: Action, what: str, reason: str, by: int | None, folder: Path | None, repo: str | None
) -> None:
    with _open_writer(folder, repo, by, wanted_for(what)) as writer:
        meant = find_judgements(action, what, writer.ledger, home_of(folder) / "tasks")
        decisions = about_judgements(action, what, meant, writer.ledger, now_because(reason, writer.by))
        first = meant[0]
        about = f"{first.submission.login} on {first.task} / {first.gpu}"
        writer.write(decisions, f"{action.capitalize()} {about}")
        count = "1 judgement" if len(decisions) == 1 else f"{len(decisions)} judgements"
        files = ", ".join(sorted({one.submission.digest[:12] for one in meant}))
        click.echo(f"{action}: {count} of {about}, file {files}")
        _publish(writer)


def _decide_author(
    action: Action, who: str, reason: str, by: int | None, folder: Path | None, repo: str | None
) -> None:
    with _open_writer(folder, repo, by, under("moderation", "accounts")) as writer:
        user_id, login = _author(who, writer)
        why = now_because(reason, writer.by)
        decision = about_author(action, user_id, login, writer.ledger, why)
        ended = writer.cancel_open_requests(user_id, why) if action is Action.BAN else []
        writer.write([decision], f"{action.capitalize()} {login or user_id}")
        waiting = f"; cancelled {len(ended)} of their pending requests" if ended else ""
        click.echo(f"{action}: {login or 'the account'} ({user_id}){waiting}")
        _stop(writer, ended)
        _publish(writer)


def _author(who: str, writer: DecisionWriter) -> tuple[int, str | None]:
    """The account that took part under a login; else the account that has the login today."""
    if found := find_author(who, writer.ledger):
        return found
    if writer.github and (account := writer.github.find_account(who)):
        return account.id, account.login
    raise unknown_author(who, writer.ledger)


for _action, _sentence, _example in (
    (Action.DISQUALIFY, "Remove a result from its board.", f"{_ROW} 'Returns an output of an earlier call.'"),
    (Action.RESTORE, "Restore a disqualified result.", "0123456789ab --reason 'It was correct.'"),
    (Action.HOLD, "Hold a result until it is reviewed.", f"{_ROW} 'Faster than memory.'"),
    (Action.RELEASE, "Release a held result.", "0123456789ab --reason 'Reviewed, and correct.'"),
    (Action.BAN, "Ban an author; their page shows the reason.", "mallory --reason 'Attacks the judge.'"),
    (Action.UNBAN, "Lift an author's ban.", "mallory --reason 'Apologised.'"),
):
    _is_ban = _action in (Action.BAN, Action.UNBAN)
    _decide: Callable[..., None] = _decide_author if _is_ban else _decide_judgements
    _what, _about = ("who", _AUTHOR) if _is_ban else ("what", _JUDGEMENT)
    _help = f"{_sentence}\n\n{_about}\n\nExample: pullrank moderate {_action} {_example}"
    _add_options = options(click.argument(_what), _deciding)
    moderate.command(_action.value, help=_help)(_add_options(partial(_decide, _action)))


@moderate.command("list")
@_in_ledger
@as_json_too
def list_(folder: Path | None, repo: str | None, as_json: bool) -> None:
    """List the decisions in force: bans, and disqualified, held and withdrawn results.

    Example: pullrank moderate list --ledger demo/ledger
    """
    with _open_writer(folder, repo, None, under("moderation"), decides=False) as writer:
        found = list(in_force(writer.ledger))
        for fault in writer.ledger.moderations().faults:
            click.echo(f"left out: {fault}", err=True)
    if as_json:
        click.echo(json.dumps([one.model_dump(mode="json") for one in found], indent=1))
    elif not found:
        click.echo("No decision is in force: the ledger bans nobody, and no result is disqualified, held or withdrawn.")
    else:
        made = table("", "Since", "Action", "About", "Reason")
        for one in found:
            whom = one.judgement[:12] if one.judgement else one.login or str(one.user_id)
            made.add_row(f"{one.at:%Y-%m-%d}", one.action, whom, cell(one.reason))
        console().print(made)


@moderate.command()
@click.argument("file", type=PATH)
@click.option("--task", help="Task name. Default: from the file's directive or folder.")
@click.option("--task-dir", type=PATH, help="Task folder, anywhere.")
@as_json_too
def review(file: Path, task: str | None, task_dir: Path | None, as_json: bool) -> None:
    """Show what you may want to look at in a file, before you release or disqualify its result.

    The rules run on this machine. If .github/pullrank.yml has a `reader` and READER_KEY is set, a language model reads
    the file, too. Nothing is written.

    Example: pullrank moderate review submissions/vectoradd/ada/submission.py
    """
    from harness.task.submission import read_submission
    from scripts.commands.judge_file import find_task
    from scripts.review.aid import as_text, review_aid
    from scripts.review.reader import KEY

    submission = read_submission(file)
    found = find_task(file, submission, task, task_dir)
    settings = find_settings(found.folder.parent)
    reader = settings.reader if settings else None
    aid = review_aid(submission.source, submission.name, found, reader, os.environ.get(KEY, "").strip())
    if as_json:
        click.echo(json.dumps(aid.facts, indent=1))
    else:
        for line in as_text(aid):
            click.echo(line)


def _stop(writer: DecisionWriter, ended: Sequence[Request]) -> None:
    """Stop the machines that are judging cancelled requests."""
    if not writer.github:
        return
    from scripts.bot.evaluate import workflow_runs

    try:
        workflow_runs.stop(writer.github, ended)
    except GitHubError as error:
        click.echo(f"pullrank: the decision is recorded, but running jobs could not be stopped: {error}", err=True)


def _publish(writer: DecisionWriter) -> None:
    """Rebuild the site.  If that fails, the reconciler or the next scheduled build does it."""
    if not writer.github:
        click.echo(f"Rebuild the site to show it: `pullrank site build --ledger {writer.ledger.path}`")
        return
    from scripts.github.start_workflow import start_workflow

    try:
        branch = require(writer.github.ask("GET", ""), str, "default_branch")
        start_workflow(writer.github, "publish.yml", {}, branch)
        click.echo("Started a build of the site.")
    except (GitError, GitHubError, LedgerError) as error:
        click.echo(f"pullrank: the decision is recorded; the site shows it after the next build: {error}", err=True)
