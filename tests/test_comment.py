"""The pull request's comment: what is in it, what stays when one board changes, and what cannot get out of it."""

import re
from datetime import UTC, datetime

import pytest
from markdown_it import MarkdownIt

from harness.records.fields import Mode
from harness.records.verdict import Verdict
from scripts.bot.comment.comment_text import (
    MARKER,
    MAX_CHARS,
    FileFacts,
    Notice,
    PullComment,
    Tone,
    read_comment,
)
from scripts.bot.comment.sections import done_section, ended_section, queued_section
from scripts.ledger.request import Ending, EndState, Request, make_id

NOW = datetime(2026, 11, 21, 12, 3, tzinfo=UTC)
HEAD = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
FILE = FileFacts(path="submissions/vectoradd/alice/submission.py", head_sha=HEAD, is_draft=False)
REPORT = "### `vectoradd` on `H100`: accepted (AC), rank 2 of 7\n\n**Rank 2 of 7** with 40.00 µs.\n"


def request(gpu: str = "H100", mode: Mode = Mode.RANKED, head: str = HEAD) -> Request:
    return Request(
        id=make_id(12, head, gpu, mode), user_id=7, login="alice", pull_request=12, head_sha=head, blob_sha="b" * 40,
        task="vectoradd", gpu=gpu, mode=mode, asked_at=NOW, asked_by=7, reason="opened",
    )  # fmt: skip


def ending(state: EndState, of: Request) -> Ending:
    return Ending(request=of.id, state=state, verdict=Verdict.ACCEPTED if state is EndState.JUDGED else None, at=NOW)


QUEUED = PullComment(file=FILE).with_board(queued_section(request("CPU"))).with_board(queued_section(request()))
DONE = QUEUED.with_board(done_section(request(), Verdict.ACCEPTED, REPORT))


def test_a_new_comment_says_what_is_judged_and_where_it_waits() -> None:
    text = QUEUED.render()
    assert text.startswith(f"{MARKER}\n")
    assert "**PullRank** judges `submissions/vectoradd/alice/submission.py` at `0a1b2c3`." in text
    assert "| 🟡\u00a0`CPU` | ranked | queued since 12:03 UTC |" in text
    assert "| 🟡\u00a0`H100` | ranked | queued since 12:03 UTC |" in text
    assert "`/help`" in text


def test_one_board_moves_on_and_the_other_stays() -> None:
    text = DONE.render()
    assert "| 🟡\u00a0`CPU` | ranked | queued since 12:03 UTC |" in text
    assert "| 🟢\u00a0`H100` | ranked | accepted (AC), rank 2 of 7 |" in text
    assert REPORT.strip() in text


def test_a_wrong_answer_is_red() -> None:
    report = "### `vectoradd` on `H100`: wrong answer (WA)\n"
    assert "🔴" in QUEUED.with_board(done_section(request(), Verdict.WRONG_ANSWER, report)).render()


@pytest.mark.parametrize("state", list(EndState))
def test_an_end_without_a_report_says_why(state: EndState) -> None:
    text = QUEUED.with_board(ended_section(request(), ending(state, request()))).render()
    assert {
        EndState.JUDGED: "accepted (AC); its report is lost; `/rerun`",
        EndState.REFUSED: "not judged",
        EndState.SUPERSEDED: "newer request",
        EndState.CANCELLED: "`/rerun`",
        EndState.FAILED: "failed on our side",
    }[state] in text


def test_a_refusals_own_code_does_not_end_the_code_that_it_stands_in() -> None:
    refused = ending(EndState.REFUSED, request()).model_copy(update={"note": "`a` is no `b`. `@everyone`"})
    assert "not judged: `'a' is no 'b'. '@everyone'` |" in QUEUED.with_board(ended_section(request(), refused)).render()


def test_where_there_is_one_report_no_table_repeats_it() -> None:
    text = PullComment(file=FILE).with_board(done_section(request(), Verdict.ACCEPTED, REPORT)).render()
    assert "| Board |" not in text and REPORT.strip() in text


def test_the_last_report_stays_folded_until_the_next_one_is_there() -> None:
    newer = request(head="f" * 40)
    waiting = read_comment(DONE.render()).with_board(queued_section(newer))
    text = waiting.render()
    assert "<summary>Previous report on <code>H100</code></summary>" in text and "40.00 µs" in text
    assert "of `fffffff`" in text
    done = read_comment(waiting.render()).with_board(done_section(newer, Verdict.ACCEPTED, REPORT.replace("40", "39")))
    assert "Previous report" not in done.render() and "40.00 µs" not in done.render()


def test_a_refusal_stands_on_top_and_goes_when_it_is_mended() -> None:
    refused = DONE.with_notice(Notice(text="**Not judged.** You changed `a`.\n\n```text\nb\n```"))
    text = refused.render()
    assert "> [!WARNING]\n> **Not judged.** You changed `a`.\n>\n> ```text\n> b\n> ```\n" in text
    assert text.index("[!WARNING]") < text.index("| Board |")
    assert read_comment(text).with_notice(None).render() == DONE.render()


def test_a_refusal_alone_needs_no_file() -> None:
    text = PullComment(notice=Notice(text="**Not judged.** Two files.")).render()
    assert "judges" not in text and "Push a change to have it read again." in text


def test_a_draft_is_told_how_to_be_ranked() -> None:
    draft = PullComment(file=FILE.model_copy(update={"is_draft": True})).with_board(queued_section(request()))
    assert "ready for review" in draft.render()


@pytest.mark.parametrize(
    "comment",
    [
        PullComment(),
        QUEUED,
        DONE,
        DONE.with_board(queued_section(request(head="f" * 40))),
        DONE.with_board(ended_section(request("CPU"), ending(EndState.FAILED, request("CPU")))),
        DONE.with_notice(Notice(text="a\n\nb", tone=Tone.REMARK)),
        PullComment(notice=Notice(text="**Not judged.** > quoted\n> twice")),
        DONE.with_notice(Notice(text="a", tone=Tone.REMARK, head_sha=HEAD, left_out=("B200", "H100"))),
    ],
    ids=range(8),
)
def test_what_was_written_is_read_again(comment: PullComment) -> None:
    text = comment.render()
    assert read_comment(text) == comment
    assert read_comment(text.replace("\n", "\r\n")).render() == text


@pytest.mark.parametrize(
    "body",
    [
        "", "hello", "<!-- pullrank:board {} -->\n<!-- pullrank:end -->",
        '<!-- pullrank:board {"gpu": 1} -->\nx\n<!-- pullrank:end -->', "<!-- pullrank:board {] -->\n",
        "<!-- pullrank:file {} -->\n" * 5000, '<!-- pullrank:notice {"tone":"WARNING","x":1} -->\n\n<!-- pullrank:end -->',
    ],
    ids=range(7),
)  # fmt: skip
def test_what_people_made_of_a_comment_is_no_comment_of_ours(body: str) -> None:
    assert read_comment(body) == PullComment()


ESCAPES = (
    "<!-- pullrank:end -->\n<!-- pullrank:board {} -->\n</details></summary>\n<!-- pullrank -->\n"
    "<details><summary>Previous report on <code>H100</code></summary>"
)


def test_a_report_that_quotes_our_markers_stays_in_its_place() -> None:
    hostile = f"### `vectoradd` on `H100`: wrong answer (WA)\n\n```text\n{ESCAPES}\n```\n\nend"
    comment = DONE.with_board(done_section(request(), Verdict.WRONG_ANSWER, hostile))
    again = read_comment(comment.render())
    assert again == comment
    assert len(again.boards) == 2 and again.boards[1].report.endswith("end")
    waiting = read_comment(again.with_board(queued_section(request(head="f" * 40))).render())
    assert waiting.boards[1].report == comment.boards[1].report
    assert waiting.render().count("<!-- pullrank:end -->") == 3


def test_our_markers_are_never_seen() -> None:
    html = MarkdownIt("commonmark", {"html": True}).enable("table").render(DONE.render())
    assert "pullrank" not in re.sub(r"<!--.*?-->", "", html).replace("PullRank", "")


def test_no_path_closes_the_marker_that_it_stands_in() -> None:
    facts = FileFacts(path="a --> <b>", head_sha=HEAD, is_draft=False)
    first = PullComment(file=facts).render().split("pullrank:file")[1].split("-->")[0]
    assert "<b" not in first and '"head_sha"' in first
    assert read_comment(PullComment(file=facts).render()).file == facts


def test_the_longest_reports_give_way() -> None:
    comment = PullComment(file=FILE)
    for number in range(20):
        report = f"### `vectoradd` on `G{number}`: accepted (AC)\n\n" + f"{number} " * 3000 * (number + 1)
        comment = comment.with_board(done_section(request(f"G{number}"), Verdict.ACCEPTED, report[:64_000]))
    text = comment.render()
    assert len(text) <= MAX_CHARS
    assert all(f"### `vectoradd` on `G{number}`: accepted (AC)\n" in text for number in range(20))
    assert "0 0 0" in text and "19 19 19" not in text
    assert "read it in the check run" in text
