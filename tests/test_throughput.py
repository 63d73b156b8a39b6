"""Throughput: what each shipped task counts, units and words, and where it appears."""

import json
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.reference.checker import tensors
from harness.task.task import Case, Task, Work, load_task, load_tasks
from scripts.boards.judgement_tables import show
from scripts.bot.comment.check_report import facts_as_text
from scripts.bot.comment.judgement_section import render
from scripts.bot.comment.markdown import NBSP
from scripts.cli import run
from scripts.commands.judge_file import roofline_here
from scripts.competition.settings import Gpu
from scripts.standings.roofline import NO_ROOFLINE, Roofline
from tests.competition import Scene, of_its_board, two_boards
from tests.test_profile import made, operation
from tests.test_report import BOARD, accepted, benchmarks, built, columns, judged, right_tests_but
from tests.test_request import request

TESTS = Path(__file__).parent
TINY = TESTS / "tasks" / "tiny"
SHIPPED = {task.name: task for task in load_tasks(TESTS.parent / "tasks")}
H100 = Gpu(runs_on="h100").with_vendor_figures("H100")
WORK = Work(bytes="4000 * size", flops="5000 * size", dtype="float32")
COUNTED = Roofline(work=WORK)
LIMITED = Roofline(work=WORK, gpu=Gpu(runs_on="h100", bandwidth_gbs=100, tflops={"float32": 67}))


# The tasks.


@pytest.mark.parametrize("task", SHIPPED.values(), ids=SHIPPED)
def test_a_shipped_task_has_a_throughput_in_every_benchmark_of_every_board(task: Task) -> None:
    for board in task.boards:
        for case in board.benchmarks:
            found = Roofline(work=task.work, gpu=H100).throughput(case.params, 1000.0)
            assert found and found.bandwidth_gbs and found.limit, (board.gpu, case.name)


DRAWS_LENGTHS = {"mladecode", "pagedattention"}


def unread_bytes(task: str, case: Case, data: Any) -> float:
    """What one call of a kernel need not read or write.

    One half of a symmetric matrix, weights of idle experts, unused slots, what belongs to other ranks and other calls,
    the first sixteenth of the words in a third of the rows.
    """
    size = case.params
    match task:
        case "allreduce":
            of_all_calls = size["calls"] * (size["world_size"] + 1)
            return 2 * size["tokens"] * size["hidden"] * (of_all_calls - 2)
        case "cholesky":
            return 2 * size["batch"] * size["n"] * (size["n"] - 1)
        case "crossentropy":
            return 2 * size["tokens"] * size["vocab"] / 48
        case "topksampling":
            return size["bits"] / 8 * size["batch"] * size["vocab"] / 48
        case "groupedgemm":
            return 2 * size["idle"] * size["k"] * size["n"]
        case "pagedattention":
            _, keys, _, table, lengths = data
            token = 2 * 2 * size["kv_heads"] * size["dim"]
            slots = keys.shape[0] * keys.shape[1]
            return token * (slots - int(lengths.sum())) + 4 * (table.numel() + lengths.numel())
        case "mladecode":
            _, cache, starts, lengths, *_ = data
            unused = cache.shape[0] - int(lengths.sum())
            return 2 * cache.shape[1] * unused + 4 * (starts.numel() + lengths.numel())
        case _:
            return 0


@pytest.mark.parametrize("task", SHIPPED.values(), ids=SHIPPED)
def test_a_shipped_task_moves_the_bytes_of_its_inputs_and_outputs(task: Task) -> None:
    from harness.reference.reference import Reference

    board = task.board("CPU")
    case = next(case for case in board.tests[1:] if not case.params.get("ignored"))
    reference = Reference(board)
    data = reference.generate(case.params, 1)
    moved = sum(one.numel() * one.element_size() for one in tensors((data, reference.compute(data))))
    found = Roofline(work=task.work).throughput(case.params, 1000.0)
    assert found and found.bandwidth_gbs
    least = (moved - unread_bytes(task.name, case, data)) / 1e6
    if task.name in DRAWS_LENGTHS:  # `work` counts the fewest tokens that any seed draws
        assert 0.9 * least < found.bandwidth_gbs <= least
    else:
        assert found.bandwidth_gbs == pytest.approx(least)


def test_cross_entropy_does_not_count_the_rows_that_nobody_has_to_read() -> None:
    crossentropy = Roofline(work=SHIPPED["crossentropy"].work)
    all_rows, none = (crossentropy.throughput({"tokens": 10, "vocab": 100, "ignored": n}, 1e-3) for n in (0.0, 1.0))
    assert all_rows and none
    share = 47 / 48  # a third of the rows forbids the first sixteenth of the words
    assert (all_rows.bandwidth_gbs, none.bandwidth_gbs) == (pytest.approx(2000 * share + 120), pytest.approx(120))
    assert (all_rows.tflops, none.tflops) == (pytest.approx(4 * share), None)


# Words and units.


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (Work(bytes="412 * 10**6"), "1.000 ms · 412 GB/s · 12 % of the limit"),
        (Work(bytes="3 * 10**9"), "1.000 ms · 3,000 GB/s · 90 % of the limit"),
        (Work(bytes="31415"), "1.000 ms · 0.0314 GB/s · 0.0 % of the limit"),
        (Work(flops="600 * 10**9", dtype="bfloat16"), "1.000 ms · 600 TFLOP/s · 61 % of the limit"),
        (Work(flops="10**9 - 1"), "1.000 ms · 1,000 GFLOP/s · 1.5 % of the limit"),
        (Work(bytes="size", flops="10**12", dtype="int8"), "1.000 ms · 1e-06 GB/s · 1,000 TOP/s · 51 % of the limit"),
        (Work(flops="10**9", dtype="int32"), "1.000 ms · 1 TOP/s"),
        (Work(bytes="0 * size", flops=None), "1.000 ms"),
    ],
)
def test_a_time_has_its_rates_and_its_share_of_the_limit(work: Work, expected: str) -> None:
    assert Roofline(work=work, gpu=H100).line({"size": 1}, 1000.0) == expected


def test_the_limit_is_shown_only_where_a_peak_is_known() -> None:
    assert COUNTED.line({"size": 1000}, 100.0) == "100.0 µs · 40 GB/s · 50 GFLOP/s"
    assert LIMITED.line({"size": 1000}, 100.0) == "100.0 µs · 40 GB/s · 50 GFLOP/s · 40 % of the limit"
    without_peaks = Roofline(work=WORK, gpu=Gpu(runs_on="h100"))
    assert without_peaks.line({"size": 1000}, 100.0) == "100.0 µs · 40 GB/s · 50 GFLOP/s"
    assert NO_ROOFLINE.line({"size": 1000}, 100.0) == "100.0 µs"


@pytest.mark.parametrize("bad", ["1 / (size - 1)", "size % 0", "rows", "name", "-size", "10.0 ** 308 * size"])
@pytest.mark.parametrize("key", ["bytes", "flops"])
def test_a_formula_without_a_value_leaves_the_throughput_out(bad: str, key: str) -> None:
    roofline = Roofline(work=Work.model_validate({key: bad}), gpu=H100)
    assert roofline.line({"size": 1, "name": "fast"}, 1e-6) == "0.001 ns"


# The comment and the check run.


def comment(judgement: Judgement, roofline: Roofline) -> str:
    return render(judgement, BOARD, roofline=roofline).replace(NBSP, " ")


def test_the_comment_shows_the_throughput_of_each_benchmark() -> None:
    found = columns(comment(accepted("ada", 0.5), LIMITED))
    assert list(found) == ["Benchmark", "Time", "Speedup vs anchor"]
    assert found["Time"] == [
        "50.00 µs ±0.4 %<br><sub>81.9 GB/s · 102 GFLOP/s · 82 % of the limit</sub>",
        "50.00 µs ±0.4 %<br><sub>328 GB/s · 410 GFLOP/s · 328 % of the limit</sub>",
        "50.00 µs ±0.3 %",
    ]
    assert found["Speedup vs anchor"] == ["2.00×", "2.00×", ""]
    assert "<sub>81.9 GB/s · 102 GFLOP/s</sub>" in comment(accepted("ada", 0.5), COUNTED)
    assert columns(comment(accepted("ada", 0.5), NO_ROOFLINE))["Time"][0] == "50.00 µs ±0.4 %"


def test_a_failed_benchmark_has_no_throughput_and_keeps_its_message() -> None:
    fails = benchmarks(0.5, 0.5)[0].model_copy(
        update={"verdict": Verdict.TIME_LIMIT_EXCEEDED, "message": "30 s", "timing": None}
    )
    text = comment(judged("ada", built(), *right_tests_but(), fails, benchmarks(0.5, 0.5)[1]), COUNTED)
    assert "| `size: 1024` | TLE | `30 s` |" in text
    assert "| `size: 4096` | 50.00 µs ±0.4 %<br><sub>328 GB/s · 410 GFLOP/s</sub> | 2.00× |" in text


def test_a_narrow_screen_breaks_rates_only_after_a_dot() -> None:
    assert f"81.9{NBSP}GB/s{NBSP}· 102{NBSP}GFLOP/s<" in render(accepted("ada", 0.5), BOARD, roofline=COUNTED)


def test_the_comment_and_the_terminal_show_the_throughput_of_a_profiled_call() -> None:
    profile = made(operation("aten::add", 900.0))
    assert "`size: 1024`, one call of 1.000 ms · 4.1 GB/s · 5.12 GFLOP/s · 4.1 % of the limit:" in comment(
        profile, LIMITED
    )
    assert "size: 1024: 1.000 ms · 4.1 GB/s · 5.12 GFLOP/s · 4.1 % of the limit\n" in printed(profile, LIMITED)


def test_the_json_of_a_check_run_has_the_throughput_of_each_timed_case() -> None:
    def cases(judgement: Judgement, roofline: Roofline) -> list[object]:
        text = facts_as_text(judgement, request(), roofline=roofline)
        facts = json.loads(text.removeprefix("```json\n").removesuffix("```\n"))
        return [case["throughput"] for case in facts["cases"] if "throughput" in case]

    first, _ = cases(accepted("ada", 0.5), LIMITED)
    assert first == {
        "bandwidth_gbs": pytest.approx(81.92), "tflops": pytest.approx(0.1024), "dtype": "float32",
        "limit": pytest.approx(0.8192),
    }  # fmt: skip
    assert len(cases(made(operation("aten::add", 900.0)), COUNTED)) == 1
    assert cases(accepted("ada", 0.5), NO_ROOFLINE) == []


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def test_the_bot_knows_the_peaks_of_the_settings(scene: Scene) -> None:
    pull = two_boards(scene)
    scene.intake()
    for _ in range(2):
        scene.evaluate(scene.waiting()[0], of_its_board(scene))
    text = scene.comment(pull.number).replace(NBSP, " ")
    assert text.count("GFLOP/s") == 5 and text.count("% of the limit</sub>") == 3, (
        "a share of the limit only on the H100"
    )
    texts = [check.output["text"] for check in scene.world.checks.values()]
    assert sorted(text.count('"limit": null') for text in texts) == [0, 2]


# The terminal.


def printed(judgement: Judgement, roofline: Roofline, width: int = 80) -> str:
    said = StringIO()
    show(judgement, Console(width=width, file=said), roofline)
    return said.getvalue()


def test_the_terminal_shows_a_line_for_each_benchmark() -> None:
    text = printed(accepted("ada", 0.5), LIMITED)
    assert "Throughput" in text and "size: 1024  81.9 GB/s · 102 GFLOP/s · 82 % of the limit" in text
    assert max(map(len, text.partition("Throughput")[2].partition("\n\n")[0].splitlines())) <= 80
    assert "Throughput" not in printed(accepted("ada", 0.5), NO_ROOFLINE)


SETTINGS = "gpus:\n  CPU: {runs_on: ubuntu-24.04, bandwidth_gbs: 40%s}\n"


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A competition with one task that counts its work."""
    folder = tmp_path / "tasks" / "tiny"
    shutil.copytree(TINY, folder)
    with (folder / "task.yml").open("a") as yml:
        yml.write('work: {bytes: "8 * size", flops: "size"}\n')
    (tmp_path / ".github").mkdir()
    return folder


def test_json_has_the_throughput_and_the_written_judgement_has_not(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".github/pullrank.yml").write_text(SETTINGS % "")
    file, out = tiny / "examples/accepted/plain.py", tmp_path / "out.json"
    assert run(["benchmark", str(file), "--sandbox", "none", "--json", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    *_, case = json.loads(printed)["cases"]
    judgement = Judgement.from_json(out.read_text())
    (tmp_path / "printed.json").write_text(printed)
    again = ["verify", str(tmp_path / "printed.json"), "--file", str(file), "--task-dir", str(tiny)]
    assert run([*again, "--sandbox", "none"]) == 0
    (timed,) = judgement.benchmarks
    assert timed.time_us
    assert case["throughput"] == {
        "bandwidth_gbs": pytest.approx(8 / timed.time_us), "tflops": pytest.approx(1e-3 / timed.time_us),
        "dtype": "float32", "limit": pytest.approx(0.2 / timed.time_us),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (SETTINGS % "", True),
        (SETTINGS % ", device: CPU", True),
        (SETTINGS % ", device: H100", False),
        ("gpus: {H100: {runs_on: h100}}\n", False),
        ("gpus: [nonsense\n", False),
        (None, False),
    ],
    ids=["peaks", "this device", "another device", "another board", "broken", "none"],
)
def test_a_machine_shows_the_limit_only_of_its_own_board(
    settings: str | None, expected: bool, tiny: Path, tmp_path: Path
) -> None:

    if settings:
        (tmp_path / ".github/pullrank.yml").write_text(settings)
    found = roofline_here(load_task(tiny).board("CPU"), accepted("ada", 0.5))
    assert ("of the limit" in found.line({"size": 1000}, 1.0)) == expected
    assert "8 GB/s" in found.line({"size": 1000}, 1.0)
