"""Other work on this machine, for `make exploits` and `make bench-timing` with `ARGS='--load KIND'`.

loops       two endless loops on each core
memory      on each core, a program that copies memory as fast as it can
compiler    on each core, a compiler
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

from harness.processes import freezer

_COPY = "a, b = bytearray(2**28), bytearray(2**28)\nwhile True: a[:] = b"
_COMPILE = """while :; do
echo '#include <regex>
std::regex r("a*(b|c)+"); int main() { return std::regex_match("abc", r); }' | g++ -O2 -x c++ -c -o /dev/null -
done"""
KINDS = {
    "loops": [["sh", "-c", "while :; do :; done"]] * 2,
    "memory": [[sys.executable, "-I", "-c", _COPY]],
    "compiler": [["sh", "-c", _COMPILE]],
}


PIDS = set[int]()
"""The programs that are running."""


@contextlib.contextmanager
def load_of(kind: str) -> Iterator[None]:
    """Keep all cores busy during the block; each program has its own session, and so a full share of its core."""
    with contextlib.ExitStack() as cleanup:
        for core in sorted(os.sched_getaffinity(0)):
            for command in KINDS[kind]:
                program = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
                PIDS.add(program.pid)
                cleanup.callback(_end, program)
                os.sched_setaffinity(program.pid, {core})
        yield


def _end(program: "subprocess.Popen[bytes]") -> None:
    """End a program and what it has started, such as compilers."""
    started = list(freezer.descendants(program.pid))
    os.killpg(program.pid, 9)
    program.wait()
    while not all(map(freezer.has_ended, started)):
        time.sleep(0.01)


@contextlib.contextmanager
def busy_loops(count: int, core: int) -> Iterator[list[int]]:
    """Endless loops on a core, each in a session of its own, so that each has an equal share; yields their pids."""
    pids = list[int]()
    with contextlib.ExitStack() as cleanup:
        for _ in range(count):
            loop = subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True)
            cleanup.callback(loop.wait)
            cleanup.callback(loop.kill)
            os.sched_setaffinity(loop.pid, {core})
            pids.append(loop.pid)
        yield pids
