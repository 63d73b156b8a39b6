"""`pullrank ci`: one command for each workflow step.  Not meant for people, so help does not list it.

    a step's environment ─▶ parsed strictly ─▶ context: GitHub, ledger, settings ─▶ one function ─▶ a line, a summary

those of scripts/bot/workflow.py                                       every command
GITHUB_EVENT_NAME, GITHUB_EVENT_PATH                                   intake
GITHUB_EVENT_PATH, GITHUB_REF_NAME                                     report, reconcile
REQUEST, GITHUB_OUTPUT, GITHUB_RUN_ID                                  resolve
REQUEST, JUDGE, GITHUB_RUN_ID; CHECK, ARTIFACT, DIGEST                 report; the last three if known
REFUSAL                                                                report, if resolve refused the request
REQUEST; READER_KEY if there is one                                    review
GITHUB_OUTPUT                                                          publish, dataset
GITHUB_EVENT_PATH, GITHUB_REF_NAME; SITE and the webhooks' secrets    announce
PULL_REQUEST, HEAD_SHA, GITHUB_OUTPUT                                  prepare-check
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
from scripts.announce.webhook_address import hide_addresses, read_address
from scripts.bot.context import BotContext
from scripts.bot.evaluate.workflow_runs import show_running
from scripts.bot.workflow import (
    CiError,
    open_context,
    require_environment,
    say,
    summarize,
    write_outputs,
)
from scripts.common.options import Group
from scripts.github.pages import pages_address, why_no_site
from scripts.github.pulls import GitHubError
from scripts.ledger.names import account_of, boards, either, origins_of, requests_of_author_of, under
from scripts.ledger.request import Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

_ID = re.compile(r"[1-9][0-9]{0,18}")
_SHA = re.compile(r"[0-9a-f]{40}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFUSAL = re.compile(r"[^\r\n]{1,4000}")
_RESULTS = ("success", "failure", "cancelled", "skipped")


@click.group(cls=Group)
def ci() -> None:
    """Run one step of a workflow.

    It reads its input from the environment; see .github/workflows/.

    Example: pullrank ci reconcile
    """


@ci.command("prepare-check")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the bundle.")
def prepare_check_command(out: Path) -> None:
    """Pack the tasks that the pull request PULL_REQUEST changes, as of HEAD_SHA.

    Example: pullrank ci prepare-check --out bundle
    """
    from scripts.bot.check.check_tasks import prepare

    number, head_sha = _require_asked()
    (outputs,) = require_environment("GITHUB_OUTPUT")
    with open_context() as context:
        done = prepare(number, head_sha, out, context)
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
    run = _require_run("CHECK", result, run_id)
    with open_context() as context:
        say(report(number, head_sha, result, run, context))


def _require_asked() -> tuple[int, str]:
    """The pull request's number and the commit's hash.  Raises CiError if either is malformed."""
    number, head_sha = require_environment("PULL_REQUEST", "HEAD_SHA")
    if not _ID.fullmatch(number) or not _SHA.fullmatch(head_sha):
        raise CiError("PULL_REQUEST must be a pull request's number and HEAD_SHA a commit's hash; see check.yml")
    return int(number), head_sha


def _require_run(job: str, result: str, run_id: str) -> int:
    """The id of this run.  Raises CiError if it or the result of a job is malformed."""
    if result not in _RESULTS or not _ID.fullmatch(run_id):
        raise CiError(f"{job} must be the result of a job and GITHUB_RUN_ID a number; see .github/workflows/")
    return int(run_id)


@ci.command("intake")
def intake_command() -> None:
    """Answer the event that started this workflow: start judgings, or refuse and say how to fix it.

    Example: pullrank ci intake
    """
    from scripts.bot.intake.intake import run

    name, payload = require_environment("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH")
    with open_context() as context:
        say(run(name, Path(payload), context))


@ci.command("resolve")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the bundle.")
def resolve_command(out: Path) -> None:
    """Pack the bundle for the request REQUEST, if it is still open.

    Example: pullrank ci resolve --out bundle
    """
    from scripts.bot.evaluate.resolve import require_request, resolve

    request_id, outputs, run_id = require_environment("REQUEST", "GITHUB_OUTPUT", "GITHUB_RUN_ID")
    with (
        open_context() as context,
        context.open_fork() as fork,
        context.open_ledger(either(requests_of_author_of(request_id), under("moderation"))) as branch,
    ):
        asked = require_request(branch.ledger, request_id).request
        first = origins_of(asked.task, asked.fingerprint or "none")
        board = boards([(asked.task, asked.gpu)] if asked.is_ranked else [])
        branch.check_out(either(board, account_of(asked.user_id, asked.login), first))
        settings, root = context.settings, context.root
        done = resolve(request_id, out, fork=fork, ledger=branch.ledger, settings=settings, root=root)
        check = _show_running(asked, context.run_url(int(run_id)), context.github) if done.digest else {}
    write_outputs(Path(outputs), done.outputs | check)
    say(done.note)


@ci.command("report")
def report_command() -> None:
    """Deliver a judgement or a refusal: ledger, check, comment, merge.

    Example: pullrank ci report
    """
    from scripts.bot.report.outcome import Hints
    from scripts.bot.report.report import refuse, run

    request_id, result, run_id = require_environment("REQUEST", "JUDGE", "GITHUB_RUN_ID")
    run_number = _require_run("JUDGE", result, run_id)
    hints = Hints(
        check=int(_find(_ID, "CHECK") or 0) or None,
        artifact=int(_find(_ID, "ARTIFACT") or 0) or None,
        digest=_find(_DIGEST, "DIGEST"),
    )
    with open_context(default_branch_only=True) as context:
        if refusal := _find(_REFUSAL, "REFUSAL"):
            say(refuse(request_id, refusal, context))
        else:
            said = run(
                request_id,
                run_number,
                result,
                context,
                hints=hints,
                # The blank lines keep the lines around the report out of its first and last block.
                show=lambda text: summarize(f"\n{text}\n"),
            )
            say(said)


@ci.command("review")
def review_command() -> None:
    """Show maintainers what they may want to look at in the file of a held judgement.

    Example: pullrank ci review
    """
    from scripts.bot.report.review import run
    from scripts.review.reader import KEY

    (request_id,) = require_environment("REQUEST")
    with open_context() as context:
        say(run(request_id, context, os.environ.get(KEY, "").strip()))


@ci.command("reconcile")
def reconcile_command() -> None:
    """Catch up on what was missed: judgings, deliveries, comments, merges, publication.

    Example: pullrank ci reconcile
    """
    from scripts.bot.reconcile.reconcile import run

    lines = 0
    with open_context(default_branch_only=True) as context:
        for line in run(context):
            say(line)
            lines += 1
    if not lines:
        say("Nothing to do.")


@ci.command("publish")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to put the site.")
def publish_command(out: Path) -> None:
    """Build the site from this checkout and the ledger, if the repository has a site.

    Example: pullrank ci publish --out _site
    """
    from harness.task.task import load_tasks
    from scripts.competition.merged import MergedFiles
    from scripts.pages.parts.site import Site
    from scripts.pages.publishing.publish import build_site

    (outputs,) = require_environment("GITHUB_OUTPUT")
    with open_context() as context:
        address, missing = _find_site(context)
    write_outputs(Path(outputs), {"site": "false" if missing else "true"})
    if missing:
        say(missing)
        return
    merged = MergedFiles(context.root)
    site = Site.of(
        context.settings,
        sources=merged.source_of,
        repository=context.repository_url,
        address=address,
        marks_unmerged=merged.is_whole,
        now=datetime.now(UTC),
    )
    with context.open_ledger(under("judgements", "moderation", "accounts", "descriptions")) as branch:
        report = build_site(load_tasks(context.root / "tasks"), branch.ledger, out, site)
    for line in (*merged.notes, *report.lines):
        say(line)
    say(f"{report.pages} pages, {report.rows} rows, in {report.seconds:.1f} s")


@ci.command("dataset")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Where to put the files.")
def dataset_command(out: Path) -> None:
    """Write the data set of this checkout and the ledger, if the settings allow one.

    Example: pullrank ci dataset --out dataset
    """
    from harness.task.task import load_tasks
    from scripts.competition.merged import MergedFiles
    from scripts.pages.publishing.dataset import write_dataset

    (outputs,) = require_environment("GITHUB_OUTPUT")
    with open_context() as context:
        allowed = context.settings.dataset
    rows = 0
    if allowed:
        merged = MergedFiles(context.root)
        with context.open_ledger(under("judgements", "moderation", "accounts")) as branch:
            report = write_dataset(
                load_tasks(context.root / "tasks"),
                branch.ledger,
                out,
                sources=merged.source_of,
                settings=allowed,
                now=datetime.now(UTC),
            )
        rows = report.rows
        for line in (*merged.notes, *map(str, report.faults)):
            say(line)
        say(f"{rows} ranked judgements; left out: {sum(report.left_out.values())}")
    else:
        say("no data set: `dataset` in .github/pullrank.yml names no licence")
    write_outputs(Path(outputs), {"rows": str(rows)})


def _find_site(context: BotContext) -> tuple[str, str]:
    """The site's address, which may have a custom domain; and what to do before it can be deployed, "" if it can."""
    usual = pages_address(context.github.repository, context.server_url)
    try:
        site = context.github.find_pages()
    except GitHubError as error:
        say(f"GitHub does not say whether this repository has a site: {error}")
        return usual, ""
    return f"{((site and site.address) or usual).rstrip('/')}/", why_no_site(site)


@ci.command("announce")
def announce_command() -> None:
    """Post the ledger's unannounced news to Discord; errors are logged and never fail the step.

    Example: pullrank ci announce
    """
    try:
        with open_context(default_branch_only=True) as context:
            for line in _announce(context):
                say(hide_addresses(line))
    except PullRankError as error:
        say(hide_addresses(f"not announced: {error}"))
    except Exception as error:
        # The site is published, so a bug here must not fail the job.  A traceback could hold a webhook's address.
        say(hide_addresses(f"not announced, because of a bug in PullRank: {type(error).__name__}: {error}"))


def _announce(context: BotContext) -> Iterator[str]:
    from harness.task.task import load_tasks
    from scripts.announce.announce import AnnounceContext, run
    from scripts.announce.discord import DiscordChannel
    from scripts.announce.embeds import EmbedContext
    from scripts.announce.picture import finder

    def open_webhook(secret: str) -> DiscordChannel | None:
        address = read_address(secret)
        return DiscordChannel.at(address, secret, context.repository_url) if address else None

    usual = pages_address(context.github.repository, context.server_url)
    site = f"{(os.environ.get('SITE') or usual).rstrip('/')}/"
    about = AnnounceContext(
        settings=context.settings.announcements,
        tasks=load_tasks(context.root / "tasks"),
        gpus=context.settings.gpus,
        embed_context=EmbedContext(competition=context.settings.title, site=site, find_picture=finder(site)),
        open_ledger=context.open_ledger,
        open_webhook=open_webhook,
        now=datetime.now(UTC),
    )
    return run(about)


def _find(pattern: re.Pattern[str], name: str) -> str:
    """A value from another job; empty if it is missing or malformed."""
    value = os.environ.get(name, "")
    return value if pattern.fullmatch(value) else ""


def _show_running(request: Request, run_url: str, github: GitHub) -> dict[str, str]:
    """Link the board's check run to this run; returns the output with its id.  A failure does not stop the judging."""
    try:
        return {"check": str(show_running(github, request, run_url))}
    except GitHubError as error:
        say(f"{request.id}: the check run could not be updated: {error}")
        return {}
