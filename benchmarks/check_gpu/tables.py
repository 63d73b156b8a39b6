"""The results in Markdown, to copy into BENCHMARKS.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.check_gpu.probe import CheckOptions, Probe, Stage
from benchmarks.check_gpu.records import ProbeResult, Records

LEFT: Final = "left for another run (--resume)"
_LONGEST = 400
_MARKS = {"ok": "", "failed": "**FAILED**: ", "missing": "not tried: "}
_VERSIONS = {
    "driver": "driver",
    "cuda": "CUDA",
    "torch": "torch",
    "torch_cuda": "built for CUDA",
    "python": "Python",
    "os": "",
    "commit": "commit",
}
"""Facts of the machine, and what to call them."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """All stages, and what a run tries: the probes of some of them, by their numbers."""

    stages: Sequence[Stage]
    probes: Mapping[int, Sequence[Probe]]
    left_out: int
    """How many a rehearsal leaves out, because they need a GPU."""


def row_of(name: str, result: ProbeResult | None) -> str:
    """A row of a table; without a result, the probe is left for another run."""
    if result is None:
        return _row(name, LEFT, "")
    return _row(name, _MARKS[result.status] + result.words, f"{result.seconds:.1f}")


def _row(*cells: str) -> str:
    lines = (re.sub(r"\s+", " ", cell).replace("|", "¦").strip() for cell in cells)
    return f"| {' | '.join(line if len(line) <= _LONGEST else line[: _LONGEST - 1] + '…' for line in lines)} |"


def tables_of(records: Records, plan: Plan, options: CheckOptions) -> str:
    return "\n".join([*_heading(records, plan, options), *_stages(records, plan)]) + "\n"


def _heading(records: Records, plan: Plan, options: CheckOptions) -> Iterator[str]:
    machine = records.find(0, "the machine")
    facts = machine.data if machine else {}
    where = "Rehearsed without a GPU" if options.rehearse else f"On {facts.get('device', 'an unknown GPU')}"
    yield f"## {where}, {machine.at[:10] if machine else 'no date'}\n"
    if versions := [f"{name} {facts[key]}".strip() for key, name in _VERSIONS.items() if facts.get(key)]:
        yield f"{', '.join(versions)}.\n"
    if options.rehearse:
        yield "A CPU and a driver of our own took the GPU's place: no time says anything about a GPU."
        yield f"{plan.left_out} probes need a GPU and are left out.\n"
    results = [one for stage in plan.stages for one in records.of(stage.number)]
    if any(one.walled is False for one in results):
        yield "Judged without a sandbox, because it does not work on this machine.\n"
    counts = Counter(one.status for one in results)
    left = sum(records.find(number, probe.name) is None for number in plan.probes for probe in plan.probes[number])
    yield f"{counts['ok']} as expected, {counts['failed']} failed, {counts['missing']} not tried, {left} left.\n"


def _stages(records: Records, plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        results = {one.name: one for one in records.of(stage.number)}
        names = dict.fromkeys([*(probe.name for probe in plan.probes.get(stage.number, ())), *results])
        if names:
            yield f"### {stage.heading}\n"
            yield "| probe | result | seconds |\n|---|---|---|"
            yield from (row_of(name, results.get(name)) for name in names)
            yield ""
            if stage.summary:
                yield _summary(stage.summary, [one.data for one in results.values() if "error" not in one.data])


def _summary(make: Callable[[list[dict[str, Any]]], str], data: list[dict[str, Any]]) -> str:
    try:
        return make([one for one in data if one]) + "\n"
    except Exception as error:  # for example without the packages that the results were made with
        return f"No summary: {type(error).__name__}: {error}\n"
