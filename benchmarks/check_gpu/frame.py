"""Run probes one after the other, each in a process of its own with a time limit, and record each result at once.

A probe that raises, hangs or crashes gives a row.  One that does not fit into its stage's time is left for another run.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.check_gpu.probe import ROOT, CheckOptions, Probe, Stage
from benchmarks.check_gpu.records import ProbeResult, Records
from benchmarks.check_gpu.tables import Plan, row_of, tables_of

_END_S = 5.0
"""How long a process may take to end its own processes."""
_RESERVE = 0.02
"""The share of a budget for the end of the last probe."""


class CheckFrame:
    """A run over the stages that are `asked` for, after that of the machine; `only` must be in a probe's name.

    `show` prints a line for people.
    """

    def __init__(
        self,
        records: Records,
        stages: Sequence[Stage],
        options: CheckOptions,
        *,
        asked: Collection[int],
        budget_s: float,
        only: str = "",
        resumes: bool = False,
        show: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._records = records
        self._stages = stages
        self._options = options
        self._budget_s = budget_s
        self._resumes = resumes
        self._show = show
        self.plan = _choose(stages, options, asked, only)
        self.failed = False
        self._sandbox_works = False

    def run(self) -> None:
        """Run the machine's probes, then all that was asked for.  The tables are complete however this ends."""
        began = time.monotonic()
        self.write()
        machine = self._stages[0]
        for probe in machine.probes(self._options):
            self._take(machine, probe, probe.limit_s)
        if (sandbox := self._records.find(0, "the sandbox")) and sandbox.status == "failed":
            self._options = replace(self._options, sandbox="none")
        self.run_stages(began)

    def run_stages(self, began: float) -> None:
        """Run the stages; the first one's time began earlier."""
        for stage in self._stages:
            end = began + (1 - _RESERVE) * self._budget_s
            probes = self.plan.probes.get(stage.number, ())
            if probes:
                self._show(f"\n{stage.heading}\n")
            for probe in probes:
                self._offer(stage, probe, end - time.monotonic())
            began = time.monotonic()

    def _offer(self, stage: Stage, probe: Probe, left_s: float) -> None:
        known = self._records.find(stage.number, probe.name)
        if self._resumes and known and known.status != "missing":
            return
        if left_s < probe.usual_s or not self._take(stage, probe, left_s):
            self._show(row_of(probe.name, None))

    def _take(self, stage: Stage, probe: Probe, left_s: float) -> bool:
        """Run a probe; False if its stage's time ends before it does."""
        start = time.monotonic()
        answer = _ask(probe, self._options, left_s, self._records.log(stage.number, probe.name))
        if answer is None:
            return False
        may_fall_back = probe.judges and self._options.sandbox != "none" and not self._sandbox_works
        if may_fall_back and "error" in answer.get("data", {}):
            answer = self._fall_back(stage, probe, answer, start + left_s - time.monotonic())
        result = ProbeResult(
            stage=stage.number,
            name=probe.name,
            seconds=round(time.monotonic() - start, 1),
            at=datetime.now(UTC).isoformat(timespec="seconds"),
            walled=self._options.sandbox != "none" if probe.judges else None,
            **answer,
        )
        self._sandbox_works |= bool(result.walled and result.status == "ok")
        self.failed |= result.status == "failed"
        self._records.add(result)
        self.write()
        self._show(row_of(probe.name, result))
        return True

    def _fall_back(self, stage: Stage, probe: Probe, walled: dict[str, Any], left_s: float) -> dict[str, Any]:
        """If this probe works without the sandbox, judge without it from now on."""
        bare = replace(self._options, sandbox="none")
        answer = _ask(probe, bare, left_s, self._records.log(stage.number, f"{probe.name}, without a sandbox"))
        if not answer or answer["status"] != "ok":
            return walled
        self._options = bare
        return answer | {"status": "failed", "words": f"{walled['words']}. Without a sandbox: {answer['words']}"}

    def write(self) -> None:
        self._records.write_tables(tables_of(self._records, self.plan, self._options))


def _choose(stages: Sequence[Stage], options: CheckOptions, asked: Collection[int], only: str) -> Plan:
    named = {
        stage.number: [probe for probe in stage.probes(options) if only in probe.name]
        for stage in stages
        if stage.number in asked
    }
    probes = {
        number: [probe for probe in some if not (options.rehearse and probe.needs_gpu)]
        for number, some in named.items()
    }
    left_out = sum(map(len, named.values())) - sum(map(len, probes.values()))
    return Plan(stages=stages, probes=probes, left_out=left_out)


def _ask(probe: Probe, options: CheckOptions, left_s: float, log: Path) -> dict[str, Any] | None:
    """A probe's answer; None if there is too little time for it.  `error` of its data is why it has no finding."""
    with tempfile.TemporaryFile() as order, tempfile.TemporaryFile() as answer, log.open("wb") as said:
        pickle.dump((probe.run, options), order)
        order.seek(0)
        with _child(stdin=order, stdout=answer, stderr=said) as process:
            try:
                process.wait(min(probe.limit_s, left_s))
            except subprocess.TimeoutExpired:
                return _failure(f"it took more than {probe.limit_s:g} s") if left_s >= probe.limit_s else None
        answer.seek(0)
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = json.loads(answer.read())
            return found
    last = next(reversed(log.read_text("utf-8", "replace").strip().splitlines()), "nothing")
    return _failure(f"its process {_how_it_ended(process.returncode)}; it printed last: {last}")


def _failure(words: str) -> dict[str, Any]:
    return {"status": "failed", "words": words, "data": {"error": words}}


def _how_it_ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} and no result"


@contextlib.contextmanager
def _child(**files: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process for a probe.  It has ended when the block ends, with its group, if the system lets it end at all."""
    command = [sys.executable, "-m", "benchmarks.check_gpu.child"]
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **files)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a driver may keep it
            process.wait(_END_S)
