"""`pullrank`: every command that a person types, by name; each is loaded when it is called.

    main          what the shell starts: errors become one line on stderr and an exit code, here and nowhere else
      └─ cli      the click group: names, one sentence each, and where the command's code is

A command's function parses, calls one function of ours, prints, and returns its exit code (None is 0).
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import NoReturn

import click

from harness import __version__
from harness.records.errors import PullRankError, did_you_mean

INTERRUPTED = 130
_OBJECTS = 50_000
"""So many new ones before Python looks for cycles: reading thousands of facts makes many, and hardly a cycle."""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "demo": ("demo", "Run a whole competition on this machine and show its leaderboard."),
    "doctor": ("doctor", "Say what this machine can do, and how to get what is missing."),
    "gpus": ("gpus", "List the GPUs whose peaks are known, and which boards have them."),
    "init": ("init", "Make a folder to work in: a template, the task's files for reading, a page for agents."),
    "tasks": ("task", "List the tasks, and their boards that a machine judges."),
    "board": ("board", "Show the standings of one board."),
    "mine": ("board", "Show where somebody stands, and what is ahead of them."),
    "history": ("board", "Show the records of one board, oldest first."),
    "compare": ("board", "Compare two authors, case by case, on the boards on which both stand."),
    "test": ("judge_file", "Judge a file on all tests of a task, each with its verdict."),
    "benchmark": ("judge_file", "Judge a file on the tests, then time it beside the task's anchor."),
    "profile": ("judge_file", "Judge a file on the tests, then say where the time of a call goes."),
    "rank": ("judge_file", "Judge a file as the judge ranks: on secret seeds, until the times are steady."),
    "duel": ("duel", "Play two files against each other, and say whether one of them is faster."),
    "submit": ("submit", "Hand a file in as a pull request, and follow it until it is judged."),
    "watch": (
        "submit",
        "Follow a pull request until it is judged: your newest, an open one first, or the one of a number.",
    ),
    "verify": ("verify", "Play a judgement again on its own seeds, and compare."),
    "task": ("task", "Look at a task, start from its template, check it, make one."),
    "site": ("site", "Build the leaderboard's site, and look at it."),
    "moderate": ("moderate", "Take results off the board or put them back, ban authors, each with a reason."),
    "setup": ("setup", "Set up a repository on GitHub for a competition, or check that it is."),
    "schema": ("schema", "Print the JSON Schema of a file format."),
}
"""Name → its module in `scripts.commands`, and its help: `--help` must not have to load them all."""

HIDDEN = {"ci": "scripts.bot.ci"}
"""Name → module of what workflows call, and people don't."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

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

    Try `pullrank demo`; then `pullrank tasks`, `pullrank init TASK`, `pullrank test FILE`, and `pullrank submit FILE`
    to be ranked.

    Exit codes: 0 accepted or done, 1 judged and not accepted, 2 the input or the call is wrong, or it was refused,
    3 judging error, 130 stopped.

    \b
    Tab completes, from the next terminal on:
      # ~/.bashrc
      eval "$(_PULLRANK_COMPLETE=bash_source pullrank)"
      # ~/.zshrc
      autoload -Uz compinit && compinit
      eval "$(_PULLRANK_COMPLETE=zsh_source pullrank)"
      # ~/.config/fish/config.fish
      _PULLRANK_COMPLETE=fish_source pullrank | source
    """


def run(arguments: Sequence[str] | None = None, command: click.Command = cli) -> int:
    """Run one command line and return its exit code; whatever went wrong has been said on stderr."""
    try:
        return command.main(arguments, prog_name="pullrank", standalone_mode=False) or 0
    except click.UsageError as error:
        with io.StringIO() as shown:
            error.show(shown)
            return _say(shown.getvalue().rstrip("\n"), error.exit_code)
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except PullRankError as error:
        return _complain(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _complain("stopped; nothing is left running.", INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has gone, as in `pullrank tasks | head -1`: not even an exit flush may complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
    except Exception as error:
        if os.environ.get("PULLRANK_TRACEBACK"):
            raise
        kind = type(error).__name__
        return _complain(f"a fault of ours: {kind}: {error}\nPULLRANK_TRACEBACK=1 shows where; please report it.", 3)


def _complain(message: str, exit_code: int) -> int:
    return _say(f"pullrank: {message}", exit_code)


def _say(message: str, exit_code: int) -> int:
    """On a terminal between words, so that a path is not broken and can be copied."""
    if sys.stderr.isatty():
        from scripts.common.terminal import console, wrapped

        message = wrapped(message, console(stderr=True).width)
    click.echo(message, err=True)
    return exit_code


def _terminated(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise SystemExit(128 + number)


def main(arguments: Sequence[str] | None = None, command: click.Command = cli) -> NoReturn:
    """The console script.  Being told to end is an exception, too, so that all we started ends with us."""
    gc.set_threshold(_OBJECTS)
    signal.signal(signal.SIGTERM, _terminated)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # under nohup it is ignored, and stays so
        signal.signal(signal.SIGHUP, _terminated)
    sys.exit(run(arguments, command))


if __name__ == "__main__":
    main()
