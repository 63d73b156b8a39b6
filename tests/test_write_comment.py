"""Two boards of one pull request report at the same moment: in any order, the comment has both reports."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.records.fields import Mode
from harness.records.verdict import Verdict
from scripts.bot.comment.comment_text import PullComment, read_comment
from scripts.bot.comment.markers import BoardMarker, BoardState, Notice, Tone
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import done_section, section_of_check
from scripts.bot.comment.write_comment import add_remark, show_state
from scripts.bot.evaluate import workflow_runs
from scripts.github.checks import Check, CheckRun, CheckState
from scripts.github.gh import GitHub
from scripts.github.pulls import Comment, GitHubError
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Ending, EndState, Request, make_id
from tests.github_server import Failure, GitHubServer, World

HEAD = "a" * 40
SCOPES = {"checks": "write", "issues": "write", "pull-requests": "write"}


def request(gpu: str, number: int = 12, head_sha: str = HEAD) -> Request:
    return Request(
        id=make_id(number, head_sha, gpu, Mode.BENCHMARK), user_id=7, login="alice", pull_request=number,
        head_sha=head_sha, blob_sha="b" * 40, task="vectoradd", gpu=gpu, mode=Mode.BENCHMARK, asked_by=7,
        asked_at=datetime(2026, 11, 21, 12, tzinfo=UTC),
    )  # fmt: skip


def report_of(one: Request) -> str:
    return f"### `vectoradd` on `{one.gpu}`: accepted (AC)\n\nThe times of {one.gpu}."


# Facts from a check run.


def check_run(state: CheckState, **changes: Any) -> CheckRun:
    fields: dict[str, Any] = {"id": 1, "name": "PullRank / CPU", "title": "accepted (AC)", "summary": "A report."}
    return CheckRun(**(fields | {"state": state, "external_id": request("CPU").id} | changes))


@pytest.mark.parametrize(
    ("check", "state", "report"),
    [
        (check_run(CheckState.SUCCESS), BoardState.DONE, "A report."),
        (check_run(CheckState.FAILURE), BoardState.DONE, "A report."),
        (check_run(CheckState.NEUTRAL), BoardState.ENDED, ""),
        (check_run(CheckState.NEUTRAL, title="not judged: 'copied'"), BoardState.REFUSED, ""),
        (check_run(CheckState.CANCELLED), BoardState.ENDED, ""),
    ],
)
def test_a_waiting_board_takes_its_state_from_its_check_run(check: CheckRun, state: BoardState, report: str) -> None:
    section = section_of_check(request("CPU"), check)
    assert section and (section.facts.state, section.report) == (state, report)
    assert section.facts.accepted is {CheckState.SUCCESS: True, CheckState.FAILURE: False}.get(check.state)


@pytest.mark.parametrize(
    "check", [check_run(CheckState.RUNNING), check_run(CheckState.SUCCESS, external_id="another")], ids=range(2)
)
def test_an_unfinished_or_unrelated_check_run_gives_no_report(check: CheckRun) -> None:
    assert section_of_check(request("CPU"), check) is None


# Two at once.


class Turns:
    """The turns of writers: each number in `order` is one request that this writer may send now."""

    def __init__(self, order: list[int]) -> None:
        self.order, self.change = order, threading.Condition()

    @contextmanager
    def take(self, who: int) -> Iterator[None]:
        with self.change:
            self.change.wait_for(lambda: not self.order or self.order[0] == who)
            del self.order[:1]
            try:
                yield
            finally:
                self.change.notify_all()

    def leave(self, who: int) -> None:
        with self.change:
            self.order[:] = [one for one in self.order if one != who]
            self.change.notify_all()


class Writer(GitHub):
    """A GitHub whose user waits for a turn before each request."""

    who: int
    turns: Turns

    def find_comment(self, number: int, marker: str) -> Comment | None:
        with self.turns.take(self.who):
            return super().find_comment(number, marker)

    def upsert_comment(self, number: int, marker: str, body: str, known: Comment | None = None) -> Comment:
        with self.turns.take(self.who):
            return super().upsert_comment(number, marker, body, known)

    def create_check(self, check: Check) -> int | None:
        with self.turns.take(self.who):
            return super().create_check(check)

    def checks(self, head_sha: str, name: str = "") -> tuple[CheckRun, ...]:
        with self.turns.take(self.who):
            return super().checks(head_sha, name)


class Stage:
    """A pull request with two waiting boards.  `judged` has the requests whose judgings are in the ledger."""

    def __init__(self, server: GitHubServer) -> None:
        self.server, self.world = server, server.world
        pull = self.world.open_pull(self.world.add_user("alice"), {"a": "b"})
        self.number, self.judged = pull.number, set[str]()
        self.requests = [request(gpu, pull.number, pull.head_sha) for gpu in ("CPU", "H100")]
        before = self.record().comment(PullComment(), {}, None)
        self.comment = self.world.add_comment(pull.number, self.world.bot, before.render())

    def record(self, **ended: EndState) -> PullRecord:
        """The record from the ledger now; `ended` has ends without a judgement, by GPU."""
        states = {one.gpu: EndState.JUDGED for one in self.requests if one.id in self.judged} | ended
        statuses = [RequestStatus(request=one, ending=ending(one, states.get(one.gpu))) for one in self.requests]
        return PullRecord(number=self.number, statuses=tuple(statuses))

    def github(self) -> GitHub:
        return GitHub(self.world.repository, self.world.workflow_token(SCOPES).value, self.server.api_url)

    def judge(self, one: Request, **check: Any) -> str:
        """Report a request as judged."""
        self.judged.add(one.id)
        with self.github() as github:
            return report_on(one, self.record(), github, **check)

    def play(self, order: list[int]) -> tuple[BoardMarker, ...]:
        """Both report, with requests to GitHub in this order; returns the comment's boards."""
        turns = Turns(order)
        writers = [threading.Thread(target=self._report, args=(who, turns)) for who in (0, 1)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert len(self.world.comments_on(self.comment.number)) == 1
        return tuple(board.facts for board in read_comment(self.comment.body).boards)

    def _report(self, who: int, turns: Turns) -> None:
        one, token = self.requests[who], self.world.workflow_token(SCOPES).value
        try:
            with turns.take(who):  # A later push to the ledger knows the earlier ones.
                self.judged.add(one.id)
                record = self.record()
            with Writer(self.world.repository, token, self.server.api_url) as github:
                github.who, github.turns = who, turns
                report_on(one, record, github)
        finally:
            turns.leave(who)


def ending(one: Request, state: EndState | None) -> Ending | None:
    if not state:
        return None
    verdict = Verdict.ACCEPTED if state is EndState.JUDGED else None
    note = "" if verdict else "The commit is gone."
    return Ending(request=one.id, state=state, verdict=verdict, at=one.asked_at, note=note)


def report_on(one: Request, record: PullRecord, github: GitHub, **changes: Any) -> str:
    section = done_section(one, Verdict.ACCEPTED, report_of(one))
    check = workflow_runs.check_of(one, CheckState.SUCCESS, section.facts.summary)
    return show_state(record, replace(check, summary=section.report, **changes), github, section=section)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with GitHubServer(World(tmp_path)) as server:
        yield Stage(server)


# Each pushes to the ledger, looks for its check, creates it, reads the comment, writes it, and reads the checks again.
ALONE, BOTH_READ_FIRST = [0] * 9 + [1] * 9, [0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0, 0]
ORDERS = [ALONE, BOTH_READ_FIRST, [0, 1] * 9, [0, 1, 1, 0] * 4]
ORDERS += [random.Random(seed).sample([0, 1] * 9, 18) for seed in range(16)]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "".join(map(str, order)))
def test_two_concurrent_reports_both_reach_the_comment_in_any_order(stage: Stage, order: list[int]) -> None:
    boards = stage.play(list(order))
    assert [(board.gpu, board.state) for board in boards] == [("CPU", BoardState.DONE), ("H100", BoardState.DONE)]
    texts = {one.facts.gpu: one.report for one in read_comment(stage.comment.body).boards}
    assert [texts[one.gpu] for one in stage.requests] == [report_of(one) for one in stage.requests]
    assert all(board.accepted for board in boards)


def test_a_remark_keeps_the_notice_about_boards_left_out(stage: Stage) -> None:
    head = stage.requests[0].head_sha
    left = Notice(text="Not judged on `B200`.", tone=Tone.REMARK, head_sha=head, left_out=("B200",))
    stage.comment.body = stage.record().comment(PullComment(), {}, left).render()
    with stage.github() as github:
        for text in ("Not merged.", "Not merged.", "Not merged yet."):
            add_remark(stage.record(), head, text, github)
    notice = read_comment(stage.comment.body).notice
    assert notice == left.model_copy(update={"text": "Not judged on `B200`.\n\nNot merged yet."})


def test_a_report_keeps_the_notice_above_it(stage: Stage) -> None:
    left = Notice(text="Not judged on `B200`.", tone=Tone.REMARK, head_sha=HEAD, left_out=("B200",))
    stage.comment.body = stage.record().comment(PullComment(), {}, left).render()
    stage.judge(stage.requests[0])
    assert read_comment(stage.comment.body).notice == left and "The times of CPU" in stage.comment.body


def test_the_last_board_to_report_does_not_reread_the_check_runs(stage: Stage) -> None:
    stage.play(list(ALONE))
    looked = [entry for entry in stage.server.requests("GET */check-runs") if "check_name" not in entry.query]
    assert len(looked) == 1


def test_a_report_missing_from_the_comment_comes_from_its_check_run(stage: Stage) -> None:
    first, second = stage.requests
    before = stage.comment.body
    stage.judge(first)
    stage.comment.body = before
    written = len(stage.server.requests("PATCH */issues/comments/*"))
    stage.judge(second)
    assert len(stage.server.requests("PATCH */issues/comments/*")) == written + 1, (
        "the comment is never written without the report"
    )
    assert [one.facts.state for one in read_comment(stage.comment.body).boards] == [BoardState.DONE] * 2
    assert "The times of CPU" in stage.comment.body and "The times of H100" in stage.comment.body


# Texts that GitHub refuses.


def test_a_comment_that_github_rejects_is_rewritten_without_its_reports(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_SERVER_URL", stage.server.url)
    stage.server.fail("PATCH */issues/comments/*", Failure(status=422))
    short = stage.judge(stage.requests[0])
    assert short.startswith("the comment lacks a report:") and "422" in short
    states = [board.facts.state for board in read_comment(stage.comment.body).boards]
    assert states == [BoardState.DONE, BoardState.QUEUED]
    assert "accepted (AC)" in stage.comment.body and "The times of CPU" not in stage.comment.body
    assert f"{stage.server.url}/{stage.world.repository}/pull/{stage.number}/checks" in stage.comment.body
    assert stage.record().comment(read_comment(stage.comment.body), {}, None).render() == stage.comment.body


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_report_that_github_rejects_drops_others_only_if_necessary(stage: Stage, refusals: int) -> None:
    other, one = stage.requests
    stage.judge(other)
    stage.server.fail("PATCH */issues/comments/*", Failure(status=422), times=refusals)
    stage.judge(one)
    assert "GitHub rejected this report" in stage.comment.body and "The times of H100" not in stage.comment.body
    assert ("The times of CPU" in stage.comment.body) is (refusals == 1)
    assert [board.facts.state for board in read_comment(stage.comment.body).boards] == [BoardState.DONE] * 2


def test_a_rejected_comment_without_reports_is_an_error(stage: Stage) -> None:
    stage.server.fail("PATCH */issues/comments/*", Failure(status=422), times=2)
    with pytest.raises(GitHubError, match="422"):
        tell_refusal(stage)
    assert len(stage.server.requests("PATCH */issues/comments/*")) == 1  # it had no report to repeat


def tell_refusal(stage: Stage) -> None:
    one, record = stage.requests[0], stage.record(CPU=EndState.REFUSED)
    with stage.github() as github:
        show_state(record, workflow_runs.check_of(one, CheckState.NEUTRAL, "not judged"), github)


def test_a_report_after_an_end_gets_its_own_check_run_once(stage: Stage) -> None:
    tell_refusal(stage)
    for _ in range(2):
        stage.judge(stage.requests[0])
    assert [one.conclusion for one in stage.world.checks.values()] == ["neutral", "success"]
    assert "The times of CPU" in stage.comment.body


def test_the_comment_still_reports_a_commit_that_is_gone(stage: Stage) -> None:
    stage.requests = [request(one.gpu, stage.number, "f" * 40) for one in stage.requests]
    tell_refusal(stage)
    assert "The commit is gone." in stage.comment.body and not stage.world.checks


def test_the_comment_is_not_updated_until_its_check_run_is_written(stage: Stage) -> None:
    stage.server.fail("POST */check-runs", Failure(status=500))
    with pytest.raises(GitHubError, match="500"):
        tell_refusal(stage)
    assert "queued since" in stage.comment.body and "The commit is gone." not in stage.comment.body


def test_a_check_run_that_github_rejects_is_written_without_its_text(stage: Stage) -> None:
    one = stage.requests[0]
    stage.server.fail("P* */check-runs*", Failure(status=422))
    stage.judge(one, text="```json\n{}\n```")
    with stage.github() as github:
        (written,) = github.checks(one.head_sha, "PullRank / CPU")
    assert written.state is CheckState.SUCCESS and "The times of CPU" in stage.comment.body
