"""What `pullrank doctor` finds out about a machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Availability(StrEnum):
    OK = "ok"
    LIMITED = "limited"
    """It works, but promises less."""
    MISSING = "missing"
    """Without it nothing is judged here."""
    OPTIONAL = "optional"
    """Not there; only some tasks or tests want it."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one look at the machine has shown, and what to do about it."""

    name: str
    state: Availability
    detail: str
    remedy: str = ""
