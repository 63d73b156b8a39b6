"""The pull request's comment: its content from the ledger, what an update keeps, and hostile words."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from markdown_it import MarkdownIt

from harness.records.fields import Mode
from harness.records.verdict import Verdict
from scripts.bot.comment.comment_text import BoardSection, PullComment, read_comment
from scripts.bot.comment.markers import (
    MARKER,
    MAX_CHARS,
    BoardState,
    FileFacts,
    Notice,
    Tone,
)
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import done_section
from scripts.github.pulls import ACTIONS_BOT
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Ending, EndState, Request, make_id

NOW = datetime(2026, 11, 21, 12, 3, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
HEAD, NEXT = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "f" * 40
FILE = FileFacts(path="submissions/vectoradd/alice/submission.py", head_sha=HEAD, is_draft=False)
REPORT = "### `vectoradd` on `H100`: accepted (AC), rank 2 of 7\n\n**Rank 2 of 7** with 40.00 µs.\n"
TELLING = REPORT.strip()


def request(gpu: str = "H100", mode: Mode = Mode.RANKED, head: str = HEAD, **changes: object) -> Request:
    return Request(
        **{
            "id": make_id(12, head, gpu, mode), "user_id": 7, "login": "alice", "pull_request": 12, "head_sha": head,
            "blob_sha": "b" * 40, "task": "vectoradd", "gpu": gpu, "mode": mode, "asked_at": NOW, "asked_by": 7,
            "reason": "opened",
        } | changes  # type: ignore[arg-type]
    )  # fmt: skip


def ended(
    of: Request, state: EndState = EndState.JUDGED, verdict: Verdict = Verdict.ACCEPTED, **rest: str
) -> RequestStatus:
    judged = verdict if state is EndState.JUDGED else None
    ending = Ending(request=of.id, state=state, verdict=judged, at=of.asked_at + timedelta(minutes=1), **rest)
    return RequestStatus(request=of, ending=ending)


def record(*statuses: RequestStatus | Request) -> PullRecord:
    return PullRecord(
        number=12,
        statuses=tuple(RequestStatus(request=one) if isinstance(one, Request) else one for one in statuses),
    )


def comment(
    of: PullRecord, before: PullComment | str = "", *told: BoardSection, notice: Notice | None = None
) -> PullComment:
    """The comment that replaces an older one."""
    kept = read_comment(before.render() if isinstance(before, PullComment) else before)
    return of.comment(kept, {one.facts.request: one for one in told}, notice)


def done(of: Request, report: str = REPORT, verdict: Verdict = Verdict.ACCEPTED) -> BoardSection:
    return done_section(of, verdict, report)


BOTH, ONE_JUDGED = record(request("CPU"), request()), record(request("CPU"), ended(request()))
QUEUED = comment(BOTH)
DONE = comment(ONE_JUDGED, QUEUED, done(request()))
NEWER = request(head=NEXT, asked_at=LATER)
WAITS_AGAIN = record(request("CPU"), ended(request()), NEWER)


def test_a_new_comment_says_what_is_judged_and_where_it_waits() -> None:
    text = QUEUED.render()
    assert text.startswith(f"{MARKER}\n")
    assert "**PullRank** judges `submissions/vectoradd/alice/submission.py` at `0a1b2c3`." in text
    assert "| 🟡\u00a0`CPU` | ranked | queued since 12:03 UTC |" in text
    assert "| 🟡\u00a0`H100` | ranked | queued since 12:03 UTC |" in text
    assert "`/help`" in text


def test_one_board_is_updated_while_the_other_stays_queued() -> None:
    text = DONE.render()
    assert "| 🟡\u00a0`CPU` | ranked | queued since 12:03 UTC |" in text
    assert "| 🟢\u00a0`H100` | ranked | accepted (AC), rank 2 of 7 |" in text
    assert TELLING in text


def test_a_wrong_answer_is_red() -> None:
    report = "### `vectoradd` on `H100`: wrong answer (WA)\n"
    judged = record(request("CPU"), ended(request(), verdict=Verdict.WRONG_ANSWER))
    told = comment(judged, QUEUED, done(request(), report, Verdict.WRONG_ANSWER))
    assert "🔴" in told.render() and "🔴" in comment(judged, told).render()


@pytest.mark.parametrize("state", [one for one in EndState if one is not EndState.JUDGED])
def test_a_request_that_ends_without_a_report_says_why(state: EndState) -> None:
    text = comment(record(request("CPU"), ended(request(), state))).render()
    assert {
        EndState.REFUSED: "not judged",
        EndState.SUPERSEDED: "newer request",
        EndState.CANCELLED: "`/rerun`",
        EndState.FAILED: "failed on our side",
    }[state] in text


def test_backticks_in_a_refusal_do_not_end_its_code_span() -> None:
    refused = ended(request(), EndState.REFUSED, note="`a` is no `b`. `@everyone`")
    assert "not judged: `'a' is no 'b'. '@everyone'` |" in comment(record(request("CPU"), refused)).render()


def test_a_comment_with_one_report_has_no_table() -> None:
    text = comment(record(ended(request())), "", done(request())).render()
    assert "| Board |" not in text and TELLING in text


# From the ledger.


def test_boards_keep_the_order_of_first_requests_and_show_their_newest() -> None:
    benchmark = request("CPU", Mode.BENCHMARK, asked_at=LATER, reason="/benchmark, comment 5")
    shown = comment(record(ended(request("CPU")), request(), benchmark)).boards
    assert [(one.facts.gpu, one.facts.request) for one in shown] == [("CPU", benchmark.id), ("H100", request().id)]


def test_the_waiting_one_of_two_simultaneous_requests_is_shown() -> None:
    for newer in ("1" * 40, "f" * 40):
        old, new = ended(request(), EndState.SUPERSEDED), request(head=newer)
        for statuses in ((old, new), (new, old)):
            shown = comment(record(*statuses))
            assert [one.facts.request for one in shown.boards] == [new.id]
            assert shown.file == FILE.model_copy(update={"head_sha": newer})


def test_a_board_judged_by_another_run_waits_for_its_report() -> None:
    (section,) = comment(record(ended(request()))).boards
    assert section.facts.state is BoardState.QUEUED
    assert section.facts.summary == "accepted (AC); its report follows"
    assert record(ended(request())).unreported(PullComment(), {}) == [request()]
    assert not ONE_JUDGED.unreported(read_comment(DONE.render()), {})


def test_an_older_requests_report_does_not_count_for_a_newer_one() -> None:
    judged = record(request("CPU"), ended(request()), ended(NEWER))
    kept = read_comment(DONE.render())
    assert judged.unreported(kept, {}) == [NEWER]
    board = judged.comment(kept, {}, None).boards[1]
    assert board.facts.state is BoardState.QUEUED and board.report == TELLING


def test_a_rematch_does_not_change_the_file_shown() -> None:
    rematch = request(asked_at=LATER, asked_by=ACTIONS_BOT.id, id=make_id(12, HEAD, "H100", Mode.RANKED, 2))
    newer = request("CPU", head=NEXT, asked_at=NOW + timedelta(minutes=5))
    shown = comment(record(ended(request()), newer, rematch))
    assert shown.file and shown.file.head_sha == NEXT
    assert [one.facts.request for one in shown.boards] == [rematch.id, newer.id]


def test_the_file_shown_has_the_name_of_its_own_task() -> None:
    rematch = request(asked_at=LATER, asked_by=ACTIONS_BOT.id, id=make_id(12, HEAD, "H100", Mode.RANKED, 2))
    newer = request(head=NEXT, asked_at=NOW + timedelta(minutes=1), task="causalconv1d")
    file = record(ended(request()), newer, rematch).file
    assert file and file.path == "submissions/causalconv1d/alice/submission.cu"


@pytest.mark.parametrize(
    ("modes", "is_draft"),
    [
        ([("opened", Mode.BENCHMARK)], True),
        ([("opened", Mode.BENCHMARK), ("ready_for_review", Mode.RANKED)], False),
        ([("opened", Mode.BENCHMARK), ("ready_for_review", Mode.TEST)], False),
        ([("opened", Mode.RANKED), ("/benchmark, comment 5", Mode.BENCHMARK)], False),
        ([("opened", Mode.BENCHMARK), ("/test, comment 5", Mode.TEST)], True),
        ([("/benchmark, comment 5", Mode.BENCHMARK)], False),
    ],
)
def test_the_comment_on_a_draft_explains_how_to_get_ranked(modes: list[tuple[str, Mode]], is_draft: bool) -> None:
    shown = comment(record(*(request("CPU", mode, reason=reason) for reason, mode in modes)))
    assert shown.file and shown.file.is_draft is is_draft
    assert ("ready for review" in shown.render()) is is_draft


# Updates.


def test_the_last_report_stays_folded_until_the_next_one_arrives() -> None:
    waiting = comment(WAITS_AGAIN, DONE)
    text = waiting.render()
    assert "<summary>Previous report on <code>H100</code></summary>" in text and "40.00 µs" in text
    assert "at `fffffff`" in text and "queued since 12:03 UTC, of `0a1b2c3`" in text
    judged = record(request("CPU"), ended(request()), ended(NEWER))
    told = comment(judged, waiting, done(NEWER, REPORT.replace("40", "39")))
    assert "Previous report" not in told.render() and "40.00 µs" not in told.render()


@pytest.mark.parametrize("state", [EndState.REFUSED, EndState.SUPERSEDED, EndState.CANCELLED, EndState.FAILED])
def test_the_last_report_stays_folded_when_the_next_one_never_comes(state: EndState) -> None:
    waiting = comment(WAITS_AGAIN, DONE)
    text = comment(record(request("CPU"), ended(request()), ended(NEWER, state)), waiting).render()
    assert "<summary>Previous report on <code>H100</code></summary>" in text and "40.00 µs" in text


def test_a_refusal_is_on_top_and_disappears_once_it_is_fixed() -> None:
    refused = comment(ONE_JUDGED, DONE, notice=Notice(text="**Not judged.** You changed `a`.\n\n```text\nb\n```"))
    text = refused.render()
    assert "> [!WARNING]\n> **Not judged.** You changed `a`.\n>\n> ```text\n> b\n> ```\n" in text
    assert text.index("[!WARNING]") < text.index("| Board |")
    assert comment(ONE_JUDGED, text).render() == DONE.render()


def test_a_refusal_alone_needs_no_file() -> None:
    text = PullComment(notice=Notice(text="**Not judged.** Two files.")).render()
    assert "judges" not in text and "Push a change, and the bot reads the file again." in text


FAILED_ONCE = record(ended(request("CPU"), EndState.FAILED), ended(request()))


@pytest.mark.parametrize(
    ("of", "written"),
    [
        (record(), PullComment()),
        (BOTH, QUEUED),
        (ONE_JUDGED, DONE),
        (WAITS_AGAIN, comment(WAITS_AGAIN, DONE)),
        (FAILED_ONCE, comment(FAILED_ONCE, DONE)),
        (ONE_JUDGED, comment(ONE_JUDGED, DONE, notice=Notice(text="a\n\nb", tone=Tone.REMARK))),
        (record(), PullComment(notice=Notice(text="**Not judged.** > quoted\n> twice"))),
        (
            ONE_JUDGED,
            comment(ONE_JUDGED, DONE, notice=Notice(text="a", tone=Tone.REMARK, head_sha=HEAD, left_out=("B200",))),
        ),
    ],
    ids=range(8),
)
def test_rebuilding_a_comment_changes_nothing(of: PullRecord, written: PullComment) -> None:
    text = written.render()
    for before in (text, text.replace("\n", "\r\n")):
        kept = read_comment(before)
        assert of.comment(kept, {}, kept.notice) == written
        assert kept == written


@pytest.mark.parametrize(
    "body",
    [
        "", "hello", "<!-- pullrank:board {} -->\n<!-- pullrank:end -->",
        '<!-- pullrank:board {"gpu": 1} -->\nx\n<!-- pullrank:end -->', "<!-- pullrank:board {] -->\n",
        "<!-- pullrank:file {} -->\n" * 5000, '<!-- pullrank:notice {"tone":"WARNING","x":1} -->\n\n<!-- pullrank:end -->',
    ],
    ids=range(7),
)  # fmt: skip
def test_a_comment_with_invalid_markers_is_read_as_empty(body: str) -> None:
    assert read_comment(body) == PullComment()


def test_a_forged_marker_changes_no_board() -> None:
    forged = DONE.render().replace('"state":"queued"', '"state":"done","accepted":true')
    assert forged != DONE.render()
    board = comment(ONE_JUDGED, forged).boards[0]
    assert board.facts == DONE.boards[0].facts and board.facts.state is BoardState.QUEUED


# Hostile words.

ESCAPES = (
    "<!-- pullrank:end -->\n<!-- pullrank:board {} -->\n</details></summary>\n<!-- pullrank -->\n"
    "<details><summary>Previous report on <code>H100</code></summary>"
)


def test_a_report_that_quotes_our_markers_stays_in_its_place() -> None:
    hostile = f"### `vectoradd` on `H100`: wrong answer (WA)\n\n```text\n{ESCAPES}\n```\n\nend"
    judged = record(request("CPU"), ended(request(), verdict=Verdict.WRONG_ANSWER))
    told = comment(judged, QUEUED, done(request(), hostile, Verdict.WRONG_ANSWER))
    again = comment(judged, told)
    assert again == told
    assert len(again.boards) == 2 and again.boards[1].report.endswith("end")
    waits = record(*judged.statuses, NEWER)
    waiting = comment(waits, comment(waits, again))
    assert waiting.boards[1].report == told.boards[1].report
    assert waiting.render().count("<!-- pullrank:end -->") == 3


def test_our_markers_are_invisible_when_rendered() -> None:
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(DONE.render())
    assert "pullrank" not in re.sub(r"<!--.*?-->", "", html).replace("PullRank", "")


def test_a_path_cannot_close_the_marker_around_it() -> None:
    facts = FileFacts(path="a --> <b>", head_sha=HEAD, is_draft=False)
    first = PullComment(file=facts).render().split("pullrank:file")[1].split("-->")[0]
    assert "<b" not in first and '"head_sha"' in first
    assert read_comment(PullComment(file=facts).render()).file == facts


def test_the_longest_reports_are_dropped_if_a_comment_is_too_long() -> None:
    boards = []
    for number in range(20):
        report = f"### `vectoradd` on `G{number}`: accepted (AC)\n\n" + f"{number} " * 3000 * (number + 1)
        boards.append(done(request(f"G{number}"), report[:64_000]))
    text = PullComment(file=FILE, boards=tuple(boards)).render()
    assert len(text) <= MAX_CHARS
    assert all(f"### `vectoradd` on `G{number}`: accepted (AC)\n" in text for number in range(20))
    assert "0 0 0" in text and "19 19 19" not in text
    assert "read it in the check run" in text
