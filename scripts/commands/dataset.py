"""`pullrank dataset`: the ranked submissions of a competition with their code and times, for research."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import click

from scripts.common.options import PATH, as_json_too
from scripts.competition.repository import home_of, require_clone, require_ledger


@click.command()
@click.option("--ledger", type=PATH, help="Ledger folder. Default: ledger/.")
@click.option("--tasks", type=PATH, help="Tasks folder. Default: tasks/ next to the ledger, else of this clone.")
@click.option("--submissions", type=PATH, help="Folder that contains submissions/. Default: the folder with tasks/.")
@click.option("--out", type=PATH, default=Path("dataset"), help="Output folder. Default: dataset/.")
@as_json_too
def dataset(ledger: Path | None, tasks: Path | None, submissions: Path | None, out: Path, as_json: bool) -> None:
    """Write all ranked submissions, with code and times, as Parquet and JSON Lines.

    The settings must allow it: `dataset: {license: Apache-2.0}`. A task with a deadline is left out until then.

    Example: pullrank dataset --out dataset && gh release create dataset-1 dataset/*
    """
    require_clone("dataset")
    from harness.task.task import load_tasks
    from scripts.competition.boards import find_settings
    from scripts.competition.merged import MergedFiles
    from scripts.competition.settings import SETTINGS, SettingsError
    from scripts.pages.publishing.dataset import write_dataset

    home = home_of(ledger)
    tasks = tasks or home / "tasks"
    settings = find_settings(tasks)
    if not settings or not settings.dataset:
        raise SettingsError(
            f"{SETTINGS} does not allow it: add `dataset: {{license: Apache-2.0}}`, with the licence under which "
            "authors submit"
        )
    merged = MergedFiles(submissions or home)
    report = write_dataset(
        load_tasks(tasks),
        require_ledger(ledger),
        out,
        sources=merged.source_of,
        settings=settings.dataset,
        now=datetime.now(UTC),
    )
    for note in (*merged.notes, *(f"left out: {fault}" for fault in report.faults)):
        click.echo(note, err=True)
    if as_json:
        click.echo(json.dumps({"rows": report.rows, "left_out": report.left_out, "faults": len(report.faults)}))
        return
    click.echo(f"{out}: ranked.parquet and ranked.jsonl, {report.rows} ranked judgements")
    for reason, count in report.left_out.items():
        click.echo(f"Left out: {count} {reason}.")
