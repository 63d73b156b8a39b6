"""`pullrank ci`: what the workflows call, one command a step.  People have no use for it: help does not list it.

    environment of a step ─▶ read strictly ─▶ doors: GitHub, ledger, settings ─▶ one function ─▶ a line, a summary

GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL, GITHUB_SERVER_URL     every command
GITHUB_EVENT_NAME, GITHUB_EVENT_PATH                                   intake
GITHUB_EVENT_PATH, GITHUB_REF_NAME                                     report, reconcile
REQUEST, GITHUB_OUTPUT, GITHUB_RUN_ID                                  resolve
REQUEST, JUDGE, GITHUB_RUN_ID; CHECK, ARTIFACT, DIGEST where known     report
REQUEST, REFUSAL                                                       report, of what resolve has refused
GITHUB_EVENT_PATH, GITHUB_REF_NAME; SITE and the webhooks' secrets    announce
PULL_REQUEST, HEAD_SHA, GITHUB_RUN_ID, ...; see scripts/check/ci_check.py    prepare-check, report-check
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.records.errors import PullRankError
from scripts.check import ci_check
from scripts.github.pages import base_path, pages_address
from scripts.github.pulls import find
from scripts.ledger.names import Choice, account_of, boards, either, requests_of_author_of, under
from scripts.repository import ROOT
from scripts.text import inline, plain

if TYPE_CHECKING:
    from scripts.bot import deliver, intake
    from scripts.check.static_check import TaskTree
    from scripts.github.fork import Fork
    from scripts.github.gh import GitHub
    from scripts.ledger.branch import LedgerBranch
    from scripts.ledger.request import Request
    from scripts.settings import Settings

_ID = re.compile(r"[1-9][0-9]{0,18}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_REFUSAL = re.compile(r"[^\r\n]{1,4000}")
_RESULTS = ("success", "failure", "cancelled", "skipped")


class CiError(PullRankError):
    """A step's environment is not a workflow's."""


def require_environment(*names: str) -> list[str]:
    """The values of environment variables, all of which must be there.

    Raises:
        CiError: names all that are missing.
    """
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise CiError(f"{', '.join(missing)} {are} missing: `pullrank ci` is for steps of .github/workflows/")
    return [os.environ[name] for name in names]


def require_default_branch() -> str:
    """The repository's own default branch, on which alone the workflows of a competition run.

    Raises:
        CiError: somebody has started the workflow on another branch.
    """
    payload, branch = require_environment("GITHUB_EVENT_PATH", "GITHUB_REF_NAME")
    try:
        named = find(json.loads(Path(payload).read_bytes()), str, "repository", "default_branch")
    except (OSError, ValueError) as error:
        raise CiError(f"{payload} is no event: {error}") from None
    # A schedule runs on the default branch, and its event may say nothing of it.
    if named not in (None, branch):
        raise CiError(f"this runs on the branch {inline(branch)}: run it on {inline(named or '')}, the default branch")
    return branch


class Workflow:
    """The repository that a step works for, seen with its token; `root` is the checkout."""

    def __init__(self) -> None:
        from scripts.settings import SETTINGS, load_settings

        self._token, self.repository, self._api_url, self.server_url = require_environment(
            "GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_SERVER_URL"
        )
        self.root = ROOT
        self.settings: Settings = load_settings(self.root / SETTINGS)
        self.git_url = f"{self.server_url}/{self.repository}.git"

    def github(self) -> GitHub:
        from scripts.github.gh import GitHub

        return GitHub(self.repository, self._token, self._api_url)

    def open_ledger(self, wanted: Choice) -> LedgerBranch:
        from scripts.ledger.branch import LedgerBranch

        return LedgerBranch(self.git_url, token=self._token, wanted=wanted)

    def open_fork(self) -> Fork:
        from scripts.github.fork import Fork

        return Fork(self.git_url, self._token)

    def open_tasks(self, head_sha: str) -> AbstractContextManager[TaskTree]:
        from scripts.check.static_check import open_tasks

        return open_tasks(self.git_url, self._token, head_sha)

    def intake_doors(self, github: GitHub) -> intake.Doors:
        from scripts.bot.intake import Doors
        from scripts.check.static_check import find_task_faults

        return Doors(
            github=github,
            open_ledger=self.open_ledger,
            open_fork=self.open_fork,
            find_task_faults=lambda head_sha, tasks: find_task_faults(self.git_url, self._token, head_sha, tasks),
            settings=self.settings,
            root=self.root,
        )

    def deliver_doors(self, github: GitHub) -> deliver.Doors:
        from harness.records.provenance import harness_digest
        from scripts.bot.deliver import Doors

        return Doors(
            github=github,
            open_ledger=self.open_ledger,
            open_fork=self.open_fork,
            settings=self.settings,
            root=self.root,
            harness_digest=harness_digest(),
            default_branch=require_default_branch(),
            server_url=self.server_url,
        )


@click.group()
def ci() -> None:
    """Do one step of a workflow.

    Everything that it needs stands in the environment; see .github/workflows/.

    Example: pullrank ci reconcile
    """


ci.add_command(ci_check.prepare_command)
ci.add_command(ci_check.report_command)


@ci.command("intake")
def intake_command() -> None:
    """Answer the event that started this workflow: judgings, or a refusal that says how to mend it.

    Example: pullrank ci intake
    """
    from scripts.bot.intake import run

    name, payload = require_environment("GITHUB_EVENT_NAME", "GITHUB_EVENT_PATH")
    workflow = Workflow()
    with workflow.github() as github:
        say(run(name, Path(payload), workflow.intake_doors(github)))


@ci.command("resolve")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the bundle.")
def resolve_command(out: Path) -> None:
    """Pack what the request in REQUEST asks for, if it is still wanted.

    Example: pullrank ci resolve --out bundle
    """
    from scripts.bot.resolve import require_request, resolve

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
    from scripts.bot.deliver import Hints, run
    from scripts.bot.refuse import refuse

    request_id, result, run_id = require_environment("REQUEST", "JUDGE", "GITHUB_RUN_ID")
    if result not in _RESULTS or not _ID.fullmatch(run_id):
        raise CiError("JUDGE is the result of the judge's job, and GITHUB_RUN_ID a number; see evaluate.yml")
    hints = Hints(check=_find_id("CHECK"), artifact=_find_id("ARTIFACT"), digest=_find(_DIGEST, "DIGEST"))
    workflow, refusal = Workflow(), _find(_REFUSAL, "REFUSAL")
    with workflow.github() as github:
        if refusal:
            say(refuse(request_id, refusal, workflow.deliver_doors(github)))
            return
        doors = workflow.deliver_doors(github)
        say(run(request_id, int(run_id), result, doors, hints=hints, show=_show_report))


@ci.command("reconcile")
def reconcile_command() -> None:
    """Do what was missed: judgings, deliveries, comments, merges, publication.

    Example: pullrank ci reconcile
    """
    from scripts.bot.reconcile import Doors, run

    workflow = Workflow()
    with workflow.github() as github:
        doors = Doors(intake=workflow.intake_doors(github), deliver=workflow.deliver_doors(github))
        lines = 0
        for line in run(doors):
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
    from scripts.merged import MergedFiles
    from scripts.pages.publish import build_site, described_by

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
    from scripts.announce.announce import Doors, run
    from scripts.announce.embeds import Look
    from scripts.announce.picture import finder
    from scripts.announce.webhook import Webhook

    def open_webhook(secret: str) -> Webhook | None:
        address = os.environ.get(secret, "").strip()
        return Webhook.at(address, secret) if address else None

    site = f"{(os.environ.get('SITE') or pages_address(workflow.repository)).rstrip('/')}/"
    doors = Doors(
        settings=workflow.settings.announcements,
        tasks=load_tasks(workflow.root / "tasks"),
        gpus=workflow.settings.gpus,
        look=Look(competition=workflow.settings.title, site=site, find_picture=finder(site)),
        open_ledger=workflow.open_ledger,
        open_webhook=open_webhook,
        now=datetime.now(UTC),
    )
    return run(doors)


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
    from scripts.bot.evaluation import show_running
    from scripts.github.pulls import GitHubError

    url = f"{workflow.server_url}/{workflow.repository}/actions/runs/{run_id}"
    try:
        check_id = show_running(github, request, url)
    except GitHubError as error:
        say(f"{request.id}: the check run does not show it: {error}")
        return {}
    return {"check": str(check_id)} if check_id else {}


def write_outputs(file: Path, outputs: dict[str, str]) -> None:
    """The step's outputs: names and values of one line each.

    Raises:
        CiError: a value has more than one line, and would become outputs of its own.
    """
    if any(not (name + value).isprintable() for name, value in outputs.items()):
        raise CiError("an output of a step must be one plain line")
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in outputs.items())


def say(line: str) -> None:
    """One line for the log and for the step's summary.  A runner obeys lines that begin with `::` or hold `##[`."""
    line = " ".join(plain(line).split()).lstrip(":").replace("##[", "## [")
    click.echo(line)
    summarize(f"- {inline(line, 1000)}")


def _show_report(report: str) -> None:
    summarize(f"\n{report}\n")  # Apart from the lines around it, which would become part of its last block.


def summarize(text: str) -> None:
    """Markdown of ours for the page of the workflow's run."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as stream:
            stream.write(f"{text}\n")
