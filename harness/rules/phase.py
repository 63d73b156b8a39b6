"""Phases of a judging with a shared time limit, and which side is to blame when it runs out.

Tests have one player, so a foul is simply its verdict.  In benchmarks and duels several sides take turns: a foul there
is a `SideFoul` that names the side, and `game` decides what follows from it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator

from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.referee.orders import Deadline, Orders
from harness.sandbox.player_handle import PlayerHandle
from harness.task.task import Case


class SideFoul(Exception):
    """A foul in a benchmark; `side` is the name of the entry at fault."""

    def __init__(self, side: str, case: Case, foul: Foul) -> None:
        super().__init__(side, foul.message)
        self.side = side
        self.case = case
        self.foul = foul


class OutOfTime(JudgeError):
    """A phase exceeded its time limit, and no single side is to blame."""


class Phase:
    """A part of a judging with a time limit, and the time that each side has taken of it."""

    def __init__(self, name: str, deadline: Deadline, import_s: float = math.inf, imports_s: float = math.inf) -> None:
        """`import_s` is how long an import may take, `imports_s` how long all imports of a side may take together."""
        self.name = name
        self.deadline = deadline
        self.import_s = import_s
        self.imports_s = imports_s
        self._running_s: dict[str, float] = {}
        self.importing_s: dict[str, float] = {}
        """Seconds of each side's imports, which are not part of the phase's time."""
        self.unscored_s: dict[str, float] = {}
        """Seconds of the phase in which each side did what is in no sample."""

    @contextlib.contextmanager
    def attribute_to(self, side: str, case: Case, orders: Orders) -> Iterator[None]:
        """Attribute a foul in the block to `side`.  Raises SideFoul, or OutOfTime."""
        caught: Foul | None = None
        try:
            yield
        except Foul as foul:
            caught = foul.with_traceback(None)  # whose frames keep all inputs and outputs in memory
        self.charge(side, orders.running_s - orders.starved_s + orders.gaps_s)
        if caught:
            raise self._blame(side, case, caught)

    def charge(self, side: str, seconds: float) -> None:
        """Attribute time to a side that was spent on it outside its windows, such as to end its processes."""
        self._running_s[side] = self._running_s.get(side, 0.0) + seconds

    @contextlib.contextmanager
    def importing(self, side: str, player: PlayerHandle) -> Iterator[None]:
        """Pause the phase for an import.  Raises Foul if the side's imports together have taken too long."""
        began, starved_s = time.monotonic(), player.starved_s
        with self.deadline.paused():
            yield
        seconds = time.monotonic() - began - (player.starved_s - starved_s)
        self.importing_s[side] = self.importing_s.get(side, 0.0) + seconds
        if self.importing_s[side] > self.imports_s:
            message = f"Its imports together took more than {self.imports_s:g} s in {self.name}; "
            raise Foul(Verdict.TIME_LIMIT_EXCEEDED, message + "cache slow work during the build.")

    def add_unscored(self, side: str, seconds: float) -> None:
        """Record time of the phase that a side spent, and that is in no sample."""
        self.unscored_s[side] = self.unscored_s.get(side, 0.0) + seconds

    def checkpoint(self) -> Callable[[], None]:
        """A function that undoes what the phase has spent from now on, for a run that does not count."""
        charges, ends, began = dict(self._running_s), self.deadline.phase_ends, time.monotonic()
        importing_s, unscored_s = dict(self.importing_s), dict(self.unscored_s)

        def undo() -> None:
            self._running_s, self.deadline.phase_ends = charges, ends + time.monotonic() - began
            self.importing_s, self.unscored_s = importing_s, unscored_s

        return undo

    def _blame(self, side: str, case: Case, foul: Foul) -> Exception:
        """The exception to raise.  The phase's timeout is a side's fault only if it took most of the time itself."""
        if foul.verdict is not Verdict.TIME_LIMIT_EXCEEDED or not self.deadline.is_over:
            return SideFoul(side, case, foul)
        phase_s = self.deadline.phase_s
        for name, running_s in self._running_s.items():
            if running_s > phase_s / 2:
                message = f"It took most of the {phase_s:g} s allowed for {self.name}."
                return SideFoul(name, case, Foul(foul.verdict, message))
        return OutOfTime(
            f"{self.name} took more than {phase_s:g} s on this machine, and no submission is to blame: raise the limit "
            "in task.yml, or judge on a quieter machine"
        )
