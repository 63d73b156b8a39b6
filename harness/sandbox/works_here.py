"""Whether the sandbox works on this machine, and if not, what to do."""

from __future__ import annotations

import functools
import os
import resource
import shutil

from harness.inside import seccomp
from harness.records.errors import JudgeError
from harness.records.system import require_linux
from harness.sandbox import bubblewrap
from harness.sandbox.sandbox import PlayerFiles, Sandbox, SandboxKind

_OPEN_FILES = 1024
"""How many files a process must be able to open: a player's own descriptors have numbers from 900 on."""


def choose_kind(wanted: str) -> SandboxKind:
    """`auto` means bubblewrap.  Raises JudgeError if it does not work: the sandbox is never left out silently.

    Raises this process's limit of open files if it is too low.
    """
    require_linux()
    if fault := _allow_open_files():
        raise JudgeError(fault)
    if wanted == "none":
        return "none"
    if faults := find_faults():
        raise JudgeError("; ".join(faults) + ". To run only your own code: --sandbox none")
    return "bubblewrap"


def find_faults() -> list[str]:
    """Why bubblewrap does not work on this machine, each with the way out; empty if it works."""
    if not seccomp.supported():
        return ["the sandbox needs a processor of the kind x86-64 or arm64"]
    if not shutil.which("bwrap"):
        return ["bubblewrap is missing: apt install bubblewrap (or your system's package of that name)"]
    if missing := [tool for tool in ("unshare", "setpriv", "mount") if os.geteuid() == 0 and not shutil.which(tool)]:
        return [f"{', '.join(missing)} is missing: apt install util-linux mount"]
    if fault := _allow_open_files():
        return [fault]
    try:
        _try_sandbox(shutil.which("bwrap"), os.geteuid())
    except JudgeError as error:
        return [f"the sandbox does not start here: {error}{bubblewrap.remedy()}"]
    return []


def _allow_open_files() -> str:
    """Raise this process's limit of open files if it is too low; return what to do if it cannot be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _is_too_few(hard):
        remedy = f"`ulimit -Hn {_OPEN_FILES}`, or LimitNOFILE={_OPEN_FILES} for a service"
        return f"judging needs {_OPEN_FILES} open files: raise the hard limit as root ({remedy})"
    if _is_too_few(soft):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_OPEN_FILES, hard))
    return ""


def _is_too_few(files: int) -> bool:
    return files < _OPEN_FILES and files != resource.RLIM_INFINITY


@functools.cache
def _try_sandbox(_program: str, _user: int) -> None:
    """Start a sandbox and a player in it; once per process, if it works.  Raises JudgeError."""
    with (
        Sandbox("bubblewrap", memory_gib=1, warm=False) as sandbox,
        sandbox.start_player(PlayerFiles(name="probe", files={})),
    ):
        pass
