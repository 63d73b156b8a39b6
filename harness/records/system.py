"""Whether this operating system can judge.

Here, and not in `harness.sandbox`: importing the judge fails on Windows, and everywhere without torch.
"""

from __future__ import annotations

import sys

from harness.records.errors import NoLinuxError

REMEDY = "a machine with Linux, or a virtual machine (on Windows, WSL 2)"


def other_system() -> str:
    """The name of this operating system if it is not Linux."""
    return "" if sys.platform == "linux" else {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)


def require_linux(instead: str = "") -> None:
    """Call this before importing the judge.  `instead` says what works without it.

    Raises:
        NoLinuxError: this is another system.
    """
    if name := other_system():
        raise NoLinuxError(f"judging needs Linux, and this is {name}: use {REMEDY}{instead}")
