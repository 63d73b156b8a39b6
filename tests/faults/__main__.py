"""Mutation testing with written mutants: puts in each fault of the lists in this folder; its tests must fail.

    python -m tests.faults --sample 12        twelve faults; others tomorrow, until all have been tried
    python -m tests.faults --area standings   the faults of standings.yml
    python -m tests.faults --only "duel"      those with these words in their sentence or file

The faults are put into copies of the repository in a temporary folder, several at a time, and never into the
repository itself.  First the tests run without any fault: a test that fails then cannot show a fault.
"""

import itertools
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

import click
import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHARED = (".venv", "tests/actions/node_modules")
"""Git does not track them; each copy has links to them."""
LEAST_S = 300
"""The tests of a fault may take five times as long as without it, and never less than this."""
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT)
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::.*?)?)(?: - .*)?$", re.MULTILINE)


class FaultsError(click.ClickException):
    """The list of faults is invalid."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One line of the product, and a plausible wrong version of it.  `fault` says what breaks, and for whom."""

    area: str
    fault: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def put_into(self, root: Path) -> None:
        path = root / self.file
        path.write_text(faulty(self, root), "utf-8")
        forget(path)


def faulty(fault: Fault, root: Path) -> str:
    """The text of the file with the fault in it; raises FaultsError if its line is not there exactly once."""
    path = root / fault.file
    text = path.read_text("utf-8") if path.is_file() else ""
    if (count := text.count(fault.old)) != 1:
        raise FaultsError(f"{fault.area}.yml: in {fault.file} this occurs {count} times, not once: {fault.old}")
    return text.replace(fault.old, fault.new)


def forget(path: Path) -> None:
    """Remove Python's compiled files: it cannot tell two versions of the same second and length apart."""
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def read_faults(folder: Path = HERE) -> list[Fault]:
    """All faults, by area; raises FaultsError if an entry has the wrong keys."""
    faults = []
    for file in sorted(folder.glob("*.yml")):
        for number, entry in enumerate(yaml.safe_load(file.read_text("utf-8")), start=1):
            is_whole = isinstance(entry, dict) and entry.keys() == {"fault", "file", "old", "new", "tests"}
            if not is_whole or not entry["tests"] or not all(isinstance(text, str) for text in _texts(entry)):
                raise FaultsError(f"{file.name}: entry {number} needs fault, file, old, new and a list of tests")
            faults.append(Fault(area=file.stem, **entry | {"tests": tuple(entry["tests"])}))
    return faults


def _texts(entry: dict) -> Iterable[object]:
    return itertools.chain((entry[key] for key in ("fault", "file", "old", "new")), entry["tests"])


def sample(faults: Sequence[Fault], count: int, day: date) -> list[Fault]:
    """This many faults for a day.  The next day begins where this one ends, so all are tried."""
    first = day.toordinal() * count
    return [faults[(first + step) % len(faults)] for step in range(min(count, len(faults)))]


# Copies of the repository.


def copy_repository(root: Path, target: Path) -> None:
    """Copy the files that git tracks, as they are in the working tree."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (root / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name, follow_symlinks=False)
    for name in SHARED:
        if (root / name).exists():
            (target / name).symlink_to((root / name).resolve())
    # Some tests ask git which files the repository has.
    subprocess.run(["git", "init", "--quiet", str(target)], check=True)
    subprocess.run(["git", "add", "--all"], cwd=target, check=True)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The result of a run of tests.  `by` is the first test that failed, or empty."""

    by: str
    seconds: float
    trouble: str = ""


class Workshop:
    """Copies of the repository, each for one run at a time, and their processes."""

    def __init__(self, root: Path, folder: Path, copies: int) -> None:
        self._copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._is_closed = False
        self._locks = folder / "locks"
        self._locks.mkdir()
        for name in ("conftest.py", "cores.py", "judge_sessions.py", "loads.py"):
            (self._locks / name).touch()
        for number in range(copies):
            copy = folder / f"copy{number}"
            copy_repository(root, copy)
            (folder / f"tmp{number}").mkdir()
            self._copies.put(copy)

    @contextmanager
    def copy(self) -> Iterator[Path]:
        copy = self._copies.get()
        try:
            yield copy
        finally:
            self._copies.put(copy)

    def run(self, copy: Path, tests: Sequence[str], limit_s: float) -> Ended:
        """Run tests in a copy until one fails.  PYTHONPATH comes before the venv's own link to the repository."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider", *tests]
        temporary = copy.with_name(copy.name.replace("copy", "tmp"))
        environment = os.environ | {"PYTHONPATH": str(copy), "TMPDIR": str(temporary)}
        environment["TESTS_LOCKS"] = str(self._locks)  # a test that runs alone also waits for tests in other copies
        began = time.monotonic()
        with self._lock:
            if self._is_closed:
                return Ended(by="", seconds=0.0, trouble="stopped")
            process = subprocess.Popen(
                command, cwd=copy, env=environment, text=True, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            self._processes.add(process)
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return Ended(by=f"the time limit of {limit_s:.0f} s", seconds=time.monotonic() - began)
        finally:
            with self._lock:
                self._processes.discard(process)
        seconds = time.monotonic() - began
        if process.returncode == 0:
            return Ended(by="", seconds=seconds, trouble="" if " passed" in said else "all its tests are skipped here")
        if found := _FAILED.search(said):
            return Ended(by=found[1], seconds=seconds)
        if -process.returncode in _CRASHES:
            return Ended(by=f"a crash ({signal.Signals(-process.returncode).name})", seconds=seconds)
        return Ended(by="", seconds=seconds, trouble=(said.strip().splitlines() or ["nothing was said"])[-1])

    def close(self) -> None:
        """Kill what still runs, and start nothing more."""
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    """Interrupt the tests, which then clean up; after ten seconds, kill the whole session."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# The command.


def check(faults: Sequence[Fault], root: Path, jobs: int, say=click.echo) -> bool:
    """Try all faults and print a line for each; returns whether all were caught."""
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # players in the sandbox are other users
        workshop = Workshop(root, Path(folder), jobs)
        pool = ThreadPoolExecutor(jobs)
        try:
            tests = sorted({test for fault in faults for test in fault.tests})
            files = [list(group) for _, group in itertools.groupby(tests, lambda test: test.split("::")[0])]
            without = dict(itertools.chain(*pool.map(lambda group: _run_without(workshop, group).items(), files)))
            for test, ended in without.items():
                if ended.by or ended.trouble:
                    say(f"not green without a fault: {test}: {ended.by or ended.trouble}")
            results = pool.map(lambda fault: _try(fault, workshop, without), faults)
            caught = [_say(fault, ended, say) for fault, ended in zip(faults, results, strict=True)]
            return all(caught)
        finally:
            workshop.close()
            pool.shutdown(cancel_futures=True)


def _run_without(workshop: Workshop, tests: Sequence[str]) -> dict[str, Ended]:
    """Run the tests of one file without a fault: together, and one by one only if they do not all pass."""
    with workshop.copy() as copy:
        ended = workshop.run(copy, tests, 6 * LEAST_S)
    if len(tests) == 1 or not (ended.by or ended.trouble):
        return dict.fromkeys(tests, ended)
    return {test: _run_without(workshop, [test])[test] for test in tests}


def _try(fault: Fault, workshop: Workshop, without: dict[str, Ended]) -> Ended:
    if bad := [test for test in fault.tests if without[test].by or without[test].trouble]:
        return Ended(by="", seconds=0.0, trouble=f"not tried, for without it these fail: {', '.join(bad)}")
    seconds = {test.split("::")[0]: without[test].seconds for test in fault.tests}  # of all tests of a file together
    limit_s = max(LEAST_S, 5 * sum(seconds.values()))
    with workshop.copy() as copy:
        sound = (copy / fault.file).read_bytes()
        try:
            fault.put_into(copy)
            return workshop.run(copy, fault.tests, limit_s)
        finally:
            (copy / fault.file).write_bytes(sound)
            forget(copy / fault.file)


def _say(fault: Fault, ended: Ended, say) -> bool:
    what = f"caught by {ended.by}" if ended.by else ended.trouble or f"NOT CAUGHT by {', '.join(fault.tests)}"
    say(f"{fault.area}: {fault.fault} — {what}, {ended.seconds:.0f} s")
    return bool(ended.by)


@click.command()
@click.option("--sample", "count", type=click.IntRange(min=1), help="So many faults; which ones, the date says.")
@click.option("--area", help="The faults of one list.")
@click.option("--only", help="The faults whose sentence or file holds this.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=os.cpu_count(), help="Copies at a time. Default: one a core."
)
def main(count: int | None, area: str | None, only: str | None, jobs: int) -> None:
    """Put faults into copies of the repository, one at a time, and say which test notices each."""
    faults = read_faults()
    for fault in faults:
        faulty(fault, ROOT)
    faults = [one for one in faults if area in (None, one.area)]
    faults = [one for one in faults if not only or only.casefold() in f"{one.fault} {one.file}".casefold()]
    if not faults:
        raise FaultsError("there is no such fault")
    if count:
        faults = sample(faults, count, datetime.now(UTC).date())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # like Ctrl-C, it leaves nothing behind
    if not check(faults, ROOT, jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
