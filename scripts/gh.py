"""GitHub over its REST API: the only file that imports PyGithub; speaks the types of `scripts/pulls.py`.

PyGithub carries the requests (its documented `requester`): token, connection, pace, repeats.  Its objects are not
used, because they send requests of their own when an attribute is missing.

    a GET, PUT, PATCH or DELETE that failed       sent again, a few times
    a POST that failed                            never sent again: it may have been done
    anything refused for its rate                 sent again after the wait that GitHub asks for, if that is short
"""

from __future__ import annotations

import base64
import hashlib
import re
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from http.client import HTTPException
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit

import github
from github.GithubRetry import GithubRetry
from urllib3 import BaseHTTPResponse

from scripts.checks import Check, CheckRun
from scripts.pulls import (
    ACTIONS_BOT,
    Account,
    Artifact,
    BlobInfo,
    ChangedFile,
    Comment,
    GitHubError,
    Job,
    Merge,
    MergeState,
    Permission,
    PullRequest,
    RateLimitError,
    Reaction,
    WorkflowRun,
    find,
    items,
    require,
    require_sha,
)
from scripts.text import plain, shorten

API = "https://api.github.com"
API_VERSION = "2022-11-28"
PER_PAGE = 100
MAX_PAGES = 10
MAX_BODY = 65_536
"""Characters in a comment."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})
_HINTS = {
    401: "the token is wrong or has expired",
    403: "the token's permissions do not allow it; see `permissions:` of the workflow",
    404: "it does not exist, or the token may not see it",
}


class GitHub:
    """One repository on GitHub, seen with one token.

    `me` is the account that the token acts as: only its comments are ours.  `patience_s` is the longest wait
    before a request is sent again.
    """

    def __init__(
        self,
        repository: str,
        token: str,
        api_url: str = API,
        *,
        me: Account = ACTIONS_BOT,
        timeout_s: int = 15,
        patience_s: float = 60,
    ) -> None:
        if not _REPOSITORY.fullmatch(repository):
            raise GitHubError(f"{repository!r} is no repository; write OWNER/NAME")
        self.repository = repository
        self.me = me
        self.requests_made = 0
        self._timeout_s = timeout_s
        self._is_local = urlsplit(api_url).scheme == "http"
        self._may_check = True
        self._github = github.Github(
            base_url=api_url.rstrip("/"),
            auth=github.Auth.Token(token),
            timeout=timeout_s,
            user_agent="pullrank",
            api_version=API_VERSION,
            per_page=PER_PAGE,
            retry=_Patience(self, patience_s),
            # GitHub says itself when it is too much; commands stay quick until then.
            seconds_between_requests=0,
            seconds_between_writes=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._github.close()

    # Pull requests

    def get_pull(self, number: int) -> PullRequest:
        return PullRequest.of(self.ask("GET", f"/pulls/{number}"))

    def open_pulls(self) -> tuple[PullRequest, ...]:
        """The open ones, the newest first; at most 1,000."""
        return tuple(map(PullRequest.of, self._pages("/pulls?state=open")))

    def changed_files(self, number: int) -> tuple[ChangedFile, ...]:
        """What a pull request changes now; the first 100 files, since a submission is one."""
        return tuple(map(ChangedFile.of, items(self.ask("GET", f"/pulls/{number}/files?per_page={PER_PAGE}"))))

    def changed_between(self, base_sha: str, head_sha: str) -> tuple[ChangedFile, ...]:
        """What two pinned commits differ in since they parted; GitHub tells the first 300 files."""
        # Of the commits between, one is enough.
        answer = self.ask("GET", f"/compare/{quote(base_sha)}...{quote(head_sha)}?per_page=1")
        return tuple(map(ChangedFile.of, items(answer, "files")))

    def merge(self, number: int, head_sha: str, title: str, message: str) -> Merge:
        """Squash a pull request into its base, if its head is still `head_sha`."""
        body = {"sha": head_sha, "commit_title": title, "commit_message": message, "merge_method": "squash"}
        try:
            require(self.ask("PUT", f"/pulls/{number}/merge", body), bool, "merged")
        except GitHubError as error:
            if error.status == 409:
                return Merge(state=MergeState.MOVED, reason=str(error))
            if error.status != 405:
                raise
            # A merge that was done, and whose answer was lost, is refused when it is sent again.
            pull = self.get_pull(number)
            if not (pull.merged and pull.head_sha == head_sha):
                return Merge(state=MergeState.REFUSED, reason=str(error))
        return Merge(state=MergeState.MERGED)

    def close_pull(self, number: int) -> None:
        self.ask("PATCH", f"/pulls/{number}", {"state": "closed"})

    def label(self, number: int, *names: str) -> None:
        """Add labels to a pull request; those that it has stay."""
        self.ask("POST", f"/issues/{number}/labels", {"labels": list(names)})

    def unlabel(self, number: int, name: str) -> None:
        """Take a label from a pull request, if it has it."""
        try:
            self.ask("DELETE", f"/issues/{number}/labels/{_part(name)}")
        except GitHubError as error:
            if error.status != 404:
                raise

    # Files

    def tree_entry(self, sha: str, path: str) -> BlobInfo | None:
        """The file at a path of a commit, unread; None if there is none.  Links are not followed."""
        folder, _, name = path.rpartition("/")
        for entry in self._folder(sha, folder) if folder else self._tree(sha):
            if find(entry, str, "path") == name and find(entry, str, "type") == "blob":
                mode, size = require(entry, str, "mode"), require(entry, int, "size")
                return BlobInfo(path=path, sha=require_sha(entry, "sha"), mode=mode, size=size)
        return None

    def _folder(self, sha: str, folder: str) -> tuple[object, ...]:
        """The entries of a commit's folder; none where there is no such folder."""
        try:
            # As git writes it.  Not in GitHub's reference, but old, widely used, and one request for any depth.
            return self._tree(f"{sha}:{folder}")
        except GitHubError as error:
            if error.status not in (404, 422):
                raise
        for name in folder.split("/"):
            trees = [entry for entry in self._tree(sha) if find(entry, str, "path") == name]
            if not trees or find(trees[0], str, "type") != "tree":
                return ()
            sha = require_sha(trees[0], "sha")
        return self._tree(sha)

    def _tree(self, sha: str) -> tuple[object, ...]:
        answer = self.ask("GET", f"/git/trees/{_part(sha)}")
        if find(answer, bool, "truncated"):
            raise GitHubError(f"the folder {sha} holds more files than GitHub lists")
        return tuple(items(answer, "tree"))

    def read_blob(self, sha: str, max_bytes: int) -> bytes:
        """A file's content, whose hash is computed anew and is `sha`.

        Raises:
            GitHubError: larger than `max_bytes`, or of another hash.
        """
        answer = self.ask("GET", f"/git/blobs/{_part(sha)}")
        if require(answer, int, "size") > max_bytes:
            raise GitHubError(f"the blob {sha} is larger than {max_bytes} bytes")
        try:
            content = base64.b64decode(require(answer, str, "content"))
        except ValueError:
            raise GitHubError(f"GitHub's answer for the blob {sha} is not base64; try again") from None
        if blob_sha(content) != sha:
            raise GitHubError(f"GitHub's answer for the blob {sha} has another hash, {blob_sha(content)}; try again")
        return content

    # People

    def permission_of(self, account: Account) -> Permission:
        """What an account may do here; nothing, if its login belongs to another one by now."""
        try:
            answer = self.ask("GET", f"/collaborators/{_part(account.login)}/permission")
        except GitHubError as error:
            if error.status == 404:
                return Permission.NONE
            raise
        if find(answer, int, "user", "id") != account.id:
            return Permission.NONE
        word = require(answer, str, "permission")
        return Permission(word) if word in set(Permission) else Permission.NONE

    def find_account(self, login: str) -> Account | None:
        try:
            return Account.of(self.ask("GET", f"/users/{_part(login)}", is_elsewhere=True))
        except GitHubError as error:
            if error.status == 404:
                return None
            raise

    def whoami(self) -> Account:
        """The account of a personal token.  A workflow's own token may not ask: it is `ACTIONS_BOT`."""
        return Account.of(self.ask("GET", "/user", is_elsewhere=True))

    # Comments

    def comments(self, number: int) -> Iterator[Comment]:
        """The comments of a pull request, the oldest first; at most 1,000, asked for as they are read."""
        return map(Comment.of, self._pages(f"/issues/{number}/comments"))

    def recent_comments(self, since: datetime) -> Iterator[tuple[int, Comment]]:
        """What was written or edited since, in all pull requests and issues, the newest first; each with its number."""
        query = f"?since={_part(since.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}&sort=updated&direction=desc"
        for payload in self._pages(f"/issues/comments{query}"):
            number = require(payload, str, "issue_url").rpartition("/")[2]
            if number.isascii() and number.isdecimal():
                yield int(number), Comment.of(payload)

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """Our comment that holds the marker.  Anybody can write a marker: only `me` counts."""
        ours = (comment for comment in self.comments(number) if comment.author.id == self.me.id)
        return next((comment for comment in ours if marker in comment.body), None)

    def upsert_comment(self, number: int, marker: str, body: str, known: Comment | None = None) -> Comment:
        """Our one comment with the marker: written, edited, or left as it is.  `known` saves looking for it."""
        if marker not in body:
            raise ValueError(f"a comment without its marker {marker} would never be found again")
        comment = known or self.find_comment(number, marker)
        if comment is None:
            return self.comment(number, body)
        if comment.body == body:
            return comment
        return Comment.of(self.ask("PATCH", f"/issues/comments/{comment.id}", {"body": shorten(body, MAX_BODY)}))

    def comment(self, number: int, body: str) -> Comment:
        return Comment.of(self.ask("POST", f"/issues/{number}/comments", {"body": shorten(body, MAX_BODY)}))

    def react(self, comment_id: int, reaction: Reaction) -> None:
        self.ask("POST", f"/issues/comments/{comment_id}/reactions", {"content": reaction.value})

    # Checks

    def create_check(self, check: Check) -> int | None:
        """Say how a commit's check stands; its id, or None where the token allows only a commit status."""
        if self._may_check:
            try:
                body = {**check.body(), "head_sha": check.head_sha}
                return require(self.ask("POST", "/check-runs", body), int, "id")
            except GitHubError as error:
                # Check runs belong to GitHub's apps; a personal token may only set statuses.
                if error.status != 403 or isinstance(error, RateLimitError):
                    raise
                self._may_check = False
        self.ask("POST", f"/statuses/{_part(check.head_sha)}", check.status_body())
        return None

    def update_check(self, check_id: int, check: Check) -> None:
        self.ask("PATCH", f"/check-runs/{check_id}", check.body())

    def upsert_check(self, check: Check, check_id: int | None = None) -> int | None:
        """The commit's one check of that name: created or updated.  `check_id` saves looking for it."""
        check_id = check_id or self.find_check(check.head_sha, check.name)
        if check_id is None:
            return self.create_check(check)
        self.update_check(check_id, check)
        return check_id

    def find_check(self, head_sha: str, name: str) -> int | None:
        """The id of the newest check run of that name."""
        if not self._may_check:
            return None
        return max((check.id for check in self.checks(head_sha, name)), default=None)

    def checks(self, head_sha: str, name: str = "") -> tuple[CheckRun, ...]:
        query = f"?per_page={PER_PAGE}" + (f"&check_name={_part(name)}" if name else "")
        answer = self.ask("GET", f"/commits/{_part(head_sha)}/check-runs{query}")
        return tuple(map(CheckRun.of, items(answer, "check_runs")))

    # Actions

    def dispatch(self, workflow: str, inputs: dict[str, str], ref: str = "main") -> int | None:
        """Start a workflow by its file's name, `evaluate.yml`; the id of its run, if GitHub tells."""
        body = {"ref": ref, "inputs": inputs, "return_run_details": True}
        return find(self.ask("POST", f"/actions/workflows/{_part(workflow)}/dispatches", body), int, "workflow_run_id")

    def runs(self, workflow: str, *, status: str = "", created: str = "") -> tuple[WorkflowRun, ...]:
        """The newest 100 runs; `status` as `queued`, `created` as `>=2026-11-21T00:00:00Z`."""
        asked = {"status": status, "created": created}
        query = "".join(f"&{key}={_part(value)}" for key, value in asked.items() if value)
        answer = self.ask("GET", f"/actions/workflows/{_part(workflow)}/runs?per_page={PER_PAGE}{query}")
        return tuple(map(WorkflowRun.of, items(answer, "workflow_runs")))

    def get_run(self, run_id: int) -> WorkflowRun:
        return WorkflowRun.of(self.ask("GET", f"/actions/runs/{run_id}"))

    def cancel_run(self, run_id: int) -> None:
        """Stop a run, if it has not ended by itself."""
        try:
            self.ask("POST", f"/actions/runs/{run_id}/cancel")
        except GitHubError as error:
            if error.status != 409:
                raise

    def jobs(self, run_id: int) -> tuple[Job, ...]:
        answer = self.ask("GET", f"/actions/runs/{run_id}/jobs?per_page={PER_PAGE}")
        return tuple(map(Job.of, items(answer, "jobs")))

    def artifacts(self, run_id: int, name: str = "") -> tuple[Artifact, ...]:
        query = f"?per_page={PER_PAGE}" + (f"&name={_part(name)}" if name else "")
        answer = self.ask("GET", f"/actions/runs/{run_id}/artifacts{query}")
        return tuple(map(Artifact.of, items(answer, "artifacts")))

    def download_artifact(self, artifact_id: int, max_bytes: int, digest: str = "") -> bytes:
        """An artifact's zip, unopened; with `digest`, only one of that SHA-256."""
        _, location = self._send("GET", f"{self._root}/actions/artifacts/{artifact_id}/zip")
        content = self._fetch(location, max_bytes, f"the artifact {artifact_id}")
        if digest and hashlib.sha256(content).hexdigest() != digest:
            raise GitHubError(f"the artifact {artifact_id} is not the one that was made: its digest is not {digest}")
        return content

    def _fetch(self, url: str, max_bytes: int, what: str) -> bytes:
        """A file from GitHub's storage: another host, which must not see the token."""
        scheme = urlsplit(url).scheme
        if scheme != "https" and not (scheme == "http" and self._is_local):
            raise GitHubError(f"{what} cannot be downloaded: GitHub named no address for it")
        self.requests_made += 1
        try:
            with urllib.request.urlopen(url, timeout=self._timeout_s) as answer:  # noqa: S310  checked above
                content: bytes = answer.read(max_bytes + 1)
                promised = int(answer.headers.get("Content-Length") or len(content))
        except (OSError, HTTPException, ValueError) as error:
            status = error.code if isinstance(error, HTTPError) else None
            raise GitHubError(f"{what} cannot be downloaded ({_brief(error)}); try again", status) from None
        if max(promised, len(content)) > max_bytes:
            raise GitHubError(f"{what} is larger than {max_bytes} bytes")
        if len(content) < promised:
            raise GitHubError(f"{what} was cut off on its way; try again")
        return content

    # The wire

    def ask(self, method: str, path: str, body: object = None, *, is_elsewhere: bool = False) -> Any:
        """One request about the repository; what GitHub answers, as JSON.

        For what has no method here (`setup`'s many settings).  `is_elsewhere` is for paths of another root.

        Raises:
            GitHubError: no answer, a refusal, or no JSON.
        """
        return self._send(method, path if is_elsewhere else self._root + path, body)[0]

    @property
    def _root(self) -> str:
        return f"/repos/{self.repository}"

    def _pages(self, path: str) -> Iterator[object]:
        """The members of a list that comes in pages."""
        path += f"{'&' if '?' in path else '?'}per_page={PER_PAGE}"
        for page in range(1, MAX_PAGES + 1):
            members = list(items(self.ask("GET", f"{path}&page={page}")))
            yield from members
            if len(members) < PER_PAGE:
                return

    def _send(self, method: str, path: str, body: object = None) -> tuple[Any, str]:
        """The answer's JSON, and where it points with a redirect."""
        self.requests_made += 1
        what = f"{method} {path.partition('?')[0]}"
        try:
            headers, answer = self._github.requester.requestJsonAndCheck(method, path, input=body)
        except GitHubError:
            raise
        except github.GithubException as error:
            if isinstance(error, github.RateLimitExceededException) or error.status == 429:
                raise RateLimitError(f"{what}: GitHub's rate limit is reached; try again later", error.status) from None
            raise _refused(what, error) from None
        except Exception as error:
            # Not only its own errors: PyGithub trips over headers and bodies that it takes for granted.
            raise GitHubError(f"{what}: GitHub gave no proper answer ({_brief(error)}); try again") from None
        # PyGithub takes a page of HTML for an answer, too.
        if answer is not None and "json" not in str(headers.get("content-type", "")):
            raise GitHubError(f"{what}: GitHub gave no JSON; try again")
        return answer, str(headers.get("location", ""))


class _Patience(GithubRetry):
    """Which request is sent again, and after how long."""

    def __init__(self, owner: GitHub | None = None, patience_s: float = 60, **rest: Any) -> None:
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
        # What is refused for its rate was not done, so that even a POST may be sent again.
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
        again = super().increment(method, url, response, *rest, **named)  # type: ignore[arg-type]
        if self.owner:
            self.owner.requests_made += 1
        return again  # type: ignore[return-value]


def blob_sha(content: bytes) -> str:
    """The hash that git gives to a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _refused(what: str, error: github.GithubException) -> GitHubError:
    said = error.data.get("message") if isinstance(error.data, dict) else None
    reason = shorten(" ".join(plain(str(said or "")).split()), 300)
    parts = [f"{error.status} {reason}".strip(), _HINTS.get(error.status, "")]
    return GitHubError(f"{what}: GitHub refused ({'; '.join(filter(None, parts))})", error.status)


def _brief(error: Exception) -> str:
    return shorten(" ".join(plain(f"{type(error).__name__}: {error}").split()), 200)


def _part(text: str) -> str:
    """Text as one part of a URL, whatever it holds."""
    return quote(text, safe="")
