"""Make Discord say what the ledger says: once each, and corrected where that has changed.

    intents that ended in between ─▶ named, never posted again
    a channel that is new         ─▶ it hears of what comes from now on
    news that was not told        ─▶ intent, commit, post, outcome, commit      one message after the other
    a message that is not true    ─▶ edit

However a run ends, at most one message has an intent and no outcome.  A commit holds the outcome of one message and
the intent of the next.  Runs of publish.yml wait for each other; should two meet all the same, an intent is one run's
only, for the ledger takes a file once.
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
from scripts.announce.embeds import Look, title_of
from scripts.announce.gather import gather
from scripts.announce.milestones import newly_seen
from scripts.announce.news import News, Result
from scripts.announce.plan import MAX_REFUSALS, Post, due
from scripts.announce.webhook import DiscordChannel, InDoubt, MessageGone, WebhookError, WebhookGone
from scripts.common.text import shorten
from scripts.competition.boards import shown
from scripts.competition.settings import DEFAULT_WEBHOOK, Announcements
from scripts.competition.settings import Webhook as Channel
from scripts.ledger.announced import Announced, AnnouncementLog, Edit, Intent, Outcome, PostState, Started
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.names import Choice, either, open_requests, under

WANTED: Choice = either(under("judgements", "moderation", "announced"), open_requests)
"""What of the ledger is read."""

BATCH = 25
"""Messages to one channel in one run; the next run goes on."""

LONGEST_S = 600.0
"""After that, no message is begun: the job has an end of its own, which would fall between intent and outcome."""


@dataclass(frozen=True, kw_only=True)
class AnnounceContext:
    """What a run needs of the world.

    `gpus` are those that have a machine.  `open_webhook` gives the webhook of a secret's name; None if there is none.

    Raises of `open_webhook`:
        WebhookError: what the secret holds is no webhook.
    """

    settings: Announcements
    tasks: Sequence[Task]
    gpus: Collection[str]
    look: Look
    open_ledger: Callable[[Choice], AbstractContextManager[LedgerBranch]]
    open_webhook: Callable[[str], DiscordChannel | None]
    now: datetime


class _Stop(Exception):
    """Nothing more is done in this run: a message is in doubt, or the ledger cannot be reached."""


def run(context: AnnounceContext) -> Iterator[str]:
    """Announce what is due; a line for the step's summary for each thing done, and for each that went wrong.

    Raises:
        LedgerError: before anything was posted.
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
            yield from _Run(context, branch).announce(channels)


class _Run:
    """One run, over an open ledger."""

    def __init__(self, context: AnnounceContext, branch: LedgerBranch) -> None:
        self.context, self.branch, self.ledger = context, branch, branch.ledger
        self.tasks = [shown(task, context.gpus, branch.ledger) for task in context.tasks]
        self._ends_at = time.monotonic() + LONGEST_S
        self._unsaved: list[Outcome] = []
        self._is_cut_off = False

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
        except _Stop as stop:
            yield str(stop)

    def _settle_lost(self, announced: Announced) -> Iterator[str]:
        """Say of intents without an outcome that nobody knows: a run has ended between the two."""
        for told in announced.told.values():
            if intent := told.lost:
                reason = "the run that was about to post it ended before it could say whether it had"
                self.ledger.append_announced(self._outcome(intent, PostState.DOUBTFUL, reason=reason))
                yield _doubt(intent, reason)

    def _begin(self, channels: Mapping[str, object], announced: Announced) -> Iterator[str]:
        """Remember channels and editions that are new.  It is committed before anything is posted."""
        now = self.context.now
        for seen in newly_seen(self.tasks, announced.seen, now, self.context.gpus):
            self.ledger.append_announced(seen)
        for name in channels:
            if name not in announced.started:
                self.ledger.append_announced(Started(channel=name, at=now))
                yield f"{name}: a new channel; it hears of what comes from now on"
        self.branch.commit("Remember what Discord is told of")

    def _tell(
        self, channel: Channel, webhook: DiscordChannel, news: Sequence[News], announced: Announced
    ) -> Iterator[str]:
        """Bring one channel up to date.

        Raises:
            _Stop: see there.
        """
        posts = due(channel, self.context.settings, self.tasks, news, announced, self.context.now)
        left = len(posts)
        if not posts:
            return
        try:
            webhook.look()
            for post in posts[:BATCH]:
                if time.monotonic() > self._ends_at:
                    break
                yield self._edit(webhook, post) if post.message else self._post(webhook, post, announced)
                left -= 1
        except WebhookError as error:
            left = 0  # The error says that nothing more was told.
            yield f"not announced: {error}"
        except Exception:
            self._commit("Say what Discord was told")
            raise
        self._commit("Say what Discord was told")
        if left:
            yield f"{channel.secret}: {left} more; the next run goes on"

    def _post(self, webhook: DiscordChannel, post: Post, announced: Announced) -> str:
        """Post a message: its intent is on GitHub before, its outcome in the folder afterwards.

        Raises:
            _Stop: it is in doubt.
            WebhookError: the channel cannot be reached; that the message is not there is in the folder.
        """
        told = announced.told.get((webhook.name, post.key), AnnouncementLog())
        intent = Intent(channel=webhook.name, key=post.key, number=told.next_attempt, at=self.context.now)
        payload = post.payload(self.context.look)
        self.ledger.append_announced(intent)
        if intent.place not in self._commit(f"About to tell: {post.key}"):
            return f"{post.key}: another run tells it in {webhook.name}"
        try:
            message = webhook.post(payload)
        except InDoubt as doubt:
            self._note(self._outcome(intent, PostState.DOUBTFUL, news=post.news, reason=str(doubt)))
            self._commit("Say what is in doubt")
            raise _Stop(_doubt(intent, str(doubt))) from None
        except WebhookError as error:
            state = PostState.REFUSED if error.is_final else PostState.DELAYED
            self._note(self._outcome(intent, state, news=post.news, reason=str(error)))
            if not error.is_final:
                raise
            given_up = f"; given up after {MAX_REFUSALS} times: tell it yourself"
            return f"not announced: {post.key}: {error}{given_up if told.refusals + 1 == MAX_REFUSALS else ''}"
        self._note(self._outcome(intent, PostState.POSTED, news=post.news, message=message, title=title_of(payload)))
        return f"{webhook.name}: told {post.key}, message {message}"

    def _edit(self, webhook: DiscordChannel, post: Post) -> str:
        """Let a message say what is true.  Done twice it does no harm, so there is no intent.

        Raises:
            WebhookError: the channel cannot be reached.
        """
        is_gone, done = False, "withdrew" if post.says is None else "corrected"
        try:
            webhook.edit(post.message, post.payload(self.context.look))
            line = f"{webhook.name}: {done} {post.key}, message {post.message}"
        except WebhookError as error:
            if isinstance(error, WebhookGone) or not (error.is_final or isinstance(error, MessageGone)):
                raise
            is_gone, line = True, f"not {done}: {post.key}: {error}"
        number = self.ledger.announced().told[webhook.name, post.key].next_edit
        self.ledger.append_announced(
            Edit(
                channel=webhook.name,
                key=post.key,
                number=number,
                says=post.says,
                is_gone=is_gone,
                at=self.context.now,
            )
        )
        return line

    def _note(self, outcome: Outcome) -> None:
        self.ledger.append_announced(outcome)
        self._unsaved.append(outcome)

    def _commit(self, message: str) -> tuple[Path, ...]:
        """Push what was added.

        Raises:
            _Stop: that failed; it names the message whose outcome is not on GitHub, if there is one.
        """
        if self._is_cut_off:
            return ()
        try:
            standing = self.branch.commit(message)
        except PullRankError as error:
            self._is_cut_off = True
            unsaved = [f"{one.key} was {one.state} as {one.message or 'nothing'}" for one in self._unsaved]
            in_doubt = f"; in doubt for the next run: {', '.join(unsaved)}" if unsaved else ""
            raise _Stop(f"the ledger cannot be reached, so nothing more is announced: {error}{in_doubt}") from None
        self._unsaved.clear()
        return standing

    def _outcome(
        self, intent: Intent, state: PostState, *, news: News | None = None, reason: str = "",
        message: str | None = None, title: str = "",
    ) -> Outcome:  # fmt: skip
        result = news if isinstance(news, Result) else None
        return Outcome(
            channel=intent.channel,
            key=intent.key,
            number=intent.number,
            state=state,
            message=message,
            says=news.says if news and message else None,
            title=shorten(title, 256),
            task=intent.key.split("/")[1],
            gpu=result.gpu if result else None,
            edition=result.edition if result else None,
            reason=shorten(reason, 300),
            at=self.context.now,
        )


def _missing(secret: str) -> str:
    """What a channel wants without an address; the step sees only the secrets that publish.yml hands over."""
    nothing = f"{secret}: there is no such secret, so nothing is announced there"
    if secret == DEFAULT_WEBHOOK:
        return nothing
    line = f"{secret}: ${{{{ secrets.{secret} }}}}"
    return f"{nothing}. If there is one, publish.yml has to hand it over, by a line beside {DEFAULT_WEBHOOK}: {line}"


def _doubt(intent: Intent, reason: str) -> str:
    return (
        f"In doubt: {intent.key} in {intent.channel}: {reason}. It is not posted again: if it is missing there, "
        "tell it yourself"
    )
