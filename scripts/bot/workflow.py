"""What workflow steps share: the environment, parsed strictly; the repository; the log and the summary.

GITHUB_TOKEN, GITHUB_REPOSITORY, GITHUB_API_URL, GITHUB_SERVER_URL     every step
APP                                                                    the App whose token GITHUB_TOKEN is, if it is one
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from harness.records.errors import PullRankError
from scripts.bot.context import BotContext
from scripts.common.text import inline, plain
from scripts.competition.repository import ROOT
from scripts.competition.settings import SETTINGS, load_settings
from scripts.github.fork import Fork
from scripts.github.pulls import ACTIONS_BOT, Account, find
from scripts.ledger.branch import LedgerBranch


class CiError(PullRankError):
    """The environment is not that of a workflow step."""


def require_environment(*names: str) -> list[str]:
    """The values of environment variables, all of which must be set.

    Raises:
        CiError: some are not; the message names them all.
    """
    missing = [name for name in names if not os.environ.get(name)]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise CiError(f"{', '.join(missing)} {are} not set: `pullrank ci` is for steps of .github/workflows/")
    return [os.environ[name] for name in names]


def require_default_branch() -> str:
    """The repository's default branch, the only one on which a competition's workflows run.

    Raises:
        CiError: the workflow was started on another branch.
    """
    payload, branch = require_environment("GITHUB_EVENT_PATH", "GITHUB_REF_NAME")
    try:
        named = find(json.loads(Path(payload).read_bytes()), str, "repository", "default_branch")
    except (OSError, ValueError) as error:
        raise CiError(f"{payload} cannot be read as an event: {error}") from None
    # A schedule runs on the default branch, and its event may not name it.
    if named not in (None, branch):
        raise CiError(f"this runs on branch {inline(branch)}: run it on {inline(named or '')}, the default branch")
    return branch


@contextmanager
def open_context(*, default_branch_only: bool = False) -> Iterator[BotContext]:
    """The repository that a step works on, with the step's token; connected to GitHub until the block ends."""
    from scripts.github.gh import GitHub

    token, repository, api_url, server_url = require_environment(
        "GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_SERVER_URL"
    )
    branch = require_default_branch() if default_branch_only else ""
    app, git_url = os.environ.get("APP"), f"{server_url}/{repository}.git"
    me = Account(id=0, login=f"{app}[bot]", is_bot=True) if app else ACTIONS_BOT
    settings = load_settings(ROOT / SETTINGS)
    with GitHub(repository, token, api_url, me=me) as github:
        yield BotContext(
            github=github,
            open_ledger=lambda wanted: LedgerBranch(git_url, token=token, wanted=wanted),
            open_fork=lambda: Fork(git_url, token),
            settings=settings,
            root=ROOT,
            default_branch=branch,
            server_url=server_url,
        )


def write_outputs(file: Path, outputs: dict[str, str]) -> None:
    """Write the step's outputs: names and values of one line each.

    Raises:
        CiError: a value has several lines, which the runner would read as further outputs.
    """
    if any(not (name + value).isprintable() for name, value in outputs.items()):
        raise CiError("a step's output must be one line of plain text")
    with file.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{name}={value}\n" for name, value in outputs.items())


def say(line: str) -> None:
    """Write a line to the log and to the step's summary.

    Runners obey lines that begin with `::` or hold `##[`, so these marks are broken up.
    """
    line = " ".join(plain(line).split()).lstrip(":").replace("##[", "## [")
    click.echo(line)
    summarize(f"- {inline(line, 1000)}")


def summarize(text: str) -> None:
    """Append Markdown of ours to the summary page of the workflow's run."""
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with open(summary, "a", encoding="utf-8") as stream:
            stream.write(f"{text}\n")
