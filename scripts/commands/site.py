"""`pullrank site`: build the leaderboard's site and serve it."""

from __future__ import annotations

import contextlib
import json
import re
from datetime import UTC, datetime
from pathlib import Path

import click

from scripts.common.options import PATH, Group
from scripts.competition.repository import SITE, home_of, require_clone, require_ledger


def _require_address(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """Accept an address that links can be made from, or an empty string."""
    if value and not re.fullmatch(r"https?://[A-Za-z0-9.:-]+(/[^?#\s]*)?", value):
        raise click.BadParameter("an address begins with https:// and a host, and has no ?, # or space")
    return value


@click.group(cls=Group)
def site() -> None:
    """Build the leaderboard's site and serve it.

    Example: pullrank site build && pullrank site serve
    """


@site.command()
@click.option("--ledger", type=PATH, help="Ledger folder. Default: ledger/.")
@click.option("--tasks", type=PATH, help="Tasks folder. Default: tasks/ next to the ledger, else of this clone.")
@click.option("--submissions", type=PATH, help="Folder that contains submissions/. Default: the folder with tasks/.")
@click.option("--out", type=PATH, default=SITE, help="Output folder. Default: _site/.")
@click.option(
    "--settings",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Settings file. Default: .github/pullrank.yml next to the tasks folder, if it exists.",
)
@click.option("--title", help="Competition name. Default: from the settings.")
@click.option(
    "--address",
    default="",
    callback=_require_address,
    help="Address of the published site; needed for feeds, the sitemap and board pictures.",
)
@click.option(
    "--repository",
    default="",
    callback=_require_address,
    help="Address of the repository; needed for links to files and pull requests.",
)
@click.option("--allow-unwalled", is_flag=True, help="Include results judged without a sandbox, and say so.")
@click.option("--json", "as_json", is_flag=True, help="Print the build report as JSON.")
def build(
    ledger: Path | None,
    tasks: Path | None,
    submissions: Path | None,
    out: Path,
    settings: Path | None,
    title: str | None,
    address: str,
    repository: str,
    allow_unwalled: bool,
    as_json: bool,
) -> None:
    """Build the site from tasks, settings and ledger; replace the old one completely or not at all.

    Example: pullrank site build --ledger demo/ledger --out _site
    """
    require_clone("site build")
    from harness.task.task import load_tasks
    from scripts.competition.boards import find_settings
    from scripts.competition.merged import MergedFiles
    from scripts.competition.settings import load_settings
    from scripts.pages.parts.site import Site
    from scripts.pages.publishing.publish import build_site

    home = home_of(ledger)
    tasks = tasks or home / "tasks"
    found = load_settings(settings) if settings else find_settings(tasks)
    merged = MergedFiles(submissions or home)
    site = Site.of(
        found,
        title,
        sources=merged.source_of,
        address=address,
        repository=repository,
        marks_unmerged=bool(repository) and merged.is_whole,
        now=datetime.now(UTC),
    )
    report = build_site(load_tasks(tasks), require_ledger(ledger), out, site, allow_unwalled=allow_unwalled)
    for line in (*merged.notes, *report.lines):
        click.echo(line, err=True)
    if as_json:
        click.echo(json.dumps(report.facts))
    else:
        click.echo(f"{out}: {report.pages} pages, {report.rows} rows, in {report.seconds:.1f} s")


@site.command()
@click.argument("folder", type=PATH, default=SITE)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: any free port.")
def serve(folder: Path, port: int) -> None:
    """Serve a built site on this machine until Ctrl-C.

    Example: pullrank site serve _site --port 8000
    """
    serve_until_interrupted(folder, port)


def serve_until_interrupted(folder: Path, port: int = 0) -> None:
    """Serve `folder`, print the address, and return at Ctrl-C."""
    from scripts.pages.publishing.serve import site_server, url_of

    with site_server(folder, port) as server, contextlib.suppress(KeyboardInterrupt):
        click.echo(f"{url_of(server)}  (Ctrl-C to stop)")
        server.serve_forever()
