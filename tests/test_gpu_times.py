"""Stage 4 of `make check-gpu`: its conclusions from given numbers, and its methods with a CPU in place of the GPU."""

import importlib.util
import subprocess
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.check_gpu.probe import CheckOptions, MissingError
from benchmarks.check_gpu.stages import peers
from benchmarks.check_gpu.stages.times import GROUPS, KERNELS, OURS, Taken, ask_peer, board_of
from benchmarks.check_gpu.stages.times_report import BenchClaim, Measured, report_of, spread, summary

REHEARSAL = CheckOptions(rehearse=True)


def found(times: dict[str, list[float]], *, ratios: list[float] | None = None, **more: object) -> Measured:
    """One kernel's times by method; each process took 10 s."""
    taken = [
        Taken(way=way, kernel="add", us=us, seconds=2.0, ratio=(ratios or values)[i] if way == OURS else None)
        for way, values in times.items()
        for i, us in enumerate(values)
    ]
    seconds = {way: [10.0] * len(values) for way, values in times.items()}
    return Measured(**{"kernels": ("add",), "taken": taken, "seconds": seconds, **more})


def claims(*arguments: object, **more: object) -> tuple[BenchClaim, ...]:
    return report_of(found(*arguments, **more)).claims


def test_the_spread_is_the_interquartile_range_over_the_median():
    assert spread([80.0, 90.0, 100.0, 110.0, 120.0]) == pytest.approx(0.2)
    assert spread([100.0] * 3) == 0
    assert spread([100.0]) is None


def test_a_bias_is_the_median_of_the_biases_of_each_repetition():
    # The machine drifts by a third between repetitions, and both methods with it.
    one = found({OURS: [101, 202, 303], "replay": [100, 200, 300], "do_bench": [90, 180, 600]})
    assert one.bias(OURS, "add") == pytest.approx(0.01)
    assert one.bias("do_bench", "add") == pytest.approx(-0.1)
    assert one.bias("kernelbot", "add") is None


def test_queued_calls_give_the_true_time_or_else_a_replay_or_else_the_kernels_alone():
    assert found({"replay": [1.0], "cupti": [2.0], "queued": [3.0]}).true_us("add") == [3.0]
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


def test_the_report_marks_unmeasured_claims():
    report = report_of(found({OURS: [1.0, 1.0]}))
    assert [claim.holds for claim in report.claims] == [None] * 4
    assert report.text.count("| not measured |") == 4


def test_the_standard_error_is_that_of_the_mean():
    assert peers.standard_error([9.0, 10.0, 11.0, 10.0]) == pytest.approx(0.040825, abs=1e-6)


def test_a_timing_method_says_what_it_lacks(monkeypatch):
    assert peers.why_not("kernelbot", "cpu") == peers.why_not("replay", "cuda") == ""
    assert peers.why_not("cupti", "cpu") == peers.why_not("queued", "cpu") == "it times only GPUs"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert peers.why_not("do_bench", "cuda") == "triton is not installed"


def test_the_ten_kernels_give_ten_different_cases_and_each_is_in_one_group():
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS) == 10
    for rehearse in (True, False):
        assert len({kernel.case(rehearse=rehearse).name for kernel in KERNELS}) == 10
    assert sorted(kernel.name for group in GROUPS.values() for kernel in group) == sorted(one.name for one in KERNELS)


def test_an_interval_without_the_true_ratio_is_wrong_and_one_far_from_it_is_a_failure():
    taken = partial(Taken, way=OURS, kernel="add", us=1.0, seconds=1.0)
    right, wrong, far = (taken(ratio=ratio, low=ratio - 0.01, high=ratio + 0.01) for ratio in (0.992, 1.015, 0.97))
    assert (right.is_right, wrong.is_right, far.is_right, taken().is_right) == (True, False, False, None)
    assert [one.is_far_off for one in (right, wrong, far, taken())] == [False, False, True, False]
    assert not replace(far, is_disturbed=True).is_far_off


@pytest.mark.parametrize(("wrong", "holds"), [(0, True), (1, True), (2, False)])
def test_the_claim_on_intervals_allows_one_of_ten_to_be_wrong(wrong, holds):
    taken = [Taken(way=OURS, kernel="add", us=1, seconds=1, low=0.99, high=1.01)] * (10 - wrong)
    taken += [Taken(way=OURS, kernel="add", us=1, seconds=1, low=1.01, high=1.02)] * wrong
    claim = report_of(Measured(kernels=("add",), taken=taken)).claims[3]
    assert claim.holds is holds and claim.seen == f"{10 - wrong} of 10"


def test_the_summary_compares_all_results():
    times = {OURS: 100.9, "replay": 100.0, "kernelbot": 120.0}
    data = [
        {"way": way, "seconds": 10.0, "taken": [{"way": way, "kernel": "matmul, side 512", "us": us, "seconds": 1.0}]}
        for way, us in times.items()
    ]
    shown = summary(data)
    assert "| matmul, side 512 | 100.0 µs | +0.9 % | +0.0 % | +20.0 % |" in shown and "matmul, side 2048" not in shown
    assert "| +0.9 % at most (matmul, side 512; 1 kernels) | holds |" in shown


def test_each_kernel_passes_its_own_reference():
    quick = [kernel for kernel in KERNELS if kernel.amount != 20_000_000]
    with board_of(quick, rehearse=True) as board:
        few = replace(board, benchmarks=tuple(board.tests))
        taken = list(ask_peer("kernelbot", few, ("spin", "add", "sum", "matmul"), REHEARSAL))
    assert [one.kernel for one in taken] == ["spin", "add", "sum", "matmul"]
    assert all(one.us > 0 for one in taken)


def test_a_method_that_fails_or_cannot_run_says_why(capfd):
    with board_of([KERNELS[0]], rehearse=True) as board:
        with pytest.raises(MissingError, match="it times only GPUs"):
            list(ask_peer("cupti", board, ("spin",), REHEARSAL))
        (board.task.folder / "submission.py").write_text("def custom_kernel(data):\n    return data[2]\n")
        with pytest.raises(subprocess.CalledProcessError):
            list(ask_peer("kernelbot", board, ("spin",), REHEARSAL))
    assert "ValueError: output" in capfd.readouterr().err
