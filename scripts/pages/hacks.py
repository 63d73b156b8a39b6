"""The page "Hacks we found": every file that maintainers have disqualified, with the reason; no page without any.

It has no JSON of its own: `taken_out` in each board's JSON has the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.task.task import Board
from scripts.ledger.moderation import Action
from scripts.pages.parts.paths import pull_url
from scripts.pages.parts.render import page
from scripts.pages.parts.site import Site
from scripts.pages.parts.taken_out import TakenOut


@dataclass(frozen=True, kw_only=True)
class Hack:
    """A disqualified file on a board.  `at` and `reason` are of its latest decision; `pull` may be empty."""

    board: Board
    login: str
    reason: str
    at: datetime
    pull: str


def hacks_of(site: Site, board: Board, taken_out: Sequence[TakenOut]) -> list[Hack]:
    """The disqualified files of a board, each once, however often it was judged."""
    found: dict[tuple[str, str], Hack] = {}
    for one in taken_out:  # latest decision first
        if one.action is Action.DISQUALIFY:
            login, pull = one.judgement.submission.login, pull_url(site.repository, one.judgement)
            hack = Hack(board=board, login=login, reason=one.reason, at=one.at, pull=pull)
            found.setdefault((login.casefold(), one.judgement.submission.digest), hack)
    return list(found.values())


def hack_pages(site: Site, hacks: Iterable[Hack], as_of: datetime | None) -> Iterator[tuple[str, str]]:
    """The page, latest decision first; nothing if there are no hacks."""
    latest = sorted(hacks, key=lambda one: one.at, reverse=True)
    if latest:
        now = max(filter(None, (as_of, latest[0].at)))
        yield page("hacks.html", "hacks/index.html", site=site, hacks=latest, as_of=now)
