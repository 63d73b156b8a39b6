"""`pullrank verify FILE_OR_URL`: the same file on the same inputs, on this machine; verdicts and ratios side by side.

judgement ─▶ its task, which must be of the same edition here
          ─▶ its file, which must have the same digest
          ─▶ harness.judge on its seeds ─▶ what is the same, what is not, how the machines differ
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from harness.errors import PullRankError
from harness.fields import Mode
from harness.judgement import MAX_BYTES, CaseResult, Judgement, JudgementError, Machine
from harness.replay import Replay
from harness.stats import Interval, tied
from harness.submission import Submission, read_submission
from harness.task import Board, Task, load_task
from scripts.boards.web import fetch_judgement, is_address
from scripts.bot.path_rule import entry_path
from scripts.ledger.facts import FactError, read_plain
from scripts.repository import ROOT, TASKS, choose_board, require_task
from scripts.terminal import Display, cell, console, table, verdict_text
from scripts.text import format_error, plain

_MACHINE = ("device", "cpu", "cores", "memory_gib", "os", "python", "torch", "driver")


class VerifyError(PullRankError):
    """It cannot be played again here; the message says what is missing."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A case as it was judged, and as it came out here; `here` is None where it was not played."""

    judged: CaseResult
    here: CaseResult | None

    @property
    def is_same(self) -> bool:
        return self.here is not None and self.here.verdict is self.judged.verdict

    @property
    def ratios(self) -> tuple[Interval, Interval] | None:
        """To the anchor: then, and here."""
        if self.here and self.judged.timing and self.here.timing:
            return self.judged.timing.ratio, self.here.timing.ratio
        return None

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "kind": self.judged.kind,
            "params": dict(self.judged.params),
            "verdicts": [self.judged.verdict, self.here and self.here.verdict],
            "ratios": self.ratios and [ratio.model_dump() for ratio in self.ratios],
            "same_ratio": self.ratios and tied(*self.ratios),
        }


@click.command()
@click.argument("judgement", metavar="FILE_OR_URL")
@click.option(
    "--file", type=click.Path(path_type=Path), help="The file that was judged. Default: the one in submissions/."
)
@click.option("--task-dir", type=click.Path(path_type=Path), help="Folder of its task. Default: the one in tasks/.")
@click.option("--sandbox", type=click.Choice(["auto", "bubblewrap", "none"]), default="auto", help="The walls.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(judgement: str, file: Path | None, task_dir: Path | None, sandbox: str, as_json: bool) -> int:
    """Play a judgement again on its own seeds, and compare.

    Of a file, or of the address of a submission's page on a published site. Exits with 0 if all verdicts are the same,
    and with 1 if not. Ratios may differ as machines do.

    Example: pullrank verify judgement.json --file kernel.py
    """
    judged = _read(judgement)
    board = _board(judged, task_dir)
    submission = _file(judged, board.task, file)
    here = _play(judged, board, submission, sandbox)
    pairs = _pairs(judged, here)
    is_same = judged.verdict is here.verdict and all(pair.is_same for pair in pairs)
    differences = machine_differences(judged.machine, here.machine)
    if as_json:
        facts = {
            "judgement": judged.checksum,
            "same": is_same,
            "verdicts": [judged.verdict, here.verdict],
            "cases": [pair.facts for pair in pairs],
            "machine": differences,
        }
        click.echo(json.dumps(facts, indent=1))
    else:
        _show(judged, here, pairs, differences)
    return int(not is_same)


def _read(place: str) -> Judgement:
    try:
        return Judgement.from_json(fetch_judgement(place) if is_address(place) else _read_file(Path(place)))
    except (FactError, JudgementError) as error:
        raise VerifyError(f"{place}: {plain(str(error))}") from None


def _read_file(path: Path) -> bytes:
    if not path.is_file():
        raise VerifyError(f"{path}: no such file; the address of a submission's page on the site will do, too")
    return read_plain(path, MAX_BYTES)


def _board(judged: Judgement, task_dir: Path | None) -> Board:
    """The board as it was when it was judged: another edition has other cases, or another reference."""
    board = choose_board(load_task(task_dir) if task_dir else require_task(judged.task, TASKS), judged.gpu)
    if not board.task.is_refereed:
        raise VerifyError(f"{judged.task} brings its own program, which draws its seeds itself: it cannot be replayed")
    if board.edition != judged.edition:
        raise VerifyError(
            f"it was judged at edition {judged.edition[:12]} of {judged.task} / {judged.gpu}, and here is "
            f"{board.edition[:12]}: check out the commit of that day, or point --task-dir at the task as it was"
        )
    return board


def _file(judged: Judgement, task: Task, named: Path | None) -> Submission:
    """The very file that was judged, by its digest."""
    info = judged.submission
    path = named or ROOT / entry_path(task.name, info.login, task.submission_name)
    fetch = f"git fetch origin pull/{info.pull_request}/head && " if info.pull_request else ""
    where = f"{fetch}git show {info.head_sha or 'COMMIT'}:{entry_path(task.name, info.login, task.submission_name)}"
    if not named and not path.is_file():
        raise VerifyError(f"{path}: no such file; name it with --file. `{where}` prints it")
    found = read_submission(path, login=info.login)
    if found.digest != info.digest:
        raise VerifyError(f"{path} is not the file that was judged ({info.digest[:12]}). `{where}` prints that one")
    return Submission(login=info.login, source=found.source, name=task.submission_name)


def _play(judged: Judgement, board: Board, submission: Submission, sandbox: str) -> Judgement:
    from harness.judge import judge

    mode = Mode.TEST if judged.mode in (Mode.TEST, Mode.PROFILE) else Mode.BENCHMARK
    with Display(console(stderr=True), [10.0]) as display:
        display.begin(f"{judged.submission.login}'s file on {board.task.name} / {board.gpu}")
        return judge(board, submission, mode, sandbox=sandbox, replay=Replay(judged), on_progress=display.show)


def _pairs(judged: Judgement, here: Judgement) -> list[Pair]:
    """Cases by kind and place."""
    pairs = []
    for then, now in ((judged.tests, here.tests), (judged.benchmarks, here.benchmarks)):
        pairs += [Pair(judged=one, here=now[index] if index < len(now) else None) for index, one in enumerate(then)]
    return pairs


def machine_differences(then: Machine, here: Machine) -> dict[str, list[Any]]:
    """What of the machine is not the same: then, and here."""
    both = {name: [getattr(then, name, None), getattr(here, name, None)] for name in _MACHINE}
    return {name: values for name, values in both.items() if values[0] != values[1]}


def _show(judged: Judgement, here: Judgement, pairs: list[Pair], differences: dict[str, list[Any]]) -> None:
    stdout = console()
    made = table("", "Case", "Judged", "Here", "Ratio judged", "Ratio here", "")
    made.columns[0].max_width = 30
    for pair in pairs:
        verdict = verdict_text(pair.here.verdict) if pair.here else Text("not played")
        made.add_row(cell(_name(pair.judged)), verdict_text(pair.judged.verdict), verdict, *_ratios(pair))
    stdout.print(made, "")
    for name, (then, now) in differences.items():
        stdout.print(f"{name}: {plain(str(then))}; here {plain(str(now))}", style="dim", soft_wrap=True)
    if not differences:
        stdout.print("Both machines describe themselves alike.", style="dim")
    is_same = judged.verdict is here.verdict and all(pair.is_same for pair in pairs)
    end = (
        "The same verdicts, on the same inputs."
        if is_same
        else f"Not the same: {judged.verdict}, and {here.verdict} here."
    )
    stdout.print(end, style="bold green" if is_same else "bold red")
    if not is_same and here.message:
        stdout.print(plain(here.message), soft_wrap=True)


def _ratios(pair: Pair) -> tuple[str, str, str]:
    if not pair.ratios:
        return "", "", ""
    then, here = (f"{one.value:.4f} {format_error(one)}" for one in pair.ratios)
    return then, here, "the same" if tied(*pair.ratios) else f"{pair.ratios[1].value / pair.ratios[0].value - 1:+.1%}"


def _name(case: CaseResult) -> str:
    values = ", ".join(f"{name}: {value}" for name, value in case.params.items() if name != "seed")
    return f"{case.kind} {values}"
