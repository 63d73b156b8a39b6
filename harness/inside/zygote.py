"""The warm parent: imports torch once, then forks a fresh player for every run.

It runs in bubblewrap and never reads a line of a submission: only its grandchildren do, each in an inner sandbox of its
own.  So a fresh player costs milliseconds instead of an import of torch.

    zygote                          imports torch, holds CAP_SYS_ADMIN in bubblewrap's user namespace
      └ keeper (pid 1)              mounts the file system, keeps the end of the player's output, reports how it ended
          └ player (pid 2)          fully confined; runs the submission

An order is one packet on the zygote's socket: a byte, `PLAYER`, `SEAL` or `KEEP_AWAKE`, and for the first two the name
of a cache. `PLAYER` comes with three descriptors: the player's control socket, its `PlayerSetup` as JSON in a memfd,
and its log in a memfd. If the player executes a task's own program, the fourth descriptor is the pipe for its results.

The zygote never reads a `PlayerSetup`: each later player is a fork of it and would find earlier submissions in its
memory.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.inside import inner_sandbox, keep_cores_awake
from harness.inside.inner_sandbox import PlayerSetup
from harness.inside.protocol import LOG_BYTES, LOG_HEADER, MAX_MESSAGE, write

_CHUNKS = 16
PLAYER, SEAL, KEEP_AWAKE = b"p", b"s", b"k"
AWAKE = b"awake"
"""The answer to `KEEP_AWAKE`, after the spinners have started."""
SEALED = b"sealed"
"""The answer to `SEAL`."""
KEPT_OPEN = b"kept open"
"""The answer to `SEAL` if a file of the cache is still open, although the build has ended."""
_MAX_ORDER = 256
CONTROL = 900
"""The descriptor of the player's control socket: a number that no program writes to by accident."""
RESULTS = 901
"""The descriptor of the pipe for the results of a task's own program."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to start players.

    `threads` is the number of torch's threads.  `libraries` maps library folders that a player's own /tmp would hide to
    where they are mounted.  Without `warm`, torch is not imported, to test only the sandbox.  `preload` are modules to
    import after torch, `environment` are variables for them and for the players.  `device` and `driver` are the
    player's (`player.main`).
    """

    sandboxed: bool
    warm: bool
    cores: tuple[int, ...]
    threads: int
    libraries: dict[str, str]
    preload: tuple[str, ...]
    environment: dict[str, str]
    device: str
    driver: str = ""


def main(orders: socket.socket, options: Options) -> None:
    """Obey orders until the referee hangs up."""
    os.sched_setaffinity(0, options.cores)
    if options.sandboxed:
        inner_sandbox.prepare()
    else:
        inner_sandbox.adopt_orphans()
    if options.warm:
        os.environ.update(options.environment)
        _warm_up(options.preload)
    orders.send(b"warm")
    while True:
        packet, descriptors, _, _ = socket.recv_fds(orders, _MAX_ORDER, 4)
        if not packet:
            if not options.sandboxed:
                _end_session()
            return
        cache = packet[1:].decode()
        if packet == KEEP_AWAKE:
            keep_cores_awake.keep_awake(options.cores)
            orders.send(AWAKE)
        elif packet[:1] == SEAL:
            orders.send(_seal(cache))
        else:
            _fork_keeper(cache, descriptors, options)


def _seal(cache: str) -> bytes:
    try:
        inner_sandbox.seal_cache(cache)
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
        return KEPT_OPEN
    return SEALED


def _fork_keeper(cache: str, descriptors: list[int], options: Options) -> None:
    if options.sandboxed:
        inner_sandbox.prepare_cache(cache)
    try:
        keeper = inner_sandbox.fork() if options.sandboxed else os.fork()
    except OSError as error:
        _report_trouble(descriptors[0], error)
    else:
        if keeper == 0:
            control = socket.socket(fileno=descriptors[0])
            _become_keeper(control, descriptors[2], descriptors[3:], _read_setup(descriptors[1]), options)
    for descriptor in descriptors:
        os.close(descriptor)
    _reap_keepers()


def _end_session() -> None:
    """Kill our players, which may still run if the referee was killed: unsandboxed, no namespace ends them."""
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pid != os.getpid() and os.getsid(pid) == os.getsid(0):
                os.kill(pid, signal.SIGKILL)


def _warm_up(preload: tuple[str, ...]) -> None:
    # The many objects of an import are all kept: looking for garbage among them takes a tenth of its time.
    gc.disable()
    import torch

    from harness.inside import player  # noqa: F401

    # Set it for modules that ask for it on import: they get the players' folder, as no folder is writable here.
    tempfile.tempdir = os.environ["TMPDIR"]
    for module in preload:
        with contextlib.suppress(Exception):  # the submission that needs it says so
            importlib.import_module(module)
    # First calls cost milliseconds.  One element only: a larger tensor starts a thread pool, which a fork would break.
    torch.empty_strided((1,), (1,)).add_(1).as_strided((1,), (1,)).data_ptr()
    _end_threads()
    gc.collect()
    gc.freeze()
    gc.enable()


def _end_threads() -> None:
    """End the threads that libraries have started, as OpenBLAS does on import if there is more than one core.

    Such a library ends its threads before each fork, and starts new ones when it needs them.  `inner_sandbox.fork`
    bypasses that.  So the keeper would wait forever, at its own fork, for the end of threads that it does not have.
    """
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def _reap_keepers() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _read_setup(memfd: int) -> PlayerSetup:
    return PlayerSetup(**json.loads(os.pread(memfd, os.fstat(memfd).st_size, 0)))


def _become_keeper(control: socket.socket, log: int, results: list[int], setup: PlayerSetup, options: Options) -> None:
    try:
        entry = _set_up_files(setup, options)
        output, printed = os.pipe()
        control.send(write({"is": "ready"}))  # tells the referee the keeper's pid, as the sender's
        inner_sandbox.hide(True)
        child = os.fork()
        if child == 0:
            inner_sandbox.hide(False)
            os.close(output)
            _become_player(control, printed, results, entry, setup, options)
        for descriptor in (printed, *results):
            os.close(descriptor)
        control.close()
        if options.sandboxed:
            inner_sandbox.lock_keeper()
        else:
            inner_sandbox.adopt_orphans()
        _keep(child, output, log)
        if options.sandboxed:
            # Kill all others in the namespace before they notice that their output is no longer read.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
    except BaseException as error:
        _report_trouble(control.fileno(), error)
    os._exit(0)


def _set_up_files(setup: PlayerSetup, options: Options) -> str:
    """Set up the player's files; returns the folder that holds the submission."""
    if options.sandboxed:
        inner_sandbox.mount_player_files(setup, options.libraries, has_device=bool(options.device))
        return "/entry"
    entry = tempfile.mkdtemp(prefix="entry-", dir=os.environ["TMPDIR"])
    inner_sandbox.write_files(setup.files, entry)
    return entry


def _keep(child: int, output: int, log: int) -> None:
    """Keep the end of the player's output until it ends, then record how it ended."""
    ring, printed = bytearray(), 0
    _write_log(log, ended=0, status=0, printed=0, tail=b"")
    os.set_blocking(output, False)
    poll = select.poll()
    poll.register(output, select.POLLIN)
    poll.register(os.pidfd_open(child), select.POLLIN)
    ended = False
    while not ended:
        # Wait for the player's own end: a grandchild may keep the pipe open forever.
        ended = any(descriptor != output for descriptor, _ in poll.poll())
        for _ in range(_CHUNKS):  # bounded: otherwise endless output would hide the player's end
            chunk = _read_available(output)
            if chunk is None:
                break
            if not chunk:
                with contextlib.suppress(KeyError):
                    poll.unregister(output)
                break
            printed += len(chunk)
            ring = (ring + chunk)[-LOG_BYTES:]
        if not ended:
            _write_log(log, ended=0, status=0, printed=printed, tail=ring)
    _, status = os.waitpid(child, 0)
    _write_log(log, ended=1, status=status, printed=printed, tail=ring)


def _read_available(descriptor: int) -> bytes | None:
    """The bytes available now; empty at the end of the file, None if there are none yet."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def _write_log(log: int, *, ended: int, status: int, printed: int, tail: bytes | bytearray) -> None:
    os.pwrite(log, bytes(tail).ljust(LOG_BYTES, b"\0"), LOG_HEADER.size)
    os.pwrite(log, LOG_HEADER.pack(ended, status, printed), 0)


def _become_player(
    control: socket.socket, printed: int, results: list[int], entry: str, setup: PlayerSetup, options: Options
) -> None:
    try:
        os.setpgid(0, 0)  # its own group, to signal it; not its own session: see `keep_cores_awake`
        nothing = os.open("/dev/null", os.O_RDONLY)
        places = [(0, nothing), (1, printed), (2, printed), (CONTROL, control.fileno())]
        places += [(RESULTS, descriptor) for descriptor in results]
        for target, source in places:
            os.dup2(source, target, inheritable=target != CONTROL)
        control.detach()
        os.closerange(3, CONTROL)
        os.closerange(CONTROL + 1 + len(results), 1024)
        control = socket.socket(fileno=CONTROL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if options.sandboxed:
            inner_sandbox.lock_player(setup)
        else:
            inner_sandbox.set_limits(setup)
        control.send(write({"is": "ready"}))
    except BaseException as error:
        _report_trouble(CONTROL, error)
        os._exit(1)
    if setup.program:
        _become_program(control, entry, setup)
    from harness.inside import player

    library = os.path.join(os.environ["PULLRANK_BUILD"], f"{setup.cache}.so")
    try:
        player.main(control, entry, library, options.threads, options.device, options.driver)
    except BaseException:  # the keeper's code must not run in a player
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _become_program(control: socket.socket, entry: str, setup: PlayerSetup) -> NoReturn:
    """Wait for the referee's order, then execute the program; only one that starts a profiler keeps the socket."""
    if control.recv(MAX_MESSAGE):
        try:
            os.chdir(entry)
            os.set_inheritable(CONTROL, setup.starts_profiler)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these; programs inherit that
                signal.signal(number, signal.SIG_DFL)
            os.execve(setup.program[0], setup.program, os.environ | setup.environment)  # noqa: S606
        except OSError as error:
            _report_trouble(CONTROL, error)
    os._exit(127)


def _report_trouble(control: int, error: BaseException) -> None:
    """Report an error of ours, never of the player: it has not read any of the submission yet."""
    message: dict[str, Any] = {"is": "failed", "error": type(error).__name__, "message": str(error)}
    socket.socket(fileno=os.dup(control)).send(write({**message, "traceback": "", "line": None}))


def start() -> None:
    """Entry point in a new interpreter in the sandbox; the argument is `main`'s options as JSON."""
    options = json.loads(sys.argv[1])
    main(socket.socket(fileno=options.pop("fd")), Options(**options))
