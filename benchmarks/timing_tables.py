"""The tables of `make bench-timing`: medians, spreads, and whether the claims hold.  Pure functions.

    Raw numbers of a part  ─►  one or two tables

A claim is next to the measured share and, if chance plays a part, the confidence interval of that share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import NormalDist, fmean, pstdev, quantiles
from typing import Any

from rich.table import Table

from harness.records.stats import CONFIDENCE, Interval, is_faster, is_provisional, median
from scripts.common.terminal import table
from scripts.common.text import format_percent, format_us

MOVES = 3
"""How often a call of a kernel that returns its input moves the input's bytes: write, read, and overwrite."""

_NOT_REFUSED = ("AC", "void")

Numbers = Sequence[Mapping[str, Any]]


def tables_of(part: str, numbers: Numbers) -> Iterator[Table]:
    """The tables of one part, from at least one measurement."""
    makers = {
        "cost": _cost_tables,
        "short": _short_tables,
        "aa": _aa_tables,
        "power": _power_tables,
        "spread": _spread_tables,
        "honest": _honest_tables,
    }
    return makers[part](numbers)


def _cost_tables(numbers: Numbers) -> Iterator[Table]:
    made = _table_of_times(
        "A timed call of a kernel that does nothing, without generate_input and check_implementation"
    )
    calls_us: dict[int, list[float]] = {}
    for size in sorted({one["bytes"] for one in numbers}):
        measured = [one for one in numbers if one["bytes"] == size]
        calls_us[size] = [one["call_us"] for one in measured]
        windows_us = [window for one in measured for window in one["windows_us"]]
        _add_row(made, f"whole call, {size // 1024} KiB in and out", calls_us[size], format_us)
        _add_row(made, "its window", windows_us, format_us)
    yield made
    small, large = min(calls_us), max(calls_us)
    cost_us, more_us = median(calls_us[small]), median(calls_us[large]) - median(calls_us[small])
    claims = table("", "Claim", "Measured", "", right=("Measured",))
    claims.add_row("a call's overhead is at most 250 µs", format_us(cost_us), _holds(cost_us <= 250))
    if more_us > 0:
        rate = MOVES * (large - small) / more_us / 1e3
        claims.add_row("data moves at 3 GB/s at least", f"{rate:.1f} GB/s", _holds(rate >= 3))
    yield claims


def _short_tables(numbers: Numbers) -> Iterator[Table]:
    columns = ("Ratio", "Deviation (MAD)", "Coefficient of variation", "Half-width", "Intervals with the median ratio")
    made = table("A kernel shorter than its anchor, judged repeatedly", "Overhead", *columns, right=columns)
    for way, name in (("pairs", "of each pair of runs"), ("all", "of the faster of two idle players, for all pairs")):
        ratios = [Interval(**one["ratios"][way]) for one in numbers]
        values = [ratio.value for ratio in ratios]
        middle, (_, deviation, variation) = median(values), _spreads(values)
        half = median([ratio.log_half_width for ratio in ratios])
        holding = sum(ratio.low <= middle <= ratio.high for ratio in ratios)
        shares = map(format_percent, (deviation, variation, half))
        made.add_row(name, _format_ratio(middle), *shares, f"{holding} of {len(ratios)}")
    yield made
    times = _table_of_times("The judgings")
    _add_row(times, "the kernel's time", [one["time_us"] for one in numbers], format_us)
    _add_row(times, "overhead", [one["overhead_us"] for one in numbers], format_us)
    _add_row(times, "duration", [one["seconds"] for one in numbers], _format_seconds)
    yield times


def _aa_tables(numbers: Numbers) -> Iterator[Table]:
    """The duels, and the void ones played again, as on a board that does not wait for idle cores."""
    again = [one for one in numbers if one.get("again")]
    first = [one for one in numbers if not one.get("again")]
    for title, duels in (("A kernel against itself", first), ("The void duels, played beside the other work", again)):
        if duels:
            yield _wins_table(title, duels, "wins less than 5 %", lambda share: share < 0.05)
            yield from _duels_tables(duels)


def _power_tables(numbers: Numbers) -> Iterator[Table]:
    yield _wins_table("A kernel that does 10 % less work", numbers, "wins 95 % or more", lambda share: share >= 0.95)
    yield from _duels_tables(numbers)


def _wins_table(title: str, numbers: Numbers, claim: str, holds: Callable[[float], bool]) -> Table:
    made = table(title, "Side", "Won", "Share", "95 % interval", "Claim", "", right=("Won", "Share", "95 % interval"))
    ratios = [Interval(**one["ratio"]) for one in numbers if one["ratio"]]
    for side, seen in (("challenger", ratios), ("champion", [ratio.inverse for ratio in ratios])):
        won = sum(map(is_faster, seen))
        share, (low, high) = won / len(numbers), wilson(won, len(numbers))
        said = (claim, _holds(holds(share))) if side == "challenger" else ("", "")
        interval = f"{format_percent(low)} to {format_percent(high)}"
        made.add_row(side, f"{won} of {len(numbers)}", format_percent(share), interval, *said)
    if void := len(numbers) - len(ratios):
        made.add_row("neither, as the duel was void", f"{void} of {len(numbers)}", "", "", "", "")
    return made


def _duels_tables(numbers: Numbers) -> Iterator[Table]:
    """A table of the duels that were played, if there are any, and of the time until the others were void."""
    if void := [one["seconds"] for one in numbers if not one["ratio"]]:
        made = _table_of_times("The void duels")
        _add_row(made, "duration", void, _format_seconds)
        yield made
    if played := [one for one in numbers if one["ratio"]]:
        yield _duels_table(played)


def _duels_table(numbers: Numbers) -> Table:
    made = _table_of_times("The duels")
    ratios = [Interval(**one["ratio"]) for one in numbers]
    noise = [_deviation([math.log(ours / theirs) for ours, theirs in one["blocks_us"]]) for one in numbers]
    champions_us = [median([theirs for _, theirs in one["blocks_us"]]) for one in numbers]
    _add_row(made, "ratio", [ratio.value for ratio in ratios], _format_ratio)
    _add_row(made, "half-width of its interval", [ratio.log_half_width for ratio in ratios], format_percent)
    _add_row(made, "noise of one block", noise, format_percent)
    _add_row(made, "the champion's time", champions_us, format_us)
    _add_row(made, "blocks played", [len(one["blocks_us"]) for one in numbers], "{:g}".format)
    _add_row(made, "duration of a duel", [one["seconds"] for one in numbers], _format_seconds)
    return made


def _spread_tables(numbers: Numbers) -> Iterator[Table]:
    columns = ("Median", "Interquartile range", "Deviation (MAD)", "Coefficient of variation")
    made = table("One submission, judged repeatedly", "Quantity", *columns, "", right=columns)
    ratios = [one["ratio"]["value"] for one in numbers]
    means_us, medians_us = ([one[key] for one in numbers] for key in ("mean_us", "median_us"))
    for name, values, form in (
        ("score: ratio to the anchor", ratios, _format_ratio),
        ("raw mean of the samples", means_us, format_us),
        ("raw median, for comparison", medians_us, format_us),
    ):
        made.add_row(name, form(median(values)), *map(format_percent, _spreads(values)), "")
    shares = [ours / raw if raw else math.nan for ours, raw in zip(_spreads(ratios), _spreads(means_us), strict=True)]
    claim = f"at most 0.50: {_holds(shares[0] <= 0.5)}"
    made.add_row("score's spread / raw mean's", "", *(f"{share:.2f}" for share in shares), claim)
    yield made
    null = _table_of_times("The judgings; the bound is the overhead of an empty window")
    bounds_us, halves = (
        [one["bound_us"] for one in numbers],
        [Interval(**one["ratio"]).log_half_width for one in numbers],
    )
    _add_row(null, "bound", bounds_us, format_us)
    _add_row(null, "bound / time", [b / m for b, m in zip(bounds_us, medians_us, strict=True)], format_percent)
    _add_row(null, "half-width of the ratio's interval", halves, format_percent)
    _add_row(null, "duration of a judging", [one["seconds"] for one in numbers], _format_seconds)
    yield null


def _honest_tables(numbers: Numbers) -> Iterator[Table]:
    columns = ("Rankings", "Accepted", "Void", "Refused", "Provisional", "Median interval", "Widest")
    made = table("Accepted examples, ranked", "Example", *columns, right=columns)
    beside = table("The void ones, ranked again beside the other work", "Example", *columns, right=columns)
    for shown, is_alone in ((made, True), (beside, False)):
        rankings = [one for one in numbers if one["needs_quiet"] is is_alone]
        for example in dict.fromkeys(one["example"] for one in rankings):
            _add_rankings(shown, example, [one for one in rankings if one["example"] == example])
        if rankings:
            _add_rankings(shown, "all", rankings)
            yield shown
    refused = [one for one in numbers if one["verdict"] not in _NOT_REFUSED]
    claims = table("", "Claim", "Measured", "", right=("Measured",))
    claims.add_row("no honest file is refused", f"{len(refused)} of {len(numbers)}", _holds(not refused))
    for one in refused:
        claims.add_row(f"{one['example']}: {one['verdict']}", one["message"], "")
    yield claims


def _add_rankings(made: Table, example: str, rankings: Numbers) -> None:
    verdicts = [one["verdict"] for one in rankings]
    ratios = [Interval(**one["ratio"]) for one in rankings if one["ratio"]]
    halves = [ratio.log_half_width for ratio in ratios]
    made.add_row(
        example,
        str(len(rankings)),
        str(verdicts.count("AC")),
        str(verdicts.count("void")),
        str(sum(verdict not in _NOT_REFUSED for verdict in verdicts)),
        str(sum(map(is_provisional, ratios))),
        f"±{format_percent(median(halves))}" if halves else "",
        f"±{format_percent(max(halves))}" if halves else "",
    )


def _table_of_times(title: str) -> Table:
    columns = ("Median", "Interquartile range", "Range")
    return table(title, "Quantity", *columns, right=columns)


def _add_row(made: Table, name: str, values: Sequence[float], form: Callable[[float], str]) -> None:
    middle, whole = (" to ".join(map(form, ends)) for ends in (quartiles(values), (min(values), max(values))))
    made.add_row(name, form(median(values)), middle, whole)


def _format_ratio(ratio: float) -> str:
    return f"{ratio:.4f}"


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s"


def _spreads(values: Sequence[float]) -> tuple[float, float, float]:
    """Interquartile range and MAD deviation as fractions of the median, standard deviation as one of the mean."""
    low, high = quartiles(values)
    return (high - low) / median(values), _deviation(values) / median(values), pstdev(values) / fmean(values)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) < 2:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high


def _deviation(values: Sequence[float]) -> float:
    """The standard deviation, estimated from the median absolute deviation, so that a stall does not count."""
    middle = median(values)
    return 1.4826 * median([abs(value - middle) for value in values])


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a proportion: Wilson (1927)."""
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    middle = (hits + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(hits * (n - hits) / n + z * z / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def _holds(is_so: bool) -> str:
    return "holds" if is_so else "does not hold"
