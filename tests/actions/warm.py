"""A warm Python for the steps of workflows: it has already imported the libraries, and forks a process for each step.

The stand-in for `python` connects, sends its pid, and reads an exit code.  The fork takes over that process's
arguments, environment, folder and files, and runs the module.  It imports our own code from that folder, once for all
steps with the same code.

    server              has imported the libraries
      └─ room           has imported our modules and compiled the templates; one for each folder and its version
          └─ step
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import runpy
import select
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

LATER = Path(__file__).parent / "later"
_OURS = ("harness", "scripts")
_LIBRARIES = ("click", "discord_webhook", "github", "jinja2", "markdown_it", "pydantic", "pygments.lexers", "yaml")

Code = tuple[str, frozenset[tuple[str, int, int]]]
"""A folder, and for each of its modules and templates the path, the time and the size."""


class WarmPython:
    """The server in a process of its own.  `with WarmPython() as warm: …`"""

    def __enter__(self) -> Self:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            environment = os.environ | {"PYTHONPATH": str(LATER), "LATER_S": "0"}
            command = [sys.executable, __file__, str(listener.fileno())]
            self._server = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, pass_fds=[listener.fileno()]
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.kill()
        self._server.communicate()


def _serve(listener: socket.socket) -> None:
    """Returns in each process that becomes a step.  Ends with the tests, which hold its stdin open."""
    rooms: dict[Code, socket.socket] = {}
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        caller = connection.makefile("rb").readline()
        code = _find_code(int(caller))
        if code not in rooms:
            rooms[code], orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            if os.fork() == 0:
                listener.close()
                connection.close()
                return _keep_room(orders, int(caller))
            orders.close()
        socket.send_fds(rooms[code], [caller], [connection.fileno()])
        connection.close()
    sys.exit()


def _find_code(caller: int) -> Code:
    """The folder that a step runs in, its modules and templates.  A checkout gives equal files equal times."""
    folder = os.readlink(f"/proc/{caller}/cwd")
    files = [file for part in _OURS for file in Path(folder, part).rglob("*.py")]
    files += Path(folder, "site").glob("templates/*")
    found = ((str(file), file.stat()) for file in files)
    return folder, frozenset((file, facts.st_mtime_ns, facts.st_size) for file, facts in found)


def _keep_room(orders: socket.socket, caller: int) -> None:
    """Fork the steps of one folder.  Modules that a step needed are imported here, for the next ones."""
    sys.path[0] = os.readlink(f"/proc/{caller}/cwd")
    sys.pycache_prefix = _environment(caller).get(b"PYTHONPYCACHEPREFIX", b"").decode() or None
    needed, told = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    while sys.stdin not in select.select([orders, sys.stdin], [], [])[0]:
        packet, (descriptor,), _, _ = socket.recv_fds(orders, 64, 1)
        while select.select([needed], [], [], 0)[0]:
            _import(needed.recv(1 << 20).decode().split())
        connection = socket.socket(fileno=descriptor)
        if os.fork() == 0:
            atexit.register(lambda: told.send(" ".join(_own_modules()).encode()))
            return _become_step(connection, int(packet))
        connection.close()
        _reap()
    sys.exit()


def _own_modules() -> list[str]:
    return [name for name in list(sys.modules) if name.partition(".")[0] in _OURS]


def _import(names: list[str]) -> None:
    importlib.invalidate_caches()
    for name in names:
        with contextlib.suppress(Exception):  # the step that needs it fails in the same way
            importlib.import_module(name)
    if pages := sys.modules.get("scripts.pages.parts.render"):
        with contextlib.suppress(Exception):
            pages.environment()  # compiles the templates, which takes a third of a publication
    gc.freeze()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become_step(connection: socket.socket, caller: int) -> None:
    """Fork the step, and tell its caller how it ended; returns in the step."""
    step = os.fork()
    if step == 0:
        connection.close()
        return _take_the_place_of(caller)
    code = os.waitstatus_to_exitcode(os.waitpid(step, 0)[1])
    connection.sendall(b"%d\n" % (code if code >= 0 else 128 - code))
    os._exit(0)


def _take_the_place_of(caller: int) -> None:
    process = Path("/proc", str(caller))
    os.chdir(process / "cwd")
    for descriptor, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_APPEND), (2, os.O_WRONLY | os.O_APPEND)):
        os.dup2(os.open(process / "fd" / str(descriptor), flags), descriptor)
    os.environb.clear()
    os.environb.update(_environment(caller))
    # bash, the script, -m, the module, its arguments
    sys.argv[:] = [os.fsdecode(entry) for entry in (process / "cmdline").read_bytes().split(b"\0")[3:-1]]


def _environment(process: int) -> dict[bytes, bytes]:
    entries = Path("/proc", str(process), "environ").read_bytes().split(b"\0")
    return dict(entry.partition(b"=")[::2] for entry in entries if entry)


if __name__ == "__main__":
    for library in _LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
