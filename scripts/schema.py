"""`pullrank schema`: the JSON Schemas of the files that people and programs write."""

from __future__ import annotations

import json

import click

from harness.judgement import Judgement
from harness.task import task_schema


@click.command()
@click.argument("format", type=click.Choice(["task", "judgement"]), default="task", metavar="[task|judgement]")
def schema(format: str) -> None:  # noqa: A002 (click names it after the argument)
    """Print the JSON Schema of a file format.

    Example: pullrank schema task > task.schema.json
    """
    click.echo(json.dumps(task_schema() if format == "task" else Judgement.model_json_schema(), indent=2))
