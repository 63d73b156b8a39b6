"""`pullrank board`: the standings of one board, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from harness.judgement import Claim
from harness.task import Board, Language, Task
from harness.toolchain import Toolchain
from scripts.repository import ROOT, TASKS, require_ledger, require_task
from scripts.settings import SETTINGS, load_settings
from scripts.standings import Row, Standings, standings
from scripts.terminal import console, table
from scripts.text import format_error, format_gap, format_us


@click.command()
@click.argument("task")
@click.option("--gpu", help="Which board of the task. Default: CPU if it has one, else its first.")
@click.option("--ledger", type=click.Path(path_type=Path), help="Folder of the ledger. Default: ledger/.")
@click.option("--tasks", type=click.Path(path_type=Path), default=TASKS, help="Folder of the tasks. Default: tasks/.")
@click.option("--allow-unwalled", is_flag=True, help="Rank what was judged without walls, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in full precision.")
def board(task: str, gpu: str | None, ledger: Path | None, tasks: Path, allow_unwalled: bool, as_json: bool) -> None:
    """Show the standings of one board.

    Example: pullrank board vectoradd --gpu CPU --ledger demo/ledger
    """
    place = choose_board(require_task(task, tasks), gpu)
    opened = require_ledger(ledger)
    contents = opened.judgements(place.task.name, place.gpu)
    ranked = standings(place, contents.judgements, allow_unwalled=allow_unwalled)
    if as_json:
        click.echo(json.dumps(facts(ranked), indent=1))
    elif ranked.rows:
        console().print(standings_table(ranked))
    else:
        click.echo(f"No ranked entries on {place.task.name} / {place.gpu} in {opened.path} yet.")
    for fault in contents.faults:
        click.echo(f"left out: {fault}", err=True)


def choose_board(task: Task, gpu: str | None, wishes: tuple[str, ...] = ()) -> Board:
    """The board that was asked for; else the first of `wishes`; else CPU; else the task's first."""
    board = task.board(gpu or next(iter(wishes), None) or ("CPU" if "CPU" in task.gpus else task.gpus[0]))
    return replace(board, toolchain=_toolchain_of(board.gpu)) if task.lang is Language.CU else board


def _toolchain_of(gpu: str) -> Toolchain:
    """As the settings of this repository describe a board's machines; nothing where they don't know the board."""
    known = load_settings(ROOT / SETTINGS).gpus
    return known[gpu].toolchain if gpu in known else Toolchain()


def standings_table(ranked: Standings) -> Group:
    """A table that fits into 80 columns, and below it what is to be said about its rows."""
    title = f"{ranked.board.task.title} on {ranked.board.gpu}"
    made = table(
        title, "Rank", "Author", "Time", "±", "Gap", "Language", "Judged", right=("Rank", "Time", "±", "Gap", "Judged")
    )
    made.columns[1].max_width, made.columns[5].max_width = 24, 10
    bands = [row.band for row in ranked.rows]
    for row in ranked.rows:
        made.add_row(
            f"{row.rank}{'=' if bands.count(row.band) > 1 else ' '}",
            Text(row.login, "bold" if row.champion else ""),
            format_us(row.score_us.value),
            format_error(row.score_us).removeprefix("±"),
            "" if row.champion else format_gap(row.gap),
            row.language,
            f"{len(row.judgements)}×",
        )
    return Group(made, *(Text(remark, "dim") for remark in _remarks(ranked.rows)))


def _remarks(rows: Sequence[Row]) -> Iterator[str]:
    if len({row.band for row in rows}) < len(rows):
        yield "= tied: the difference is below 1 % or the noise"
    yield from (f"{row.login}: {row.note}" for row in rows if row.note)
    if self_timed := [row.login for row in rows if row.claim is Claim.SELF_TIMED and not row.unwalled]:
        yield f"self-timed, so no more than their word: {', '.join(self_timed)}"
    if unwalled := [row.login for row in rows if row.unwalled]:
        yield f"judged without walls: {', '.join(unwalled)}"


def facts(ranked: Standings) -> dict[str, Any]:
    """The standings for scripts: times in microseconds, gaps as shares."""
    return {
        "task": ranked.board.task.name,
        "gpu": ranked.board.gpu,
        "edition": ranked.board.edition,
        "ranking_by": ranked.board.ranking_by,
        "unranked": ranked.unranked,
        "rows": [row.facts for row in ranked.rows],
    }
