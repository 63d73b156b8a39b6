"""`pullrank duel A B`: play two files on this machine as the judge plays a challenger against the champion.

two files ─► which task, which board?  as for one file; both must agree
          ─► harness.judge.duel ─► DuelResult ─► a table and a sentence, or JSON
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from harness.records.errors import SubmissionError
from harness.records.stats import DUEL_LOOKS, TIE, Interval, is_faster, median
from harness.records.system import require_linux
from harness.records.times import Duel, DuelCase, Run
from harness.records.verdict import Verdict
from harness.task.submission import Submission, read_submission
from harness.task.task import Board
from scripts.boards import judgement_tables
from scripts.commands.judge_file import (
    exit_code_of,
    find_named_task,
    placed,
    requested_gpus,
    suggesting_other_machines,
    unknown_task,
)
from scripts.common.terminal import Display, cell, console, stdout_to_stderr, table
from scripts.common.text import format_speedup, format_us, in_words, plain
from scripts.competition.repository import choose_board
from scripts.standings.claims import is_unwalled

if TYPE_CHECKING:
    from harness.judge import DuelResult

_MAX_BLOCKS = 200


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@placed
@click.option(
    "--blocks",
    type=click.IntRange(DUEL_LOOKS[0], _MAX_BLOCKS),
    help="A-B-B-A blocks to play on each benchmark. Default: 8, then 16, 32 and 64 while undecided.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON with every sample.")
def duel(
    a: Path,
    b: Path,
    task: str | None,
    task_dir: Path | None,
    gpu: str | None,
    sandbox: str,
    blocks: int | None,
    as_json: bool,
) -> int:
    """Play two files against each other and say whether one is faster.

    Both must pass the tests. Then they take turns in A-B-B-A blocks of fresh processes, on every benchmark that
    counts, until the duel is decided, has played 64 blocks, or has no time for more. Every output is checked. The same
    rules decide between a challenger and a board's leader.

    Example: pullrank duel mine.py theirs.py --task vectoradd
    """
    files = {path: read_submission(path) for path in (a, b)}
    board = common_board(files, task, task_dir, gpu)
    looks = (blocks,) if blocks else DUEL_LOOKS
    with suggesting_other_machines(board):
        require_linux()
        from harness.judge import duel as play

        with stdout_to_stderr(), Display(console(stderr=True)) as display:
            display.begin(f"{a.name} against {b.name} on {board.task.name} / {board.gpu}")
            dueled = play(board, files[a], files[b], looks=looks, sandbox=sandbox, on_progress=display.show)
    if as_json:
        click.echo(json.dumps(facts(dueled), indent=1))
    else:
        show(dueled, (a, b), console())
    return max(exit_code_of(dueled.a.verdict), exit_code_of(dueled.b.verdict))


def common_board(files: dict[Path, Submission], task: str | None, task_dir: Path | None, gpu: str | None) -> Board:
    """The board that both files are for.  If one file names no task or board, the other decides."""
    tasks = {path: find_named_task(path, file, task, task_dir) for path, file in files.items()}
    found = [(path, one) for path, one in tasks.items() if one]
    if not found:
        raise unknown_task(*next(iter(files.items())))
    (path, one), (other_path, other) = found[0], found[-1]
    if one.folder != other.folder:
        raise SubmissionError(f"{path} is for '{one.name}', but {other_path} is for '{other.name}'")
    return choose_board(one, gpu, () if gpu else _common_gpus(files))


def _common_gpus(files: dict[Path, Submission]) -> tuple[str, ...]:
    """The boards that all directives of the files name; empty if there are no directives."""
    asked = {path: gpus for path, file in files.items() if (gpus := requested_gpus(file))}
    common = tuple(gpu for gpu in next(iter(asked.values()), ()) if all(gpu in gpus for gpus in asked.values()))
    if asked and not common:
        boards = ", but ".join(f"{path} is for {', '.join(gpus)}" for path, gpus in asked.items())
        raise SubmissionError(f"{boards}: name the duel's board with --gpu")
    return common


def decision(ratio: Interval) -> str:
    """Which side is faster, and by how much, in a sentence; `ratio` is A's time over B's."""
    side, least = _faster(ratio)
    speedup, interval = format_speedup(least.value), _speedups(least)
    if is_faster(least):
        return f"{side} is faster: speedup {speedup}, 95 % interval {interval}."
    if least.high >= 1:
        return f"No difference found: the 95 % interval of {side}'s speedup, {interval}, includes 1."
    return f"No difference found: {side}'s speedup, {speedup}, is below the {100 * TIE:g} % that counts."


def _faster(ratio: Interval) -> tuple[str, Interval]:
    """The side with the shorter time, and the ratio of its time to the other's."""
    return ("A", ratio) if ratio.value <= 1 else ("B", ratio.inverse)


def _speedups(ratio: Interval) -> str:
    """The interval of the speedup: its lower end comes from the upper end of the ratio of times."""
    return f"{format_speedup(ratio.high)} to {format_speedup(ratio.low)}"


def facts(dueled: DuelResult) -> dict[str, Any]:
    """A duel as JSON: both judgements, then the times in microseconds.  `ratio` is A's time over B's.

    Without a duel, there are no cases, and `ratio` and `faster` are None.
    """
    found = dueled.duel
    side, least = _faster(found.ratio) if found else ("", None)
    return {
        "a": json.loads(dueled.a.to_json()),
        "b": json.loads(dueled.b.to_json()),
        "cases": [_case_facts(case) for case in found.cases] if found else [],
        "ratio": found.ratio.model_dump() if found else None,
        "faster": side if least and is_faster(least) else None,
        "decision": decision(found.ratio) if found else _no_decision(dueled),
    }


def _no_decision(dueled: DuelResult) -> str:
    sides = (("A", dueled.a), ("B", dueled.b))
    failed = [f"{side} got {one.verdict}" for side, one in sides if one.verdict is not Verdict.ACCEPTED]
    return f"No decision: {' and '.join(failed)}."


def _case_facts(case: DuelCase) -> dict[str, Any]:
    return {
        "params": case.model_dump(mode="json")["params"],
        "a_us": _median_us(case.challenger),
        "b_us": _median_us(case.champion),
        "ratio": case.ratio.model_dump(),
        "a": [run.model_dump(mode="json") for run in case.challenger],
        "b": [run.model_dump(mode="json") for run in case.champion],
    }


def show(dueled: DuelResult, paths: tuple[Path, Path], stdout: Console) -> None:
    """Print the times and the decision, or why a file was not accepted."""
    for side, path, judgement in zip("AB", paths, (dueled.a, dueled.b), strict=True):
        if judgement.verdict is not Verdict.ACCEPTED:
            stdout.print(f"{side}, {plain(str(path))}:", style="bold")
            judgement_tables.show(judgement, stdout)
    if dueled.duel:
        stdout.print(_cases_table(dueled.duel), "")
        stdout.print(decision(dueled.duel.ratio), style="bold")
        if is_unwalled(dueled.a):
            stdout.print("Judged without a sandbox: only for files that you trust.")


def _cases_table(found: Duel) -> Table:
    numbers = ("A", "B", "Speedup", "95 % interval")
    made = table("Benchmarks", "Case", *numbers, "Faster", right=numbers)
    for case in found.cases:
        side, least = _faster(case.ratio)
        made.add_row(
            cell(in_words(case.params)),
            format_us(_median_us(case.challenger)),
            format_us(_median_us(case.champion)),
            format_speedup(least.value),
            _speedups(least),
            side if is_faster(least) else "–",
        )
    return made


def _median_us(runs: Sequence[Run]) -> float:
    return median([run.time_us for run in runs])
