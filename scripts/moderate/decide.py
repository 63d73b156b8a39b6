"""Resolve what a decision is about, and check whether it changes anything.  Nothing is deleted.

a checksum, or at least its first 8 digits            that judgement
a path below `judgements/`, or its file               that judgement
TASK/GPU/LOGIN                                        all judgements of LOGIN's ranked file on that board;
                                                      to restore or release, all of LOGIN's that are removed;
                                                      to disqualify, those of the held file if none is ranked
TASK/GPU/LOGIN/DIGEST                                 the same of one file, by at least 8 digits of its SHA-256
a login or an account's numeric id                    that author, for ban and unban
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from harness.records.errors import PullRankError, did_you_mean
from harness.records.fields import LOGIN
from harness.records.judgement import Judgement, JudgementError
from harness.task.task import Board
from scripts.competition.boards import as_it_ended, find_machines
from scripts.competition.repository import choose_board, require_task
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action, Moderated, Moderation, file_of, find_owner
from scripts.ledger.names import Choose, boards, either, everything, under
from scripts.standings.standings import standings

_CHECKSUM = re.compile(r"[0-9a-f]{8,64}")
_ROW = re.compile(rf"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)/({LOGIN})(?:/([0-9a-f]{{8,64}}))?/?")
_FILE = re.compile(r"judgements/([^/]+)/([^/]+)/.+")

_EFFECTS = {
    Action.BAN: ("banned", True, "is banned"),
    Action.UNBAN: (
        "banned",
        False,
        "is not banned by the ledger (`bans:` in .github/pullrank.yml is a separate list)",
    ),
    Action.DISQUALIFY: ("disqualified", True, "is disqualified"),
    Action.RESTORE: ("disqualified", False, "is not disqualified"),
    Action.HOLD: ("held", True, "is held"),
    Action.RELEASE: ("held", False, "is not held"),
}
"""The set of `Moderated` that an action changes, whether it adds to it, and the state in words after it."""


class ModerationError(PullRankError):
    """The target does not exist, or the decision changes nothing."""


@dataclass(frozen=True, kw_only=True)
class Why:
    """Who decides, when, and for what reason.  `by` is the maintainer's numeric id on GitHub."""

    reason: str
    by: int
    at: datetime


def now_because(reason: str, by: int) -> Why:
    """A decision made now.  Raises ModerationError: the reason is empty, or too long for the board's page."""
    reason = " ".join(reason.split())
    if not 1 <= len(reason) <= 500:
        raise ModerationError("--reason must have 1 to 500 characters; the board's page shows it")
    return Why(reason=reason, by=by, at=datetime.now(UTC))


def wanted_for(what: str) -> Choose:
    """The files of the ledger to read in order to find the target."""
    # All of the board: a decision about a file may be about another judgement of it.
    if found := _ROW.fullmatch(what) or _FILE.fullmatch(what):
        return either(under("moderation", "accounts"), boards([(found[1], found[2])]))
    return everything


def find_judgements(action: Action, what: str, ledger: Ledger, tasks: Path) -> list[Judgement]:
    """The judgements that `what` names, at least one.

    Raises:
        ModerationError: there is none, or the name is ambiguous.
    """
    if found := _ROW.fullmatch(what):
        task, gpu, login, digest = found.groups("")
        board, machines = choose_board(require_task(task, tasks), gpu), find_machines(tasks)
        judgements = ledger.judgements(task, gpu, samples=False).judgements
        is_judged = machines is None or gpu in machines
        board = as_it_ended(board, judgements, datetime.now(UTC), is_judged=is_judged)
        return _of_author(action, board, judgements, login, digest, ledger)
    checksum = _checksum_in(what, ledger) if what.endswith(".json") else what.lower()
    if not _CHECKSUM.fullmatch(checksum):
        raise ModerationError(
            f"{what!r} does not name a judgement: write TASK/GPU/LOGIN for an author's ranked file, a judgement's "
            "checksum (at least 8 digits), or its path in the ledger"
        )
    matches = [one for one in ledger.judgements(samples=False).judgements if one.checksum.startswith(checksum)]
    if len(matches) != 1:
        many = "several judgements match; write more digits" if matches else "no judgement has this checksum"
        raise ModerationError(f"{checksum}: {many}")
    return _with_their_file(matches[0], ledger) if action in (Action.RESTORE, Action.RELEASE) else matches


def _with_their_file(judgement: Judgement, ledger: Ledger) -> list[Judgement]:
    """The judgement, or if a decision is about its file, all judgements of the file with a decision."""
    now = Moderated.after(ledger.moderations())
    judgements = ledger.judgements(judgement.task, judgement.gpu, samples=False).judgements
    if file_of(judgement) not in now.removed_files(judgements):
        return [judgement]
    decided = now.held | now.disqualified
    return [one for one in judgements if file_of(one) == file_of(judgement) and one.checksum in decided]


def _checksum_in(name: str, ledger: Ledger) -> str:
    for path in (ledger.path / name, Path(name)):
        if path.is_file():
            try:
                return Judgement.from_json(path.read_bytes()).checksum
            except JudgementError as error:
                raise ModerationError(f"{name}: {error}") from None
    raise ModerationError(f"{name}: no such file in {ledger.path}")


def _of_author(
    action: Action, board: Board, judgements: Sequence[Judgement], login: str, digest: str, ledger: Ledger
) -> list[Judgement]:
    """The judgements of an author's ranked file on a board, or to lift a decision, all that are removed from it.

    With a `digest`, only those of the file whose SHA-256 begins with it.
    """
    now = Moderated.after(ledger.moderations())
    place = f"{board.task.name} / {board.gpu}"
    own = [one for one in judgements if one.submission.login.lower() == login.lower()]
    own = [one for one in own if one.submission.digest.startswith(digest)]
    if action in (Action.RESTORE, Action.RELEASE):
        removed = now.disqualified | now.held
        if found := [one for one in own if one.checksum in removed]:
            return found
        raise ModerationError(f"{login} has no removed judgements on {place}; `pullrank moderate list` shows all")
    if digest and own:
        return own
    row = standings(board, judgements, now.removed(judgements), allow_unwalled=True).find_row(login)
    files = {row.digest: list(row.judgements)} if row and not digest else {}
    if action is Action.DISQUALIFY:
        for one in own:
            if one.checksum in now.held.keys() - now.disqualified.keys():
                files[one.submission.digest] = [other for other in own if file_of(other) == file_of(one)]
    if len(files) > 1:
        named = " or ".join(f"{board.task.name}/{board.gpu}/{login}/{found[:12]}" for found in files)
        raise ModerationError(f"{login} has {len(files)} files on {place}, ranked or held: write {named}")
    if files:
        return next(iter(files.values()))
    raise ModerationError(
        f"{login} is not ranked on {place}; `pullrank board {board.task.name} --gpu {board.gpu}` shows the rows, "
        "`pullrank moderate list` the removed judgements"
    )


def about_judgements(
    action: Action, what: str, judgements: Iterable[Judgement], ledger: Ledger, why: Why
) -> list[Moderation]:
    """A decision for each of the judgements that it changes.

    Args:
        what: the name that led to them.  TASK/GPU/LOGIN is about the file: its later judgements don't count, either.

    Raises:
        ModerationError: it changes none of them.
    """
    whole_file = action in (Action.HOLD, Action.DISQUALIFY) and bool(_ROW.fullmatch(what))
    place, adds, state = _EFFECTS[action]
    is_in = getattr(Moderated.after(ledger.moderations()), place)
    changed = [
        one
        for one in judgements
        if (one.checksum in is_in) is not adds or (whole_file and not is_in[one.checksum].whole_file)
    ]
    if not changed:
        raise ModerationError(f"nothing to change: it {state}; `pullrank moderate list` shows all")
    return [Moderation.about(one, action, id=_new_id(action), whole_file=whole_file, **vars(why)) for one in changed]


def about_author(action: Action, user_id: int, login: str | None, ledger: Ledger, why: Why) -> Moderation:
    """A decision about an author.  Raises ModerationError: it changes nothing."""
    place, adds, state = _EFFECTS[action]
    if (user_id in getattr(Moderated.after(ledger.moderations()), place)) is adds:
        raise ModerationError(f"nothing to change: {login or user_id} {state}")
    return Moderation(id=_new_id(action), action=action, user_id=user_id, login=login, **vars(why))


def find_author(who: str, ledger: Ledger) -> tuple[int, str | None] | None:
    """Numeric id and login of a participant; any id is accepted, known or not; None for an unknown login.

    Raises:
        ModerationError: the number is an id and another account's login.
    """
    accounts = ledger.accounts().facts
    number, owner = who.removeprefix("id:"), find_owner(accounts, who)
    if number.isdecimal() and number.isascii() and int(number):
        if owner and owner.user_id != int(number):
            raise ModerationError(
                f"{who} is also the login of account {owner.user_id}: write id:{number} or {owner.user_id}"
            )
        known = next((one for one in accounts if one.user_id == int(number)), None)
        return int(number), known.login if known else None
    return (owner.user_id, owner.login) if owner else None


def unknown_author(who: str, ledger: Ledger) -> ModerationError:
    near = did_you_mean(who, [one.login for one in ledger.accounts()])
    return ModerationError(f"no participant has the login {who!r}{near}; write the account's numeric id")


def in_force(ledger: Ledger) -> Iterator[Moderation]:
    """The decisions in force, newest first."""
    now = Moderated.after(ledger.moderations())
    kept = (*now.banned.values(), *now.disqualified.values(), *now.held.values(), *now.withdrawn.values())
    yield from sorted(kept, key=lambda one: one.at, reverse=True)


def _new_id(action: Action) -> str:
    return f"{action}-{secrets.token_hex(4)}"
