"""Stage 3: the examples of the participants' guide, one file per language of a GPU board, and the vendor's profiler.

## CuPy             the example's name
```python           a submission to `vectoradd`
```cuda             a submission to tests/tasks/axpy_cuda, with the libraries that its headers need
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.check_gpu.probe import ROOT, CheckOptions, MissingError, Probe, ProbeAnswer, asks_for_gpu
from benchmarks.check_gpu.stages.judging import PROFILED, GpuCheck, answer_of, judge_file, probe_of, small_board
from harness.gpu.gpu_facts import read_gpu
from harness.gpu.gpu_nodes import assigned, find_gpus

if TYPE_CHECKING:
    from harness.task.submission import Submission
    from harness.task.task import Board

GUIDES = tuple(ROOT / "site" / "pages" / f"participants-{page}.md" for page in ("gpu", "cuda"))
CUDA_TASK = ROOT / "tests" / "tasks" / "axpy_cuda"
COMPILED = GpuCheck(
    name="torch.compile",
    source="import torch\n\n@torch.compile(dynamic=True)\ndef custom_kernel(data):\n    return data[0] + data[1]\n",
)
_LIMIT_S = 240.0
"""A compiler of CUDA C++ may take a minute or two."""

_EXAMPLE = re.compile(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```(python|cuda)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class GpuLibrary:
    """A C++ header and what it needs to compile; `folder` is its place in the guides, None for CUDA's own headers."""

    header: str
    name: str | None = None
    folder: str | None = None
    flags: tuple[str, ...] = ()
    defines: dict[str, str] = field(default_factory=dict)


LIBRARIES = (
    GpuLibrary(header="cublas_v2.h", flags=("-lcublas",)),
    GpuLibrary(header="cutlass/array.h", name="cutlass", folder="/opt/cutlass/include"),
    GpuLibrary(
        header="kittens.cuh",
        name="thunderkittens",
        folder="/opt/ThunderKittens/include",
        flags=("-lcuda",),
        defines={"KITTENS_HOPPER": ""},
    ),
)


@dataclass(frozen=True, kw_only=True)
class LanguageExample:
    """The file of one section."""

    name: str
    source: str
    is_compiled: bool

    @property
    def submission(self) -> Submission:
        from harness.task.submission import Submission

        file = "submission.cu" if self.is_compiled else "submission.py"
        return Submission(login="guide", source=self.source.encode(), name=file)

    @property
    def needs_gpu(self) -> bool:
        return self.is_compiled or asks_for_gpu(self.source)

    @property
    def libraries(self) -> tuple[GpuLibrary, ...]:
        return tuple(one for one in LIBRARIES if f"#include <{one.header}>" in self.source)

    def why_skipped(self) -> str:
        """What it needs and this machine lacks; "" if it can be judged here."""
        from harness.task_check.needs import why_skipped

        if self.is_compiled and not _find_nvcc():
            return "needs nvcc: not installed on this machine"
        for library in self.libraries:
            folders = [Path(library.folder)] if library.folder else _cudas_headers()
            if not any((folder / library.header).is_file() for folder in folders):
                return f"needs {library.header} in {folders[-1]}: not installed on this machine"
        return why_skipped(self.submission)

    def board(self, arch: str | None) -> Board:
        """The board for a file in CUDA C++, with the libraries that its headers need."""
        from harness.task.task import ScriptConfig, load_task
        from harness.task.toolchain import Toolchain

        board = load_task(CUDA_TASK).board("H100")
        config = board.task.config or ScriptConfig()
        named = {one.name: one.folder for one in self.libraries if one.name and one.folder}
        config = config.model_copy(
            update={
                "include_dirs": tuple(named),
                "compile_flags": (*config.compile_flags, *(flag for one in self.libraries for flag in one.flags)),
                "defines": config.defines
                | {key: value for one in self.libraries for key, value in one.defines.items()},
            }
        )
        task = replace(board.task, config=config)
        return replace(board, task=task, toolchain=Toolchain(arch=arch, include_dirs=named))


def guides_examples() -> tuple[LanguageExample, ...]:
    """All examples, in the guides' order."""
    return tuple(
        LanguageExample(name=name, source=source, is_compiled=kind == "cuda")
        for guide in GUIDES
        for name, kind, source in _EXAMPLE.findall(guide.read_text("utf-8"))
    )


def probes(_: CheckOptions) -> Iterator[Probe]:
    for example in guides_examples():
        run = partial(_judge_example, example=example)
        yield Probe(name=example.name, run=run, usual_s=15, limit_s=_LIMIT_S, judges=True, needs_gpu=example.needs_gpu)
    yield probe_of(COMPILED)
    yield probe_of(PROFILED)


def _judge_example(options: CheckOptions, *, example: LanguageExample) -> ProbeAnswer:
    """Judge an example of the guide, which must be accepted."""
    from harness.records.fields import Mode

    if reason := example.why_skipped():
        raise MissingError(reason)
    board = small_board(options)
    if example.is_compiled:
        gpus = assigned(find_gpus(), os.environ)
        facts = read_gpu(gpus[0]) if gpus else None
        board = replace(example.board(arch_of(facts.name) if facts else None), gpu="GPU")
    judgement = judge_file(options, board, example.submission, Mode.TEST)
    return answer_of(judgement, "AC", is_good=judgement.verdict.value == "AC")


def arch_of(device: str) -> str | None:
    """The architecture for nvcc, from the device name that a driver reports; None for an unknown device."""
    from harness.records.judgement import is_named
    from scripts.competition.gpu_models import gpu_models

    return next((model.arch for model in gpu_models().values() if is_named(device, model.device)), None)


def _find_nvcc() -> str | None:
    from harness.task.compile import PATH

    return shutil.which("nvcc", path=PATH)


def _cudas_headers() -> list[Path]:
    """The include folders of CUDA; nvcc in the PATH may be a wrapper script for one elsewhere."""
    nvcc = _find_nvcc()
    homes = [*([Path(nvcc).resolve().parent.parent] if nvcc else []), Path("/opt/cuda"), Path("/usr/local/cuda")]
    return [home / "include" for home in homes]
