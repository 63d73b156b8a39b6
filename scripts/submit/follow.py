"""Progress of judging one commit, read from its check runs and from the markers of the bot's comment.

    the check runs   each started board: running or done, rank and gap in words, the result as JSON
    the markers      which boards were requested, even before they have a check run; or the reason of a refusal

The commands poll GitHub, because GitHub cannot call a terminal back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from scripts.bot.admission.path_rule import Misplaced, SubmissionPath, classify
from scripts.bot.comment.comment_text import PullComment, read_comment
from scripts.bot.comment.markers import MARKER, BoardMarker, BoardState, Tone
from scripts.bot.comment.sections import state_of_check
from scripts.github.checks import CheckRun, CheckState
from scripts.github.pulls import PullRequest

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

_RANK = re.compile(r"\brank ([1-9][0-9]{0,5}) of ([1-9][0-9]{0,5})")
_PLACE = re.compile(r"^\*\*(Rank [^*\n]*)\*\*([^\n]*)", re.MULTILINE)
"""The line of a report with rank, time and gap."""
_JSON = re.compile(r"```json\n(.*?)\n```", re.DOTALL)


class BoardProgress(StrEnum):
    """The state of a board."""

    QUEUED = "queued"
    RUNNING = "running"
    ACCEPTED = "accepted"
    REJECTED = "not accepted"
    REFUSED = "refused"
    ENDED = "ended"

    @property
    def is_done(self) -> bool:
        return self not in (BoardProgress.QUEUED, BoardProgress.RUNNING)


@dataclass(frozen=True, kw_only=True)
class BoardNews:
    """A board of the commit.

    `summary` is the title of its check run.  Once the board is judged, `place` has rank, time and gap in one line, and
    `result` is the check run's JSON.
    """

    gpu: str
    mode: str
    stage: BoardProgress
    summary: str
    place: str = ""
    result: dict[str, Any] | None = None

    @property
    def rank(self) -> tuple[int, int] | None:
        """The rank, and the number of rows."""
        found = _RANK.search(self.summary)
        return (int(found[1]), int(found[2])) if found else None

    @property
    def gap(self) -> float | None:
        """Time over the first's, minus 1."""
        standing = self.result.get("standing") if self.result else None
        gap = standing.get("gap") if isinstance(standing, dict) else None
        return gap if isinstance(gap, float) else None

    @property
    def facts(self) -> dict[str, Any]:
        rank, of = self.rank or (None, None)
        return {
            "gpu": self.gpu,
            "mode": self.mode,
            "state": self.stage,
            "summary": self.summary,
            "rank": rank,
            "of": of,
            "gap": self.gap,
            "place": self.place,
            "result": self.result,
        }


@dataclass(frozen=True, kw_only=True)
class PullStatus:
    """What is known about a pull request's newest commit.

    `refusal` says why some or all boards do not judge it.  `left_out` lists the boards that exceed the quota; `remark`
    says so, and when they can be requested.
    """

    pull: PullRequest
    boards: tuple[BoardNews, ...] = ()
    refusal: str = ""
    left_out: tuple[str, ...] = ()
    remark: str = ""

    @property
    def is_done(self) -> bool:
        if self.boards:
            return all(board.stage.is_done for board in self.boards)
        return bool(self.refusal) or not self.pull.is_open

    @property
    def exit_code(self) -> int:
        stages = {board.stage for board in self.boards}
        if BoardProgress.REJECTED in stages:
            return 1
        if self.refusal or self.left_out or not stages or BoardProgress.REFUSED in stages:
            return 2
        return 0 if stages == {BoardProgress.ACCEPTED} else 3


def is_submission(github: GitHub, pull: PullRequest) -> bool:
    """Whether a pull request submits a file, or tries to."""
    return isinstance(classify(github.changed_files(pull.number), pull.author.login), SubmissionPath | Misplaced)


def look(github: GitHub, number: int) -> PullStatus:
    """The state of a pull request's newest commit."""
    pull = github.get_pull(number)
    found = github.find_comment(number, MARKER)
    comment = read_comment(found.body if found else "")
    refusal = _refusal(comment, pull)
    markers = [one.facts for one in comment.boards if one.facts.head_sha == pull.head_sha]
    if not markers or (_is_about_draft(comment, pull) and not refusal):
        return PullStatus(pull=pull, refusal=refusal)
    checks = {check.external_id: check for check in github.checks(pull.head_sha)}
    notice = comment.notice
    left_out = notice.left_out if notice and notice.head_sha == pull.head_sha else ()
    return PullStatus(
        pull=pull,
        boards=tuple(_board(one, checks.get(one.request)) for one in markers),
        refusal=refusal,
        left_out=left_out,
        remark=notice.text if notice and left_out else "",
    )


def _refusal(comment: PullComment, pull: PullRequest) -> str:
    notice = comment.notice
    if not notice or notice.tone is not Tone.REFUSED:
        return ""
    # Older comments name only the file that was read last: a notice without a commit is taken to be about that one.
    about = notice.head_sha or (comment.file and comment.file.head_sha) or pull.head_sha
    return notice.text if about == pull.head_sha else ""


def _is_about_draft(comment: PullComment, pull: PullRequest) -> bool:
    """Whether the comment is still about the draft, because the bot has not noticed that it is ready for review."""
    file = comment.file
    return bool(pull.is_open and not pull.is_draft and file and file.is_draft and file.head_sha == pull.head_sha)


_STAGES = {
    BoardState.QUEUED: BoardProgress.QUEUED,
    BoardState.REFUSED: BoardProgress.REFUSED,
    BoardState.ENDED: BoardProgress.ENDED,
}


def _board(marker: BoardMarker, check: CheckRun | None) -> BoardNews:
    """A board by its check run, or by its marker as long as that knows more."""
    if not check or not check.state.is_done:
        stage = BoardProgress.RUNNING if check and check.state is CheckState.RUNNING else BoardProgress.QUEUED
        if marker.state is not BoardState.QUEUED:
            stage = _stage(marker.state, is_accepted=bool(marker.accepted))
        return BoardNews(gpu=marker.gpu, mode=marker.mode, stage=stage, summary=marker.summary)
    stage = _stage(state_of_check(check), is_accepted=check.state is CheckState.SUCCESS)
    found = _PLACE.search(check.summary.partition("\n```")[0])  # In a block of code are a participant's words.
    return BoardNews(
        gpu=marker.gpu,
        mode=marker.mode,
        stage=stage,
        summary=check.title,
        place="".join(found.groups()) if found else "",
        result=read_result(check.text),
    )


def _stage(state: BoardState, *, is_accepted: bool) -> BoardProgress:
    if state is BoardState.DONE:
        return BoardProgress.ACCEPTED if is_accepted else BoardProgress.REJECTED
    return _STAGES[state]


def read_result(text: str) -> dict[str, Any] | None:
    """The JSON in a check run's text; None if there is none."""
    if not (found := _JSON.search(text)):
        return None
    try:
        facts = json.loads(found[1])
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None
