"""The sandbox, tried from inside by submissions that want to get out."""

import contextlib
import errno
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from harness.gpu import cpu
from harness.inside.protocol import Allocated, Failed, Loaded
from harness.processes import freezer
from harness.processes.starvation import Starvation, _cpu_s
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox import sandbox as sandbox_module
from harness.sandbox.bubblewrap import environment_of, find_covers
from harness.sandbox.outer_sandbox import run_enclosed
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from tests import cores

INSIDE = Path(__file__).parent.parent / "harness" / "inside"
pytestmark = pytest.mark.walls


@pytest.fixture(scope="module", params=["freezer", "signals"])
def sandbox(request):
    """On all cores, of which the referee takes one."""
    os.sched_setaffinity(0, cores.ALL)
    with Sandbox("bubblewrap", memory_gib=1, use_cgroup=request.param == "freezer") as sandbox:
        if sandbox.stop_kind != request.param:
            pytest.skip("no cgroup v2 folder that we may write to on this machine")
        yield sandbox


# The libraries themselves may be below /tmp.
WHAT_LIES_AROUND = (
    "[f for f in os.listdir('/tmp') if not (sys.prefix + '/').startswith('/tmp/' + f + '/')]"
    " + os.listdir('/dev/shm') + os.listdir('/cache')"
)


def entry(source, name="test"):
    return PlayerFiles(
        name=name,
        cache=name,
        files={"submission.py": textwrap.dedent(source) + "\ndef custom_kernel(data): return data\n"},
    )


def load(player, seconds=10.0):
    player.send({"do": "load"})
    return player.answer(time.monotonic() + seconds, "It took too long.")


def said(sandbox, source, *, building=False, name="test"):
    """The output of a submission that the sandbox imports."""
    with sandbox.start_player(entry(source, name), building=building) as player:
        answer = load(player)
        assert isinstance(answer, Loaded), answer
    if building:
        sandbox.seal(entry(source, name))
    return player.log.strip()


def prints(expression, setup=""):
    return f"import os, sys, socket, ctypes\n{setup}\nprint(({expression}), flush=True)"


def tries(statement):
    return prints(
        "outcome", f"try:\n    {statement}\n    outcome = 'done'\nexcept OSError as e:\n    outcome = e.strerror"
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("os.getuid()", "65534"),
        ("os.getpid()", "2"),
        ("sorted(int(d) for d in os.listdir('/proc') if d.isdigit())", "[1, 2]"),
        ("os.listdir('/sys/class/net') if os.path.exists('/sys') else 'no sys'", "no sys"),
        ("os.listdir('/entry')", "['submission.py']"),
        (WHAT_LIES_AROUND, "[]"),
        ("sorted(os.listdir('/dev'))", "['full', 'null', 'random', 'shm', 'urandom', 'zero']"),
        ("os.path.exists('/etc/passwd'), os.path.exists('/home')", "(False, False)"),
        (
            "[l.split()[1] for l in open('/proc/self/status') if l.startswith(('CapEff', 'CapBnd'))]",
            "['0000000000000000', '0000000000000000']",
        ),
        ("[l.split()[1] for l in open('/proc/self/status') if l.startswith(('NoNewPrivs', 'Seccomp:'))]", "['1', '2']"),
        (f"sorted(set(os.environ) - {set(environment_of(None))!r})", "['PWD']"),
        ("sorted(os.listdir('/player/harness'))", "['__init__.py', 'inside']"),
        ("sorted(os.listdir('/player/harness/inside'))", str(sorted(file.name for file in INSIDE.glob("*.py")))),
    ],
)
def test_a_player_sees_only_what_the_sandbox_allows(sandbox, expression, expected):
    assert said(sandbox, prints(expression)) == expected


@pytest.mark.parametrize(
    "statement",
    [
        "open('/entry/submission.py', 'a')",
        "open('/usr/x', 'w')",
        "open('/x', 'w')",
        "open('/proc/1/mem', 'rb')",
        "os.listdir('/caches')",
        "os.listdir('/upper')",
        "os.kill(1, 9)  # ignored by pid 1, and then:\n    raise PermissionError(1, 'still there')",
        "os.kill(os.getpid(), 18)",
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_INET6)",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socket(40, socket.SOCK_STREAM)",
        "os.setns(os.open('/proc/self/ns/mnt', 0)) if hasattr(os, 'setns') else os.chroot('/tmp')",
        "os.setuid(0)",
        "os.nice(-5)",
        "open('/proc/self/autogroup', 'w').write('19')",
        "os.mkdir('/dev/x')",
    ],
)
def test_a_player_cannot_reach_outside_the_sandbox(sandbox, statement):
    assert said(sandbox, tries(statement)) not in ("done", "")


@pytest.mark.parametrize(
    "call",
    [
        "ptrace(0, 0, 0, 0)", "unshare(0x10000000)", "mount(b'x', b'/tmp', b'tmpfs', 0, 0)", "umount2(b'/tmp', 0)",
        "prctl(1, 18, 0, 0, 0)", "prctl(4, 0, 0, 0, 0)", "fcntl(0, 10, 18)", "fcntl(0, 8, 2)",
        "syscall(56, 0x10000000 | 17, 0, 0, 0, 0)", "syscall(56, 0x400 | 17, 0, 0, 0, 0)", "syscall(56, 18, 0, 0, 0, 0)", "syscall(222, 0, 0, 0)",
        "syscall(310, 1, 0, 0, 0, 0, 0)", "syscall(425, 8, 0)", "syscall(323, 0)", "syscall(321, 0, 0, 0)",
        "syscall(200, 2, 18)", "syscall(234, 2, 2, 18)", "syscall(1 << 30, 0)",
        "msgget(0, 0o1600)", "semget(0, 1, 0o1600)", "shmget(0, 4096, 0o1600)",
        "syscall(160, 4, bytes(16))", "syscall(302, 0, 4, bytes(16), 0)",
        "fcntl(0, 37, bytes(32))", "fcntl(0, 38, bytes(32))", "fcntl(0, 1036, bytes(8))", "fcntl(0, 1038, bytes(8))",
        "syscall(28, 0, 4096, 25)", "syscall(451, 0, bytes(16), bytes(40), 0)",
        "socketpair(2, 1, 0, bytes(8))",
    ],
)  # fmt: skip
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are x86-64's")
def test_seccomp_refuses_dangerous_calls(sandbox, call):
    setup = "libc = ctypes.CDLL(None, use_errno=True)"
    assert said(sandbox, prints(f"libc.{call}, ctypes.get_errno() in (1, 38, 97)", setup)) == "(-1, True)"


def test_pinning_threads_seems_to_work_and_changes_nothing(sandbox):
    setup = "before = os.sched_getaffinity(0)\nos.sched_setaffinity(0, {0, 1})"
    assert said(sandbox, prints("before == os.sched_getaffinity(0)", setup)) == "True"


@pytest.mark.alone
def test_a_players_time_includes_that_of_its_lost_children(sandbox):
    """Otherwise it would count as other programs' time, and extend the player's limits."""
    source = """
        import os, signal, time
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            for _ in range(40):
                if os.fork() == 0:
                    ends = time.process_time() + 0.01
                    while time.process_time() < ends: pass
                    os._exit(0)
            ends = time.monotonic() + 0.2
            while time.monotonic() < ends: pass
    """
    with sandbox.start_player(entry(source)) as player:
        player.send({"do": "load"})
        with pytest.raises(Foul) as caught:
            player.receive(time.monotonic() + 2, "late")
        assert caught.value.verdict is Verdict.TIME_LIMIT_EXCEEDED
        assert player.starved_s < 8


@pytest.mark.alone
def test_processes_that_a_player_has_lost_are_not_other_programs():
    core = min(os.sched_getaffinity(0))
    loop = ["taskset", "--cpu-list", str(core), sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(loop) as known, subprocess.Popen(loop) as lost:
        try:
            time.sleep(0.5)  # until both are computing

            def both():
                (known_s, known_all_s), (lost_s, lost_all_s) = _cpu_s(known.pid), _cpu_s(lost.pid)
                return known_s + lost_s, known_all_s + lost_all_s

            counted = Starvation({core}, [known.pid], find_cpu_s=both)
            blind = Starvation({core}, [known.pid])
            before_s = _cpu_s(lost.pid)[0]
            time.sleep(2)
            lost_s = _cpu_s(lost.pid)[0] - before_s
            assert lost_s > 0.1
            assert blind.seconds([known.pid]) - counted.seconds([known.pid]) > lost_s / 2
        finally:
            known.kill()
            lost.kill()


def test_a_build_may_write_larger_files_than_other_players(sandbox):
    """A precompiled header takes 150 MB; the limit of other players is an eighth of the memory's."""
    write = tries(
        "os.truncate(os.open('/cache/large' if os.access('/cache', os.W_OK) else '/tmp/large', 65), 200 << 20)"
    )
    assert said(sandbox, write, building=True, name="large") == "done"
    assert said(sandbox, write, name="large") == "File too large"


@pytest.mark.parametrize("call", ["221, -1, 0, 0, 4", "237, 1, 1, 9, 9, 9, 9", "238, 9, 9, 9", "450, 1, 1, 9, 9"])
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers are x86-64's")
def test_advice_on_files_and_policies_of_memory_seem_to_work_and_do_nothing(sandbox, call):
    assert said(sandbox, prints(f"ctypes.CDLL(None).syscall({call})")).strip() == "0"


def test_syncing_the_hosts_disks_seems_to_work_and_does_nothing(sandbox):
    """The call never reaches the kernel, which would report the bad descriptor."""
    assert said(sandbox, prints("ctypes.CDLL(None).sync(), ctypes.CDLL(None).syncfs(-1)")).endswith(", 0)")


def test_the_sandbox_notices_a_process_that_executes_an_unreadable_file(sandbox):
    hide = """
        import os, shutil
        shutil.copyfile('/bin/sleep', '/tmp/sleep')
        os.chmod('/tmp/sleep', 0o111)
        os.set_inheritable(900, True)
        os.execv('/tmp/sleep', ['sleep', '60'])
    """
    with sandbox.start_player(entry("")) as player:
        assert isinstance(load(player), Loaded)
        assert not player.hides_its_memory
    assert not player.hides_its_memory  # it has ended
    with sandbox.start_player(entry(hide)) as player:
        player.send({"do": "load"})
        give_up = time.monotonic() + 10
        while not player.hides_its_memory and time.monotonic() < give_up:
            time.sleep(0.01)
        assert player.hides_its_memory


@pytest.mark.alone
def test_the_freezer_lists_all_five_hundred_processes_of_a_player(sandbox):
    source = "import os\nfor _ in range(500):\n    if os.fork() == 0: __import__('time').sleep(60)"
    with sandbox.start_player(entry(source)) as player:
        assert isinstance(load(player, 60), Loaded)
        player.stop()
        assert len(player._freezer.processes()) == 501


def test_memory_is_watched_while_a_player_is_being_stopped(sandbox, monkeypatch):
    monkeypatch.setattr(freezer, "_MEANWHILE_S", 0.0)

    def run_out():
        raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, "nothing is left")

    with sandbox.start_player(entry("while True: pass")) as player:
        player.send({"do": "load"})
        time.sleep(0.1)
        monkeypatch.setattr(player._memory.sources[0], "check_machine", run_out)

        def stop_again_and_again():
            give_up = time.monotonic() + 60
            while time.monotonic() < give_up:  # a player that happens not to run stops at once, without a check
                player.stop()
                player.resume()
                time.sleep(0.001)

        with pytest.raises(Foul, match="nothing is left"):
            stop_again_and_again()


def test_nothing_survives_from_player_to_player(sandbox):
    leave = """
        import os, time
        open('/tmp/left', 'w').close(); open('/dev/shm/left', 'w').close(); open('/cache/left', 'w').close()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                time.sleep(60)
            os._exit(0)
    """
    with sandbox.start_player(entry(leave)) as player:
        assert isinstance(load(player), Loaded)
        family = list(freezer.descendants(player._keeper))
        assert len(family) >= 2
    assert all(freezer.has_ended(pid) for pid in family)
    assert said(sandbox, prints(WHAT_LIES_AROUND)) == "[]"


def test_later_players_see_the_builds_cache_and_cannot_change_it(sandbox):
    said(sandbox, prints("open('/cache/built', 'w').write('good')"), building=True)
    change = "open('/cache/built', 'w').write('bad'); os.mkdir('/cache/new')"
    assert (
        said(sandbox, prints("open('/cache/built').read(), sorted(os.listdir('/cache'))", change))
        == "('bad', ['built', 'new'])"
    )
    assert said(sandbox, prints("open('/cache/built').read(), os.listdir('/cache')")) == "('good', ['built'])"
    with sandbox.start_player(entry(prints("os.listdir('/cache')"), name="other")) as player:
        load(player)
        time.sleep(0.05)
        assert player.log.startswith("[]")


NAMES_IT_SEES = """
import json, os, sys
def custom_kernel(data): return data
def read(path):
    with open(path, "rb") as file:
        return file.read().decode("utf-8", "replace")
names, frame = [], sys._getframe()
while frame:
    names += [value for value in frame.f_locals.values() if isinstance(value, str) and len(value) < 200]
    frame = frame.f_back
mounts = [line.split()[3:] for line in read("/proc/self/mountinfo").splitlines()]
files = sorted(os.path.join(at, name) for top in ("/entry", "/cache", "/dev/shm", "/upper") for at, _, found in os.walk(top)
               for name in found)
texts = [read(f"/proc/self/{name}") for name in ("cmdline", "environ", "comm", "cgroup")]
print(json.dumps([mounts, files, texts, names, sys.argv, os.getcwd(), __file__]), flush=True)
"""


def test_no_name_that_a_player_sees_tells_which_side_it_is(sandbox):
    """Names and mounts are equal on all sides, but for random names.  Numbers of mounts and times of files are not."""
    seen = {}
    for name in ("champion", "challenger", "anchor"):
        files = PlayerFiles(name=name, files={"submission.py": NAMES_IT_SEES})
        for building in (True, False):
            with sandbox.start_player(files, building=building) as player:
                assert isinstance(load(player), Loaded)
            if building:
                sandbox.seal(files)
        assert files.cache in player.log
        seen[name] = re.sub("player-[0-9a-f]{16}", "PLAYER", player.log.replace(files.cache, "CACHE"))
    assert seen["champion"] == seen["challenger"] == seen["anchor"]
    assert not [name for name in seen if name in seen["anchor"]]
    assert "/caches" in seen["anchor"] and "/caches/" not in seen["anchor"].replace("/caches/CACHE/files", "")


def test_a_player_stays_in_the_session_and_reads_its_limits(sandbox):
    expression = "os.getsid(0) == before, resource.getrlimit(resource.RLIMIT_CORE)"
    assert said(sandbox, prints(expression, "import resource\nbefore = os.getsid(0)\nos.setsid()")) == "(True, (1, 1))"


def test_a_cache_larger_than_the_memory_limit_is_the_builds_fault(sandbox, monkeypatch):
    build = entry("open('/cache/large', 'wb').write(bytes(200 << 20))", "too much")
    with sandbox.start_player(build, building=True) as player:
        assert isinstance(load(player), Loaded)
    monkeypatch.setattr(sandbox, "memory_bytes", 100 << 20)
    with pytest.raises(Foul, match=r"left 0\.2 GiB in the cache; the memory limit is 0\.1 GiB") as caught:
        sandbox.seal(build)
    assert caught.value.verdict is Verdict.MEMORY_LIMIT_EXCEEDED


def test_a_sealed_file_has_no_holes_to_mark(sandbox):
    """Not even a file that is too deep for a path, or in a closed folder."""
    build = """
        import os
        def leave(name):
            with open(name, 'wb') as file:
                file.truncate(1 << 20)
                os.pwrite(file.fileno(), b'x' * 4096, 1 << 19)
            os.posix_fallocate(os.open(name + '2', os.O_CREAT | os.O_RDWR), 0, 1 << 20)
        os.mkdir('/cache/closed'); leave('/cache/closed/holes'); os.chmod('/cache/closed/holes', 0); os.chmod('/cache/closed', 0)
        os.chdir('/cache')
        for _ in range(60):
            os.mkdir('d' * 100); os.chdir('d' * 100)
        leave('holes')
    """
    look = """
        import os
        os.chmod('/cache/closed', 0o700); os.chmod('/cache/closed/holes', 0o400)
        holes = ['/cache/closed/holes', '/cache/closed/holes2']
        os.chdir('/cache')
        for _ in range(60):
            os.chdir('d' * 100)
        files = [os.open(name, os.O_RDONLY) for name in (*holes, 'holes', 'holes2')]
        print([os.lseek(file, 0, os.SEEK_HOLE) - os.fstat(file).st_size for file in files], os.path.getsize('holes'))
        print(len(os.pread(files[2], 1 << 20, 0).strip(b'\\0')), flush=True)
    """
    said(sandbox, build, building=True, name="holes")
    assert said(sandbox, look, name="holes") == "[0, 0, 0, 0] 1048576\n4096"


def test_a_hole_that_cannot_be_filled_gives_later_players_no_page(sandbox, monkeypatch):
    build = "import os\nfor i in range(40): os.truncate(os.open(f'/cache/{i}', os.O_CREAT | os.O_RDWR), 60 << 20)"
    read = """
        import mmap, os
        files = [os.open(f'/cache/{i}', os.O_RDONLY) for i in range(40)]
        holes = [(file, os.lseek(file, 0, os.SEEK_HOLE)) for file in files]
        file, at = next((file, at) for file, at in holes if at < 60 << 20)
        print(mmap.mmap(file, 0, prot=mmap.PROT_READ)[at])
    """
    monkeypatch.setattr(sandbox, "memory_bytes", 4 << 30)  # the files count towards its limit
    said(sandbox, build, building=True, name="no room")
    with sandbox.start_player(entry(read, "no room")) as player, pytest.raises(Foul, match="SIGBUS"):
        load(player)
    sandbox.require_health()


def test_a_player_finds_nothing_of_an_earlier_one_in_its_memory(sandbox):
    secret = "".join(reversed("ecruos-reilrae-na-fo-terces"))
    find = """
        import os
        word = bytes(reversed(b'ecruos-reilrae-na-fo-terces'))
        found = 0
        with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as memory:
            for line in maps:
                start, end = (int(part, 16) for part in line.split()[0].split('-'))
                if 'rw' in line:
                    memory.seek(start)
                    try:
                        found += memory.read(end - start).count(word)
                    except OSError:
                        pass
        print(found, flush=True)
    """
    before = int(said(sandbox, find))
    assert int(said(sandbox, f"{find}\n        # {secret}")) > before
    assert int(said(sandbox, find)) == before


def test_a_stopped_player_with_threads_and_children_does_nothing(sandbox):
    source = """
        import ctypes, mmap, os, threading
        shared = mmap.mmap(-1, 4096)
        counters = (ctypes.c_uint64 * 3).from_buffer(shared)
        def count(i):
            while True:
                counters[i] += 1
        threading.Thread(target=count, args=(0,), daemon=True).start()
        if os.fork() == 0:
            count(1)
        import torch
        torch.empty_strided = lambda *a, **k: type('T', (), {'data_ptr': lambda self: ctypes.addressof(counters), 'detach': lambda self: self})()
    """
    with sandbox.start_player(entry(source)) as player:
        assert isinstance(load(player), Loaded)
        player.send({"do": "allocate", "tree": {"tensor": 0}, "tensors": [["int64", [3], [1]]]})
        allocated = player.answer(time.monotonic() + 5, "It took too long.")
        assert isinstance(allocated, Allocated)

        def counts():
            memory = bytearray(16)
            target = cpu.torch.frombuffer(memory, dtype=cpu.torch.int64)
            cpu.read_memory(player.pid, allocated.addresses[0], target.data_ptr(), 16)
            return target.tolist()

        for _ in range(20):
            player.stop()
            before = counts()
            time.sleep(0.005)
            assert counts() == before
            player.resume()
            give_up = time.monotonic() + 10
            while not all(now > then for now, then in zip(counts(), before, strict=True)):
                assert time.monotonic() < give_up


def test_accessing_an_unmapped_address_raises_an_os_error(sandbox):
    with sandbox.start_player(entry("")) as player:
        load(player)
        target = cpu.torch.empty(8)
        with pytest.raises(OSError, match="Bad address"):
            cpu.read_memory(player.pid, 4096, target.data_ptr(), 32)
        with pytest.raises(OSError, match="Bad address"):
            cpu.write_memory(player.pid, 4096, target.data_ptr(), 32)


def test_the_last_output_is_read_even_if_the_keeper_is_slow(sandbox):
    with sandbox.start_player(entry("print('my last words', flush=True)")) as player:
        os.kill(player._keeper, signal.SIGSTOP)
        assert isinstance(load(player), Loaded)
        assert player.log == ""
        threading.Timer(0.2, os.kill, (player._keeper, signal.SIGCONT)).start()
    assert player.log == "my last words\n"


def test_the_sandbox_drains_a_hundred_megabytes_of_output_and_keeps_the_end(sandbox):
    with sandbox.start_player(entry("for _ in range(100): print('x' * 10**6)\nprint('the end', flush=True)")) as player:
        assert isinstance(load(player, 30), Loaded)
        time.sleep(0.2)
        assert player.log.endswith("the end\n")
        assert len(player.log) < 20_000
        assert "of 100000108 bytes" in player.log


@pytest.mark.parametrize(
    ("source", "verdict", "message"),
    [
        ("import os; os._exit(0)", Verdict.RUN_TIME_ERROR, "exit code 0"),
        ("import os; os._exit(7)", Verdict.RUN_TIME_ERROR, "exit code 7"),
        ("import ctypes; ctypes.string_at(0)", Verdict.RUN_TIME_ERROR, "SIGSEGV"),
        ("import os; os.abort()", Verdict.RUN_TIME_ERROR, "SIGABRT"),
        ("import os; os.close(900); os._exit(3)", Verdict.RUN_TIME_ERROR, "ended with exit code 3"),
        ("import os; os.write(900, b'{\"is\": \"accepted\"}')", Verdict.SECURITY_VIOLATION, "forged a message"),
        ("while True: pass", Verdict.TIME_LIMIT_EXCEEDED, "took too long"),
        ("import signal, time\nsignal.pthread_sigmask(0, range(1, 64))\nwhile True: time.sleep(1)", Verdict.TIME_LIMIT_EXCEEDED, ""),
        ("b = [bytearray(b'x') * (64 << 20) for _ in range(10)]\nimport os\nif os.fork() == 0 or os.fork() == 0:\n  c = [bytearray(b'x') * (64 << 20) for _ in range(4)]\nimport time; time.sleep(99)", Verdict.MEMORY_LIMIT_EXCEEDED, "GiB"),
    ],
)  # fmt: skip
def test_a_player_that_breaks_a_rule_at_import_gets_a_verdict(sandbox, source, verdict, message):
    with sandbox.start_player(entry(source)) as player, pytest.raises(Foul) as caught:
        load(player, 3 if verdict is Verdict.TIME_LIMIT_EXCEEDED else 60)
    assert caught.value.verdict is verdict
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("raise ValueError('no')", "ValueError"),
        ("import sys; sys.exit(0)", "RuntimeError"),
        ("x = bytearray(8 << 30)", "MemoryError"),
        ("open('/tmp/big', 'wb').write(bytes(1)); f = open('/tmp/big', 'r+b')\nfor _ in range(2000): f.write(bytes(1 << 20))", "OSError"),
    ],
)  # fmt: skip
def test_an_error_raised_at_import_comes_back_as_text(sandbox, source, error):
    with sandbox.start_player(entry(source)) as player:
        answer = load(player)
    assert isinstance(answer, Failed)
    assert answer.error == error


@pytest.mark.alone
def test_a_fork_bomb_is_contained_in_its_sandbox(sandbox):
    with sandbox.start_player(
        entry("import os\nfor _ in range(2000): os.fork() or __import__('time').sleep(60)")
    ) as player:
        with contextlib.suppress(Foul):  # so many processes may exceed the memory limit first
            assert isinstance(answer := load(player), Failed)
            assert answer.error == "BlockingIOError"
        family = list(freezer.descendants(player._keeper))
        assert len(family) <= sandbox.max_processes + 2  # bubblewrap, and the one that failed
    assert all(freezer.has_ended(pid) for pid in family)


def test_a_player_may_have_more_threads_on_more_cores(sandbox):
    limit = int(said(sandbox, "import resource\nprint(resource.getrlimit(resource.RLIMIT_NPROC)[0], flush=True)"))
    assert limit == sandbox.max_processes == 512 + 8 * len(sandbox.player_cores)


def test_spinners_and_library_pools_fit_the_process_limit_on_many_cores():
    host = Sandbox("none", memory_gib=1)
    host.player_cores = set(range(1, 224))
    spinners, torchs, xlas, blas = 223, 223, 2 * 223, 64
    assert spinners + torchs + xlas + blas < host.max_processes


def test_a_player_runs_on_other_cores_than_the_referee_with_limited_processes(sandbox):
    first, *others = sorted(sandbox.cores)
    assert said(sandbox, prints("sorted(os.sched_getaffinity(0))")) == str(others or [first])
    limit = said(sandbox, prints("resource.getrlimit(resource.RLIMIT_NPROC)", "import resource"))
    assert limit == str((sandbox.max_processes,) * 2)


def test_the_next_player_works_normally_after_all_these_attacks(sandbox):
    assert said(sandbox, prints("'fine'")) == "fine"


def test_a_sandbox_leaves_no_process_no_cgroup_and_no_pinning(all_cores):
    with Sandbox("bubblewrap", memory_gib=1) as sandbox:
        family = [sandbox.warm_parent.process.pid, *freezer.descendants(sandbox.warm_parent.process.pid)]
        cgroup = sandbox._cgroup and sandbox._cgroup.folder
        with contextlib.suppress(Foul), sandbox.start_player(entry("while True: pass")) as player:
            family.append(player.pid)
            load(player, 0.2)
    assert all(freezer.has_ended(pid) for pid in family)
    assert cgroup is None or not cgroup.exists()
    assert os.sched_getaffinity(0) == all_cores


def test_a_sandbox_reports_missing_features_of_its_machine():
    with Sandbox("bubblewrap", memory_gib=1, use_cgroup=False, warm=False) as sandbox:
        assert sandbox.stop_kind == "signals"
        assert sandbox.missing[0] == "a cgroup v2 freezer (signals stop the players)"


@pytest.mark.parametrize(
    ("pattern", "hard", "is_missing"), [("|/handler %p", 0, True), ("|/handler %p", 1, False), ("core", 0, False)]
)
def test_a_sandbox_reports_that_crashes_start_a_program_of_the_machine(
    tmp_path, monkeypatch, pattern, hard, is_missing
):
    """With a limit of 0 the kernel still starts it, and an unprivileged process cannot raise a hard limit."""
    (tmp_path / "core_pattern").write_text(f"{pattern}\n")
    monkeypatch.setattr(sandbox_module, "_CORE_PATTERN", tmp_path / "core_pattern")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, hard))
    with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox:
        assert any("core dumps" in one for one in sandbox.missing) is is_missing


def test_a_player_starts_while_an_earlier_ones_files_are_in_flight(monkeypatch):
    """The kernel refuses this only to unprivileged users, so the test makes up its refusals."""
    send, refusals = socket.send_fds, iter([errno.ETOOMANYREFS] * 3)

    def refuse_at_first(*about):
        if number := next(refusals, None):
            raise OSError(number, os.strerror(number))
        return send(*about)

    with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox:
        monkeypatch.setattr(socket, "send_fds", refuse_at_first)
        with sandbox.start_player(PlayerFiles(name="probe", files={})) as player:
            assert player.pid
        assert next(refusals, None) is None
        refusals = iter([errno.EPIPE])
        with pytest.raises(JudgeError, match="warm parent has ended"), sandbox.start_player(entry("")):
            pass


def test_the_end_of_the_warm_parent_is_a_judging_error():
    with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox:
        warm_parent = sandbox.warm_parent.await_warmth()._warm_parent
        os.kill(warm_parent, signal.SIGKILL)
        freezer.await_end([warm_parent])
        for _ in range(2):
            with pytest.raises(JudgeError, match="warm parent has ended"), sandbox.start_player(entry("")):
                pass
        sandbox.warm_parent._health = None  # as after an error that ends a judging


MOUNTED = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
30 22 0:30 / /proc/sys/fs/binfmt_misc rw,relatime - autofs systemd-1 rw
63 22 0:39 / /proc/driver/nvidia rw,nosuid - tmpfs tmpfs rw,mode=555
64 63 0:21 /driver/nvidia/gpus/0000:01:00.0 /proc/driver/nvidia/gpus/0000:01:00.0 ro,nosuid - proc proc rw
65 27 0:40 / /srv/proc/x rw - tmpfs tmpfs rw
"""


def test_mounts_over_proc_are_listed_in_unmount_order():
    assert find_covers(MOUNTED) == ["/proc/driver/nvidia/gpus/0000:01:00.0", "/proc/driver/nvidia"]
    assert find_covers("22 27 0:21 / /proc rw,relatime - proc proc rw\n") == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount anything")
def test_the_sandbox_names_the_mounts_over_proc_and_works_without_them():
    look = f"{sys.executable} -c 'from harness.sandbox.works_here import find_faults; print(find_faults())'"
    cover = "mount -t tmpfs none /proc/driver && mkdir /proc/driver/x && mount -t tmpfs none /proc/driver/x"
    script = f"{cover} || exit 9; {look}; umount /proc/driver/x /proc/driver; {look}"
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    if done.returncode == 9 or "unshare failed" in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    covered, bare = done.stdout.splitlines()
    assert "as root, umount /proc/driver/x /proc/driver, or judge outside a container" in covered
    assert bare == "[]"


def test_a_player_cannot_see_our_folders_even_if_we_are_root(tmp_path, sandbox):
    secret = tmp_path / "secret"
    secret.write_text("seed 42")
    assert said(sandbox, prints(f"os.path.exists({str(secret)!r})")) == "False"


def test_a_profiler_that_dies_before_reading_counts_as_crashed(sandbox):
    with sandbox.start_player(PlayerFiles(name="test", files={"submission.py": "pass"})) as player:
        player.stop()
        player.send({"do": "load"})
        os.kill(player.pid, signal.SIGKILL)
        with pytest.raises(Foul, match="crashed: SIGKILL"):
            player.follow(time.monotonic() + 60, "It took too long.")


def test_the_kernel_ends_a_player_at_the_limit_of_its_cgroup(sandbox):
    if not (sandbox._cgroup and sandbox._cgroup.limits_memory):
        pytest.skip("players are in no cgroup that limits memory: pullrank doctor says how they could be")
    hoard = """
        import os, time
        for i in range(20):
            os.write(os.memfd_create(str(i)), bytes(64 << 20))
        time.sleep(99)
    """
    with sandbox.start_player(entry(hoard)) as player, pytest.raises(Foul) as caught:
        load(player, 90)
    assert caught.value.verdict is Verdict.MEMORY_LIMIT_EXCEEDED
    assert caught.value.message == "Used more than 1 GiB of memory."


def test_memory_shared_by_forks_is_counted_once(sandbox):
    family = "import os, time\nfor _ in range(12):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(0.5)"
    with sandbox.start_player(entry(family)) as player:
        assert isinstance(load(player), Loaded)


def test_empty_packets_do_not_hide_an_unrequested_answer(sandbox):
    source = "import os, socket\ns = socket.socket(fileno=os.dup(900))\nfor m in (b'', b'', b'{\"is\": \"loaded\"}'): s.send(m)"
    with sandbox.start_player(entry(source)) as player, pytest.raises(Foul):
        assert load(player) is None or player.refuse_early_messages()


def test_an_orphans_endless_output_does_not_hide_the_players_end(sandbox):
    source = "import os\nif os.fork() == 0:\n    while True: os.write(1, b'x' * 65536)\nos._exit(3)"
    with sandbox.start_player(entry(source)) as player, pytest.raises(Foul, match="exit code 3"):
        load(player)


def test_players_without_a_sandbox_also_leave_nothing_behind():
    daemon = "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\ntime.sleep(0.1)"
    with Sandbox("none", memory_gib=1, use_cgroup=False) as sandbox:
        with sandbox.start_player(entry(daemon)) as player:
            assert isinstance(load(player), Loaded)
            family = list(freezer.descendants(player._keeper))
            assert len(family) >= 2
        assert all(freezer.has_ended(pid) for pid in family)


def test_players_without_a_sandbox_have_a_home_and_the_judges_path_even_below_a_folder_called_cache(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/cache/bin:{os.defpath}")
    (tmp_path / "cache").mkdir()
    shown = "os.path.isdir(os.environ['HOME']), os.environ['PATH']"
    with Sandbox("none", memory_gib=1, use_cgroup=False) as sandbox:
        assert said(sandbox, prints(shown)) == str((True, os.environ["PATH"]))


def test_a_sandbox_leaves_no_descriptor_open():
    def descriptors():
        return set(os.listdir("/proc/self/fd"))

    def use():
        with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox, sandbox.start_player(entry("")):
            pass

    use()
    before = descriptors()
    use()
    assert descriptors() == before


def test_a_player_finds_libraries_below_tmp_despite_its_own_tmp(tmp_path, monkeypatch):
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "found_below_tmp.py").write_text("")
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    monkeypatch.syspath_prepend(str(library))
    with Sandbox("bubblewrap", memory_gib=1) as sandbox:
        answer = said(sandbox, prints("os.listdir('/tmp'), found_below_tmp.__file__", "import found_below_tmp"))
    assert str(library) in answer


@pytest.fixture
def private_umask():
    """New files are for their owner only.  If the judge is root, its players are another user."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("private_umask")
def test_players_read_their_files_whatever_the_judges_umask():
    with Sandbox("bubblewrap", memory_gib=1, warm=False) as here, here.start_player(entry("")) as player:
        assert player.pid


@pytest.mark.usefixtures("private_umask")
def test_an_enclosed_program_reads_its_files_whatever_the_judges_umask():
    done = run_enclosed(lambda shown: ["cat", str(shown / "file")], {"file": b"read"}, seconds=60, max_bytes=100)
    assert done.output == b"read", done.reason


def test_a_player_finds_the_ninja_that_pip_installed(tmp_path, monkeypatch):
    ninja = tmp_path / "ninja"
    ninja.write_text("#!/bin/sh\necho 1.13\n")
    ninja.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setattr("harness.sandbox.sandbox.NINJA", ninja)
    with Sandbox("bubblewrap", memory_gib=2) as here:
        run = "__import__('subprocess').run(['/tools/ninja', '--version'], capture_output=True, text=True).stdout"
        assert said(here, prints(run)) == "1.13" and said(here, prints("os.environ['PATH']")).endswith(":/tools")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_players_start_if_libraries_start_threads_on_several_cores():
    box = Sandbox("bubblewrap", memory_gib=1)
    box.player_cores = set(box.cores)  # OpenBLAS starts a thread for each further core
    with box, box.start_player(PlayerFiles(name="player", files={})) as player:
        assert player.pid
