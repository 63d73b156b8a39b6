"""How a `lang: cu` task becomes a program: which compiler, with which words, and what is said when it refuses.

A board without a GPU takes its sources as plain C++, by g++.  The compiler runs behind the walls as everything else
that reads a submission: an `#include` of a file of the judge's finds nothing.
"""

from __future__ import annotations

import re
import shutil

from harness.errors import JudgeError
from harness.task_file import ScriptConfig

_FLAGS = ("-x", "c++", "-std=c++17", "-O3", "-pthread", "-fmax-errors=20", "-fdiagnostics-color=never")
_ERROR = re.compile(r"^(?P<file>[^\s:]+):(?P<line>[0-9]+):(?:[0-9]+:)? (?:fatal )?error: (?P<what>.*)$", re.MULTILINE)
_LINKER = re.compile(r"undefined reference to .*|multiple definition of .*")
_MAX_ERRORS = 20


def compile_command(config: ScriptConfig, program: str) -> tuple[str, ...]:
    """The command that makes `program` of a task's sources, run in the folder of its files.

    Raises:
        JudgeError: there is no compiler on this machine.
    """
    if not (compiler := shutil.which("g++")):
        raise JudgeError("g++ is missing, which compiles 'lang: cu' for a CPU: apt install g++")
    folders = [word for folder in (".", *config.include_dirs) for word in ("-I", folder)]
    macros = [f"-D{name}={value}" if value else f"-D{name}" for name, value in config.defines.items()]
    return (compiler, *_FLAGS, *folders, *macros, *config.compile_flags, *config.sources, "-o", program)


def compile_errors(log: str, submission: str) -> str:
    """What the compiler refused, in short: its errors in the submission first, each with its line."""
    errors = [match for match in _ERROR.finditer(log) if match["file"].removeprefix("./") == submission]
    errors = errors or list(_ERROR.finditer(log))
    said = [f"{match['file'].removeprefix('./')}:{match['line']}: {match['what']}" for match in errors]
    said = said or _LINKER.findall(log)
    return "\n".join(dict.fromkeys(said[:_MAX_ERRORS])) or log.strip()[-2000:] or "The compiler gave no reason."
