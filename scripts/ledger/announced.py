"""Facts about announcements on Discord, which keep messages from being posted twice.

    announced/seen/<task>/<gpu>/<time>-<edition12>.json     when a board's edition was first seen
    announced/<CHANNEL>/started.json                        when the channel was added; it gets no older news
    announced/<CHANNEL>/<key>/<n>.intent.json               before a post
    announced/<CHANNEL>/<key>/<n>.outcome.json              after it: the message's id, or why there is none
    announced/<CHANNEL>/<key>/<n>.edit.json                 after an edit: the message's new content

A channel is named after its secret.  An intent is committed before its message is posted, and its outcome afterwards.
So an intent without an outcome means a crash in between: its message may or may not be on Discord.

History of the formats
    1   2026-11   first version; `delayed` came later that month, and counted as `refused` before
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import PositiveInt, StringConstraints

from harness.records.fields import Digest, Moment, RecordName
from scripts.ledger.facts import Fact, LedgerFault, find_files, read_facts

Channel = Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z]+(-[a-z]+)*(/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}){1,4}$")]
"""Identifies an announcement, the same in every run; also its folder."""

MessageId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")]
Title = Annotated[str, StringConstraints(max_length=256)]
Reason = Annotated[str, StringConstraints(max_length=300)]

STAMP = "%Y%m%dT%H%M%S.%fZ"


class Seen(Fact):
    """When a board's edition was first seen.  Task folders carry no such time."""

    format: Literal["pullrank-seen"] = "pullrank-seen"
    version: Literal[1] = 1
    task: RecordName
    gpu: RecordName
    edition: Digest
    at: Moment

    @property
    def place(self) -> Path:
        stamp = self.at.astimezone(UTC).strftime(STAMP)
        return Path("announced", "seen", self.task, self.gpu, f"{stamp}-{self.edition[:12]}.json")


class Started(Fact):
    """A channel that gets news from `at` on."""

    format: Literal["pullrank-channel"] = "pullrank-channel"
    version: Literal[1] = 1
    channel: Channel
    at: Moment

    @property
    def place(self) -> Path:
        return Path("announced", self.channel, "started.json")


class _OfPost(Fact):
    """A fact about an announcement in a channel; `number` counts the posts, or the edits."""

    ENDING: ClassVar[str]
    """What its file's name ends in."""

    channel: Channel
    key: Key
    number: PositiveInt

    @property
    def place(self) -> Path:
        return Path("announced", self.channel, self.key, f"{self.number}.{self.ENDING}")


class Intent(_OfPost):
    """A message that is about to be posted."""

    ENDING = "intent.json"

    format: Literal["pullrank-announcement-intent"] = "pullrank-announcement-intent"
    version: Literal[1] = 1
    at: Moment


class PostState(StrEnum):
    """The result of a post."""

    POSTED = "posted"
    DELAYED = "delayed"  # Discord was down or busy: retried as long as it is news
    REFUSED = "refused"  # Discord rejected it: retried a few times
    DOUBTFUL = "doubtful"  # unknown, so it is not posted again


class Outcome(_OfPost):
    """The result of an intent.  For a posted message, `says` is the digest of its content, `title` its beginning.

    `task`, `gpu` and `edition` name the board of an announced result; other announcements have no gpu and edition.
    """

    ENDING = "outcome.json"

    format: Literal["pullrank-announcement"] = "pullrank-announcement"
    version: Literal[1] = 1
    state: PostState
    message: MessageId | None = None
    says: Digest | None = None
    title: Title = ""
    task: RecordName
    gpu: RecordName | None = None
    edition: Digest | None = None
    reason: Reason = ""
    at: Moment


class Edit(_OfPost):
    """An edit of a message; `says` is None if the message was withdrawn.

    `is_gone`: the message cannot be edited any more, for example because somebody deleted it on Discord.
    """

    ENDING = "edit.json"

    format: Literal["pullrank-announcement-edit"] = "pullrank-announcement-edit"
    version: Literal[1] = 1
    says: Digest | None = None
    is_gone: bool = False
    at: Moment


AnnouncementFact = Seen | Started | Intent | Outcome | Edit


@dataclass
class AnnouncementLog:
    """All facts about one announcement in one channel.  `is_torn`: one of its files cannot be read."""

    is_torn: bool = False
    intents: dict[int, Intent] = field(default_factory=dict)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    edits: dict[int, Edit] = field(default_factory=dict)

    @property
    def posted(self) -> Outcome | None:
        return next((one for one in self.outcomes.values() if one.state is PostState.POSTED and one.message), None)

    @property
    def doubtful(self) -> bool:
        """Whether it may be on Discord under an unknown id."""
        return self.is_torn or bool(self.lost) or any(one.state is PostState.DOUBTFUL for one in self.outcomes.values())

    @property
    def lost(self) -> Intent | None:
        """An intent without an outcome: the process that posted it ended in between."""
        return next((one for number, one in self.intents.items() if number not in self.outcomes), None)

    @property
    def refusals(self) -> int:
        return sum(one.state is PostState.REFUSED for one in self.outcomes.values())

    @property
    def says(self) -> str | None:
        """The digest of the message's current content; None if it was withdrawn."""
        if self.edits:
            return self.edits[max(self.edits)].says
        return self.posted.says if self.posted else None

    @property
    def is_gone(self) -> bool:
        return any(edit.is_gone for edit in self.edits.values())

    @property
    def next_attempt(self) -> int:
        return max([0, *self.intents, *self.outcomes]) + 1

    @property
    def next_edit(self) -> int:
        return max(self.edits, default=0) + 1


@dataclass(frozen=True, kw_only=True)
class Announced:
    """All announcements and editions seen; `told` by channel and key."""

    seen: tuple[Seen, ...] = ()
    started: dict[str, datetime] = field(default_factory=dict)
    told: dict[tuple[str, str], AnnouncementLog] = field(default_factory=dict)
    faults: tuple[LedgerFault, ...] = ()


_KINDS: dict[str, type[Intent | Outcome | Edit]] = {kind.ENDING: kind for kind in (Intent, Outcome, Edit)}


def read_announced(ledger: Path) -> Announced:
    """All facts below `announced/`, in order; a file that is no fact, or is misplaced, is a fault."""
    faults: list[LedgerFault] = []
    paths = list(find_files(ledger, "announced", faults))
    seen = [path for path in paths if path.parts[1] == "seen"]
    starts = [path for path in paths if len(path.parts) == 3 and path.name == "started.json"]
    rest = sorted(set(paths).difference(seen, starts))
    return Announced(
        seen=tuple(sorted((one for _, one in read_facts(ledger, seen, Seen, faults)), key=lambda one: one.at)),
        started={one.channel: one.at for _, one in read_facts(ledger, starts, Started, faults)},
        told=_read_told(ledger, rest, faults),
        faults=tuple(faults),
    )


def _read_told(
    ledger: Path, paths: Iterable[Path], faults: list[LedgerFault]
) -> dict[tuple[str, str], AnnouncementLog]:
    told: defaultdict[tuple[str, str], AnnouncementLog] = defaultdict(AnnouncementLog)
    for path in paths:
        kind = _KINDS.get(path.name.partition(".")[2])
        if kind is None:
            faults.append(LedgerFault(path=path, reason="not an announcement's fact"))
            continue
        facts = [fact for _, fact in read_facts(ledger, [path], kind, faults)]
        for fact in facts:
            _add(told[fact.channel, fact.key], fact)
        if not facts:
            # An unreadable file may have been an intent: better to lose a message than to post it twice.
            told[path.parts[1], "/".join(path.parts[2:-1])].is_torn = True
    return dict(told)


def _add(told: AnnouncementLog, fact: Intent | Outcome | Edit) -> None:
    match fact:
        case Intent():
            told.intents[fact.number] = fact
        case Outcome():
            told.outcomes[fact.number] = fact
        case Edit():
            told.edits[fact.number] = fact
