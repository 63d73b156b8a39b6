"""The last line of `submit` and `watch`, whatever the outcome: the remaining quota and the site's address.

Neither is worth failing for: if GitHub does not answer, the quota is left empty and the address is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from harness.records.fields import Mode
from scripts.bot.admission.quotas import Limit, LimitUse, limit_uses
from scripts.common.git_command import GitError
from scripts.competition.repository import ROOT
from scripts.competition.settings import SETTINGS, SettingsError, load_settings
from scripts.github.access import server_url
from scripts.github.pages import pages_address
from scripts.github.pulls import GitHubError, find
from scripts.ledger.ledger import LedgerError
from scripts.ledger.names import requests_of
from scripts.submit.follow import BoardProgress, PullStatus
from scripts.submit.live_table import Voice

if TYPE_CHECKING:
    from scripts.github.gh import GitHub


@dataclass(frozen=True, kw_only=True)
class ClosingLine:
    """Prints the last line.  The token reads the ledger of a private competition."""

    github: GitHub
    token: str = field(repr=False)
    voice: Voice

    def say(self, author: int, exit_code: int, news: PullStatus | None = None) -> int:
        """Print the last line, with the quota of the account `author`; return `exit_code`."""
        used = self._quota(author)
        sentences = [f"{part}." for part in (self._way_on(news) if news else "", quota_sentence(used)) if part]
        facts = {"exit_code": exit_code, "boards": [board.facts for board in news.boards] if news else []}
        self.voice.say("end", " ".join(sentences), **facts, quota=quota_facts(used), site=self.site)
        return exit_code

    def say_of(self, news: PullStatus) -> int:
        """Print the outcome of a pull request."""
        return self.say(news.pull.author.id, news.exit_code, news)

    def _way_on(self, news: PullStatus) -> str:
        """What to do next."""
        page = f"{server_url()}/{self.github.repository}/pull/{news.pull.number}"
        if news.left_out and not news.refusal:
            then = f"request the boards that were left out at {page}"
        elif news.exit_code == 0 and news.pull.is_draft:
            then = "`pullrank submit FILE` without --draft ranks it"
        elif news.exit_code == 0 and not any(board.mode == Mode.RANKED for board in news.boards):
            then = f"accepted, but not ranked; details: {page}"
        elif news.exit_code == 0:
            then = f"`pullrank mine {news.pull.author.login} --site {self.site}` shows your ranks in a few minutes"
        elif news.exit_code == 3:
            names = ", ".join(board.gpu for board in news.boards if board.stage is BoardProgress.ENDED)
            then = f"not judged on {names}, and the bot does not try again; comment `/rerun` on the pull request"
        else:
            then = f"fix the file and submit it again; details: {page}"
        return f"#{news.pull.number}: {then}"

    def _quota(self, author: int) -> tuple[LimitUse, ...]:
        """The account's used quota; empty if the ledger or this clone's settings cannot be read."""
        from scripts.ledger.branch import LedgerBranch

        url = f"{server_url()}/{self.github.repository}.git"
        try:
            with LedgerBranch(url, token=self.token, wanted=requests_of(author)) as branch:
                history = branch.ledger.requests(user_id=author).facts
            return limit_uses(history, load_settings(ROOT / SETTINGS).limits, datetime.now(UTC))
        except (GitError, LedgerError, SettingsError):
            return ()

    @cached_property
    def site(self) -> str:
        """The site's address according to GitHub; if it does not say, the default one."""
        try:
            found = find(self.github.ask("GET", "/pages"), str, "html_url")
        except GitHubError:
            found = None
        return f"{found.rstrip('/')}/" if found else pages_address(self.github.repository, server_url())


def quota_facts(used: Sequence[LimitUse]) -> list[dict[str, Any]]:
    """The remainder of each limit; `next_at` is when the oldest counted request expires."""
    return [
        {
            "limit": use.limit,
            "used": round(use.used, 1),
            "allowed": use.allowed,
            "left": max(0.0, round(use.allowed - use.used, 1)),
            "next_at": at.isoformat() if (at := _next_at(use)) else None,
        }
        for use in used
    ]


def quota_sentence(used: Sequence[LimitUse]) -> str:
    """`7 of 10 ranked judgings in 24 hours are left; the next one is free at 2026-11-02 14:05 UTC`."""
    ranked = next((use for use in used if use.limit is Limit.RANKED), None)
    if not ranked:
        return ""
    left = f"{max(0, ranked.allowed - round(ranked.used))} of {ranked.allowed} {ranked.limit} are left"
    at = _next_at(ranked)
    return f"{left}; the next one is free at {at:%Y-%m-%d %H:%M} UTC" if at else left


def _next_at(use: LimitUse) -> datetime | None:
    return use.parts[0][0] if use.parts and use.limit is not Limit.PENDING else None
