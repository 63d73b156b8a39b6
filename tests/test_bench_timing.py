"""The benchmarks of times and duels: statistics, tables, and interruptions, which lose nothing."""

import json
from io import StringIO

import pytest
from rich.console import Console

from benchmarks.timing import Raw
from benchmarks.timing_tables import tables_of, wilson

BLOCKS = [[90.0, 100.0]] * 8
DUEL = {"ratio": {"value": 0.9, "low": 0.88, "high": 0.92}, "blocks_us": BLOCKS, "seconds": 3.0, "again": False}
LOST = {**DUEL, "ratio": {"value": 1.1, "low": 1.05, "high": 1.2}}
JUDGING = {"ratio": {"value": 0.9, "low": 0.88, "high": 0.92}, "median_us": 90.0, "bound_us": 9.0, "seconds": 8.0}


def shown(part, numbers):
    file = StringIO()
    for table in tables_of(part, numbers):
        Console(file=file, width=160).print(table)
    return file.getvalue()


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 200, 0, 0.01885), (5, 200, 0.01072, 0.05720), (200, 200, 0.98115, 1), (1, 2, 0.09453, 0.90547)],
)
def test_the_interval_of_a_share_is_the_wilson_interval(hits, n, low, high):
    assert wilson(hits, n) == pytest.approx((low, high), abs=1e-4)


def test_the_table_compares_wins_of_both_sides_with_the_claim():
    assert "does not hold" not in shown("power", [DUEL])
    assert "does not hold" in shown("power", [DUEL, LOST])
    assert "does not hold" in shown("aa", [DUEL])
    assert "2 of 3" in shown("power", [DUEL, LOST, DUEL])


def test_a_void_duel_is_won_by_neither_side():
    void = {"ratio": None, "seconds": 9.0, "message": "other work", "again": False}
    assert "1 of 40" in shown("aa", [DUEL] + [void] * 39)
    assert "does not hold" not in shown("aa", [DUEL] + [void] * 39)
    assert "39 of 40" in shown("aa", [DUEL] + [void] * 39)
    assert "The duels" not in shown("aa", [void])
    text = shown("aa", [void, {**LOST, "again": True}, void, {**DUEL, "again": True}])
    assert "0 of 2" in text and "1 of 2" in text and "2 of 2" in text


def test_the_spread_claim_needs_scores_half_as_spread_as_raw_means():
    def judgings(*means_us):
        ratios = [{"value": value, "low": value, "high": value} for value in (0.99, 1.0, 1.01)]
        return [{**JUDGING, "ratio": r, "mean_us": mean_us} for r, mean_us in zip(ratios, means_us, strict=True)]

    assert "at most 0.50: holds" in shown("spread", judgings(90, 100, 110))
    assert "at most 0.50: does not hold" in shown("spread", judgings(99, 100, 101))


def test_the_cost_table_separates_call_cost_from_data_rate():
    numbers = [
        {"bytes": 4096, "call_us": 200.0, "windows_us": [50.0]},
        {"bytes": 4096 + 10**7, "call_us": 200.0 + 6000, "windows_us": [60.0]},
    ]
    assert "5.0 GB/s  holds" in shown("cost", numbers)
    assert "200.0 µs  holds" in shown("cost", numbers)
    assert "200.0 µs  holds" in shown("cost", numbers[:1])


def test_the_table_of_a_short_kernel_counts_the_intervals_with_the_median_ratio():
    def judging(value, half):
        of_pairs = {"value": value, "low": value - half, "high": value + half}
        of_all = {"value": value, "low": value, "high": value}
        return {"ratios": {"pairs": of_pairs, "all": of_all}, "time_us": 50, "overhead_us": 45, "seconds": 2}

    of_pairs, of_all = shown("short", [judging(0.25, 0.01), judging(0.24, 0.02), judging(0.28, 0.01)]).splitlines()[2:4]
    assert "0.2500" in of_pairs and of_pairs.endswith("2 of 3")
    assert "0.2500" in of_all and of_all.endswith("1 of 3")


def test_the_honest_table_counts_void_refused_and_provisional_rankings():
    def ranking(verdict, half=0.0, *, needs_quiet=True):
        ratio = {"value": 1.0, "low": 1 - half, "high": 1 + half} if verdict == "AC" else None
        return {
            "example": "sort/a.py",
            "verdict": verdict,
            "message": "too slow",
            "needs_quiet": needs_quiet,
            "ratio": ratio,
        }

    wide, narrow, void = ranking("AC", 0.2), ranking("AC", 0.05), ranking("void")
    text = shown("honest", [wide, narrow, void, ranking("AC", 0.3, needs_quiet=False)])
    assert "0 of 4  holds" in text
    alone, beside = (line.split() for line in text.splitlines() if line.startswith("all "))
    assert alone == ["all", "3", "2", "1", "0", "1", "±12.6", "%", "±20.3", "%"]
    assert beside[:6] == ["all", "1", "1", "0", "0", "1"]
    assert "does not hold" in (refused := shown("honest", [narrow, ranking("TLE")]))
    assert "sort/a.py: TLE" in refused


def test_each_measurement_is_written_to_the_file_at_once(tmp_path):
    out = tmp_path / "raw.json"
    raw = Raw(out, {"cpu": "a sample"})
    for seconds in (1.0, 2.0):
        raw.add("aa", seconds=seconds)
        assert json.loads(out.read_text())["aa"][-1]["seconds"] == seconds
    assert json.loads(out.read_text())["machine"] == {"cpu": "a sample"}
    assert list(tmp_path.iterdir()) == [out]
