"""From sources to one file: the compiler's command, and what to say when it fails.  Pure; `library` runs it.

    task.config, board ─► recipe_of ─► Recipe    g++ on the board CPU, nvcc with the board's `arch` on all others
    status, output     ─► explain   ─► message   submission.cu:12: 'x' was not declared in this scope

It is run inside the walls, in the folder of the sources, with `-o` and a path added.  What it prints quotes the
participant, who can also make up file names and lines (`#line`): it is read as hostile text.
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
"""Where a compiler may lie: where players can see it."""
_BASE = ("-std=c++20", "-O3")
_GXX = (*_BASE, "-march=native", "-fmax-errors=20", "-fdiagnostics-color=never", "-x", "c++")
_NVCC = (*_BASE, "--expt-relaxed-constexpr", "--expt-extended-lambda", "-forward-unknown-to-host-compiler",
         "-Xcompiler=-fmax-errors=20", "-Xcudafe=--error_limit=20")  # fmt: skip
# What is missing is said now, with its name, and not when a player loads it.
_SHARED = {"g++": ("-shared", "-fPIC", "-Wl,--no-undefined"),
           "nvcc": ("-shared", "-Xcompiler=-fPIC", "-Xlinker=--no-undefined")}  # fmt: skip

_MAX_FAULTS = 8
_MAX_FAULT = 300

_FAULT = re.compile(
    r"([\w.+-]{1,100})(?::(\d{1,7})(?::\d{1,7})?:|\((\d{1,7})\):) (?:\w+ )?error ?#?[\w-]{0,8}: *(.*)", re.ASCII
)
"""Of g++, `submission.cu:5:3: error: what`; of nvcc, `submission.cu(5): error: what`."""
_UNDEFINED = re.compile(r"undefined reference to [`'](.*)'")
_OUT_OF_MEMORY = ("virtual memory exhausted", "out of memory allocating", "Cannot allocate memory")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A command without its output, and the folders that it needs beyond those that every player sees."""

    command: tuple[str, ...]
    shown: tuple[str, ...] = ()


def recipe_of(board: Board, *, shared: bool = True) -> Recipe:
    """How what `config:` names is compiled for a board: to a library, or to a program.

    Raises:
        TaskError: the task needs a library of which nobody says where it lies on this board.
        JudgeError: a compiler or a folder is missing on this machine, or nobody says for which GPU to compile.
    """
    config = board.task.config or ScriptConfig()
    folders = _folders_of(board, config)
    name = "g++" if board.gpu == "CPU" else "nvcc"
    compiler = shutil.which(name, path=PATH)
    if not compiler:
        raise JudgeError(f"{name} compiles for the board {board.gpu}, and is not on this machine: {_WAY_OUT[name]}")
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
            # After the sources: a library is searched for what was missing before it.
            *_flags_for(name, config),
        ),
        shown=tuple(path for path in (*folders, _home_of(compiler)) if not Path(path).is_relative_to("/usr")),
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
            f"nothing says for which GPU to compile on the board {board.gpu}: write its `arch`, such as sm_90a, into "
            f"gpus.{board.gpu} in .github/pullrank.yml"
        )
    if board.toolchain.arch.startswith("gfx"):
        raise JudgeError(
            f"nvcc does not compile for {board.toolchain.arch}: the board {board.gpu} has no `lang: cu` yet"
        )
    return board.toolchain.arch


def _folders_of(board: Board, config: ScriptConfig) -> list[str]:
    """Where the headers of the task's libraries lie on this machine."""
    try:
        folders = {name: board.toolchain.folder_of(name, board.gpu) for name in config.include_dirs}
    except ValueError as error:
        raise TaskError(f"{board.task.name}: {error}") from None
    for name, folder in folders.items():
        real = Path(folder).resolve()
        if not real.is_dir():
            raise JudgeError(f"{name} should lie at {folder} on the machine of {board.gpu}, and does not")
        if not is_shown(str(real)):
            raise JudgeError(f"{folder}, where {name} lies, leads to {real}, out of {' and '.join(PLACES)}")
    return list(folders.values())


def _home_of(compiler: str) -> str:
    """Where a compiler and what it calls are installed."""
    return str(Path(compiler).resolve().parent.parent)


def explain(status: int, output: str) -> str:
    """Why a compiler failed, each fault a line; those of the submission come first, and name its line."""
    lines = [_harmless(line) for line in output.splitlines()]
    faults = list(dict.fromkeys(_faults_in(lines))) or [line for line in lines if "error" in line or "fatal" in line]
    faults.sort(key=lambda fault: not fault.startswith("submission."))
    if not faults:
        faults = [*filter(None, lines)][-1:] or [f"the compiler ended with exit code {status}, and said nothing"]
    more = len(faults) - _MAX_FAULTS
    shown = [fault[:_MAX_FAULT] for fault in faults[:_MAX_FAULTS]]
    return "\n".join([*shown, *([f"… and {more} more"] if more > 0 else [])])


def ran_out_of_memory(output: str) -> bool:
    """Whether that is what a compiler failed of."""
    return any(sign in output for sign in _OUT_OF_MEMORY)


def _faults_in(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if found := _FAULT.match(line):
            yield f"{found[1]}:{found[2] or found[3]}: {found[4]}"
        elif missing := _UNDEFINED.search(line):
            yield f"nothing defines {missing[1]}"


def _harmless(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line)
