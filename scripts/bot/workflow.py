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
from typing import TYPE_CHECKING

import click

from harness.records.errors import PullRankError
from scripts.bot.context import BotContext
from scripts.common.text import inline, plain
from scripts.competition.repository import ROOT
from scripts.competition.settings import SETTINGS, load_settings
from scripts.github.fork import Fork
from scripts.github.pulls import ACTIONS_BOT, Account, find
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.names import Choose

if TYPE_CHECKING:
    from scripts.github.gh import GitHub


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


class Workflow:
    """The repository that a step works on, with the step's token; `root` is the checkout."""

    def __init__(self) -> None:
        self._token, self.repository, self._api_url, self.server_url = require_environment(
            "GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_API_URL", "GITHUB_SERVER_URL"
        )
        self.root = ROOT
        self.settings = load_settings(self.root / SETTINGS)
        self.git_url = f"{self.server_url}/{self.repository}.git"

    def github(self) -> GitHub:
        from scripts.github.gh import GitHub

        app = os.environ.get("APP")
        me = Account(id=0, login=f"{app}[bot]", is_bot=True) if app else ACTIONS_BOT
        return GitHub(self.repository, self._token, self._api_url, me=me)

    def open_ledger(self, wanted: Choose) -> LedgerBranch:
        return LedgerBranch(self.git_url, token=self._token, wanted=wanted)

    @contextmanager
    def context(self, default_branch: str = "") -> Iterator[BotContext]:
        """What the bot's steps share, with a connection to GitHub for the block."""
        with self.github() as github:
            yield BotContext(
                github=github,
                open_ledger=self.open_ledger,
                open_fork=lambda: Fork(self.git_url, self._token),
                settings=self.settings,
                root=self.root,
                default_branch=default_branch,
                server_url=self.server_url,
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
