"""`pullrank verify`: find the file, task and judgement for a replay, or say what is missing."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import click
from rich.text import Text

from harness.records.errors import NoGpuError, PullRankError
from harness.records.fields import Mode
from harness.records.judgement import MAX_BYTES, Judgement, JudgementError
from harness.records.replay import Replay
from harness.records.stats import tied
from harness.records.system import require_linux
from harness.task.submission import Submission, read_submission
from harness.task.task import Board, Task, load_task
from scripts.boards.web import fetch_judgement, is_address
from scripts.bot.admission.path_rule import entry_path
from scripts.common.options import PATH, as_json_too, in_sandbox
from scripts.common.terminal import Display, cell, console, quoting, say, stdout_to_stderr, table, verdict_text
from scripts.common.text import format_error, in_words, plain
from scripts.competition.merged import MergedFiles
from scripts.competition.repository import ROOT, TASKS, choose_board, require_task
from scripts.ledger.facts import FactError, read_plain
from scripts.verify.compare import Comparison, Pair


class VerifyError(PullRankError):
    """The judgement cannot be replayed here; the message says what is missing."""


@click.command()
@click.argument("judgement", metavar="FILE_OR_URL")
@click.option(
    "--file",
    type=PATH,
    help="The judged file. Default: the one in submissions/ or in its git history.",
)
@click.option("--task-dir", type=PATH, help="Task folder, anywhere. Default: the one in tasks/.")
@in_sandbox
@as_json_too
def verify(judgement: str, file: Path | None, task_dir: Path | None, sandbox: str, as_json: bool) -> int:
    """Replay a judgement's tests and benchmarks on its own seeds, and compare.

    FILE_OR_URL is a judgement's JSON file or the address of a submission's page on a published site. Exits with 0 if
    all verdicts are the same on the same inputs, 1 if not, and 3 if judging failed here. Outputs may differ within the
    task's tolerance, and ratios differ between machines.

    Example: pullrank verify judgement.json --file kernel.py
    """
    require_linux()
    judged = _read(judgement)
    board = _board(judged, task_dir)
    submission = _file(judged, board.task, file)
    found = Comparison(judged, _play(judged, board, submission, sandbox))
    if as_json:
        click.echo(json.dumps(found.facts, indent=1))
    else:
        _show(found)
    return found.exit_code


def _read(place: str) -> Judgement:
    try:
        return Judgement.from_json(fetch_judgement(place) if is_address(place) else _read_file(Path(place)))
    except (FactError, JudgementError) as error:
        raise VerifyError(f"{place}: {plain(str(error))}") from None


def _read_file(path: Path) -> bytes:
    if not path.is_file():
        raise VerifyError(f"{path}: no such file; give a judgement's file or the address of a submission's page")
    return _without_throughput(read_plain(path, MAX_BYTES))


def _without_throughput(text: bytes) -> bytes:
    """The judgement in what `pullrank rank --json` prints; any other text as it is."""
    with contextlib.suppress(ValueError, RecursionError, KeyError, TypeError, AttributeError):
        made = json.loads(text)
        for case in made["cases"]:
            case.pop("throughput", None)
        return json.dumps(made).encode()
    return text


def _board(judged: Judgement, task_dir: Path | None) -> Board:
    """The board at the judgement's edition: another edition has other cases or another reference."""
    board = choose_board(load_task(task_dir) if task_dir else require_task(judged.task, TASKS), judged.gpu)
    if not board.task.is_refereed:
        raise VerifyError(f"{judged.task} has its own program, which draws its own seeds: it cannot be replayed")
    if replace(board, method=judged.harness.method).edition == judged.edition != board.edition:
        raise VerifyError(
            f"its times were taken with timing method {judged.harness.method}, but this PullRank has method "
            f"{board.method}: check out the commit of that day, or install it"
        )
    if board.edition != judged.edition:
        raise VerifyError(
            f"it was judged at edition {judged.edition[:12]} of {judged.task} / {judged.gpu}, but here is edition "
            f"{board.edition[:12]}: check out the commit of that day, or use --task-dir with the old task"
        )
    return board


def _file(judged: Judgement, task: Task, named: Path | None) -> Submission:
    """The judged file, identified by its digest."""
    info = judged.submission
    name = task.name_of(info.digest)
    merged = None if named else MergedFiles(ROOT).find(task.name, info.login, info.digest)
    if merged is not None:
        return Submission(login=info.login, source=merged, name=name)
    path = named or ROOT / entry_path(task.name, info.login, name)
    fetch = f"git fetch origin pull/{info.pull_request}/head && " if info.pull_request else ""
    where = f"{fetch}git show {info.head_sha or 'COMMIT'}:{entry_path(task.name, info.login, name)}"
    if not named and not path.is_file():
        raise VerifyError(f"{path}: no such file; name it with --file. `{where}` prints it")
    found = read_submission(path, login=info.login)
    if found.digest != info.digest:
        raise VerifyError(f"{path} is not the judged file ({info.digest[:12]}). `{where}` prints that one")
    return Submission(login=info.login, source=found.source, name=name)


def _play(judged: Judgement, board: Board, submission: Submission, sandbox: str) -> Judgement:
    from harness.judge import judge

    mode = Mode.TEST if judged.mode in (Mode.TEST, Mode.PROFILE) else Mode.BENCHMARK
    with stdout_to_stderr(), Display(console(stderr=True)) as display:
        display.begin(f"{judged.submission.login}'s file on {board.task.name} / {board.gpu}")
        try:
            return judge(board, submission, mode, sandbox=sandbox, replay=Replay(judged), on_progress=display.show)
        except NoGpuError as error:  # the same call would fail again
            raise VerifyError(f"{error}; replay it on a machine for {board.gpu}") from None


def _show(found: Comparison) -> None:
    stdout = console()
    made = table("", "Case", "Verdict", "Output", "Ratio judged", "Ratio here", "")
    made.columns[0].max_width = 22
    for pair in found.pairs:
        name = f"{pair.judged.kind} {in_words(pair.judged.params, leave_out='seed')}"
        made.add_row(cell(name), _verdict(pair), pair.outputs or "", *_ratios(pair))
    with quoting(stdout):
        stdout.print(made, "")
        for name, (then, now) in found.machines.items():
            say(f"{name}: {plain(str(then))}; here {plain(str(now))}", style="dim")
        if not found.machines:
            say("Both machines have the same description.", style="dim")
        say(plain(found.sentence), style="bold green" if found.is_same else "bold red")
        if not found.is_same and found.here.message:
            say(plain(found.here.message))


def _verdict(pair: Pair) -> Text:
    """`AC`, or `WA, here AC`."""
    judged, here = pair.judged.verdict, pair.here and pair.here.verdict
    if judged is here:
        return verdict_text(judged)
    return Text.assemble(verdict_text(judged), ", here ", verdict_text(here) if here else "not played")


def _ratios(pair: Pair) -> tuple[str, str, str]:
    if not pair.ratios:
        return "", "", ""
    then, here = (f"{one.value:.3f} {format_error(one)}" for one in pair.ratios)
    return then, here, "the same" if tied(*pair.ratios) else f"{pair.ratios[1].value / pair.ratios[0].value - 1:+.1%}"
