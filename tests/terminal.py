"""A terminal with a number of columns, and a program that takes it for a real one.

terminal = Terminal(["pullrank", "watch"], columns=40, folder=…, environment=…)
terminal.until("queued"); terminal.press(CTRL_C); terminal.end()
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

CTRL_C = b"\x03"

_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WHOLE = re.compile(r"`[^`\r\n]*`|https?://\S+")
"""Text that stays on one line, so that people can copy it."""


class Terminal:
    """`text` is everything that was written to it, frame after frame, without codes for the cursor and colours."""

    def __init__(self, command: Sequence[str], *, columns: int, folder: Path, environment: Mapping[str, str]) -> None:
        self.columns = columns
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # Programs would believe these before they ask the terminal.
        environment = {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}
        self._program = subprocess.Popen(
            ["setsid", "--ctty", *command],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env={**environment, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(theirs)
        self._written = b""
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return _CONTROLS.sub("", self._written.decode("utf-8", "replace"))

    @property
    def too_long(self) -> list[str]:
        """The lines that the terminal's edge cuts, except those that must stay whole."""
        lines = re.split(r"[\r\n]+", self.text)
        return [line for line in lines if len(line) > self.columns and not _WHOLE.fullmatch(line.strip().rstrip(".,"))]

    def until(self, words: str, seconds: float = 60) -> None:
        """Wait until the program writes these words."""
        with self._more:
            assert self._more.wait_for(lambda: words in self.text, seconds), self.text

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self, seconds: float = 120) -> int:
        """Wait for the program to end; returns its exit code."""
        code = self._program.wait(seconds)
        self._reader.join(seconds)
        os.close(self._ours)
        return code

    def _read(self) -> None:
        while some := self._read_some():
            with self._more:
                self._written += some
                self._more.notify_all()

    def _read_some(self) -> bytes:
        try:
            return os.read(self._ours, 1 << 16)
        except OSError:  # the program has ended
            return b""
