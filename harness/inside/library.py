"""Inside the walls: a submission's source becomes a library, and the library a `custom_kernel`.

    compile_library   the compiler, in the folder of the sources; what it prints is kept up to a limit
    load_kernel       adapter.bind(library), the task's own few lines between torch and C

The first is done by a player that runs nothing but the compiler; all others find the library sealed.
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
"""Who prints more is stopped: errors within templates within templates have no end."""


def compile_library(command: Sequence[str], library: str) -> tuple[int, str]:
    """Run a compiler; its exit code, and the beginning of what it printed."""
    os.makedirs(os.path.dirname(library), exist_ok=True)
    compiler = subprocess.Popen(
        [*command, "-o", library],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # Of messages in ASCII, with quotes that every terminal has.
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
        text += f"\nfatal: stopped, for it printed more than {_MOST_PRINTED >> 20} MiB"
    elif printed > len(kept):
        text += f"\n[the first {len(kept)} of {printed} bytes]"
    sys.stdout.write(text)
    sys.stdout.flush()
    return compiler.wait(), text


class _Library(ctypes.CDLL):
    """Says what to do about a function that is missing."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            raise AttributeError(f'no function {name}; define it, with extern "C" before it') from None


def load_kernel(adapter: Any, library: str) -> Any:
    """The task's `custom_kernel` around a library.  `adapter` is its module adapter.py."""
    _print_by_lines()
    return adapter.bind(_Library(library))


def _print_by_lines() -> None:
    """What C has printed before it is killed is worth most; Python's own streams are set so by the player."""
    libc = ctypes.CDLL(None)
    line_buffered = 1
    libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, line_buffered, ctypes.c_size_t(0))
