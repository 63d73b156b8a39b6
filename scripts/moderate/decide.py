"""Which judgements or which author a decision means, and whether it changes anything.  Nothing here is deleted.

a checksum, or the first 8 of its digits or more      that judgement
a path below `judgements/`, or its file               that judgement
TASK/GPU/LOGIN                                        all judgements of the file with which LOGIN stands there;
                                                      to restore or release, all of LOGIN's that were taken out
a login, or the number of an account                  that author, for ban and unban
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.records.errors import PullRankError, did_you_mean
from harness.records.judgement import Judgement
from scripts.competition.repository import choose_board, require_task
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action, Moderated, Moderation, find_owner
from scripts.ledger.names import Choice, boards, either, everything, under
from scripts.standings.standings import standings

_CHECKSUM = re.compile(r"[0-9a-f]{8,64}")
_ROW = re.compile(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)/([A-Za-z0-9-]{1,39})")


class ModerationError(PullRankError):
    """Nothing of that name, or it is so already."""


@dataclass(frozen=True, kw_only=True)
class Why:
    """Who decides, when, and for what reason.  `by` is the maintainer's number on GitHub."""

    reason: str
    by: int
    at: datetime


def now_because(reason: str, by: int) -> Why:
    """A decision of this moment.

    Raises:
        ModerationError: the reason says nothing, or is too long for the board's page.
    """
    reason = " ".join(reason.split())
    if not 1 <= len(reason) <= 500:
        raise ModerationError("--reason: say why, in at most 500 characters; the board's page shows it")
    return Why(reason=reason, by=by, at=datetime.now(UTC))


def wanted_for(what: str) -> Choice:
    """Which files of the ledger must be read to find what is meant."""
    rest = under("moderation", "accounts")
    if found := _ROW.fullmatch(what):
        return either(rest, boards([(found[1], found[2])]))
    if what.startswith("judgements/"):
        return either(rest, lambda names: (name for name in names if name == what))
    return everything


def find_judgements(action: Action, what: str, ledger: Ledger, tasks: Path) -> list[Judgement]:
    """The judgements that are meant, at least one.

    Raises:
        ModerationError: there is none, or it could be several.
    """
    if found := _ROW.fullmatch(what):
        lifts = action in (Action.RESTORE, Action.RELEASE)
        return (_taken_out if lifts else _standing)(*found.groups(), ledger=ledger, tasks=tasks)
    checksum = _checksum_in(what, ledger) if what.endswith(".json") else what.lower()
    if not _CHECKSUM.fullmatch(checksum):
        raise ModerationError(
            f"{what!r} names no judgement: write TASK/GPU/LOGIN for what somebody stands with, a judgement's checksum "
            "(8 digits will do), or its path in the ledger"
        )
    matches = [one for one in ledger.judgements().judgements if one.checksum.startswith(checksum)]
    if len(matches) != 1:
        many = "several judgements begin so; write more digits" if matches else "no judgement has this checksum"
        raise ModerationError(f"{checksum}: {many}")
    return matches


def _checksum_in(name: str, ledger: Ledger) -> str:
    for path in (ledger.path / name, Path(name)):
        if path.is_file():
            return Judgement.from_json(path.read_bytes()).checksum
    raise ModerationError(f"{name}: there is no such file in {ledger.path}")


def _standing(task: str, gpu: str, login: str, *, ledger: Ledger, tasks: Path) -> list[Judgement]:
    """What somebody stands with."""
    board = choose_board(require_task(task, tasks), gpu)
    counted = Moderated.after(ledger.moderations()).counted(ledger.judgements(task, gpu).judgements)
    row = standings(board, counted, allow_unwalled=True).find_row(login)
    if row:
        return list(row.judgements)
    raise ModerationError(
        f"{login} does not stand on {task} / {gpu}; `pullrank board {task} --gpu {gpu}` says who does, "
        "and `pullrank moderate list` what was taken out"
    )


def _taken_out(task: str, gpu: str, login: str, *, ledger: Ledger, tasks: Path) -> list[Judgement]:
    """What of somebody's is off a board."""
    board = choose_board(require_task(task, tasks), gpu)
    now = Moderated.after(ledger.moderations())
    judgements = ledger.judgements(board.task.name, board.gpu).judgements
    found = [one for one in judgements if one.submission.login.lower() == login.lower() and now.hides(one)]
    if not found:
        raise ModerationError(
            f"nothing of {login}'s on {task} / {gpu} was taken out; `pullrank moderate list` shows all"
        )
    return found


def about_judgements(action: Action, judgements: Iterable[Judgement], ledger: Ledger, why: Why) -> list[Moderation]:
    """A decision for each of the judgements.

    Raises:
        ModerationError: all of them are so already.
    """
    now = Moderated.after(ledger.moderations())
    is_in, adds = _state(action, now)
    changed = [one for one in judgements if (one.checksum in is_in) is not adds]
    if not changed:
        raise ModerationError(f"that would change nothing: it {_stands(action)}; `pullrank moderate list` shows all")
    return [
        Moderation(id=_new_id(action), action=action, judgement=one.checksum, reason=why.reason, by=why.by, at=why.at)
        for one in changed
    ]


def about_author(action: Action, user_id: int, login: str | None, ledger: Ledger, why: Why) -> Moderation:
    """A decision about an author.

    Raises:
        ModerationError: it is so already.
    """
    is_in, adds = _state(action, Moderated.after(ledger.moderations()))
    if (user_id in is_in) is adds:
        raise ModerationError(f"that would change nothing: {login or user_id} {_stands(action)}")
    return Moderation(
        id=_new_id(action), action=action, user_id=user_id, login=login, reason=why.reason, by=why.by, at=why.at
    )


def find_author(who: str, ledger: Ledger) -> tuple[int, str | None] | None:
    """Number and login of somebody who took part; of a number alone, whoever it is; None for an unknown login."""
    accounts = ledger.accounts().facts
    if who.isdecimal() and who.isascii():
        known = next((one for one in accounts if one.user_id == int(who)), None)
        return int(who), known.login if known else None
    owner = find_owner(accounts, who)
    return (owner.user_id, owner.login) if owner else None


def unknown_author(who: str, ledger: Ledger) -> ModerationError:
    near = did_you_mean(who, [one.login for one in ledger.accounts()])
    return ModerationError(f"nobody took part as {who!r}{near}; write the number of the account")


def in_force(ledger: Ledger) -> Iterator[Moderation]:
    """What holds now, the newest first."""
    now = Moderated.after(ledger.moderations())
    kept: Sequence[Mapping[object, Moderation]] = (now.banned, now.disqualified, now.held)  # type: ignore[assignment]
    yield from sorted((one for each in kept for one in each.values()), key=lambda one: one.at, reverse=True)


def _state(action: Action, now: Moderated) -> tuple[Mapping[int | str, Moderation], bool]:
    """What an action moves into, or out of."""
    states: dict[Action, tuple[Mapping[int, Moderation] | Mapping[str, Moderation], bool]] = {
        Action.BAN: (now.banned, True),
        Action.UNBAN: (now.banned, False),
        Action.DISQUALIFY: (now.disqualified, True),
        Action.RESTORE: (now.disqualified, False),
        Action.HOLD: (now.held, True),
        Action.RELEASE: (now.held, False),
    }
    return states[action]  # type: ignore[return-value]


def _stands(action: Action) -> str:
    return {
        Action.BAN: "is banned",
        Action.UNBAN: "is not banned by the ledger (`bans:` in .github/pullrank.yml is another list)",
        Action.DISQUALIFY: "is disqualified",
        Action.RESTORE: "is not disqualified",
        Action.HOLD: "is held back",
        Action.RELEASE: "is not held back",
    }[action]


def _new_id(action: Action) -> str:
    return f"{action}-{secrets.token_hex(4)}"
