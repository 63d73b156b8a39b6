"""The files of a new task: softsign, which is short to read and has every part of a task.

scaffold_files/any          task.py, reference.py
scaffold_files/python       a task for Python; the first of its examples/accepted/ is the anchor
scaffold_files/c++, cuda    tasks with compiled submissions (`lang: cu`), for CPU and for GPUs

`$name`, `$about`, `$gpus` and `$benchmarks` in these files are replaced.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from textwrap import indent

import yaml

from harness.records.errors import TaskError
from harness.task.task import Language
from scripts.tasks.writing import SCHEMA_LINE

_FILES = Path(__file__).with_name("scaffold_files")

_SMALL = """\
benchmarks:
  - {size: 2097152, seed: 2146}
  - {size: 3000017, seed: 6256}
case_timeout: 5
compile_timeout: 60
memory_gib: 4
"""
_LARGE = """\
benchmarks:
  - {size: 67108864, seed: 2146}
  - {size: 134217729, seed: 6256}
"""
_SMALL_ON_CPU = f"per_gpu:\n  CPU:\n{indent(_SMALL, '    ')}"


def scaffold(name: str, title: str, about: str, gpus: tuple[str, ...], lang: Language) -> dict[str, bytes]:
    """Name and content of every file.  Raises TaskError: no single source compiles for all these boards."""
    only_cpu = set(gpus) == {"CPU"}
    kind = "python"
    if lang is Language.CU:
        if "CPU" in gpus and len(gpus) > 1:
            raise TaskError(
                "--lang cu: g++ compiles for CPU, nvcc for GPUs; create one task for CPU and one for the GPUs"
            )
        kind = "c++" if only_cpu else "cuda"
    values = {
        "name": name,
        "about": " ".join(about.split()),
        "gpus": yaml.safe_dump(list(gpus), default_flow_style=True, width=1000).strip(),
        "benchmarks": _SMALL if only_cpu else _LARGE + (_SMALL_ON_CPU if "CPU" in gpus else ""),
    }
    files = {
        path.relative_to(folder).as_posix().removesuffix(".txt"): Template(path.read_text("utf-8")).substitute(values)
        for folder in (_FILES / "any", _FILES / kind)
        for path in folder.rglob("*.txt")
    }
    titled = yaml.safe_dump({"title": title}, allow_unicode=True, width=1000)
    files["task.yml"] = SCHEMA_LINE + titled + files["task.yml"]
    return {name: text.encode() for name, text in files.items()}
