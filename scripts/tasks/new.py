"""`pullrank task new`: create a small, complete and correct task to start from."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from harness.task.faults import display
from harness.task.task import Language
from scripts.tasks.scaffold import Wishes, scaffold
from scripts.tasks.show import in_tasks
from scripts.tasks.writing import require_new_name, write_task

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
    require_new_name(folder, name)
    wishes = _ask(name, title, about, gpus) if sys.stdin.isatty() else _default(name, title, about, gpus)
    made = write_task(folder, name, scaffold(replace(wishes, lang=Language(lang))))
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


def _default(name: str, title: str | None, about: str | None, gpus: tuple[str, ...]) -> Wishes:
    return Wishes(name=name, title=title or _titled(name), about=about or _SENTENCE, gpus=gpus or ("CPU",))


def _ask(name: str, title: str | None, about: str | None, gpus: tuple[str, ...]) -> Wishes:
    title = title or click.prompt("Title", default=_titled(name))
    about = about or click.prompt("What to compute, in one sentence", default=_SENTENCE)
    asked = () if gpus else click.prompt("Boards", default="CPU").replace(",", " ").split()
    return _default(name, title, about, gpus or tuple(asked))


def _titled(name: str) -> str:
    return name.replace("-", " ").replace("_", " ").strip().capitalize()
