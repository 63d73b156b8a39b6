"""A part of a judging that has its own time limit, and who is to blame when it is spent.

Of tests a verdict comes out.  In benchmarks and duels several sides play by turns: a foul there is a `SideFoul`, which
names the side; `game` decides what follows from it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.referee.referee import Deadline, Referee
from harness.task.task import Case

IMPORT_S = 10.0
"""How long a fresh player may import in a benchmark, when all caches are filled.  It counts toward no phase: else a
slow import would spend the time that both sides share, and a first place with one could not be dueled."""


class SideFoul(Exception):
    """A foul in a benchmark, and whose it is; `side` is the name of an entry."""

    def __init__(self, side: str, case: Case, foul: Foul) -> None:
        super().__init__(side, foul.message)
        self.side = side
        self.case = case
        self.foul = foul


class OutOfTime(JudgeError):
    """A phase took longer than it may, and not because of one side."""


class Phase:
    """A part of a judging that has so many seconds, and how much of them each side's windows took."""

    def __init__(self, name: str, deadline: Deadline, import_s: float = IMPORT_S) -> None:
        self.name = name
        self.deadline = deadline
        self.import_s = import_s
        self._running_s: dict[str, float] = {}

    @contextlib.contextmanager
    def watch(self, side: str, case: Case, referee: Referee) -> Iterator[None]:
        """Play one side's run.  Raises SideFoul, or OutOfTime."""
        caught: Foul | None = None
        try:
            yield
        except Foul as foul:
            caught = foul
        self._running_s[side] = self._running_s.get(side, 0.0) + referee.running_s
        if caught:
            raise self._blame(side, case, caught)

    def _blame(self, side: str, case: Case, foul: Foul) -> Exception:
        """A phase that ran out of time is a side's fault only if most of the time went into its windows."""
        if foul.verdict is not Verdict.TIME_LIMIT_EXCEEDED or not self.deadline.is_over:
            return SideFoul(side, case, foul)
        phase_s = self.deadline.phase_s
        for name, running_s in self._running_s.items():
            if running_s > phase_s / 2:
                message = f"Its calls took most of the {phase_s:g} s for {self.name}."
                return SideFoul(name, case, Foul(foul.verdict, message))
        return OutOfTime(
            f"{self.name} did not fit into {phase_s:g} s on this machine, and not because of a submission: allow more "
            "in task.yml, or judge on a quieter machine"
        )
