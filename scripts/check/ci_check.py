"""`pullrank ci prepare-check` and `report-check`: the hosted steps of check.yml, with their strict environment.

PULL_REQUEST, HEAD_SHA, GITHUB_OUTPUT, GITHUB_RUN_ID     prepare-check
PULL_REQUEST, HEAD_SHA, CHECK, GITHUB_RUN_ID             report-check
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.records.errors import PullRankError

if TYPE_CHECKING:
    from scripts.bot.ci import Workflow
    from scripts.check.check_tasks import Doors
    from scripts.github.gh import GitHub

_ID = re.compile(r"[1-9][0-9]{0,18}")
_SHA = re.compile(r"[0-9a-f]{40}")
_RESULTS = ("success", "failure", "cancelled", "skipped")


class CheckError(PullRankError):
    """A step's environment is not that of check.yml."""


@click.command("prepare-check")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder for the bundle.")
def prepare_command(out: Path) -> None:
    """Pack the tasks that the pull request in PULL_REQUEST changes, as they are at HEAD_SHA.

    Example: pullrank ci prepare-check --out bundle
    """
    from scripts.bot.ci import Workflow, require_environment, say, write_outputs
    from scripts.check.check_tasks import prepare

    number, head_sha = require_asked()
    outputs, run_id = require_environment("GITHUB_OUTPUT", "GITHUB_RUN_ID")
    workflow = Workflow()
    with workflow.github() as github:
        done = prepare(number, head_sha, out, doors(workflow, github, run_id))
    write_outputs(Path(outputs), done.outputs)
    say(done.note)


@click.command("report-check")
def report_command() -> None:
    """Say what the check of HEAD_SHA came to, in a comment and a check run.

    Example: pullrank ci report-check
    """
    from scripts.bot.ci import Workflow, require_environment, say
    from scripts.check.check_tasks import report

    number, head_sha = require_asked()
    result, run_id = require_environment("CHECK", "GITHUB_RUN_ID")
    if result not in _RESULTS:
        raise CheckError("CHECK is the result of the job `check`; see check.yml")
    workflow = Workflow()
    with workflow.github() as github:
        say(report(number, head_sha, result, doors(workflow, github, run_id)))


def require_asked() -> tuple[int, str]:
    """The pull request's number and the commit's hash, and nothing else.

    Raises:
        CheckError: one of them is something else.
    """
    from scripts.bot.ci import require_environment

    number, head_sha = require_environment("PULL_REQUEST", "HEAD_SHA")
    if not _ID.fullmatch(number) or not _SHA.fullmatch(head_sha):
        raise CheckError("PULL_REQUEST is a pull request's number, HEAD_SHA a commit's hash; see check.yml")
    return int(number), head_sha


def doors(workflow: Workflow, github: GitHub, run_id: str) -> Doors:
    from scripts.check.check_tasks import Doors

    if not _ID.fullmatch(run_id):
        raise CheckError("GITHUB_RUN_ID is a number")
    return Doors(
        github=github,
        open_tasks=workflow.open_tasks,
        open_fork=workflow.open_fork,
        root=workflow.root,
        run_id=int(run_id),
        server_url=workflow.server_url,
    )
