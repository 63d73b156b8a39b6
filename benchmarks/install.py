"""`make bench-github ARGS=--install`: measure how a hosted job gets its packages, and the start of its first command.

    before      pip as with its defaults: it resolves, and compiles every file; all packages of the hosted half
    now         the script of .github/actions/bot, or of .github/actions/hosted, as it stands

Each installation is into an empty home, on one core, from wheels on this machine's disk: the seconds are those of pip.
GitHub's network, its queue and the start of its machines are not in them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import yaml
from rich.console import Console
from rich.table import Table

from scripts.competition.repository import ROOT

ACTIONS = ROOT / ".github/actions"
BEFORE = (
    "python3 -m pip install --quiet --user --require-hashes --only-binary=:all: "
    "--requirement .github/actions/hosted/requirements.lock"
)
"""What the jobs ran until they had actions/bot, after setup-python."""
IMPORTS = "import scripts.cli, scripts.bot.ci, scripts.bot.intake.intake, scripts.github.gh, github"


@dataclass(frozen=True, kw_only=True)
class StepCost:
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, kw_only=True)
class WayToInstall:
    """A way to install, and what each of its repetitions cost."""

    name: str
    lock: Path
    script: str


def ways() -> list[WayToInstall]:
    hosted = ACTIONS / "hosted/requirements.lock"
    now = [
        WayToInstall(name=f"now: actions/{name}", lock=ACTIONS / name / "requirements.lock", script=_script(name))
        for name in ("hosted", "bot")
    ]
    return [WayToInstall(name="before: all packages, resolved and compiled", lock=hosted, script=BEFORE), *now]


def _script(action: str) -> str:
    (step,) = yaml.safe_load((ACTIONS / action / "action.yml").read_bytes())["runs"]["steps"]
    script: str = step["run"]
    return script


Costs = Mapping[str, tuple[list[StepCost], list[StepCost]]]
"""By way: what its installations and the first starts after them cost."""


def measure(console: Console, repetitions: int) -> Costs:
    """Measure and print the table.  The ways take turns, so that other load meets them all."""
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder, "wheels")
        _download(wheels)
        spent: dict[str, tuple[list[StepCost], list[StepCost]]] = {way.name: ([], []) for way in ways()}
        for number in range(repetitions):
            for position, way in enumerate(ways()):
                home = Path(folder, f"home-{number}-{position}")
                environment = _environment(home, wheels)
                installs, starts = spent[way.name]
                installs.append(
                    _time(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", way.script], environment)
                )
                starts.append(_time(["python3", "-c", IMPORTS], environment))
        console.print(_table(spent, {way.name: _size(wheels, way.lock) for way in ways()}, repetitions))
    return spent


def way_table(costs: Costs, commands: Mapping[str, float]) -> Table:
    """From a push to its comment: the steps, what is ours, and what is GitHub's.  `commands` are in CPU seconds."""
    (before_installs, before_starts), *_, (installs, starts) = costs.values()
    before, now = _median(before_installs) + _median(before_starts), _median(installs) + _median(starts)
    table = Table("step", "before: CPU s", "now: CPU s", title="From push to comment")
    for name, seconds in commands.items():
        table.add_row(f"GitHub: the queue, a machine for {name}, the checkout", *["not measured"] * 2)
        table.add_row(f"{name}: packages and their first import", f"{before:.2f}", f"{now:.2f}")
        table.add_row(f"{name}: the command, packages compiled", f"{seconds:.2f}", f"{seconds:.2f}")
    table.caption = "The first comment comes with intake, the result with report; the judge works before report."
    return table


def _median(spent: list[StepCost]) -> float:
    return statistics.median(one.cpu_s for one in spent)


def _download(wheels: Path) -> None:
    """Fetch all wheels once; pip checks their hashes here, and in each installation again."""
    lock = str(ACTIONS / "hosted/requirements.lock")
    options = ["--quiet", "--require-hashes", "--no-deps", "--only-binary=:all:", "--dest", str(wheels)]
    subprocess.run(
        [_python(), "-m", "pip", "download", *options, "--requirement", lock], check=True, stderr=subprocess.DEVNULL
    )


def _python() -> str:
    """The Python below a virtual environment, which has a place for a user's packages."""
    return str(Path(sys.base_prefix, "bin/python3"))


def _environment(home: Path, wheels: Path) -> dict[str, str]:
    """An empty home; pip finds the wheels alone, and Python compiles our own code anew, as in a fresh checkout."""
    home.mkdir()
    return {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join([str(Path(_python()).parent), os.environ["PATH"]]),
        "PIP_BREAK_SYSTEM_PACKAGES": "1",  # Debian and Ubuntu ask for it, even in an empty home
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "PYTHONPATH": str(_fresh_checkout(home)),
    }


def _fresh_checkout(home: Path) -> Path:
    checkout = home / "checkout"
    for part in ("harness", "scripts"):
        for file in (ROOT / part).rglob("*.py"):
            copy = checkout / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    return checkout


def _time(command: list[str], environment: Mapping[str, str]) -> StepCost:
    """Run a command on one core, as ubuntu-slim has."""
    core = min(os.sched_getaffinity(0))
    began = time.perf_counter()
    process = subprocess.Popen(["taskset", "--cpu-list", str(core), *command], cwd=ROOT, env=dict(environment))
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise click.ClickException(f"{command[-1]}: exit code {process.returncode}")
    return StepCost(wall_s=time.perf_counter() - began, cpu_s=used.ru_utime + used.ru_stime)


def _size(wheels: Path, lock: Path) -> float:
    """MB of a lock's wheels."""
    names = {line.partition("==")[0].replace("-", "_") for line in lock.read_text().splitlines() if "==" in line}
    return sum(file.stat().st_size for file in wheels.iterdir() if file.name.partition("-")[0].lower() in names) / 1e6


def _table(spent: Costs, sizes: Mapping[str, float], repetitions: int) -> Table:
    title = f"How a hosted job gets its packages: median (least to most) of {repetitions}, one core"
    table = Table("packages", "MB", "installation", "CPU", "first start", "CPU", "together: CPU", title=title)
    for name, (installs, starts) in spent.items():
        both = [one.cpu_s + other.cpu_s for one, other in zip(installs, starts, strict=True)]
        cells = [
            [one.wall_s for one in installs],
            [one.cpu_s for one in installs],
            [one.wall_s for one in starts],
            [one.cpu_s for one in starts],
            both,
        ]
        table.add_row(name, f"{sizes[name]:.1f}", *map(_words, cells))
    table.caption = "seconds; first start: Python imports what `ci intake` needs, in a fresh checkout"
    return table


def _words(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"
