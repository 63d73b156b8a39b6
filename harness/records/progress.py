"""What is being judged at the moment, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """`done` of `total` parts of a step (build, test, benchmark, duel) are over.

    `seconds_left` is of the step, where it can be told.
    """

    step: str
    done: int
    total: int
    seconds_left: float | None = None


OnProgress = Callable[[Progress], None]
