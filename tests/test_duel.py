"""Duels: two files played against each other for real, the side to blame for an error, and the messages.

The two files differ so much, or are so wrong, that noise of the machine does not matter.
"""

import json
import re
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from harness.judge import DuelResult, duel
from harness.records.judgement import Judgement
from harness.records.stats import DUEL_LOOKS, Interval
from harness.records.verdict import Foul, Verdict
from harness.referee.orders import Deadline, Orders
from harness.referee.sampling import WARMUPS
from harness.rules.duel import DuelTime
from harness.rules.phase import OutOfTime, Phase, SideFoul
from harness.sandbox.sandbox import find_faults
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.commands.duel import decision, facts, show

pytestmark = pytest.mark.usefixtures("shared_sandbox")
TINY = Path(__file__).parent / "tasks" / "tiny"
GOOD = "def custom_kernel(data):\n    return data + 1\n"
SLOW = "import time\ndef custom_kernel(data):\n    time.sleep(0.01)\n    return data + 1\n"
WRONG = "def custom_kernel(data):\n    return data\n"
SLOW_WARM_UPS = "import time\ncalls = 0\ndef custom_kernel(data):\n    global calls\n    calls += 1\n"
SLOW_WARM_UPS += f"    if calls <= {WARMUPS}: time.sleep(0.5)\n    return data + 1\n"
RIGHT_AT_FIRST = (
    "calls = []\ndef custom_kernel(data):\n    calls.append(None)\n    return data + 1 if len(calls) < 6 else data\n"
)


@pytest.fixture(scope="module")
def board():
    return load_task(TINY).board("CPU")


def submission(source):
    return Submission(login="sample", source=source.encode())


def dueled(board, a, b, **options) -> DuelResult:
    return duel(board, submission(a), submission(b), **{"sandbox": "none"} | options)


@pytest.fixture(scope="module")
def slow_against_good(board):
    return dueled(board, SLOW, GOOD, sandbox="none" if find_faults() else "bubblewrap")


def test_a_duel_names_the_faster_of_two_files(slow_against_good):
    found = slow_against_good
    assert (found.a.verdict, found.b.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert found.duel.ratio.low > 1
    assert not found.duel.won
    assert decision(found.duel.ratio).startswith("B is faster: speedup ")


def test_a_duel_is_played_in_mirrored_blocks_with_seeds_that_never_repeat(slow_against_good):
    (case,) = slow_against_good.duel.cases
    assert [run.order for run in case.challenger] == [4 * b + place for b in range(case.blocks) for place in (0, 3)]
    assert [run.order for run in case.champion] == [4 * b + place for b in range(case.blocks) for place in (1, 2)]
    seeds = [seed for run in case.challenger + case.champion for seed in run.seeds]
    assert len(set(seeds)) == len(seeds)


def test_a_duels_json_has_both_judgements_every_sample_and_the_decision(slow_against_good):
    found = json.loads(json.dumps(facts(slow_against_good)))
    assert Judgement.from_json(json.dumps(found["a"])).verdict is Verdict.ACCEPTED
    (case,) = found["cases"]
    assert case["ratio"]["value"] == pytest.approx(found["ratio"]["value"])
    assert case["a_us"] > case["b_us"]
    assert len(case["a"]) == len(case["b"]) == 2 * DUEL_LOOKS[0]
    assert found["decision"].startswith("B is faster: speedup ")


def test_a_duels_table_shows_times_speedup_and_decision(slow_against_good):
    file = StringIO()
    show(slow_against_good, (Path("slow.py"), Path("good.py")), Console(file=file, width=120))
    shown = file.getvalue()
    speedup = r"[\d,]+\.\d\d×"
    assert re.search(rf"size: 1000, seed: 13 +\d.* [µm]s +\d.* [nµm]s +{speedup} +{speedup} to {speedup} +B", shown)
    assert re.search(rf"B is faster: speedup {speedup}, 95 % interval {speedup} to {speedup}\.", shown)


def test_files_that_fail_their_tests_are_reported_and_not_dueled(board):
    found = dueled(board, WRONG, "def custom_kernel(data:\n")
    assert (found.a.verdict, found.b.verdict) == (Verdict.WRONG_ANSWER, Verdict.COMPILE_ERROR)
    assert len(found.a.tests) == len(board.tests)
    assert found.duel is None
    assert "ratio" not in facts(found)


@pytest.mark.parametrize(("a", "b", "verdicts"), [(RIGHT_AT_FIRST, GOOD, "WA AC"), (GOOD, RIGHT_AT_FIRST, "AC WA")])
def test_every_output_of_a_duel_is_checked_and_the_wrong_side_named(board, a, b, verdicts):
    found = dueled(board, a, b)
    assert [found.a.verdict, found.b.verdict] == verdicts.split()
    assert found.duel is None
    wrong = found.a if found.a.verdict is Verdict.WRONG_ANSWER else found.b
    assert wrong.benchmarks[0].params == board.benchmarks[0].params
    assert "expected" in wrong.message


def test_a_champion_that_leaves_no_time_for_more_blocks_loses(board, monkeypatch):
    """Its warm-ups take 4 s in a block, and may take 6 s in two blocks."""
    monkeypatch.setattr("harness.rules.duel.LONGEST_EXTENDED_DUEL_S", 6.0)
    monkeypatch.setattr("harness.referee.sampling.is_decided", lambda _: False)
    monkeypatch.setattr(DuelTime, "leaves_time", lambda *_: True)
    found = dueled(board, GOOD, SLOW_WARM_UPS, looks=(1, 2))
    assert (found.a.verdict, found.b.verdict) == (Verdict.ACCEPTED, Verdict.TIME_LIMIT_EXCEEDED)
    assert re.search(
        r"imports and warm-ups took [4-9] s longer than the challenger's: too long for a duel", found.b.message
    )


def test_a_challenger_with_slow_warm_ups_only_shortens_the_duel(board, monkeypatch):
    monkeypatch.setattr("harness.rules.duel.LONGEST_EXTENDED_DUEL_S", 6.0)
    monkeypatch.setattr("harness.referee.sampling.is_decided", lambda _: False)
    found = dueled(board, SLOW_WARM_UPS, GOOD, looks=(1, 2))
    assert (found.a.verdict, found.b.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert found.duel.cases[0].blocks == 1


@pytest.mark.parametrize(
    ("phase_s", "all_s", "excess_s", "leaves_time", "is_drawn_out"),
    [
        (90, 400, (0, 0), True, False),
        (110, 400, (0, 0), False, False),
        (90, 500, (0, 0), False, False),
        (110, 400, (0, 20), True, False),
        (90, 500, (60, 0), True, False),
        (90, 900, (460, 0), True, True),
        (530, 900, (0, 460), True, True),
    ],
)
def test_what_a_champion_takes_beyond_the_challenger_does_not_shorten_a_duel(
    phase_s, all_s, excess_s, leaves_time, is_drawn_out
):
    """Twice as many blocks, in a phase of 200 s and a duel of 900 s."""
    spent = DuelTime(phase_s=phase_s, all_s=all_s, excess_s=excess_s)
    assert (spent.leaves_time(2, 200), spent.is_drawn_out(2)) == (leaves_time, is_drawn_out)


def test_only_what_takes_longer_than_the_others_is_an_excess(over):
    over.add_unscored("B", 3)
    over.add_unscored("B", 4)
    over.add_unscored("A", 2)
    assert over.excess_s("B", "A") == (0, 5)
    assert over.excess_s("A", "B") == (0, 0)


@pytest.fixture
def over():
    """A phase of 10 seconds that has just ended."""
    return Phase("the duel", Deadline(phase_s=10, phase_ends=time.monotonic() - 1, call_s=1))


def end(phase, case, side, running_s, verdict=Verdict.TIME_LIMIT_EXCEEDED):
    """One side's run ends in a foul, after this many seconds in its windows."""
    orders = Orders(None)
    orders.running_s = running_s
    with phase.attribute_to(side, case, orders):
        raise Foul(verdict, "what it did")


def test_a_phase_drawn_out_by_one_side_is_that_sides_fault(over, board):
    (case,) = board.benchmarks
    with pytest.raises(SideFoul) as caught:
        end(over, case, "B", 6)
    assert (caught.value.side, caught.value.case) == ("B", case)
    assert caught.value.foul.message == "It took most of the 10 s allowed for the duel."
    with pytest.raises(SideFoul) as caught:
        end(over, case, "A", 1)
    assert caught.value.side == "B"


def test_time_spent_ending_a_sides_processes_counts_against_that_side(over, board):
    over.charge("A", 3)
    over.charge("A", 3)
    with pytest.raises(SideFoul) as caught:
        end(over, board.benchmarks[0], "B", 1)
    assert (caught.value.side, caught.value.foul.verdict) == ("A", Verdict.TIME_LIMIT_EXCEEDED)


def test_a_slow_phase_that_neither_side_caused_blames_the_machine(over, board):
    for side in "AB":
        with pytest.raises(OutOfTime, match="the duel took more than 10 s on this machine"):
            end(over, board.benchmarks[0], side, 4)


def test_a_foul_other_than_time_is_the_playing_sides_fault(over, board):
    with pytest.raises(SideFoul) as caught:
        end(over, board.benchmarks[0], "A", 0, Verdict.WRONG_ANSWER)
    assert (caught.value.side, caught.value.foul.message) == ("A", "what it did")


@pytest.mark.parametrize(
    ("low", "value", "high", "said"),
    [
        (0.85, 0.877, 0.9, "A is faster: speedup 1.14×, 95 % interval 1.11× to 1.18×."),
        (1 / 0.9, 1 / 0.877, 1 / 0.85, "B is faster: speedup 1.14×, 95 % interval 1.11× to 1.18×."),
        (0.97, 0.98, 1.0, "No difference found: the 95 % interval of A's speedup, 1.000× to 1.031×, includes 1."),
        (0.98, 1.01, 1.04, "No difference found: the 95 % interval of B's speedup, 0.980× to 1.040×, includes 1."),
        (0.992, 0.994, 0.996, "No difference found: A's speedup, 1.006×, is below the 1 % that counts."),
        (1.004, 1.006, 1.008, "No difference found: B's speedup, 1.006×, is below the 1 % that counts."),
    ],
)
def test_a_duels_decision_is_worded_the_same_for_both_sides(low, value, high, said):
    assert decision(Interval(low=low, value=value, high=high)) == said
