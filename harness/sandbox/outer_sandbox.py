"""Run an untrusted program in an outer sandbox in which it can start a sandbox of its own.

stdin, network, home                 none
environment                          only what the players' sandbox sets
file system                          system, interpreter, libraries, the given files, a /tmp of limited size
other processes, the host's users    hidden
stdout                               kept up to a limit; stderr is read only for the reason of a failure
time                                 limited; then everything inside is killed
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.records.errors import JudgeError
from harness.sandbox import bubblewrap

_READ_BYTES = 1 << 16
_MAX_REASON = 400


@dataclass(frozen=True, kw_only=True)
class ProgramResult:
    """What a program printed, and why it ended.  Both may be hostile text."""

    output: bytes
    reason: str


def run_enclosed(
    program: Callable[[Path], list[str]], files: Mapping[str, bytes], *, seconds: float, max_bytes: int
) -> ProgramResult:
    """Run a program in the outer sandbox until it ends, prints too much, or takes too long.

    Args:
        program: makes the command from the folder that holds the files.
        files: the files that it sees, by name.

    Raises:
        JudgeError: bubblewrap is missing.
    """
    with tempfile.TemporaryDirectory(prefix="pullrank-check-") as folder, tempfile.TemporaryFile() as errors:
        stage = Path(folder)
        shown = stage / "shown"
        shown.mkdir()
        for name, content in files.items():
            (shown / name).write_bytes(content)
        # A program started by root runs as another user, and root's umask may keep others out of new files.
        for path in (stage, shown, *shown.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
        try:
            process = subprocess.Popen(
                bubblewrap.enclosing_command(stage, shown, program(shown)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={"PATH": os.environ.get("PATH", "/usr/bin:/bin")},
                cwd="/",
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise JudgeError(f"{error.filename} is missing: apt install bubblewrap util-linux") from None
        with process:
            try:
                output, reason = _read(process, seconds, max_bytes)
            finally:
                # The first process of the pid namespace dies with bubblewrap, and all others die with it.
                process.kill()
        return ProgramResult(output=output, reason=reason or _last_words(process.returncode, errors.fileno()))


def _read(process: subprocess.Popen[bytes], seconds: float, max_bytes: int) -> tuple[bytes, str]:
    """What the program prints, and why reading stopped early; "" if the program ended by itself."""
    assert process.stdout
    give_up, output = time.monotonic() + seconds, bytearray()
    while (left := give_up - time.monotonic()) > 0:
        if not select.select([process.stdout], [], [], left)[0]:
            break
        chunk = os.read(process.stdout.fileno(), _READ_BYTES)
        output += chunk
        if len(output) > max_bytes:
            return bytes(output[:max_bytes]), "it printed too much"
        if not chunk:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.1, give_up - time.monotonic()))
            return bytes(output), ""
    return bytes(output), f"it took longer than {seconds:.0f} s"


def _last_words(code: int | None, errors: int) -> str:
    size = os.fstat(errors).st_size
    text = os.pread(errors, 4096, max(0, size - 4096)).decode(errors="replace").strip()
    last = text.splitlines()[-1] if text else f"exit code {code}"
    # The text is printed to a job's log, where the runner obeys lines that contain `##[`.
    return "".join(char if char.isprintable() else " " for char in last)[:_MAX_REASON].replace("##[", "## [")
