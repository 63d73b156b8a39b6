"""`pullrank task new`: a task that is small, whole and right, to be changed into the one that you have in mind."""

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
@click.option("--title", help="The task's name for people. Default: made from NAME.")
@click.option("--about", help="One sentence that says what is to be computed.")
@click.option("--gpu", "gpus", multiple=True, help="A board of the task; may stand several times. Default: CPU.")
@click.option("--lang", type=click.Choice([*map(str, Language)]), default="py", help="cu: submissions are compiled.")
@in_tasks
def new(name: str, title: str | None, about: str | None, gpus: tuple[str, ...], lang: str, folder: Path) -> None:
    """Make a new task that passes `task check` as it is; on a terminal it asks for what was not said.

    Example: pullrank task new rmsnorm --title "RMS norm" --gpu CPU --gpu H100
    """
    require_new_name(folder, name)
    wishes = _ask(name, title, about, gpus) if sys.stdin.isatty() else _default(name, title, about, gpus)
    made = write_task(folder, name, scaffold(replace(wishes, lang=Language(lang))))
    click.echo(f"{display(made.folder)}/: a whole task. Now make it yours, from the top:")
    for number, step in enumerate(_STEPS_IN_CU if lang == Language.CU else _STEPS, 1):
        click.echo(f"  {number}. {step}")
    click.echo(f"Then: pullrank task check {display(made.folder)}")


_STEPS = (
    "task.yml        the statement, and cases whose shapes matter",
    "reference.py    generate_input, ref_kernel; argue for the tolerance",
    "template.py     right and simple, to start from",
    "examples/       one file for each verdict that you mean; the first accepted one is the anchor",
)

_STEPS_IN_CU = (
    *_STEPS[:2],
    "task.h          the function that a submission defines; adapter.py calls it",
    "template.cu     right and simple, to start from",
    _STEPS[-1],
)


def _default(name: str, title: str | None, about: str | None, gpus: tuple[str, ...]) -> Wishes:
    return Wishes(name=name, title=title or _titled(name), about=about or _SENTENCE, gpus=gpus or ("CPU",))


def _ask(name: str, title: str | None, about: str | None, gpus: tuple[str, ...]) -> Wishes:
    title = title or click.prompt("Title", default=_titled(name))
    about = about or click.prompt("What is to be computed, in one sentence", default=_SENTENCE)
    asked = () if gpus else click.prompt("Boards", default="CPU").replace(",", " ").split()
    return _default(name, title, about, gpus or tuple(asked))


def _titled(name: str) -> str:
    return name.replace("-", " ").replace("_", " ").strip().capitalize()
