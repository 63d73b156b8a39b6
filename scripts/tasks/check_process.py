"""Check tasks in another process, because their code runs in it and may end it, or never end.

    check_tasks     starts the process, shows its steps, and collects a report for each board.  If the process ends too
                    early or takes too long, that is a fault of the board it was at, and another process goes on
    serve           is that process.  It waits until each step is shown, so that this takes no time from a judging

The process ends with the one that started it, and then all that it has started ends, too.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import faulthandler
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.records.errors import TaskError
from harness.records.progress import Progress
from harness.records.verdict import Verdict
from harness.task.faults import display
from harness.task.task import Board, Task
from scripts.common.terminal import Display, console
from scripts.competition.repository import choose_board
from scripts.tasks.check_board import Remark, Report, check_board

STEP_MINUTES = 10.0
"""How long one step may take, such as a test of the reference, or a benchmark of an example."""

_PROBES_S = 2.0
_GUESSES_S = {Verdict.ACCEPTED: 9.0, Verdict.TIME_LIMIT_EXCEEDED: 8.0}
_END_S = 10.0
"""How long the process may take to end its sandbox."""
_OOM_SCORE = "500"
"""Without memory, the kernel kills a player first, which has 1000, and then this process."""
_PR_SET_PDEATHSIG = 1
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; from scripts.tasks.check_process import serve; serve(int(sys.argv[1]))"
)


def check_tasks(tasks: Sequence[Task], gpu: str | None, sandbox: str, step_minutes: float = STEP_MINUTES) -> Report:
    """Check tasks in turn.  An error in one example becomes its outcome; the others are judged all the same.

    A task without a board of this GPU is a fault.

    Raises:
        JudgeError: there is no sandbox.
    """
    from harness.sandbox.works_here import choose_kind

    choose_kind(sandbox)  # Report a missing sandbox once, not for every example.
    report, left = Report(), []
    for task in tasks:
        try:
            left.append(choose_board(task, gpu))
        except TaskError as error:
            report.remarks.append(
                Remark(task=task.name, where="gpus", message=str(error), is_fault=True, is_fatal=True)
            )
    guesses_s = [
        guess
        for board in left
        for guess in (_PROBES_S, *(_GUESSES_S.get(example.verdict, 3.0) for example in board.task.examples))
    ]
    with Display(console(stderr=True), guesses_s) as shown:
        while left:
            with _CheckProcess(left, sandbox, shown) as process:
                for checked in process.reports(60 * step_minutes):
                    report.add(checked)
            left = process.left[1:]
            report.remarks += process.failure()
    return report


class _CheckProcess:
    """A process that checks boards, and why it has ended."""

    def __init__(self, boards: Sequence[Board], sandbox: str, shown: Display) -> None:
        self.left = list(boards)
        """The boards that are not checked yet."""
        self._sandbox = sandbox
        self._shown = shown
        self._part = ""
        self._too_long = ""
        self._stack = ""

    def __enter__(self) -> Self:
        self._pipe, theirs = Pipe()
        self._dump = tempfile.TemporaryFile()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-u", "-c", _PROGRAM, str(self._dump.fileno()), *sys.path],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[self._dump.fileno()],
                start_new_session=True,  # Ctrl-C interrupts this process alone, which ends the other
            )
        assert self._process.stdout
        self._output = self._process.stdout
        self._printed = self._output.fileno()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._ended = os.pidfd_open(self._process.pid)
        return self

    def reports(self, patience_s: float) -> Iterator[Report]:
        """The report of each board, until the process ends, or a step takes longer than `patience_s`."""
        self._send((self.left, self._sandbox))
        listened: list[Connection | int] = [self._pipe, self._printed, self._ended]
        give_up = time.monotonic() + patience_s
        while (left_s := give_up - time.monotonic()) > 0 and (ready := wait(listened, left_s)):
            if self._printed in ready and not self._pass_on():
                listened.remove(self._printed)
            if self._pipe in ready:
                try:
                    what, detail = self._pipe.recv()
                except (EOFError, ConnectionError):
                    return
                if what == "checked":
                    del self.left[0]
                    yield detail
                else:
                    self._show(what, detail)
                self._send(None)
                give_up = time.monotonic() + patience_s
            elif self._ended in ready:
                return
        self._too_long = f"takes longer than {patience_s / 60:g} min; --minutes allows more"
        os.kill(self._process.pid, signal.SIGUSR1)

    def _send(self, message: object) -> None:
        with contextlib.suppress(ConnectionError):  # the process has ended, as the next read shows
            self._pipe.send(message)

    def _show(self, what: str, detail: Any) -> None:
        match what:
            case "failed":
                raise detail
            case "begin":
                self._part = detail
                self._shown.begin(f"{self.left[0].task.name}: {detail}")
            case _:
                getattr(self._shown, what)(detail)

    def _pass_on(self) -> bool:
        """Write to stderr what the task's code printed, above the progress; False at its end."""
        printed = os.read(self._printed, 1 << 16)
        if sys.stderr:
            sys.stderr.write(self._decode(printed))
        return bool(printed)

    def failure(self) -> Iterator[Remark]:
        """Why the process has not finished its first board, if any is left."""
        for board in self.left[:1]:
            message = f"{self._place(board.task)}: {self._too_long or _reason(self._process.returncode)}"
            where = ", ".join(filter(None, (self._part, self._shown.step)))
            yield Remark(task=board.task.name, where=where, message=message, is_fault=True, is_fatal=True)

    def _place(self, task: Task) -> str:
        """The innermost line of the task's code at a crash or after too long; else its reference."""
        name = "reference.py" if task.reference else "task.yml"
        folder = str(task.folder).encode("ascii", "backslashreplace").decode()  # as faulthandler writes it
        found = re.search(rf'File "{re.escape(folder)}/([^"]+)", line (\d+)', self._stack)
        place = f"{found[1]}:{found[2]}" if found else name
        return f"{task.shown or display(task.folder)}/{place}"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pid = self._process.pid
        if kind or self._too_long:
            os.kill(pid, signal.SIGTERM)
        wait([self._ended], _END_S)
        os.killpg(pid, signal.SIGKILL)  # before it is reaped, so its id is still its own
        self._process.wait()
        while wait([self._printed], 0) and self._pass_on():
            pass
        with self._dump, self._output, self._pipe:
            self._dump.seek(0)
            self._stack = self._dump.read().decode("utf-8", "replace")
        os.close(self._ended)


def _reason(code: int) -> str:
    if code == -signal.SIGKILL:
        return "the process was killed; was there too little memory?"
    if code < 0:
        return f"the process crashed: {signal.strsignal(-code)}"
    return f"the task's code ended the process with exit code {code}, as os._exit does"


class _Parent:
    """The process that shows the steps, from the view of the other."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._pid = os.getpid()

    def tell(self, what: str, detail: object) -> None:
        """Send a message and wait until it is handled."""
        if os.getpid() != self._pid:
            os._exit(1)  # the task's code has forked this process: messages of two would be mixed
        self._pipe.send((what, detail))
        self._pipe.recv()

    def begin(self, name: str) -> None:
        self.tell("begin", name)

    def say(self, step: str) -> None:
        self.tell("say", step)

    def show(self, progress: Progress) -> None:
        self.tell("show", progress)


def serve(stack: int) -> None:
    """Check the boards that the parent sends through stdin.

    Args:
        stack: the descriptor of a file for Python's stack, at a crash or on SIGUSR1.
    """
    from harness.shared_sandbox import share_sandbox

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    with contextlib.suppress(PermissionError):  # it is higher already, as in some containers, and may only rise
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    os.set_inheritable(stack, False)
    faulthandler.enable(stack, all_threads=False)
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    with Connection(os.dup(0)) as pipe, open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
        parent = _Parent(pipe)
        try:
            boards, sandbox = pipe.recv()
            with share_sandbox():
                for board in boards:
                    parent.tell("checked", check_board(board, sandbox, parent))
        except Exception as error:
            error.add_note(traceback.format_exc())
            parent.tell("failed", error)
