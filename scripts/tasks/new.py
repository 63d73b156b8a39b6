"""`pullrank task new`: create a small, complete and correct task to start from."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import Language
from scripts.tasks.scaffold import scaffold
from scripts.tasks.show import in_tasks
from scripts.tasks.writing import fault_of_name, write_task

_SENTENCE = "Squash every number: y = x / (1 + |x|)."


@click.command()
@click.argument("name")
@click.option("--title", help="The task's title. Default: derived from NAME.")
@click.option("--about", help="What to compute, in one sentence.")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task (repeatable). Default: CPU.")
@click.option("--lang", type=click.Choice([*map(str, Language)]), default="py", help="`cu`: submissions are compiled.")
@in_tasks
def new(name: str, title: str | None, about: str | None, gpus: tuple[str, ...], lang: str, folder: Path) -> None:
    """Create a task that passes `task check` as it is; on a terminal, prompt for missing options.

    Example: pullrank task new rmsnorm --title "RMS norm" --gpu CPU --gpu H100
    """
    if fault := fault_of_name(folder, name):
        raise TaskError(fault)
    title = title or _answer("Title", name.replace("-", " ").replace("_", " ").strip().capitalize())
    about = about or _answer("What to compute, in one sentence", _SENTENCE)
    gpus = gpus or tuple(_answer("Boards", "CPU").replace(",", " ").split()) or ("CPU",)
    made = write_task(folder, name, scaffold(name, title, about, gpus, Language(lang)))
    click.echo(f"{display(made.folder)}/: created a complete task. Change these files, in this order:")
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
