"""What several commands share: their group, and options."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)

as_json_too = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
in_repository = click.option(
    "--repo", metavar="OWNER/NAME", help="The repository. Default: the one that this clone or installation came from."
)
of_maintainers = click.option(
    "--repo", metavar="OWNER/NAME", help="The repository. Default: the one that this clone came from."
)


def was_given(name: str) -> bool:
    """Whether the command line names this parameter of the running command."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def given_again(*names: str) -> list[str]:
    """The named options that the user gave on the command line, as words for a suggested next call."""
    context = click.get_current_context()
    words: list[str] = []
    for option in context.command.params:
        if option.name in names and was_given(option.name):
            value = context.params[option.name]
            words += [option.opts[0]] if value is True else [option.opts[0], str(value)]
    return words


in_sandbox = click.option(
    "--sandbox",
    type=click.Choice(["auto", "bubblewrap", "none"]),
    default="auto",
    help="The sandbox. `none` is for your own code only: no competition ranks it.",
)


class Group(click.Group):
    """A group whose commands refuse an option that is given twice; click would silently use the last one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command and not ctx.resilient_parsing:
            own = command.context_class(command, parent=ctx, info_name=name)
            _, _, given = command.make_parser(own).parse_args(list(rest))
            for option in given:
                if isinstance(option, click.Option) and not option.multiple and given.count(option) > 1:
                    own.fail(f"Option {option.get_error_hint(own)} is given more than once. Give it once.")
        return name, command, rest


def options(*those: Callable[[Any], Any]) -> Callable[[Decorated], Decorated]:
    """A decorator that applies decorators, the first on top."""
    return lambda command: reduce(lambda made, option: option(made), reversed(those), command)
