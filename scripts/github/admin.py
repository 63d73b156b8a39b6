"""Read and write a repository's settings through the REST API, for `pullrank setup`.

    refused because the account is no admin or its token lacks the right   Hidden
    refused because GitHub's plan does not include it                      NotInPlan
    404 for an admin                                                       the setting does not exist: None, except for
                                                                           the policies, which GitHub hides: Unclear

Answers are GitHub's own JSON; `scripts/setup/wanted.py` decides what they should be.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from scripts.github.pulls import GitHubError, RateLimitError, find, items, require

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

Json = dict[str, Any]
"""An unchanged answer of the REST API."""
_PLAN = re.compile(r"\bupgrade\b|\b(your|current|billing) plan\b", re.IGNORECASE)


class Hidden(GitHubError):
    """The account or its token may not see or change a setting."""


class Unclear(GitHubError):
    """GitHub answers in the same way whether a setting does not exist or the token may not see it."""


class NotInPlan(GitHubError):
    """GitHub offers the setting for public repositories or paid plans only."""


class Admin:
    """A repository as its administrator sees it."""

    def __init__(self, github: GitHub) -> None:
        self.github = github
        self.repository: Json = require(github.ask("GET", ""), dict)

    @property
    def is_admin(self) -> bool:
        """Whether the account is an admin; its token may still lack rights."""
        return find(self.repository, bool, "permissions", "admin") is True

    @property
    def is_public(self) -> bool:
        return require(self.repository, bool, "private") is False

    @property
    def default_branch(self) -> str:
        return require(self.repository, str, "default_branch")

    def find(self, path: str) -> Any | None:
        """GET a path; None if there is nothing.

        Raises:
            Hidden, NotInPlan: this account cannot see it.
        """
        try:
            return self.github.ask("GET", path)
        except GitHubError as error:
            if error.status == 404 and self.is_admin:
                return None
            raise _explained(error) from None

    def read(self, path: str) -> Json:
        """GET a path that must have a JSON object."""
        answer = self.find(path)
        if answer is None:
            raise GitHubError(f"GET {path}: GitHub knows no such setting of {self.github.repository}", 404)
        return require(answer, dict)

    def write(self, method: str, path: str, body: object = None) -> None:
        try:
            self.github.ask(method, path, body)
        except GitHubError as error:
            raise _explained(error) from None

    # Settings that take more than one request.

    def workflows(self) -> dict[str, str]:
        """Workflow states by file name."""
        found = items(self.read("/actions/workflows?per_page=100"), "workflows")
        return {require(one, str, "path").rpartition("/")[2]: require(one, str, "state") for one in found}

    def find_ruleset(self, name: str) -> Json | None:
        """The repository's own ruleset of that name, in full."""
        for one in items(self.find("/rulesets?per_page=100")):
            # Leave an organisation's ruleset of the same name alone.
            if find(one, str, "name") == name and find(one, str, "source_type") in (None, "Repository"):
                return self.read(f"/rulesets/{require(one, int, 'id')}")
        return None

    def policies(self) -> list[Json]:
        """All policies for the repository's workflows, in full.

        Raises:
            Unclear: GitHub has none, or hides them from this token.
        """
        found = self.find("/actions/policies?per_page=100")
        if found is None:
            raise Unclear(
                "GitHub answers 404, which means that it has no policies here or that the token lacks the permission "
                "Administration: look at the page",
                404,
            )
        return [self._whole_policy(require(one, dict)) for one in items(found, "policies")]

    def _whole_policy(self, policy: Json) -> Json:
        """Lists may omit rules.  An organisation's policies are available in lists only."""
        is_own = policy.get("source_type", "Repository") == "Repository"
        return self.read(f"/actions/policies/{require(policy, int, 'id')}") if is_own else policy

    def branches_of(self, environment: str) -> list[str]:
        """Patterns of branches that may deploy to an environment."""
        path = f"/environments/{quote(environment, safe='')}/deployment-branch-policies?per_page=100"
        return [require(one, str, "name") for one in items(self.read(path), "branch_policies")]


def _explained(error: GitHubError) -> GitHubError:
    """Turn a refusal into the error for its reason."""
    if isinstance(error, RateLimitError) or error.status not in (403, 404, 422):
        return error
    if _PLAN.search(str(error)):
        return NotInPlan(str(error), error.status)
    return error if error.status == 422 else Hidden(str(error), error.status)
