"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)

as_json_too = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
in_repository = click.option(
    "--repo", metavar="OWNER/NAME", help="The repository. Default: the one that this clone or installation came from."
)
in_sandbox = click.option(
    "--sandbox",
    type=click.Choice(["auto", "bubblewrap", "none"]),
    default="auto",
    help="The sandbox. `none` is for your own code only, and never ranks.",
)


def options(*those: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """A decorator that applies decorators, the first on top."""
    return lambda command: reduce(lambda made, option: option(made), reversed(those), command)
