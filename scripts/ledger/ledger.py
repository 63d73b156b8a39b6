"""The ledger: a folder of facts, one file each, added and never changed.

    judgements/<task>/<gpu>/<login>/<pull request>-<head12>-<request id>.json      ranked judgements
    requests/<yyyy-mm-dd>/<user id>-<request id>.json                              requests
    requests/<yyyy-mm-dd>/<user id>-<request id>.ended.json                        how they ended
    requests/<yyyy-mm-dd>/<user id>-<request id>.spent.json                        machine time spent on ended ones
    origins/<task>/<fingerprint>-<user id>.json                                    who offered a file first
    accounts/<user id>-<login>.json                                                when participants were first seen
    moderation/<yyyy-mm-dd>-<id>.json                                              maintainers' decisions
    descriptions/<task>/<pull request>-<head12>.json                               co-authors and notes, by authors
    announced/…                                                                    announcements on Discord

Off GitHub there is no pull request and no head: `local` and the file's digest replace them.  A file may be torn by a
crash or edited by hand.  Such a file, or an unreadable folder, is reported as a fault and skipped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Generic, TypeVar

from harness.records.fields import Mode
from harness.records.judgement import MAX_BYTES, Judgement, JudgementError
from scripts.ledger.announced import Announced, AnnouncementFact, read_announced
from scripts.ledger.description import CommitDescription, Descriptions
from scripts.ledger.facts import (
    Fact,
    FactError,
    FactExists,
    LedgerError,
    LedgerFault,
    find_files,
    read_facts,
    read_plain,
    write_new,
)
from scripts.ledger.moderation import KnownAccount, Moderation
from scripts.ledger.names import ENDED, SPENT, origins_of, requests_of_pulls
from scripts.ledger.origin import Origin
from scripts.ledger.request import Ending, Request, Spent

__all__ = ["FoundFacts", "Ledger", "LedgerContents", "LedgerError", "LedgerFault", "RequestStatus"]

T = TypeVar("T")
Told = TypeVar("Told", Ending, Spent)

_REQUEST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


FOLDERS = ("requests", "origins", "judgements", "accounts", "moderation", "descriptions", "announced")
"""The folders of facts; nothing else in the folder is committed."""


@dataclass(frozen=True, kw_only=True)
class LedgerContents:
    """`judgements` in ledger order: by time of finish, then by path.

    `places` maps each checksum to its file in the ledger.
    """

    judgements: tuple[Judgement, ...]
    places: Mapping[str, Path]
    faults: tuple[LedgerFault, ...]


@dataclass(frozen=True, kw_only=True)
class FoundFacts(Generic[T]):
    """The facts in order of time, and the files that could not be read."""

    facts: tuple[T, ...]
    faults: tuple[LedgerFault, ...]

    def __iter__(self) -> Iterator[T]:
        return iter(self.facts)


@dataclass(frozen=True, kw_only=True)
class RequestStatus:
    """A request and how it ended."""

    request: Request
    ending: Ending | None = None
    spent: Spent | None = None

    @property
    def is_open(self) -> bool:
        return self.ending is None

    @property
    def seconds(self) -> float:
        """Wall time that the judge's machine has spent on it, as far as known."""
        return sum(fact.seconds for fact in (self.ending, self.spent) if fact)


class Ledger:
    """A ledger in the folder `path`, which need not exist before the first fact."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # Judgements.

    def append(self, judgement: Judgement, request_id: str) -> Path:
        """Add a judgement atomically; never overwrite another.

        Raises:
            LedgerError: it is not ranked, the request's id is not a valid file name, or the file exists.
        """
        if judgement.mode is not Mode.RANKED:
            raise LedgerError(f"a ledger keeps only ranked judgements, not one of mode '{judgement.mode}'")
        if not _REQUEST_ID.fullmatch(request_id):
            raise LedgerError(f"{request_id!r} cannot be a request's id: letters, digits, '.', '_' and '-', at most 64")
        path = self.path / _folder_of(judgement) / f"{_prefix_of(judgement)}{request_id}.json"
        write_new(path, judgement.to_json().encode(), workshop=self.path)
        return path

    def require_judgements(self) -> None:
        """Check that the folder of judgements can be read; before the first judgement it need not exist.

        Raises:
            LedgerError: it cannot be read, and callers would otherwise report an empty ledger.
        """
        folder = self.path / "judgements"
        try:
            os.scandir(folder).close()
        except OSError as error:
            if not isinstance(error, FileNotFoundError) or folder.is_symlink():
                raise LedgerError(f"{folder}: cannot be read: {error.strerror}") from None

    def judgements(self, task: str | None = None, gpu: str | None = None, *, samples: bool = True) -> LedgerContents:
        """All judgements, or those of one task, one GPU, or both; arguments and faults as for `read_judgements`."""
        faults: list[LedgerFault] = []
        paths = [path for path in find_files(self.path, "judgements", faults) if _may_concern(path, task, gpu)]
        contents = self.read_judgements(paths, samples=samples)
        faults = [fault for fault in faults if _may_concern(fault.path, task, gpu)]
        return replace(contents, faults=(*faults, *contents.faults))

    def files_by_board(self, faults: list[LedgerFault]) -> Iterator[tuple[tuple[str, ...], tuple[Path, ...]]]:
        """Paths of judgements by (task, GPU), without reading them; unreadable folders are faults."""
        for place, paths in groupby(find_files(self.path, "judgements", faults), key=lambda path: path.parts[1:3]):
            yield place, tuple(paths)

    def gpus_of(self, task: str) -> set[str]:
        """The GPUs that have judgements of a task."""
        return {path.parts[2] for path in find_files(self.path, f"judgements/{task}", []) if len(path.parts) > 3}

    def read_judgements(self, paths: Iterable[Path], *, samples: bool = True) -> LedgerContents:
        """The judgements in these files of the ledger; a file that is no judgement is a fault.

        Args:
            samples: whether to keep the samples of runs: see `Judgement.without_samples`.
        """
        found: list[tuple[Judgement, Path]] = []
        faults: list[LedgerFault] = []
        places: dict[str, Path] = {}
        for path in paths:
            try:
                judgement = _read_judgement(self.path / path, path)
                first = places.setdefault(judgement.checksum, path)
                if first != path:
                    raise JudgementError(f"the same judgement as {first}")
                found.append((judgement if samples else judgement.without_samples(), path))
            except (FactError, JudgementError) as error:
                faults.append(LedgerFault(path=path, reason=str(error)))
        found.sort(key=lambda pair: (pair[0].finished_at, pair[1]))
        return LedgerContents(judgements=tuple(map(itemgetter(0), found)), places=places, faults=tuple(faults))

    def has_judgement_of(self, request: Request) -> bool:
        """Whether the file of a ranked request's judgement exists."""
        return (self.path / request.place_of_judgement).is_file()

    def judgement_of(self, request: Request) -> Judgement | None:
        """A ranked request's judgement; None if it is missing or unreadable."""
        try:
            return Judgement.from_json(read_plain(self.path / request.place_of_judgement, MAX_BYTES))
        except (FactError, JudgementError):
            return None

    # Requests.

    def append_request(self, request: Request) -> bool:
        """Add a request; False if it exists already, on any day: an event came twice, and the first one counts."""
        if any(self.path.glob(f"requests/*/{request.place.name}")):
            return False
        return self._add(request.place, request)

    def append_ending(self, request: Request, ending: Ending) -> bool:
        """Add a request's ending; False if it has one already, which stays valid."""
        if ending.request != request.id:
            raise LedgerError(f"the ending of {ending.request} is not for request {request.id}")
        return self._add(request.place_of_ending, ending)

    def append_spent(self, request: Request, spent: Spent) -> bool:
        """Add the cost of a request that ended before it was judged; False if it has one already."""
        if spent.request != request.id:
            raise LedgerError(f"the cost record of {spent.request} is not for request {request.id}")
        return self._add(request.place_of_cost, spent)

    def requests(self, user_id: int | None = None, pulls: Collection[int] | None = None) -> FoundFacts[RequestStatus]:
        """All requests, oldest first, optionally of an author, or in some pull requests."""
        faults: list[LedgerFault] = []
        found_files = find_files(self.path, "requests", faults)
        paths = [path for path in found_files if user_id is None or path.name.startswith(f"{user_id}-")]
        if pulls is not None:
            paths = [Path(name) for name in requests_of_pulls(pulls)([path.as_posix() for path in paths])]
        asked = [path for path in paths if not path.name.endswith((ENDED, SPENT))]
        endings = dict(read_facts(self.path, _ending_in(ENDED, paths), Ending, faults))
        costs = dict(read_facts(self.path, _ending_in(SPENT, paths), Spent, faults))
        found: dict[str, RequestStatus] = {}
        requests = read_facts(self.path, asked, Request, faults)
        for path, request in sorted(requests, key=lambda pair: (pair[1].asked_at, pair[0])):
            ending = _own(request, endings, request.place_of_ending, faults)
            spent = _own(request, costs, request.place_of_cost, faults)
            if request.id in found:
                faults.append(LedgerFault(path=path, reason="duplicate of an earlier request; counts once"))
            else:
                found[request.id] = RequestStatus(request=request, ending=ending, spent=spent)
        faults += [LedgerFault(path=path, reason="its request is missing") for path in (*endings, *costs)]
        return FoundFacts(facts=tuple(found.values()), faults=tuple(faults))

    def ended_since(self, moment: datetime) -> list[Path]:
        """The paths of requests that ended at a moment or later; the requests themselves are not read."""
        paths = _ending_in(ENDED, find_files(self.path, "requests", []))
        endings = read_facts(self.path, paths, Ending, [])
        return [path.with_name(path.name.replace(ENDED, ".json")) for path, ending in endings if ending.at >= moment]

    # Other facts.

    def append_fact(self, fact: Origin | CommitDescription | Moderation | AnnouncementFact) -> bool:
        """Add a fact; False if there is one in its place, which stays valid."""
        return self._add(fact.place, fact)

    def origins(self, task: str, fingerprint: str) -> tuple[Origin, ...]:
        """All accounts' first offers of a file; unreadable ones do not count."""
        wanted = origins_of(task, fingerprint)(list(map(str, find_files(self.path, f"origins/{task}", []))))
        return tuple(origin for _, origin in read_facts(self.path, map(Path, wanted), Origin, []))

    def descriptions(self, faults: list[LedgerFault]) -> Descriptions:
        """The descriptions of all commits; files that are none are faults."""
        found = read_facts(self.path, find_files(self.path, "descriptions", faults), CommitDescription, faults)
        return {(one.pull_request, one.head_sha): one for _, one in found}

    # People.

    def append_account(self, account: KnownAccount) -> bool:
        """Add a participant; False if the account is known, and then the first fact stays valid."""
        if any(self.path.glob(f"accounts/{account.user_id}-*.json")):
            return False
        return self._add(account.place, account)

    def accounts(self) -> FoundFacts[KnownAccount]:
        """All participants, in order of first appearance."""
        faults: list[LedgerFault] = []
        found = read_facts(self.path, find_files(self.path, "accounts", faults), KnownAccount, faults)
        accounts = sorted((account for _, account in found), key=lambda one: (one.first_seen, one.user_id))
        return FoundFacts(facts=tuple(accounts), faults=tuple(faults))

    def moderations(self) -> FoundFacts[Moderation]:
        """All decisions, in order of time; a fault says that its decision has no effect."""
        faults: list[LedgerFault] = []
        found = read_facts(self.path, find_files(self.path, "moderation", faults), Moderation, faults)
        decisions = sorted((decision for _, decision in found), key=lambda one: (one.at, one.id))
        lost = tuple(replace(fault, reason=f"this decision has no effect: {fault.reason}") for fault in faults)
        return FoundFacts(facts=tuple(decisions), faults=lost)

    def announced(self) -> Announced:
        """All facts about announcements."""
        return read_announced(self.path)

    def _add(self, place: Path, fact: Fact) -> bool:
        try:
            write_new(self.path / place, fact.to_json().encode(), workshop=self.path)
        except FactExists:
            return False
        return True


def _ending_in(suffix: str, paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in paths if path.name.endswith(suffix))


def _own(request: Request, facts: dict[Path, Told], place: Path, faults: list[LedgerFault]) -> Told | None:
    """Remove and return the fact at the place of a request's own; a fact of another request is a fault."""
    fact = facts.pop(place, None)
    if fact and fact.request != request.id:
        faults.append(LedgerFault(path=place, reason=f"belongs to {fact.request}"))
        return None
    return fact


def _may_concern(path: Path, task: str | None, gpu: str | None) -> bool:
    """Whether a path of the ledger belongs to this task and GPU, or is a folder above them."""
    return all(wanted in (None, part) for wanted, part in zip((task, gpu), path.parts[1:3], strict=False))


def _folder_of(judgement: Judgement) -> str:
    return f"judgements/{judgement.task}/{judgement.gpu}/{judgement.submission.login}"


def _prefix_of(judgement: Judgement) -> str:
    submission = judgement.submission
    return f"{submission.pull_request or 'local'}-{(submission.head_sha or submission.digest)[:12]}-"


def _read_judgement(file: Path, path: Path) -> Judgement:
    """The judgement in `file`, which is at `path` in the ledger.

    Raises:
        FactError, JudgementError: it is not a valid judgement, or is misplaced.
    """
    judgement = Judgement.from_json(read_plain(file, MAX_BYTES))
    if judgement.mode is not Mode.RANKED:
        raise JudgementError(f"of mode '{judgement.mode}'; only ranked judgements belong here")
    # As text: splitting thousands of paths is slow.
    folder, _, name = path.as_posix().rpartition("/")
    if folder != (expected := _folder_of(judgement)):
        raise JudgementError(f"its content belongs in {expected}/")
    prefix = _prefix_of(judgement)
    request_id = name.removeprefix(prefix).removesuffix(".json")
    if name != f"{prefix}{request_id}.json" or not _REQUEST_ID.fullmatch(request_id):
        raise JudgementError(f"its content belongs in a file named {prefix}<request id>.json")
    return judgement
