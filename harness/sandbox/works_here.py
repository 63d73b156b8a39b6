"""Whether the sandbox works on this machine, and if not, what to do."""

from __future__ import annotations

import functools
import os
import shutil
import sys

from harness.inside import seccomp
from harness.records.errors import JudgeError
from harness.sandbox import bubblewrap
from harness.sandbox.sandbox import PlayerFiles, Sandbox, SandboxKind


def choose_kind(wanted: str) -> SandboxKind:
    """`auto` means bubblewrap.  Raises JudgeError if it does not work: the sandbox is never left out silently."""
    if wanted == "none":
        return "none"
    if faults := find_faults():
        raise JudgeError("; ".join(faults) + ". To run only your own code: --sandbox none")
    return "bubblewrap"


def find_faults() -> list[str]:
    """Why bubblewrap does not work on this machine, each with the way out; empty if it works."""
    if sys.platform != "linux" or not seccomp.supported():
        return ["the sandbox needs Linux on x86-64 or arm64"]
    if not shutil.which("bwrap"):
        return ["bubblewrap is missing: apt install bubblewrap (or your system's package of that name)"]
    if missing := [tool for tool in ("unshare", "setpriv", "mount") if os.geteuid() == 0 and not shutil.which(tool)]:
        return [f"{', '.join(missing)} is missing: apt install util-linux mount"]
    try:
        _try_sandbox(shutil.which("bwrap"), os.geteuid())
    except JudgeError as error:
        return [f"the sandbox does not start here: {error}{bubblewrap.remedy()}"]
    return []


@functools.cache
def _try_sandbox(_program: str, _user: int) -> None:
    """Start a sandbox and a player in it; once per process, if it works.  Raises JudgeError."""
    with (
        Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox,
        sandbox.start_player(PlayerFiles(name="probe", files={})),
    ):
        pass
