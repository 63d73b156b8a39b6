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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check, and its remedy."""

    name: str
    state: Availability
    detail: str
    remedy: str = ""
