"""Select files of the ledger by name, so that a clone fetches only the contents that it needs.

    with LedgerBranch(url, wanted=either(account_of(7, "ada"), requests_of(7))) as branch:
        branch.check_out(boards([("vectoradd", "H100")]))

A `Choose` function picks some of all names; `scripts/ledger/ledger.py` describes how facts are named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date
from pathlib import PurePath, PurePosixPath

Choose = Callable[[Collection[str]], Iterable[str]]

ENDED = ".ended.json"
SPENT = ".spent.json"


def everything(names: Collection[str]) -> Iterable[str]:
    return names


def either(*choices: Choose) -> Choose:
    """Everything that any of the choices picks."""
    return lambda names: (name for choose in choices for name in choose(names))


def under(*folders: str) -> Choose:
    """All files below some folders: `requests/2026-11-02`, `accounts`."""
    starts = tuple(f"{folder}/" for folder in folders)
    return lambda names: (name for name in names if name.startswith(starts))


def boards(names: Iterable[tuple[str, str]]) -> Choose:
    """The judgements of some boards, by task and GPU."""
    return under(*(f"judgements/{task}/{gpu}" for task, gpu in names))


def account_of(user_id: int, login: str) -> Choose:
    """An account's facts, and those of any account first seen with its login."""

    def choose(names: Collection[str]) -> Iterator[str]:
        for name in names:
            if name.startswith("accounts/"):
                number, _, bore = name.removeprefix("accounts/").removesuffix(".json").partition("-")
                if number == str(user_id) or bore == login.casefold():
                    yield name

    return choose


def origins_of(task: str, fingerprint: str) -> Choose:
    """The accounts' first offers of a file."""
    start = f"origins/{task}/{fingerprint}-"
    return lambda names: (name for name in names if name.startswith(start))


def requests_of(user_id: int) -> Choose:
    """An author's requests, with their endings and costs."""
    return lambda names: (name for name in _requests(names) if _author(name) == str(user_id))


def requests_on(gpus: Collection[str], since: date) -> Choose:
    """All authors' requests on the boards of some GPUs that were made on a day (in UTC) or later, or are open."""
    first = f"requests/{since.isoformat()}"

    def choose(names: Collection[str]) -> Iterator[str]:
        still_open = set(open_requests(names))
        recent = (name for name in _requests(names) if name >= first or name in still_open)
        return (name for name in recent if _gpu(name) in gpus)

    return choose


def requests_of_author_of(request_id: str) -> Choose:
    """A request, and all others of its author."""

    def choose(names: Collection[str]) -> Iterator[str]:
        requests = list(_requests(names))
        authors = {_author(name) for name in requests if _request_id(name) == request_id}
        return (name for name in requests if _author(name) in authors)

    return choose


def requests_of_pulls(numbers: Collection[int]) -> Choose:
    """The requests in some pull requests."""
    wanted = set(map(str, numbers))
    return lambda names: (name for name in _requests(names) if _request_id(name).partition("-")[0] in wanted)


def open_requests(names: Collection[str]) -> Iterator[str]:
    """Requests that have not ended."""
    requests = set(_requests(names))
    asked = (name for name in requests if not name.endswith((ENDED, SPENT)))
    return (name for name in asked if name.removesuffix(".json") + ENDED not in requests)


def endings_since(day: date) -> Choose:
    """Endings of requests made on a day (in UTC) or later."""
    first = f"requests/{day.isoformat()}"
    return lambda names: (name for name in _requests(names) if name >= first and name.endswith(ENDED))


def these(paths: Iterable[PurePath]) -> Choose:
    """These files, if they exist."""
    wanted = {path.as_posix() for path in paths}
    return wanted.intersection


def boards_in(names: Iterable[str]) -> set[tuple[str, str]]:
    """Task and GPU of all boards that have a judgement."""
    parts = (PurePosixPath(name).parts for name in names if name.startswith("judgements/"))
    return {(part[1], part[2]) for part in parts if len(part) > 3}


def request_of_judgement(place: PurePath) -> str:
    """The id of the request whose judgement has this path: `…/<pull request>-<head12>-<request id>.json`."""
    return place.stem.split("-", 2)[2]


def _requests(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith("requests/"))


def _author(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[0]


def _request_id(name: str) -> str:
    return name.rpartition("/")[2].partition("-")[2].removesuffix(ENDED).removesuffix(SPENT).removesuffix(".json")


def _gpu(name: str) -> str:
    """The GPU in a request's id, such as `12-0a1b2c3d4e5f-H100-ranked-1`."""
    return _request_id(name).split("-", 2)[-1].rsplit("-", 2)[0]
