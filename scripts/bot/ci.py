"""`pullrank ci`: what the workflows call, one command a step.  People have no use for it: help does not list it.

    environment of a step ─▶ read strictly ─▶ context: GitHub, ledger, settings ─▶ one function ─▶ a line, a summary

what scripts/bot/workflow.py names                                     every command
GITHUB_EVENT_NAME, GITHUB_EVENT_PATH                                   intake
GITHUB_EVENT_PATH, GITHUB_REF_NAME                                     report, reconcile
REQUEST, GITHUB_OUTPUT, GITHUB_RUN_ID                                  resolve
REQUEST, JUDGE, GITHUB_RUN_ID; CHECK, ARTIFACT, DIGEST where known     report
REQUEST, REFUSAL                                                       report, of what resolve has refused
GITHUB_EVENT_PATH, GITHUB_REF_NAME; SITE and the webhooks' secrets    announce
PULL_REQUEST, HEAD_SHA, GITHUB_OUTPUT, GITHUB_RUN_ID                   prepare-check
PULL_REQUEST, HEAD_SHA, CHECK, GITHUB_RUN_ID                           report-check
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.records.errors import PullRankError
from scripts.bot.workflow import (
    CiError,
    Workflow,
    require_default_branch,
    require_environment,
    say,
    summarize,
    write_outputs,
)
from scripts.github.pages import base_path, pages_address
from scripts.ledger.names import account_of, boards, either, requests_of_author_of, under

if TYPE_CHECKING:
    from scripts.github.gh import GitHub
    from scripts.ledger.request import Request

_ID = re.compile(r"[1-9][0-9]{0,18}")
_SHA = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFUSAL = re.compile(r"[^\r\n]{1,4000}")
_RESULTS = ("success", "failure", "cancelled", "skipped")


@click.group()
def ci() -> None:
    """Do one step of a workflow.

    Everything that it needs stands in the environment; see .github/workflows/.

    Example: pullrank ci reconcile
    """


@ci.command("prepare-check")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the bundle.")
def prepare_check_command(out: Path) -> None:
    """Pack the tasks that the pull request in PULL_REQUEST changes, as they are at HEAD_SHA.

    Example: pullrank ci prepare-check --out bundle
    """
    from scripts.bot.check.check_tasks import prepare

    number, head_sha = _require_asked()
    outputs, run_id = require_environment("GITHUB_OUTPUT", "GITHUB_RUN_ID")
    workflow = Workflow()
    with workflow.github() as github:
        done = prepare(number, head_sha, out, workflow.check_context(github, _require_run(run_id)))
    write_outputs(Path(outputs), done.outputs)
    say(done.note)


@ci.command("report-check")
def report_check_command() -> None:
    """Report what the check of HEAD_SHA found, in a comment and a check run.

    Example: pullrank ci report-check
    """
    from scripts.bot.check.check_tasks import report

    number, head_sha = _require_asked()
    result, run_id = require_environment("CHECK", "GITHUB_RUN_ID")
    if result not in _RESULTS:
        raise CiError("CHECK is the result of the job `check`; see check.yml")
    workflow = Workflow()
    with workflow.github() as github:
        say(report(number, head_sha, result, workflow.check_context(github, _require_run(run_id))))


def _require_asked() -> tuple[int, str]:
    """The number of the pull request that is checked, and the commit's hash.  Raises CiError if either is malformed."""
    number, head_sha = require_environment("PULL_REQUEST", "HEAD_SHA")
    if not _ID.fullmatch(number) or not _SHA.fullmatch(head_sha):
        raise CiError("PULL_REQUEST is a pull request's number, HEAD_SHA a commit's hash; see check.yml")
    return int(number), head_sha


def _require_run(run_id: str) -> int:
    if not _ID.fullmatch(run_id):
        raise CiError("GITHUB_RUN_ID is a number")
    return int(run_id)


@ci.command("intake")
def intake_command() -> None:
    """Answer the event that started this workflow: judgings, or a refusal that says how to mend it.

    Example: pullrank ci intake
    """
    from scripts.bot.intake.intake import run

    name, payload = require_environment("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH")
    workflow = Workflow()
    with workflow.github() as github:
        say(run(name, Path(payload), workflow.intake_context(github)))


@ci.command("resolve")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the bundle.")
def resolve_command(out: Path) -> None:
    """Pack what the request in REQUEST asks for, if it is still wanted.

    Example: pullrank ci resolve --out bundle
    """
    from scripts.bot.evaluate.resolve import require_request, resolve

    request_id, outputs, run_id = require_environment("REQUEST", "GITHUB_OUTPUT", "GITHUB_RUN_ID")
    workflow = Workflow()
    with (
        workflow.github() as github,
        workflow.open_fork() as fork,
        workflow.open_ledger(either(requests_of_author_of(request_id), under("moderation"))) as branch,
    ):
        asked = require_request(branch.ledger, request_id).request
        branch.check_out(either(boards([(asked.task, asked.gpu)]), account_of(asked.user_id, asked.login)))
        settings, root = workflow.settings, workflow.root
        done = resolve(request_id, out, fork=fork, ledger=branch.ledger, settings=settings, root=root)
        check = _show_running(done.request, run_id, workflow, github) if done.wanted else {}
    write_outputs(Path(outputs), done.outputs | check)
    say(done.note)


@ci.command("report")
def report_command() -> None:
    """Deliver what the judge handed over, or what was refused: ledger, check, comment, merge.

    Example: pullrank ci report
    """
    from scripts.bot.report.refuse import refuse
    from scripts.bot.report.report import Hints, run

    request_id, result, run_id = require_environment("REQUEST", "JUDGE", "GITHUB_RUN_ID")
    if result not in _RESULTS or not _ID.fullmatch(run_id):
        raise CiError("JUDGE is the result of the judge's job, and GITHUB_RUN_ID a number; see evaluate.yml")
    hints = Hints(check=_find_id("CHECK"), artifact=_find_id("ARTIFACT"), digest=_find(_DIGEST, "DIGEST"))
    workflow, refusal = Workflow(), _find(_REFUSAL, "REFUSAL")
    with workflow.github() as github:
        if refusal:
            say(refuse(request_id, refusal, workflow.report_context(github)))
            return
        context = workflow.report_context(github)
        say(run(request_id, int(run_id), result, context, hints=hints, show=_show_report))


@ci.command("reconcile")
def reconcile_command() -> None:
    """Do what was missed: judgings, deliveries, comments, merges, publication.

    Example: pullrank ci reconcile
    """
    from scripts.bot.reconcile.reconcile import ReconcileContext, run

    workflow = Workflow()
    with workflow.github() as github:
        context = ReconcileContext(intake=workflow.intake_context(github), report=workflow.report_context(github))
        lines = 0
        for line in run(context):
            say(line)
            lines += 1
    if not lines:
        say("Nothing to do.")


@ci.command("publish")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to put the site.")
def publish_command(out: Path) -> None:
    """Build the site from this checkout and the ledger.

    Example: pullrank ci publish --out _site
    """
    from harness.task.task import load_tasks
    from scripts.competition.merged import MergedFiles
    from scripts.pages.publishing.publish import build_site, described_by

    workflow = Workflow()
    merged = MergedFiles(workflow.root)
    with workflow.open_ledger(under("judgements", "moderation", "accounts")) as branch:
        report = build_site(
            load_tasks(workflow.root / "tasks"),
            branch.ledger,
            out,
            submissions=merged.source_of,
            **described_by(workflow.settings),
            repository=f"{workflow.server_url}/{workflow.repository}",
            address=pages_address(workflow.repository),
            marks_unmerged=merged.is_whole,
            base_path=base_path(workflow.repository),
            now=datetime.now(UTC),
        )
    for line in (*merged.notes, *report.lines):
        say(line)
    say(f"{report.pages} pages, {report.rows} rows, in {report.seconds:.1f} s")


@ci.command("announce")
def announce_command() -> None:
    """Tell Discord what the ledger says and Discord was not told; whatever goes wrong is said, and fails nothing.

    Example: pullrank ci announce
    """
    try:
        require_default_branch()
        for line in _announce(Workflow()):
            say(_without_addresses(line))
    except PullRankError as error:
        say(_without_addresses(f"not announced: {error}"))
    except Exception as error:
        # The site is published; a fault here must not make that look failed.  Its trace could hold an address.
        say(_without_addresses(f"not announced, by a fault of ours: {type(error).__name__}: {error}"))


def _announce(workflow: Workflow) -> Iterator[str]:
    from harness.task.task import load_tasks
    from scripts.announce.announce import AnnounceContext, run
    from scripts.announce.embeds import Look
    from scripts.announce.picture import finder
    from scripts.announce.webhook import DiscordChannel

    def open_webhook(secret: str) -> DiscordChannel | None:
        address = os.environ.get(secret, "").strip()
        return DiscordChannel.at(address, secret) if address else None

    site = f"{(os.environ.get('SITE') or pages_address(workflow.repository)).rstrip('/')}/"
    context = AnnounceContext(
        settings=workflow.settings.announcements,
        tasks=load_tasks(workflow.root / "tasks"),
        gpus=workflow.settings.gpus,
        look=Look(competition=workflow.settings.title, site=site, find_picture=finder(site)),
        open_ledger=workflow.open_ledger,
        open_webhook=open_webhook,
        now=datetime.now(UTC),
    )
    return run(context)


def _without_addresses(line: str) -> str:
    """The second lock on the webhooks' tokens: no word of an address that stands in the environment is ever said."""
    for value in os.environ.values():
        if "/webhooks/" in value:
            token = value.strip().partition("?")[0].rstrip("/").rpartition("/")[2]
            line = line.replace(value.strip(), "…")
            line = line.replace(token, "…") if len(token) > 8 else line
    return line


def _find(pattern: re.Pattern[str], name: str) -> str:
    """What another job told, if it is what it should be."""
    value = os.environ.get(name, "")
    return value if pattern.fullmatch(value) else ""


def _find_id(name: str) -> int | None:
    return int(_find(_ID, name) or 0) or None


def _show_running(request: Request, run_id: str, workflow: Workflow, github: GitHub) -> dict[str, str]:
    """Let the board's check run lead to this run; the output that names it.  Nothing is judged less for want of it."""
    from scripts.bot.comment.evaluation import show_running
    from scripts.github.pulls import GitHubError

    url = f"{workflow.server_url}/{workflow.repository}/actions/runs/{run_id}"
    try:
        check_id = show_running(github, request, url)
    except GitHubError as error:
        say(f"{request.id}: the check run does not show it: {error}")
        return {}
    return {"check": str(check_id)} if check_id else {}


def _show_report(report: str) -> None:
    summarize(f"\n{report}\n")  # Apart from the lines around it, which would become part of its last block.
