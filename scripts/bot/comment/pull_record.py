"""From the ledger to the pull request's comment: which boards it shows, and each one's section.  Pure.

    the requests of the pull request, and how they ended  ─▶ file, boards, states        ┐
    kept texts: the notice, and each board's last report  ─▶ words that the ledger lacks ┼─▶ PullComment
    sections that the writer or a check run knows         ─▶ reports that are new        ┘

The ledger and the check runs decide each board's state here.  But only the comment's text has the notice, and without
it each write would cost a request for every commit whose reports it shows: the ledger has no judgements of drafts, and
check runs are listed by commit.  So a writer keeps the texts of the comment that it replaces.  A board's text names its
request; if it is missing, the check run has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from harness.records.errors import TaskError
from harness.records.fields import Mode
from scripts.bot.admission.path_rule import FILE_NAMES, entry_path
from scripts.bot.comment.comment_text import BoardSection, PullComment
from scripts.bot.comment.markers import FileFacts, Notice
from scripts.bot.comment.sections import done_section, ended_section, queued_section, unreported_section
from scripts.competition.repository import ROOT, require_task
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.request import EndState, Request


@dataclass(frozen=True, kw_only=True)
class PullRecord:
    """The requests of one pull request, oldest first; `root` holds the tasks."""

    number: int
    statuses: tuple[RequestStatus, ...] = ()
    root: Path = ROOT

    @classmethod
    def of(cls, number: int, statuses: Iterable[RequestStatus], root: Path) -> PullRecord:
        """The record of a pull request; `statuses` may include others."""
        own = tuple(status for status in statuses if status.request.pull_request == number)
        return cls(number=number, statuses=own, root=root)

    @classmethod
    def read(cls, request: Request, ledger: Ledger, root: Path) -> PullRecord:
        """The record of a request's pull request, from a ledger that has the requests of its author."""
        return cls.of(request.pull_request, ledger.requests(user_id=request.user_id), root)

    @cached_property
    def shown(self) -> Mapping[str, RequestStatus]:
        """The request that the comment shows for each GPU, the newest; in the order of the first requests."""
        return newest_by_gpu(self.statuses)

    @cached_property
    def file(self) -> FileFacts | None:
        """The newest file that was to be judged; a rematch is of an older one."""
        newest = max((one for one in self.statuses if not one.request.is_rematch), key=_age, default=None)
        if not newest:
            return None
        request = newest.request
        path = entry_path(request.task, request.login, _file_name(request, self.root))
        return FileFacts(path=path, head_sha=request.head_sha, is_draft=self._is_draft(request.head_sha))

    def comment(self, kept: PullComment, told: Mapping[str, BoardSection], notice: Notice | None) -> PullComment:
        """The comment.

        Args:
            kept: the comment that this one replaces.
            told: sections that the ledger alone does not give, by request.
        """
        before = {one.facts.gpu: one for one in kept.boards}
        boards = (_section(one, before.get(gpu), told.get(one.request.id)) for gpu, one in self.shown.items())
        return PullComment(file=self.file, notice=notice, boards=tuple(boards))

    def unreported(self, kept: PullComment, told: Mapping[str, BoardSection]) -> list[Request]:
        """The judged requests to show whose reports are neither kept nor told."""
        texts = {one.facts.request for one in kept.boards if one.is_done}
        return [
            one.request
            for one in self.shown.values()
            if one.ending
            and one.ending.state is EndState.JUDGED
            and one.request.id not in texts
            and one.request.id not in told
        ]

    def _is_draft(self, head_sha: str) -> bool:
        """Whether events requested only what a draft gets: benchmarks.  Commands do not count."""
        of_head = (one.request for one in self.statuses if one.request.head_sha == head_sha)
        modes = {one.mode for one in of_head if not one.is_by_command}
        return modes == {Mode.BENCHMARK}


def newest_by_gpu(statuses: Iterable[RequestStatus]) -> Mapping[str, RequestStatus]:
    """The newest request of each GPU in a pull request, in the order of the first requests."""
    newest: dict[str, RequestStatus] = {}
    for status in statuses:
        gpu = status.request.gpu
        newest[gpu] = max(newest.get(gpu, status), status, key=_age)
    return newest


def _age(status: RequestStatus) -> tuple[object, ...]:
    """Sorts by time.  Of requests in the same second, the newer one ends later."""
    request, ended_at = status.request, status.ending.at if status.ending else datetime.max.replace(tzinfo=UTC)
    return request.asked_at, ended_at, request.attempt, request.id


def _section(status: RequestStatus, kept: BoardSection | None, told: BoardSection | None) -> BoardSection:
    request, ending, text = status.request, status.ending, kept.report if kept else ""
    if told:
        return told if told.is_done else replace(told, report=text)
    if not ending:
        return replace(queued_section(request), report=text)
    if ending.state is not EndState.JUDGED or not ending.verdict:
        return replace(ended_section(request, ending), report=text)
    if kept and kept.is_done and kept.facts.request == request.id:
        return done_section(request, ending.verdict, text)
    return replace(unreported_section(request, ending.verdict), report=text)


def _file_name(request: Request, root: Path) -> str:
    try:
        return require_task(request.task, root / "tasks").name_of(request.digest)
    except TaskError:
        return FILE_NAMES[0]
