"""Inside the walls: a vendor's profiler around a player, which it starts itself, and what it leaves behind.

    watcher                   in the player's place, with its control socket
      └ ncu, rocprofv3        told what to start; it may close every descriptor that it does not know
          └ player            fetches the control socket at the watcher's door, and obeys the referee from then on

When the referee hangs up, the player ends as any program does, so that the profiler writes its report.  The watcher
has it make a table of that, and sends both through its pipe of results: a line of JSON that says how long they are,
then their bytes.  The submission runs beside all of this and may forge any of it.
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
"""In a command: where to leave what it makes.  A player goes elsewhere while it is watched."""
_LOOK_S = 0.05
_EXPORT_S = 60.0


def start() -> None:
    """Called by name in a new interpreter, in the folder of the submission.  Its argument is an order as JSON:

    control, results   descriptors: of the player's socket, of the pipe
    profiler           the command, which a player's is put behind
    export             the command that prints the table; empty where the profiler leaves one
    table, report      what it leaves, by name
    limits             the most bytes that each of the two may have
    player             what `play` needs
    """
    folder = tempfile.mkdtemp(prefix="watch-")
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
    """Start the profiler, and hand the control socket to the player that it starts, if it does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(os.path.join(folder, "door"))
        door.listen(1)
        door.settimeout(_LOOK_S)
        player = order["player"] | {"door": door.getsockname(), "entry": os.getcwd()}
        code = f"import sys; sys.path[:] = {sys.path!r}; from harness.inside import watch; watch.play()"
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
    """A file; nothing of one that is too large, or not there."""
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
    """Called by name in the interpreter that a profiler has started; its argument is `order["player"]` as JSON."""
    order = json.loads(sys.argv[1])
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
        visitor.connect(order["door"])
        control = socket.socket(fileno=socket.recv_fds(visitor, 1, 1)[1][0])
    from harness.inside import player

    control.send(write({"is": "ready"}))
    player.main(control, order["entry"], order["library"], order["threads"], order["device"])
