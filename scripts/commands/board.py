"""`pullrank board`, `mine`, `history`, `compare`: standings and records, from a ledger or a published site.

They print tables, or with `--json` the facts in full precision: times in microseconds, gaps and gains as fractions.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from harness.records.errors import PullRankError
from scripts.boards.board_facts import BoardFacts, RowFacts
from scripts.boards.source import BoardSource, LedgerSource, SiteSource
from scripts.boards.tables import compare_table, history_table, lines_below, mine_table, standings_table
from scripts.common.options import PATH, given_again, options
from scripts.common.terminal import console, say
from scripts.competition.completion import judged_gpu_names, logins, task_names
from scripts.competition.repository import IS_CLONE, home_of, require_ledger
from scripts.github.access import connect, require_repository, require_token, server_url
from scripts.github.contribute import explaining
from scripts.github.credentials import AccessError
from scripts.github.pages import pages_address
from scripts.ledger.ledger import LedgerError

_GPU = "The task's board. Default: CPU if it has one, else its first."
at_site = click.option("--site", metavar="URL", help="Read a published site at this address; needs no clone.")
in_ledger = click.option("--ledger", type=PATH, help="Ledger folder. Default: ledger/.")
_source_options = options(
    at_site,
    in_ledger,
    click.option("--tasks", type=PATH, help="Tasks folder. Default: tasks/ next to the ledger, else of this clone."),
    click.option("--allow-unwalled", is_flag=True, help="Include results judged without a sandbox."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON in full precision."),
)


def _read_from(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command a `source`, from --site or from --ledger and --tasks, and report what it could not read."""

    @wraps(command)
    def run(
        *, site: str | None, ledger: Path | None, tasks: Path | None, allow_unwalled: bool, **rest: Any
    ) -> int | None:
        if site and (ledger or tasks or allow_unwalled):
            raise click.UsageError("--site cannot be combined with --ledger, --tasks or --allow-unwalled.")
        source = SiteSource(site) if site else open_ledger(ledger, tasks, allow_unwalled=allow_unwalled)
        code = command(source=source, **rest)
        report_faults(source)
        return code

    return _source_options(run)


def report_faults(source: BoardSource) -> None:
    """Print the files of a source that could not be read."""
    for fault in source.faults:
        click.echo(f"left out: {fault}", err=True)


def open_ledger(ledger: Path | None, tasks: Path | None = None, *, allow_unwalled: bool = False) -> LedgerSource:
    """Open the ledger of a folder, and the tasks next to it.

    Raises:
        LedgerError: there is none, as in a participant's clone; showing empty boards would be wrong.
    """
    found = require_ledger(ledger)
    if found.path.is_dir():
        return LedgerSource(found, tasks or home_of(ledger) / "tasks", allow_unwalled=allow_unwalled)
    try:
        site = pages_address(require_repository(), server_url())
    except AccessError:
        site = "URL"
    if not IS_CLONE:
        raise LedgerError(f"there is no ledger without a clone: --site {site} reads the published site")
    raise LedgerError(
        f"{found.path}: there is no ledger here. --site {site} reads the published site; "
        f"`git fetch origin ledger && git worktree add --detach {found.path} FETCH_HEAD` checks out a copy"
    )


@click.command()
@click.argument("task", shell_complete=task_names)
@click.option("--gpu", shell_complete=judged_gpu_names, help=_GPU)
@_read_from
def board(source: BoardSource, task: str, gpu: str | None, as_json: bool) -> None:
    """Show the standings of one board.

    Example: pullrank board vectoradd --gpu CPU --ledger demo/ledger

    From a published site: pullrank board vectoradd --site https://OWNER.github.io/NAME/
    """
    found = source.board(task, gpu)
    if as_json:
        _print(found.model_dump(mode="json"))
    else:
        if not found.rows:
            click.echo(f"No ranked entries on {found.task} / {found.gpu} in {source.place} yet.")
        if found.rows or found.baselines:
            console().print(standings_table(found))
    _show_below(found, as_json=as_json)


@click.command()
@click.argument("login", required=False, shell_complete=logins)
@_read_from
def mine(source: BoardSource, login: str | None, as_json: bool) -> None:
    """Show an author's ranks and who is ahead.

    LOGIN defaults to the account of your token (GH_TOKEN or `gh`).

    Example: pullrank mine ada --site https://OWNER.github.io/NAME/
    """
    login = login or _my_login()
    boards = source.boards_of_author(login)
    if as_json:
        _print({"login": login, "rows": [_place(board, row) for board in boards if (row := board.find_row(login))]})
    elif boards:
        console().print(mine_table(boards, login))
        command = ["pullrank", "board", boards[0].task, "--gpu", boards[0].gpu]
        again = given_again("site", "ledger", "tasks", "allow_unwalled")
        say(f"Next: `{shlex.join([*command, *again])}`", stderr=True)
    else:
        click.echo(f"{login} is not ranked on any board of {source.place} yet. `pullrank tasks` lists the tasks.")


def _my_login() -> str:
    name_it = "name a login: `pullrank mine ada`"
    try:
        token = require_token("any will do")
    except AccessError as error:
        raise PullRankError(f"no login given; {name_it}. Your own is unknown: {error}") from None
    try:
        repository = require_repository()
    except AccessError:
        raise PullRankError(f"no login given; outside a clone of the repository, {name_it}") from None
    with connect(repository, token) as github, explaining(repository):
        return github.whoami().login


def _place(board: BoardFacts, row: RowFacts) -> dict[str, Any]:
    ahead = board.ahead_of(row)
    facts = {"of": len(board.rows), "tied": board.is_tied(row)}
    return {
        **row.model_dump(mode="json"),
        **facts,
        "ahead": ahead and {"login": ahead.login, "rank": ahead.rank, "gap": row.gap_to(ahead)},
    }


@click.command()
@click.argument("task", shell_complete=task_names)
@click.option("--gpu", shell_complete=judged_gpu_names, help=_GPU)
@click.option("--login", shell_complete=logins, help="Show only this author's records.")
@_read_from
def history(source: BoardSource, task: str, gpu: str | None, login: str | None, as_json: bool) -> None:
    """Show the records of one board, oldest first.

    Example: pullrank history vectoradd --gpu H100 --site https://OWNER.github.io/NAME/
    """
    found = source.board(task, gpu)
    records = [record for record in found.records if login is None or record.login.lower() == login.lower()]
    if as_json:
        records_json = [record.model_dump(mode="json") for record in records]
        out = [one.model_dump(mode="json") for one in found.taken_out]
        named = {"task": found.task, "gpu": found.gpu, "edition": found.edition}
        _print({**named, "records": records_json, "taken_out": out})
    elif records:
        console().print(history_table(found, records))
    else:
        click.echo(f"No records on {found.task} / {found.gpu} in {source.place} yet.")
    _show_below(found, as_json=as_json)


def _show_below(board: BoardFacts, *, as_json: bool) -> None:
    if not as_json:
        for line in lines_below(board):
            console().print(Text(line, "dim"), soft_wrap=True)


@click.command()
@click.argument("one", shell_complete=logins)
@click.argument("other", shell_complete=logins)
@click.option(
    "--task", shell_complete=task_names, help="Compare on this task only. Default: every board where both are ranked."
)
@click.option("--gpu", shell_complete=judged_gpu_names, help="Compare on this board of each task only.")
@_read_from
def compare(source: BoardSource, one: str, other: str, task: str | None, gpu: str | None, as_json: bool) -> None:
    """Compare two authors case by case, on every board where both are ranked.

    Example: pullrank compare ada grace --task vectoradd --gpu CPU
    """
    boards = _boards(source, one, task, gpu)
    both = [(board, a, b) for board in boards if (a := board.find_row(one)) and (b := board.find_row(other))]
    if not both:
        where = f"{task} in {source.place}" if task else source.place
        raise PullRankError(
            f"{one} and {other} share no board of {where}; `pullrank mine {one}` lists the boards of {one}"
        )
    if as_json:
        _print([_comparison(*each) for each in both])
    else:
        for each in both:
            console().print(compare_table(*each), "")


def _boards(source: BoardSource, login: str, task: str | None, gpu: str | None) -> Sequence[BoardFacts]:
    if task and gpu:
        return [source.board(task, gpu)]
    found = source.boards_of_task(task) if task else source.boards_of_author(login)
    return [board for board in found if gpu in (None, board.gpu)]


def _comparison(board: BoardFacts, one: RowFacts, other: RowFacts) -> dict[str, Any]:
    return {
        "task": board.task,
        "gpu": board.gpu,
        "edition": board.edition,
        "rows": [row.model_dump(mode="json") for row in (one, other)],
        "ratio": one.score_us.value / other.score_us.value,
        "tied": one.is_tied_with(other),
    }


def _print(facts: Any) -> None:
    click.echo(json.dumps(facts, indent=1, allow_nan=False))
