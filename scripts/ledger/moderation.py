"""Participants, maintainers' decisions about them, and their own withdrawals.

    KnownAccount    a participant as first seen; a login can be renamed and reused, the numeric id is permanent
    Moderation      one decision; a later one of a maintainer's lifts it, nothing is deleted
    Moderated       the decisions in force: a fold over all decisions in order

History of the formats
    1   2026-11   first version; since then, `withdraw`, `whole_file`, `task` and `gpu`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveInt, StringConstraints, model_validator

from harness.records.fields import Digest, Login, Moment, RecordName, omitted
from harness.records.judgement import Judgement
from scripts.ledger.facts import Fact


class KnownAccount(Fact):
    """A participant as first seen."""

    format: Literal["pullrank-account"] = "pullrank-account"
    version: Literal[1] = 1
    user_id: PositiveInt
    login: Login
    first_seen: Moment

    @property
    def place(self) -> Path:
        return Path("accounts", f"{self.user_id}-{self.login.casefold()}.json")


def find_owner(accounts: Iterable[KnownAccount], login: str) -> KnownAccount | None:
    """The owner of a login's folder: the first account seen with that login, whoever has it today."""
    owners = [account for account in accounts if account.login.casefold() == login.casefold()]
    return min(owners, key=lambda account: (account.first_seen, account.user_id), default=None)


class Action(StrEnum):
    """`ban` and `unban` are about an author, all others about a judgement.  Only its author can `withdraw` it."""

    BAN = "ban"
    UNBAN = "unban"
    DISQUALIFY = "disqualify"
    RESTORE = "restore"
    HOLD = "hold"
    RELEASE = "release"
    WITHDRAW = "withdraw"


REMOVED: Mapping[str, str] = {
    Action.DISQUALIFY: "disqualified",
    Action.HOLD: "held for review",
    Action.WITHDRAW: "withdrawn by its author",
}
"""What was done to a judgement that does not count."""


class Moderation(Fact):
    """One decision.  It names an author by numeric id, or a judgement by checksum."""

    format: Literal["pullrank-moderation"] = "pullrank-moderation"
    version: Literal[1] = 1
    id: RecordName
    action: Action
    user_id: PositiveInt | None = None
    login: Login | None = Field(default=None, description="login of user_id at that time, for people")
    judgement: Digest | None = None
    task: RecordName | None = Field(default=None, exclude_if=omitted, description="of the judgement, if known")
    gpu: RecordName | None = Field(default=None, exclude_if=omitted, description="of the judgement, if known")
    whole_file: bool = Field(
        default=False,
        exclude_if=omitted,
        description="hold, disqualify: whether other judgements of the file on the board do not count, either",
    )
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    by: PositiveInt = Field(description="numeric id of the maintainer, or of the author who withdraws")
    at: Moment

    @classmethod
    def about(cls, judgement: Judgement, action: Action, **fields: Any) -> Self:
        """A decision about a judgement."""
        return cls(action=action, judgement=judgement.checksum, task=judgement.task, gpu=judgement.gpu, **fields)

    @property
    def place(self) -> Path:
        return Path("moderation", f"{self.at.astimezone(UTC).date()}-{self.id}.json")

    @model_validator(mode="after")
    def _says_whom_or_what(self) -> Self:
        about_author = self.action in (Action.BAN, Action.UNBAN)
        if about_author != (self.user_id is not None) or about_author != (self.judgement is None):
            raise ValueError("ban and unban need a user_id; all other actions need a judgement and no user_id")
        return self


def hold(judgement: Judgement, reason: str, *, by: int, at: datetime) -> Moderation:
    """The decision to hold a judgement for a maintainer's review; `by` is the numeric id of an account."""
    return Moderation.about(judgement, Action.HOLD, id=f"held-{judgement.checksum[:12]}", reason=reason, by=by, at=at)


@dataclass(frozen=True, kw_only=True)
class Moderated:
    """The decisions in force."""

    banned: dict[int, Moderation] = field(default_factory=dict)
    disqualified: dict[str, Moderation] = field(default_factory=dict)
    held: dict[str, Moderation] = field(default_factory=dict)
    withdrawn: dict[str, Moderation] = field(default_factory=dict)
    absences: dict[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """When the last hold or disqualification of a judgement that counts again began and ended, by checksum."""

    @classmethod
    def after(cls, decisions: Iterable[Moderation]) -> Self:
        """Fold all decisions in order of time."""
        now = cls()
        for decision in sorted(decisions, key=lambda one: (one.at, one.id)):
            now._take(decision)
        return now

    def removed(self, judgements: Sequence[Judgement]) -> dict[str, Moderation]:
        """The decisions that keep judgements from counting, by checksum.

        Args:
            judgements: all of their boards.  If a withdrawn file is judged again, all its judgements count again:
                nobody gets rid of a bad time by withdrawing it.
        """
        files = self.removed_files(judgements)
        later = {one.checksum: files[file_of(one)] for one in judgements if file_of(one) in files}
        by_maintainers = later | self.held | self.disqualified
        found = self.withdrawn | by_maintainers
        again = {file_of(one) for one in judgements if one.checksum not in found and one.is_rankable}
        return {
            one.checksum: found[one.checksum]
            for one in judgements
            if one.checksum in by_maintainers or (one.checksum in found and file_of(one) not in again)
        }

    def removed_files(self, judgements: Sequence[Judgement]) -> dict[tuple[str, ...], Moderation]:
        """The maintainers' decisions about whole files, by `file_key`."""
        return {
            file_of(one): decided[one.checksum]
            for decided in (self.held, self.disqualified)
            for one in judgements
            if one.checksum in decided and decided[one.checksum].whole_file
        }

    def counted(self, judgements: Sequence[Judgement]) -> list[Judgement]:
        """The judgements that count, of all of some boards."""
        removed = self.removed(judgements)
        return [one for one in judgements if one.checksum not in removed]

    def _take(self, decision: Moderation) -> None:
        user_id, judgement = decision.user_id or 0, decision.judgement or ""
        match decision.action:
            case Action.BAN:
                self.banned[user_id] = decision
            case Action.UNBAN:
                self.banned.pop(user_id, None)
            case Action.DISQUALIFY:
                self.disqualified[judgement] = decision
            case Action.RESTORE:
                self._end(self.disqualified.pop(judgement, None), decision)
            case Action.HOLD:
                self.held[judgement] = decision
            case Action.RELEASE:
                self._end(self.held.pop(judgement, None), decision)
            case Action.WITHDRAW:
                self.withdrawn[judgement] = decision

    def _end(self, began: Moderation | None, ended: Moderation) -> None:
        if began and ended.judgement:
            self.absences[ended.judgement] = began.at, ended.at


def file_key(task: str, gpu: str, login: str, digest: str) -> tuple[str, ...]:
    """An author's file on a board."""
    return task, gpu, login.casefold(), digest


def file_of(judgement: Judgement) -> tuple[str, ...]:
    """The `file_key` of a judgement."""
    return file_key(judgement.task, judgement.gpu, judgement.submission.login, judgement.submission.digest)
