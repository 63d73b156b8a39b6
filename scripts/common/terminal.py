"""Terminal output of commands: results on stdout, everything else on stderr.

People get tables and progress bars; logs get plain lines.  Color and animation appear on terminals only, and no color
where NO_COLOR is set (rich does both).  Participants' text is never parsed as markup.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import sys
import textwrap
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from harness.records.progress import Progress
from harness.records.verdict import Verdict
from scripts.common.text import in_words, plain

_LOG_WIDTH = 160
"""Width in columns when writing to a file or a pipe."""

_WHOLE = re.compile(r"`[^`\n]*`")

_STYLES = {Verdict.ACCEPTED: "bold green", Verdict.JUDGING_ERROR: "bold magenta"}


def console(*, stderr: bool = False) -> Console:
    made = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not made.is_terminal:
        made.width = _LOG_WIDTH
    return made


def verdict_text(verdict: Verdict) -> Text:
    return Text(verdict, _STYLES.get(verdict, "bold red"))


def table(title: str, *columns: str, right: Collection[str] = ()) -> Table:
    """An empty table; the columns named in `right` are right-aligned."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0)
    )
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold", header_style="dim")
    return made


def cell(text: str) -> Text:
    """A table cell with untrusted text."""
    return Text(plain(text))


def case_table(title: str, lines: Iterable[tuple[Mapping[str, object], str]]) -> Table:
    """A line of text for each case, after the case's parameters without the seed."""
    made = table(title, "Case", "")
    for params, line in lines:
        made.add_row(cell(in_words(params, leave_out="seed")), line)
    return made


@contextmanager
def quoting(out: Console) -> Iterator[None]:
    """Print participants' text in this block: in a workflow, GitHub would execute lines such as `::error::…`."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        yield
        return
    token = secrets.token_hex(16)
    out.print(f"::stop-commands::{token}", soft_wrap=True)
    try:
        yield
    finally:
        out.print(f"::{token}::", soft_wrap=True)


@contextmanager
def stdout_to_stderr() -> Iterator[None]:
    """Send what a task's code prints in this process to stderr: stdout is for the command's result.

    Outside of a `Display`, which replaces `sys.stdout` as well.
    """
    if sys.stdout is None:  # the caller closed it
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        _replace_stdout()
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what the task's compiled code printed
        os.dup2(kept, 1)
        os.close(kept)


def _replace_stdout() -> None:
    if sys.stderr is not None:
        os.dup2(2, 1)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def wrapped(text: str, width: int) -> str:
    """Wrap text to lines of at most `width`; code in backticks and URLs are not broken, so that they can be copied."""
    together = _WHOLE.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = [
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) for line in together.splitlines()
    ]
    return "\n".join(lines).replace("\0", " ")


def say(sentence: str, *, stderr: bool = False, style: str = "") -> None:
    """Print one or more sentences, wrapped between words on a terminal."""
    out = console(stderr=stderr)
    out.print(wrapped(sentence, out.width) if out.is_terminal else sentence, style=style, soft_wrap=True)


def time_left(seconds: float) -> str:
    """`about 2 min 10 s left`, rounded to 5 seconds."""
    seconds = max(0, round(seconds / 5) * 5) or 5
    return f"about {seconds // 60} min {seconds % 60} s left" if seconds >= 60 else f"about {seconds} s left"


_LINE_S = 5.0
"""Where there is no terminal: the least time between two lines about one of several jobs."""


class Display:
    """The progress display: the current job, its step, and the time left once it can be estimated.

    It is redrawn only when the judge reports a step.  A background thread would take the interpreter from the referee
    in the middle of a timed window.  Without a terminal, it prints a line for each step.  If there are several jobs, it
    prints one for each, and more if a job takes long.
    """

    def __init__(self, stderr: Console, guesses_s: Sequence[float] = (1.0,)) -> None:
        """`guesses_s` has a guess for each job; only how they compare counts, since machines differ."""
        self._stderr = stderr
        self._guesses_s = guesses_s
        self._began = self._job_began = time.monotonic()
        self._job = -1
        self._name = ""
        self.step = ""
        """The step of the current job: `test 1 of 2`."""
        self._last_line = ""
        self._next_line_at = 0.0
        self._bars = Bars(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}", markup=False),
            console=stderr,
            auto_refresh=False,
            transient=True,
        )
        self._bar = self._bars.add_task("", total=None, left="")

    def begin(self, name: str) -> None:
        """Start the next job."""
        self._job += 1
        self._name = name
        self._job_began = time.monotonic()
        self._next_line_at = 0.0
        if self._stderr.is_terminal:
            self._bars.start()
        self._draw("preparing", None)

    def clear(self) -> None:
        """Remove the bars so that something can be printed; the next `begin` draws them again."""
        if self._stderr.is_terminal:
            self._bars.stop()

    def show(self, progress: Progress) -> None:
        """Pass this to `judge` as `on_progress`."""
        step = f"{progress.step} {progress.done + 1} of {progress.total}" if progress.total > 1 else progress.step
        self._draw(step, progress.seconds_left)

    def say(self, step: str) -> None:
        """Show a step of unknown duration."""
        self._draw(step, None)

    def _draw(self, step: str, job_left_s: float | None) -> None:
        self.step = step
        count = f"[{self._job + 1}/{len(self._guesses_s)}] " if len(self._guesses_s) > 1 else ""
        line = f"{count}{self._name}: {step}"
        left_s = self._left_s(job_left_s)
        left = "" if left_s is None else time_left(left_s)
        if self._stderr.is_terminal:
            self._bars.update(self._bar, description=line, left=left)
            if left_s is not None:
                spent_s = time.monotonic() - self._began
                self._bars.update(self._bar, completed=spent_s, total=spent_s + left_s)
            self._bars.refresh()
        elif line != self._last_line and time.monotonic() >= self._next_line_at:
            self._stderr.print(f"{line} ({left})" if left else line, soft_wrap=True)
            self._last_line = line
            self._next_line_at = time.monotonic() + (_LINE_S if len(self._guesses_s) > 1 else 0)

    def _left_s(self, job_left_s: float | None) -> float | None:
        """Time left: the judge's estimate for this job, and the guesses for other jobs at the pace of finished ones.

        None if it cannot be estimated: no job is finished, or this one takes longer than guessed.
        """
        done_s, later_s = sum(self._guesses_s[: self._job]), sum(self._guesses_s[self._job + 1 :])
        if not done_s:
            return None if later_s else job_left_s
        pace = (self._job_began - self._began) / done_s
        if job_left_s is None:
            job_left_s = self._guesses_s[self._job] * pace - (time.monotonic() - self._job_began)
        return job_left_s + pace * later_s if job_left_s > 0 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
