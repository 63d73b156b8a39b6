"""`pullrank schema`: the JSON Schemas of the file formats."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from harness.records.judgement import Judgement
from harness.task.task import task_schema
from scripts.competition.settings import settings_schema

SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "task": task_schema,
    "settings": settings_schema,
    "judgement": Judgement.model_json_schema,
}


@click.command()
@click.argument("format", type=click.Choice(list(SCHEMAS)), default="task", metavar=f"[{'|'.join(SCHEMAS)}]")
def schema(format: str) -> None:  # noqa: A002 (click names it after the argument)
    """Print the JSON Schema of a file format.

    Example: pullrank schema task > task.schema.json
    """
    click.echo(json.dumps(SCHEMAS[format](), indent=2))
