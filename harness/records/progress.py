"""Progress events of a judging, for display."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`done` of `total` parts of a step (build, test, benchmark, duel, waiting for idle cores) are finished.

    `seconds_left` estimates the rest of the step; None if unknown.
    """

    step: str
    done: int
    total: int
    seconds_left: float | None = None


OnProgress = Callable[[Progress], None]
