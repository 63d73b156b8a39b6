"""A pull request's one comment: what is judged, the state of each board, what is wrong, what to do.  Pure.

    <!-- pullrank -->                 the marker by which the bot finds it again
    **PullRank** judges …             the file
    > [!WARNING] …                    a refusal or a remark, above the boards
    | Board | Mode | State |          the state of each board
    ### 🟢 …                          each board's report; while it waits, the previous one, folded
    In a comment: …                   the commands

Reports and notices may hold a participant's words: they are in code, and can neither open nor close a block of
`markers`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from scripts.bot.comment.markers import (
    MARKER,
    MAX_CHARS,
    BoardMarker,
    BoardState,
    FileFacts,
    Notice,
    NoticeMarker,
    block,
    notice_block,
    read_blocks,
)
from scripts.common.text import inline


@dataclass(frozen=True, kw_only=True)
class BoardSection:
    """A board's section of the comment: its `report` or, until there is one, the previous report, folded."""

    facts: BoardMarker
    report: str = ""

    @property
    def is_done(self) -> bool:
        return self.facts.state is BoardState.DONE


@dataclass(frozen=True, kw_only=True)
class PullComment:
    """The whole comment."""

    file: FileFacts | None = None
    notice: Notice | None = None
    boards: tuple[BoardSection, ...] = ()

    def render(self) -> str:
        """The comment's Markdown, within GitHub's limit: the longest reports are cut down to their headings."""
        comment, text = self, self._render()
        for board in sorted(self.boards, key=lambda one: (one.is_done, -len(one.report))):
            if len(text) > MAX_CHARS:
                why = "This report is too long to show here with the others; read it in the check run."
                comment = comment._without_reports(why, {board.facts.request})
                text = comment._render()
        return text

    def briefly(self, checks_url: str, requests: Collection[str]) -> PullComment:
        """The same without the reports of some requests, in case GitHub rejects the comment."""
        why = f"GitHub rejected this report as a comment; read it in the [check run]({checks_url})."
        return self._without_reports(why, requests)

    def _without_reports(self, why: str, requests: Collection[str]) -> PullComment:
        boards = tuple(
            replace(one, report=_brief(one, why)) if one.facts.request in requests else one for one in self.boards
        )
        return replace(self, boards=boards)

    def _render(self) -> str:
        parts = [
            MARKER,
            _title(self.file, self.boards),
            block("file", self.file, "") if self.file else "",
            notice_block(self.notice) if self.notice else "",
            _overview(self.file, self.boards),
            *map(_board_block, self.boards),
            _footer(self.file, has_boards=bool(self.boards)),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"


def read_comment(body: str) -> PullComment:
    """The comment that the bot wrote; its malformed parts are dropped, because people may have edited it."""
    comment = PullComment()
    for marker, text in read_blocks(body):
        match marker:
            case FileFacts():
                comment = replace(comment, file=marker)
            case NoticeMarker():
                lines = (line.removeprefix(">").removeprefix(" ") for line in text.split("\n")[1:])
                comment = replace(comment, notice=Notice(text="\n".join(lines), **marker.model_dump()))
            case BoardMarker(state=state):
                previous = text.partition("</summary>")[2].removesuffix("</details>").strip("\n")
                section = BoardSection(facts=marker, report=text if state is BoardState.DONE else previous)
                comment = replace(comment, boards=(*comment.boards, section))
    return comment


def _brief(board: BoardSection, why: str) -> str:
    heading = board.report.split("\n", 1)[0]
    return f"{heading}\n\n{why}" if heading else ""


def _board_block(board: BoardSection) -> str:
    text = board.report
    if text and not board.is_done:
        text = f"<details><summary>Previous report on <code>{board.facts.gpu}</code></summary>\n\n{text}\n\n</details>"
    return block("board", board.facts, f"\n{text}\n" if text else "")


def _title(file: FileFacts | None, boards: Sequence[BoardSection]) -> str:
    if not file:
        return ""
    where = f"{inline(file.path)} at `{file.head_sha[:7]}`"
    return f"**PullRank** {'judges' if boards else 'read'} {where}."


def _overview(file: FileFacts | None, boards: Sequence[BoardSection]) -> str:
    """The state of each board; a single report needs no table, because its heading says it."""
    if all(board.is_done for board in boards) and len(boards) < 2:
        return ""
    rows = (
        f"| {_emoji(one)}\u00a0`{one.gpu}` | {one.mode} | {_state(one, file)} |" for one in (b.facts for b in boards)
    )
    return "\n".join(["| Board | Mode | State |", "| :-- | :-- | :-- |", *rows])


def _state(facts: BoardMarker, file: FileFacts | None) -> str:
    of = f", of `{facts.head_sha[:7]}`" if file and facts.head_sha != file.head_sha else ""
    return facts.summary + of


def _emoji(facts: BoardMarker) -> str:
    if facts.state is BoardState.DONE:
        return "🟢" if facts.accepted else "🔴"
    return "🟡" if facts.state is BoardState.QUEUED else "⚪"


def _footer(file: FileFacts | None, *, has_boards: bool) -> str:
    if not has_boards:
        return "<sub>Push a change, and the bot reads the file again. Comment `/help` for a list of commands.</sub>"
    judged = "Every push to this pull request is judged."
    if file and file.is_draft:
        judged = "Drafts are not ranked. While the task is open, a pull request that is ready for review is."
    return f"<sub>{judged} In a comment: `/rerun`, `/benchmark`, `/cancel`, `/show`, `/help`.</sub>"
