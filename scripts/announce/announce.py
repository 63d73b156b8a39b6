"""Announce the ledger's news on Discord: each item once, and corrected if the ledger changes.

    an intent without an outcome  ─▶ reported, never posted again
    a new channel                 ─▶ gets news from now on
    news not posted yet           ─▶ intent, commit, post, outcome, commit      one message after the other
    a message that is wrong now   ─▶ edit

However a run ends, at most one message has an intent without an outcome.  A commit has the outcome of one message and
the intent of the next.  Runs of publish.yml wait for each other.  If two overlap anyway, only one gets an intent: the
ledger accepts a file once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from harness.records.errors import PullRankError
from harness.task.task import Task
from scripts.announce.all_news import gather
from scripts.announce.discord import DiscordChannel, InDoubt, WebhookError
from scripts.announce.embeds import EmbedContext
from scripts.announce.milestones import newly_seen
from scripts.announce.news import News, NewsResult
from scripts.announce.posts_due import MAX_REFUSALS, Post, due
from scripts.common.text import shorten
from scripts.competition.boards import shown
from scripts.competition.settings import DEFAULT_WEBHOOK, Announcements
from scripts.competition.settings import Webhook as Channel
from scripts.ledger.announced import Announced, AnnouncementLog, Edit, Intent, Outcome, PostState, Started
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.names import Choose, either, open_requests, under

WANTED: Choose = either(under("judgements", "moderation", "announced"), open_requests)
"""The parts of the ledger that are read."""

BATCH = 25
"""Messages to one channel in one run; the next run continues."""

LONGEST_S = 600.0
"""After this time no new message starts: the job's own time limit could strike between intent and outcome."""


@dataclass(frozen=True, kw_only=True)
class AnnounceContext:
    """The inputs of a run.

    `gpus` are the GPUs with a machine.  `open_webhook` returns the webhook for a secret's name, or None if there is no
    such secret; it raises `WebhookError` if the secret is no webhook's address.
    """

    settings: Announcements
    tasks: Sequence[Task]
    gpus: Collection[str]
    embed_context: EmbedContext
    open_ledger: Callable[[Choose], AbstractContextManager[LedgerBranch]]
    open_webhook: Callable[[str], DiscordChannel | None]
    now: datetime


class _NotYet(Exception):
    """Discord refuses an edit.  It takes none in a thread that `is_archived`."""

    def __init__(self, message: str, *, is_archived: bool) -> None:
        super().__init__(message)
        self.is_archived = is_archived


class _StopPosting(Exception):
    """End this run: a message is in doubt, or the ledger cannot be reached."""


def run(context: AnnounceContext) -> Iterator[str]:
    """Post and correct everything that is due; yields a line for the step's summary for each action and error.

    Raises:
        LedgerError: the ledger cannot be read; nothing was posted.
    """
    channels: dict[str, tuple[Channel, DiscordChannel]] = {}
    for channel in context.settings.webhooks:
        try:
            webhook = context.open_webhook(channel.secret)
        except WebhookError as error:
            yield str(error)
            continue
        if webhook:
            channels[channel.secret] = channel, webhook
        else:
            yield _missing(channel.secret)
    if channels:
        with context.open_ledger(WANTED) as branch:
            yield from _AnnounceRun(context, branch).announce(channels)


class _AnnounceRun:
    """One run, over an open ledger."""

    def __init__(self, context: AnnounceContext, branch: LedgerBranch) -> None:
        self.context, self.branch, self.ledger = context, branch, branch.ledger
        self.tasks = [shown(task, context.gpus, branch.ledger) for task in context.tasks]
        self._ends_at = time.monotonic() + LONGEST_S
        self._unsaved: list[Outcome] = []

    def announce(self, channels: Mapping[str, tuple[Channel, DiscordChannel]]) -> Iterator[str]:
        announced = self.ledger.announced()
        for fault in announced.faults:
            yield f"left out: {fault}"
        yield from self._settle_lost(announced)
        yield from self._begin(channels, announced)
        announced = self.ledger.announced()
        news = gather(self.tasks, self.ledger, announced.seen, self.context.now, self.context.gpus)
        try:
            for channel, webhook in channels.values():
                yield from self._tell(channel, webhook, news, announced)
        except _StopPosting as stop:
            yield str(stop)

    def _settle_lost(self, announced: Announced) -> Iterator[str]:
        """Record a doubtful outcome for each intent without one: its run ended between the two."""
        for told in announced.told.values():
            if intent := told.lost:
                reason = "the run that was posting it ended before it recorded the outcome"
                self._record(intent, PostState.DOUBTFUL, reason=reason)
                yield _doubt(intent, reason)

    def _begin(self, channels: Mapping[str, object], announced: Announced) -> Iterator[str]:
        """Record new channels and editions, and commit that before anything is posted."""
        now = self.context.now
        for seen in newly_seen(self.tasks, announced.seen, now, self.context.gpus):
            self.ledger.append_fact(seen)
        for name in channels:
            if name not in announced.started:
                self.ledger.append_fact(Started(channel=name, at=now))
                yield f"{name}: a new channel; it gets news from now on"
        self.branch.commit("Record new channels and boards")

    def _tell(
        self, channel: Channel, webhook: DiscordChannel, news: Sequence[News], announced: Announced
    ) -> Iterator[str]:
        """Bring one channel up to date.  Raises _StopPosting: the run must end."""
        posts = due(channel, self.context.settings, self.tasks, news, announced, self.context.now)
        left = len(posts)
        if not posts:
            return
        try:
            webhook.look()
            done, is_archived = 0, False
            for post in posts:
                if done == BATCH or time.monotonic() > self._ends_at:
                    break
                if post.message and is_archived:
                    continue  # a post opens the thread, for the edits of the next run
                try:
                    yield self._edit(webhook, post) if post.message else self._post(webhook, post, announced)
                except _NotYet as later:
                    is_archived = is_archived or later.is_archived
                    yield str(later)
                else:
                    done += 1
                left -= 1
        except WebhookError as error:
            left = 0  # The error's line already says that the rest is not announced.
            yield f"not announced: {error}"
        except _StopPosting:
            raise  # everything is committed, or nothing can be
        except Exception:
            self._commit("Record what was announced")
            raise
        self._commit("Record what was announced")
        if left:
            yield f"{channel.secret}: {left} more; the next run continues"

    def _post(self, webhook: DiscordChannel, post: Post, announced: Announced) -> str:
        """Post a message, with its intent pushed before and its outcome written to the working copy afterwards.

        Raises:
            _StopPosting: the outcome is in doubt.
            WebhookError: the channel cannot be reached; the outcome says that the message was not posted.
        """
        told = announced.told.get((webhook.name, post.key), AnnouncementLog())
        intent = Intent(channel=webhook.name, key=post.key, number=told.next_attempt, at=self.context.now)
        payload = post.payload(self.context.embed_context)
        self.ledger.append_fact(intent)
        if intent.place not in self._commit(f"About to announce: {post.key}"):
            return f"{post.key}: another run announces it in {webhook.name}"
        try:
            message = webhook.post(payload)
        except InDoubt as doubt:
            self._unsaved.append(self._record(intent, PostState.DOUBTFUL, news=post.news, reason=str(doubt)))
            self._commit("Record a doubtful message")
            raise _StopPosting(_doubt(intent, str(doubt))) from None
        except WebhookError as error:
            state = PostState.REFUSED if error.is_final else PostState.DELAYED
            self._unsaved.append(self._record(intent, state, news=post.news, reason=str(error)))
            if not error.is_final:
                raise
            given_up = f"; given up after {MAX_REFUSALS} attempts: announce it yourself"
            return f"not announced: {post.key}: {error}{given_up if told.refusals + 1 == MAX_REFUSALS else ''}"
        title = str(payload["embeds"][0]["title"])
        self._unsaved.append(self._record(intent, PostState.POSTED, news=post.news, message=message, title=title))
        return f"{webhook.name}: announced {post.key}, message {message}"

    def _edit(self, webhook: DiscordChannel, post: Post) -> str:
        """Correct or withdraw a message.  An edit may be repeated, so it needs no intent.

        Raises:
            WebhookError: the channel cannot be reached.
            _NotYet: Discord refuses this edit.
        """
        is_gone, done = False, "withdrew" if post.content_digest is None else "corrected"
        try:
            webhook.edit(post.message, post.payload(self.context.embed_context))
            line = f"{webhook.name}: {done} {post.key}, message {post.message}"
        except WebhookError as error:
            line = f"not {done}: {post.key}: {error}"
            if error.is_later or (error.is_final and not error.is_gone):
                raise _NotYet(f"{line}; the next run tries again", is_archived=error.is_archived) from None
            if not error.is_final:
                raise
            is_gone = True
        number, now = self.ledger.announced().told[webhook.name, post.key].next_edit, self.context.now
        edit = Edit(
            channel=webhook.name, key=post.key, number=number, says=post.content_digest, is_gone=is_gone, at=now
        )
        self.ledger.append_fact(edit)
        return line

    def _commit(self, message: str) -> tuple[Path, ...]:
        """Commit and push the new files.

        Raises:
            _StopPosting: the push failed; it names the message whose outcome is not on GitHub, if any.
        """
        try:
            standing = self.branch.commit(message)
        except PullRankError as error:
            unsaved = [f"{one.key} was {one.state} as {one.message or 'nothing'}" for one in self._unsaved]
            in_doubt = f"; in doubt for the next run: {', '.join(unsaved)}" if unsaved else ""
            raise _StopPosting(
                f"the ledger cannot be reached, so nothing more is announced: {error}{in_doubt}"
            ) from None
        self._unsaved.clear()
        return standing

    def _record(
        self, intent: Intent, state: PostState, *, news: News | None = None, reason: str = "",
        message: str | None = None, title: str = "",
    ) -> Outcome:  # fmt: skip
        result = news if isinstance(news, NewsResult) else None
        outcome = Outcome(
            channel=intent.channel,
            key=intent.key,
            number=intent.number,
            state=state,
            message=message,
            says=news.content_digest if news and message else None,
            title=shorten(title, 256),
            task=intent.key.split("/")[1],
            gpu=result.gpu if result else None,
            edition=result.edition if result else None,
            reason=shorten(reason, 300),
            at=self.context.now,
        )
        self.ledger.append_fact(outcome)
        return outcome


def _missing(secret: str) -> str:
    """The message if a channel's secret is missing; the step has only the secrets that publish.yml passes on."""
    nothing = f"{secret}: there is no such secret, so nothing is announced there"
    if secret == DEFAULT_WEBHOOK:
        return nothing
    line = f"{secret}: ${{{{ secrets.{secret} }}}}"
    return f"{nothing}. If there is one, publish.yml must pass it on, in a line after {DEFAULT_WEBHOOK}: {line}"


def _doubt(intent: Intent, reason: str) -> str:
    return (
        f"In doubt: {intent.key} in {intent.channel}: {reason}. It will not be posted again: if it is missing there, "
        "announce it yourself"
    )
