"""A client for GitHub's API with the types of `scripts/github/pulls.py`.

It does not read the contents of forks: `scripts/github/fork.py` does that through git.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from urllib.parse import quote

from scripts.common.text import shorten_markdown
from scripts.github import queries
from scripts.github.checks import Check, CheckRun
from scripts.github.pages import PagesSite
from scripts.github.pulls import (
    ACTIONS_BOT,
    PER_PAGE,
    Account,
    Artifact,
    ChangedFile,
    Comment,
    GitHubError,
    Job,
    MergeResult,
    MergeState,
    Permission,
    PullRequest,
    Push,
    RateLimitError,
    Reaction,
    WorkflowRun,
    find,
    items,
    require,
)
from scripts.github.wire import API, MAX_PAGES, AppKey, Wire

MAX_BODY = 65_536
"""Characters in a comment."""


class GitHub(Wire):
    """One repository on GitHub, accessed with one token; `ask` sends a request that has no method here.

    `me` is the token's account: only its comments and check runs are ours.  `patience_s` is the longest wait before a
    retry.
    """

    def __init__(
        self,
        repository: str,
        token: str | AppKey,
        api_url: str = API,
        *,
        me: Account = ACTIONS_BOT,
        timeout_s: int = 15,
        patience_s: float = 60,
    ) -> None:
        super().__init__(repository, token, api_url, timeout_s=timeout_s, patience_s=patience_s)
        self.me = me

    def is_me(self, account: Account) -> bool:
        """Whether an account is the token's.  A bot is known by its login: only bots have brackets in theirs."""
        return account.login == self.me.login if self.me.is_bot else account.id == self.me.id

    # Pull requests

    def get_pull(self, number: int) -> PullRequest:
        return PullRequest.of(queries.pull_in(self.query(queries.PULL, number=number)))

    def open_pulls(self) -> tuple[PullRequest, ...]:
        """Open pull requests, newest first; at most 1,000."""
        return tuple(map(PullRequest.of, self.pages("/pulls?state=open")))

    def closed_pulls(self) -> tuple[PullRequest, ...]:
        """The newest 100 merged or closed pull requests."""
        path = f"/pulls?state=closed&sort=created&direction=desc&per_page={PER_PAGE}"
        return tuple(map(PullRequest.of, items(self.ask("GET", path))))

    def changed_files(self, number: int) -> tuple[ChangedFile, ...]:
        """The first 100 files that a pull request changes."""
        return tuple(map(ChangedFile.of, items(self.ask("GET", f"/pulls/{number}/files?per_page={PER_PAGE}"))))

    def merge(self, number: int, head_sha: str, title: str, message: str) -> MergeResult:
        """Squash-merge a pull request, if its head is still `head_sha`."""
        body = {"sha": head_sha, "commit_title": title, "commit_message": message, "merge_method": "squash"}
        try:
            require(self.ask("PUT", f"/pulls/{number}/merge", body), bool, "merged")
        except GitHubError as error:
            if error.status == 409:
                return MergeResult(state=MergeState.MOVED, reason=str(error))
            if error.status == 403 and not isinstance(error, RateLimitError):
                return MergeResult(state=MergeState.FORBIDDEN, reason=str(error))
            if error.status != 405:
                raise
            # If a merge succeeded but its answer was lost, GitHub refuses the retry.
            pull = self.get_pull(number)
            if not (pull.merged and pull.head_sha == head_sha):
                return MergeResult(state=MergeState.REFUSED, reason=str(error))
        return MergeResult(state=MergeState.MERGED)

    def close_pull(self, number: int) -> None:
        self.ask("PATCH", f"/pulls/{number}", {"state": "closed"})

    # Branches

    def pushes(self, branch: str, since: datetime) -> tuple[Push, ...]:
        """The changes of a branch, newest first: at least 100, and all since a time, but no more than 1,000."""
        path = f"/activity?ref={_part(f'refs/heads/{branch}')}&per_page={PER_PAGE}"
        found: list[Push] = []
        for page in self.linked_pages(path):
            found += map(Push.of, page)
            if not found or found[-1].at < since:
                break
        return tuple(found)

    # People

    def permission_of(self, account: Account) -> Permission:
        """An account's permission; none if its login belongs to another account by now."""
        answer = self.look_up(f"/collaborators/{_part(account.login)}/permission")
        if find(answer, int, "user", "id") != account.id:
            return Permission.NONE
        word = require(answer, str, "permission")
        return Permission(word) if word in set(Permission) else Permission.NONE

    def find_account(self, login: str) -> Account | None:
        profile = self.look_up(f"/users/{_part(login)}", is_elsewhere=True)
        return None if profile is None else Account.of(profile)

    def joined_at(self, account: Account) -> datetime | None:
        """When an account was created; None if its login has no profile, or belongs to another account by now."""
        profile = self.look_up(f"/users/{_part(account.login)}", is_elsewhere=True)
        if profile is None or require(profile, int, "id") != account.id:
            return None
        return datetime.fromisoformat(require(profile, str, "created_at"))

    def whoami(self) -> Account:
        """The account of a personal token.  A workflow's token may not ask for it; its account is `ACTIONS_BOT`."""
        return Account.of(self.ask("GET", "/user", is_elsewhere=True))

    # Comments

    def comments(self, number: int) -> Iterator[Comment]:
        """Comments of a pull request, oldest first; at most 1,000, fetched lazily."""
        after: str | None = None
        for _ in range(MAX_PAGES):
            page, after = queries.comments_in(self.query(queries.COMMENTS, number=number, after=after))
            yield from map(Comment.of, page)
            if after is None:
                return

    def recent_comments(self, since: datetime) -> Iterator[tuple[int, Comment]]:
        """Comments written or edited since then on any pull request or issue, newest first, each with its number."""
        query = f"?since={_part(since.astimezone(UTC).strftime('%Y-%m-%dT%H:%M:%SZ'))}&sort=updated&direction=desc"
        for payload in self.pages(f"/issues/comments{query}"):
            number = require(payload, str, "issue_url").rpartition("/")[2]
            if number.isascii() and number.isdecimal():
                yield int(number), Comment.of(payload)

    def find_comment(self, number: int, marker: str) -> Comment | None:
        """Our comment that begins with the marker: elsewhere it may be a quotation, and others can write it, too."""
        ours = (comment for comment in self.comments(number) if self.is_me(comment.author))
        return next((comment for comment in ours if comment.body.startswith(marker)), None)

    def upsert_comment(self, number: int, marker: str, body: str, known: Comment | None = None) -> Comment:
        """Create our comment that begins with the marker, or edit it if it differs.  `known` saves a search."""
        if not body.startswith(marker):
            raise ValueError(f"the comment lacks its marker {marker}, by which it is found again")
        body, comment = _fitting(body), known or self.find_comment(number, marker)
        if comment is None:
            return self.comment(number, body)
        if comment.body == body:
            return comment
        return Comment.of(self.ask("PATCH", f"/issues/comments/{comment.id}", {"body": body}))

    def comment(self, number: int, body: str) -> Comment:
        return Comment.of(self.ask("POST", f"/issues/{number}/comments", {"body": _fitting(body)}))

    def react(self, comment_id: int, reaction: Reaction) -> None:
        self.ask("POST", f"/issues/comments/{comment_id}/reactions", {"content": reaction.value})

    # Checks

    def create_check(self, check: Check) -> int:
        """Create a check run and return its id."""
        return require(self.ask("POST", "/check-runs", {**check.body(), "head_sha": check.head_sha}), int, "id")

    def update_check(self, check_id: int, check: Check) -> None:
        self.ask("PATCH", f"/check-runs/{check_id}", check.body())

    def upsert_check(self, check: Check) -> int:
        """Update our check run of that name and commit, or create one; returns its id.

        GitHub never changes the conclusion of a completed check run: another one needs a new check run.
        """
        known = self.find_check(check.head_sha, check.name)
        if not known or (known.state.is_done and known.state is not check.state):
            return self.create_check(check)
        self.update_check(known.id, check)
        return known.id

    def find_check(self, head_sha: str, name: str) -> CheckRun | None:
        """Our newest check run of that name: GitHub lets only the App that created one update it."""
        ours = [one for one in self.checks(head_sha, name) if f"{one.app_slug}[bot]" == self.me.login]
        return ours[-1] if ours else None

    def checks(self, head_sha: str, name: str = "") -> tuple[CheckRun, ...]:
        """A commit's check runs, oldest first and with older ones of a name; none if the commit is gone."""
        query = "?filter=all" + (f"&check_name={_part(name)}" if name else "")
        try:
            runs = list(map(CheckRun.of, self.pages(f"/commits/{_part(head_sha)}/check-runs{query}", "check_runs")))
        except GitHubError as error:
            if error.is_of_no_commit:
                return ()
            raise
        return tuple(sorted(runs, key=lambda one: one.id))

    # Pages

    def find_pages(self) -> PagesSite | None:
        """The repository's site; None if Pages is off."""
        site = self.look_up("/pages")
        if site is None:
            return None
        return PagesSite(
            build_type=find(site, str, "build_type") or "legacy", address=find(site, str, "html_url") or ""
        )

    # Actions

    def dispatch(self, workflow: str, inputs: dict[str, str], ref: str = "main") -> int | None:
        """Start a workflow by its file name, `evaluate.yml`; return its run's id, if GitHub sends it."""
        body = {"ref": ref, "inputs": inputs, "return_run_details": True}
        return find(self.ask("POST", f"/actions/workflows/{_part(workflow)}/dispatches", body), int, "workflow_run_id")

    def runs(self, workflow: str, *, status: str = "") -> tuple[WorkflowRun, ...]:
        """The newest 100 runs, optionally of one `status`, such as `queued`."""
        return tuple(islice(self.all_runs(workflow, status=status), PER_PAGE))

    def all_runs(self, workflow: str, *, status: str = "", created: str = "") -> Iterator[WorkflowRun]:
        """The runs, newest first, fetched lazily; at most 1,000.

        Args:
            status: such as `queued`.
            created: a range of times: `2026-11-21T00:00:00Z..2026-11-22T00:00:00Z`.
        """
        asked = {"status": status, "created": created}
        query = "&".join(f"{key}={_part(value)}" for key, value in asked.items() if value)
        path = f"/actions/workflows/{_part(workflow)}/runs" + (f"?{query}" if query else "")
        return map(WorkflowRun.of, self.pages(path, "workflow_runs"))

    def cancel_run(self, run_id: int) -> None:
        """Cancel a run, unless it has ended."""
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
        """Download an artifact's zip; with `digest`, check its SHA-256."""
        content = self.download(f"/actions/artifacts/{artifact_id}/zip", max_bytes, f"artifact {artifact_id}")
        if digest and hashlib.sha256(content).hexdigest() != digest:
            raise GitHubError(f"artifact {artifact_id} does not match its digest {digest}")
        return content


def _fitting(body: str) -> str:
    return shorten_markdown(body, MAX_BODY, "GitHub takes no more in a comment. The rest is on the run's page.")


def _part(text: str) -> str:
    """Escape text for one part of a URL."""
    return quote(text, safe="")
