"""Plan the messages of one channel: corrections of posted messages, and news not posted yet.  Pure.

posted and still true        nothing
posted and changed           edit
posted and no longer true    withdraw, unless its board has a new edition since: then it was true in its time
not posted, and fresh        post, unless an earlier post is in doubt or Discord has refused it `MAX_REFUSALS` times;
                             an outage is no refusal
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.task.task import Task
from scripts.announce.embeds import EmbedContext, Payload, payload_of, withdrawal_of
from scripts.announce.news import News, NewsKind
from scripts.competition.settings import Announcements
from scripts.competition.settings import Webhook as Channel
from scripts.ledger.announced import Announced, AnnouncementLog, Outcome, Seen

MAX_REFUSALS = 5
"""After this many refusals a message is given up."""


@dataclass(frozen=True, kw_only=True)
class Post:
    """A message to post, or to edit if it was `posted` before; without `news`, to withdraw."""

    key: str
    news: News | None = None
    posted: Outcome | None = None

    @property
    def content_digest(self) -> str | None:
        return self.news.content_digest if self.news else None

    @property
    def message(self) -> str:
        """The id of the message to edit."""
        return (self.posted and self.posted.message) or ""

    def payload(self, context: EmbedContext) -> Payload:
        if self.news:
            return payload_of(self.news, context)
        assert self.posted, "only what was posted is withdrawn"
        return withdrawal_of(self.posted.title, self.posted.task, self.posted.gpu, self.posted.at, context)


def due(
    channel: Channel,
    settings: Announcements,
    tasks: Sequence[Task],
    news: Sequence[News],
    announced: Announced,
    now: datetime,
) -> list[Post]:
    """The posts and edits due in a channel: corrections first, then news.

    Args:
        news: all news ever, oldest first.
    """
    heard = [one for one in news if channel.hears_of(one.task) and one.kind.is_wanted(settings)]
    told = {key: one for (name, key), one in announced.told.items() if name == channel.secret}
    since = announced.started.get(channel.secret, now)
    edits = (_edit_of(one, told[one.key]) for one in heard if one.key in told)
    posts = (Post(key=one.key, news=one) for one in heard if _is_due(one, told.get(one.key), since, now))
    return [*filter(None, edits), *_withdrawals(tasks, news, told, announced.seen), *posts]


def _is_due(news: News, told: AnnouncementLog | None, since: datetime, now: datetime) -> bool:
    if told and (told.posted or told.doubtful or told.refusals >= MAX_REFUSALS):
        return False
    # A deadline is still ahead, even for a channel that is newer than its notice.
    is_new = news.at > since or news.kind is NewsKind.DEADLINE
    return news.is_ready and is_new and news.at <= now < news.until


def _edit_of(news: News, told: AnnouncementLog) -> Post | None:
    stays = not told.posted or told.is_gone or told.says == news.content_digest or not news.is_ready
    return None if stays else Post(key=news.key, news=news, posted=told.posted)


def _withdrawals(
    tasks: Sequence[Task], news: Sequence[News], told: Mapping[str, AnnouncementLog], seen: Iterable[Seen]
) -> Iterator[Post]:
    known = {one.key for one in news}
    boards = {(task.name, gpu) for task in tasks for gpu in task.gpus}
    editions = {(one.task, one.gpu): one.edition for one in seen if (one.task, one.gpu) in boards}
    names = {task.name for task in tasks}
    for key, one in told.items():
        posted = one.posted
        if key in known or not posted or one.is_gone or one.says is None:
            continue
        holds = editions.get((posted.task, posted.gpu)) == posted.edition if posted.gpu else posted.task in names
        if holds:
            yield Post(key=key, posted=posted)
