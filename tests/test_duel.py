"""Duels: two files played against each other for real, the side to blame for an error, and the messages.

The two files differ so much, or are so wrong, that noise of the machine does not matter.
"""

import json
import re
import time
from dataclasses import replace
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
from harness.sandbox.works_here import find_faults
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.commands.duel import common_board, decision, facts, show

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
    assert found["decision"].startswith("B is faster: speedup ") and found["faster"] == "B"


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
    said = facts(found)
    assert (said["cases"], said["ratio"], said["faster"]) == ([], None, None)
    assert said["decision"] == "No decision: A got WA and B got CE."


@pytest.mark.parametrize(("a", "b", "verdicts"), [(RIGHT_AT_FIRST, GOOD, "WA AC"), (GOOD, RIGHT_AT_FIRST, "AC WA")])
def test_every_output_of_a_duel_is_checked_and_the_wrong_side_named(board, a, b, verdicts):
    found = dueled(board, a, b)
    assert [found.a.verdict, found.b.verdict] == verdicts.split()
    assert found.duel is None
    wrong = found.a if found.a.verdict is Verdict.WRONG_ANSWER else found.b
    assert wrong.benchmarks[0].params == board.benchmarks[0].params
    assert "expected" in wrong.message


def test_a_champion_whose_warm_ups_leave_no_time_for_more_blocks_loses(board, monkeypatch):
    """They take 4 s in a block, and may take 6 s in two blocks."""
    monkeypatch.setattr("harness.rules.duel.LONGEST_EXTENDED_DUEL_S", 6.0)
    monkeypatch.setattr("harness.referee.sampling.is_decided", lambda _: False)
    monkeypatch.setattr(DuelTime, "allows", lambda *_: True)
    found = dueled(board, GOOD, SLOW_WARM_UPS, looks=(1, 2))
    assert (found.a.verdict, found.b.verdict) == (Verdict.ACCEPTED, Verdict.TIME_LIMIT_EXCEEDED)
    assert re.search(r"Its warm-ups took \d+ s longer than the challenger's: too long for a duel", found.b.message)


def test_a_challenger_with_slow_warm_ups_only_shortens_the_duel(board, monkeypatch):
    monkeypatch.setattr("harness.rules.duel.LONGEST_EXTENDED_DUEL_S", 6.0)
    monkeypatch.setattr("harness.referee.sampling.is_decided", lambda _: False)
    found = dueled(board, SLOW_WARM_UPS, GOOD, looks=(1, 2))
    assert (found.a.verdict, found.b.verdict) == (Verdict.ACCEPTED, Verdict.ACCEPTED)
    assert found.duel.cases[0].blocks == 1


@pytest.mark.parametrize(
    ("phase_s", "imports", "unscored", "is_allowed"),
    [
        (90, {"A": 50, "B": 50}, {"A": 20, "B": 20}, True),
        (110, {"A": 50, "B": 50}, {"A": 20, "B": 20}, False),
        (90, {"A": 200, "B": 200}, {}, False),
        (110, {"A": 50, "B": 50}, {"A": 20, "B": 40}, True),
        (90, {"A": 50, "B": 400}, {}, True),
        (400, {}, {"B": 320}, True),
        (110, {}, {"A": 40}, False),
    ],
)
def test_what_a_champion_takes_beyond_the_challenger_does_not_shorten_a_duel(phase_s, imports, unscored, is_allowed):
    """Twice as many blocks, in a phase of 200 s and a duel of 900 s."""
    assert duel_time(phase_s, imports, unscored).allows(2, 200) is is_allowed


@pytest.mark.parametrize(("b_s", "is_allowed"), [(480, True), (520, False)])
def test_the_excess_of_a_champions_imports_has_a_limit_of_its_own(b_s, is_allowed):
    assert duel_time(90, {"A": 50, "B": b_s}, {"B": 1000}).allows_imports(2) is is_allowed


def test_the_excess_of_a_champions_warm_ups_has_a_limit_of_its_own():
    duel_time(90, {"B": 1000}, {"A": 50, "B": 480}).require_warm_ups(2)
    with pytest.raises(Foul, match="Its warm-ups took 470 s longer than the challenger's"):
        duel_time(90, {}, {"A": 50, "B": 520}).require_warm_ups(2)


def duel_time(phase_s, imports, unscored):
    """A duel of A with the champion B in which these seconds have passed."""
    phase = Phase("the duel", Deadline(phase_s=1000, phase_ends=time.monotonic() + 1000 - phase_s, call_s=1))
    phase.importing_s.update(imports)
    phase.unscored_s.update(unscored)
    return DuelTime(phase, "A", "B")


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


def test_a_duel_without_a_winner_names_none(slow_against_good):
    (case,) = slow_against_good.duel.cases
    case = case.model_copy(update={"champion": case.challenger})
    ratio = Interval(low=0.98, value=1.01, high=1.04)
    even = slow_against_good.duel.model_copy(update={"ratio": ratio, "cases": (case,)})
    found = replace(slow_against_good, duel=even)
    file = StringIO()
    show(found, (Path("slow.py"), Path("good.py")), Console(file=file, width=120))
    assert re.search(r"1\.000× to 1\.000× +– *\n", file.getvalue())
    assert facts(found)["faster"] is None


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


@pytest.mark.parametrize(
    ("a", "b", "board"),
    [("T4 H100", "H100 L4", "H100"), ("T4 H100", "", "T4"), ("", "H100 T4", "H100"), ("", "", "CPU")],
)
def test_a_duel_is_played_on_the_first_board_that_both_files_name(a, b, board):
    files = {
        Path(f"{name}.py"): Submission(login=name, source=f"#!POPCORN gpus {gpus}\n".encode() if gpus else b"")
        for name, gpus in (("a", a), ("b", b))
    }
    assert common_board(files, "vectoradd", None, None).gpu == board
