"""The positions of the marks in charts."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, combinations, pairwise

import pytest

from harness.records.stats import Interval
from harness.records.times import Run
from scripts.pages.parts.charts import StripSide, round_values, strip
from scripts.pages.parts.staircase import Best, staircase
from scripts.pages.parts.whiskers import whiskers

START = datetime(2026, 11, 2, tzinfo=UTC)


def run(*samples_us: float, order: int = 0) -> Run:
    return Run(order=order, warmups_us=(), samples_us=samples_us, seeds=tuple(range(len(samples_us))))


def bests(*times_us: float) -> list[Best]:
    return [
        Best(at=START + timedelta(days=n), us=us, name=f"author-{us}", label=f"{us}", href="x")
        for n, us in enumerate(times_us)
    ]


def dots(path: str) -> list[float]:
    """The positions of one run's dots: in the path, each is relative to the one before."""
    return list(accumulate(float(part.split()[0]) for part in re.split("[Mm]", path)[1:]))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (10.2, 14.9, [11, 12, 13, 14]),
        (98, 122, [100, 110, 120]),
        (15, 290, [20, 50, 100, 200]),
        (0.5, 60_000, [1, 100, 10_000]),
        (150, 320, [200, 250, 300, 150]),
        (99.989, 100.011, [99.99, 100, 100.01]),
    ],
)
def test_ticks_are_at_round_values_inside_the_axis(low: float, high: float, expected: list[float]) -> None:
    assert sorted(round_values(low, high, 4)) == pytest.approx(sorted(expected))


def test_a_strip_axis_has_two_or_three_distinct_ticks_without_overlap() -> None:
    for percent in range(1, 2400, 23):
        for slowest in range(100, 1000, 37):
            low, high = slowest / (1 + percent / 100), slowest
            (group,) = strip("", [StripSide(label="a", runs=[run(low, *[math.sqrt(low * high)] * 2, high)])]).groups
            ends = [(tick.at - PLACED[tick.align] * 6.8 * len(tick.label), tick) for tick in group.ticks]
            assert 2 <= len({tick.label for _, tick in ends}) == len(ends) <= 3
            assert all(left + 6.8 * len(tick.label) < after for (left, tick), (after, _) in pairwise(ends))


PLACED = {"start": 0, "middle": 0.5, "end": 1}


def test_the_axis_includes_an_interval_outside_the_samples() -> None:
    runs = [run(100.0, 101.0, 102.0)]
    (group,) = strip("", [StripSide(label="a", runs=runs, interval=Interval(value=96, low=95, high=97))]).groups
    assert group.band
    assert 6 < group.band[0] < group.band[1] < dots(group.dots)[0] < group.median_x


def test_a_strips_description_has_the_time_of_each_side() -> None:
    runs = {"a": [run(1, 2, 2), run(5, 6, 6), run(3, 4, 4)], "b": [run(7), run(9)]}
    assert strip("", [StripSide(*side) for side in runs.items()]).description == (
        "a: 4.000 µs, from 9 samples in 3 runs between 1.000 µs and 6.000 µs; "
        "b: 8.000 µs, from 2 samples in 2 runs between 7.000 µs and 9.000 µs"
    )


def test_a_stall_is_drawn_at_the_edge_without_stretching_the_axis() -> None:
    chart = strip("size: 1", [StripSide(label="this file", runs=[run(*[100.0, 101.0, 102.0] * 5, 9000.0)])])
    group = chart.groups[0]
    assert group.dots.count("M") == 1 and dots(group.dots)[-1] == pytest.approx(354)
    assert dots(group.dots)[:3] == sorted(dots(group.dots)[:3])
    assert "1 of them beyond the axis" in chart.description
    assert 6 < group.median_x < 354


def test_each_side_has_its_own_axis_unless_they_share_one() -> None:
    sides = [StripSide(label="a", runs=[run(10, 10.1, 10.2)]), StripSide(label="b", runs=[run(20, 20.2, 20.4)])]
    apart, together = strip("", sides).groups, strip("", sides, one_axis=True).groups
    assert apart[0].median_x == pytest.approx(apart[1].median_x)
    assert together[0].median_x < 60 < 300 < together[1].median_x
    assert together[0].ticks == together[1].ticks


def test_equal_samples_do_not_divide_by_zero() -> None:
    assert strip("", [StripSide(label="a", runs=[run(5.0, 5.0)])]).groups[0].median_x == pytest.approx(180)


def test_a_run_of_very_many_samples_is_thinned() -> None:
    chart = strip("", [StripSide(label="a", runs=[run(*(100 + n % 7 for n in range(20_000)))])])
    assert len(dots(chart.groups[0].dots)) == 7
    assert "20000 samples" in chart.description


def test_a_staircase_descends_with_each_record_and_runs_until_the_last_judgement() -> None:
    chart = staircase("Best", bests(300, 200, 150), START + timedelta(days=9), width=340, height=200)
    heights = [step.y for step in chart.steps]
    assert heights == sorted(heights)
    assert chart.path.endswith(f"H{chart.right:.1f}")
    assert [tick.label for tick in chart.x_ticks] == ["2 Nov", "11 Nov"]


@pytest.mark.parametrize("width", [340, 1080])
def test_a_staircase_labels_months_between_its_dates_if_there_is_room(width: int) -> None:
    days = {
        days: staircase("Best", bests(300, 200), START + timedelta(days=days), width=width, height=200).x_ticks
        for days in (120, 500)
    }
    between = ["Dec", "2027", "Feb"] if width > 340 else ["2027"]
    assert [tick.label for tick in days[120]] == ["2 Nov", *between, "2 Mar"]
    assert len(days[500]) <= width / 72 + 1
    for ticks in days.values():
        assert min(after.at - before.at for before, after in pairwise(ticks)) > 50


def test_a_staircase_names_its_last_and_largest_steps_and_no_two_names_touch() -> None:
    times = [300 * 0.985**n for n in range(20)]
    times[11:] = [us / 2 for us in times[11:]]
    for width in (340, 1080):
        steps = staircase("Best", bests(*times), START + timedelta(days=20), width=width, height=280).steps
        names = [step.name for step in steps if step.name]
        assert {steps[-1].name, steps[11].name} <= set(names) and len(names) <= width / 110
        assert not any(one.touches(other) for one, other in combinations(names, 2))
        assert all(name.left >= 62 and name.x <= width for name in names)


@pytest.mark.parametrize("width", [340, 1080])
def test_a_staircase_names_each_holder_only_where_they_took_first_place(width: int) -> None:
    holders = ["ada"] * 5 + ["grace"] * 9 + ["ada"] * 4
    times = [replace(best, name=name) for best, name in zip(bests(*range(300, 282, -1)), holders, strict=True)]
    steps = staircase("Best", times, START + timedelta(days=20), width=width, height=280).steps
    assert [(index, step.name.text) for index, step in enumerate(steps) if step.name] == [
        (0, "ada"), (5, "grace"), (14, "ada"),
    ]  # fmt: skip


def test_a_name_at_the_edge_is_below_and_left_of_its_step() -> None:
    steps = staircase("Best", bests(300, 200, 100, 99), START + timedelta(days=3), width=340, height=200).steps
    name = steps[-1].name
    assert name
    assert name.align == "end" and name.x < steps[-1].x and name.y > steps[-1].y


@pytest.mark.parametrize(("floor_us", "is_drawn"), [(90, True), (60, True), (20, False), (200, False), (None, False)])
def test_the_hardware_limit_is_drawn_below_the_steps_if_it_is_near(floor_us: float | None, is_drawn: bool) -> None:
    chart = staircase("Best", bests(300, 100), START + timedelta(days=9), width=340, height=200, floor_us=floor_us)
    assert bool(chart.floor) is is_drawn and ("limit" in chart.description) is is_drawn
    if chart.floor:
        assert f"{floor_us}.00 µs" in chart.floor.text
        assert chart.steps[-1].y < chart.floor.y + 6 <= chart.bottom


def test_a_single_record_is_drawn_as_a_line() -> None:
    chart = staircase("Best", bests(300), START, width=340, height=200)
    assert len(chart.steps) == 1
    assert chart.x_ticks[0].label == "00:00:00"
    assert 14 < chart.steps[0].y < 172


def test_whiskers_share_an_axis_and_the_slowest_are_at_its_edge() -> None:
    times = [Interval(value=us, low=us * 0.99, high=us * 1.01) for us in (100, 110, 120, 130, 9000)]
    drawn = whiskers(times)
    starts = [float(one.path[1:].split()[0]) for one in drawn[:4]]
    assert starts == sorted(starts) and starts[0] < 10
    assert [one.beyond for one in drawn] == [False] * 4 + [True]
    assert whiskers([]) == [] and not whiskers(times[:1])[0].beyond
