"""Memory limits: a player is stopped for its own memory, never for that of other processes."""

import contextlib
import itertools
import mmap
import os
import shutil
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.inside.protocol import Loaded
from harness.judge import judge
from harness.processes import memory, watched_memory
from harness.processes.freezer import SignalFreezer
from harness.processes.memory import LimitedMemory
from harness.processes.watched_memory import Meminfo, WatchedMemory
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.verdict import Foul, Verdict
from harness.sandbox import player_handle
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from harness.task.submission import Submission
from harness.task.task import load_task

pytestmark = pytest.mark.alone


MEMINFO = b"""MemTotal:       24683756 kB
MemFree:        22630040 kB
MemAvailable:   22567112 kB
Buffers:           12345 kB
Shmem:              8192 kB
ShmemHugePages:     9999 kB
KernelStack:        3000 kB
PageTables:         2048 kB
SecPageTables:      7777 kB
"""


def test_memory_fields_are_matched_by_their_whole_names():
    assert Meminfo.parse(MEMINFO) == Meminfo(available=22567112 * 1024, unowned=(8192 + 2048) * 1024)
    assert Meminfo.parse(b"MemTotal: 1 kB\n") == Meminfo(0, 0)


def test_this_machines_memory_is_read():
    now = Meminfo.read()
    assert 0 < now.available < watched_memory.MACHINE_BYTES
    assert 0 < now.unowned < watched_memory.MACHINE_BYTES


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ("oom 0\noom_kill 0\n", None),
        ("oom 3\noom_kill 3\n", Foul),
        ("oom 1\noom_kill 0\n", Foul),  # the kernel could not give it more memory, and is about to kill it
        ("oom 0\noom_kill 1\n", JudgeError),  # a group above it, or the machine, is out of memory: the cause is unknown
    ],
)
def test_a_player_killed_by_its_cgroup_is_blamed_only_for_its_limit(tmp_path, events, expected):
    (tmp_path / "memory.events").write_text(f"low 0\nhigh 0\nmax 7\n{events}")
    limited = LimitedMemory(tmp_path, 1 << 30)
    with pytest.raises(expected) if expected else contextlib.nullcontext() as caught:
        limited.check_kill()
    limited.close()
    if expected is Foul:
        assert caught.value.verdict is Verdict.MEMORY_LIMIT_EXCEEDED
        assert caught.value.message == "Used more than 1 GiB of memory."


# The rest is about machines whose cgroups don't limit memory; without any cgroup, every machine is like that.


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox("bubblewrap", memory_gib=0.5, use_cgroup=False) as sandbox:
        yield sandbox


def entry(source):
    return PlayerFiles(
        name="test", files={"submission.py": textwrap.dedent(source) + "\ndef custom_kernel(d): return d\n"}
    )


def load(player, seconds=60.0):
    player.send({"do": "load"})
    return player.answer(time.monotonic() + seconds, "It took too long.")


def end_of(sandbox, source):
    """The end of a player that loads this."""
    with sandbox.start_player(entry(source)) as player, pytest.raises(Foul) as caught:
        load(player)
    return caught.value


HOARDS = {
    "shared pages that it has mapped": """
        import mmap, os, time
        for _ in range(3):
            if os.fork() == 0:
                hoard = mmap.mmap(-1, 200 << 20)
                hoard.write(bytes(200 << 20))
                time.sleep(60)
        time.sleep(60)
    """,
    "memfds that it has open": """
        import os, time
        hoard = [os.memfd_create(str(i)) for i in range(12)]
        for memfd in hoard:
            os.write(memfd, bytes(60 << 20))
        time.sleep(60)
    """,
}


@pytest.mark.walls
@pytest.mark.parametrize("hoard", HOARDS)
def test_a_player_is_ended_for_memory_that_is_provably_its_own(sandbox, hoard):
    foul = end_of(sandbox, HOARDS[hoard])
    assert foul.verdict is Verdict.MEMORY_LIMIT_EXCEEDED
    assert foul.message.endswith("GiB of memory; the limit is 0.5 GiB.")


ENDS_FIRST = """
    import os, socket, time
    if os.fork() == 0:
        time.sleep(0.2)
        hoard = bytearray(b'1') * (700 << 20)
        time.sleep(60)
    socket.socket(fileno=os.dup(900)).send(b'')
    time.sleep(60)
"""


@pytest.mark.walls
def test_a_player_is_watched_while_the_referee_waits_for_its_end(sandbox, monkeypatch):
    monkeypatch.setattr(player_handle, "_LAST_WORDS_S", 20.0)
    foul = end_of(sandbox, ENDS_FIRST)
    assert foul.verdict is Verdict.MEMORY_LIMIT_EXCEEDED


HIDDEN = """
    import os, socket
    sender, receiver = socket.socketpair()
    for _ in range(24):
        file = os.memfd_create('hidden')
        os.write(file, bytes(64 << 20))
        socket.send_fds(sender, [b'x'], [file])
        os.close(file)
"""
"""1.5 GiB in files that are in flight between two sockets, and not open anywhere."""


@pytest.mark.walls
def test_hidden_memory_is_proved_by_the_players_end_on_a_full_machine(sandbox):
    with sandbox.start_player(entry(HIDDEN)) as player:
        assert isinstance(load(player), Loaded)
        player.check_memory()
        player._memory.sources[0]._least_left = watched_memory.MACHINE_BYTES  # as if almost no memory were left
        with pytest.raises(Foul) as caught:
            player._memory.sources[0].look()
    assert caught.value.verdict is Verdict.MEMORY_LIMIT_EXCEEDED
    assert caught.value.message == "Used all of the machine's memory; the limit is 0.5 GiB."


GREEDY = """
from pathlib import Path

def generate_input(size, seed, usual=generate_input):
    if Path("FLAG").exists():
        (line,) = [line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable")]
        torch.empty(int(line.split()[1]) << 10, dtype=torch.uint8)  # more than the referee may allocate
    return usual(size, seed)
"""


@pytest.fixture
def greedy(tmp_path):
    """A board whose generator needs more memory than there is as soon as a file `greedy` is next to it."""
    folder = tmp_path / "tiny"
    shutil.copytree(Path(__file__).parent / "tasks/tiny", folder)
    with (folder / "reference.py").open("a") as file:
        file.write(GREEDY.replace("FLAG", str(folder / "greedy")))
    board = load_task(folder).board("CPU")
    # A machine whose memory is new to it took more than ten seconds to write three gigabytes.
    return replace(board, limits=replace(board.limits, memory_gib=0.5, compile_timeout_s=60))


def judged(board, source):
    """Judge a right submission, with the greedy generator from its first test on."""
    source += "\ndef custom_kernel(data):\n    return data + 1\n"

    def note(progress):
        if progress.step.startswith("test"):
            (board.task.folder / "greedy").touch()

    submission = Submission(login="sample", source=source.encode(), name="submission.py")
    return judge(board, submission, Mode.TEST, on_progress=note)


@pytest.mark.walls
def test_a_player_that_hides_memory_is_blamed_if_the_referee_finds_too_little(greedy):
    # Three gigabytes: the machine's count of available memory shrinks by less than what is hidden.
    judgement = judged(greedy, textwrap.dedent(HIDDEN.replace("range(24)", "range(48)")))
    assert judgement.verdict is Verdict.MEMORY_LIMIT_EXCEEDED, judgement.message


@pytest.mark.walls
def test_a_case_that_is_too_large_is_not_blamed_on_the_player(greedy):
    with pytest.raises(JudgeError, match="generate_input ran out of memory"):
        judged(greedy, "")


@pytest.mark.walls
def test_a_process_that_lets_the_kernel_end_others_in_its_place_breaks_a_rule(sandbox):
    with sandbox.start_player(entry("")) as player:
        assert isinstance(load(player), Loaded)
        (source,) = player._memory.sources
        source.look()
        Path(f"/proc/{player.pid}/oom_score_adj").write_text("0")
        with pytest.raises(Foul) as caught:
            source.look()
    assert caught.value.verdict is Verdict.SECURITY_VIOLATION


UNREAD = """
    import os, socket
    control = socket.socket(fileno=os.dup(900))
    for _ in range(24):
        file = os.memfd_create('hidden')
        os.write(file, bytes(64 << 20))
        socket.send_fds(control, [b'x'], [file])
        os.close(file)
    print('sent')
"""
"""1.5 GiB in files that are in flight to the referee, and not open anywhere."""


@pytest.mark.walls
def test_memory_hidden_in_unread_messages_is_proved_by_the_players_end(sandbox, monkeypatch):
    monkeypatch.setattr(watched_memory, "_RETURN_S", 2.0)
    with sandbox.start_player(entry(UNREAD)) as player:
        player.send({"do": "load"})
        give_up = time.monotonic() + 60
        while "sent" not in player.log and time.monotonic() < give_up:
            time.sleep(0.01)
        player._memory.sources[0]._least_left = watched_memory.MACHINE_BYTES
        with pytest.raises(Foul):
            player._memory.sources[0].look()


@pytest.mark.walls
def test_a_player_ended_for_the_memory_of_others_voids_the_judging(sandbox, monkeypatch):
    monkeypatch.setattr(watched_memory, "_RETURN_S", 2.0)
    with contextlib.ExitStack() as stack:
        player = stack.enter_context(sandbox.start_player(entry("")))
        assert isinstance(load(player), Loaded)
        player._memory.sources[0]._least_left = watched_memory.MACHINE_BYTES
        with pytest.raises(Foul):
            player._memory.sources[0].look()
        exits = stack.pop_all()
    with pytest.raises(JudgeError, match="not because of the player"):
        exits.close()


def end_of_killed(sandbox, held_bytes):
    """The result of a player that is killed while memory is in use that is free after its end."""
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(mmap.mmap(-1, held_bytes + 4096))
        held.write(bytes(held_bytes))
        player = stack.enter_context(sandbox.start_player(entry("import os; os.kill(os.getpid(), 9)")))
        player.check_memory()
        try:
            load(player)
        except Foul as foul:
            held.close()
            stack.close()
            return foul
    return None


@pytest.fixture
def out_of_memory(monkeypatch):
    """As if the kernel had run out of memory right after the last check."""
    counts = itertools.chain([0], itertools.repeat(1))  # at the player's start, and later
    monkeypatch.setattr(watched_memory, "_killed_by_the_kernel", lambda: next(counts))
    monkeypatch.setattr(watched_memory, "_TIGHT", 1.0)
    monkeypatch.setattr(watched_memory, "_RECENT_S", 60.0)
    monkeypatch.setattr(watched_memory, "_RETURN_S", 2.0)


@pytest.mark.walls
def test_a_player_killed_by_the_kernel_is_blamed_if_over_its_limit(sandbox, out_of_memory):
    foul = end_of_killed(sandbox, 1 << 30)
    assert foul.verdict is Verdict.MEMORY_LIMIT_EXCEEDED
    assert foul.message == "Used all of the machine's memory; the limit is 0.5 GiB."


@pytest.mark.walls
def test_a_player_killed_by_the_kernel_for_others_memory_voids_the_judging(sandbox, out_of_memory):
    with pytest.raises(JudgeError, match="not because of the player"):
        end_of_killed(sandbox, 0)


@pytest.mark.walls
def test_a_player_killed_long_after_the_last_check_voids_the_judging(sandbox, out_of_memory, monkeypatch):
    monkeypatch.setattr(watched_memory, "_RECENT_S", -1.0)
    with pytest.raises(JudgeError, match="not because of the player"):
        end_of_killed(sandbox, 1 << 30)


@pytest.mark.walls
def test_a_players_build_cache_counts_towards_its_memory_limit(sandbox):
    """It leaves one megabyte of the limit."""
    build = "".join(f"open('/cache/big{part}', 'wb').write(bytes(73 << 20))\n" for part in range(7))
    with sandbox.start_player(replace(entry(build), cache="full"), building=True) as player:
        assert isinstance(load(player), Loaded)
    sandbox.seal(replace(entry(build), cache="full"))
    with sandbox.start_player(replace(entry(""), cache="full")) as player:
        assert isinstance(load(player), Loaded)
        player._memory.sources[0]._least_left = watched_memory.MACHINE_BYTES
        with pytest.raises(Foul):
            player._memory.sources[0].look()


def test_a_memory_limit_is_at_most_three_quarters_of_the_machine():
    assert memory.limit_of(0.5) == 1 << 29
    assert memory.limit_of(1 << 16) == int(0.75 * watched_memory.MACHINE_BYTES)
    with Sandbox("bubblewrap", memory_gib=1 << 16, use_cgroup=False, warm=False) as small:
        assert any(what.startswith("65536 GiB of memory (the limit is ") for what in small.missing)


def test_memory_kept_by_cpu_cores_counts_as_free():
    before = watched_memory._kept_by_cores()
    with mmap.mmap(-1, 256 << 20) as freed:
        freed.write(bytes(256 << 20))
        left = Meminfo.read().left + watched_memory._kept_by_cores()
    assert before > 0
    assert Meminfo.read().left + watched_memory._kept_by_cores() - left > 200 << 20


def test_swapped_out_memory_counts_as_used():
    swap = b"MemAvailable: 100 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"
    assert Meminfo.parse(b"\n" + swap).left == 70 * 1024


@pytest.mark.walls
def test_memory_of_other_processes_does_not_count_for_the_player(sandbox):
    with sandbox.start_player(entry("")) as player:
        assert isinstance(load(player), Loaded)
        with mmap.mmap(-1, 700 << 20) as others:
            others.write(bytes(700 << 20))
            player._memory.sources[0].look()


@pytest.mark.walls
def test_the_kernel_kills_a_player_before_any_other_process(sandbox):
    with sandbox.start_player(entry("")) as player, open(f"/proc/{player.pid}/oom_score_adj") as file:
        assert file.read() == "1000\n"


def test_measuring_memory_takes_at_most_a_twentieth_of_the_time(monkeypatch):
    watched = WatchedMemory(os.getpid(), SignalFreezer(os.getpid(), os.getpid()), 1 << 40)
    monkeypatch.setattr(watched, "look", lambda: keep_busy(0.02))
    began = time.monotonic()
    watched.check()
    watched.close()
    assert watched._next_look >= began + 0.02 + 0.4


def test_a_measurement_that_waits_for_a_core_does_not_put_off_the_next_one(monkeypatch):
    watched = WatchedMemory(os.getpid(), SignalFreezer(os.getpid(), os.getpid()), 1 << 40)
    monkeypatch.setattr(watched, "look", lambda: time.sleep(0.2))
    watched.check()
    watched.close()
    assert watched._next_look < time.monotonic() + 0.2


def test_a_message_about_the_limit_says_what_the_cache_takes_of_it():
    us = os.getpid()
    watched = WatchedMemory(us, SignalFreezer(us, us), 1 << 20, lambda: 3 << 30)
    with pytest.raises(Foul) as caught:
        watched.look()
    watched.close()
    assert caught.value.message.endswith("GiB of memory; the limit is 3 GiB, of which its cache takes 3.")


def keep_busy(seconds):
    """Use a core for this long."""
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        pass
