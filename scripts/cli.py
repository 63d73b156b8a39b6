"""`pullrank`: the command line.  Each command is imported when it is called.

    main          the console script; the only place that turns an error into a message on stderr and an exit code
      └─ cli      the click group: each command's name, one-line help and module

A command parses its arguments, calls one function, prints the result and returns its exit code (None is 0).
"""

from __future__ import annotations

import codecs
import errno
import faulthandler
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn, TextIO

import click

from harness import __version__
from harness.records.errors import PullRankError, did_you_mean
from scripts.common.options import Group

INTERRUPTED = 130
CLOSED_PIPE = 141
"""What a shell reports of a program that SIGPIPE ended."""
_OBJECTS = 50_000
"""New objects between garbage collections: reading thousands of facts allocates a lot and makes hardly a cycle."""

_MACHINE_FAILURES = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO),
        *(errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM),
    )
)
"""A full disk, or too few files, processes or memory: the call is right and may succeed later."""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("demo", "Run a whole competition on this machine and show its leaderboard."),
    "doctor": ("doctor", "Show what this machine can do and how to install what is missing."),
    "gpus": ("gpus", "List the known GPUs, their peaks, and the boards that use them."),
    "init": ("init", "Create a working folder: a template, the task's files, and a page for agents."),
    "tasks": ("task", "List the tasks and the boards that have a runner."),
    "board": ("board", "Show the standings of one board."),
    "mine": ("board", "Show an author's ranks and who is ahead."),
    "history": ("board", "Show the records of one board, oldest first."),
    "compare": ("board", "Compare two authors case by case, on every board where both are ranked."),
    "test": ("judge_file", "Run a task's tests on a file and show each verdict."),
    "benchmark": ("judge_file", "Test a file, then time it alongside the task's anchor."),
    "profile": ("judge_file", "Test a file, then show where a call spends its time."),
    "rank": ("judge_file", "Judge a file as on the leaderboard: secret seeds, six pairs of runs or more."),
    "duel": ("duel", "Play two files against each other and say whether one is faster."),
    "submit": ("submit", "Open a pull request with a file and follow it until it is judged."),
    "watch": ("submit", "Follow a pull request until it is judged."),
    "verify": ("verify", "Replay a judgement's tests and benchmarks on its own seeds, and compare."),
    "task": ("task", "Show, create, check, import and archive tasks."),
    "site": ("site", "Build the leaderboard's site and serve it."),
    "dataset": ("dataset", "Write all ranked submissions, with code and times, as Parquet and JSON Lines."),
    "moderate": ("moderate", "Review, disqualify, hold and restore results, and ban authors, each with a reason."),
    "setup": ("setup", "Set up a GitHub repository for a competition, or check its settings."),
    "schema": ("schema", "Print the JSON Schema of a file format."),
}
"""Name → module in `scripts.commands` and one-line help, so that `--help` imports no command."""

HIDDEN = {"ci": "scripts.bot.ci"}
"""Name → module of the commands that only workflows call."""


class LazyGroup(Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        modules = {name: f"scripts.commands.{module}" for name, (module, _) in COMMANDS.items()} | HIDDEN
        if cmd_name not in modules:
            return None
        command: click.Command = getattr(importlib.import_module(modules[cmd_name]), cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not self.get_command(ctx, name) and (hint := did_you_mean(name, COMMANDS)):
            ctx.fail(f"No such command '{name}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, sentence) for name, (_, sentence) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="pullrank")
def cli() -> None:
    """PullRank turns a GitHub repository into a GPU-kernel competition.

    Try `pullrank demo`. To take part: `pullrank tasks`, `pullrank init TASK`, `pullrank test FILE`, and then
    `pullrank submit FILE`.

    Exit codes: 0 accepted or done, 1 judged but not accepted, or a check that failed, 2 wrong input or usage, or
    refused, 3 the judge or the network failed, 130 interrupted, 141 broken pipe.

    \b
    Shell completion, from the next terminal on:
      # ~/.bashrc
      eval "$(_PULLRANK_COMPLETE=bash_source pullrank)"
      # ~/.zshrc
      autoload -Uz compinit && compinit
      eval "$(_PULLRANK_COMPLETE=zsh_source pullrank)"
      # ~/.config/fish/config.fish
      _PULLRANK_COMPLETE=fish_source pullrank | source
    """


def run(arguments: Sequence[str] | None = None, command: click.Command = cli) -> int:
    """Run one command line, report errors on stderr, and return the exit code."""
    try:
        code = command.main(arguments, prog_name="pullrank" if command is cli else None, standalone_mode=False) or 0
        if sys.stdout:  # None if the caller closed it
            sys.stdout.flush()
        return code
    except click.UsageError as error:
        with io.StringIO() as shown:
            error.show(shown)
            return _say(shown.getvalue().rstrip("\n"), error.exit_code)
    except click.ClickException as error:
        return _report_error(error.format_message(), 2)
    except PullRankError as error:
        return _report_error(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _report_error("stopped; nothing is left running", INTERRUPTED)
    except BrokenPipeError:
        return _closed_pipe()
    except SystemExit as error:
        if error.code != 1:
            raise
        return _closed_pipe()  # for which click and rich exit with 1
    except OSError as error:
        return _report_os_error(error)
    except Exception as error:
        if os.environ.get("PULLRANK_TRACEBACK"):
            raise
        return _report_unexpected(error)


def _report_os_error(error: OSError) -> int:
    reason = str(error.strerror) if error.filename else str(error)
    if error.errno == errno.ENOSPC:
        temporary = os.environ.get("TMPDIR", "/tmp")  # noqa: S108
        reason = "the disk is full" if error.filename else f"a disk is full: the output's, or that of {temporary}"
    message = f"{error.filename}: {reason}" if error.filename else reason
    return _report_error(message, 3 if error.errno in _MACHINE_FAILURES else 2)


def _report_unexpected(error: Exception) -> int:
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] not in ("harness", "scripts"):
        return _report_import_error(error)
    kind = type(error).__name__
    return _report_error(
        f"internal error: {kind}: {error}\nPULLRANK_TRACEBACK=1 shows the traceback; please report it.", 3
    )


def _report_import_error(error: ImportError) -> int:
    if isinstance(error, ModuleNotFoundError):
        extras = "pullrank[compete] to judge, pullrank[bot] to submit, pullrank[hosted] for sites"
        return _report_error(f"{error}: install {extras}; in a clone: make setup", 2)
    return _report_error(
        f"a package cannot be loaded: {error} (is there enough memory? is the installation complete?)", 3
    )


def _closed_pipe() -> int:
    """The reader closed the pipe, as in `pullrank tasks | head -1`."""
    _discard_rest(sys.stdout)
    return CLOSED_PIPE


def _discard_rest(stream: TextIO | None) -> None:
    """Write what a stream still holds to nowhere: at exit, its flush would fail and change the exit code."""
    if stream:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _report_error(message: str, exit_code: int) -> int:
    return _say(f"pullrank: {message}", exit_code)


def _say(message: str, exit_code: int) -> int:
    """Print to stderr.  On a terminal, wrap between words, so that paths stay whole and can be copied."""
    if sys.stderr and sys.stderr.isatty():
        from scripts.common.terminal import console, wrapped

        message = wrapped(message, console(stderr=True).width)
    try:
        click.echo(message, err=True)
    except OSError:
        _discard_rest(sys.stderr)
    return exit_code


def _terminated(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise SystemExit(128 + number)


def _escape_unprintable(stream: TextIO | None) -> None:
    """Print what the encoding lacks as `\\u2026`: under LC_ALL=C, it may be ASCII."""
    if isinstance(stream, io.TextIOWrapper) and not codecs.lookup(stream.encoding).name.startswith("utf"):
        stream.reconfigure(errors="backslashreplace")


def main(arguments: Sequence[str] | None = None, command: click.Command = cli) -> NoReturn:
    """The console script.  SIGTERM and SIGHUP raise SystemExit, so that every child process ends with this one."""
    for stream in (sys.stdout, sys.stderr):
        _escape_unprintable(stream)
    if sys.stderr:
        faulthandler.enable()  # a task's compiled code runs in this process and may crash it
    gc.set_threshold(_OBJECTS)
    signal.signal(signal.SIGTERM, _terminated)
    # Windows has no SIGHUP; nohup ignores it: leave that.
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _terminated)
    try:
        os.getcwd()
    except FileNotFoundError:  # torch would end this process without a word
        sys.exit(_report_error("the current folder was deleted; change to another one", 2))
    sys.exit(run(arguments, command))


if __name__ == "__main__":
    main()
