"""The kinds of settings of a repository, and how to check and set each.

    look     list what is wrong with the setting; empty if it is right
    mend     set it, and keep what an organiser added, if it is safe

`wanted` decides, `scripts.github.admin` sends requests, `repository_settings` lists all settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from scripts.github.admin import Admin, Hidden, Json
from scripts.ledger.branch import LedgerBranch
from scripts.setup.wanted import (
    LABELS,
    LEDGER,
    MAIN,
    SELECTED_ACTIONS,
    SITE,
    find_differences,
    find_environment_faults,
    find_idle,
    find_policy,
    find_policy_faults,
    find_ruleset_faults,
    find_workflow_faults,
    mend_actions,
    mend_environment,
    mend_policy,
    mend_ruleset,
    mend_selected,
)

PERMISSIONS = "/actions/permissions"
SELECTED = "/actions/permissions/selected-actions"


@dataclass(frozen=True, kw_only=True)
class Setting(ABC):
    """A setting.  `right` is the permission, read and write, that a fine-grained token needs."""

    name: str
    must: str
    right: str = "Administration"
    clicks: str

    @abstractmethod
    def look(self, admin: Admin) -> list[str]: ...

    @abstractmethod
    def mend(self, admin: Admin) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Fields(Setting):
    """Fields of one JSON object."""

    path: str
    wanted: Json
    method: str = "PUT"

    def look(self, admin: Admin) -> list[str]:
        seen = admin.read(self.path)
        if not self.wanted.keys() <= seen.keys():
            raise Hidden(f"GitHub does not show {', '.join(self.wanted)} to this account")
        return find_differences(seen, self.wanted)

    def mend(self, admin: Admin) -> None:
        admin.write(self.method, self.path, self.wanted)


class Branch(Setting):
    """The default branch, which only people rename."""

    def look(self, admin: Admin) -> list[str]:
        return [] if admin.default_branch == MAIN else [f"it is '{admin.default_branch}'"]

    def mend(self, admin: Admin) -> None:
        """Do nothing: a rename would affect others' clones and pull requests."""


class Workflows(Setting):
    def look(self, admin: Admin) -> list[str]:
        return find_workflow_faults(admin.workflows())

    def mend(self, admin: Admin) -> None:
        for name in find_idle(admin.workflows()):
            admin.write("PUT", f"/actions/workflows/{name}/enable")


class Actions(Setting):
    """Which actions may run.  GitHub lists the selected ones only if the policy is 'selected'."""

    def look(self, admin: Admin) -> list[str]:
        seen = admin.read(PERMISSIONS)
        return find_differences(seen, mend_actions(seen)) or find_differences(admin.read(SELECTED), SELECTED_ACTIONS)

    def mend(self, admin: Admin) -> None:
        # Twice: while Actions are off, GitHub omits their other fields.
        for _ in range(2):
            seen = admin.read(PERMISSIONS)
            if find_differences(seen, mend_actions(seen)):
                admin.write("PUT", PERMISSIONS, mend_actions(seen))
        if find_differences(selected := admin.read(SELECTED), SELECTED_ACTIONS):
            admin.write("PUT", SELECTED, mend_selected(selected))


class Labels(Setting):
    def look(self, admin: Admin) -> list[str]:
        missing = self._missing(admin)
        return [f"there is no label {', '.join(missing)}"] if missing else []

    def mend(self, admin: Admin) -> None:
        for name in self._missing(admin):
            colour, description = LABELS[name]
            admin.write("POST", "/labels", {"name": name, "color": colour, "description": description})

    def _missing(self, admin: Admin) -> list[str]:
        return [name for name in LABELS if admin.find(f"/labels/{quote(name, safe='')}") is None]


@dataclass(frozen=True, kw_only=True)
class LedgerSetting(Setting):
    """The orphan branch."""

    open_ledger: Callable[[], LedgerBranch]

    def look(self, admin: Admin) -> list[str]:
        return [] if admin.find(f"/git/ref/heads/{LEDGER}") else [f"there is no branch '{LEDGER}'"]

    def mend(self, admin: Admin) -> None:  # noqa: ARG002  git does it
        with self.open_ledger() as branch:
            branch.commit("Begin the ledger")


@dataclass(frozen=True, kw_only=True)
class Ruleset(Setting):
    wanted: Json

    def look(self, admin: Admin) -> list[str]:
        return find_ruleset_faults(admin.find_ruleset(self.wanted["name"]), self.wanted)

    def mend(self, admin: Admin) -> None:
        seen = admin.find_ruleset(self.wanted["name"])
        method, path = ("PUT", f"/rulesets/{seen['id']}") if seen else ("POST", "/rulesets")
        admin.write(method, path, mend_ruleset(seen, self.wanted))


class Policy(Setting):
    """The Actions policy: which events may start a workflow."""

    def look(self, admin: Admin) -> list[str]:
        return find_policy_faults(admin.policies())

    def mend(self, admin: Admin) -> None:
        seen = find_policy(admin.policies())
        method, path = ("PUT", f"/actions/policies/{seen['id']}") if seen else ("POST", "/actions/policies")
        admin.write(method, path, mend_policy(seen))


@dataclass(frozen=True, kw_only=True)
class Environment(Setting):
    """An environment of workflows.  If it `is_shared`, organisers may add branches to it."""

    environment: str
    is_shared: bool

    @property
    def path(self) -> str:
        return f"/environments/{quote(self.environment, safe='')}"

    def look(self, admin: Admin) -> list[str]:
        seen = admin.find(self.path)
        has_branches = bool(seen and (seen.get("deployment_branch_policy") or {}).get("custom_branch_policies"))
        branches = admin.branches_of(self.environment) if has_branches else ()
        return find_environment_faults(seen, branches, is_shared=self.is_shared)

    def mend(self, admin: Admin) -> None:
        seen = admin.find(self.path)
        if find_environment_faults(seen, (MAIN,)):
            admin.write("PUT", self.path, mend_environment(seen))
        if MAIN not in admin.branches_of(self.environment):
            admin.write("POST", f"{self.path}/deployment-branch-policies", {"name": MAIN, "type": "branch"})


class Pages(Setting):
    """GitHub Pages, which serve the leaderboard."""

    def look(self, admin: Admin) -> list[str]:
        seen = admin.find("/pages")
        return ["there is no site"] if seen is None else find_differences(seen, SITE)

    def mend(self, admin: Admin) -> None:
        admin.write("PUT" if admin.find("/pages") else "POST", "/pages", SITE)


@dataclass(frozen=True, kw_only=True)
class Switch(Setting):
    """A setting that is on or off."""

    path: str

    def look(self, admin: Admin) -> list[str]:
        return find_differences(admin.read(self.path), {"enabled": True})

    def mend(self, admin: Admin) -> None:
        admin.write("PUT", self.path)
