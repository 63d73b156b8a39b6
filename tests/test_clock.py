"""The order of play, and what is subtracted, with players whose windows are written down here."""

from harness.records.stats import MIN_PAIRS
from harness.referee.sampling import CALIBRATIONS, SAMPLES, WARMUPS, Windows, calibrate, time_case


def plays(window_us, order=None, name=""):
    """A side whose windows all take the same; it notes when it was called."""

    def play(place):
        if order is not None:
            order.append(name)
        calls = WARMUPS + SAMPLES
        return Windows(windows_us=(window_us,) * calls, seeds=tuple(range(calls)))

    return play


def test_a_stall_during_one_calibration_makes_no_player_look_faster():
    players = [*[plays(15_000.0)] * (CALIBRATIONS - 1), plays(60.0)]
    assert calibrate(lambda order: players[order](order)) == 60.0


def test_the_overhead_is_the_lower_quartile_without_warm_ups():
    samples = tuple(float(us) for us in range(SAMPLES, 0, -1))
    windows = Windows(windows_us=(0.5,) * WARMUPS + samples, seeds=tuple(range(WARMUPS + SAMPLES)))
    assert calibrate(lambda _: windows) == sorted(samples)[SAMPLES // 4]


def test_sides_take_turns_in_mirrored_order():
    order: list[str] = []
    time_case(plays(300.0, order, "S"), plays(400.0, order, "A"), 100.0, 0.0)
    assert "".join(order) == "SAAS" * (MIN_PAIRS // 2)


def test_the_overhead_is_subtracted_from_every_window_of_both_sides():
    timing = time_case(plays(300.0), plays(500.0), 100.0, 0.0)
    assert (timing.submission_us, timing.anchor_us, timing.bound_us) == (200.0, 400.0, 100.0)
    assert timing.ratio.value == 0.5
    assert timing.steady


def test_a_time_below_the_overhead_is_not_called_steady():
    timing = time_case(plays(90.0), plays(80.0), 100.0, 0.0)
    assert timing.ratio.value == 1.0
    assert not timing.steady
    assert "too short" in timing.note


def test_stalls_are_decided_from_samples_after_subtracting_the_overhead():
    """At the edge a window stalls and its sample does not: that must not end a judging."""
    quick, seeds = (90.0,) * (WARMUPS + SAMPLES - 1), tuple(range(WARMUPS + SAMPLES))
    edge, plain = (Windows(windows_us=(*quick, us), seeds=seeds, counts_stalls=True) for us in (50_095.0, 60_000.0))
    assert edge.stalls and edge.as_run(0, overhead_us=100.0).estimator == "trimmed mean"
    assert plain.stalls and plain.as_run(0, overhead_us=100.0).estimator == "mean"
