"""In the sandbox: run a player under a GPU vendor's profiler, and send back the profiler's report.

    launcher                  in the player's place, with its control socket
      └ ncu, rocprofv3        starts the player; it may close every descriptor that it does not know
          └ player            gets the control socket from the launcher's Unix socket, then obeys the referee

When the referee hangs up, the player exits like any program, so that the profiler writes its report.  The launcher has
the profiler export a table from it and sends both through its results pipe: a line of JSON with their lengths, then
their bytes.  The submission runs with the same rights and may forge all of this.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from typing import Any, BinaryIO

from harness.inside.protocol import write

FOLDER = "@folder@"
"""Placeholder in commands for the launcher's temporary folder.  Not a relative path: players change their directory."""
_LOOK_S = 0.05
_EXPORT_S = 60.0


def start() -> None:
    """Entry point in a new interpreter, in the folder of the submission.  The argument is an order as JSON:

    control, results   descriptors of the player's socket and of the results pipe
    profiler           the profiler's command, to which the player's command is appended
    export             the command that prints the table; empty if the profiler writes one itself
    table, report      the names of the two files
    limits             the maximum size of each of the two, in bytes
    player             the arguments of `play`
    """
    folder = tempfile.mkdtemp(prefix="profile-")
    order = json.loads(sys.argv[1].replace(FOLDER, folder))
    with socket.socket(fileno=order["control"]) as control:
        profiler = _run(order, folder, control)
    status = profiler.wait()
    if order["export"] and os.path.exists(os.path.join(folder, order["report"])):
        _export(order["export"], os.path.join(folder, order["table"]))
    parts = [_read(os.path.join(folder, order[name]), order["limits"][name]) for name in ("table", "report")]
    with contextlib.suppress(BrokenPipeError), open(order["results"], "wb") as results:
        _send(results, parts)
    sys.exit(min(abs(status), 255))


def _run(order: dict[str, Any], folder: str, control: socket.socket) -> subprocess.Popen[bytes]:
    """Start the profiler, and pass the control socket to the player that it starts, if it starts one."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(os.path.join(folder, "door"))
        door.listen(1)
        door.settimeout(_LOOK_S)
        player = order["player"] | {"door": door.getsockname(), "entry": os.getcwd()}
        code = f"import sys; sys.path[:] = {sys.path!r}; from harness.inside.profiled_player import play; play()"
        command = [*order["profiler"], sys.executable, "-IB", "-c", code, json.dumps(player)]
        profiler = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        while profiler.poll() is None:
            with contextlib.suppress(TimeoutError), door.accept()[0] as visitor:
                socket.send_fds(visitor, [b"!"], [control.fileno()])
                break
    return profiler


def _export(command: list[str], table: str) -> None:
    with open(table, "wb") as printed, contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=printed, check=False, timeout=_EXPORT_S)


def _read(path: str, limit: int) -> bytes:
    """A file's content; empty if the file is missing or too large."""
    try:
        with open(path, "rb") as file:
            content = file.read(limit + 1)
    except OSError:
        return b""
    return content if len(content) <= limit else b""


def _send(results: BinaryIO, parts: list[bytes]) -> None:
    results.write(json.dumps([len(part) for part in parts]).encode() + b"\n")
    for part in parts:
        results.write(part)


def play() -> None:
    """Entry point in the interpreter that a profiler starts; the argument is `order["player"]` as JSON."""
    order = json.loads(sys.argv[1])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.connect(order["door"])
        control = socket.socket(fileno=socket.recv_fds(visitor, 1, 1)[1][0])
    from harness.inside import player

    control.send(write({"is": "ready"}))
    player.main(control, order["entry"], order["library"], order["threads"], order["device"], order["driver"])
