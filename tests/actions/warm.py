"""A warm Python for the steps of workflows: it has imported the libraries, and forks a process for each step.

The stand-in for `python` connects, sends its pid, and reads an exit code.  The fork takes that process's arguments,
environment, folder and files, and runs the module that it finds there: our own code is imported anew for each step.
"""

from __future__ import annotations

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
_LIBRARIES = ("click", "discord_webhook", "github", "jinja2", "markdown_it", "pydantic", "pygments.lexers", "yaml")


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
    """Returns in each process that is to be a step; ends when the tests do, which hold its stdin open."""
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            return _become_step(connection)
        connection.close()
        _reap()
    sys.exit()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _become_step(connection: socket.socket) -> None:
    """Fork the step, and tell its caller how it ended; returns in the step."""
    caller = int(connection.makefile("rb").readline())
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
    entries = (process / "environ").read_bytes().split(b"\0")
    os.environb.clear()
    os.environb.update(entry.partition(b"=")[::2] for entry in entries if entry)
    sys.pycache_prefix = os.environ.get("PYTHONPYCACHEPREFIX")
    # bash, the script, -m, the module, its arguments
    sys.argv[:] = [os.fsdecode(entry) for entry in (process / "cmdline").read_bytes().split(b"\0")[3:-1]]


if __name__ == "__main__":
    for library in _LIBRARIES:
        importlib.import_module(library)
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    sys.path[0] = os.getcwd()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
