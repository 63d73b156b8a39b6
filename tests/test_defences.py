"""The most important defences: with only one of them turned off, an attack that it stops succeeds.

    tests/exploits/<attack>.py    judged on the task of all exploits; `test_exploits` shows that all defences together
                                       stop each of them
    tests/defences/<attack>.py    judged on `tests/defences/task`, where most of the output is always the same

Each is turned off in the judge itself: on the referee's side by replacing a method, on the player's by changing a line
of the code in the sandbox.  Success does not depend on a quiet machine: the judge accepts wrong output or a fraction of
the honest time, or the attack works before its call, or reads, keeps, blocks or leaves behind something that it must
not.  Players are stopped by signals here, which every machine has.
"""

import contextlib
import errno
import json
import math
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.gpu import cpu
from harness.judge import judge
from harness.processes import freezer
from harness.processes.other_work import cpu_ns_of
from harness.records import times
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.stats import median, trimmed_mean
from harness.records.verdict import Verdict
from harness.referee.host_memory import HostMemory
from harness.referee.orders import Deadline, Orders
from harness.referee.referee import Referee
from harness.reference import checker, values
from harness.rules.context import Context
from harness.sandbox import bubblewrap
from harness.sandbox.health import Health
from harness.sandbox.player_handle import PlayerHandle
from harness.sandbox.sandbox import Sandbox
from harness.task.submission import read_submission
from harness.task.task import load_task

HERE = Path(__file__).parent
pytestmark = [pytest.mark.exploit, pytest.mark.walls]

FASTER = 0.6
"""Time is gained if an attack's ratio to the anchor is below this; on a busy machine its interval may be wide."""
TRIES = 5
"""The machine may be busy at the wrong moment, so an attack has to succeed only once."""
LINGER_S = 0.02
WORKED_S: list[float] = []
"""The CPU seconds that players used while the referee lingered, before any call."""
SHORT_S = 4.0
"""The seconds of a phase that a few slow ends use up."""
LARGE_BYTES = 32 << 20
"""An output of this size is one that `abuse_gaps_in_the_output` has spread."""
PATIENCE = 10
"""An import in a short phase may take this many times as long: on a busy machine a hundred forks take seconds."""
ENDS_S: list[float] = []
GROUPS: list[str] = []
"""The priority of the session of all players, after each of them."""
BLOCKED_S = 5.0
"""A judge that waits this long for a call that may take two seconds waits for ever."""


class Blocked(BaseException):
    """The judge was blocked until the test freed it.  No code of the judge catches this."""


# ---------------------------------------------------------------------- successes of an attack


def gets_accepted(outcome):
    return isinstance(outcome, Judgement) and outcome.verdict is Verdict.ACCEPTED


def gains_time(outcome):
    """Its fastest run beats the anchor's fastest.  A busy machine makes runs slower, never faster."""
    if not gets_accepted(outcome):
        return False
    timing = outcome.benchmarks[0].timing
    ours, anchors = (min(run.time_us for run in runs) for runs in (timing.submission, timing.anchor))
    return ours < FASTER * anchors


def works_before_the_window(outcome):
    """A player used CPU time before its call.  Unlike times, this does not depend on how busy the machine is."""
    return gets_accepted(outcome) and max(WORKED_S) > 0.0005


def reads_files_of_the_host(outcome):
    """The attack prints how many it could read."""
    return isinstance(outcome, Judgement) and outcome.log[:1] not in ("", "0")


def rests_for_nothing(outcome):
    """Two calls of ten took 0.1 s and longer, and the times of most runs do not show it."""
    if not gets_accepted(outcome):
        return False
    runs = outcome.benchmarks[0].timing.submission
    assert all(sorted(run.samples_us)[-2] > 99_000 for run in runs)
    return median([run.time_us / median(run.samples_us) for run in runs]) < 1.15


def lowers_all_players(outcome):
    """The session of all players, and of the anchor's, has the least share of a busy core from now on."""
    return gets_accepted(outcome) and GROUPS[-1].endswith("nice 19\n")


def keeps_its_memory(outcome):
    """The referee checked its output, although it held 1.5 times as much memory as it may."""
    return isinstance(outcome, Judgement) and outcome.verdict is Verdict.WRONG_ANSWER


def outlives_its_player(outcome):
    """The judge can only notice this afterwards."""
    return isinstance(outcome, JudgeError) and "still run" in str(outcome)


def spoils_the_judging(outcome):
    """The judge blames no submission, so the judging would be repeated."""
    return isinstance(outcome, JudgeError) and "changed the cache" in str(outcome)


def ends_as_ours(outcome):
    """The judge blames no submission, so the judging is repeated and costs the attacker nothing."""
    return isinstance(outcome, JudgeError) and (
        "no submission is to blame" in str(outcome) or "cannot access" in str(outcome)
    )


def holds_the_machine(outcome):
    """The kernel took more than a second to end one of its players; with more locks, it would take hours."""
    return isinstance(outcome, Judgement) and max(ENDS_S) > 1


def breaks_the_judge(outcome):
    return isinstance(outcome, JudgeError) and "ran out of memory" in str(outcome)


def blocks_the_judge(outcome):
    return isinstance(outcome, Blocked)


# ---------------------------------------------------------------------- how a defence is turned off


def one_seed_for_all_calls(patch):
    patch.setattr(Context, "seed", lambda _: 102)


def check_the_first_output_only(patch):
    calls = Referee.calls

    def check_one(self, params, seeds, deadline, *, checked=True, **rest):
        first = calls(self, params, seeds[:1], deadline, checked=checked, **rest)
        return first + calls(self, params, seeds[1:], deadline, checked=False)

    patch.setattr(Referee, "calls", check_one)


def check_against_the_players_inputs(patch):
    play = HostMemory.play

    def play_and_read_inputs(self, inputs, deadline, **rest):
        played = play(self, inputs, deadline, **rest)
        for tensor, address in zip(inputs[0].tensors, self._addresses, strict=True):
            cpu.read_memory(self.orders.player.pid, address, tensor.data_ptr(), values.span_bytes(tensor))
        return played

    patch.setattr(HostMemory, "play", play_and_read_inputs)


def compare_whatever_broadcasts(patch):
    patch.setattr(checker, "mismatch", lambda *_: "")


def leave_the_last_output_alone(patch):
    patch.setattr(HostMemory, "_poison_output", lambda _: None)


def believe_any_size(patch):
    patch.setattr(values, "_SLACK_BYTES", 1 << 62)
    patch.setattr(values, "ran_out", lambda _: False)


def believe_the_players_clock(patch):
    kernel = 'self.output = self.kernel(self._build(self.tree, command["scalars"][0], self.views[0]))'
    answer = """return b'{"is":"done","output":%s}' % describe(self.output).encode()"""
    timed = """return b'{"is":"done","ns":%d,"output":%s}' % (took, describe(self.output).encode())"""
    changes = {
        "import traceback\n": "import time\nimport traceback\n",
        f"{kernel}\n        {answer}": (
            f"start = time.perf_counter_ns(); {kernel}\n        took = time.perf_counter_ns() - start; {timed}"
        ),
    }
    change_inside(patch, "player.py", changes)
    read, open_window, said = PlayerHandle.read, Orders.open_window, {}

    def read_with_time(self, packet):
        answer = json.loads(packet)
        said["us"] = answer.pop("ns", 0) / 1e3
        return read(self, json.dumps(answer).encode())

    def believe(self, order, deadline):
        _, answer = open_window(self, order, deadline)
        return said["us"], answer

    patch.setattr(PlayerHandle, "read", read_with_time)
    patch.setattr(Orders, "open_window", believe)


def never_stop_the_player(patch):
    linger_before_the_window(patch)
    patch.setattr(PlayerHandle, "stop", lambda _: None)
    patch.setattr(PlayerHandle, "resume", lambda _: None)


def allow_all_system_calls(patch):
    linger_before_the_window(patch)
    change_inside(patch, "inner_sandbox.py", {"    seccomp.install(has_loopback=setup.has_loopback)\n": ""})


def linger_before_the_window(patch):
    """As a slow referee might, so that an attack that uses this time need not hit the right moment."""
    reveal = HostMemory.reveal

    def reveal_and_linger(self, flat, deadline):
        reveal(self, flat, deadline)
        before = used_s(self.orders.player.pid)
        time.sleep(LINGER_S)
        WORKED_S.append(used_s(self.orders.player.pid) - before)

    patch.setattr(HostMemory, "reveal", reveal_and_linger)


def used_s(pid):
    """The CPU time of a process in seconds; 0 if it has ended."""
    return sum(cpu_ns_of([pid])) / 1e9


def share_one_process_namespace(patch):
    """Then the end of a player ends only those of its processes that the judge knows of."""

    def kill(self):
        known = [self._keeper, *freezer.descendants(self._keeper)]
        for pid in known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        freezer.await_end(known)

    change_inside(patch, "inner_sandbox.py", {"_NEW_MOUNT | _NEW_IPC | _NEW_PID": "_NEW_MOUNT | _NEW_IPC"})
    patch.setattr(PlayerHandle, "_kill", kill)


def show_the_hosts_settings(patch):
    command = bubblewrap._player_command

    def without_mount(*about):
        arguments = command(*about)
        first = arguments.index("--ro-bind")
        return [*arguments[:first], "--ro-bind", "/etc", "/etc", *arguments[first:]]

    patch.setattr(bubblewrap, "_player_command", without_mount)


def ignore_slow_calls(patch):
    patch.setitem(times._ESTIMATES, "tapered mean", trimmed_mean)


def let_players_write_to_proc(patch):
    read_group = Health._read_group

    def read_and_keep(self):
        GROUPS.append(read_group(self))
        return ""

    change_inside(patch, "inner_sandbox.py", {" | (0 if has_device else _READ_ONLY))": ")"})
    patch.setattr(Health, "_read_group", read_and_keep)


def leave_caches_as_they_are(patch):
    change_inside(patch, "inner_sandbox.py", {"    _fill_holes(os.path.join(folder, FILES))\n": "    return\n"})


def allow_locks_of_open_files(patch):
    change_inside(patch, "seccomp.py", {"10, 15, 37, 38, 1024": "10, 15, 1024"})
    close = PlayerHandle.close

    def close_and_tell(self, *about, **options):
        close(self, *about, **options)
        ENDS_S.append(self.extra_s)

    patch.setattr(PlayerHandle, "close", close_and_tell)


def forget_how_long_a_player_took_to_end(patch):
    shorten_phases(patch)
    patch.setattr(PlayerHandle, "extra_s", property(lambda _: 0.0, lambda *_: None), raising=False)


def take_the_time_of_gaps_for_ours(patch):
    shorten_phases(patch)
    read_slowly(patch)
    patch.setattr(HostMemory, "_counting_gaps", lambda *_: contextlib.nullcontext())


def read_slowly(patch):
    """Let the referee take long to read large outputs, however fast this machine is."""
    read = cpu.read_memory

    def read_memory(pid, address, target, length):
        time.sleep(0.1 * (length > LARGE_BYTES))
        return read(pid, address, target, length)

    patch.setattr(cpu, "read_memory", read_memory)


def shorten_phases(patch):
    phase = Context.phase
    patch.setattr(Context, "phase", lambda self, name, *_, **__: phase(self, name, SHORT_S, PATIENCE))


def take_a_hidden_process_for_a_fault_of_ours(patch):
    judge_without_rights(patch)
    patch.setattr(PlayerHandle, "hides_its_memory", False)


def judge_without_rights(patch):
    """As if the judge were not root, and could not inspect a process that hides its memory."""

    def refuse(move):
        def moved(pid, *about):
            if Path(f"/proc/{pid}/mem").stat().st_uid == 0:
                raise PermissionError(errno.EPERM, "Operation not permitted")
            move(pid, *about)

        return moved

    for name in ("read_memory", "write_memory"):
        patch.setattr(cpu, name, refuse(getattr(cpu, name)))


def look_away_from_memory(patch):
    patch.setattr(PlayerHandle, "check_memory", lambda _: None)


def wait_for_ever(patch):
    def next_call(*_):
        signal.setitimer(signal.ITIMER_REAL, BLOCKED_S)
        return math.inf, ""

    patch.setattr(Deadline, "next_call", next_call)


def change_inside(patch, module, changes):
    """Change a module that the sandbox copies; each of these texts must occur in it exactly once."""
    make_stage = Sandbox._make_stage

    def make_changed_stage(self):
        stage = make_stage(self)
        file = stage / "player" / "harness" / "inside" / module
        source = file.read_text()
        for text, instead in changes.items():
            assert source.count(text) == 1, f"{module} has changed: {text!r}"
            source = source.replace(text, instead)
        file.write_text(source)
        return stage

    patch.setattr(Sandbox, "_make_stage", make_changed_stage)


# ---------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Defence:
    name: str
    turn_off: Callable[[pytest.MonkeyPatch], None]
    attack: str
    succeeds: Callable[[object], bool]
    mode: Mode = Mode.TEST


TIMED = Mode.BENCHMARK
DEFENCES = [
    Defence("inputs are fresh and secret", one_seed_for_all_calls, "exploits/timing_super_batch", gets_accepted, TIMED),
    Defence("every output is checked", check_the_first_output_only, "exploits/mode_honest_at_first", gets_accepted, TIMED),
    Defence("the referee keeps the inputs", check_against_the_players_inputs, "exploits/output_changed_input", gets_accepted),
    Defence("shapes and dtypes are compared", compare_whatever_broadcasts, "exploits/output_broadcast_shape", gets_accepted),
    Defence("the last output is poisoned", leave_the_last_output_alone, "defences/zeros_of_last_time", gets_accepted),
    Defence("sizes are limited", believe_any_size, "exploits/output_beyond_all_memory", breaks_the_judge),
    Defence("the clock is the referee's", believe_the_players_clock, "exploits/timing_patched_clocks", gains_time, TIMED),
    Defence("players run in windows only", never_stop_the_player, "exploits/timing_peeker_with_a_timer", works_before_the_window, TIMED),
    Defence("seccomp keeps them stopped", allow_all_system_calls, "exploits/timing_peeker_with_a_timer", works_before_the_window, TIMED),
    Defence("nothing of a player survives", share_one_process_namespace, "exploits/timing_slow_the_anchor_with_a_survivor", outlives_its_player),
    Defence("only listed files are shown", show_the_hosts_settings, "exploits/system_files_of_the_host", reads_files_of_the_host),
    Defence("memory is watched", look_away_from_memory, "exploits/abuse_memory_of_no_process", keeps_its_memory),
    Defence("no locks of open files", allow_locks_of_open_files, "exploits/abuse_locks_for_its_end", holds_the_machine),
    Defence("the end of a player counts", forget_how_long_a_player_took_to_end, "exploits/abuse_family_for_its_end", ends_as_ours, TIMED),
    Defence("the time of gaps counts", take_the_time_of_gaps_for_ours, "exploits/abuse_gaps_in_the_output", ends_as_ours, TIMED),
    Defence("hidden memory is noticed", take_a_hidden_process_for_a_fault_of_ours, "exploits/tamper_unreadable_process", ends_as_ours),
    Defence("every call counts", ignore_slow_calls, "exploits/timing_slow_calls", rests_for_nothing, TIMED),
    Defence("/proc is read-only", let_players_write_to_proc, "defences/lowest_share", lowers_all_players),
    Defence("sealed caches have no holes", leave_caches_as_they_are, "exploits/cache_in_holes", spoils_the_judging),
    Defence("calls have a deadline", wait_for_ever, "exploits/abuse_endless_loop", blocks_the_judge),
]  # fmt: skip


@pytest.fixture(autouse=True)
def players_are_stopped_by_signals(monkeypatch):
    monkeypatch.setattr(freezer, "find_cgroup", lambda: None)


@pytest.fixture(autouse=True)
def a_blocked_judge_is_freed():
    def free(*_):
        raise Blocked

    before = signal.signal(signal.SIGALRM, free)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def nothing_is_left():
    """No process is left, even with a defence turned off."""
    before = set(freezer.descendants(os.getpid()))
    yield
    left = [pid for pid in freezer.descendants(os.getpid()) if pid not in before and not freezer.has_ended(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def attack(name, mode):
    """Judge an attack; returns the judgement, or the exception that ended the judge."""
    file = HERE / f"{name}.py"
    task = next(folder / "task" for folder in file.parents if (folder / "task" / "task.yml").exists())
    board = load_task(task).board("CPU")
    # More time than the task allows: an attack that only a time limit stops shows nothing.
    limits = replace(board.limits, case_timeout_s=20, test_timeout_s=60, compile_timeout_s=20)
    patient = replace(board, limits=limits)
    try:
        return judge(patient, read_submission(file, login="attacker"), mode)
    except (Blocked, JudgeError, RuntimeError) as error:
        return error
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def told(outcome):
    """An outcome in a line or two, for the message of a failed test."""
    if not isinstance(outcome, Judgement):
        return repr(outcome)
    timing = outcome.benchmarks[0].timing if outcome.benchmarks else None
    return f"{outcome.verdict} {outcome.message}\n{timing and timing.ratio}\n{outcome.log}"


@pytest.mark.parametrize("defence", DEFENCES, ids=lambda defence: defence.name)
def test_an_attack_succeeds_if_the_defence_that_stops_it_is_off(defence, monkeypatch):
    for kept in (ENDS_S, WORKED_S, GROUPS):
        kept.clear()
    defence.turn_off(monkeypatch)
    outcomes = []
    while len(outcomes) < TRIES and not any(map(defence.succeeds, outcomes)):
        outcomes.append(attack(defence.attack, defence.mode))
    assert any(map(defence.succeeds, outcomes)), "\n".join(map(told, outcomes))


@pytest.mark.parametrize(
    "defence", [d for d in DEFENCES if d.succeeds in (breaks_the_judge, outlives_its_player)], ids=lambda d: d.name
)
def test_honest_code_is_accepted_with_a_defence_turned_off(defence, monkeypatch):
    defence.turn_off(monkeypatch)
    assert gets_accepted(attack("exploits/task/examples/accepted/honest", Mode.TEST))


@pytest.mark.parametrize("name", ["zeros_of_last_time", "zeros_of_last_time_in_between"])
def test_zeros_from_the_last_call_are_a_wrong_answer(name):
    assert attack(f"defences/{name}", Mode.TEST).verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize("name", ["abuse_family_for_its_end", "abuse_gaps_in_the_output"])
def test_time_that_a_player_costs_the_referee_counts_as_its_own(name, monkeypatch):
    shorten_phases(monkeypatch)
    read_slowly(monkeypatch)
    assert attack(f"exploits/{name}", TIMED).verdict is Verdict.TIME_LIMIT_EXCEEDED


def test_a_process_hiding_its_memory_from_an_unprivileged_judge_is_a_violation(monkeypatch):
    judge_without_rights(monkeypatch)
    outcome = attack("exploits/tamper_unreadable_process", Mode.TEST)
    assert outcome.verdict is Verdict.SECURITY_VIOLATION, outcome.message


def test_a_slow_referee_gives_an_attack_no_extra_time(monkeypatch):
    WORKED_S.clear()
    linger_before_the_window(monkeypatch)
    assert not gains_time(attack("exploits/timing_peeker_with_a_timer", TIMED))
    assert len(WORKED_S) > 100 and max(WORKED_S) < 0.0005
