"""The first account that submitted a file, ignoring identifiers: later submissions of it by others are copies.

A draft is public, so anybody can copy it and be merged first.  Intake therefore notes the fingerprint of each file that
it admits (`scripts/bot/admission/copies.py`), with the time of the event by GitHub's clock.  A file that anybody may
offer, such as a task's template, has no fingerprint.

History of the format
    1   2026-11   first version
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from harness.records.fields import Digest, Login, Moment, RecordName, Sha
from scripts.ledger.facts import Fact


class Origin(Fact):
    """An account's first offer of a file; it counts even if its pull request was withdrawn."""

    format: Literal["pullrank-origin"] = "pullrank-origin"
    version: Literal[1] = 1
    fingerprint: Digest
    task: RecordName
    user_id: PositiveInt
    login: Login
    pull_request: PositiveInt
    head_sha: Sha
    at: Moment

    @property
    def place(self) -> Path:
        return Path("origins", self.task, f"{self.fingerprint}-{self.user_id}.json")


def find_earlier(user_id: int, origins: Iterable[Origin]) -> Origin | None:
    """The first offer of a file, if others made it, and earlier than this account; `origins` are all of one file."""
    first = min(origins, key=lambda one: (one.at, one.user_id != user_id), default=None)
    return first if first and first.user_id != user_id else None
