"""What the workflow steps of the bot share: the repository that they work on, and the workflow that they start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.competition.settings import Settings
from scripts.github.fork import Fork
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.names import Choose

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

PUBLISH_WORKFLOW = "publish.yml"
REVIEW_WORKFLOW = "review.yml"


@dataclass(frozen=True, kw_only=True)
class BotContext:
    """The repository that a step works on.

    Attributes:
        open_ledger: checks out the chosen part of the branch.
        open_fork: reads the changes of a commit by git.
        root: the checkout of `main`.
        default_branch: empty in intake and check, which need none.
    """

    github: GitHub
    open_ledger: Callable[[Choose], LedgerBranch]
    open_fork: Callable[[], Fork]
    settings: Settings
    root: Path
    default_branch: str = ""
    server_url: str = "https://github.com"

    @property
    def repository_url(self) -> str:
        return f"{self.server_url}/{self.github.repository}"

    def run_url(self, run_id: int) -> str:
        return f"{self.repository_url}/actions/runs/{run_id}"
