"""HTTP requests to GitHub.  Only this file imports PyGithub, for authentication, connections, pacing and retries.

It uses PyGithub's documented `requester`, not its objects: those send extra requests when an attribute is missing.

    a failed GET, PUT, PATCH or DELETE            retried, a few times
    a failed POST                                 never retried: GitHub may have done it
    a failed update of a check run                never retried: its annotations may have been added
    any request refused by the rate limit         retried after the wait that GitHub asks for, if it is short
"""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from time import sleep
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import urlsplit

import github
from github.GithubRetry import GithubRetry
from urllib3 import BaseHTTPResponse

from scripts.common.text import plain, shorten
from scripts.github.credentials import checked_repository, checked_token
from scripts.github.pulls import MAX_LISTED, PER_PAGE, GitHubError, RateLimitError, items

API = "https://api.github.com"
API_VERSION = "2022-11-28"
MAX_PAGES = MAX_LISTED // PER_PAGE

_REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})
_ADDING = re.compile(r".*/check-runs/[0-9]+")
"""A resource that PATCH adds to instead of replacing it."""
_ADDRESS = re.compile(r"[!-~]+")
_HINTS = {
    401: "the token is wrong or has expired",
    403: "the token's permissions do not allow it; see `permissions:` of the workflow",
    404: "it does not exist, or the token may not see it",
}


class Wire:
    """Requests to one repository, with one token.  `patience_s` is the longest wait before a retry."""

    def __init__(self, repository: str, token: str, api_url: str, *, timeout_s: int, patience_s: float) -> None:
        self.root = f"/repos/{checked_repository(repository, 'the repository')}"
        self._token = checked_token(token, "the token")
        self.requests_made = 0
        self._timeout_s = timeout_s
        self._is_local = urlsplit(api_url).scheme == "http"
        self._github = github.Github(
            base_url=api_url.rstrip("/"),
            auth=github.Auth.Token(token),
            timeout=timeout_s,
            user_agent="pullrank",
            api_version=API_VERSION,
            per_page=PER_PAGE,
            retry=_Patience(self, patience_s),
            # GitHub itself signals its rate limits; commands stay fast until then.
            seconds_between_requests=0,
            seconds_between_writes=0,
        )

    def close(self) -> None:
        self._github.close()

    def ask(self, method: str, path: str, body: object = None, *, is_elsewhere: bool = False) -> Any:
        """Send one request and return the answer's JSON.  `is_elsewhere`: the path is not below the repository.

        Raises:
            GitHubError: no answer, a refusal, or no JSON.
        """
        return self._send(method, path if is_elsewhere else self.root + path, body)[0]

    def pages(self, path: str, *inside: str) -> Iterator[object]:
        """The items of a paged list, or of the list `inside` each page; at most 1,000, fetched lazily."""
        path += f"{'&' if '?' in path else '?'}per_page={PER_PAGE}"
        for page in range(1, MAX_PAGES + 1):
            members = list(items(self.ask("GET", f"{path}&page={page}"), *inside))
            yield from members
            if len(members) < PER_PAGE:
                return

    def download(self, path: str, max_bytes: int, what: str) -> bytes:
        """Download a file that a path redirects to, without the token: it is on another host."""
        _, url = self._send("GET", self.root + path)
        scheme = urlsplit(url).scheme
        # An error about a malformed URL would repeat it, with the signature that grants access.
        if not _ADDRESS.fullmatch(url) or (scheme != "https" and not (scheme == "http" and self._is_local)):
            raise GitHubError(f"{what} cannot be downloaded: GitHub sent no valid URL for it")
        self.requests_made += 1
        try:
            with urllib.request.urlopen(url, timeout=self._timeout_s) as answer:  # noqa: S310  checked above
                content: bytes = answer.read(max_bytes + 1)
                promised = int(answer.headers.get("Content-Length") or len(content))
        except (OSError, HTTPException, ValueError) as error:
            status = error.code if isinstance(error, HTTPError) else None
            raise GitHubError(f"{what} cannot be downloaded ({self._brief(error)}); try again", status) from None
        if max(promised, len(content)) > max_bytes:
            raise GitHubError(f"{what} is larger than {max_bytes} bytes")
        if len(content) < promised:
            raise GitHubError(f"the download of {what} was cut off; try again")
        return content

    def _send(self, method: str, path: str, body: object = None) -> tuple[Any, str]:
        """The answer's JSON, and the target of its redirect."""
        self.requests_made += 1
        what = f"{method} {path.partition('?')[0]}"
        try:
            headers, answer = self._github.requester.requestJsonAndCheck(method, path, input=body)
        except GitHubError:
            raise
        except github.GithubException as error:
            if isinstance(error, github.RateLimitExceededException) or error.status == 429:
                raise RateLimitError(f"{what}: GitHub's rate limit is reached; try again later", error.status) from None
            raise self._refused(what, error) from None
        except Exception as error:
            # PyGithub also raises arbitrary errors for unexpected headers and bodies.
            raise GitHubError(f"{what}: GitHub sent no valid answer ({self._brief(error)}); try again") from None
        # PyGithub also accepts an HTML page.
        if answer is not None and "json" not in str(headers.get("content-type", "")):
            raise GitHubError(f"{what}: GitHub sent no JSON; try again")
        return answer, str(headers.get("location", ""))

    def _refused(self, what: str, error: github.GithubException) -> GitHubError:
        said = error.data.get("message") if isinstance(error.data, dict) else None
        reason = self._hide(str(said or ""), 300)
        hint = _HINTS.get(error.status) or ("try again in a few minutes" if error.status >= 500 else "")
        parts = [f"{error.status} {reason}".strip(), hint]
        return GitHubError(f"{what}: GitHub refused ({'; '.join(filter(None, parts))})", error.status)

    def _brief(self, error: Exception) -> str:
        return self._hide(f"{type(error).__name__}: {error}", 200)

    def _hide(self, words: str, length: int) -> str:
        """A message as one short line, with the token removed."""
        return shorten(" ".join(plain(words).split()).replace(self._token, "…"), length)


class _Patience(GithubRetry):
    """Which requests are retried, and after how long."""

    def __init__(self, owner: Wire | None = None, patience_s: float = 60, **rest: Any) -> None:
        self.owner = owner
        settings: dict[str, Any] = {
            "total": 3,
            "allowed_methods": _REPEATABLE,
            "backoff_factor": 0.5,
            "backoff_max": min(8.0, patience_s),
            "secondary_rate_wait": patience_s,
            "max_rate_limit_wait": patience_s,
        }
        super().__init__(**(settings | rest))

    def new(self, **kw: Any) -> Self:
        return super().new(owner=self.owner, **kw)

    def is_retry(self, method: str, status_code: int, has_retry_after: bool = False) -> bool:
        # A request refused by the rate limit was not executed, so even a POST can be retried.
        refused = status_code == 403 or (status_code == 429 and has_retry_after)
        return super().is_retry("GET" if refused else method, status_code, has_retry_after)

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: BaseHTTPResponse | None = None,
        *rest: Any,
        **named: Any,
    ) -> Self:
        wait = (self.get_retry_after(response) if response else None) or 0
        if response and wait > (self.max_rate_limit_wait or 0):
            response.drain_conn()
            raise RateLimitError(f"GitHub asks to wait {wait:.0f} seconds; try again later", response.status)
        status = response.status if response else None
        if method == "PATCH" and status not in (403, 429) and _ADDING.fullmatch((url or "").partition("?")[0]):
            raise GitHubError(f"PATCH {url}: GitHub sent no valid answer; the update may have been done", status)
        again = super().increment(method, url, response, *rest, **named)  # type: ignore[arg-type]
        if self.owner:
            self.owner.requests_made += 1
        return again  # type: ignore[return-value]

    def sleep(self, response: BaseHTTPResponse | None = None) -> None:
        sleep((self.get_retry_after(response) if response else None) or self.get_backoff_time())
