"""HTTP requests to GitHub.  Only this file imports PyGithub, for authentication, connections, pacing, retries, secrets.

It uses PyGithub's documented `requester`, not its objects: those send extra requests when an attribute is missing.

    a failed GET, PUT, PATCH or DELETE            retried, a few times; so is a GraphQL query
    a failed POST                                 never retried: GitHub may have done it
    a failed update of a check run                never retried: its annotations may have been added
    any request refused by the rate limit         retried after the wait that GitHub asks for, if it is short
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import github
from github.GithubRetry import GithubRetry
from github.PublicKey import encrypt
from urllib3 import BaseHTTPResponse

from scripts.common.http_request import RequestFailed, RequestLimits, download
from scripts.common.text import plain, shorten
from scripts.github.credentials import checked_repository, checked_token
from scripts.github.pulls import MAX_LISTED, PER_PAGE, GitHubError, RateLimitError, find, items, require

API = "https://api.github.com"
API_VERSION = "2022-11-28"
MAX_PAGES = MAX_LISTED // PER_PAGE
LONGEST_DOWNLOAD_S = 600.0
_NEXT = re.compile(r'<[^>?]*\?([^>]*)>; rel="next"')
"""The query of the link to the next page."""

_REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})
_ADDING = re.compile(r".*/check-runs/[0-9]+")
"""A resource that PATCH adds to instead of replacing it."""
_STATUSES = {"NOT_FOUND": 404, "FORBIDDEN": 403}
"""What REST would answer, by the type of GraphQL's error."""
_HINTS = {
    401: "the token is wrong or has expired",
    403: "the token's permissions do not allow it; see `permissions:` of the workflow",
    404: "it does not exist, or the token may not see it",
}


@dataclass(frozen=True)
class AppKey:
    """A GitHub App's client id, and its private key in PEM format."""

    client_id: str
    pem: str = field(repr=False)

    def authentication(self) -> github.Auth.AppAuth:
        """How the App itself signs in, to ask where it is installed.

        Raises:
            ValueError: the key is not an RSA key in PEM format.
        """
        auth = github.Auth.AppAuth(self.client_id, self.pem)
        try:
            auth.create_jwt()
        except Exception:
            raise ValueError("not an RSA key in PEM format") from None
        return auth


def sealed(secret: str, public_key: str) -> str:
    """A secret as only GitHub can read it.  `public_key` is its own, in base64."""
    return encrypt(public_key, secret)


class Wire:
    """Requests to one repository, with one token or as one App.  `patience_s` is the longest wait before a retry."""

    def __init__(
        self, repository: str, token: str | AppKey, api_url: str, *, timeout_s: int, patience_s: float
    ) -> None:
        self.repository = checked_repository(repository, "the repository")
        self._root = f"/repos/{repository}"
        self._secret = token.pem if isinstance(token, AppKey) else checked_token(token, "the token")
        self._timeout_s = timeout_s
        # Only a GitHub on this machine, for tests, is without TLS; so is its storage.
        self._schemes = ("https://", "http://") if api_url.startswith("http://") else ("https://",)
        auth = token.authentication() if isinstance(token, AppKey) else github.Auth.Token(token)

        def connect(repeatable: frozenset[str]) -> github.Github:
            return github.Github(
                base_url=api_url.rstrip("/"),
                auth=auth,
                timeout=timeout_s,
                user_agent="pullrank",
                api_version=API_VERSION,
                per_page=PER_PAGE,
                retry=_Retries(
                    total=3,
                    allowed_methods=repeatable,
                    backoff_factor=0.5,
                    backoff_max=min(8.0, patience_s),
                    secondary_rate_wait=patience_s,
                    max_rate_limit_wait=patience_s,
                ),
                # GitHub itself signals its rate limits; commands stay fast until then.
                seconds_between_requests=0,
                seconds_between_writes=0,
            )

        self._known: dict[str, tuple[str, Any]] = {}
        """The last answer for each path, with its ETag: to ask for it again costs nothing while it is unchanged."""
        self._github = connect(_REPEATABLE)
        self._graphql = connect(_REPEATABLE | {"POST"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._github.close()
        self._graphql.close()

    def ask(self, method: str, path: str, body: object = None, *, is_elsewhere: bool = False) -> Any:
        """Send one request and return the answer's JSON.  `is_elsewhere`: the path is not below the repository.

        Raises:
            GitHubError: no answer, a refusal, or no JSON.
        """
        path = path if is_elsewhere else self._root + path
        if method != "GET":
            return self._send(method, path, body)[0]
        etag, known = self._known.get(path, ("", None))
        answer, headers = self._send(method, path, body, etag=etag)
        if etag and answer is None:
            return known
        if etag := headers.get("etag", ""):
            self._known[path] = etag, answer
        return answer

    def look_up(self, path: str, *, is_elsewhere: bool = False) -> Any | None:
        """GET a path; None if GitHub answers 404.  Arguments and errors as for `ask`."""
        try:
            return self.ask("GET", path, is_elsewhere=is_elsewhere)
        except GitHubError as error:
            if error.status == 404:
                return None
            raise

    def query(self, query: str, **variables: object) -> Any:
        """Send a GraphQL query about the repository, and return the answer's `data`.

        GitHub counts queries and requests apart: a workflow's token has a thousand points an hour for queries, of which
        each of ours costs one, and a thousand requests.

        Args:
            query: its variables `owner` and `name` are the repository's.

        Raises:
            GitHubError: no answer, or a refusal; with status 404 if the thing does not exist.
        """
        owner, _, name = self.repository.partition("/")
        body = {"query": query, "variables": {"owner": owner, "name": name, **variables}}
        what = " ".join(["GraphQL", *re.findall(r"^query (\w+)", query.strip()), str(variables.get("number", ""))])
        answer, _ = self._send("POST", self._graphql.requester.graphql_url, body, self._graphql, what)
        if not (refusals := find(answer, list, "errors")):
            return require(answer, dict, "data")
        kind = find(refusals[0], str, "type") or ""
        if kind == "RATE_LIMITED":
            raise _too_many(what, 403)
        status = _STATUSES.get(kind, 400)
        raise self._refused(what, github.GithubException(status, refusals[0]))

    def mutate(self, mutation: str, **variables: object) -> Any:
        """Send a GraphQL mutation, and return the whole answer, which may have `errors`.  It is never retried.

        Raises:
            GitHubError: no answer.
        """
        body = {"query": mutation, "variables": variables}
        return self._send("POST", self._github.requester.graphql_url, body, what="GraphQL")[0]

    def pages(self, path: str, *inside: str) -> Iterator[object]:
        """The items of a paged list, or of the list `inside` each page; at most 1,000, fetched lazily."""
        path += f"{'&' if '?' in path else '?'}per_page={PER_PAGE}"
        for page in range(1, MAX_PAGES + 1):
            members = list(items(self.ask("GET", f"{path}&page={page}"), *inside))
            yield from members
            if len(members) < PER_PAGE:
                return

    def linked_pages(self, path: str) -> Iterator[list[object]]:
        """The pages of a list that GitHub pages by links, at most `MAX_PAGES`, fetched lazily."""
        where, _, query = (self._root + path).partition("?")
        for _ in range(MAX_PAGES):
            members, headers = self._send("GET", f"{where}?{query}")
            yield list(items(members))
            link = _NEXT.search(headers.get("link", ""))
            if not link:
                return
            query = link[1]

    def download(self, path: str, max_bytes: int, what: str) -> bytes:
        """Download a file that a path redirects to, without the token: it is on another host.

        PyGithub has no limit on the size of an answer, and downloads only from hosts that it knows.
        """
        url = self._send("GET", self._root + path)[1].get("location", "")
        if not url.startswith(self._schemes):
            raise GitHubError(f"{what} cannot be downloaded: GitHub sent no valid URL for it")
        limits = RequestLimits(max_bytes=max_bytes, timeout_s=self._timeout_s, longest_s=LONGEST_DOWNLOAD_S)
        try:
            answer = download(url, limits)
        except RequestFailed as error:
            raise GitHubError(f"{what} cannot be downloaded ({error}); try again") from None
        if not answer.is_ok:
            reason = f"its storage answers {answer.status}"
            raise GitHubError(f"{what} cannot be downloaded ({reason}); try again", answer.status)
        return answer.content

    def _send(
        self,
        method: str,
        path: str,
        body: object = None,
        client: github.Github | None = None,
        what: str = "",
        etag: str = "",
    ) -> tuple[Any, dict[str, str]]:
        """The answer's JSON and headers.  Errors call the request `what`.

        Args:
            etag: of an answer that is known; the JSON is None if it is still the same.
        """
        what = what or f"{method} {path.partition('?')[0]}"
        try:
            requester = (client or self._github).requester
            unless = {"If-None-Match": etag} if etag else None
            headers, answer = requester.requestJsonAndCheck(method, path, headers=unless, input=body)
        except GitHubError:
            raise
        except github.GithubException as error:
            if isinstance(error, github.RateLimitExceededException) or error.status == 429:
                raise _too_many(what, error.status) from None
            raise self._refused(what, error) from None
        except Exception as error:
            # PyGithub also raises arbitrary errors for unexpected headers and bodies.
            raise GitHubError(f"{what}: GitHub sent no valid answer ({self._brief(error)}); try again") from None
        # PyGithub also accepts an HTML page.
        if answer is not None and "json" not in str(headers.get("content-type", "")):
            raise GitHubError(f"{what}: GitHub sent no JSON; try again")
        return answer, {name: str(value) for name, value in headers.items()}

    def _refused(self, what: str, error: github.GithubException) -> GitHubError:
        said = error.data.get("message") if isinstance(error.data, dict) else None
        reason = self._hide(str(said or ""), 300)
        hint = _HINTS.get(error.status) or ("try again in a few minutes" if error.status >= 500 else "")
        parts = [f"{error.status} {reason}".strip(), hint]
        return GitHubError(f"{what}: GitHub refused ({'; '.join(filter(None, parts))})", error.status)

    def _brief(self, error: Exception) -> str:
        return self._hide(f"{type(error).__name__}: {error}", 200)

    def _hide(self, words: str, length: int) -> str:
        """A message as one short line, with the token or key removed."""
        return shorten(" ".join(plain(words).split()).replace(self._secret, "…"), length)


def _too_many(what: str, status: int) -> RateLimitError:
    return RateLimitError(f"{what}: GitHub's rate limit is reached; try again later", status)


class _Retries(GithubRetry):
    """Which requests are retried, and after how long.  `max_rate_limit_wait` is the longest wait."""

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        # A request refused by the rate limit was not executed, so even a POST can be retried.
        is_refused = status_code == 403 or (status_code == 429 and has_retry_after)
        return super().is_retry("GET" if is_refused else method, status_code, has_retry_after)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        *rest: Any,
        **named: Any,
    ) -> Self:
        status = response.status if response else None
        if method == "PATCH" and status not in (403, 429) and _ADDING.fullmatch((url or "").partition("?")[0]):
            raise GitHubError(f"PATCH {url}: GitHub sent no valid answer; the update may have been done", status)
        return super().increment(method, url, response, *rest, **named)  # type: ignore[arg-type, return-value]

    def get_retry_after(self, response: BaseHTTPResponse) -> float | None:
        wait_s = super().get_retry_after(response)
        if wait_s and wait_s > (self.max_rate_limit_wait or 0):
            raise RateLimitError(f"GitHub asks to wait {wait_s:.0f} seconds; try again later", response.status)
        return wait_s
