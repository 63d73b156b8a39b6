"""Fork, commit one file and open a pull request with a participant's own token.

    a repository that they may push to     a branch there
    any other repository                   a fork, synced with upstream, and a branch there

Nothing is cloned.  Apart from syncing its default branch, only one branch of the fork changes.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import AliasPath, Field

from harness.records.errors import PullRankError
from harness.records.fields import Sha
from scripts.github.pulls import (
    Account,
    FromGitHub,
    GitHubError,
    OrEmpty,
    OrFalse,
    RateLimitError,
    find,
    items,
    require,
    require_sha,
)

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

FORK_S = 60.0
"""The longest wait for a new fork to become writable."""

_NO_DRAFTS = "not supported in this repository"
"""In GitHub's error message where its plan has no drafts, as for some private repositories."""
_BY_HAND = "the page for participants describes how to open the pull request by hand"

_READY = """mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { clientMutationId } }"""
_DRAFT = """mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { clientMutationId } }"""


class ContributeError(PullRankError):
    """GitHub does not let this account do it; the message says what to do."""


class _OwnPull(FromGitHub):
    """A pull request of this author's."""

    number: int
    url: str = Field(validation_alias="html_url")
    head_sha: Sha = Field(validation_alias=AliasPath("head", "sha"))
    repository: OrEmpty = Field(default="", validation_alias=AliasPath("head", "repo", "full_name"))
    branch: str = Field(validation_alias=AliasPath("head", "ref"))
    is_draft: OrFalse = Field(default=False, validation_alias="draft")


class _Pull(_OwnPull):
    node_id: str


class Sent(_OwnPull):
    """A pull request that was opened or found; `pushed` is false if its head already had the file."""

    pushed: bool
    opened: bool


class Contributor:
    """An account that contributes to a repository.  `me` is the token's account."""

    def __init__(self, github: GitHub) -> None:
        self._github = github
        with explaining(github.repository):
            self.me: Account = github.whoami()
            self._upstream = require(github.ask("GET", ""), dict)
        self._name = require(self._upstream, str, "full_name")
        if source := find(self._upstream, str, "source", "full_name"):
            raise ContributeError(f"{self._name} is a fork of {source}, where the competition is: add --repo {source}")
        self.default_branch = require(self._upstream, str, "default_branch")

    def files_of(self, folder: str, branch: str = "") -> dict[str, str]:
        """Blob hashes by path of the files in a folder of a branch, by default the default branch.

        Empty if the branch or the folder does not exist.
        """
        place = quote(f"{branch or self.default_branch}:{folder}", safe="")
        with explaining(self._name):
            answer = self._github.look_up(f"/git/trees/{place}?recursive=1")
        if answer is None:
            return {}
        return {
            require(one, str, "path"): require(one, str, "sha")
            for one in items(answer, "tree")
            if find(one, str, "type") == "blob"
        }

    def content_of(self, sha: str) -> bytes:
        """The content of one of these files."""
        with explaining(self._name):
            return base64.b64decode(require(self._github.ask("GET", f"/git/blobs/{sha}"), str, "content"))

    def send(self, path: str, source: bytes, *, branch: str, title: str, draft: bool) -> Sent:
        """Commit a file to this author's open pull request for it, or open one.

        Raises:
            ContributeError: the account or its token lacks a right; the message says what to do.
            GitHubError: a temporary failure.
        """
        with explaining(self._name):
            pull = self._find_pull(path, branch)
            return self._update(pull, path, source, draft) if pull else self._open(path, source, branch, title, draft)

    # An open pull request.

    def _find_pull(self, path: str, branch: str) -> _Pull | None:
        """This author's open pull request for this file, whether the command or the author opened it."""
        pulls = self._github.pages("/pulls?state=open")
        mine = [_Pull.of(one) for one in pulls if find(one, int, "user", "id") == self.me.id]
        ours = [pull for pull in mine if pull.branch == branch]
        for pull in (*ours, *mine):
            if pull.repository and path in [file.path for file in self._github.changed_files(pull.number)]:
                return pull
        return None

    def _update(self, pull: _Pull, path: str, source: bytes, draft: bool) -> Sent:
        """Add a commit unless the head already has the file, and set whether the pull request is a draft.

        It becomes a draft before the commit arrives, which would be ranked otherwise, and ready after it.
        """
        head = self._commit(pull.repository, pull.head_sha, path, source)
        if draft and not pull.is_draft:
            self._mark(pull, draft)
        if head != pull.head_sha:
            self._move(pull.repository, pull.branch, head, force=False)
        if pull.is_draft and not draft:
            self._mark(pull, draft)
        return self._sent(pull, head, draft=draft, opened=False)

    def _mark(self, pull: _Pull, draft: bool) -> None:
        """Set or clear draft state, which only the GraphQL API can do."""
        answer = self._github.mutate(_DRAFT if draft else _READY, id=pull.node_id)
        if find(answer, list, "errors"):
            if _NO_DRAFTS in str(answer):
                raise ContributeError(_without_drafts(self._name))
            word = "a draft" if draft else "ready for review"
            raise ContributeError(f"{pull.url} could not be marked as {word}; do it there, then run this again")

    # A new pull request.

    def _open(self, path: str, source: bytes, branch: str, title: str, draft: bool) -> Sent:
        repository = self._writable()
        base = self._tip(repository, self.default_branch)
        head = self._commit(repository, base, path, source)
        if head == base:
            raise ContributeError(
                f"{self._name} already has this file at {path}: nothing to submit. Comment `/rerun` on its pull "
                "request to have it judged again"
            )
        self._put_branch(repository, branch, head)
        body = {
            "title": title,
            "head": f"{repository.partition('/')[0]}:{branch}",
            "base": self.default_branch,
            "body": "",
            "draft": draft,
        }
        pull = _Pull.of(self._github.ask("POST", "/pulls", body))
        return self._sent(pull, head, draft=draft, opened=True)

    def _sent(self, pull: _Pull, head: str, *, draft: bool, opened: bool) -> Sent:
        pushed = opened or head != pull.head_sha
        changes = {"head_sha": head, "is_draft": draft, "pushed": pushed, "opened": opened}
        return Sent(**pull.model_dump(exclude={"node_id"}) | changes)

    def _writable(self) -> str:
        """The repository itself if this account may push to it; else its fork, synced with upstream."""
        if find(self._upstream, bool, "permissions", "push"):
            return self._name
        fork = require(self._github.ask("POST", "/forks", {"default_branch_only": True}), str, "full_name")
        self._wait_for(fork)
        try:
            self._ask("POST", fork, "/merge-upstream", {"branch": self.default_branch})
        except GitHubError as error:
            if error.status not in (409, 422):
                raise
            raise ContributeError(
                f"your fork {fork} cannot be synced: its branch {self.default_branch} has commits of its "
                "own, or the token may not change workflows. On the fork's page: Sync fork → Discard commits"
            ) from None
        return fork

    def _wait_for(self, fork: str) -> None:
        """Wait until the fork can be read: GitHub creates it in the background."""
        until = time.monotonic() + FORK_S
        while True:
            try:
                self._tip(fork, self.default_branch)
                return
            except GitHubError as error:
                if error.status not in (404, 409) or time.monotonic() > until:
                    raise
            time.sleep(1)

    def _put_branch(self, repository: str, branch: str, head: str) -> None:
        """Create the branch, or reset it if an earlier, closed pull request left it behind."""
        try:
            self._ask("POST", repository, "/git/refs", {"ref": f"refs/heads/{branch}", "sha": head})
        except GitHubError as error:
            if error.status != 422 or "already exists" not in str(error):
                raise
            self._move(repository, branch, head, force=True)

    # git, through the API.

    def _tip(self, repository: str, branch: str) -> str:
        return require_sha(self._ask("GET", repository, f"/git/ref/heads/{quote(branch)}"), "object", "sha")

    def _move(self, repository: str, branch: str, head: str, *, force: bool) -> None:
        body = {"sha": head, "force": force}
        self._ask("PATCH", repository, f"/git/refs/heads/{quote(branch)}", body)

    def _commit(self, repository: str, parent: str, path: str, source: bytes) -> str:
        """Create a commit that adds or changes one file; the parent itself if it already has that content."""
        tree = require_sha(self._ask("GET", repository, f"/git/commits/{parent}"), "tree", "sha")
        content = {"content": base64.b64encode(source).decode(), "encoding": "base64"}
        blob = require_sha(self._ask("POST", repository, "/git/blobs", content), "sha")
        entry = {"path": path, "mode": "100644", "type": "blob", "sha": blob}
        made = self._ask("POST", repository, "/git/trees", {"base_tree": tree, "tree": [entry]})
        if require_sha(made, "sha") == tree:
            return parent
        body = {"message": path.split("/")[1], "tree": require_sha(made, "sha"), "parents": [parent]}
        return require_sha(self._ask("POST", repository, "/git/commits", body), "sha")

    def _ask(self, method: str, repository: str, path: str, body: object = None) -> Any:
        return self._github.ask(method, f"/repos/{repository}{path}", body, is_elsewhere=True)


@contextmanager
def explaining(repository: str) -> Iterator[None]:
    """Turn refusals into advice."""
    try:
        yield
    except GitHubError as error:
        raise _explained(error, repository) from None


def _explained(error: GitHubError, repository: str) -> PullRankError:
    if isinstance(error, RateLimitError):
        return error
    match error.status:
        case 401:
            return ContributeError("GitHub rejects this token: sign in again with `gh auth login`")
        case 403:
            return ContributeError(
                f"the token lacks a right ({error}). `gh auth refresh --scopes repo,workflow` adds it to gh's token; "
                "a classic token in GH_TOKEN needs `public_repo` and `workflow`. A fine-grained token can open pull "
                "requests only in repositories of its owner"
            )
        case 404:
            return ContributeError(
                f"there is no repository {repository}, or the token may not read it or write to it; check the name "
                "and `gh auth status`"
            )
        case 422 if _NO_DRAFTS in str(error):
            return ContributeError(_without_drafts(repository))
        case 422:
            return ContributeError(f"GitHub refuses it, and will refuse it again ({error}); {_BY_HAND}")
    return error


def _without_drafts(repository: str) -> str:
    return (
        f"{repository} has no draft pull requests: GitHub's plan does not include them. Leave out --draft to submit a "
        "ranked entry; or comment `/benchmark` on an open pull request of this task, which does not rank"
    )
