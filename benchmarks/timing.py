"""`make bench-timing`: test on this machine the claims about times and duels.

    cost     the overhead of a timed call without the task's own code, and the data rate
    short    a file much shorter than its anchor, with the overhead of each pair of runs and with one for all pairs
    aa       duels of a kernel with itself: how often does it win?
    power    duels of a kernel that does 10 % less work with one that does not: how often does it win?
    spread   one submission, ranked repeatedly: the spread of its scores and of its raw means
    honest   the accepted examples of the shipped tasks, ranked: is one refused, and how wide are the intervals?

With `--load`, other programs keep all cores busy, and a ranking or a duel of `aa` is void, as in a competition.  So
`aa` plays the first ten void duels again without waiting for idle cores, as a board with `PULLRANK_OTHER_WORK=allow`
does, and `honest` does so for each file whose first ranking is void.  Other parts do not wait.

Everything is as in a real judging: sandbox, builds, calibration, fresh players for every run, every output checked.
Only the warm parent, which never sees a submission, is reused between duels.  The task is made for this benchmark: one
small case of about a millisecond, whose work is proportional to a number of repetitions.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from benchmarks.timing_tables import tables_of
from harness.records.errors import JudgeError
from harness.records.fields import Mode
from harness.records.stats import score
from harness.records.verdict import Verdict
from harness.referee.sampling import Windows
from harness.task.submission import Submission, read_submission
from harness.task.task import Board, load_task, load_tasks
from harness.task.task_folder import Example
from harness.task_check.judge_examples import why_not_here
from scripts import cli
from scripts.common.terminal import console, time_left
from scripts.common.text import format_us
from tests import loads

_PARTS = ("cost", "short", "aa", "power", "spread", "honest")
_TASKS = Path(__file__).parent.parent / "tasks"
_PATIENCE_S = 5.0
"""How long to wait for an idle machine before a run: the other programs do not end."""

_TASK_YML = """
title: Sines
description: Return the sine of each number.
gpus: [CPU]
tests: [{size: 100, seed: 1}]
benchmarks: [{size: 8192, seed: 1}]
case_timeout: 10
memory_gib: 2
"""
_REFERENCE = """
import torch
from harness.checker import compare

def generate_input(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))

def ref_kernel(data):
    return torch.sin(data)

def check_implementation(data, output):
    return compare(output, ref_kernel(data), rtol=1e-5, atol=1e-5)
"""
_REPEATED = """
import torch

def custom_kernel(data):
    out = torch.empty_like(data)
    for _ in range({repetitions}):
        torch.sin(data, out=out)
    return out
"""
_OTHERWISE = """
import math
import torch

def custom_kernel(data):
    out = torch.empty_like(data)
    for _ in range(60):
        torch.sub(data, math.pi / 2, out=out).cos_()
    return out
"""
"""Computes the same as the anchor in other steps, so that drift may affect the two differently."""

_WRONG = "def custom_kernel(data):\n    return data\n"

_SHORT, _LONGER = _REPEATED.format(repetitions=3), _REPEATED.format(repetitions=12)
_FULL, _TENTH_LESS = _REPEATED.format(repetitions=100), _REPEATED.format(repetitions=90)

_ITEM_BYTES = 4
_SIZES = (4 << 10, 16 << 20)
"""The input sizes of `cost`, in bytes."""
_PLAYERS, _RUNS = 10, 3
"""Fresh players for each size, and runs of each player."""


@click.command()
@click.option("--part", type=click.Choice([*_PARTS, "all"]), default="all", help="What to measure. Default: all.")
@click.option(
    "--duels", type=click.IntRange(1), default=200, show_default=True, help="Number of duels in aa and in power."
)
@click.option(
    "--again", type=click.IntRange(0), default=10, show_default=True, help="How many void duels aa plays again."
)
@click.option(
    "--judgings", type=click.IntRange(1), default=20, show_default=True, help="Number of judgings in spread and short."
)
@click.option("--files", type=click.IntRange(1), default=20, show_default=True, help="Number of files in honest.")
@click.option("--rankings", type=click.IntRange(1), default=60, show_default=True, help="Number of rankings in honest.")
@click.option("--load", type=click.Choice(sorted(loads.KINDS)), help="Measure beside such other work on all cores.")
@click.option("--over", default=3600.0, show_default=True, help="Seconds over which to distribute spread's judgings.")
@click.option("--json", "out", type=click.Path(path_type=Path), help="Write all raw numbers so far to this file.")
def main(
    part: str,
    duels: int,
    again: int,
    judgings: int,
    files: int,
    rankings: int,
    load: str | None,
    over: float,
    out: Path | None,
) -> None:
    """Test the claims about times and duels on this machine.

    Example: python -m benchmarks.timing --part aa --duels 20 --load memory --json aa.json
    """
    from harness.referee.machine import read_machine

    wanted = _PARTS if part == "all" else (part,)
    raw = Raw(out, read_machine().model_dump(mode="json"))
    with _board() as board:
        steps: dict[str, Callable[[], None]] = {
            "cost": lambda: _measure_cost(board, raw),
            "short": lambda: _time_a_short_kernel(board, raw, judgings),
            "aa": lambda: _play_duels(board, raw, "aa", (_FULL, _FULL), duels, again=again if load else None),
            "power": lambda: _play_duels(board, raw, "power", (_TENTH_LESS, _FULL), duels),
            "spread": lambda: _judge_repeatedly(board, raw, judgings, over),
            "honest": lambda: _rank_examples(raw, files, rankings),
        }
        try:
            with loads.load_of(load) if load else nullcontext():
                for name in wanted:
                    steps[name]()
        finally:
            stdout = console()
            for name, numbers in raw.parts.items():
                for made in tables_of(name, numbers):
                    stdout.print(made, "")


@dataclass
class Raw:
    """All numbers so far, by part.  If a file is given, each addition is written to it."""

    out: Path | None
    machine: dict[str, Any]
    parts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, part: str, **numbers: Any) -> None:
        self.parts.setdefault(part, []).append({"at": datetime.now(UTC).isoformat(timespec="seconds"), **numbers})
        if self.out:
            beside = self.out.with_name(f"{self.out.name}.new")
            beside.write_text(json.dumps({"machine": self.machine, **self.parts}), "utf-8")
            os.replace(beside, self.out)


@contextmanager
def _board() -> Iterator[Board]:
    files = {
        "task.yml": _TASK_YML,
        "task.py": "",
        "reference.py": _REFERENCE,
        "examples/accepted/repeated.py": _FULL,
        "examples/wrong_answer/identity.py": _WRONG,
    }
    with tempfile.TemporaryDirectory(prefix="bench-timing-") as scratch:
        for name, content in files.items():
            path = Path(scratch) / "sines" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, "utf-8")
        yield load_task(Path(scratch) / "sines").board("CPU")


def _submission(source: str, login: str) -> Submission:
    return Submission(login=login, source=source.encode())


def _say(part: str, done: int, total: int, each_s: float, note: str) -> None:
    left = time_left(each_s * (total - done)) if done < total else "done"
    click.echo(f"{part}: {done} of {total}, {note} ({left})", err=True)


# ---------------------------------------------------------------------- duels


def _play_duels(
    board: Board, raw: Raw, part: str, sources: tuple[str, str], duels: int, *, again: int | None = None
) -> None:
    """Play duels; unless `again` is None, duels that other work makes void, and the first `again` of these again."""
    from harness.judge import open_context
    from harness.rules.context import OWN_PLAYERS
    from harness.rules.duel import play_duel
    from harness.rules.examine import require_build
    from harness.rules.quiet import Quiet
    from harness.rules.runs import Runs

    challenger, champion = (_submission(source, f"side-{n}") for n, source in enumerate(sources))
    with open_context(board, Mode.RANKED, "bubblewrap") as context, _impatient():
        ours, theirs = context.entry("challenger", challenger), context.entry("champion", champion)

        def play(*, waits: bool, is_again: bool) -> str:
            """Play a duel, and return its interval, or `void`."""
            start = time.monotonic()
            context.quiet = Quiet(context.sandbox.listen, OWN_PLAYERS) if waits else None
            try:
                duel = play_duel(Runs(context), ours, theirs, champion)
            except JudgeError as error:
                if not waits:
                    raise
                raw.add(part, again=is_again, seconds=time.monotonic() - start, ratio=None, message=str(error))
                return "void"
            raw.add(
                part,
                again=is_again,
                seconds=time.monotonic() - start,
                ratio=duel.ratio.model_dump(),
                blocks_us=duel.cases[0].block_times_us,
                challenger_us=[run.samples_us for run in duel.cases[0].challenger],
                champion_us=[run.samples_us for run in duel.cases[0].champion],
            )
            return f"{duel.ratio.low:.4f} to {duel.ratio.high:.4f}"

        left = again or 0
        for done in range(1, duels + 1):
            start = time.monotonic()
            require_build(context, ours)
            require_build(context, theirs)
            said = play(waits=again is not None, is_again=False)
            if said == "void" and left:
                left -= 1
                said = f"void, beside other work {play(waits=False, is_again=True)}"
            _say(part, done, duels, time.monotonic() - start, said)


@contextmanager
def _impatient() -> Iterator[None]:
    """Do not wait long for an idle machine."""
    from harness.rules import quiet

    patience_s, quiet.PATIENCE_S = quiet.PATIENCE_S, _PATIENCE_S
    try:
        yield
    finally:
        quiet.PATIENCE_S = patience_s


# ---------------------------------------------------------------------- spread


def _judge_repeatedly(board: Board, raw: Raw, judgings: int, over_s: float) -> None:
    from harness.judge import judge

    submission = _submission(_OTHERWISE, "repeated")
    began, pause_s = time.monotonic(), over_s / max(1, judgings - 1)
    for done in range(1, judgings + 1):
        start = time.monotonic()
        judgement = judge(board, submission, Mode.RANKED)
        timing = judgement.benchmarks[0].timing if judgement.benchmarks else None
        if timing is None:
            raise JudgeError(f"spread: {judgement.verdict}: {judgement.message}")
        samples_us = [sample for run in timing.submission for sample in run.samples_us]
        seconds = time.monotonic() - start
        raw.add(
            "spread",
            seconds=seconds,
            ratio=timing.ratio.model_dump(),
            mean_us=fmean(samples_us),
            median_us=timing.submission_us,
            anchor_us=timing.anchor_us,
            overhead_us=timing.overhead_us,
            bound_us=timing.bound_us,
            steady=timing.steady,
            submission_us=[run.samples_us for run in timing.submission],
            anchors_us=[run.samples_us for run in timing.anchor],
        )
        _say(
            "spread", done, judgings, max(seconds, pause_s), f"{timing.ratio.value:.4f}, {format_us(fmean(samples_us))}"
        )
        if done < judgings:
            time.sleep(max(0.0, began + pause_s * done - time.monotonic()))


# ---------------------------------------------------------------------- honest


def _rank_examples(raw: Raw, files: int, rankings: int) -> None:
    examples = _accepted_examples(files)
    with _impatient():
        for done in range(1, rankings + 1):
            start = time.monotonic()
            board, submission, example = examples[(done - 1) % len(examples)]
            said = _rank(raw, board, submission, example, needs_quiet=True)
            if said == "void" and done <= len(examples):
                said = f"void, beside other work {_rank(raw, board, submission, example, needs_quiet=False)}"
            _say("honest", done, rankings, time.monotonic() - start, f"{example} {said}")


def _accepted_examples(count: int) -> list[tuple[Board, Submission, str]]:
    """The first accepted example of each shipped task, then each second one, and so on, with their names."""
    by_task = [
        [(board, submission, f"{board.task.name}/{example.path.name}") for example, submission in _played(board)]
        for board in (task.board("CPU") for task in load_tasks(_TASKS))
    ]
    turns = itertools.zip_longest(*by_task)
    return [one for one in itertools.chain.from_iterable(turns) if one][:count]


def _played(board: Board) -> Iterator[tuple[Example, Submission]]:
    """The accepted examples that this machine can judge on a board."""
    for example in board.task.examples:
        if example.verdict is Verdict.ACCEPTED:
            submission = read_submission(example.path, login="honest")
            if not why_not_here(submission, board):
                yield example, submission


def _rank(raw: Raw, board: Board, submission: Submission, example: str, *, needs_quiet: bool) -> str:
    """Rank a file once, and return its verdict, or `void`."""
    from harness.judge import judge
    from harness.processes.other_work import OtherWorkRule

    start, ratio = time.monotonic(), None
    rule = OtherWorkRule.REFUSE if needs_quiet else OtherWorkRule.ALLOW
    try:
        judgement = judge(board, submission, Mode.RANKED, other_work=rule)
    except JudgeError as error:
        if not needs_quiet:
            raise
        verdict, message = "void", str(error)
    else:
        verdict, message = judgement.verdict.value, judgement.message
        if ratios := [case.timing.ratio for case in judgement.benchmarks if case.timing]:
            ratio = score(ratios, board.task.ranking_by).model_dump()
    raw.add(
        "honest",
        example=example,
        needs_quiet=needs_quiet,
        verdict=verdict,
        message=message,
        ratio=ratio,
        seconds=time.monotonic() - start,
    )
    return verdict


# ---------------------------------------------------------------------- cost


def _measure_cost(board: Board, raw: Raw) -> None:
    from harness.judge import open_context
    from harness.referee.orders import Deadline
    from harness.referee.referee import Referee
    from harness.referee.sampling import SAMPLES, WARMUPS
    from harness.reference.reference import Reference
    from harness.rules.runs import Runs

    class Clocked(Reference):
        """Measures the time in the task's own functions, which is not part of the overhead."""

        seconds = 0.0

        def _call(self, function: str, *args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return super()._call(function, *args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

    calls, total = WARMUPS + SAMPLES, _PLAYERS * len(_SIZES)
    with open_context(board, Mode.RANKED, "bubblewrap") as context:
        reference = Clocked(board)
        for done, size in enumerate(_SIZES * _PLAYERS, 1):
            began, deadline = time.monotonic(), Deadline.of(600, 60)
            params = {"size": size // _ITEM_BYTES}
            with context.sandbox.start_player(Runs(context).idler) as player:
                referee = Referee(player, reference)
                referee.load(60)
                referee.call(params, context.seed(), deadline, checked=False)
                for _ in range(_RUNS):
                    seeds = [context.seed() for _ in range(calls)]
                    reference.seconds, start = 0.0, time.perf_counter()
                    windows_us = referee.calls(params, seeds, deadline, checked=False)
                    call_us = (time.perf_counter() - start - reference.seconds) / calls * 1e6
                    raw.add("cost", bytes=size, call_us=call_us, windows_us=windows_us)
            _say("cost", done, total, time.monotonic() - began, f"{size // 1024} KiB: {format_us(call_us)} a call")


# ---------------------------------------------------------------------- short


def _time_a_short_kernel(board: Board, raw: Raw, judgings: int) -> None:
    """Time pairs of runs, and subtract the overheads of the pairs, or one that was measured before them."""
    from harness.judge import open_context
    from harness.referee.sampling import early_overhead, time_case
    from harness.rules.examine import require_build
    from harness.rules.runs import Runs

    with open_context(board, Mode.RANKED, "bubblewrap") as context:
        files = {"short": _SHORT, "longer": _LONGER}
        entries = [context.entry(name, _submission(source, name)) for name, source in files.items()]
        for entry in entries:
            require_build(context, entry)
        for done in range(1, judgings + 1):
            start, case, runs = time.monotonic(), board.counting[0], Runs(context)
            phase = context.phase("a benchmark", 600)
            overhead = runs.overhead(case, phase)  # keeps the cores awake from now on
            before_us = early_overhead(runs.of(runs.idler, case, phase))
            plays = [_Recorded(runs.of(entry, case, phase)) for entry in entries]
            of_pairs = time_case(plays[0], plays[1], overhead, 0.0)
            of_all = time_case(plays[0].again(), plays[1].again(), partial(float, before_us), 0.0)
            seconds = time.monotonic() - start
            ratios = {"pairs": of_pairs.ratio.model_dump(), "all": of_all.ratio.model_dump()}
            raw.add(
                "short",
                seconds=seconds,
                ratios=ratios,
                time_us=of_pairs.submission_us,
                overhead_us=of_pairs.overhead_us,
            )
            _say("short", done, judgings, seconds, f"{of_pairs.ratio.value:.3f}, {of_all.ratio.value:.3f}")


class _Recorded:
    """Plays runs, and can return the same windows once more, without playing."""

    def __init__(self, play: Callable[[int], Windows]) -> None:
        self._play = play
        self._windows: list[Windows] = []

    def __call__(self, order: int) -> Windows:
        self._windows.append(self._play(order))
        return self._windows[-1]

    def again(self) -> Callable[[int], Windows]:
        windows = iter(self._windows)
        return lambda _: next(windows)


if __name__ == "__main__":
    cli.main(command=main)
