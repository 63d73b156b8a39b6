"""Judgements that maintainers removed from a board, for its page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from harness.records.judgement import Judgement
from scripts.ledger.moderation import Action, Moderated


@dataclass(frozen=True, kw_only=True)
class TakenOut:
    """A judgement that maintainers removed, with the reason.  `held`: only until they have reviewed it."""

    judgement: Judgement
    held: bool
    reason: str
    at: datetime

    @property
    def action(self) -> Action:
        return Action.HOLD if self.held else Action.DISQUALIFY

    @property
    def facts(self) -> dict[str, object]:
        submission = self.judgement.submission
        return {
            "login": submission.login,
            "digest": submission.digest,
            "pull_request": submission.pull_request,
            "judged_at": self.judgement.finished_at.isoformat(),
            "checksum": self.judgement.checksum,
            "action": self.action,
            "reason": self.reason,
            "at": self.at.isoformat(),
        }


def taken_out_of(judgements: Iterable[Judgement], moderated: Moderated) -> tuple[TakenOut, ...]:
    """The removed judgements, latest removal first."""
    found = []
    for judgement in judgements:
        out = moderated.disqualified.get(judgement.checksum)
        if decision := out or moderated.held.get(judgement.checksum):
            found.append(TakenOut(judgement=judgement, held=out is None, reason=decision.reason, at=decision.at))
    return tuple(sorted(found, key=lambda one: one.at, reverse=True))
