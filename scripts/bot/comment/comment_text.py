"""A pull request's one comment: what is judged, the state of each board, what is wrong, what to do.

    <!-- pullrank -->                           the marker by which the bot finds it again
    **PullRank** judges …                       from the facts below
    <!-- pullrank:file {…} -->                  which file of which commit
    <!-- pullrank:notice {…} -->  …  end        a refusal or a remark, above the boards
    | Board | Mode | State |                    the state of each board
    <!-- pullrank:board {…} -->   …  end        one for each GPU, with its report or the previous one
    In a comment: …                             the commands

Several judgings write to it, each only to its own board: `read_comment`, `with_board`, `render`.  `report` and
`sections` make the text of a block; a participant's words in it are in code and can neither open nor close a block.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

from pydantic import Field, ValidationError

from harness.records.fields import Line, Mode, Model, Name, Sha
from scripts.common.text import inline

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

    path: Line
    head_sha: Sha
    is_draft: bool


class BoardMarker(Model):
    """The content of a board's marker, for the bot and for other programs that read the comment."""

    gpu: Name
    task: Name
    mode: Mode
    head_sha: Sha
    request: Name
    state: BoardState
    accepted: bool | None = None
    summary: Annotated[str, Field(max_length=200)]


class _NoticeFacts(Model):
    """The content of a notice's marker; older comments have only the tone."""

    tone: Tone
    head_sha: Sha | None = None
    left_out: tuple[Name, ...] = ()


@dataclass(frozen=True, kw_only=True)
class BoardSection:
    """A board's section of the comment: its `report` or, until there is one, the previous report, folded."""

    facts: BoardMarker
    report: str = ""

    @property
    def is_done(self) -> bool:
        return self.facts.state is BoardState.DONE


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A notice at the top of the comment, as Markdown.

    `head_sha` is its commit, if known; `left_out` are the requested boards for which the quota had no room.
    """

    text: str
    tone: Tone = Tone.REFUSED
    head_sha: str | None = None
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PullComment:
    """The whole comment.  Boards are in the order of their first requests."""

    file: FileFacts | None = None
    notice: Notice | None = None
    boards: tuple[BoardSection, ...] = ()

    def with_board(self, section: BoardSection) -> PullComment:
        """Replace or add this board's section; the others stay as they are."""
        old = next((board for board in self.boards if board.facts.gpu == section.facts.gpu), None)
        if not old:
            return replace(self, boards=(*self.boards, section))
        if not section.is_done:
            section = replace(section, report=old.report)
        return replace(self, boards=tuple(section if board is old else board for board in self.boards))

    def with_file(self, file: FileFacts) -> PullComment:
        return replace(self, file=file)

    def shows(self, request_id: str) -> bool:
        return any(board.facts.request == request_id for board in self.boards)

    def with_notice(self, notice: Notice | None) -> PullComment:
        return replace(self, notice=notice)

    def render(self) -> str:
        """The comment's Markdown, within GitHub's limit: the longest reports are cut down to their headings."""
        comment, text = self, self._render()
        for board in sorted(self.boards, key=lambda one: (one.is_done, -len(one.report))):
            if len(text) > MAX_CHARS:
                comment = comment._with_brief(board)
                text = comment._render()
        return text

    def briefly(self, checks_url: str, requests: Collection[str]) -> PullComment:
        """The same without the reports of some requests, in case GitHub rejects the comment."""
        why = f"GitHub rejected this report as a comment; read it in the [check run]({checks_url})."
        return replace(
            self,
            boards=tuple(
                replace(one, report=_brief(one, why)) if one.facts.request in requests else one for one in self.boards
            ),
        )

    def _with_brief(self, board: BoardSection) -> PullComment:
        why = "This report is too long to show here with the others; read it in the check run."
        brief = replace(board, report=_brief(board, why))
        return replace(self, boards=tuple(brief if other is board else other for other in self.boards))

    def _render(self) -> str:
        parts = [
            MARKER,
            _title(self.file, self.boards),
            _block("file", self.file, "") if self.file else "",
            _notice_block(self.notice) if self.notice else "",
            _overview(self.file, self.boards),
            *map(_board_block, self.boards),
            _footer(self.file, has_boards=bool(self.boards)),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"


def read_comment(body: str) -> PullComment:
    """Parse a comment that `render` wrote.  People may have edited it: malformed parts are dropped."""
    comment = PullComment()
    for kind, facts, text in _blocks(body.replace("\r\n", "\n")[: 2 * MAX_CHARS]):
        try:
            comment = _with_block(comment, kind, facts, text.strip("\n"))
        except ValidationError:
            continue
    return comment


def _blocks(body: str) -> Iterator[tuple[str, str, str]]:
    # Not one pattern for a whole block: for each block without an end it would search the rest of the body again.
    end = 0
    while begin := _OPEN.search(body, end):
        end = body.find(_CLOSE, begin.end())
        if end < 0:
            return
        yield begin[1], begin[2], body[begin.end() : end]


def _with_block(comment: PullComment, kind: str, facts: str, text: str) -> PullComment:
    match kind:
        case "file":
            return replace(comment, file=FileFacts.model_validate_json(facts))
        case "notice":
            words = "\n".join(line.removeprefix(">").removeprefix(" ") for line in text.split("\n")[1:])
            return replace(comment, notice=Notice(text=words, **_NoticeFacts.model_validate_json(facts).model_dump()))
    known = BoardMarker.model_validate_json(facts)
    if known.state is not BoardState.DONE:
        text = text.partition("</summary>")[2].removesuffix("</details>").strip("\n")
    return replace(comment, boards=(*comment.boards, BoardSection(facts=known, report=text)))


# Blocks.


def _block(kind: str, facts: Model, text: str) -> str:
    # With `<` and `>` as JSON escapes, no fact can close its HTML comment.
    marker = facts.model_dump_json(exclude_none=True).replace("<", "\\u003c").replace(">", "\\u003e")
    return f"<!-- pullrank:{kind} {marker} -->\n{text}\n{_CLOSE}"


def sealed(text: str) -> str:
    """Text without anything that looks like one of our markers: a participant may have quoted one."""
    return text.strip("\n").replace("<!-- pullrank", "<!-- pull-rank")


def _notice_block(notice: Notice) -> str:
    lines = "\n".join(f"> {line}".rstrip() for line in sealed(notice.text).split("\n"))
    facts = _NoticeFacts(tone=notice.tone, head_sha=notice.head_sha, left_out=notice.left_out)
    return _block("notice", facts, f"> [!{notice.tone.value}]\n{lines}")


def _board_block(board: BoardSection) -> str:
    text = board.report
    if text and not board.is_done:
        text = f"<details><summary>Previous report on <code>{board.facts.gpu}</code></summary>\n\n{text}\n\n</details>"
    return _block("board", board.facts, f"\n{text}\n" if text else "")


def _brief(board: BoardSection, why: str) -> str:
    heading = board.report.split("\n", 1)[0]
    return f"{heading}\n\n{why}" if heading else ""


# Around the boards.


def _title(file: FileFacts | None, boards: Sequence[BoardSection]) -> str:
    if not file:
        return ""
    where = f"{inline(file.path)} at `{file.head_sha[:7]}`"
    if not boards:
        return f"**PullRank** read {where}."
    return f"**PullRank** judges {where}."


def _overview(file: FileFacts | None, boards: Sequence[BoardSection]) -> str:
    """The state of each board; a single report needs no table, because its heading says it."""
    if all(board.is_done for board in boards) and len(boards) < 2:
        return ""
    rows = (
        f"| {_lamp(one)}\u00a0`{one.gpu}` | {one.mode} | {_state(one, file)} |" for one in (b.facts for b in boards)
    )
    return "\n".join(["| Board | Mode | State |", "| :-- | :-- | :-- |", *rows])


def _state(facts: BoardMarker, file: FileFacts | None) -> str:
    of = f", of `{facts.head_sha[:7]}`" if file and facts.head_sha != file.head_sha else ""
    return facts.summary + of


def _lamp(facts: BoardMarker) -> str:
    if facts.state is BoardState.DONE:
        return "🟢" if facts.accepted else "🔴"
    return "🟡" if facts.state is BoardState.QUEUED else "⚪"


def _footer(file: FileFacts | None, *, has_boards: bool) -> str:
    if not has_boards:
        return "<sub>Push a change to have it read again. Comment `/help` for a list of commands.</sub>"
    judged = "Every push is judged."
    if file and file.is_draft:
        judged = "Drafts are not ranked: mark the pull request as ready for review to have it ranked."
    return f"<sub>{judged} In a comment: `/rerun`, `/benchmark`, `/cancel`, `/show`, `/help`.</sub>"
