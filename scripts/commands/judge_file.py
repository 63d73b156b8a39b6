"""`pullrank test / benchmark / profile / rank FILE`: judge a file on this machine as for a board.

file ─► which task?   --task-dir; else --task, its directive and its folder, which must agree
     ─► which board?  --gpu, else its directive, else CPU, else the task's first
     ─► harness.judge.judge ─► Judgement ─► a table, or JSON
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from harness.records.counters import MAX_LAUNCHES, MAX_REGEX, MAX_SKIP, LaunchFilter, find_regex_fault
from harness.records.errors import JudgeError, NoGpuError, NoLinuxError, SubmissionError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.system import require_linux
from harness.records.verdict import Verdict
from harness.task.submission import Submission, read_directives, read_submission, task_of
from harness.task.task import Board, Case, Task, load_task
from scripts.boards.judgement_tables import show
from scripts.common.options import PATH, given_again, in_sandbox, options
from scripts.common.terminal import Display, console, say, stdout_to_stderr
from scripts.competition.boards import find_settings
from scripts.competition.completion import gpu_names, task_names
from scripts.competition.repository import TASK_COPY, choose_board, is_of_competition, require_task
from scripts.competition.settings import SettingsError
from scripts.standings.profiles import to_csv
from scripts.standings.roofline import Roofline

_BENCHMARK_NEXT = {Mode.TEST: "", Mode.PROFILE: ", once you have changed it"}
"""The modes after which `pullrank benchmark` is the next step, and the words added to that suggestion."""

placed = options(
    click.option("--task", shell_complete=task_names, help="Task name. Default: from the file's directive or folder."),
    click.option("--task-dir", type=PATH, help="Task folder, anywhere."),
    click.option(
        "--gpu",
        shell_complete=gpu_names,
        help="The task's board. Default: the first in the file's directive, else CPU, else the task's first.",
    ),
    in_sandbox,
)
"""The options that choose the board and the sandbox."""

_judging = options(
    click.argument("file", type=PATH),
    placed,
    click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON, with throughput."),
    click.option("--out", type=PATH, help="Write the judgement to this file; `pullrank verify` reads it."),
)


def _require_regex(context: click.Context, option: click.Parameter, text: str | None) -> str | None:  # noqa: ARG001
    """Check a regular expression as far as Python knows ncu's."""
    if text is None:
        return None
    if not text.isprintable() or not 0 < len(text) <= MAX_REGEX:
        raise click.BadParameter(f"use 1 to {MAX_REGEX} printable characters")
    if fault := find_regex_fault(text):
        raise click.BadParameter(f"not a regular expression: {fault}")
    return text


@click.command()
@_judging
def test(**options: Any) -> int:
    """Run a task's tests on a file and show each verdict.

    Example: pullrank test submissions/vectoradd/ada/submission.py
    """
    return judge_file(Mode.TEST, **options)


@click.command()
@_judging
def benchmark(**options: Any) -> int:
    """Test a file, then time it alongside the task's anchor.

    Example: pullrank benchmark kernel.py --task vectoradd --gpu CPU
    """
    return judge_file(Mode.BENCHMARK, **options)


@click.command()
@_judging
@click.option("--reports", type=PATH, help="Folder for the full reports of ncu or rocprofv3.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the operations and kernels as CSV.")
@click.option(
    "--case", "case_number", type=click.IntRange(1), help="Profile only this benchmark: 1 is the task's first."
)
@click.option("--kernel", callback=_require_regex, help="ncu: profile only kernels whose name matches this regex.")
@click.option("--launch-skip", type=click.IntRange(0, MAX_SKIP), help="ncu: skip the first launches that match.")
@click.option(
    "--launch-count",
    type=click.IntRange(1, MAX_LAUNCHES),
    help=f"ncu: profile this many launches. Default: {MAX_LAUNCHES}.",
)
def profile(kernel: str | None, launch_skip: int | None, launch_count: int | None, **options: Any) -> int:
    """Test a file, then show where a call spends its time.

    Example: pullrank profile kernel.py --task softmax --case 2
    """
    given = {"kernel": kernel, "skip": launch_skip, "count": launch_count}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return judge_file(Mode.PROFILE, launches=LaunchFilter(**chosen) if chosen else None, **options)


@click.command()
@_judging
def rank(**options: Any) -> int:
    """Judge a file as on the leaderboard: secret seeds, six pairs of runs or more.

    Example: pullrank rank kernel.py --task vectoradd --json --out judgement.json
    """
    return judge_file(Mode.RANKED, **options)


def judge_file(
    mode: Mode,
    *,
    file: Path,
    task: str | None,
    task_dir: Path | None,
    gpu: str | None,
    sandbox: str,
    as_json: bool,
    out: Path | None,
    reports: Path | None = None,
    case_number: int | None = None,
    launches: LaunchFilter | None = None,
    as_csv: bool = False,
) -> int:
    """Judge one file, print the result, and return the command's exit code."""
    if as_csv and as_json:
        raise SubmissionError("--csv and --json: use one of them")
    submission = read_submission(file)
    board = choose_board(find_task(file, submission, task, task_dir), gpu, requested_gpus(submission))
    profiled = _find_case(board, case_number) if case_number else ()
    if launches and board.gpu == "CPU":
        raise SubmissionError(
            "--kernel, --launch-skip and --launch-count choose launches on a GPU, and this is judged on CPU: "
            "leave them out, or name a GPU's board with --gpu"
        )
    _require_writable(out, reports)
    with suggesting_other_machines(board):
        judgement = judge_here(
            board,
            submission,
            mode,
            name=file.name,
            sandbox=sandbox,
            reports=reports,
            profiled=profiled,
            launches=launches,
        )
    roofline = roofline_here(board, judgement)
    failure = _write(judgement, out) if out else ""
    if as_json:
        click.echo(_to_json(judgement, roofline), nl=False)
    elif as_csv:
        click.echo(to_csv(judgement), nl=False)
        if judgement.verdict is not Verdict.ACCEPTED:
            show(judgement, console(stderr=True), roofline)
    else:
        show(judgement, console(), roofline)
        again = given_again("task", "task_dir", "gpu", "sandbox")
        here = f"`{shlex.join(['pullrank', 'benchmark', str(file), *again])}`{_BENCHMARK_NEXT.get(mode)}"
        then = here if mode in _BENCHMARK_NEXT else _how_to_submit(mode, file, submission, board.task)
        if judgement.verdict is Verdict.ACCEPTED and then:
            say(f"Next: {then}", style="dim")
    if failure:
        raise JudgeError(failure)
    return exit_code_of(judgement.verdict)


def _require_writable(out: Path | None, reports: Path | None) -> None:
    """Check the places of the results before judging: finding out afterwards costs minutes."""
    if out:
        if not out.parent.is_dir():
            raise SubmissionError(f"--out {out}: there is no folder {out.parent}")
        if out.is_dir() or not os.access(out if out.exists() else out.parent, os.W_OK):
            raise SubmissionError(f"--out {out}: cannot be written")
    if reports:
        try:
            reports.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SubmissionError(f"--reports {reports}: cannot create the folder: {error.strerror}") from None


def _write(judgement: Judgement, out: Path) -> str:
    """Write the judgement, or return why not: the caller still prints it first, so that it is not lost."""
    is_new = not out.exists()
    try:
        out.write_text(judgement.to_json(), "utf-8")
    except OSError as error:
        if is_new:  # it is incomplete
            with contextlib.suppress(OSError):
                out.unlink()
        return f"--out {out}: {error.strerror}"
    return ""


def roofline_here(board: Board, judgement: Judgement) -> Roofline:
    """The board's roofline, without the GPU's peaks if this machine has another device."""
    try:
        settings = find_settings(board.task.folder.parent)
    except SettingsError:
        settings = None
    gpu = settings.gpus.get(board.gpu) if settings else None
    is_other = gpu and gpu.device and not judgement.machine.is_a(gpu.device)
    return Roofline(work=board.task.work, gpu=None if is_other else gpu)


def _to_json(judgement: Judgement, roofline: Roofline) -> str:
    """The judgement as JSON, with the throughput of each case for which it is known."""
    made = json.loads(judgement.to_json())
    for case, facts in zip(judgement.cases, made["cases"], strict=True):
        if throughput := roofline.of(case):
            facts["throughput"] = throughput.model_dump()
    return json.dumps(made, indent=1) + "\n"


def _how_to_submit(mode: Mode, file: Path, submission: Submission, task: Task) -> str:
    """How to submit the file; empty if the task is not one of the competition's."""
    if not is_of_competition(task):
        return ""
    named = [] if task_of(file, submission) else ["--task", task.name]
    command = ["pullrank", "submit", str(file), *named]
    if mode is Mode.RANKED:
        return f"`{shlex.join(command)}`"
    return f"`{shlex.join([*command, '--draft'])}`, to run it on the competition's own machines"


def _find_case(board: Board, number: int) -> tuple[Case, ...]:
    """A board's benchmark by its number, from 1.  Raises SubmissionError: there is none."""
    if not (found := board.benchmarks_to_profile(number)):
        count = len(board.benchmarks)
        raise SubmissionError(
            f"--case {number}: {board.task.name} has {count} benchmarks on {board.gpu}; name 1 to {count}"
        )
    return found


def judge_here(
    board: Board,
    submission: Submission,
    mode: Mode,
    *,
    name: str,
    sandbox: str,
    reports: Path | None = None,
    profiled: Sequence[Case] = (),
    launches: LaunchFilter | None = None,
) -> Judgement:
    """Judge on this machine, with progress on stderr."""
    require_linux()
    from harness.judge import judge, require_launch_choice

    if launches:
        require_launch_choice(board)
    with stdout_to_stderr(), Display(console(stderr=True)) as display:
        display.begin(f"{name} on {board.task.name} / {board.gpu}")
        return judge(
            board,
            submission,
            mode,
            sandbox=sandbox,
            on_progress=display.show,
            reports=reports,
            profiled=profiled,
            launches=launches,
        )


@contextmanager
def suggesting_other_machines(board: Board) -> Iterator[None]:
    """Say what to do if this machine has no GPU, or no Linux: the same call would fail again."""
    try:
        yield
    except (NoGpuError, NoLinuxError) as error:
        may_be_cpu = isinstance(error, NoGpuError) and "CPU" in board.task.gpus
        here = " To judge it here, add `--gpu CPU`." if may_be_cpu else ""
        there = f" `pullrank submit FILE --draft` runs it on a machine for {board.gpu}."
        raise SubmissionError(f"{error}.{here}{there if is_of_competition(board.task) else ''}") from None


def requested_gpus(submission: Submission) -> tuple[str, ...]:
    """The boards that a file asks for.  A file with unreadable directives is judged as well; its verdict says why."""
    return () if submission.find_fault(needs_kernel=False) else read_directives(submission.text).gpus


def find_task(file: Path, submission: Submission, name: str | None, task_dir: Path | None) -> Task:
    """The task that a file is for.  --task-dir decides alone; otherwise all sources that name a task must agree."""
    if found := find_named_task(file, submission, name, task_dir):
        return found
    raise unknown_task(file, submission)


def unknown_task(file: Path, submission: Submission) -> SubmissionError:
    """Why a file names no task: its text may be unreadable."""
    if fault := submission.find_fault(needs_kernel=False):
        return SubmissionError(f"{file}: no task given, and its directives cannot be read: {fault}")
    return SubmissionError(
        f"{file}: no task given. Use --task NAME, or make this the file's first line: #!POPCORN leaderboard NAME"
    )


def find_named_task(file: Path, submission: Submission, name: str | None, task_dir: Path | None) -> Task | None:
    """Like `find_task`; None if nothing names a task."""
    if task_dir and name:
        raise SubmissionError(f"--task {name} and --task-dir {task_dir}: use one of them")
    if task_dir:
        return load_task(task_dir)
    own = task_of(file, submission)
    if name and own and own != name:
        raise SubmissionError(f"{file} is for '{own}' by its folder or directive, but --task says '{name}'")
    wanted = name or own
    around = next((folder for folder in file.resolve().parents if (folder / "task.yml").is_file()), None)
    if around and around.name == TASK_COPY and wanted:  # as `pullrank init` lays it out
        return require_task(wanted)
    if around and wanted and wanted != around.name:
        who = "--task" if name else "its directive"
        raise SubmissionError(f"{file} is in the folder of the task '{around.name}', but {who} says '{wanted}'")
    if around:
        return load_task(around)
    return require_task(wanted) if wanted else None


def exit_code_of(verdict: Verdict) -> int:
    return {Verdict.ACCEPTED: 0, Verdict.JUDGING_ERROR: 3}.get(verdict, 1)
