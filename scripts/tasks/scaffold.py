"""The files of a new task, as text: softsign, which is short to read and has every part of a task.

task.yml  task.py  reference.py  template.py
examples/accepted/three_passes.py           the anchor
examples/wrong_answer/in_half_precision.py

With `lang: cu` the last three are in C++, and there are two more (`scaffold_cu`).
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import indent

import yaml

from harness.records.errors import TaskError
from harness.task.task import Language
from scripts.tasks.scaffold_cu import HOW, ON_CPU, ON_GPU, STATEMENT, compiled_files
from scripts.tasks.writing import SCHEMA_LINE


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The author's answers."""

    name: str
    title: str
    about: str
    gpus: tuple[str, ...]
    lang: Language = Language.PY

    @property
    def is_compiled(self) -> bool:
        return self.lang is Language.CU


def scaffold(wishes: Wishes) -> dict[str, bytes]:
    """Name and content of every file.

    Raises:
        TaskError: no single source compiles for all these boards.
    """
    if wishes.is_compiled and "CPU" in wishes.gpus and len(wishes.gpus) > 1:
        raise TaskError("--lang cu: g++ compiles for CPU, nvcc for GPUs; create one task for CPU and one for the GPUs")
    files = {"task.yml": _task_yml(wishes), "task.py": _TASK, "reference.py": _REFERENCE}
    files |= _compiled_files(wishes) if wishes.is_compiled else _python_files(wishes)
    return {name: text.encode() for name, text in files.items()}


def _python_files(wishes: Wishes) -> dict[str, str]:
    directive = f"#!POPCORN leaderboard {wishes.name}\n"
    return {
        "template.py": directive + _HOW.replace("NAME", wishes.name) + _TEMPLATE,
        "examples/accepted/three_passes.py": directive + _ACCEPTED,
        "examples/wrong_answer/in_half_precision.py": directive + _WRONG,
    }


def _compiled_files(wishes: Wishes) -> dict[str, str]:
    directive = f"//!POPCORN leaderboard {wishes.name}\n"
    return compiled_files(directive, HOW.replace("NAME", wishes.name), on_gpu=wishes.gpus != ("CPU",))


def _task_yml(wishes: Wishes) -> str:
    head = yaml.safe_dump({"title": wishes.title}, allow_unicode=True, width=1000)
    gpus = yaml.safe_dump(list(wishes.gpus), default_flow_style=True, width=1000).strip()
    boards = set(wishes.gpus)
    cases = _SMALL if boards == {"CPU"} else _LARGE + (_SMALL_ON_CPU if "CPU" in boards else "")
    # Insert the author's own words last: they may contain one of the placeholders.
    statement = _compiled_statement(wishes) if wishes.is_compiled else _STATEMENT
    body = (statement + cases + _RANKING).replace("GPUS", gpus).replace("ABOUT", " ".join(wishes.about.split()))
    return SCHEMA_LINE + head + body


def _compiled_statement(wishes: Wishes) -> str:
    place = ON_CPU if wishes.gpus == ("CPU",) else ON_GPU
    language = "C++" if wishes.gpus == ("CPU",) else "CUDA"
    made = _STATEMENT.replace(_GIVEN, STATEMENT.replace("PLACE", place))
    made = made.replace("lang: py\n", "lang: cu\nevaluator: referee\n")
    made = made.replace("templates: {Python: template.py}", f"templates: {{{language}: template.cu}}")
    return made.replace("three_passes.py", "plain.cu")


_GIVEN = """\
  `custom_kernel` gets a contiguous `float32` tensor `x` of shape `(size,)` and returns a `float32` tensor of the same
  shape. The input is yours; you may overwrite it.
"""

_STATEMENT = (
    """\
description: |
  ABOUT

"""
    + _GIVEN
    + """\

  **Tolerance.** Every element must be within a relative error of 5e-7.

  **Example**:

      x = [1.0, -3.0, 0.0]
      y = [0.5, -0.75, 0.0]
lang: py
gpus: GPUS
templates: {Python: template.py}
anchor: examples/accepted/three_passes.py

# Every case is a call of generate_input with these arguments; a ranked run replaces `seed` with a secret one.
tests:
  - {size: 1, seed: 1201}
  - {size: 127, seed: 4242}
  - {size: 65537, seed: 9173}
"""
)

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

_RANKING = """\

ranking_by: geom
work: {bytes: "2 * size * 4", flops: "3 * size", dtype: float32}
"""

_TASK = '''\
"""The types of input and output."""

import torch

input_t = torch.Tensor
"""`x`: float32, shape (size,), contiguous."""

output_t = torch.Tensor
"""`y`: float32, shape (size,)."""
'''

_REFERENCE = '''\
"""The reference: computes in float64, which is more precise than the tolerance."""

import torch
from task import input_t, output_t

from harness.checker import compare

# The absolute value is exact; the sum and the quotient are each rounded once, with a relative error of 2^-24.  So an
# honest kernel is off by at most 2^-23.  The tolerance is four times that, for kernels that multiply by a reciprocal.
# float16 is off by 2^-11, far more than allowed.
RTOL = 2**-21


def generate_input(size: int, seed: int) -> input_t:
    torch.manual_seed(seed)
    return torch.randn(size)


def ref_kernel(data: input_t) -> output_t:
    x = data.double()
    return (x / (1 + x.abs())).float()


def check_implementation(data: input_t, output: output_t) -> tuple[bool, str]:
    return compare(output, ref_kernel(data), rtol=RTOL, atol=0)
'''

_HOW = """\
# Save this as submissions/NAME/<your login>/submission.py and open a pull request:
# a draft is only tested; a pull request that is ready for review is ranked.
# Test it on your own machine first: pullrank test submission.py
"""

_TEMPLATE = '''\
"""Correct and simple: three passes over memory where one is enough."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data / (1 + data.abs())
'''

_ACCEPTED = '''\
"""One pass over memory per operation.  This is the anchor: every submission is timed alongside it."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    return data / (1 + data.abs())
'''

_WRONG = '''\
"""Computes in float16: half the bytes, but only three of the seven digits."""

from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x = data.half()
    return (x / (1 + x.abs())).float()
'''
