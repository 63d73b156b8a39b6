"""Boards where a task's own program measures the times: ranked among themselves, without anchor or duel, marked."""

import hashlib
import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.times import Run, Timing, ToldRun, ToldTiming, told_time
from harness.records.verdict import Verdict
from harness.task.bundle import read_bundle
from harness.task.task import Board, Evaluator, Work, load_task
from harness.task.toolchain import Toolchain
from scripts.announce.board_news import results_of
from scripts.announce.news import NewsKind
from scripts.boards.board_facts import facts_of
from scripts.boards.judgement_tables import show
from scripts.boards.tables import standings_table
from scripts.bot.comment.judgement_section import render
from scripts.bot.evaluate.packing import pack
from scripts.bot.reconcile.judged_again import find_due_rows
from scripts.bot.report.artifact import why_below_the_floor
from scripts.cli import run
from scripts.common.terminal import console
from scripts.competition.settings import Gpu
from scripts.ledger.ledger import Ledger
from scripts.ledger.request import Request, make_id
from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from scripts.standings.standings import Standings, standings

SET = Path(__file__).parent / "kernelbot" / "own.yaml"
START = datetime(2026, 11, 2, tzinfo=UTC)
SPREAD = (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)
AC = Verdict.ACCEPTED


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    out = tmp_path_factory.mktemp("tasks")
    assert run(["task", "import", str(SET), "--out", str(out)]) == 0
    return load_task(out / "rowsum").board("CPU")


def told_run(mean_us: float, order: int = 0, **rest: Any) -> ToldRun:
    fields: dict[str, Any] = {"calls": 20, "std_us": mean_us / 50, "err_us": mean_us / 200, "seed": 7}
    fields |= {"best_us": mean_us * 0.9, "worst_us": mean_us * 1.3}
    return ToldRun(order=order, mean_us=mean_us, **(fields | rest))


def told(mean_us: float, processes: int = 6) -> ToldTiming:
    runs = [told_run(mean_us * (1 + 0.001 * share), order) for order, share in enumerate(SPREAD[:processes])]
    return ToldTiming.of(tuple(runs), "" if processes == 6 else f"{processes} of 6 processes fit into the time")


def judged(board: Board, login: str, *times_us: float, minute: int = 0, file: str = "", **rest: Any) -> Judgement:
    cases = [CaseResult(kind=CaseKind.BUILD, params={}, verdict=AC, seconds=1.0)]
    cases += [
        CaseResult(kind=CaseKind.TEST, params=dict(case.params), verdict=AC, seconds=1.0, seed=3)
        for case in board.tests
    ]
    cases += [
        CaseResult(kind=CaseKind.BENCHMARK, params=dict(case.params), verdict=AC, seconds=1.0, told=told(time_us))
        for case, time_us in zip(board.benchmarks, times_us, strict=True)
    ]
    at = START + timedelta(minutes=minute)
    fields: dict[str, Any] = {
        "task": board.task.name, "edition": board.edition, "gpu": board.gpu, "mode": Mode.RANKED,
        "submission": SubmissionInfo(login=login, digest=hashlib.sha256((file or login).encode()).hexdigest(), lines=9),
        "verdict": AC, "message": "", "cases": tuple(cases), "claim": Claim.SELF_TIMED,
        "machine": Machine(
            device="CPU", cpu="AMD EPYC", cores=2, memory_gib=8.0, os="Linux", python="3.11", torch="2.13", quiet=True
        ),
        "sandbox": SandboxInfo(kind="bubblewrap", stop="signals"),
        "harness": HarnessInfo(version="0.1.0", method=1, digest="0" * 64),
        "started_at": at, "finished_at": at + timedelta(seconds=9),
    }  # fmt: skip
    return Judgement(**(fields | rest))


def places(table: Standings) -> list[tuple[int, str]]:
    return [(row.band, row.login) for row in table.rows]


# The judgement.


def test_a_self_timed_judgement_survives_json_and_cannot_claim_more(board):
    judgement = judged(board, "ada", 100.0, 200.0)
    again = Judgement.from_json(judgement.to_json())
    assert again.benchmarks == judgement.benchmarks
    assert again.benchmarks[0].time_us == pytest.approx(100.0)
    for claim in (Claim.BOUNDED, Claim.INSIDE_TIMED):
        with pytest.raises(ValidationError, match="can only claim self-timed"):
            judged(board, "ada", 100.0, 200.0, claim=claim)


def test_six_processes_give_an_interval_and_fewer_use_their_own_error():
    many, one = told(100.0), told(100.0, processes=1)
    assert (many.time_us.low, many.time_us.high) == (pytest.approx(99.9), pytest.approx(100.1))
    assert (one.time_us.low, one.time_us.high) == (pytest.approx(98.921, abs=0.01), pytest.approx(100.879, abs=0.01))
    # No time is below its best call, however large its error.
    wild = told_run(100.0, err_us=1e6)
    assert told_time([wild]).low == pytest.approx(90.0)


@pytest.mark.parametrize(
    "changes", [{"best_us": 101.0}, {"worst_us": 99.0}, {"calls": 0}, {"std_us": -1.0}, {"mean_us": float("nan")}]
)
def test_a_run_that_contradicts_itself_is_refused(changes):
    with pytest.raises(ValidationError):
        told_run(100.0, **changes) if "mean_us" not in changes else told_run(changes["mean_us"])


def test_a_time_that_does_not_follow_from_its_runs_is_refused():
    with pytest.raises(ValidationError, match="does not match"):
        ToldTiming(runs=told(100.0).runs, time_us=told(50.0).time_us)


def test_a_benchmark_has_one_kind_of_time(board):
    call = Run(order=0, warmups_us=(), samples_us=(5.0,), seeds=(1,))
    timing = Timing.of((call,) * 6, (call,) * 6, overhead_us=1.0, bound_us=1.0, steady=True, note="")
    with pytest.raises(ValidationError, match="from the referee or from the task"):
        CaseResult(kind=CaseKind.BENCHMARK, params={}, verdict=AC, seconds=1.0, timing=timing, told=told(5.0))


# Standings.


def test_a_faster_entry_beyond_a_tie_takes_first_place_without_a_duel(board):
    judgements = [
        judged(board, "ada", 100.0, 200.0),
        judged(board, "bob", 99.7, 199.8, minute=1),
        judged(board, "cleo", 50.0, 100.0, minute=2),
        judged(board, "dan", 80.0, 160.0, minute=3),
    ]
    table = standings(board, judgements)
    assert places(table) == [(1, "cleo"), (2, "dan"), (3, "ada"), (3, "bob")]
    assert [row.note for row in table.rows] == [""] * 4
    assert [(record.login, record.gain) for record in table.records] == [("ada", None), ("cleo", pytest.approx(0.5))]
    assert {row.claim for row in table.rows} == {Claim.SELF_TIMED}
    assert table.nominal_us == ()


def test_an_uncertain_time_does_not_keep_a_faster_one_from_first_place(board):
    unsure = judged(board, "wide", 46.0, 46.0, minute=1)
    wide = ToldTiming.of((told_run(46.0, best_us=38.0, worst_us=55.0, err_us=3.0),))
    cases = tuple(case.model_copy(update={"told": wide}) if case.told else case for case in unsure.cases)
    ada, cy = judged(board, "ada", 50.0, 50.0), judged(board, "cy", 45.0, 45.0, minute=2)
    table = standings(board, [ada, unsure.model_copy(update={"cases": cases}), cy])
    assert places(table) == [(1, "cy"), (2, "ada"), (2, "wide")]
    assert not any(row.unproven for row in table.rows)


def test_pooled_judgements_of_one_file_can_change_first_place(board):
    lucky = judged(board, "ada", 90.0, 180.0)
    second = judged(board, "bob", 100.0, 200.0, minute=1)
    pooled = [judged(board, "ada", 130.0, 260.0, minute=minute) for minute in (2, 3, 4)]
    assert places(standings(board, [lucky, second])) == [(1, "ada"), (2, "bob")]
    assert places(standings(board, [lucky, second, *pooled])) == [(1, "bob"), (2, "ada")]


def test_a_wide_interval_does_not_keep_a_faster_file_from_first_place(board):
    wide = [judged(board, "ada", time, time, minute=minute) for minute, time in enumerate((100.0, 40.0, 250.0))]
    table = standings(board, [*wide, judged(board, "bob", 80.0, 80.0, minute=3)])
    assert places(table) == [(1, "bob"), (2, "ada")] and table.rows[1].score_us.low < 80


def test_first_place_that_goes_back_is_a_record_of_the_judgement_that_decided_it(board):
    us = [("ada", 100.0), ("bob", 90.0), ("cy", 80.0), *[("cy", 150.0)] * 3]
    made = [judged(board, login, time, time, minute=minute) for minute, (login, time) in enumerate(us)]
    judgements = [Judgement.from_json(one.to_json()) for one in made]
    records = standings(board, judgements).records
    assert [(one.login, one.at) for one in records] == [
        *((login, judgements[minute].finished_at) for minute, (login, _) in enumerate(us[:3])),
        ("bob", judgements[3].finished_at),
    ]
    assert records[3].judgement is judgements[1]
    news = [item for item in results_of(board, judgements, {}, {}) if item.kind is NewsKind.RECORD]
    assert [(item.who.login, item.over, item.at) for item in news] == [
        (one.login, former.login, one.at) for former, one in itertools.pairwise(records)
    ]


def test_a_provisional_time_does_not_take_first_place(board):
    eve = judged(board, "eve", 40.0, 40.0, minute=1)
    wide = ToldTiming.of((told_run(40.0, best_us=30.0, worst_us=55.0, err_us=8.0),))
    cases = tuple(case.model_copy(update={"told": wide}) if case.told else case for case in eve.cases)
    table = standings(board, [judged(board, "ada", 50.0, 50.0), eve.model_copy(update={"cases": cases})])
    assert places(table) == [(1, "ada"), (2, "eve")] and table.rows[1].provisional


def test_the_comment_on_a_tied_row_that_looks_faster_says_why_it_is_not_first(board):
    unsure = judged(board, "ada", 50.0, 50.0)
    wide = ToldTiming.of((told_run(50.0, best_us=45.0, worst_us=55.0, err_us=2.0),))
    ada = unsure.model_copy(
        update={"cases": tuple(one.model_copy(update={"told": wide}) if one.told else one for one in unsure.cases)}
    )
    words = {49.0: "it looks 2.0 % faster than ada, but is tied: first place changes only by more than the noise."}
    words |= {50.0: "0.0 % behind ada, tied with ada.", 49.99: "0.0 % behind ada, tied with ada."}
    for us, said in words.items():
        bob = judged(board, "bob", us, us, minute=1)
        assert f"; {said}" in render(bob, board, standings(board, [ada, bob])).replace("\u00a0", " ")


def test_a_self_timed_board_never_has_a_due_duel(board):
    table = standings(board, [judged(board, "ada", 100.0, 200.0), judged(board, "bob", 99.9, 199.9, minute=1)])
    assert places(table) == [(1, "ada"), (1, "bob")]
    assert not list(find_due_rows([table]))


def test_a_self_timed_judgement_does_not_rank_on_a_refereed_board(board):
    forged = judged(board, "mallory", 0.001, 0.001)
    refereed = replace(board.task, evaluator=Evaluator.REFEREE).board("CPU")
    moved = forged.model_copy(update={"edition": refereed.edition})
    table = standings(refereed, [moved])
    assert (table.rows, table.unranked) == ((), 1)


def test_a_self_timed_time_below_the_hardwares_floor_is_detected(board):
    work = Work(bytes="10**9", flops=None)
    heavy = replace(board.task, work=work).board("CPU")
    gpu = Gpu(runs_on="ubuntu-latest", bandwidth_gbs=100.0)
    assert "below the hardware's floor of 10000.0" in why_below_the_floor(judged(heavy, "ada", 5.0, 5.0), heavy, gpu)


# Display.


def test_the_comment_and_terminal_mark_self_timed_and_mention_no_anchor(board, capsys):
    judgements = [judged(board, "ada", 100.0, 200.0), judged(board, "bob", 150.0, 300.0, minute=1)]
    text = render(judgements[-1], board, standings(board, judgements))
    assert "| Benchmark | Time, self-timed | First place | Best call |" in text
    assert "| 150.0 µs ±0.1 % | +50.0 % | 134.9 µs |" in text.replace("\u00a0", " ")
    assert "could forge verdict and times" in text
    assert "nchor" not in text and "bounds these times" not in text
    show(judgements[0], console())
    console().print(standings_table(facts_of(standings(board, judgements))))
    said = " ".join(capsys.readouterr().out.split())
    assert "Benchmarks, self-timed" in said and "could forge verdict and times" in said
    assert "self-timed, so not verified: ada, bob" in said


def test_the_comment_on_a_failed_judging_also_warns_about_forgery(board):
    build = CaseResult(kind=CaseKind.BUILD, params={}, verdict=Verdict.COMPILE_ERROR, message="no", seconds=1.0)
    failed = judged(board, "ada", 1.0, 1.0).model_copy(
        update={"cases": (build,), "verdict": Verdict.COMPILE_ERROR, "message": "no"}
    )
    assert "could forge verdict and times" in render(failed, board)


def test_the_site_marks_each_row_and_page_as_self_timed(board, tmp_path):
    ledger = Ledger(tmp_path / "ledger")
    for number, login in enumerate(("ada", "bob")):
        ledger.append(judged(board, login, 100.0 + number * 50, 200.0, minute=number), f"r{number}")
    report = build_site(
        [board.task], ledger, tmp_path / "_site", Site(title="Cup", now=datetime.now(UTC), sources=lambda _: "x = 1\n")
    )
    assert not report.faults
    landing = (tmp_path / "_site" / "index.html").read_text()
    assert (
        landing.count('<span class="tag">self-timed</span>') == 1
        and "nothing outside that process bounds it" in landing
    )
    assert '<span class="tag">self-timed</span>' in (tmp_path / "_site" / "authors" / "ada" / "index.html").read_text()
    machines = (tmp_path / "_site" / "machines" / "index.html").read_text()
    assert "Software: " in machines and "Pace" not in machines.partition("<dl")[2].partition("</dl>")[0]
    assert '<svg class="timeline"' not in machines
    (machine,) = json.loads((tmp_path / "_site" / "machines" / "machines.json").read_text())["machines"]
    assert machine["judgings"] == 2 and machine["software"]
    assert [machine[name] for name in ("pace", "spread", "drift", "slow")] == [None] * 4
    page = (tmp_path / "_site" / "rowsum" / "CPU" / "index.html").read_text()
    assert page.count('<span class="tag">self-timed</span>') == 2
    assert page.count("could forge verdict and times") == 1
    (entry,) = (tmp_path / "_site" / "rowsum" / "CPU" / "ada").glob("*/index.html")
    shown = entry.read_text()
    assert '<span class="tag">self-timed</span>' in shown and "Speed-up" not in shown and "All samples" not in shown
    assert "There is no anchor to compare with" in shown
    facts = json.loads((tmp_path / "_site" / "rowsum" / "CPU" / "board.json").read_text())
    assert [(row["claim"], row["cases"][0]["ratio"]) for row in facts["rows"]] == [("self-timed", None)] * 2


# The bundle for the judge's machine.


def test_a_bundle_carries_the_program_and_its_headers(board):
    task = load_task(board.task.folder.parent / "rowsum_cu")
    source = task.examples[0].path.read_bytes()
    request = Request(
        id=make_id(1, "a" * 40, "CPU", Mode.RANKED, 1), user_id=1, login="ada", pull_request=1, head_sha="a" * 40, blob_sha="b" * 40, task=task.name, gpu="CPU",
        mode=Mode.RANKED, digest=hashlib.sha256(source).hexdigest(), asked_at=START, asked_by=1, reason="opened",
    )  # fmt: skip
    with read_bundle(pack(request.to_json().encode(), task, source, None, b"PK", Toolchain())).open_board() as unpacked:
        assert unpacked.task.files.keys() == {"eval.cu", "task.h"}
        assert unpacked.edition == task.board("CPU").edition
