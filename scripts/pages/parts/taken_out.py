"""Judgements that were removed from a board, for its page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.records.judgement import Judgement
from scripts.ledger.moderation import Action, Moderated


@dataclass(frozen=True, kw_only=True)
class TakenOut:
    """A judgement that maintainers removed, or that its author has withdrawn, with the reason."""

    judgement: Judgement
    action: Action
    reason: str
    at: datetime

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


def taken_out_of(judgements: Sequence[Judgement], moderated: Moderated) -> tuple[TakenOut, ...]:
    """The removed judgements of a board, latest removal first."""
    removed = moderated.removed(judgements)
    found = [
        TakenOut(judgement=one, action=why.action, reason=why.reason, at=why.at)
        for one in judgements
        if (why := removed.get(one.checksum))
    ]
    return tuple(sorted(found, key=lambda one: one.at, reverse=True))
