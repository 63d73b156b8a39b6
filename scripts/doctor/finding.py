"""Findings of `pullrank doctor` about a machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Availability(StrEnum):
    OK = "ok"
    LIMITED = "limited"
    """It works, with weaker guarantees."""
    MISSING = "missing"
    """Required for judging on this machine."""
    OPTIONAL = "optional"
    """Missing, but only some tasks or tests need it."""


OK, LIMITED, MISSING, OPTIONAL = Availability


@dataclass(frozen=True)
class Finding:
    """The result of one check, and its remedy."""

    name: str
    state: Availability
    detail: str
    remedy: str = ""


def check(name: str, fault: str, good: str, remedy: str = "", bad: Availability = MISSING) -> Finding:
    """`good`, or the fault with its remedy."""
    return Finding(name, bad, fault, remedy) if fault else Finding(name, OK, good)
