"""`make bench-site`: measure how the site's build time and size grow with the ledger.

    for each size: a fictional season  ─▶  `pullrank site build` in its own process  ─▶  a line, and its first paints

Generating the season takes longer than building its site; it is not counted, and --keep avoids repeating it.  Memory is
that of the command and its child processes together; shared memory counts once.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.paint import chromium, first_paints_ms
from harness.records.errors import PullRankError
from scripts.competition.repository import ROOT
from tests.season.season import Size, make_season

_HEAD = f"{'judgements':>10} {'rows':>7} {'pages':>7} {'seconds':>8} {'CPU s':>7} {'memory MB':>10} {'site MB':>8}"
_PAGES = f"{'landing KB':>11} {'largest board KB':>17} {'largest submission KB':>22}"


@dataclass(frozen=True, kw_only=True)
class Built:
    """One build: wall time and CPU time in seconds, peak memory in MB."""

    rows: int
    pages: int
    seconds: float
    cpu_s: float
    memory_mb: float


@click.command()
@click.option(
    "--judgements",
    multiple=True,
    type=int,
    default=(1000, 10_000, 100_000),
    show_default=True,
    help="Size of a ledger (repeatable).",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Keep seasons and sites in this folder.")
def main(judgements: tuple[int, ...], keep: Path | None) -> None:
    """Build the sites of fictional seasons and print time, memory and size; page sizes are gzipped.

    Example: python -m benchmarks.site --judgements 1000 --judgements 10000
    """
    click.echo(_HEAD + _PAGES)
    with tempfile.TemporaryDirectory() as folder:
        for number in judgements:
            _bench((keep or Path(folder)) / str(number), number)


def _bench(folder: Path, number: int) -> None:
    if not (folder / "ledger").is_dir():
        make_season(folder, Size(judgements=number, authors=max(30, number // 65)))
    site = folder / "_site"
    shutil.rmtree(site, ignore_errors=True)
    found = len(list((folder / "ledger").rglob("*.json")))
    built = _build(folder)
    size_mb = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    boards = [_gzipped_kb(path.with_name("index.html")) for path in site.glob("*/*/board.json")]
    entries = max((_gzipped_kb(path) for path in site.glob("*/*/*/*/index.html")), default=0.0)
    click.echo(
        f"{found:>10,} {built.rows:>7,} {built.pages:>7,} {built.seconds:>8.1f} {built.cpu_s:>7.1f} "
        f"{built.memory_mb:>10.0f} {size_mb:>8.0f}"
        f"{_gzipped_kb(site / 'index.html'):>11.1f} {max(boards):>17.1f} {entries:>22.1f}"
    )
    click.echo(f"{'':>10} first paint on slow 4G: {_paints(site)}")


def _paints(site: Path) -> str:
    try:
        with chromium() as browser:
            return ", ".join(f"{kind} {ms:.0f} ms" for kind, ms in first_paints_ms(site, browser).items())
    except PullRankError as error:
        return f"not measured, {error}"


def _build(folder: Path) -> Built:
    named = {"--ledger": "ledger", "--tasks": "tasks", "--submissions": ".", "--out": "_site"}
    places = [part for option, name in named.items() for part in (option, str(folder / name))]
    public = ("--address", "https://kernels.example/cup/", "--repository", "https://github.com/kernels/cup")
    command = [sys.executable, "-m", "scripts.cli", "site", "build", *places, *public, "--json"]
    started = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        with _watched(process.pid) as peaks:
            report = json.loads(process.stdout.read())
        # `wait4` returns the usage of this child and its own children; `getrusage` would add earlier children.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Built(
        rows=report["rows"],
        pages=report["pages"],
        seconds=time.perf_counter() - started,
        cpu_s=usage.ru_utime + usage.ru_stime,
        memory_mb=max(peaks) / 1000,
    )


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """Sample the memory of a process and its children ten times a second, in kB."""
    peaks, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.1):
            with suppress(OSError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                peaks.append(sum(map(_held_kb, [str(pid), *children])))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        is_over.set()
        thread.join()


def _held_kb(pid: str) -> int:
    """A process's proportional set size (PSS): its private memory, and its share of shared memory."""
    with suppress(OSError):
        found = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0


def _gzipped_kb(path: Path) -> float:
    return len(gzip.compress(path.read_bytes())) / 1000


if __name__ == "__main__":
    main()
