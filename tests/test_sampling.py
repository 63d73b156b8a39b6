"""The order of the runs and the subtraction of overhead, for players with given windows."""

from dataclasses import replace
from functools import partial
from random import Random

import pytest

from harness.records.stats import MIN_PAIRS
from harness.referee.sampling import (
    CALIBRATIONS,
    FULL_SAMPLES,
    FULL_WARMUPS,
    SAMPLES,
    WARMUPS,
    Windows,
    calls_per_window,
    central_overhead,
    early_overhead,
    player_overhead,
    time_case,
)


def plays(window_us, order=None, name=""):
    """A side whose windows all take the same time; it notes when it was called."""

    def play(place):
        if order is not None:
            order.append(name)
        calls = WARMUPS + SAMPLES
        return Windows(windows_us=(window_us,) * calls, seeds=tuple(range(calls)))

    return play


def test_a_stall_of_one_idle_player_makes_no_player_look_faster():
    players = [*[plays(15_000.0)] * (CALIBRATIONS - 1), plays(60.0)]
    assert early_overhead(lambda order: players[order](order)) == 60.0


def test_the_overhead_is_the_lower_quartile_without_warm_ups():
    samples = tuple(float(us) for us in range(SAMPLES, 0, -1))
    windows = Windows(windows_us=(0.5,) * WARMUPS + samples, seeds=tuple(range(WARMUPS + SAMPLES)))
    assert player_overhead(lambda _: windows) == sorted(samples)[SAMPLES // 4]


@pytest.mark.parametrize(
    ("players_us", "overhead_us", "played"),
    [
        ((100.0, 102.0), 101.0, 2),
        ((100.0, 104.0, 103.0), 103.0, 3),
        ((100.0, 15_000.0, 102.0), 102.0, 3),  # a stall of the machine
    ],
)
def test_the_central_overhead_is_the_median_of_two_idle_players_or_of_three_if_two_disagree(
    players_us, overhead_us, played
):
    found, runs = central_overhead(lambda order: plays(players_us[order])(order))
    assert (found, len(runs)) == (pytest.approx(overhead_us), played)


def test_the_central_overhead_is_estimated_as_the_times_from_which_it_is_subtracted_are():
    samples_us = (100.0, 104.0, 109.0, 102.0, 107.0, 900.0)
    windows = Windows(
        windows_us=(5000.0,) * FULL_WARMUPS + samples_us,
        seeds=tuple(range(FULL_WARMUPS + FULL_SAMPLES)),
        calls_per_sample=2,
    )
    overhead_us, _ = central_overhead(lambda _: windows)
    assert overhead_us == pytest.approx((102 + 104 + 107 + 109 + 0.1 * (100 + 900)) / 4.2)
    assert windows.as_run(0, 2.0).time_us == pytest.approx(overhead_us - 2.0)


@pytest.mark.parametrize(
    ("window_us", "overhead_us", "work_s", "most", "calls"),
    [
        (30_300.0, 300.0, 0.0, 50, 1),
        (1800.0, 300.0, 0.0, 50, 20),  # one window has a hundred times the overhead
        (301.0, 300.0, 0.0, 50, 50),
        (250.0, 300.0, 0.0, 50, 50),  # faster than an idle player, by chance
        (400.0, 300.0, 0.0, 7, 7),
        (1800.0, 300.0, 0.0105, 50, 8),  # inputs and checks take longer than the calls
        (1800.0, 300.0, 1.0, 50, 1),
        (60_000.0, 30_000.0, 0.0, 50, 3),  # the calls are slow
    ],
)
def test_a_window_holds_as_many_calls_as_make_its_overhead_small(window_us, overhead_us, work_s, most, calls):
    played = replace(plays(window_us)(0), work_s=work_s)
    assert calls_per_window(played, overhead_us, most) == calls


def fixed(overhead_us):
    return lambda: overhead_us


def test_sides_take_turns_in_mirrored_order_and_no_idle_player_follows_the_submission():
    order: list[str] = []
    idle = partial(player_overhead, plays(100.0, order, "I"))
    time_case(plays(300.0, order, "S"), plays(400.0, order, "A"), idle, 0.0)
    assert "".join(order) == "SAIIAS" * (MIN_PAIRS // 2)


def test_the_overhead_is_subtracted_from_every_window_of_both_sides():
    timing = time_case(plays(300.0), plays(500.0), fixed(100.0), 0.0)
    assert (timing.submission_us, timing.anchor_us, timing.bound_us) == (200.0, 400.0, 100.0)
    assert timing.ratio.value == 0.5
    assert timing.steady


def test_each_pair_has_its_early_overhead_and_their_median_is_the_bound():
    overheads_us = [100.0, 120.0, 110.0, 90.0, 130.0, 105.0]
    timing = time_case(plays(300.0), plays(500.0), iter(overheads_us).__next__, 0.0)
    assert timing.pair_ratios == pytest.approx([(300 - us) / (500 - us) for us in overheads_us])
    assert timing.overhead_us == timing.bound_us == 107.5
    assert timing.overheads_us == tuple(overheads_us)


def test_a_time_below_the_overhead_is_not_called_steady():
    timing = time_case(plays(90.0), plays(80.0), fixed(100.0), 0.0)
    assert timing.ratio.value == 1.0
    assert not timing.steady
    assert "too short" in timing.note


def test_a_stall_of_one_idle_player_spoils_one_pair_only():
    overheads_us = iter([100.0, 100.0, 15_000.0, 100.0, 100.0, 100.0])
    timing = time_case(plays(300.0), plays(500.0), overheads_us.__next__, 0.0)
    assert timing.pair_ratios == (0.5, 0.5, 1.0, 0.5, 0.5, 0.5)
    assert timing.ratio.value == 0.5
    assert timing.bound_us == 100.0


def test_the_interval_includes_the_error_of_the_overhead():
    """Idle players differ by 3 %.  With one overhead for all pairs, a third of the intervals held the true ratio."""
    chance = Random(6)

    def near(us):
        def play(order):
            return plays(us * chance.gauss(1, 0.003))(order)

        return play

    def is_true():
        timing = time_case(near(95.0), near(245.0), lambda: chance.gauss(45.0, 0.03 * 45), 0.0)
        return timing.ratio.low <= 50 / 200 <= timing.ratio.high

    assert sum(is_true() for _ in range(400)) / 400 == pytest.approx(0.97, abs=0.03)
