"""The judge notices whatever a player has changed on the machine."""

import contextlib
import ctypes
import inspect
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.processes import freezer
from harness.processes.watched_memory import Meminfo
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox import health
from harness.sandbox.health import Health
from harness.sandbox.program import run
from harness.sandbox.sandbox import PlayerFiles, Program, Sandbox
from tests import cores

_NEW_MOUNT, _NEW_USER = 0x00020000, 0x10000000
_NO_SUID, _NO_DEV, _REMOUNT = 2, 4, 32


@pytest.fixture
def sandbox():
    """A sandbox with a build; without torch, on all cores."""
    os.sched_setaffinity(0, cores.ALL)
    sandbox = Sandbox("bubblewrap", memory_gib=1, warm=False)
    sandbox.__enter__()
    built = PlayerFiles(name="built", files={}, cache="built")
    with sandbox.start_player(built, building=True):
        pass
    sandbox.seal(built)
    yield sandbox
    with contextlib.suppress(JudgeError):  # this may find what a test has done once more
        sandbox.__exit__(None, None, None)


@contextlib.contextmanager
def a_limit_less(sandbox):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextlib.contextmanager
def other_cores(sandbox):
    if len(sandbox.cores) == 1:
        pytest.skip("one core is all there is")
    os.sched_setaffinity(0, sandbox.cores)
    yield
    os.sched_setaffinity(0, sandbox.referee_core)


@contextlib.contextmanager
def a_file_among_ours(sandbox):
    (sandbox._stage / "player" / "harness" / "torch.py").write_text("")
    yield


@contextlib.contextmanager
def another_cache(sandbox):
    """Only possible in the warm parent's namespace: a sealed cache is read-only."""
    zygote = sandbox.warm_parent.await_warmth()._warm_parent
    cache = Path(f"/proc/{zygote}/root/caches/built")
    with pytest.raises(OSError, match="Read-only"):
        cache.chmod(0o750)
    if (child := os.fork()) == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for space, kind in (("user", _NEW_USER), ("mnt", _NEW_MOUNT)):
            assert libc.setns(os.open(f"/proc/{zygote}/ns/{space}", os.O_RDONLY), kind) == 0
        os._exit(libc.mount(None, b"/caches/built", None, ctypes.c_ulong(_REMOUNT | _NO_SUID | _NO_DEV), None))
    assert os.waitpid(child, 0)[1] == 0
    cache.chmod(0o750)
    yield


@contextlib.contextmanager
def a_process_of_the_players_user(sandbox):
    users = [
        "nsenter",
        "--user",
        "--preserve-credentials",
        f"--target={sandbox.warm_parent.await_warmth()._warm_parent}",
    ]
    with subprocess.Popen([*users, "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE) as escaped:
        assert escaped.stdout
        escaped.stdout.readline()
        yield
        escaped.kill()


@pytest.mark.walls
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (a_limit_less, "the limits"),
        (other_cores, "the limits"),
        (a_file_among_ours, "the files shown to a player changed"),
        (another_cache, "changed the cache that the build of built filled"),
        (a_process_of_the_players_user, "some of its processes still run"),
    ],
)
def test_the_health_check_names_any_damage(sandbox, damage, message):
    state = sandbox.warm_parent.await_warmth()
    state.check_thoroughly()
    with damage(sandbox), pytest.raises(JudgeError, match=message):
        state.check_thoroughly()


@pytest.mark.walls
def test_a_folder_that_is_filled_later_may_not_change_from_then_on(sandbox):
    state, folder = sandbox.warm_parent.await_warmth(), sandbox._stage / "later"
    folder.mkdir()
    (folder / "header").touch()
    state.watch(folder)
    state.check()
    (folder / "header").write_text("changed")
    with pytest.raises(JudgeError, match="the files shown to a player changed"):
        state.check()
    (folder / "header").unlink()


@pytest.mark.walls
def test_damage_makes_the_judging_void_when_the_next_player_ends(sandbox):
    exits = contextlib.ExitStack()
    exits.enter_context(sandbox.start_player(PlayerFiles(name="next", files={})))
    with a_file_among_ours(sandbox), pytest.raises(JudgeError, match="the files shown to a player changed"):
        exits.close()


@pytest.mark.walls
def test_damage_makes_the_judging_void_when_the_sandbox_is_closed():
    stack = contextlib.ExitStack()
    sandbox = stack.enter_context(Sandbox("bubblewrap", memory_gib=1, warm=False))
    sandbox.warm_parent.await_warmth()
    with a_limit_less(sandbox), pytest.raises(JudgeError, match="the limits"):
        stack.close()
    assert freezer.has_ended(sandbox.warm_parent.process.pid)
    assert not sandbox._stage.exists()


def memory_around(source):
    """The machine's memory before and after a program in the sandbox."""
    files, program = PlayerFiles(name="hider", files={"hide.py": source}), Program(command=(sys.executable, "hide.py"))
    with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox:
        before = Meminfo.read()
        ended = run(sandbox, files, program, lambda _: None, seconds=60, late="")
        assert ended.exit_code == 0, ended.log
        return before, Meminfo.read()


@pytest.mark.walls
@pytest.mark.alone  # other tests write to memory, too
def test_files_in_transit_are_freed_before_the_next_player_starts():
    """In a cycle of sockets, only the kernel's garbage collector finds them, some time after the player's end."""
    hide = """
import os, socket
for _ in range(16):
    one, other = socket.socketpair()
    hidden = os.memfd_create("hidden")
    os.write(hidden, bytes(16 << 20))
    socket.send_fds(one, [b"x"], [other.fileno(), hidden])
    socket.send_fds(other, [b"x"], [one.fileno(), hidden])
    os.close(hidden)
"""
    before, after = memory_around(hide)
    assert after.unowned < before.unowned + (128 << 20)


@pytest.mark.walls
@pytest.mark.alone
def test_folders_in_transit_are_removed_before_the_next_player_starts():
    """Empty files take no memory that is shared, only the kernel's own."""
    hide = """
import os, socket, time
place = os.open("/tmp", os.O_RDONLY)
for number in range(90_000):
    os.mknod(str(number), dir_fd=place)
if os.fork() == 0:
    memory = b"x" * (200 << 20)  # the last to be freed
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [other.fileno(), place])
    socket.send_fds(other, [b"x"], [one.fileno(), place])
    os.close(place)
    last = socket.socketpair()
    open("/dev/shm/ready", "w").close()
    time.sleep(60)
os.close(place)
while not os.path.exists("/dev/shm/ready"):
    time.sleep(0.01)
"""
    before, after = memory_around(hide)
    assert after.kernels < before.kernels + (32 << 20)


def test_unowned_memory_is_reported_if_it_is_not_freed_in_time(tmp_path, monkeypatch):
    state = Health(os.getpid(), os.getpid(), tmp_path, sandboxed=False)
    state.check_thoroughly()
    monkeypatch.setattr(health, "_RETURN_S", 0.1)
    monkeypatch.setattr(health, "_GROWTH", -1.0)  # as if other use had grown by all of the machine's memory
    with pytest.raises(JudgeError, match="that no process owns"):
        state.check_thoroughly()


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="this kernel has no scheduling groups")
def test_a_change_of_the_groups_priority_is_undone_so_that_the_next_one_is_found(tmp_path):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as warm_parent:
        group = Path(f"/proc/{warm_parent.pid}/autogroup")
        before = group.read_text()
        state = Health(os.getpid(), warm_parent.pid, tmp_path, sandboxed=False)
        for _ in range(2):
            group.write_text("5")
            with pytest.raises(Foul, match="autogroup"):
                state.check()
            assert group.read_text() == before and not state.is_spent
        state.check()
        warm_parent.kill()


def test_processes_started_meanwhile_are_found_and_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(health, "_GRACE_S", 0.1)
    with subprocess.Popen(["sleep", "60"]) as before:
        state = Health(os.getpid(), os.getpid(), tmp_path, sandboxed=False)
        state.check()
        with subprocess.Popen(["sh", "-c", "sleep 60 & sleep 60 & wait"]) as family:
            give_up = time.monotonic() + 30
            while len(strays := state.strays()) < 3 and time.monotonic() < give_up:
                time.sleep(0.01)
            assert len(strays) == 3
            with pytest.raises(JudgeError, match=f"process {family.pid}"):
                state.check()
            state.kill_strays()
            freezer.await_end(strays, patience_s=10)
            assert not freezer.has_ended(before.pid)
        before.kill()


def test_the_freezer_waits_for_killed_processes_up_to_its_patience():
    with subprocess.Popen(["sleep", "0.5"]) as slow:
        freezer.await_end([slow.pid])
        assert freezer.has_ended(slow.pid)
    with subprocess.Popen(["sleep", "60"]) as endless:
        with pytest.raises(JudgeError, match=f"still running after 0.1 s: process {endless.pid}$"):
            freezer.await_end([endless.pid], patience_s=0.1)
        endless.kill()


@pytest.mark.parametrize(
    ("command", "work_s", "expected"),
    [
        ("while :; do :; done", 0.05, Foul),
        ("while :; do :; done", 60, JudgeError),  # too little work to prove anything
        ("sleep 60", 0.05, JudgeError),  # as one that waits for a broken disk
    ],
)
def test_a_killed_player_that_lingers_is_blamed_only_for_kernel_work(command, work_s, expected, monkeypatch):
    monkeypatch.setattr(freezer, "TEARDOWN_S", 1.5)
    monkeypatch.setattr(freezer, "_WORK_S", work_s)
    monkeypatch.setattr(freezer, "_LOOK_AT_WORK_S", 0.1)
    with subprocess.Popen(["sh", "-c", f"({command}) & wait"], start_new_session=True) as keeper:
        try:
            with pytest.raises(expected, match=r"more than 2 s to end|still running after 1\.5 s"):
                freezer.await_players_end(keeper.pid)
        finally:
            os.killpg(keeper.pid, signal.SIGKILL)


@pytest.mark.walls
def test_a_sandbox_with_an_unending_player_starts_no_other_but_closes_cleanly(monkeypatch):
    def endless(_):
        raise Foul(Verdict.RUN_TIME_ERROR, "it does not end")

    with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox:
        exits = contextlib.ExitStack()
        exits.enter_context(sandbox.start_player(PlayerFiles(name="endless", files={})))
        monkeypatch.setattr(freezer, "await_players_end", endless)
        with pytest.raises(Foul, match="it does not end"):
            exits.close()
        with (
            pytest.raises(JudgeError, match="cannot start another"),
            sandbox.start_player(PlayerFiles(name="next", files={})),
        ):
            pass
        family = list(freezer.descendants(sandbox.warm_parent.process.pid))
    freezer.await_end(family, patience_s=30)


def test_a_long_chain_of_processes_is_listed_completely():
    chain = "exec 3<&0; f() { if [ $1 -gt 0 ]; then (f $(($1 - 1))) & else echo; fi; read x <&3; }; f 80"
    with subprocess.Popen(["sh", "-c", chain], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout and first.stdin
        first.stdout.readline()
        depth, limit = len(inspect.stack()), sys.getrecursionlimit()
        sys.setrecursionlimit(depth + 60)
        try:
            assert len(list(freezer.descendants(first.pid))) == 80
        finally:
            sys.setrecursionlimit(limit)
        first.stdin.close()
