"""`pullrank task new`: create a small, complete and correct task to start from.

It computes softsign, which is short to read and has every part of a task.

scaffold_files/any          task.py, reference.py
scaffold_files/python       a task for Python; the first of its examples/accepted/ is the anchor
scaffold_files/c++, cuda    tasks with compiled submissions (`lang: cu`), for CPU and for GPUs

`$name`, `$about`, `$gpus` and `$benchmarks` in these files are replaced.
"""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from string import Template
from textwrap import indent

import click
import yaml

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Language
from scripts.competition.repository import require_clone
from scripts.tasks.archive import with_deadline
from scripts.tasks.show import in_tasks, until
from scripts.tasks.writing import SCHEMA_LINE, closing_at, fault_of_name, write_task

_FILES = Path(__file__).with_name("scaffold_files")
_SENTENCE = "Squash every number: y = x / (1 + |x|)."


@click.command()
@click.argument("name")
@click.option("--title", help="The task's title. Default: derived from NAME.")
@click.option("--about", help="What to compute, in one sentence.")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task (repeatable). Default: CPU.")
@click.option("--lang", type=click.Choice([*map(str, Language)]), default="py", help="`cu`: submissions are compiled.")
@closing_at("never")
@in_tasks
def new(
    name: str,
    title: str | None,
    about: str | None,
    gpus: tuple[str, ...],
    lang: str,
    deadline: datetime | None,
    folder: Path,
) -> None:
    """Create a task that passes `task check` as it is; on a terminal, prompt for missing options.

    Example: pullrank task new rmsnorm --title "RMS norm" --gpu CPU --gpu H100
    """
    require_clone("task new", folder)
    if fault := fault_of_name(folder, name):
        raise TaskError(fault)
    title = title or _answer("Title", name.replace("-", " ").replace("_", " ").strip().capitalize())
    about = about or _answer("What to compute, in one sentence", _SENTENCE)
    gpus = gpus or tuple(_answer("Boards", "CPU").replace(",", " ").split()) or ("CPU",)
    files = _scaffold(name, title, about, gpus, Language(lang))
    if deadline:
        files["task.yml"] = with_deadline(files["task.yml"].decode(), deadline).encode()
    made = write_task(folder, name, files)
    closes = f", open {until(deadline)}" if deadline else ""
    click.echo(f"{display(made.folder)}/: created a complete task{closes}. Change these files, in this order:")
    for number, step in enumerate(_STEPS_IN_CU if lang == Language.CU else _STEPS, 1):
        click.echo(f"  {number}. {step}")
    click.echo(f"Then: pullrank task check {display(made.folder)}")


_STEPS = (
    "task.yml        the statement, and cases with relevant shapes",
    "reference.py    generate_input, ref_kernel, and a tolerance with its justification",
    "template.py     correct and simple, to start from",
    "examples/       one file for each verdict; the first accepted one is the anchor",
)

_STEPS_IN_CU = (
    *_STEPS[:2],
    "task.h          the function that a submission defines; adapter.py calls it",
    "template.cu     correct and simple, to start from",
    _STEPS[-1],
)


def _answer(question: str, default: str) -> str:
    """The user's answer on a terminal, else the default."""
    return str(click.prompt(question, default=default)) if sys.stdin.isatty() else default


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


def _scaffold(name: str, title: str, about: str, gpus: tuple[str, ...], lang: Language) -> dict[str, bytes]:
    """Name and content of every file.  Raises TaskError: no single source compiles for all these boards."""
    only_cpu = set(gpus) == {"CPU"}
    kind = "python"
    if lang is Language.CU:
        if "CPU" in gpus and len(gpus) > 1:
            raise TaskError(
                "--lang cu: g++ compiles for CPU, nvcc for GPUs, and this template is for one of them; "
                "tasks/causalconv1d is a task for both"
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
