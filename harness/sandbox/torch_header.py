"""Precompile the header of torch's compiler while the warm parent starts, on the referee's core.

All kernels of that compiler include this header, and its parsing takes most of a kernel's compilation.  This g++ runs
outside of the sandbox: what one submission precompiles is not safe for others.  If a kernel has other options,
`torch_compiler.CXX_SCRIPT` precompiles the header again.  So only the time of a build depends on this module.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.sandbox.bubblewrap import ENVIRONMENT
from harness.task.torch_compiler import HEADER

_PRECOMPILE = f"""
g++ "$@" header.h -o header.gch && mkdir -p {Path(HEADER).parent} && mv header.gch {HEADER}.gch
rm pending
"""


class TorchHeader:
    """A run of g++ that writes to a folder which players already see.

    The folder has a file `options`, and a file `pending` until g++ has ended.
    """

    def __init__(self, folder: Path, options: Sequence[str], includes: Sequence[str]) -> None:
        """Start it.  `includes` are the options for folders of headers, which may differ from those of the kernels."""
        (folder / "header.h").write_text(f"#include <{HEADER}>\n", "utf-8")
        (folder / "options").write_text(" ".join(options) + "\n", "utf-8")
        (folder / "pending").touch()
        self.process = subprocess.Popen(
            ["sh", "-c", _PRECOMPILE, "sh", *options, *includes],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # closed when the last of its processes has ended
            stderr=subprocess.DEVNULL,
            env={"PATH": ENVIRONMENT["PATH"], "LC_ALL": "C"},
            cwd=folder,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Wait until g++ has ended."""
        self.process.wait()

    def end(self) -> None:
        """Kill it if it still runs.  Call this once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
