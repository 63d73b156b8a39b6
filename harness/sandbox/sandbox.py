"""The sandbox of one judging: start it, run players in it, stop and resume them, and clean up everything.

    with Sandbox("bubblewrap", memory_gib=16) as sandbox:
        with sandbox.start_player(entry) as player:
            player.send(...); player.answer(deadline, late); player.stop(); player.resume()

bubblewrap is the outer sandbox: user, pid, net, ipc, uts and cgroup namespaces, a file system with only the system's
programs and libraries and the interpreter's, an environment of our own.  It never starts as root: root in its user
namespace would be root on the host.
Inside it, the warm parent (`zygote`) forks players, each in an inner sandbox of its own (`inner_sandbox`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import json
import os
import resource
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from harness.gpu.device import CPU, Device
from harness.gpu.gpu_memory import ReadCard, find_card
from harness.gpu.gpu_nodes import CHOOSING, Shown, require_gpus, shown_of
from harness.gpu.gpu_nodes import find_faults as find_gpu_faults
from harness.inside import zygote
from harness.inside.inner_sandbox import PlayerSetup
from harness.processes import cgroup, freezer, memory, other_work
from harness.processes.other_work import OtherWork
from harness.records import stale_folders
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.sandbox import bubblewrap
from harness.sandbox.confinement import Confinement
from harness.sandbox.player_handle import PlayerHandle
from harness.sandbox.torch_header import TorchHeader
from harness.sandbox.warm_parent import WarmParent
from harness.task import torch_compiler
from harness.task.compile import Recipe

SandboxKind = Literal["bubblewrap", "none"]

_MAX_PROCESSES, _PROCESSES_PER_CORE = 512, 8
"""Threads count as processes: for each core, libraries start threads of their own, and a spinner keeps it awake."""
_STAGE = "pullrank-stage-"
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@dataclass(frozen=True, kw_only=True)
class PlayerFiles:
    """The files of one player, the cache that its build fills, and how to compile it.

    Players see the name of their `cache`.  It is random, so that it does not tell a champion from a challenger.
    """

    name: str
    files: dict[str, str]
    recipe: Recipe | None = None
    cache: str = field(default_factory=lambda: secrets.token_hex(8))


@dataclass(frozen=True, kw_only=True)
class Program:
    """A command that a player executes in the folder of its files: a task's own program, or one that starts a profiler.

    One that `starts_profiler` has it start the player again; profiler and player may talk to each other by IP.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    starts_profiler: bool = False


def starts_core_handler() -> bool:
    """Whether the kernel starts the machine's handler of core dumps for a player: only a limit of 1 prevents that."""
    if resource.getrlimit(resource.RLIMIT_CORE)[1] != 0:
        return False
    try:
        return _CORE_PATTERN.read_bytes().startswith(b"|")
    except OSError:
        return True  # unknown


def visible_gpus(device: Device, world_size: int = 1) -> Shown | None:
    """What players see of this machine's GPUs; None for other devices.

    Raises:
        JudgeError: this machine has fewer GPUs, or players can't use them.
    """
    if not device.is_gpu:
        return None
    gpus = require_gpus(world_size)
    if faults := find_gpu_faults(gpus):
        raise JudgeError("; ".join(faults))
    return shown_of(gpus)


NINJA = Path(sys.executable).parent / "ninja"
"""Where pip puts ninja, which torch needs to compile a C++ extension.  Players see it in /tools."""


def _copy_players_side(folder: Path) -> None:
    """Copy the modules of `harness.inside`, the only ones of ours that a player sees."""
    source = importlib.resources.files("harness")
    inside = folder / "harness" / "inside"
    inside.mkdir(parents=True)
    (inside.parent / "__init__.py").write_bytes(source.joinpath("__init__.py").read_bytes())
    for module in source.joinpath("inside").iterdir():
        if module.name.endswith(".py"):
            (inside / module.name).write_bytes(module.read_bytes())


class Sandbox:
    """The sandbox of one judging: a warm parent, and at most one player at a time that is not stopped.

    Pins this process to the first core and the players to the others, if there are others.  `shown` are additional
    folders that players see, besides those of the system and of Python.  If it `has_compiler`, the warm parent imports
    torch's compiler, too.  `world_size` is the number of GPUs that players need; with several, their ranks may talk to
    each other by IP, on a network that ends with the sandbox.
    """

    def __init__(
        self,
        kind: SandboxKind,
        *,
        memory_gib: float,
        gpu_memory_gib: float | None = None,
        use_cgroup: bool = True,
        warm: bool = True,
        shown: Sequence[str] = (),
        has_compiler: bool = False,
        device: Device = CPU,
        world_size: int = 1,
    ) -> None:
        self.kind = kind
        self.device = device
        self._gpu = visible_gpus(device, world_size)
        self._world_size = world_size
        self._shown = shown
        self._warm = warm
        self._has_compiler = has_compiler
        self._use_cgroup = use_cgroup
        self.memory_bytes = memory.limit_of(memory_gib)
        self.gpu_memory_bytes = None if gpu_memory_gib is None else int(gpu_memory_gib * 2**30)
        self.cards: list[ReadCard] = []
        self.cores = sorted(os.sched_getaffinity(0))
        self.referee_core = {self.cores[0]}
        self.player_cores = set(self.cores[1:]) or self.referee_core
        self.missing: list[str] = []
        if self.memory_bytes < int(memory_gib * 2**30):
            self.missing.append(f"{memory_gib:g} GiB of memory (the limit is {self.memory_bytes / 2**30:.1f} GiB)")
        self._cleanup = contextlib.ExitStack()
        self._header: TorchHeader | None = None

    @property
    def is_sandboxed(self) -> bool:
        return self.kind != "none"

    @property
    def has_core_of_its_own(self) -> bool:
        """Whether the referee can spin without using the player's core."""
        return len(self.cores) > 1

    @property
    def is_spent(self) -> bool:
        """Whether a player that cannot be ended blocks new ones."""
        return self.warm_parent.is_spent

    @property
    def max_processes(self) -> int:
        """The limit for one player, including its threads."""
        return _MAX_PROCESSES + _PROCESSES_PER_CORE * len(self.player_cores)

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
        self.warm_parent = WarmParent(self._stage, sandboxed=self.is_sandboxed, cores=self.cores)
        self._cgroup = freezer.find_cgroup() if self._use_cgroup else None
        if self._cgroup:
            self._cleanup.callback(self._remove_cgroup)
        else:
            self.missing.append("a cgroup v2 freezer (signals stop the players)")
        if self.is_sandboxed and starts_core_handler():
            self.missing.append("a hard limit of core dumps above 0 (a crash starts a program of the machine as root)")
        if not self.has_core_of_its_own:
            self.missing.append("a core for each side (times are imprecise)")
        if self.device.is_gpu:
            gpus = require_gpus(self._world_size)
            self.cards = [card for gpu in gpus if (card := find_card(gpu))]
            if len(self.cards) < len(gpus):
                self.missing.append("a driver that reports GPU memory (its limit is not enforced)")
        self._cleanup.callback(os.sched_setaffinity, 0, self.cores)
        self._start_warm_parent(self._stage)
        os.sched_setaffinity(0, self.referee_core)
        self._start_header()

    def _start_header(self) -> None:
        """Precompile the header of torch's compiler, if its options are known and there is a core for it."""
        options = torch_compiler.header_options() if "CXX" in self._compiler_environment else []
        if options and self.has_core_of_its_own:
            folder = self._stage / torch_compiler.HEADERS
            self._header = TorchHeader(folder, options, torch_compiler.include_options())
            self._cleanup.callback(self._header.end)

    def _remove_cgroup(self) -> None:
        assert self._cgroup
        # The next judge removes what a player that does not end leaves here.
        try:
            self._cgroup.remove()
        except JudgeError:
            if not self.warm_parent.is_spent:
                raise

    def _make_stage(self) -> Path:
        stage = Path(tempfile.mkdtemp(prefix=_STAGE))
        self._cleanup.callback(shutil.rmtree, stage, ignore_errors=True)
        self._cleanup.callback(os.close, stale_folders.claim(stage))
        for abandoned in stale_folders.abandoned(stage.parent.glob(f"{_STAGE}*")):
            shutil.rmtree(abandoned, ignore_errors=True)
        stage.chmod(0o755)
        _copy_players_side(stage / "player")
        # Copies, as the players' user may be unable to reach a Python in somebody's home.
        (stage / "tools").mkdir()
        if NINJA.is_file():
            shutil.copy(NINJA, stage / "tools")
        if self._has_compiler:
            torch_compiler.write_script(stage / "tools")
            (stage / torch_compiler.HEADERS).mkdir()
        if "/" in self.device.driver:
            shutil.copy(self.device.driver, stage / "tools")
        # A judge started by root runs players as another user, and root's umask may keep others out of new files.
        for path in stage.rglob("*"):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        (stage / "tmp").mkdir()
        return stage

    @property
    def driver(self) -> str:
        """The library of the device's driver, for the referee: part of the system, or a file of its own."""
        driver = self.device.driver
        return str(self._stage / "tools" / Path(driver).name) if "/" in driver else driver

    @property
    def _players_driver(self) -> str:
        driver = self.device.driver
        return self._players_tool(Path(driver).name) if self.is_sandboxed and "/" in driver else self.driver

    def _players_tool(self, name: str) -> str:
        """The path of a file in the folder of tools, as a player sees it."""
        return f"/tools/{name}" if self.is_sandboxed else str(self._stage / "tools" / name)

    def _start_warm_parent(self, stage: Path) -> None:
        options = {
            "sandboxed": self.is_sandboxed,
            "warm": self._warm,
            "cores": sorted(self.player_cores),
            "threads": len(self.player_cores),
            "libraries": bubblewrap.places_aside(),
            "preload": torch_compiler.MODULES if self._has_compiler else (),
            "environment": self._compiler_environment,
            "device": self.device.name if self.device.opens_a_device else "",
            "driver": self._players_driver,
        }
        self._cleanup.callback(self.warm_parent.end)

        def command(control: int) -> list[str]:
            python = self._python("from harness.inside import zygote; zygote.start()", {"fd": control, **options})
            return bubblewrap.command(stage, python, self._shown, self._gpu) if self.is_sandboxed else python

        self.warm_parent.start(command, self._environment(stage))

    @functools.cached_property
    def _compiler_environment(self) -> dict[str, str]:
        """Variables for torch's compiler; empty without it."""
        if not self._has_compiler:
            return {}
        cxx = self._players_tool(torch_compiler.CXX)
        return torch_compiler.environment(bubblewrap.ENVIRONMENT["PATH"], cxx)

    def _environment(self, stage: Path) -> dict[str, str]:
        path = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
        if self.is_sandboxed:
            return path  # for bubblewrap itself, which sets another environment for the warm parent
        scratch = str(stage / "tmp")
        sandboxed = bubblewrap.environment_of(self._gpu)
        environment = {key: value.replace("/cache", scratch) for key, value in sandboxed.items()}
        if not self._gpu:  # torch's compiler would start CUDA in the warm parent, and no fork of it could use CUDA
            environment["CUDA_VISIBLE_DEVICES"] = ""
        elif chosen := {name: os.environ[name] for name in CHOOSING if name in os.environ}:
            # The numbers of GPUs without an id are those in the sandbox, and here all GPUs are visible.
            environment = {name: value for name, value in environment.items() if name not in CHOOSING} | chosen
        return environment | path | {"HOME": scratch, "TMPDIR": scratch}

    def _python(self, code: str, options: Mapping[str, object]) -> list[str]:
        """The command of an interpreter for players, which finds our player modules and the machine's packages."""
        home = "/player" if self.is_sandboxed else str(self._stage / "player")
        packages = [path for path in sys.path if "-packages" in path]
        paths = f"import sys; sys.path[:0] = [{home!r}]; sys.path += {packages!r}; "
        return [sys.executable, "-IB", "-c", paths + code, json.dumps(options)]

    def profiled_player(self, entry: PlayerFiles, order: Mapping[str, object]) -> Program:
        """The program that starts an entry's player under a profiler.  Completes the order to its `start`."""
        player = {
            "library": str(self.cache / "build" / f"{entry.cache}.so"),
            "threads": len(self.player_cores),
            "device": self.device.name if self.device.opens_a_device else "",
            "driver": self._players_driver,
        }
        ours = {"control": zygote.CONTROL, "results": zygote.RESULTS, "player": player}
        command = self._python("from harness.inside import profiled_player; profiled_player.start()", {**order, **ours})
        return Program(command=tuple(command), starts_profiler=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._cleanup:
            if kind is None:
                self.require_health_if_used()

    def end(self) -> None:
        """End all its processes, without a look at the machine's health."""
        self._cleanup.close()

    @property
    def _confinement(self) -> Confinement:
        return Confinement(
            limits=cgroup.CgroupLimits(memory_bytes=self.memory_bytes, processes=self.max_processes),
            gpu_memory_bytes=self.gpu_memory_bytes,
            cards=self.cards,
            cgroup=self._cgroup,
            has_core_of_its_own=self.has_core_of_its_own,
            is_sandboxed=self.is_sandboxed,
            cores=self.player_cores,
            yielding=(*self.warm_parent.spinners, *(() if self.has_core_of_its_own else (os.getpid(),))),
        )

    def await_torch_header(self) -> None:
        """Wait until the header of torch's compiler is precompiled, if it is being precompiled."""
        if self._header:
            self._header.wait()
            self._header = None
            self.warm_parent.await_warmth().watch(self._stage / torch_compiler.HEADERS)

    def keep_awake(self) -> None:
        """Keep the players' cores awake from now on, for better times, if the referee has a core of its own.

        Waits for the header of torch's compiler: to precompile it would disturb runs.
        """
        self.await_torch_header()
        if self.has_core_of_its_own:
            self.warm_parent.keep_awake()

    def other_work(self) -> OtherWork:
        """A new measurement of other work during a run; without effect before `keep_awake`."""
        return OtherWork(self.warm_parent.spinners, referee_spins=not self.device.opens_a_device)

    def listen(self) -> float:
        """The share of a core that other work takes now, while there is no player; 0 before `keep_awake`."""
        return other_work.listen(self.warm_parent.spinners)

    def require_health_if_used(self) -> None:
        """As `require_health`; does nothing if there was no player, or if one does not end."""
        if self.warm_parent.is_warm and not self.warm_parent.is_spent:
            self.require_health()

    def require_health(self) -> None:
        """Raises JudgeError if a player changed the machine (`Health`)."""
        # Starting another player shows that the warm parent still works.
        with self.start_player(PlayerFiles(name="nobody", files={})):
            pass
        self.warm_parent.await_warmth().check_thoroughly()

    def is_sealed(self, entry: PlayerFiles) -> bool:
        """Whether an entry's cache can no longer change.  Without a sandbox, none is."""
        return self.warm_parent.await_warmth().is_sealed(entry.cache)

    def seal(self, entry: PlayerFiles) -> None:
        """Make an entry's cache read-only, after its build.

        Raises:
            Foul: the build has left one of its files open, or so much that no memory is left to players.
            JudgeError: the warm parent has ended.
        """
        self.warm_parent.seal(entry.cache)
        health = self.warm_parent.await_warmth()
        health.seal(entry.cache)
        if (cached_bytes := health.cached_bytes(entry.cache)) > self.memory_bytes:
            cached_gib, limit_gib = cached_bytes / 2**30, self.memory_bytes / 2**30
            message = f"Its build left {cached_gib:.1f} GiB in the cache; the memory limit is {limit_gib:.1f} GiB."
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, message)

    def has_inductor_cache(self, entry: PlayerFiles) -> bool:
        """Whether the cache of torch.compile has entries.  Any submission can make some."""
        return self.warm_parent.await_warmth().has_in_cache(entry.cache, "inductor")

    @property
    def cache(self) -> Path:
        """The cache folder that a build fills, as a player sees it."""
        return Path("/cache") if self.is_sandboxed else self._stage / "tmp"

    @contextlib.contextmanager
    def start_player(
        self,
        entry: PlayerFiles,
        *,
        building: bool = False,
        program: Program | None = None,
    ) -> Iterator[PlayerHandle]:
        """Start a fresh player, ready to load or to execute a program; kill all its processes when the block ends.

        Args:
            building: it may write to the entry's cache.  After the last such player, `seal` it.

        Raises:
            Foul: at the end of the block: the player does not end, because of what it did.
            JudgeError: the player does not start, or its end left something behind.
        """
        if self.warm_parent.await_warmth().is_spent:
            raise JudgeError("a killed player has not ended: this sandbox cannot start another")
        setup = PlayerSetup(
            files=entry.files,
            cache=entry.cache,
            building=building,
            # Pages of a tmpfs belong to no process, so the memory watch does not count them.
            scratch_bytes=max(64 << 20, min(1 << 30, self.memory_bytes // 8)),
            # CUDA reserves address space by the terabyte.
            memory_bytes=None if self.device.is_gpu else self.memory_bytes,
            # Without a sandbox, the limit would also count the user's other processes.
            max_processes=self.max_processes if self.is_sandboxed else None,
            program=program.command if program else (),
            environment=program.environment if program else {},
            starts_profiler=program is not None and program.starts_profiler,
            has_loopback=self._world_size > 1 or (program is not None and program.starts_profiler),
        )
        confinement = self._confinement
        if setup.starts_profiler:  # a vendor's profiler takes most of a GPU's memory, to restore it between its passes
            confinement = replace(confinement, cards=())
        player = PlayerHandle(self.warm_parent, setup, confinement)
        stopped = False
        try:
            player.await_ready()
            yield player
        except (KeyboardInterrupt, SystemExit):
            stopped = True  # the whole sandbox ends now
            raise
        finally:
            player.close(checked=not stopped)
