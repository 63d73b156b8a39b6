"""Precompile the header of torch's compiler while the warm parent starts, on the referee's core.

All kernels of that compiler include this header, and its parsing takes most of a kernel's compilation.  This g++ runs
outside of the sandbox: a header that one submission precompiles is not safe for others.  If a kernel has other options,
or if this g++ fails, the first kernel precompiles the header (`torch_compiler.CXX_SCRIPT`).
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from harness.sandbox.bubblewrap import ENVIRONMENT
from harness.task.torch_compiler import HEADER

_PRECOMPILE = f"""
g++ "$@" header.h -o header.gch && mkdir -p {Path(HEADER).parent} && mv header.gch {HEADER}.gch
"""
_LONGEST_S = 60.0


class TorchHeader:
    """A run of g++ that writes to a folder which players already see."""

    def __init__(self, folder: Path, options: Sequence[str], includes: Sequence[str]) -> None:
        """Start it.  `includes` are the options for folders of headers, which may differ from those of the kernels."""
        (folder / "header.h").write_text(f"#include <{HEADER}>\n", "utf-8")
        (folder / "options").write_text(" ".join(options) + "\n", "utf-8")
        (folder / "options").chmod(0o644)
        self.process = subprocess.Popen(
            ["sh", "-c", _PRECOMPILE, "sh", *options, *includes],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # closed when the last of its processes has ended
            stderr=subprocess.DEVNULL,
            env={"PATH": ENVIRONMENT["PATH"], "LC_ALL": "C", "TMPDIR": str(folder)},
            cwd=folder,
            start_new_session=True,
            umask=0o022,  # players read the result, as another user if the judge is root
        )

    def wait(self) -> None:
        """Wait until g++ has ended; kill it if that takes a minute."""
        try:
            self.process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            self._kill()

    def end(self) -> None:
        """Kill it if it still runs.  Call this once."""
        self._kill()
        self.process.communicate()

    def _kill(self) -> None:
        if self.process.poll() is None:  # later, the number may be that of another group
            os.killpg(self.process.pid, signal.SIGKILL)
