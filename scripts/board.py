"""`pullrank board`: the standings of one board, as a table or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

from harness.task import Board, Task
from scripts.ledger import Ledger
from scripts.repository import LEDGER, TASKS, require_task
from scripts.standings import Row, Standings, standings
from scripts.terminal import console, table
from scripts.text import format_error, format_percent, format_us


@click.command()
@click.argument("task")
@click.option("--gpu", help="Which board of the task. Default: CPU if it has one, else its first.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), default=LEDGER, help="Folder of the ledger. Default: ledger/."
)
@click.option("--tasks", type=click.Path(path_type=Path), default=TASKS, help="Folder of the tasks. Default: tasks/.")
@click.option("--allow-unwalled", is_flag=True, help="Rank what was judged without walls, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in full precision.")
def board(task: str, gpu: str | None, ledger: Path, tasks: Path, allow_unwalled: bool, as_json: bool) -> None:
    """Show the standings of one board.

    Example: pullrank board vectoradd --gpu CPU --ledger demo/ledger
    """
    place = choose_board(require_task(task, tasks), gpu)
    contents = Ledger(ledger).judgements(place.task.name, place.gpu)
    ranked = standings(place, contents.judgements, allow_unwalled=allow_unwalled)
    if as_json:
        click.echo(json.dumps(facts(ranked), indent=1))
    elif ranked.rows:
        console().print(standings_table(ranked))
    else:
        click.echo(f"No ranked entries on {place.task.name} / {place.gpu} in {ledger} yet.")
    for fault in contents.faults:
        click.echo(f"left out: {fault}", err=True)


def choose_board(task: Task, gpu: str | None, wishes: tuple[str, ...] = ()) -> Board:
    """The board that was asked for; else the first of `wishes`; else CPU; else the task's first."""
    if gpu or wishes:
        return task.board(gpu or wishes[0])
    return task.board("CPU" if "CPU" in task.gpus else task.gpus[0])


def standings_table(ranked: Standings) -> Table:
    title = f"{ranked.board.task.title} on {ranked.board.gpu}"
    made = table(
        title, "Rank", "Author", "Time", "±", "Gap", "Language", "Judged", "", right=("Rank", "Time", "±", "Gap")
    )
    bands = [row.band for row in ranked.rows]
    for row in ranked.rows:
        made.add_row(
            f"{row.rank}{'=' if bands.count(row.band) > 1 else ' '}",
            Text(row.login, "bold" if row.champion else ""),
            format_us(row.score_us.value),
            format_error(row.score_us).removeprefix("±"),
            "" if row.champion else format_percent(row.gap),
            row.language,
            f"{len(row.judgements)}×",
            Text("; ".join(_remarks(row)), "dim"),
        )
    made.caption = "= tied: the difference is below 1 % or the noise" if len(set(bands)) < len(bands) else None
    made.caption_justify = "left"
    return made


def _remarks(row: Row) -> list[str]:
    return [*([row.note] if row.note else []), *(["judged without walls"] if row.unwalled else [])]


def facts(ranked: Standings) -> dict[str, Any]:
    """The standings for scripts: times in microseconds, gaps as shares."""
    return {
        "task": ranked.board.task.name,
        "gpu": ranked.board.gpu,
        "edition": ranked.board.edition,
        "ranking_by": ranked.board.ranking_by,
        "unranked": ranked.unranked,
        "rows": [_row_facts(row) for row in ranked.rows],
    }


def _row_facts(row: Row) -> dict[str, Any]:
    return {
        "rank": row.rank,
        "band": row.band,
        "login": row.login,
        "score_us": row.score_us.model_dump(),
        "gap": row.gap,
        "digest": row.digest,
        "language": row.language,
        "lines": row.lines,
        "first_at": row.first_at.isoformat(),
        "judgements": len(row.judgements),
        "champion": row.champion,
        "unwalled": row.unwalled,
        "note": row.note,
    }
