"""The pull request's comment: each outcome in words, without hostile text."""

import hashlib
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from markdown_it import MarkdownIt

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.stats import Interval
from harness.records.times import Duel, DuelCase, Forfeit, Run, Timing
from harness.records.verdict import Verdict
from harness.task.task import Baseline, Board, Task
from scripts.bot.comment.check_report import remarks
from scripts.bot.comment.judgement_section import render
from scripts.bot.comment.markdown import NBSP
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import Request
from scripts.standings.standings import standings

START = datetime(2026, 11, 2, tzinfo=UTC)
AC = Verdict.ACCEPTED
BOARD = cast(
    Board,
    SimpleNamespace(
        task=Task(
            name="vectoradd",
            folder=Path("vectoradd"),
            baselines=(
                Baseline(name="torch.add", path=Path("add.py"), digest=hashlib.sha256(b"torch's own").hexdigest()),
            ),
        ),
        gpu="CPU",
        edition="e" * 64,
        tests=tuple(SimpleNamespace(params={"size": size}) for size in (127, 128, 512)),
        benchmarks=tuple(SimpleNamespace(params={"size": size}) for size in (1024, 4096)),
        ranking_by="geom",
    ),
)
HOSTILE = (
    "``` ~~~ @everyone @alice #1 <img src=https://evil.example/x.png><script>alert(1)</script> </details> </sub>\n"
    "| rank | 1 |\n\n# Rank 1 of 1\n![x](https://evil.example/y.png) [a](javascript:b) www.evil.example\r"
    "\x1b[31m\u202egnp.exe\u2066\u200b\u3164\n::set-output name=x::y"
)


def run(us: float) -> Run:
    return Run(order=0, warmups_us=(), samples_us=(us,), seeds=(1,))


def timing(ratio: float, anchor_us: float = 100.0, spread: float = 0.004, **rest: Any) -> Timing:
    fields: dict[str, Any] = {"overhead_us": 0.5, "bound_us": 0.5, "steady": True, "note": ""}
    noise = [math.exp(spread * share) for share in (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)]
    submission = tuple(run(ratio * anchor_us * factor) for factor in noise)
    return Timing.of(submission, (run(anchor_us),) * 6, **(fields | rest))


def benchmarks(*ratios: float, **rest: Any) -> tuple[CaseResult, ...]:
    return tuple(
        CaseResult(
            kind=CaseKind.BENCHMARK, params=dict(case.params), verdict=AC, seconds=1.0, timing=timing(ratio, **rest)
        )
        for case, ratio in zip(BOARD.benchmarks, ratios, strict=True)
    )


def right_tests_but(*failed: tuple[int, Verdict, str]) -> tuple[CaseResult, ...]:
    found = {size: (verdict, message) for size, verdict, message in failed}
    return tuple(
        CaseResult(kind=CaseKind.TEST, params=dict(case.params), verdict=verdict, message=message, seconds=1.0)
        for case in BOARD.tests
        for verdict, message in [found.get(cast(int, case.params["size"]), (AC, ""))]
    )


def built(verdict: Verdict = AC, message: str = "") -> CaseResult:
    return CaseResult(kind=CaseKind.BUILD, params={}, verdict=verdict, message=message, seconds=1.0)


def judged(login: str, *cases: CaseResult, file: str = "", minute: int = 0, **rest: Any) -> Judgement:
    first = next((case for case in cases if case.verdict is not AC), built())
    fields: dict[str, Any] = {
        "task": "vectoradd", "edition": "e" * 64, "gpu": "CPU", "mode": Mode.RANKED,
        "submission": SubmissionInfo(login=login, digest=hashlib.sha256((file or login).encode()).hexdigest(), lines=9),
        "verdict": first.verdict, "message": first.message, "cases": cases, "claim": Claim.BOUNDED,
        "machine": Machine(
            device="CPU", cpu="AMD EPYC", cores=2, memory_gib=8.0, os="Linux", python="3.11", torch="2.13", quiet=True
        ),
        "sandbox": SandboxInfo(kind="bubblewrap", stop="signals"),
        "harness": HarnessInfo(version="0.1.0", method=1, digest="0" * 64),
        "started_at": START + timedelta(minutes=minute), "finished_at": START + timedelta(minutes=minute, seconds=21),
    }  # fmt: skip
    return Judgement(**(fields | rest))


def accepted(login: str, ratio: float, **rest: Any) -> Judgement:
    return judged(login, built(), *right_tests_but(), *benchmarks(ratio, ratio), **rest)


def unsteady(login: str, ratio: float, **rest: Any) -> Judgement:
    """An accepted judgement whose score has an interval of ±42.4 %."""
    return judged(login, built(), *right_tests_but(), *benchmarks(ratio, ratio, spread=0.6), **rest)


def duel(opponent: Judgement, ratio: float, blocks: int = 8) -> Duel:
    ours, theirs = (run(100 * ratio),) * 2 * blocks, (run(100.0),) * 2 * blocks
    case = DuelCase(params={"size": 1024}, challenger=ours, champion=theirs)
    submission = opponent.submission
    return Duel(
        opponent=submission.login, opponent_digest=submission.digest, cases=(case,),
        ratio=Interval(value=ratio, low=ratio * 0.996, high=ratio * 1.004), won=ratio < 0.98,
    )  # fmt: skip


def forfeit(opponent: Judgement) -> Forfeit:
    submission, verdict = opponent.submission, Verdict.RUN_TIME_ERROR
    return Forfeit(opponent=submission.login, opponent_digest=submission.digest, verdict=verdict, message="It crashed.")


def told(*judgements: Judgement) -> str:
    """The comment on the pull request of the last judgement, with no-break spaces as spaces."""
    last = judgements[-1]
    of_author = [one for one in judgements if one.submission.login == last.submission.login]
    return render(last, BOARD, standings(BOARD, judgements), of_author).replace(NBSP, " ")


def columns(text: str) -> dict[str, list[str]]:
    """The columns of the benchmarks' table, by heading."""
    lines = text.partition("| Benchmark |")[2].partition("\n\n")[0].splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: [row[n] for row in rows] for n, name in enumerate(["Benchmark", *head])}


ADA = accepted("ada", 0.5)


def test_the_comment_on_an_accepted_entry_shows_rank_gap_and_times() -> None:
    text = told(ADA, accepted("bob", 0.6, minute=1))
    assert text.startswith("### 🟢 `vectoradd` on `CPU`: accepted (AC), rank 2 of 2\n")
    assert "**Rank 2 of 2** with 60.00 µs ±0.3 %; 20.0 % behind ada." in text
    assert "| `size: 4096` | 60.00 µs ±0.4 % | +20.0 % | 1.67× |" in text
    assert "| **geometric mean** | 60.00 µs ±0.3 % | +20.0 % |  |" in text
    assert "<details><summary>3 of 3 tests accepted</summary>" in text
    assert "bounds these times; none understates the true time by more than 500.0 ns per call, 0.8 % at worst." in text
    assert "Judged in 21 s, of which 1 s for the build, on `CPU`, `AMD EPYC`, 2 cores." in text


def test_the_comment_on_a_first_entry_shows_first_place() -> None:
    assert "**Rank 1 of 1** with 50.00 µs ±0.3 %; first place." in told(ADA)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([ADA, accepted("bob", 0.501, minute=1)], "0.2 % behind ada, tied with ada."),
        ([ADA, accepted("bob", 5.5, minute=1)], "**Rank 2 of 2** with 550.0 µs ±0.3 %; 11.0× the time of ada."),
        ([ADA, accepted("bob", 0.4, minute=1)], "it looks faster; its duel with ada is due."),
        ([ADA, accepted("bob", 0.49, file="ada", minute=1)], "it is the same file as ada's."),
        ([ADA, ADA], "over 2 judgements of this file; first place."),
        (
            [ADA, accepted("ada", 0.7, file="slower", minute=1)],
            f"Your earlier file `{ADA.submission.digest[:12]}` keeps your row, with 50.00 µs ±0.3 % and rank 1 of 1:",
        ),
        (
            [ADA, accepted("bob", 0.4, duel=duel(ADA, 0.8), minute=1)],
            "Duel with ada**, the leader at that time: speedup 1.25×, ±0.4 %, over 8 interleaved blocks. Won: it takes first place.",
        ),
        (
            [ADA, accepted("bob", 0.499, duel=duel(ADA, 1.02), minute=1)],
            "2.0 % slower, ±0.4 %, over 8 interleaved blocks. Lost: first place needs a gain of at least 1 %",
        ),
        (
            [
                ADA,
                accepted("bob", 0.4, duel=duel(ADA, 0.8), minute=1),
                accepted("cy", 0.3, duel=duel(ADA, 0.6), minute=2),
            ],
            "Won, but bob is first now: the duel with bob decides.",
        ),
        (
            [
                ADA,
                accepted("bob", 0.5, file="slower", duel=duel(ADA, 0.995, blocks=16), minute=1),
                accepted("bob", 0.4, duel=duel(ADA, 0.8), minute=2),
            ],
            "Won, but another duel of yours with ada ended before, undecided: the next one decides.",
        ),
        (
            [ADA, accepted("bob", 0.6, forfeit=forfeit(ADA), minute=1)],
            "Duel with ada**, the leader at that time: by forfeit, as ada's file failed (RTE). Won: it takes first place.",
        ),
        (
            [
                ADA,
                accepted("bob", 0.3, file="faster", duel=duel(accepted("cy", 0.9), 0.5), minute=1),
                accepted("bob", 0.4, duel=duel(ADA, 0.8), minute=2),
            ],
            "Won: your faster file takes first place.",
        ),
        (
            [accepted("ada", 0.5, sandbox=SandboxInfo(kind="none", stop="signals"))],
            "This judgement does not rank: it was judged without a sandbox.",
        ),
        (
            [accepted("ada", 0.5, claim=Claim.SELF_TIMED, sandbox=SandboxInfo(kind="none", stop="signals"))],
            "<sub>Judged without a sandbox: trust these times only if you trust the author.",
        ),
    ],
)
def test_the_comment_explains_a_place_and_a_duel_in_plain_words(entries: list[Judgement], words: str) -> None:
    assert words in told(*entries)


@pytest.mark.parametrize("told_of", [0, 1], ids=["of the lost duel", "of a judging without a duel"])
def test_the_comment_on_a_faster_file_that_was_passed_over_names_its_lost_duel(told_of: int) -> None:
    bobs = [
        accepted("bob", 0.4, file="faster", duel=duel(ADA, 1.05), minute=1),
        accepted("bob", 0.4, file="faster", minute=2),
        accepted("bob", 0.48, file="won", duel=duel(ADA, 0.9), minute=3),
    ]
    read = [Judgement.from_json(one.to_json()) for one in (ADA, *bobs)]
    text = render(read[1 + told_of], BOARD, standings(BOARD, read), read[1:]).replace(NBSP, " ")
    assert f"Your later file `{bobs[2].submission.digest[:12]}` keeps your row" in text
    assert "and rank 1 of 2: this file looks faster, but lost its duel with ada." in text
    assert "does not beat it" not in text


def test_the_comment_on_a_slower_file_that_lost_its_duel_says_that_it_is_slower() -> None:
    won = accepted("bob", 0.48, file="won", duel=duel(ADA, 0.9), minute=1)
    lost = accepted("bob", 0.49, file="lost", duel=duel(ADA, 1.05), minute=2)
    text = told(*(Judgement.from_json(one.to_json()) for one in (ADA, won, lost)))
    assert "this file does not beat it by more than 1 % and the noise." in text


WAITS = (
    "The 95 % interval of this time is ±42.4 %. The judge measures it again when the machine is idle. Until then it "
    "cannot take first place."
)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([ADA, unsteady("bob", 0.3, minute=1)], f"**Rank 2 of 2, provisional** with 30.00 µs ±42.4 %. {WAITS}"),
        ([unsteady("bob", 0.3)], f"**Rank 1 of 1, provisional** with 30.00 µs ±42.4 %. {WAITS}"),
        (
            [ADA, unsteady("bob", 0.3, duel=duel(ADA, 0.6), minute=1)],
            "Won, but a provisional time cannot take first place: the next judging plays the duel again.",
        ),
        (
            [ADA, unsteady("ada", 0.3, file="faster", minute=1)],
            "keeps your row, with 50.00 µs ±0.3 % and rank 1 of 1: the 95 % interval of this file's time is ±42.4 %, too "
            "wide to replace it. `/rerun` measures it again.",
        ),
        (
            [ADA, *[unsteady("bob", 0.3, minute=minute) for minute in range(1, 5)]],
            "Until another judging narrows it to ±10 %, it cannot take first place.",
        ),
    ],
)
def test_the_comment_on_a_provisional_time_says_what_happens_next(entries: list[Judgement], words: str) -> None:
    text = told(*entries)
    assert words in text
    assert "looks faster" not in text and "first place." not in text.replace(words, "").replace("take first place.", "")


def decided(action: Action, reason: str) -> Moderation:
    return Moderation(id="d-1", action=action, judgement="a" * 64, reason=reason, by=1, at=START)


FASTER = accepted("ada", 0.4, file="faster", duel=duel(accepted("bob", 0.45), 0.8), minute=2)


def test_the_comment_on_a_baseline_says_that_the_board_shows_it_without_a_rank() -> None:
    text = told(ADA, accepted("ada", 0.25, file="torch's own", baseline="torch.add", minute=1))
    assert "on `CPU`: accepted (AC), a baseline, not ranked\n" in text
    assert "This is the task's baseline `torch.add`: the board shows its time, 25.00 µs ±0.3 %, without a rank." in text
    assert "keeps your row" not in text and "improve your row" not in text and "Your last" not in text
    later = told(
        ADA,
        accepted("ada", 0.25, file="torch's own", baseline="torch.add", minute=1),
        accepted("ada", 0.6, file="mine", minute=2),
    )
    assert "Your last and best" in later and "25.00" not in later, "compared with the author's own files only"


def test_the_comment_on_a_held_judgement_gives_the_reason_not_slowness() -> None:
    held = decided(Action.HOLD, "it would be first")
    text = render(FASTER, BOARD, standings(BOARD, [ADA]), [ADA], held)
    assert text.startswith("### 🟢 `vectoradd` on `CPU`: accepted (AC), held for review\n")
    assert (
        "**Held for a maintainer's review; it does not rank until then**: `it would be first`. "
        "Your row without it: rank 1 of 1."
    ) in text
    assert "does not beat it" not in text and "it takes first place" not in text
    assert "Won, but this does not rank." in text


def test_the_comment_on_a_newcomers_held_judgement_gives_the_reason() -> None:
    text = render(ADA, BOARD, standings(BOARD, []), [], decided(Action.HOLD, "`it` is <b>fast</b>"))
    assert (
        "does not rank until then**: `` `it` is <b>fast</b> ``." in text and "This judgement does not rank" not in text
    )


def test_the_comment_on_a_disqualified_judgement_says_so() -> None:
    text = render(ADA, BOARD, standings(BOARD, []), [], decided(Action.DISQUALIFY, "Returns an old output."))
    assert "accepted (AC), disqualified\n" in text
    assert "**Disqualified by a maintainer**: `Returns an old output`." in text


# Comparisons of its times.


def test_a_first_attempt_on_an_empty_board_compares_only_with_the_anchor() -> None:
    assert list(columns(told(ADA))) == ["Benchmark", "Time", "Speedup vs anchor"]
    assert "noise" not in told(ADA)


def test_times_are_compared_with_the_authors_last_and_best_and_first_place() -> None:
    best, last = accepted("bob", 0.6, file="best", minute=1), accepted("bob", 0.8, file="last", minute=2)
    found = columns(told(ADA, best, last, accepted("bob", 0.76, minute=3)))
    assert list(found) == ["Benchmark", "Time", "Your last", "Your best", "First place", "Speedup vs anchor"]
    assert found["Your last"] == ["**−5.0 %**"] * 3
    assert found["Your best"] == ["+26.7 %"] * 3
    assert found["First place"] == ["+52.0 %"] * 3


def test_a_new_best_is_compared_with_the_previous_best() -> None:
    best, last = accepted("bob", 0.6, file="best", minute=1), accepted("bob", 0.8, file="last", minute=2)
    found = columns(told(ADA, best, last, accepted("bob", 0.54, minute=3)))
    assert found["Your last"] == ["**−32.5 %**"] * 3
    assert found["Your best"] == ["**−10.0 %**"] * 3


def test_the_table_merges_last_and_best_if_they_are_the_same() -> None:
    found = columns(told(ADA, accepted("bob", 0.6, file="best", minute=1), accepted("bob", 0.3, minute=2)))
    assert list(found)[2:] == ["Your last and best", "First place", "Speedup vs anchor"]
    assert found["Your last and best"] == ["**−50.0 %**"] * 3


def test_a_repeated_file_is_within_the_noise_of_its_last_time() -> None:
    again = ADA.model_copy(update={"finished_at": ADA.finished_at + timedelta(minutes=1)})
    found = columns(told(ADA, again))
    assert list(found)[2:] == ["Your last", "Speedup vs anchor"]
    assert found["Your last"] == ["≈ +0.0 %"] * 3


def test_a_time_on_a_slower_machine_is_compared_through_the_anchor() -> None:
    slow = accepted("bob", 0.6, file="best", minute=1).model_copy(
        update={"cases": (built(), *right_tests_but(), *benchmarks(0.6, 0.6, anchor_us=900.0))}
    )
    found = columns(told(ADA, slow, accepted("bob", 0.54, minute=2)))
    assert found["Your last and best"] == ["**−10.0 %**"] * 3


def test_the_last_time_skips_a_wrong_answer_in_between() -> None:
    wrong = judged("bob", built(), *right_tests_but((128, Verdict.WRONG_ANSWER, "no")), file="wrong", minute=2)
    found = columns(told(ADA, accepted("bob", 0.6, file="best", minute=1), wrong, accepted("bob", 0.54, minute=3)))
    assert found["Your last and best"] == ["**−10.0 %**"] * 3


@pytest.mark.parametrize(
    "earlier",
    [
        accepted("bob", 0.6, file="old", edition="1" * 64),
        accepted("bob", 0.6, file="later", minute=9),
        accepted("bob", 0.6, file="open", sandbox=SandboxInfo(kind="none", stop="signals")),
        accepted("bob", 0.6, file="tried", mode=Mode.BENCHMARK),
    ],
    ids=["of another edition", "judged later", "without walls", "not ranked"],
)
def test_the_table_ignores_judgements_that_do_not_count(earlier: Judgement) -> None:
    now = accepted("bob", 0.7, minute=1)
    text = render(now, BOARD, standings(BOARD, [ADA, now]), [earlier, now])
    assert "Your" not in text.split("**Next:**")[0] and "First place" in text


def test_an_unofficial_time_is_compared_with_the_ranked_ones() -> None:
    ranked = accepted("bob", 0.6, file="best", minute=1)
    tried = accepted("bob", 0.54, mode=Mode.BENCHMARK, minute=2)
    text = render(tried, BOARD, standings(BOARD, [ADA, ranked]), [ranked]).replace(NBSP, " ")
    assert columns(text)["Your last and best"] == ["**−10.0 %**"] * 3
    assert columns(text)["First place"] == ["+8.0 %"] * 3


def test_the_comment_on_a_wrong_answer_names_the_test_and_next_step() -> None:
    message = "output[3, 17] is 1.0312, expected 1.0000 (allowed 0.0011); 48 of 65536 differ"
    text = told(ADA, judged("bob", built(), *right_tests_but((128, Verdict.WRONG_ANSWER, message)), minute=1))
    assert text.startswith("### 🔴 `vectoradd` on `CPU`: wrong answer (WA)\n")
    assert f"| `size: 128` | WA `{message}` |" in text
    assert text.count(message) == 1
    accepted = text.partition("<details><summary>2 of 3 tests accepted</summary>")[2]
    assert "| `size: 127` | AC |" in accepted and "`size: 128`" not in accepted
    assert f"**Next:** {Verdict.WRONG_ANSWER.help}" in text
    assert "Rank" not in text and "rank 1" not in text


def test_a_trace_appears_whole_above_the_table_and_not_in_its_rows() -> None:
    message = 'line 10: RuntimeError: no\n\n  File "/entry/submission.py", line 10, in custom_kernel\n    raise'
    text = told(judged("bob", built(), *right_tests_but((128, Verdict.RUN_TIME_ERROR, message))))
    assert f"```text\n{message}\n```" in text
    assert "| `size: 128` | RTE `line 10: RuntimeError: no` |" in text


def test_the_comment_folds_nothing_if_no_test_is_accepted() -> None:
    text = told(
        judged("bob", built(), *right_tests_but(*((size, Verdict.WRONG_ANSWER, "") for size in (127, 128, 512))))
    )
    assert "0 of 3 tests accepted." in text and "<details>" not in text


def test_the_comment_on_a_failed_build_has_no_empty_tables() -> None:
    text = told(judged("bob", built(Verdict.COMPILE_ERROR, "line 3: invalid syntax")))
    assert "compile error (CE)" in text and "line 3: invalid syntax" in text
    assert "|" not in text


@pytest.mark.parametrize(
    ("message", "places"),
    [
        ("line 3: invalid syntax", [("submissions/vectoradd/bob/submission.py", 3)]),
        ("submission.cu:5: 'z' was not declared", [("submissions/vectoradd/bob/submission.cu", 5)]),
        ("submission.cu:500: forged, the file has 9 lines", []),
        ("task.h:3: not the participant's", []),
    ],
)
def test_a_remark_marks_the_line_that_a_message_names(message: str, places: list[tuple[str, int]]) -> None:
    request = cast(Request, SimpleNamespace(task="vectoradd", login="bob"))
    found = remarks(judged("bob", built(Verdict.COMPILE_ERROR, message)), request)
    assert [(one.path, one.line) for one in found] == places


def test_a_remark_mentions_no_user_and_contains_no_code_fence() -> None:
    request = cast(Request, SimpleNamespace(task="vectoradd", login="bob"))
    (found,) = remarks(judged("bob", built(Verdict.COMPILE_ERROR, "line 3: ```@everyone```")), request)
    assert found.message == "line 3: '''@\u200beveryone'''"


def test_a_failed_benchmark_stays_in_the_table_and_others_keep_their_case() -> None:
    failed = CaseResult(
        kind=CaseKind.BENCHMARK,
        params={"size": 1024},
        verdict=Verdict.TIME_LIMIT_EXCEEDED,
        message="30 s",
        seconds=30.0,
    )
    text = told(ADA, judged("bob", built(), *right_tests_but(), failed, benchmarks(1, 0.55)[1], minute=1))
    assert "| `size: 1024` | TLE |  | `30 s` |" in text
    assert "| `size: 4096` | 55.00 µs ±0.4 % | +10.0 % | 1.82× |" in text
    assert "mean" not in text


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK])
def test_the_comment_on_a_trial_says_so_and_names_the_next_step(mode: Mode) -> None:
    text = render(accepted("bob", 0.4, mode=mode), BOARD, standings(BOARD, [ADA]))
    assert f"accepted (AC), {mode} only\n" in text
    assert "ready for review is ranked" in text
    assert "Rank" not in text


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK, Mode.RANKED])
def test_the_comment_on_a_closed_tasks_file_does_not_promise_a_rank(mode: Mode) -> None:
    task = replace(BOARD.task, deadline=START)
    board = cast(Board, SimpleNamespace(**vars(BOARD) | {"task": task}))
    text = render(accepted("bob", 0.4, mode=mode), board, standings(board, [ADA]))
    assert "ready for review" not in text and "faster file" not in text
    assert ("**Next:** " in text) is (mode is not Mode.RANKED)


def test_a_judging_error_is_reported_as_our_own_fault() -> None:
    text = told(judged("bob", built(Verdict.JUDGING_ERROR, "the anchor did not build")))
    assert Verdict.JUDGING_ERROR.help in text
    assert "pullrank test" not in text


def test_a_comment_without_standings_lacks_rank_and_comparisons() -> None:
    text = render(accepted("bob", 0.4), BOARD).replace(NBSP, " ")
    assert "rank" not in text.splitlines()[0]
    assert "| `size: 1024` | 40.00 µs ±0.4 % | 2.50× |" in text
    assert "noise" not in text


def test_a_judgement_of_an_earlier_edition_is_compared_with_nothing() -> None:
    old = accepted("bob", 0.4, edition="1" * 64)
    assert render(old, BOARD, standings(BOARD, [ADA, old])) == render(old, BOARD)


@pytest.mark.parametrize(
    ("claim", "words"), [(Claim.INSIDE_TIMED, "only loosely bounded"), (Claim.SELF_TIMED, "no bound")]
)
def test_the_comment_states_a_weaker_claim_and_no_bound(claim: Claim, words: str) -> None:
    text = told(accepted("ada", 0.5, claim=claim))
    assert words in text and "understates" not in text


def test_the_comment_marks_times_that_are_not_steady() -> None:
    cases = benchmarks(0.5, 0.5, steady=False, note="Not steady: the interval is still ±3 %.")
    assert (
        told(judged("ada", built(), *right_tests_but(), *cases)).count("`Not steady: the interval is still ±3 %.`") == 1
    )


def test_a_long_list_of_tests_starts_with_wrong_ones_and_omits_some() -> None:
    right = CaseResult(kind=CaseKind.TEST, params={"size": 1}, verdict=AC, seconds=1.0)
    wrong = right.model_copy(update={"verdict": Verdict.WRONG_ANSWER, "message": "all of it", "params": {"size": 9}})
    text = told(judged("ada", built(), *[right] * 100, wrong))
    assert text.count("AC |") == 40 and "| `size: 9` | WA `all of it` |" in text
    assert text.index("WA `all of it`") < text.index("AC |")
    assert "60 more are not shown." in text


def test_a_long_list_of_benchmarks_omits_some_but_not_their_mean() -> None:
    sizes = range(1, 43)
    board = SimpleNamespace(**(vars(BOARD) | {"benchmarks": tuple(SimpleNamespace(params={"size": n}) for n in sizes)}))
    cases = (
        CaseResult(kind=CaseKind.BENCHMARK, params={"size": n}, verdict=AC, seconds=1.0, timing=timing(0.5))
        for n in sizes
    )
    judgement = judged("ada", built(), *right_tests_but(), *cases)
    text = render(judgement, cast(Board, board), standings(cast(Board, board), [judgement])).replace(NBSP, " ")
    assert len(columns(text)["Time"]) == 41 and columns(text)["Time"][-1].startswith("50.00 µs")
    assert "| **geometric mean** |" in text and "2 more are not shown." in text


def hostile() -> Judgement:
    """A judgement whose free texts are all hostile and as long as allowed."""
    text = (HOSTILE * 60)[:20_000]
    line = HOSTILE[:500]
    wrong = Verdict.WRONG_ANSWER
    failures = [
        CaseResult(kind=kind, params={"size": line}, verdict=wrong, message=text, seconds=1.0)
        for kind in (CaseKind.TEST, CaseKind.BENCHMARK)
        for _ in range(100)
    ]
    unsteady = [
        CaseResult(
            kind=CaseKind.BENCHMARK,
            params={},
            verdict=AC,
            seconds=1.0,
            timing=timing(0.5, steady=False, note=f"{n}{line[9:]}"),
        )
        for n in range(20)
    ]
    facts = dict.fromkeys(("device", "cpu", "os", "python", "torch", "driver", "note"), line)
    return judged(
        "mallory", built(), *unsteady, *failures, message=text, verdict=wrong, log=text, run_url=line,
        machine=Machine(cores=1, memory_gib=1.0, quiet=False, **facts),
        submission=SubmissionInfo(login="mallory", digest="d" * 64, lines=1, language=line),
    )  # fmt: skip


def test_hostile_words_stay_inside_code() -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(render(hostile(), BOARD))
    flat = [child for token in tokens for child in (token.children or [token])]
    assert not [token for token in flat if token.type in ("image", "link_open")]
    html = "".join(token.content for token in flat if token.type.startswith("html"))
    assert set(re.findall(r"</?\w+", html)) == {"<sub", "</sub", "<details", "</details", "<summary", "</summary"}
    prose = " ".join(token.content for token in flat if token.type == "text")
    assert not re.search(r"@|#|evil|<|::", prose)
    headings = [token for token in tokens if token.type == "heading_open"]
    assert len(headings) == 1


def test_hostile_words_cannot_hide_or_move_others() -> None:
    assert not re.search(
        r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\u3164]", render(hostile(), BOARD)
    )


def test_the_longest_report_fits_into_a_comment() -> None:
    assert len(render(hostile(), BOARD)) < 65_536


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "https://github.com/cup/cup/actions/runs/7",
            "[log (kept 90 days)](https://github.com/cup/cup/actions/runs/7)",
        ),
        ("javascript:alert(1)", "`javascript:alert(1)`"),
        ("https://x.example/a)[b](c", "`https://x.example/a)[b](c`"),
    ],
)
def test_only_a_harmless_address_becomes_a_link(url: str, expected: str) -> None:
    assert expected in render(accepted("ada", 0.5, run_url=url), BOARD)


def test_a_judgement_read_from_json_gives_the_same_comment() -> None:
    table = standings(BOARD, [ADA])
    assert render(ADA, BOARD, table) == render(Judgement.from_json(ADA.to_json()), BOARD, table)
