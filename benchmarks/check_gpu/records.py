"""The results of all probes in one folder, kept so that nothing is lost when a run ends early.

results.jsonl     a line for each result, written at once; of two with the same stage and name, the later one counts
tables.md         the same for people, and what is left to do; rewritten after each result (`tables`)
logs/             what each probe printed
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Status = Literal["ok", "failed", "missing"]
"""`missing`: this machine lacks something that the probe needs.  `--resume` tries that again."""


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """`at` is the time of its end, in ISO format; `walled`: whether a sandbox judged it, None if it was not judged."""

    stage: int
    name: str
    status: Status
    words: str
    seconds: float
    at: str
    walled: bool | None = None
    data: dict[str, Any] = field(default_factory=dict)


class Records:
    """The results in a folder, which is made if there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        self._lines = folder / "results.jsonl"
        self._results = {(one.stage, one.name): one for one in self._read()}

    def _read(self) -> Iterator[ProbeResult]:
        if not self._lines.exists():
            return
        for line in self._lines.read_text("utf-8").splitlines():
            try:
                yield ProbeResult(**json.loads(line))
            except (ValueError, TypeError):
                continue  # a line that a power failure has cut

    def find(self, stage: int, name: str) -> ProbeResult | None:
        return self._results.get((stage, name))

    def of(self, stage: int) -> Sequence[ProbeResult]:
        """The results of a stage, in the order of their first appearance."""
        return [one for one in self._results.values() if one.stage == stage]

    def add(self, result: ProbeResult) -> None:
        self._results[result.stage, result.name] = result
        with self._lines.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(result)) + "\n")
            lines.flush()
            os.fsync(lines.fileno())

    def write_tables(self, text: str) -> None:
        beside = self._folder / "tables.md.new"
        beside.write_text(text, "utf-8")
        os.replace(beside, self._folder / "tables.md")

    def log(self, stage: int, name: str) -> Path:
        """Where to keep what a probe prints."""
        return self._folder / "logs" / f"{stage}-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}.txt"
