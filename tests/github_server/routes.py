"""Finds the handler of a request; the types that handlers take and return."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from tests.github_server.world import Token, World

Json = dict[str, Any]
T = TypeVar("T")


@dataclass
class Answer:
    """A handler's result.  A `body` of bytes is sent unchanged."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """GitHub refuses the request."""

    def __init__(self, status: int, message: str, **more: Any) -> None:
        super().__init__(message)
        url = "https://docs.github.com/rest"
        self.answer = Answer(status, {"message": message, "documentation_url": url, "status": str(status), **more})


def missing() -> Refusal:
    return Refusal(404, "Not Found")


def invalid(message: str, field_name: str = "", code: str = "invalid") -> Refusal:
    errors = [{"resource": "Request", "field": field_name, "code": code, "message": message}]
    return Refusal(422, "Validation Failed", errors=errors)


@dataclass
class Call:
    """A request with valid credentials."""

    world: World
    token: Token
    path: dict[str, str]
    query: dict[str, str]
    body: Any
    fork: str = ""
    """The owner of the fork; empty for the repository itself."""

    def ref(self, name: str) -> str:
        """The full name of a ref of this repository or of the fork: forks share one store, as on GitHub."""
        return name.replace("refs/heads/", f"refs/forks/{self.fork}/", 1) if self.fork else name

    def number(self, name: str) -> int:
        value = self.path[name]
        if not value.isdigit():
            raise missing()
        return int(value)

    def require(self, found: T | None) -> T:
        if found is None:
            raise missing()
        return found

    def page(self, members: Sequence[T], shape: Callable[[T], Any], inside: str = "") -> Answer:
        """The page that the request's `page` and `per_page` ask for; by default 30 members, at most 100."""
        size = min(int(self.query.get("per_page", "30")), 100)
        number = int(self.query.get("page", "1"))
        shapes = [shape(member) for member in members[(number - 1) * size : number * size]]
        return Answer(body={"total_count": len(members), inside: shapes} if inside else shapes)


Handler = Callable[[Call], Answer]


@dataclass(frozen=True)
class Route:
    """`needs` is like `checks:write`, or several of which one is enough."""

    name: str
    method: str
    pattern: re.Pattern[str]
    needs: tuple[str, ...]
    handler: Handler

    @property
    def is_of_forks(self) -> bool:
        """Whether forks have this route, too."""
        return "/git/" in self.name or self.name.endswith("/merge-upstream")

    def is_open_to(self, token: Token) -> bool:
        return any(token.allows(*need.split(":")) for need in self.needs)


ROUTES: list[Route] = []
REPO = "/repos/{owner}/{repo}"


def route(name: str, *needs: str) -> Callable[[Handler], Handler]:
    """Serve `GET /pulls/{pull_number}` of the repository, or, with `//` at the beginning, a path from the root."""
    method, path = name.split(" ")
    path = path[1:] if path.startswith("//") else f"{REPO}{path}"

    def add(handler: Handler) -> Handler:
        pattern = re.sub(r"\\{(\w+)\\}", lambda match: _part(match[1]), re.escape(path))
        ROUTES.append(Route(f"{method} {path}", method, re.compile(pattern), needs or ("metadata:read",), handler))
        return handler

    return add


def _part(name: str) -> str:
    may_hold_slashes = name in ("basehead", "name", "ref", "tree_sha")
    return f"(?P<{name}>{'.+' if may_hold_slashes else '[^/]+'})"


@cache
def _by_method(method: str) -> list[Route]:
    """The routes of a method, those with the fewest placeholders first; called after all are registered."""
    return sorted((each for each in ROUTES if each.method == method), key=lambda each: each.name.count("{"))


def find_route(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    for each in _by_method(method):
        if match := each.pattern.fullmatch(path):
            return each, match.groupdict()
    return None
