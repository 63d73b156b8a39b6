"""In the player: compile a submission's source to a library, and make a `custom_kernel` from it.

    compile_library   run the compiler in the folder of the sources; keep what it prints, up to a limit
    load_kernel       call adapter.bind(library), the task's few lines of glue between torch and C

One player compiles and runs nothing but the compiler.  All later players get the library read-only.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from harness.inside.protocol import MAX_OUTPUT

_MOST_PRINTED = 4 << 20
"""Kill a compiler that prints more than this: errors in nested templates never end."""


def compile_library(command: Sequence[str], library: str) -> tuple[int, str]:
    """Run a compiler; returns its exit code and the beginning of what it printed."""
    os.makedirs(os.path.dirname(library), exist_ok=True)
    compiler = subprocess.Popen(
        [*command, "-o", library],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # ASCII messages: every terminal can show their quotes.
        env={**os.environ, "LC_ALL": "C"},
    )
    assert compiler.stdout
    kept, printed = bytearray(), 0
    while chunk := os.read(compiler.stdout.fileno(), 65536):
        printed += len(chunk)
        kept += chunk[: MAX_OUTPUT - len(kept)]
        if printed > _MOST_PRINTED:
            compiler.kill()
            break
    compiler.stdout.close()
    text = kept.decode(errors="replace")
    if printed > _MOST_PRINTED:
        text += f"\nfatal: killed because it printed more than {_MOST_PRINTED >> 20} MiB"
    elif printed > len(kept):
        text += f"\n[the first {len(kept)} of {printed} bytes]"
    sys.stdout.write(text)
    sys.stdout.flush()
    return compiler.wait(), text


class _Library(ctypes.CDLL):
    """Its error for a missing function says what to do."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            message = f'no function {name}; define it with the types in task.h, and with extern "C" before it'
            raise AttributeError(message) from None


def load_kernel(adapter: Any, library: str) -> Any:
    """The task's `custom_kernel` for a library.  `adapter` is the task's module adapter.py."""
    _print_by_lines()
    return adapter.bind(_Library(library))


def _print_by_lines() -> None:
    """Make C's stdout line-buffered: the last output before a crash matters most.  The player does so for Python."""
    libc = ctypes.CDLL(None)
    line_buffered = 1
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, line_buffered, ctypes.c_size_t(0))
