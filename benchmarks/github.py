"""`make bench-github`: measure the cost of the workflows' commands against a fake GitHub on loopback.

    requests    API requests, of which a token has a thousand per hour; git's and storage's do not count
    seconds     wall time of a fresh process, with Python's start and all imports, without GitHub's time; and the CPU
                time of that process and its git, which does not depend on other load
    fetched     bytes that git fetches: the ledger's names and some of its facts, the pull request's commit and file

The server is part of the tests, so this works only in a checkout.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from benchmarks.install import measure as measure_installation
from benchmarks.install import way_table
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from scripts.competition.repository import ROOT
from scripts.competition.settings import SETTINGS, load_settings
from scripts.ledger.moderation import KnownAccount
from scripts.ledger.request import Ending, EndState, Request, make_id

if TYPE_CHECKING:
    from tests.competition import Scene
    from tests.github_server import Run

CLAIMED_REQUESTS, CLAIMED_S = 12, 2.0
FACTS, AUTHORS, BOARDS = 10_000, 1000, 10


@dataclass(frozen=True, kw_only=True)
class Cost:
    """The cost of one command."""

    name: str
    requests: int
    seconds: float
    cpu_s: float
    network_s: float
    fetched_bytes: int


@click.command()
@click.option("--facts", default=FACTS, show_default=True, help="Number of facts in the large ledger.")
@click.option("--boards", default=BOARDS, show_default=True, help="Number of boards in the large ledger.")
@click.option("--install", is_flag=True, help="Time the installation of the hosted jobs' packages instead.")
@click.option("--repetitions", default=7, show_default=True, help="With --install: how often.")
def main(facts: int, boards: int, install: bool, repetitions: int) -> None:
    """Count the requests of the workflows' commands and time them.

    Example: python -m benchmarks.github --facts 31000 --boards 1
    """
    sys.path.insert(0, str(ROOT))
    console = Console()
    if install:
        spent = measure_installation(console, repetitions)
        with _competition() as bench:
            bench.play(bench.scene.honest())
            console.print(way_table(spent, {cost.name: cost.cpu_s for cost in bench.costs}))
        return
    with _competition() as bench:
        bench.play(bench.scene.honest())
        bench.reconcile()
        console.print(_table("A first submission, in a new competition", bench.costs))
    console.print(_requests_table())
    with _competition() as bench:
        size = bench.fill(facts, boards)
        bench.play(bench.scene.honest(ratio=0.4))
        bench.reconcile()
        console.print(
            _table(f"The same with a ledger of {facts:,} facts, boards: {boards}, {size / 1e6:.1f} MB", bench.costs)
        )


class Bench:
    """A competition that runs each command in its own process and measures its cost."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.costs: list[Cost] = []
        self.cpu_s = 0.0
        self._sources = count()

    def cost_of(self, name: str, command: Callable[[], object]) -> None:
        server = self.scene.server
        before = len(server.rest_requests()), server.busy_s, server.git_bytes, self.cpu_s
        began = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            command()
        wall_s = time.perf_counter() - began
        network_s = server.busy_s - before[1]
        self.costs.append(
            Cost(
                name=name,
                requests=len(server.rest_requests()) - before[0],
                seconds=max(0.0, wall_s - network_s),
                cpu_s=self.cpu_s - before[3],
                network_s=network_s,
                fetched_bytes=server.git_bytes - before[2],
            )
        )

    def play(self, make: Any, **how: Any) -> None:
        """Open a pull request of alice's and judge it on every board."""
        from tests.competition import SOURCE, path_of

        source = SOURCE + b"# %d\n" % next(self._sources)
        self.scene.world.open_pull(self.scene.alice, {path_of("alice"): source}, **how)
        self.cost_of("intake", self.scene.intake)
        for run in self.scene.waiting():
            self._play_run(run, make)

    def _play_run(self, run: Run, make: Any) -> None:
        self.cost_of("resolve", lambda: self.scene.resolve(run))
        self.scene.judge(run, make)
        self.cost_of("report", lambda: self.scene.report(run))
        self.scene.world.finish_run(run, "success")

    def reconcile(self) -> None:
        """Run the reconciler, as it runs every quarter of an hour."""
        self.scene.world.finish_run(self.scene.world.start_run("reconcile.yml", "schedule"), "success")
        self.cost_of("reconcile", self.scene.reconcile)

    def fill(self, facts: int, boards: int) -> int:
        """Add facts of other authors to the ledger: requests, endings and judgements.  Return their size in bytes."""
        files = dict(_facts_of_others(facts, boards))
        stream = [b"commit refs/heads/ledger\ncommitter Bench <bench@localhost> 0 +0000\ndata 0\n\n"]
        for path, content in files.items():
            stream.append(b"M 100644 inline %s\ndata %d\n%s\n" % (path.encode(), len(content), content))
        self.scene.world.git.git("fast-import", "--quiet", stdin=b"".join(stream))
        return sum(map(len, files.values()))


@contextmanager
def _competition(*, in_processes: bool = True) -> Iterator[Bench]:
    import pytest

    from tests.competition import Scene

    class Processes(Scene):
        def call(self, *arguments: str) -> int:
            bench.cpu_s += _run(arguments)
            return 0

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        bench = Bench((Processes if in_processes else Scene)(Path(folder), patch))
        with bench.scene.server:
            yield bench


def _run(arguments: tuple[str, ...]) -> float:
    """Run a command in its own process and return its CPU time in seconds."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "scripts.cli", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=said
        )
        # `wait` would not return the resource usage of the process and its children.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise click.ClickException(f"{' '.join(arguments)}: {said.read().decode(errors='replace')}")
    return used.ru_utime + used.ru_stime


def _facts_of_others(wanted: int, boards: int) -> Iterator[tuple[str, bytes]]:
    """Files of a ledger: accounts, requests, endings and judgements of many authors on several boards."""
    facts = (fact for number in count() for fact in _facts_of(number, boards).items())
    return ((str(path), text.encode()) for path, text in islice(facts, wanted))


def _facts_of(number: int, boards: int) -> dict[Path | None, str]:
    """The facts of one ranked judging: the author's account if it is new, the request, its ending, the judgement."""
    request = _request(number, boards)
    at, known = (
        request.asked_at,
        KnownAccount(user_id=request.user_id, login=request.login, first_seen=request.asked_at),
    )
    ours = _template().submission.model_copy(
        update={name: getattr(request, name) for name in ("login", "user_id", "pull_request", "head_sha", "digest")}
    )
    facts = {"task": request.task, "submission": ours, "started_at": at, "finished_at": at}
    judgement = _template().model_copy(update=facts)
    ending = Ending(request=request.id, state=EndState.JUDGED, verdict=Verdict.ACCEPTED, seconds=30.0, at=at)
    entry: dict[Path | None, str] = {known.place: known.to_json()} if number < AUTHORS else {}
    return entry | {
        request.place: request.to_json(),
        request.place_of_ending: ending.to_json(),
        request.place_of_judgement: judgement.to_json(),
    }


def _request(number: int, boards: int) -> Request:
    pull_request, head_sha = 1000 + number, f"{number:040x}"
    return Request(
        id=make_id(pull_request, head_sha, "CPU", Mode.RANKED),
        user_id=100_000 + number % AUTHORS,
        login=f"user{number % AUTHORS}",
        pull_request=pull_request,
        head_sha=head_sha,
        blob_sha=head_sha,
        task=f"task{number % boards}" if number % boards else "vectoradd",
        gpu="CPU",
        mode=Mode.RANKED,
        digest=f"{number:064x}",
        asked_at=datetime.now(UTC).replace(microsecond=0) - timedelta(days=3 + number % 90),
        asked_by=100_000 + number % AUTHORS,
    )


@cache
def _template() -> Judgement:
    """A judgement of real size to copy, because creating one takes a while."""
    from tests.competition import the_board
    from tests.season.cast import MadeUpFile
    from tests.season.stage import BoardSeason

    file = MadeUpFile(login="user0", user_id=1, number=1, text="", language="Triton", quality=0.5)
    board = BoardSeason(load_settings(ROOT / SETTINGS), the_board(), began_anew=False)
    return board.judge(file, datetime(2026, 11, 1, tzinfo=UTC), moment=0.5)


# Requests for one board, for several kinds of pull requests.


def _requests_table() -> Table:
    table = Table("pull request", "intake", "resolve", "report", "together", title="Requests for a judged board")
    with _competition(in_processes=False) as bench:
        honest = bench.scene.honest
        pulls: dict[str, tuple[Any, dict[str, Any]]] = {
            "the first: merged, published": (honest(ratio=0.5), {}),
            "a better one: merged, published": (honest(ratio=0.3), {}),
            "improves nothing": (honest(ratio=0.9), {}),
            "wrong answer": (honest(wrong="output[3] is 1, expected 2"), {}),
            "a draft": (honest(), {"draft": True}),
        }
        for name, (make, how) in pulls.items():
            bench.costs.clear()
            bench.play(make, **how)
            requests = [cost.requests for cost in bench.costs]
            table.add_row(name, *map(str, requests), str(sum(requests)))
    return table


def _table(title: str, costs: list[Cost]) -> Table:
    table = Table("command", "requests", "seconds", "CPU s", "network", "fetched by git", title=title)
    for cost in costs:
        seconds = f"{cost.seconds:.2f}" + (" !" if cost.seconds > CLAIMED_S else "")
        fetched = f"{cost.fetched_bytes / 1e3:,.0f} kB"
        times = seconds, f"{cost.cpu_s:.2f}", f"{cost.network_s:.2f}"
        table.add_row(cost.name, str(cost.requests), *times, fetched)
    judged = sum(cost.requests for cost in costs if cost.name != "reconcile")
    table.caption = (
        f"{judged} requests for a judged board (claimed: at most {CLAIMED_REQUESTS}); "
        f"claimed: at most {CLAIMED_S:g} s each without the network"
    )
    return table


if __name__ == "__main__":
    main()
