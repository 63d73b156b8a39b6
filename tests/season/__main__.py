"""`python -m tests.season FOLDER`: generate a fictional season in a new folder, and build its site in FOLDER/_site."""

from pathlib import Path

import click

from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from tests.season.season import END, NOTICE, Size, make_season


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--judgements", default=1000, show_default=True, help="Approximate number, on all boards together.")
@click.option("--authors", default=120, show_default=True, help="Number of authors.")
@click.option("--seed", default=1, show_default=True, help="The same seed makes the same season.")
def main(folder: Path, judgements: int, authors: int, seed: int) -> None:
    """Generate a fictional season in a new folder, and build its site.

    Example: python -m tests.season /tmp/season && pullrank site serve /tmp/season/_site
    """
    made = make_season(folder, Size(judgements=judgements, authors=authors), seed)
    report = build_site(
        made.tasks,
        made.ledger,
        folder / "_site",
        Site.of(made.settings, sources=made.source_of, notice=NOTICE, now=END),
    )
    click.echo(f"{folder / '_site'}: {report.pages} pages, {report.rows} rows, in {report.seconds:.1f} s")


if __name__ == "__main__":
    main()
