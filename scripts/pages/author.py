"""An author's page: their rows on all boards, their improvements, and their ban, if any."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from scripts.competition.settings import Ban
from scripts.ledger.moderation import KnownAccount, Moderation, find_owner
from scripts.pages.edition import FormerPlace
from scripts.pages.parts.paths import author_path
from scripts.pages.parts.render import data, page
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import BoardSummary, Mark, NewBest, Place


@dataclass(frozen=True, kw_only=True)
class Banned:
    """A ban.  `at` is the time of the decision; bans in the settings have none."""

    reason: str
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Author:
    """An author's rows in `places`, best first, and in earlier editions in `former`, latest first; `ban` if banned.

    `steps` are their improvements and records, newest first.
    """

    login: str
    places: list[Place] = field(default_factory=list)
    former: list[FormerPlace] = field(default_factory=list)
    steps: list[NewBest] = field(default_factory=list)
    ban: Banned | None = None

    @property
    def records(self) -> list[Mark]:
        return [step.record for step in self.steps if step.record]

    @property
    def medals(self) -> tuple[int, int, int]:
        """The numbers of first, second and third places, without provisional rows."""
        ranks = [place.rank for place in self.places if not place.provisional]
        return ranks.count(1), ranks.count(2), ranks.count(3)


LATEST_STEPS = 20
"""Steps of the history that are shown; older ones are collapsed."""


def author_pages(site: Site, authors: Sequence[Author]) -> Iterator[tuple[str, str]]:
    """A page and its JSON for each author."""
    for author in authors:
        yield page("author.html", author_path(author.login), site=site, author=author, latest=LATEST_STEPS, as_of=None)
        facts = {
            "login": author.login,
            "medals": dict(zip(("first", "second", "third"), author.medals, strict=True)),
            "rows": [place.facts for place in author.places],
            "earlier_editions": [place.facts for place in author.former],
            "records": [mark.facts for mark in author.records],
            "history": [step.facts for step in author.steps],
            "ban": author.ban and {"reason": author.ban.reason, "at": author.ban.at and author.ban.at.isoformat()},
        }
        yield data(author_path(author.login, "author.json"), facts)


def bans_by_login(bans: Iterable[Moderation | Ban], accounts: Sequence[KnownAccount]) -> Iterator[tuple[str, Banned]]:
    """Bans by login: every login whose folders belong to the banned account, not the login that it has today.

    A ban in the settings may name only a login; then it is for the account that has it.
    """
    for ban in bans:
        banned = Banned(reason=ban.reason, at=ban.at if isinstance(ban, Moderation) else None)
        taken = [account.login for account in accounts if account.user_id == ban.user_id]
        for login in taken or filter(None, [ban.login]):
            owner = find_owner(accounts, login)
            if ban.user_id is None or not owner or owner.user_id == ban.user_id:
                yield login, banned


def authors_of(
    boards: Sequence[BoardSummary], former: Iterable[FormerPlace], bans: Mapping[str, Banned]
) -> list[Author]:
    """Everybody with a row, now or in an earlier edition, or a ban, sorted by login.  Logins ignore case."""
    found: dict[str, Author] = {}
    for board in boards:
        for place in board.places:
            found.setdefault(place.login.lower(), Author(login=place.login)).places.append(place)
        for step in board.steps:
            found.setdefault(step.login.lower(), Author(login=step.login)).steps.append(step)
    for gone in former:
        found.setdefault(gone.login.lower(), Author(login=gone.login)).former.append(gone)
    for login, ban in bans.items():
        found[login.lower()] = replace(found.get(login.lower(), Author(login=login)), ban=ban)
    for author in found.values():
        author.places.sort(key=lambda place: (place.rank, -place.of))
        author.former.sort(key=lambda place: place.until, reverse=True)
        author.steps[:] = sorted(author.steps, key=lambda step: step.at)[::-1]
    return [found[key] for key in sorted(found)]
