"""The walls, from outside: start them, put players in, stop and resume players, and leave nothing behind.

    with Sandbox("bubblewrap", memory_gib=16) as sandbox:
        with sandbox.seat(entry) as player:
            player.send(...); player.answer(deadline); player.stop(); player.resume()

bubblewrap gives the outer walls: user, pid, net, ipc, uts and cgroup namespaces, a file system of the
interpreter and the libraries only, an empty environment.  It is never started as root: root in its user
namespace would be root on the host.  Inside it the warm parent (`zygote`) forks players, each behind inner
walls of its own (`walls`).
"""

from __future__ import annotations

import contextlib
import importlib.resources
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from harness import bubblewrap, cgroup, freezer, leftovers, seccomp, walls
from harness.compile import Recipe
from harness.errors import JudgeError
from harness.health import Health
from harness.memory import Memory, memory_of
from harness.protocol import (
    LOG_BYTES,
    LOG_HEADER,
    MAX_MESSAGE,
    Answer,
    Failed,
    ProtocolError,
    Ready,
    TooComplex,
    read_answer,
    write,
)
from harness.verdict import Foul, Verdict

Kind = Literal["bubblewrap", "none"]

_INSIDE = (
    "__init__.py",
    "zygote.py",
    "awake.py",
    "player.py",
    "library.py",
    "protocol.py",
    "walls.py",
    "seccomp.py",
)
"""The modules of ours that a player may see: its own side of the border."""

_START_S = 60.0
"""How long the warm parent may take to import torch."""
_SEAT_S = 20.0
"""How long the walls of one player may take to stand."""
_WATCH_S = 0.02
"""How often memory is looked at while a player runs."""
_MAX_PROCESSES = 512
_STAGE = "pullrank-stage-"
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What one side puts on the table: its files, the name of the cache that its build fills, how it is compiled."""

    name: str
    files: dict[str, str]
    recipe: Recipe | None = None


@dataclass(frozen=True, kw_only=True)
class Program:
    """What a player becomes in a task that brings its own: a command, run in the folder of its files."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


def find_faults() -> list[str]:
    """Why bubblewrap can't be used on this machine, each with the way out; empty where it can."""
    if sys.platform != "linux" or not seccomp.supported():
        return ["the walls need Linux on x86-64 or arm64"]
    if not shutil.which("bwrap"):
        return ["bubblewrap is missing: apt install bubblewrap (or your system's package of that name)"]
    if missing := [tool for tool in ("unshare", "setpriv", "mount") if os.geteuid() == 0 and not shutil.which(tool)]:
        return [f"{', '.join(missing)} is missing: apt install util-linux mount"]
    try:
        with Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox, sandbox.seat(Entry(name="probe", files={})):
            return []
    except JudgeError as error:
        return [f"the walls don't stand here: {error}{bubblewrap.remedy()}"]


def choose_kind(wanted: str) -> Kind:
    """`auto` is bubblewrap.  Raises JudgeError where it can't be had: walls are never left out silently."""
    if wanted == "none":
        return "none"
    if faults := find_faults():
        raise JudgeError("; ".join(faults) + ". For your own code only: --sandbox none")
    return "bubblewrap"


class Sandbox:
    """The walls of one judging: a warm parent, and at most one player at a time that is not stopped.

    Pins this process to the first core and the players to the others, where there are others.  `shown` are folders of
    this machine that players see beside the system's and Python's own.
    """

    def __init__(
        self,
        kind: Kind,
        *,
        memory_gib: float,
        use_cgroup: bool = True,
        warm: bool = True,
        shown: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self._shown = shown
        self._warm = warm
        self._use_cgroup = use_cgroup
        self._health: Health | None = None
        self.memory_bytes = int(memory_gib * 2**30)
        self.cores = sorted(os.sched_getaffinity(0))
        self.referee_core = {self.cores[0]}
        self.player_cores = set(self.cores[1:]) or self.referee_core
        self.missing: list[str] = []
        self._cleanup = contextlib.ExitStack()

    @property
    def is_walled(self) -> bool:
        return self.kind != "none"

    @property
    def has_core_of_its_own(self) -> bool:
        """Whether the referee may spin without taking the player's core."""
        return len(self.cores) > 1

    @property
    def stop_kind(self) -> Literal["freezer", "signals"]:
        return "freezer" if self._cgroup else "signals"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._cleanup.close()
            raise
        return self

    def _start(self) -> None:
        self._stage = self._make_stage()
        self._cgroup = freezer.find_cgroup() if self._use_cgroup else None
        if self._cgroup:
            self._cleanup.callback(self._cgroup.remove)
        else:
            self.missing.append("a cgroup v2 to freeze players in: they are stopped by signals")
        if not self.has_core_of_its_own:
            self.missing.append("a core for each side: times are rough")
        self._cleanup.callback(os.sched_setaffinity, 0, self.cores)
        self._start_warm_parent(self._stage)
        os.sched_setaffinity(0, self.referee_core)

    def _make_stage(self) -> Path:
        stage = Path(tempfile.mkdtemp(prefix=_STAGE))
        self._cleanup.callback(shutil.rmtree, stage, ignore_errors=True)
        self._cleanup.callback(os.close, leftovers.claim(stage))
        for abandoned in leftovers.abandoned(stage.parent.glob(f"{_STAGE}*")):
            shutil.rmtree(abandoned, ignore_errors=True)
        stage.chmod(0o755)
        package = stage / "player" / "harness"
        package.mkdir(parents=True)
        for name in _INSIDE:
            (package / name).write_bytes(importlib.resources.files("harness").joinpath(name).read_bytes())
        (stage / "tmp").mkdir()
        return stage

    def _start_warm_parent(self, stage: Path) -> None:
        self._orders, theirs = _socket_pair()
        self._cleanup.callback(self._orders.close)
        walled = self.is_walled
        options = {
            "fd": theirs.fileno(),
            "walled": walled,
            "warm": self._warm,
            "awake": self._warm and self.has_core_of_its_own,
            "cores": sorted(self.player_cores),
            "threads": len(self.player_cores),
            "libraries": bubblewrap.places_aside(),
        }
        home = "/player" if walled else str(stage / "player")
        packages = [path for path in sys.path if "-packages" in path]
        paths = f"import sys; sys.path[:0] = [{home!r}]; sys.path += {packages!r}; "
        start = paths + "from harness import zygote; zygote.start()"
        python = [sys.executable, "-I", "-c", start, json.dumps(options)]
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        if not walled:
            environment |= bubblewrap.ENVIRONMENT | {"PATH": environment["PATH"], "HOME": str(stage / "tmp")}
            environment |= {key: value.replace("/cache", str(stage / "tmp")) for key, value in environment.items()}
            environment["TMPDIR"] = str(stage / "tmp")
        self._errors = self._cleanup.enter_context(tempfile.TemporaryFile())
        self._warm_parent = subprocess.Popen(
            bubblewrap.command(stage, python, self._shown) if walled else python,
            stdin=subprocess.DEVNULL,
            stdout=self._errors,
            stderr=self._errors,
            env=environment,
            cwd="/",
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        self._cleanup.callback(self._end_warm_parent)
        theirs.close()

    def await_warmth(self) -> Health:
        """Wait until the warm parent has imported torch.  Raises JudgeError if it does not come up."""
        if self._health:
            return self._health
        self._orders.settimeout(_START_S)
        try:
            warm, warm_parent = _receive_signed(self._orders)
        except TimeoutError:
            warm, warm_parent = b"", 0
        if warm != b"warm":
            raise JudgeError(f"the player's warm parent did not start: {self._last_error()}")
        self._health = Health(self._warm_parent.pid, warm_parent, self._stage, walled=self.is_walled)
        return self._health

    def _last_error(self) -> str:
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "no reason given"

    def _end_warm_parent(self) -> None:
        family = list(freezer.descendants(self._warm_parent.pid))
        for pid in (*family, self._warm_parent.pid):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # Where it has a chance to run: of a core that others keep busy, a spinner gets too little to end.
                os.sched_setaffinity(pid, self.cores)
                os.kill(pid, signal.SIGKILL)
        self._warm_parent.wait()
        freezer.await_end(family)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._cleanup:
            if self._health and kind is None:
                self.require_health()

    def require_health(self) -> None:
        """Raises JudgeError if anything is not as it was before the first player came."""
        # That it seats another player shows that the warm parent is well.
        with self.seat(Entry(name="nobody", files={})):
            pass
        self.await_warmth().check_thoroughly()

    @property
    def cache(self) -> Path:
        """What the build fills, as a player sees it."""
        return Path("/cache") if self.is_walled else self._stage / "tmp"

    @contextlib.contextmanager
    def seat(self, entry: Entry, *, building: bool = False, program: Program | None = None) -> Iterator[Player]:
        """A fresh player, ready to load or to become a program; killed with all it started when the block ends."""
        health = self.await_warmth()
        room = walls.Room(
            files=entry.files,
            cache=entry.name,
            building=building,
            # Pages of a tmpfs belong to no process: the watchdog on memory does not see them.
            scratch_bytes=max(64 << 20, min(1 << 30, self.memory_bytes // 8)),
            memory_bytes=self.memory_bytes,
            # Unwalled, the limit would count what the user runs elsewhere.
            max_processes=_MAX_PROCESSES if self.is_walled else None,
            program=program.command if program else (),
            environment=program.environment if program else {},
        )
        player = Player(self, room)
        try:
            player.await_ready()
            yield player
        finally:
            player.close(health)
            if building:
                health.seal(entry.name)

    def order(self, control: socket.socket, *descriptors: int) -> None:
        """Have the warm parent fork a player; the descriptors are its room, its log, and where its results go."""
        try:
            socket.send_fds(self._orders, [b"!"], [control.fileno(), *descriptors])
        except OSError as error:
            raise JudgeError(f"the player's warm parent has ended ({error}): {self._last_error()}") from None

    def freezer_for(self, keeper: int, player: int) -> freezer.Freezer:
        if self._cgroup:
            limits = cgroup.Limits(memory_bytes=self.memory_bytes, processes=_MAX_PROCESSES)
            return freezer.CgroupFreezer(self._cgroup.folder, player, limits)
        return freezer.SignalFreezer(keeper, player)


class Player:
    """One player process and all that it starts, as the referee sees it."""

    def __init__(self, sandbox: Sandbox, room: walls.Room) -> None:
        self._sandbox = sandbox
        self._control, theirs = _socket_pair()
        self._arrivals = select.poll()
        self._arrivals.register(self._control, select.POLLIN)
        self._packet = memoryview(bytearray(MAX_MESSAGE + 1))  # one byte more than allowed: a longer one is seen to be
        self._log = os.memfd_create("log")
        self._freezer: freezer.Freezer | None = None
        self._memory: Memory | None = None
        self._keeper = 0
        self.pid = 0
        self.results: int | None
        """Where a program's results can be read."""
        self.results, told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) if room.program else (None, None)
        room_fd = os.memfd_create("room")
        try:
            os.write(room_fd, json.dumps(asdict(room)).encode())
            if told is not None:
                os.set_blocking(told, True)  # a program may write faster than it is read
            sandbox.order(theirs, room_fd, self._log, *([] if told is None else [told]))
        except BaseException:
            self._close()
            raise
        finally:
            os.close(room_fd)
            theirs.close()
            if told is not None:
                os.close(told)

    def _close(self) -> None:
        self._control.close()
        for descriptor in (self._log, self.results):
            if descriptor is not None:
                os.close(descriptor)

    def await_ready(self) -> None:
        """Learn the pids of keeper and player, and make sure that the player can be stopped."""
        self._keeper = self._hello()
        self.pid = self._hello()
        self._control.setblocking(False)
        try:
            self._freezer = self._sandbox.freezer_for(self._keeper, self.pid)
            self._memory = memory_of(self.pid, self._freezer, self._sandbox.memory_bytes)
        except OSError as error:
            raise JudgeError(f"the player could not be moved into its cgroup: {error}") from None

    def _hello(self) -> int:
        self._control.settimeout(_SEAT_S)
        try:
            packet, sender = _receive_signed(self._control)
            answer = read_answer(packet)
        except (TimeoutError, ProtocolError, OSError) as error:
            raise JudgeError(f"a player did not come up: {error}") from None
        if not isinstance(answer, Ready):
            why = f"{answer.error}: {answer.message}" if isinstance(answer, Failed) else "no greeting"
            raise JudgeError(f"a player did not come up: {why}")
        return sender

    def send(self, message: dict[str, Any]) -> None:
        try:
            self._control.send(write(message))
        except BlockingIOError:
            raise Foul(Verdict.RUN_TIME_ERROR, "The process does not read its orders.") from None
        except OSError:
            raise self.died() from None

    def answer(self, deadline: float, late: str) -> Answer:
        """The player's next answer: `receive` and `read` in one."""
        return self.read(self.receive(deadline, late))

    def receive(self, deadline: float, late: str) -> bytes:
        """The player's next packet.  `deadline` is of `time.monotonic()`; `late` is said if it passes.

        Raises:
            Foul: it ended, took too long, or used too much memory.
        """
        receive_into, packet = self._control.recv_into, self._packet
        next_look = time.monotonic() + _WATCH_S
        while True:
            try:
                if length := receive_into(packet):
                    return bytes(packet[:length])
                raise self.died()
            except BlockingIOError:
                pass
            except OSError:
                raise self.died() from None
            if (now := time.monotonic()) > next_look:
                self.check_memory()
                next_look = now + _WATCH_S
            if now > deadline:
                raise Foul(Verdict.TIME_LIMIT_EXCEEDED, late)
            if not self._sandbox.has_core_of_its_own:
                time.sleep(0.0001)

    def read(self, packet: bytes) -> Answer:
        """What a packet of the player says.  Raises Foul if it is none that an honest player sends."""
        try:
            return read_answer(packet)
        except ProtocolError as error:
            raise Foul(Verdict.SECURITY_VIOLATION, f"The process wrote to the referee by itself: {error}.") from None
        except TooComplex as error:
            raise Foul(Verdict.WRONG_ANSWER, f"The output {error}.") from None

    def refuse_early_messages(self) -> None:
        """While the player is stopped nothing may come: a message now was sent without being asked for."""
        if self._arrivals.poll(0):
            if self._control.recv_into(self._packet):
                raise Foul(Verdict.SECURITY_VIOLATION, "The process answered the referee without being asked.")
            raise self.died()

    def stop(self) -> None:
        assert self._freezer
        self._freezer.stop()

    def resume(self) -> None:
        assert self._freezer
        self._freezer.resume()

    def check_memory(self) -> None:
        """Raises Foul if the player uses more than it may."""
        assert self._memory
        self._memory.check()

    def died(self) -> Foul:
        """Why the process ended by itself, as its keeper saw it."""
        give_up = time.monotonic() + 5
        while time.monotonic() < give_up:
            if (status := self.find_status()) is not None:
                return Foul(Verdict.RUN_TIME_ERROR, how_it_ended(status))
            if freezer.has_ended(self._keeper):
                break
            time.sleep(0.001)
        return Foul(Verdict.RUN_TIME_ERROR, "The process closed its connection to the referee, or sent nothing in it.")

    def find_status(self) -> int | None:
        """The wait status of a process that has ended by itself, as its keeper saw it.  Raises as `check_memory`."""
        ended, status, _ = LOG_HEADER.unpack(os.pread(self._log, LOG_HEADER.size, 0) or bytes(LOG_HEADER.size))
        if not ended:
            return None
        if self._memory and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self._memory.check_kill()
        return int(status)

    @property
    def is_gone(self) -> bool:
        """Whether even its keeper has ended."""
        return freezer.has_ended(self._keeper)

    def require_started(self) -> None:
        """Raises JudgeError if the command of a program could not be run: then, and only then, there is a message."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            answer = read_answer(self._control.recv(MAX_MESSAGE) or b'{"is":"loaded"}')
            if isinstance(answer, Failed):
                raise JudgeError(f"a program of the task's did not start: {answer.message}")

    @property
    def log(self) -> str:
        """The end of what the player printed.  Hostile text."""
        header = os.pread(self._log, LOG_HEADER.size, 0)
        if len(header) < LOG_HEADER.size:
            return ""
        printed = LOG_HEADER.unpack(header)[2]
        kept = min(printed, LOG_BYTES)
        text = os.pread(self._log, kept, LOG_HEADER.size).decode(errors="replace")
        return text if printed == kept else f"[the last {kept} of {printed} bytes]\n{text}"

    def close(self, health: Health) -> None:
        """Kill everything that the player is, and wait until it is gone.

        Raises:
            JudgeError: the machine is not as it was before the player came.
        """
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self._close)
            if self._memory:
                cleanup.callback(self._memory.close)
                self._memory.expect_end()
            if self._keeper:
                self._kill(health)
            if self._freezer:
                self._freezer.close()
            if self._memory:
                self._memory.settle()
            health.check()

    def _kill(self, health: Health) -> None:
        # A keeper behind walls is the first process of its namespace: it ends after all others in there.
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._keeper, signal.SIGKILL)
        if not self._sandbox.is_walled:
            health.kill_strays()
        freezer.await_end([self._keeper])


def _socket_pair() -> tuple[socket.socket, socket.socket]:
    """Ours and theirs; with what arrives at ours, the kernel says who sent it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def _receive_signed(ours: socket.socket) -> tuple[bytes, int]:
    """A packet, and the pid of its sender as our namespace numbers it; 0 at the end."""
    packet, ancillary, _, _ = ours.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(_CREDENTIALS.size))
    return packet, int(_CREDENTIALS.unpack(ancillary[0][2][: _CREDENTIALS.size])[0]) if ancillary else 0


def how_it_ended(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            name = signal.Signals(number).name
            return f"The process crashed: {name} ({(signal.strsignal(number) or '').lower()})."
        return f"The process was ended by signal {number}."
    return f"The process ended by itself with exit code {os.waitstatus_to_exitcode(status)} before it had answered."
