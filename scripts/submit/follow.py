"""Progress of judging one commit, read from the bot's comment and the commit's check runs.

    the comment     which boards, queued or ended, rank and gap in words; or the reason of a refusal
    the checks      whether a machine has started; the result as JSON

The commands poll GitHub, because GitHub cannot call a terminal back.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from scripts.bot.admission.path_rule import Misplaced, SubmissionPath, classify
from scripts.bot.comment.comment_text import MARKER, BoardSection, BoardState, PullComment, Tone, read_comment
from scripts.bot.evaluate.workflow_runs import check_name
from scripts.github.checks import CheckRun, CheckState
from scripts.github.pulls import PullRequest, find

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

    `summary` quotes the comment.  Once the board is judged, `place` has rank, time and gap in one line, and `result` is
    the JSON of its check run.
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
    """Whether the bot answers a pull request: it submits a file, or tries to."""
    return isinstance(classify(github.changed_files(pull.number), pull.author.login), SubmissionPath | Misplaced)


def look(github: GitHub, number: int) -> PullStatus:
    """The state of a pull request's newest commit."""
    pull = github.get_pull(number)
    found = github.find_comment(number, MARKER)
    comment = read_comment(found.body) if found else PullComment()
    refusal = _refusal(comment, pull)
    sections = [one for one in comment.boards if one.facts.head_sha == pull.head_sha]
    if not sections or (_is_to_be_ranked(comment, pull) and not refusal):
        return PullStatus(pull=pull, refusal=refusal)
    checks = {check.name: check for check in sorted(github.checks(pull.head_sha), key=lambda one: one.id)}
    boards = [_board(one, checks.get(check_name(one.facts.gpu))) for one in sections]
    left_out = _left_out(comment, pull)
    return PullStatus(
        pull=pull,
        boards=tuple(_with_result(github, one, checks.get(check_name(one.gpu))) for one in boards),
        refusal=refusal,
        left_out=left_out,
        remark=comment.notice.text if comment.notice and left_out else "",
    )


def _refusal(comment: PullComment, pull: PullRequest) -> str:
    notice = comment.notice
    if not notice or notice.tone is not Tone.REFUSED:
        return ""
    # Older comments name only the file that was read last: a notice without a commit is taken to be about that one.
    about = notice.head_sha or (comment.file and comment.file.head_sha) or pull.head_sha
    return notice.text if about == pull.head_sha else ""


def _left_out(comment: PullComment, pull: PullRequest) -> tuple[str, ...]:
    notice = comment.notice
    return notice.left_out if notice and notice.head_sha == pull.head_sha else ()


def _is_to_be_ranked(comment: PullComment, pull: PullRequest) -> bool:
    """Whether the comment is still about the draft, because the bot has not noticed that it is ready for review."""
    file = comment.file
    return bool(pull.is_open and not pull.is_draft and file and file.is_draft and file.head_sha == pull.head_sha)


def _board(section: BoardSection, check: CheckRun | None) -> BoardNews:
    facts = section.facts
    stage = BoardProgress.QUEUED
    if facts.state is BoardState.DONE:
        stage = BoardProgress.ACCEPTED if facts.accepted else BoardProgress.REJECTED
    elif facts.state is BoardState.REFUSED:
        stage = BoardProgress.REFUSED
    elif facts.state is BoardState.ENDED:
        stage = BoardProgress.ENDED
    elif check and check.external_id == facts.request and check.state is CheckState.RUNNING:
        stage = BoardProgress.RUNNING
    place = (
        "".join(found.groups()) if facts.state is BoardState.DONE and (found := _PLACE.search(section.report)) else ""
    )
    return BoardNews(gpu=facts.gpu, mode=facts.mode, stage=stage, summary=facts.summary, place=place)


def _with_result(github: GitHub, board: BoardNews, check: CheckRun | None) -> BoardNews:
    """Add the JSON of the board's check run, once it is judged."""
    if not check or board.stage not in (BoardProgress.ACCEPTED, BoardProgress.REJECTED):
        return board
    text = find(github.ask("GET", f"/check-runs/{check.id}"), str, "output", "text") or ""
    return replace(board, result=read_result(text))


def read_result(text: str) -> dict[str, Any] | None:
    """The JSON in a check run's text; None if there is none."""
    if not (found := _JSON.search(text)):
        return None
    try:
        facts = json.loads(found[1])
    except (ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None
