"""`make bench-gpu`: what follows from known numbers, and a rehearsal of all of it with a CPU in the GPU's place."""

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import peers
from benchmarks.gpu_tables import OURS, BenchClaim, Measured, Taken, report_of, spread
from benchmarks.gpu_times import KERNELS, _ask_peer, _board, main
from harness.gpu.gpu_nodes import find_gpus
from scripts.cli import run


def found(times: dict[str, list[float]], *, ratios: list[float] | None = None, **more: object) -> Measured:
    """One kernel's times by way; each process took 10 s."""
    taken = [
        Taken(way=way, kernel="add", us=us, seconds=2.0, ratio=(ratios or values)[i] if way == OURS else None)
        for way, values in times.items()
        for i, us in enumerate(values)
    ]
    seconds = {way: [10.0] * len(values) for way, values in times.items()}
    return Measured(**{"kernels": ("add",), "is_rehearsed": False, "taken": taken, "seconds": seconds, **more})


def claims(*arguments: object, **more: object) -> tuple[BenchClaim, ...]:
    return report_of(found(*arguments, **more)).claims


def test_the_spread_is_the_interquartile_range_over_the_median():
    assert spread([80.0, 90.0, 100.0, 110.0, 120.0]) == pytest.approx(0.2)
    assert spread([100.0] * 3) == 0
    assert spread([100.0]) is None


def test_a_bias_is_the_median_of_the_biases_of_each_repetition():
    # The machine drifts by a third from one repetition to the next, and both ways with it.
    one = found({OURS: [101, 202, 303], "replay": [100, 200, 300], "do_bench": [90, 180, 600]})
    assert one.bias(OURS, "add") == pytest.approx(0.01)
    assert one.bias("do_bench", "add") == pytest.approx(-0.1)
    assert one.bias("kernelbot", "add") is None


def test_cupti_gives_the_true_time_if_there_is_no_replay():
    assert found({"replay": [1.0], "cupti": [2.0]}).true_us("add") == [1.0]
    assert found({OURS: [3.0], "cupti": [2.0]}).bias(OURS, "add") == pytest.approx(0.5)


@pytest.mark.parametrize(("ours", "holds"), [(100.9, True), (98.0, False), (101.5, False)])
def test_the_bias_claim_holds_within_one_percent(ours, holds):
    assert claims({OURS: [ours] * 2, "replay": [100.0] * 2})[0].holds is holds


def test_kernels_shorter_than_a_launch_are_left_out_of_the_claim():
    assert claims({OURS: [9.0, 9.0], "replay": [3.0, 3.0]})[0].holds is None


@pytest.mark.parametrize(("ratios", "holds"), [([0.99, 1.0, 1.01], True), ([0.9, 1.0, 1.1], False)])
def test_the_spread_claim_uses_ratios_to_the_anchor(ratios, holds):
    assert claims({OURS: [50, 100, 200], "kernelbot": [95, 100, 105]}, ratios=ratios)[1].holds is holds


@pytest.mark.parametrize(("ours", "holds"), [(20.0, True), (21.0, False)])
def test_the_seconds_claim_counts_whole_processes(ours, holds):
    seconds = {OURS: [ours] * 3, "kernelbot": [10.0] * 3}
    assert claims({OURS: [1.0] * 3, "kernelbot": [1.0] * 3}, seconds=seconds)[2].holds is holds


def test_the_report_marks_unmeasured_claims_and_names_skipped_methods():
    report = report_of(found({OURS: [1.0, 1.0]}, skipped={"kernelbot": "it failed: out of memory"}))
    assert [claim.holds for claim in report.claims] == [None] * 3
    assert report.text.count("| not measured |") == 3
    assert "Skipped: KernelBot's method, because it failed: out of memory." in report.text


def test_the_standard_error_is_that_of_the_mean():
    assert peers.standard_error([9.0, 10.0, 11.0, 10.0]) == pytest.approx(0.040825, abs=1e-6)


def test_a_timing_method_says_what_it_lacks(monkeypatch):
    assert peers.why_not("kernelbot", "cpu") == peers.why_not("replay", "cuda") == ""
    assert peers.why_not("cupti", "cpu") == "it times only GPUs"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert peers.why_not("do_bench", "cuda") == "triton is not installed"


def test_the_ten_kernels_give_ten_different_cases():
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS) == 10
    for rehearse in (True, False):
        assert len({kernel.case(rehearse=rehearse).name for kernel in KERNELS}) == 10


def test_each_kernel_passes_its_own_reference():
    quick = [kernel for kernel in KERNELS if kernel.amount != 20_000_000]
    with _board(quick, rehearse=True) as board:
        seen = Measured(kernels=tuple(kernel.name for kernel in quick), is_rehearsed=True)
        few = replace(board, benchmarks=tuple(board.tests), tests=board.tests)
        taken = list(_ask_peer("kernelbot", few, replace(seen, kernels=("spin", "add", "sum", "matmul"))))
    assert [one.kernel for one in taken] == ["spin", "add", "sum", "matmul"]
    assert all(one.us > 0 for one in taken)


def test_a_failing_timing_method_is_skipped_with_its_error():
    with _board([KERNELS[0]], rehearse=True) as board:
        (board.task.folder / "submission.py").write_text("def custom_kernel(data):\n    return data[2]\n")
        seen = Measured(kernels=("spin",), is_rehearsed=True)
        assert list(_ask_peer("kernelbot", board, seen)) == []
    assert seen.skipped["kernelbot"].startswith("it failed: ValueError: output")


@pytest.mark.alone
@pytest.mark.walls
@pytest.mark.usefixtures("all_cores")
def test_a_rehearsal_runs_every_available_timing_method_and_prints_tables(tmp_path, capsys):
    raw = tmp_path / "raw.json"
    arguments = ["--rehearse", "--repetitions", "2", "--only", "600 thousand", "--raw", str(raw)]
    assert run(arguments, main) == 0
    shown = capsys.readouterr().out
    kept = json.loads(raw.read_text())
    assert {way: len(seconds) for way, seconds in kept["seconds"].items()} == {OURS: 2, "replay": 2, "kernelbot": 2}
    # What spins until a clock says so is the one kernel whose time is known.
    assert all(290 < one["us"] < 2000 for one in kept["taken"])
    assert "| spin, 600 thousand |" in shown
    assert "Skipped: do_bench, because " in shown and "Skipped: CUPTI, because it times only GPUs" in shown
    assert len([line for line in shown.splitlines() if line.endswith(("| holds |", "| does not hold |"))]) == 3


@pytest.mark.skipif(bool(find_gpus()), reason="there is a GPU")
def test_a_machine_without_a_gpu_gets_one_error_line(capsys):
    assert run([], main) == 3
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    assert "no GPU found on this machine" in shown.err


def test_the_makefile_has_a_bench_gpu_target():
    assert "bench-gpu: $(READY)  ## " in Path("Makefile").read_text()
