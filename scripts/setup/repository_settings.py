"""All settings of a competition's repository: required state, token permission, and where to click.

They are in the order in which they are set; `scripts/setup/kinds.py` sets them.
"""

from __future__ import annotations

from collections.abc import Callable

from scripts.ledger.branch import LedgerBranch
from scripts.setup.kinds import (
    Actions,
    Branch,
    Environment,
    Fields,
    Labels,
    LedgerSetting,
    Pages,
    Policy,
    Ruleset,
    Setting,
    Switch,
    Workflows,
)
from scripts.setup.wanted import (
    EVENTS,
    LABELS,
    LEDGER,
    LEDGER_RULESET,
    MAIN,
    MAIN_RULESET,
    POLICY,
    WORKFLOWS,
)

PAGES = "site"

BOT_NAME = "bot"
"""The environment with a GitHub App's key; the workflows that talk to GitHub name it."""

_GENERAL = "Settings → Actions → General"
_NEW_RULESET = "Settings → Rules → Rulesets → New branch ruleset"


def settings_for(open_ledger: Callable[[], LedgerBranch], *, is_public: bool) -> list[Setting]:
    """All settings, in order.  `open_ledger` returns a working copy of the ledger's branch that can push."""
    return [
        Branch(
            name="default branch",
            must=f"is called {MAIN}",
            clicks=f"Settings → General → Default branch: rename it to {MAIN}",
        ),
        Fields(
            name="merging",
            must="squash merging is allowed, which the bot needs; pull requests show Update branch",
            clicks="Settings → General → Pull Requests: tick Allow squash merging and Always suggest updating pull "
            "request branches",
            path="",
            wanted={"allow_squash_merge": True, "allow_update_branch": True},
            method="PATCH",
        ),
        Labels(
            name="labels",
            must=", ".join(LABELS),
            right="Issues",
            clicks="Issues → Labels → New label, for each of them",
        ),
        LedgerSetting(
            name="ledger",
            must=f"the branch {LEDGER} exists, with its own history",
            right="Contents",
            clicks="nothing to do: the first judging creates it",
            open_ledger=open_ledger,
        ),
        Workflows(
            name="workflows",
            must=f"{', '.join(WORKFLOWS)} run",
            right="Actions",
            clicks="Actions → the workflow → Enable workflow",
        ),
        Actions(
            name="actions",
            must="only GitHub's and this repository's are allowed, by full hashes",
            clicks=f"{_GENERAL} → Actions permissions: Allow OWNER, and select non-OWNER, actions; Allow actions "
            "created by GitHub; Require actions to be pinned to a full-length commit SHA → Save",
        ),
        Fields(
            name="workflow token",
            must="read-only by default; cannot approve pull requests",
            clicks=f"{_GENERAL} → Workflow permissions: Read repository contents and packages permissions; untick "
            "Allow GitHub Actions to create and approve pull requests → Save",
            path="/actions/permissions/workflow",
            wanted={"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False},
        ),
        # Private repositories do not run workflows of forks, and GitHub blocks none of their events.
        *(_OF_PUBLIC if is_public else ()),
        Ruleset(
            name="rules of main",
            must="pull requests only, with the code owners' approval; no force push, no deletion",
            clicks=f"{_NEW_RULESET}: {MAIN_RULESET['name']}, Active, bypass: Repository admin, target: the default "
            "branch; Restrict deletions; Block force pushes; Require a pull request before merging: 0 approvals, "
            "review from Code Owners → Create",
            wanted=MAIN_RULESET,
        ),
        Ruleset(
            name="rules of ledger",
            must="no force push, no deletion, for anybody",
            clicks=f"{_NEW_RULESET}: {LEDGER_RULESET['name']}, Active, target: {LEDGER}; Restrict deletions; Block "
            "force pushes → Create",
            wanted=LEDGER_RULESET,
        ),
        # GitHub's own environment of its Pages; publish.yml, review.yml and evaluate.yml name the others.
        _environment("environment", "github-pages", f"only {MAIN} and branches that you add may deploy"),
        _environment("announcements", "announce", f"only {MAIN} can use its secrets, the webhooks", is_new=True),
        _environment("review", "review", f"only {MAIN} can use its secret, a language model's key", is_new=True),
        _environment("bot", BOT_NAME, f"only {MAIN} can use its secret, the key of a GitHub App", is_new=True),
        Pages(
            name=PAGES,
            must="GitHub Pages, deployed by publish.yml",
            right="Pages or Administration",
            clicks="Settings → Pages → Build and deployment → Source: GitHub Actions",
        ),
    ]


_OF_PUBLIC: tuple[Setting, ...] = (
    Fields(
        name="approval",
        must="a maintainer must approve workflows of all external contributors",
        clicks=f"{_GENERAL} → Approval for running fork pull request workflows: Require approval for all external "
        "contributors → Save",
        path="/actions/permissions/fork-pr-contributor-approval",
        wanted={"approval_policy": "all_external_contributors"},
    ),
    Policy(
        name="event policy",
        must=f"'{POLICY}' allows {', '.join(EVENTS)} to start workflows, but not pull_request",
        clicks=f"Settings → Actions → Policies → New policy: {POLICY}, Active, all workflows; Restrict events: "
        f"{', '.join(EVENTS)} → Create",
    ),
    Switch(
        name="reporting",
        must="private vulnerability reporting is on, as SECURITY.md promises",
        clicks="Settings → Advanced Security → Private vulnerability reporting: Enable",
        path="/private-vulnerability-reporting",
    ),
)


def _environment(name: str, environment: str, what: str, *, is_new: bool = False) -> Environment:
    """An environment for `main`; one that `is_new` is not in GitHub's list of environments yet."""
    place = f"New environment: {environment}" if is_new else environment
    return Environment(
        name=name,
        must=f"{environment}: {what}",
        right="Actions or Administration",
        clicks=f"Settings → Environments → {place} → Deployment branches and tags: Selected branches and tags → Add: "
        f"{MAIN}",
        environment=environment,
        is_shared=not is_new,
    )
