"""Other work on the machine: a ranked judging waits until it ends, repeats disturbed runs, or is void."""

import itertools
import time

import pytest

from harness.processes.other_work import OtherWorkRule
from harness.records.errors import JudgeError
from harness.referee.machine import as_timed, read_machine
from harness.referee.orders import Deadline
from harness.rules import quiet
from harness.rules.phase import Phase
from harness.rules.quiet import MAX_OWN_REPEATS, MAX_REPEATS, Quiet


def quiet_of(*shares):
    """A `Quiet` that measures these shares of a core, in order."""
    return Quiet(iter(shares).__next__, ("anchor",))


def test_a_run_begins_when_other_work_has_ended():
    heard = itertools.chain([0.9, 0.4, 0.05], itertools.repeat(1.0))
    Quiet(heard.__next__, ()).wait()
    assert next(heard) == 1.0, "it must not wait longer than needed"


def test_the_judgement_says_how_long_the_judge_waited(monkeypatch):
    monkeypatch.setattr(quiet, "_PAUSE_S", 0.6)
    reports = []
    waiting = quiet_of(0.9, 0.4, 0.3, 0.05, 0.0, 0.9, 0.0)
    are_long = [waiting.wait(lambda: reports.append(waiting.waited_s)) for _ in range(3)]
    assert are_long == [True, False, False] and len(reports) == 1
    assert 2.4 <= waiting.waited_s < 3.6
    machine = read_machine()
    assert "The judge waited 2 s for idle cores." in as_timed(machine, [], waited_s=1.8).note
    assert as_timed(machine, [], waited_s=0.9).note == machine.note


def test_a_judging_is_void_after_waiting_too_long_in_all(monkeypatch):
    monkeypatch.setattr(quiet, "PATIENCE_IN_ALL_S", 2.0)
    waiting = quiet_of(*[0.5] * 4, 0.0, 0.0, *[0.5] * 100)
    for _ in range(2):
        waiting.wait()
    with pytest.raises(
        JudgeError, match="other work takes 50% of a core: times disturbed by other work cannot be ranked"
    ):
        waiting.wait()


def test_a_judging_is_void_if_other_work_never_ends(monkeypatch):
    monkeypatch.setattr(quiet, "PATIENCE_S", 0.2)
    with pytest.raises(JudgeError, match="other work takes 90% of a core"):
        quiet_of(*[0.9] * 100).wait()


def test_a_machine_that_is_never_idle_ranks_beside_other_work_after_a_short_wait(monkeypatch):
    monkeypatch.setattr(quiet, "SHORT_PATIENCE_S", 0.4)
    monkeypatch.setattr(quiet, "SHORT_PATIENCE_IN_ALL_S", 1.0)
    waiting = Quiet(itertools.repeat(0.9).__next__, ("anchor",), OtherWorkRule.AVOID)
    start = time.monotonic()
    for _ in range(10):
        waiting.wait()
    assert 1.0 <= waiting.waited_s <= time.monotonic() - start < 3
    anchors = [waiting.must_repeat(0.9, "anchor", "size=4") for _ in range(MAX_OWN_REPEATS + 3)]
    assert anchors == [True] * MAX_OWN_REPEATS + [False] * 3
    files = [waiting.must_repeat(0.9, "submission", "size=4") for _ in range(MAX_REPEATS + 3)]
    assert files == [True] * MAX_REPEATS + [False] * 3
    assert waiting.repeats == MAX_OWN_REPEATS + MAX_REPEATS


def test_an_undisturbed_run_counts():
    assert not quiet_of().must_repeat(0.1, "anchor", "size=4")


def test_a_submission_repeats_only_a_few_disturbed_runs_of_each_benchmark():
    files = quiet_of()
    first, second = (
        [files.must_repeat(0.5, "submission", case) for _ in range(MAX_REPEATS + 3)] for case in ("size=4", "size=8")
    )
    assert first == second == [True] * MAX_REPEATS + [False] * 3
    assert files.repeats == 2 * MAX_REPEATS


def test_only_the_judges_own_runs_are_repeated_if_a_call_stalled():
    """A file could choose which of its runs count: those in which it does not stall on purpose."""
    assert not quiet_of().must_repeat(0.0, "submission", "size=4", stalls=True)
    anchors = quiet_of()
    assert all(anchors.must_repeat(0.0, "anchor", "size=4", stalls=True) for _ in range(MAX_OWN_REPEATS))
    with pytest.raises(JudgeError, match=r"^a call stalled during a run of the anchor"):
        anchors.must_repeat(0.0, "anchor", "size=4", stalls=True)


def test_a_disturbed_run_of_the_anchor_never_counts():
    anchors = quiet_of()
    assert all(anchors.must_repeat(0.2, "anchor", f"size={number}") for number in range(MAX_OWN_REPEATS))
    with pytest.raises(JudgeError, match="other work took 20% of a core during a run of the anchor"):
        anchors.must_repeat(0.2, "anchor", "size=4")


def test_a_run_that_does_not_count_uses_no_time_of_its_phase():
    phase = Phase("the benchmarks", Deadline.of(100, 1))
    phase.charge("submission", 60)
    left_s = phase.deadline.phase_ends - time.monotonic()
    undo = phase.checkpoint()
    time.sleep(0.2)
    phase.charge("submission", 30)
    phase.deadline.phase_ends += 50  # time of an import, or of other programs
    undo()
    assert phase.deadline.phase_ends - time.monotonic() == pytest.approx(left_s, abs=0.1)
    phase.charge("anchor", 1)
    assert phase._running_s == {"submission": 60, "anchor": 1}
