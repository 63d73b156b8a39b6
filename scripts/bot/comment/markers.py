"""The bot's markers in the pull request's comment: HTML comments that people do not see and programs read.

    <!-- pullrank -->                             the bot's one comment
    <!-- pullrank:file {…} -->     …  end         which file of which commit
    <!-- pullrank:notice {…} -->   …  end         the kind of the notice, its commit, the boards that were left out
    <!-- pullrank:board {…} -->    …  end         a board: its request and its state

`block` writes a marker with its text, and `read_blocks` reads them back.  A participant's words can neither open nor
close a block: they are `sealed`, and in a marker's JSON `<` and `>` are escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from pydantic import Field, ValidationError

from harness.records.fields import Mode, Model, Moment, RecordName, Sha, ShortLine

MARKER = "<!-- pullrank -->"
MAX_CHARS = 65_536
"""GitHub's limit for a comment."""

_OPEN = re.compile(r"<!-- pullrank:(file|notice|board) (\{[^\n]*\}) -->\n")
_CLOSE = "<!-- pullrank:end -->"


class BoardState(StrEnum):
    """The state of a board.  `done` has a report; `refused` and `ended` (superseded, cancelled, failed) have none.

    The board's check run says whether a machine has started on a queued one; saying it here would cost a request.
    """

    QUEUED = "queued"
    DONE = "done"
    REFUSED = "refused"
    ENDED = "ended"


class Tone(StrEnum):
    """The kind of a notice; the values are GitHub's names for its alerts."""

    REFUSED = "WARNING"
    REMARK = "NOTE"


class FileFacts(Model):
    """The file that is judged."""

    path: ShortLine
    head_sha: Sha
    is_draft: bool


class BoardMarker(Model):
    """A board's request, and its state."""

    gpu: RecordName
    task: RecordName
    mode: Mode
    head_sha: Sha
    request: RecordName
    state: BoardState
    accepted: bool | None = None
    summary: Annotated[str, Field(max_length=200)]


class NoticeMarker(Model):
    """A notice's kind.  Older comments have only the tone.

    `head_sha` is its commit, if known, and `refused_at` the time of the first refusal of that commit; `left_out` are
    the requested boards for which the quota had no room.
    """

    tone: Tone
    head_sha: Sha | None = None
    refused_at: Moment | None = None
    left_out: tuple[RecordName, ...] = ()


class Notice(NoticeMarker):
    """A notice at the top of the comment; its `text` is Markdown, and not part of the marker."""

    text: str = Field(exclude=True)
    tone: Tone = Tone.REFUSED


# Writing.


def block(kind: str, marker: Model, text: str) -> str:
    # With `<` and `>` as JSON escapes, no fact can close its HTML comment.
    facts = marker.model_dump_json(exclude_none=True).replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<!-- pullrank:{kind} {facts} -->\n{text}\n{_CLOSE}"


def notice_block(notice: Notice) -> str:
    lines = "\n".join(f"> {line}".rstrip() for line in sealed(notice.text).split("\n"))
    return block("notice", notice, f"> [!{notice.tone.value}]\n{lines}")


def sealed(text: str) -> str:
    """Text without anything that looks like one of our markers: a participant may have quoted one."""
    return text.strip("\n").replace("<!-- pullrank", "<!-- pull-rank")


# Reading.

Marker = FileFacts | NoticeMarker | BoardMarker
_KINDS: dict[str, type[Marker]] = {"file": FileFacts, "notice": NoticeMarker, "board": BoardMarker}


def read_blocks(body: str) -> Iterator[tuple[Marker, str]]:
    """The markers of a comment, each with its text.  People may have edited it: malformed parts are dropped."""
    body = body.replace("\r\n", "\n")[: 2 * MAX_CHARS]
    # Not one pattern for a whole block: for each block without an end it would search the rest of the body again.
    end = 0
    while begin := _OPEN.search(body, end):
        end = body.find(_CLOSE, begin.end())
        if end < 0:
            return
        try:
            marker = _KINDS[begin[1]].model_validate_json(begin[2])
        except ValidationError:
            continue
        yield marker, body[begin.end() : end].strip("\n")
