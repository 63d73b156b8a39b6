"""Compiler command lines, and messages for compile errors.  Runs no compiler itself.

    task.config, board ─► recipe_of ─► Recipe    g++ on the board CPU, nvcc with the board's `arch` on all others
    status, output     ─► explain   ─► message   submission.cu:12: 'x' was not declared in this scope

The compiler runs inside the sandbox, in the folder of the sources, with `-o` and a path appended.  Its output quotes
the submission, which can also fake file names and lines (`#line`), so the output is untrusted text.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.records.errors import JudgeError, TaskError
from harness.task.task import Board, ScriptConfig
from harness.task.toolchain import PLACES, host_flags, is_shown

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/cuda/bin:/opt/cuda/bin"
"""Where compilers are looked up: folders that the sandbox shows to players."""
_BASE = ("-std=c++20", "-O3")
_GXX = (*_BASE, "-march=native", "-fmax-errors=20", "-fdiagnostics-color=never", "-x", "c++")
_NVCC = (*_BASE, "--expt-relaxed-constexpr", "--expt-extended-lambda", "-forward-unknown-to-host-compiler",
         "-Xcompiler=-fmax-errors=20", "-Xcudafe=--error_limit=20")  # fmt: skip
# Report undefined symbols at link time, with their names, not when a player loads the library.
_SHARED = {"g++": ("-shared", "-fPIC", "-Wl,--no-undefined"),
           "nvcc": ("-shared", "-Xcompiler=-fPIC", "-Xlinker=--no-undefined")}  # fmt: skip

_MAX_FAULTS = 8
_MAX_FAULT = 300

_FAULT = re.compile(
    r"([\w.+-]{1,100})(?::(\d{1,7})(?::\d{1,7})?:|\((\d{1,7})\):) (?:\w+ )?error ?#?[\w-]{0,8}: *(.*)", re.ASCII
)
"""g++ prints `submission.cu:5:3: error: what`; nvcc prints `submission.cu(5): error: what`."""
_REQUIRED_FROM = re.compile(r"(submission\.cu:\d+):\d+:\s+required from here", re.ASCII)
"""What g++ prints before an error in a template that the submission uses."""
_REPORT, _WARNING = ": error:", ": warning:"
_IN_A_HEADER = re.compile(r"(/[^\s:]{1,300}:\d{1,7}):\d{1,7}: error: *(.*)", re.ASCII)
_UNDEFINED = re.compile(r"undefined reference to [`'](.*)'")
_OUT_OF_MEMORY = ("virtual memory exhausted", "out of memory allocating", "Cannot allocate memory")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A compiler command without `-o`, and the folders it needs besides those that every player sees."""

    command: tuple[str, ...]
    shown: tuple[str, ...] = ()


def recipe_of(board: Board, *, shared: bool = True) -> Recipe:
    """How to compile the sources in `config:` for a board.

    Args:
        shared: make a shared library; otherwise, a program.

    Raises:
        TaskError: the task needs a library whose folder is not configured for this board.
        JudgeError: this machine lacks a compiler or a folder, or the board has no `arch`.
    """
    config = board.task.config or ScriptConfig()
    folders = _folders_of(board, config)
    name = "g++" if board.gpu == "CPU" else "nvcc"
    compiler = shutil.which(name, path=PATH)
    if not compiler:
        raise JudgeError(f"the board {board.gpu} needs {name}, which is not installed: {_WAY_OUT[name]}")
    home = Path(compiler).resolve().parent.parent  # the compiler's installation, with the tools it calls
    return Recipe(
        command=(
            compiler,
            *(_GXX if name == "g++" else (*_NVCC, f"-arch={_arch_of(board)}")),
            *(_SHARED[name] if shared else ()),
            *(f"-D{macro}={value}" if value else f"-D{macro}" for macro, value in config.defines.items()),
            "-I.",
            *(f"-I{folder}" for folder in folders),
            *config.sources,
            *(["-x", "none"] if name == "g++" else []),
            # After the sources: the linker resolves only symbols that are undefined when it reaches a library.
            *_flags_for(name, config),
        ),
        shown=tuple(path for path in (*folders, str(home)) if not Path(path).is_relative_to("/usr")),
    )


_WAY_OUT = {
    "g++": "apt install g++",
    "nvcc": f"install NVIDIA's CUDA toolkit to /usr/local/cuda, or below {PLACES[1]} with a link at /opt/cuda",
}


def _flags_for(compiler: str, config: ScriptConfig) -> tuple[str, ...]:
    if compiler == "nvcc":
        return config.compile_flags
    return tuple(part for flag in config.compile_flags for part in host_flags(flag))


def _arch_of(board: Board) -> str:
    if not board.toolchain.arch:
        raise JudgeError(
            f"the board {board.gpu} has no `arch` to compile for: add one, such as sm_90a, to "
            f"gpus.{board.gpu} in .github/pullrank.yml"
        )
    if board.toolchain.arch.startswith("gfx"):
        raise JudgeError(
            f"nvcc cannot compile for {board.toolchain.arch}: `lang: cu` is not supported on the board {board.gpu} yet"
        )
    return board.toolchain.arch


def _folders_of(board: Board, config: ScriptConfig) -> list[str]:
    """The include folders of the task's libraries on this machine."""
    try:
        folders = {name: board.toolchain.folder_of(name, board.gpu) for name in config.include_dirs}
    except ValueError as error:
        raise TaskError(f"{board.task.name}: {error}") from None
    for name, folder in folders.items():
        real = Path(folder).resolve()
        if not real.is_dir():
            raise JudgeError(f"{name} is not at {folder} on this machine; gpus.{board.gpu}.include_dirs names it")
        if not is_shown(str(real)):
            raise JudgeError(f"{folder} ({name}) is a link to {real}, outside {' and '.join(PLACES)}")
    return list(folders.values())


def explain(status: int, output: str) -> str:
    """Why a compiler failed: one line per error, errors in the submission first, with line numbers."""
    lines = ["".join(char if char.isprintable() else " " for char in line) for line in output.splitlines()]
    faults = list(dict.fromkeys(_faults_in(lines))) or [line for line in lines if "error" in line or "fatal" in line]
    faults.sort(key=lambda fault: not fault.startswith("submission."))
    if not faults:
        faults = [*filter(None, lines)][-1:] or [f"the compiler exited with code {status} and printed nothing"]
    more = len(faults) - _MAX_FAULTS
    shown = [fault[:_MAX_FAULT] for fault in faults[:_MAX_FAULTS]]
    return "\n".join([*shown, *([f"… and {more} more"] if more > 0 else [])])


def ran_out_of_memory(output: str) -> bool:
    """Whether the compiler failed because it ran out of memory."""
    return any(sign in output for sign in _OUT_OF_MEMORY)


def _faults_in(lines: list[str]) -> Iterator[str]:
    user = ""  # the line of the submission that uses the template in which the next fault is
    for line in lines:
        if asked := _REQUIRED_FROM.match(line):
            user = asked[1]
        elif found := _FAULT.match(line):
            yield f"{found[1]}:{found[2] or found[3]}: {found[4]}"
        elif user and (inside := _IN_A_HEADER.match(line)):
            yield f"{user}: {inside[2]} ({inside[1]})"
        if _REPORT in line or _WARNING in line:
            user = ""
        elif missing := _UNDEFINED.search(line):
            yield f"undefined reference to {missing[1]}"
