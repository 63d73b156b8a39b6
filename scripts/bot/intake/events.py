"""Parse GitHub's event payloads strictly, into one of two events, or nothing and the reason why.

    pull_request_target   opened, synchronize, reopened, ready_for_review, converted_to_draft, closed   → PullEvent
    issue_comment         created, on a pull request, by a person, and it is a command                   → CommentEvent
    everything else       edits, bots, issues, conversation                                             → Nothing

Events are hints: one may come late, twice or never.  From a payload we take numbers, hashes, identities and a comment's
command, and ignore all other text.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from scripts.bot.intake.slash import Command, SlashError, read_command
from scripts.github.pulls import Comment, PullRequest, find, require


class PullAction(StrEnum):
    OPENED = "opened"
    PUSHED = "synchronize"
    REOPENED = "reopened"
    READIED = "ready_for_review"
    DRAFTED = "converted_to_draft"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class PullEvent:
    """Something happened to a pull request; `pull` is its state at that time.

    `sender_id` is the account that caused it, None if that is unknown.  `happened_at` is None if `pull.updated_at` is
    the time.
    """

    action: PullAction
    pull: PullRequest
    default_branch: str
    sender_id: int | None = None
    happened_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class CommentEvent:
    """Somebody gave a command or tried to; then `command` is the error that says what is wrong with it."""

    number: int
    comment: Comment
    command: Command | SlashError
    default_branch: str


@dataclass(frozen=True, kw_only=True)
class Nothing:
    """Nothing to do; `reason` is a line for the log."""

    reason: str


Event = PullEvent | CommentEvent


def read_event(name: str, payload: object) -> Event | Nothing:
    """The event in a payload.

    Raises:
        GitHubError: the payload is not what GitHub sends.
    """
    match name:
        case "pull_request_target":
            return _pull_event(payload)
        case "issue_comment":
            return _comment_event(payload)
    return Nothing(reason="an event of another kind")


def _pull_event(payload: object) -> PullEvent | Nothing:
    action = require(payload, str, "action")
    if action not in set(PullAction):
        return Nothing(reason="an action that does not matter here")
    pull = PullRequest.of(require(payload, dict, "pull_request"))
    if pull.author.is_bot:
        return Nothing(reason=f"#{pull.number} is by a bot")
    branch = _default_branch(payload)
    if pull.base_ref != branch:
        return Nothing(reason=f"#{pull.number} does not target the default branch")
    sender = require(payload, int, "sender", "id")
    return PullEvent(action=PullAction(action), pull=pull, default_branch=branch, sender_id=sender)


def _comment_event(payload: object) -> CommentEvent | Nothing:
    if require(payload, str, "action") != "created":
        return Nothing(reason="only new comments count: an edit could change an approved command")
    if find(payload, dict, "issue", "pull_request") is None:
        return Nothing(reason="a comment on an issue")
    number = require(payload, int, "issue", "number")
    comment = Comment.of(require(payload, dict, "comment"))
    if comment.author.is_bot:
        return Nothing(reason=f"a bot's comment on #{number}")
    command: Command | SlashError | None
    try:
        command = read_command(comment.body)
    except SlashError as error:
        command = error
    if command is None:
        return Nothing(reason=f"conversation on #{number}")
    return CommentEvent(number=number, comment=comment, command=command, default_branch=_default_branch(payload))


def _default_branch(payload: object) -> str:
    return require(payload, str, "repository", "default_branch")
