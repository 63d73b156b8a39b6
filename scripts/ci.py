"""`pullrank ci`: what the workflows call, one command a step.  People have no use for it: help does not list it.

    environment of a step ─▶ read strictly ─▶ doors: GitHub, ledger, settings ─▶ one function ─▶ a line, a summary

GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL, GITHUB_SERVER_URL     every command
GITHUB_EVENT_NAME, GITHUB_EVENT_PATH                                   intake
REQUEST, GITHUB_OUTPUT, GITHUB_RUN_ID                                  resolve
REQUEST, JUDGE, GITHUB_RUN_ID                                          report
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.errors import PullRankError
from scripts.repository import ROOT
from scripts.text import inline, plain

if TYPE_CHECKING:
    from scripts import deliver, intake
    from scripts.gh import GitHub
    from scripts.git_ledger import LedgerBranch
    from scripts.request import Request
    from scripts.settings import Settings

_RUN = re.compile(r"[1-9][0-9]{0,18}")
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
        from scripts.gh import GitHub

        return GitHub(self.repository, self._token, self._api_url)

    def open_ledger(self, folders: Collection[str]) -> LedgerBranch:
        from scripts.git_ledger import LedgerBranch

        return LedgerBranch(self.git_url, token=self._token, folders=folders)

    def intake_doors(self, github: GitHub) -> intake.Doors:
        from scripts.intake import Doors
        from scripts.static_check import find_task_faults

        return Doors(
            github=github,
            open_ledger=self.open_ledger,
            find_task_faults=lambda head_sha, tasks: find_task_faults(self.git_url, self._token, head_sha, tasks),
            settings=self.settings,
            root=self.root,
        )

    def deliver_doors(self, github: GitHub) -> deliver.Doors:
        from harness.provenance import harness_digest
        from scripts.deliver import Doors

        return Doors(
            github=github,
            open_ledger=self.open_ledger,
            settings=self.settings,
            root=self.root,
            harness_digest=harness_digest(),
            server_url=self.server_url,
        )


@click.group()
def ci() -> None:
    """Do one step of a workflow.

    Everything that it needs stands in the environment; see .github/workflows/.

    Example: pullrank ci reconcile
    """


@ci.command("intake")
def intake_command() -> None:
    """Answer the event that started this workflow: judgings, or a refusal that says how to mend it.

    Example: pullrank ci intake
    """
    from scripts.intake import run

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
    from scripts.resolve import require_request, resolve

    request_id, outputs, run_id = require_environment("REQUEST", "GITHUB_OUTPUT", "GITHUB_RUN_ID")
    workflow = Workflow()
    with (
        workflow.github() as github,
        workflow.open_ledger(("requests", "judgements", "accounts", "moderation")) as branch,
    ):
        ledger = branch.ledger
        done = resolve(request_id, out, github=github, ledger=ledger, settings=workflow.settings, root=workflow.root)
        write_outputs(Path(outputs), done.outputs)
        if done.wanted:
            _show_running(require_request(ledger, request_id).request, run_id, workflow, github)
    say(done.note)


@ci.command("report")
def report_command() -> None:
    """Deliver what the judge handed over: ledger, check, comment, merge.

    Example: pullrank ci report
    """
    from scripts.deliver import run

    request_id, result, run_id = require_environment("REQUEST", "JUDGE", "GITHUB_RUN_ID")
    if result not in _RESULTS or not _RUN.fullmatch(run_id):
        raise CiError("JUDGE is the result of the judge's job, and GITHUB_RUN_ID a number; see evaluate.yml")
    workflow = Workflow()
    with workflow.github() as github:
        say(run(request_id, int(run_id), result, workflow.deliver_doors(github)))


@ci.command("reconcile")
def reconcile_command() -> None:
    """Do what was missed: judgings, deliveries, comments, merges, publication.

    Example: pullrank ci reconcile
    """
    from scripts.reconcile import Doors, run

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
    from harness.task import load_tasks
    from scripts.publish import build_site
    from scripts.site_tools import sources_in

    workflow = Workflow()
    with workflow.open_ledger(("judgements", "moderation")) as branch:
        report = build_site(
            load_tasks(workflow.root / "tasks"),
            branch.ledger,
            out,
            submissions=sources_in(workflow.root),
            title=workflow.settings.title,
            base_path=base_path(workflow.repository),
        )
    for fault in report.faults:
        say(f"left out: {fault}")
    say(f"{report.pages} pages, {report.rows} rows, in {report.seconds:.1f} s")


def base_path(repository: str) -> str:
    """Below which path GitHub Pages serves a repository's site."""
    owner, _, name = repository.partition("/")
    return "/" if name.lower() == f"{owner.lower()}.github.io" else f"/{name}/"


def _show_running(request: Request, run_id: str, workflow: Workflow, github: GitHub) -> None:
    """Let the board's check run lead to the run: there one sees whether a machine has taken it."""
    from scripts.checks import CheckState
    from scripts.evaluation import check_of

    check = check_of(request, CheckState.RUNNING, f"{request.mode}: being judged, or waits for a machine")
    url = f"{workflow.server_url}/{workflow.repository}/actions/runs/{run_id}"
    github.upsert_check(replace(check, details_url=url))


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
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as stream:
            stream.write(f"- {inline(line, 1000)}\n")
