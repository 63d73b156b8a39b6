"""Compiler options: those that a task's `config` may set, and those that the board sets.

    task.yml       config: sources, defines, compile_flags       what to compile, and how
                           include_dirs: [cutlass]               libraries, by name
    pullrank.yml   gpus: H100: device: H100 80GB HBM3            ┐
                               arch: sm_90a                      │ Toolchain: what the machines of one board have;
                               include_dirs: {cutlass: /opt/…}   ┘ sent in the bundle, from `main`

Participants control none of this.  Flags are still restricted to an allowlist, because compiler flags can read files,
write files and load plugins, and a task is untrusted until it is merged.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, Field

from harness.records.errors import did_you_mean
from harness.records.fields import Model
from harness.task.faults import quote
from harness.task.task_values import Like, LineField, TextOrNumber

PLACES = ("/usr", "/opt")
"""Where libraries may be installed on a judging machine; compilers see nothing else of it."""

_HOST_FLAGS = (
    r"-O([0-3sg]|fast)",
    r"-g|-w|-pthread|-pedantic",
    r"--?std=(c|gnu)\+\+[0-9a-z]{2}",
    r"-D[A-Za-z_]\w*(=[\w.+*/():,-]*)?|-U[A-Za-z_]\w*",
    r"-l[A-Za-z0-9_][\w.+-]*",
    r"-W[a-z][a-z0-9+=-]*",
    r"-m[a-z0-9][a-z0-9._-]*(=[a-z0-9._+-]+)?",
    r"-f(no-)?(associative-math|exceptions|fast-math|finite-math-only|inline-functions|lto|math-errno"
    r"|omit-frame-pointer|openmp|openmp-simd|permissive|prefetch-loop-arrays|reciprocal-math|rounding-math|rtti"
    r"|signed-zeros|strict-aliasing|trapping-math|tree-vectorize|unroll-loops|unsafe-math-optimizations)",
    r"-ffp-contract=(fast|on|off)|-fvect-cost-model=[a-z-]+",
)
"""Flags of g++, given directly or passed through nvcc."""

_PTXAS_FLAGS = (
    r"-v|-O[0-3]|-d[ls]cm=\w+|--?(verbose|warn-on-spills|warn-spills|warn-on-local-memory-usage|opt-level=\d)"
)
_NVCC_FLAGS = (
    r"--?(use_fast_math|expt-relaxed-constexpr|expt-extended-lambda|extended-lambda|lineinfo|generate-line-info|restrict"
    r"|extra-device-vectorization|dlto|forward-unknown-to-host-compiler|resource-usage|res-usage)",
    r"--?(ftz|prec-div|prec-sqrt|fmad|rdc|relocatable-device-code)=(true|false)",
    r"--?(maxrregcount|diag-suppress|split-compile|threads)=\d+(,\d+)*|-t=\d+",
    r"--?default-stream=(legacy|null|per-thread)",
    rf"(-Xptxas|--ptxas-options)=({_PTXAS_FLAGS})(,({_PTXAS_FLAGS}))*",
    r"(-Xnvlink|--nvlink-options)=--?(verbose|v|dump-callgraph)",
)
"""Flags that only nvcc knows; dropped when g++ compiles."""

_THROUGH_NVCC = re.compile(r"(?:-Xcompiler|--compiler-options)=(.+)")
_ARCHITECTURE = re.compile(r"--?(arch|gencode|gpu-architecture|gpu-code|code|generate-code)\b")
_PLACE = re.compile(r"-[ILB]|-isystem|-iquote|-idirafter|--?(include-path|library-path|system-include|sysroot)\b")


def host_flags(flag: str) -> tuple[str, ...]:
    """The g++ flags in a flag: itself, what nvcc would pass on, or none if only nvcc knows it."""
    if through := _THROUGH_NVCC.fullmatch(flag):
        return tuple(through[1].split(","))
    return (flag,) if _is_any_of(flag, _HOST_FLAGS) else ()


def _flag(flag: str) -> str:
    """A flag that a task may use."""
    if _ARCHITECTURE.match(flag):
        fault = ": the board sets the architecture, by `arch` of its GPU in .github/pullrank.yml"
    elif _PLACE.match(flag):
        fault = ": the board sets the paths of libraries; list the libraries in include_dirs"
    elif flag in ("-Xcompiler", "-Xptxas", "-Xnvlink"):
        fault = f": write it as one word with its value: {flag}={'-fopenmp' if 'comp' in flag else '-v'}"
    elif _is_any_of(flag, _NVCC_FLAGS) or all(_is_any_of(part, _HOST_FLAGS) for part in host_flags(flag) or ("",)):
        return flag
    else:
        fault = " is not an allowed flag; tasks/README.md has the list"
    raise ValueError(f"{quote(flag)}{fault}")


def _is_any_of(flag: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, flag, re.ASCII) for pattern in patterns)


def _library(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name, re.ASCII):
        raise ValueError(
            f"must be the name of a library, such as cutlass, not {quote(name)}; .github/pullrank.yml has its path "
            f"under each GPU, as in include_dirs: {{cutlass: {PLACES[-1]}/cutlass/include}}"
        )
    return name


def _place(path: str) -> str:
    pure = PurePosixPath(path)
    if not pure.is_absolute() or ".." in pure.parts or str(pure) != path or not path.isprintable():
        raise ValueError(f"must be a folder's absolute path on the judging machine, without '..', not {quote(path)}")
    if not is_shown(path):
        raise ValueError(f"must be below {' or '.join(PLACES)}: compilers see nothing else of the machine")
    return path


def is_shown(path: str) -> bool:
    """Whether a folder is where libraries may be installed."""
    return any(PurePosixPath(path).is_relative_to(place) and path != place for place in PLACES)


CompilerFlag = Annotated[str, Field(max_length=200), AfterValidator(_flag)]
LibraryField = Annotated[str, AfterValidator(_library)]
Folder = Annotated[str, Field(max_length=200), AfterValidator(_place)]
Architecture = Annotated[
    str, Like(r"sm_[0-9]{2,3}[af]?|gfx[0-9a-f]{3,5}", "an architecture as compilers name it, such as sm_90a or gfx942")
]
Macro = Annotated[str, Like(r"[A-Za-z_][A-Za-z0-9_]{0,99}", "the name of a macro: letters, digits and _ only")]
# No quotes, spaces or dollars: nvcc passes its arguments to a shell.
MacroValue = Annotated[
    TextOrNumber, Like(r"[A-Za-z0-9_.+*/():,-]*", "a number, a word or a formula, without spaces or quotes")
]


class Toolchain(Model):
    """The device of one board's machines, and what they need for compiling besides compilers."""

    device: tuple[LineField, ...] = ()
    arch: Architecture | None = None
    include_dirs: dict[LibraryField, Folder] = Field(default_factory=dict)

    def folder_of(self, library: str, gpu: str) -> str:
        """The folder of a library's headers.  Raises ValueError: it is not configured."""
        if library not in self.include_dirs:
            near = did_you_mean(library, self.include_dirs)
            raise ValueError(
                f"the path of {library} is not configured for the board {gpu}{near or ';'} add it to "
                f"gpus.{gpu}.include_dirs in .github/pullrank.yml"
            )
        return self.include_dirs[library]
