"""`make bench-lighthouse`: run Google's Lighthouse on a landing page, a board and a submission's page.

Its 114 packages are not in the lock file; npx fetches them at the first run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from benchmarks.paint import require_chromium, served, telling_pages
from harness.records.errors import PullRankError
from scripts.cli import run
from tests.season.__main__ import main as build_season

LIGHTHOUSE = "lighthouse@13.5.0"
CATEGORIES = ("performance", "accessibility", "best-practices", "seo")
_FLAGS = "--headless --no-sandbox --disable-gpu"


@click.command()
@click.argument("site", type=click.Path(path_type=Path, exists=True, file_okay=False), required=False)
@click.option("--runs", default=3, show_default=True, help="Runs per page; the best one counts.")
@click.option("--slowdown", default=4.0, show_default=True, help="CPU slowdown, to imitate a phone.")
def main(site: Path | None, runs: int, slowdown: float) -> None:
    """Print Lighthouse's four categories for three pages of a site (default: of a fictional season).

    Performance is for a phone, imitated by slowing this machine down. `index` shows the machine's speed: at least 1500
    on an idle desktop. Use a smaller --slowdown on a slower machine.

    Example: python -m benchmarks.lighthouse _site
    """
    with tempfile.TemporaryDirectory() as folder:
        site = site or season_site(Path(folder, "season"))
        click.echo(f"{'page':>12}" + "".join(f"{name:>16}" for name in CATEGORIES) + f"{'index':>8}")
        with served(site) as url:
            for kind, path in telling_pages(site).items():
                found = [_judged(url + path, slowdown) for _ in range(runs)]
                *scores, index = (max(values) for values in zip(*found, strict=True))
                click.echo(f"{kind:>12}" + "".join(f"{score:>16.0f}" for score in scores) + f"{index:>8.0f}")


def season_site(folder: Path, *options: str) -> Path:
    """Generate a fictional season, and return its site."""
    build_season.main([str(folder), *options], standalone_mode=False)
    return folder / "_site"


def _judged(url: str, slowdown: float) -> list[float]:
    """The score of each category, 0 to 100, and the machine's index.

    Raises:
        PullRankError: Lighthouse could not be fetched, or could not load the page.
    """
    # If `make setup` had to install Node, it is next to this Python.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["npx", "--yes", LIGHTHOUSE, url, "--quiet", "--output=json", f"--chrome-flags={_FLAGS}"]
    chosen = [f"--only-categories={','.join(CATEGORIES)}", f"--throttling.cpuSlowdownMultiplier={slowdown}"]
    environment = os.environ | {"PATH": path, "CHROME_PATH": require_chromium()}
    done = subprocess.run([*command, *chosen], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise PullRankError(f"{LIGHTHOUSE} failed for {url}:\n{done.stderr[-2000:]}")
    said = json.loads(done.stdout)
    scores = [100 * said["categories"][name]["score"] for name in CATEGORIES]
    return [*scores, said["environment"]["benchmarkIndex"]]


if __name__ == "__main__":
    sys.exit(run(command=main))
