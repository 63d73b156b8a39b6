"""All settings of a competition's repository: required state, token permission, and where to click.

They are in the order in which they are set; `scripts/setup/kinds.py` sets them.
"""

from __future__ import annotations

from collections.abc import Callable

from scripts.ledger.branch import LedgerBranch
from scripts.setup.kinds import (
    About,
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
_ENVIRONMENT_NAME = "github-pages"
"""GitHub's name for the environment of its Pages."""

_ANNOUNCE_NAME = "announce"
"""The environment with the webhook secrets; publish.yml names it."""

_REVIEW_NAME = "review"
"""The environment with the key of the language model that reads held submissions; evaluate.yml names it."""

BOT_NAME = "bot"
"""The environment with a GitHub App's key; the workflows that talk to GitHub name it."""


def settings_for(open_ledger: Callable[[], LedgerBranch], *, is_public: bool) -> list[Setting]:
    """All settings, in order.  `open_ledger` returns a working copy of the ledger's branch that can push."""
    # Private repositories do not run workflows of forks, and GitHub blocks none of their events.
    of_public: list[Setting] = [_APPROVAL, _POLICY, _REPORTING] if is_public else []
    ledger = LedgerSetting(about=_LEDGER, open_ledger=open_ledger)
    actions: list[Setting] = [_WORKFLOWS, _ACTIONS, _TOKEN, *of_public]
    places: list[Setting] = [_ENVIRONMENT, _ANNOUNCE, _REVIEW, _BOT, _PAGES]
    return [_BRANCH, _MERGES, _LABELS, ledger, *actions, _MAIN_RULESET, _LEDGER_RULESET, *places]


_GENERAL = "Settings → Actions → General"

_BRANCH = Branch(
    about=About(
        name="default branch",
        must=f"is called {MAIN}",
        right="Administration",
        clicks=f"Settings → General → Default branch: rename it to {MAIN}",
    )
)
_MERGES = Fields(
    about=About(
        name="merging",
        must="squash merging is allowed, which the bot needs; pull requests show Update branch",
        right="Administration",
        clicks="Settings → General → Pull Requests: tick Allow squash merging and Always suggest updating pull request "
        "branches",
    ),
    path="",
    wanted={"allow_squash_merge": True, "allow_update_branch": True},
    method="PATCH",
)
_LABELS = Labels(
    about=About(
        name="labels", must=", ".join(LABELS), right="Issues", clicks="Issues → Labels → New label, for each of them"
    )
)
_LEDGER = About(
    name="ledger",
    must=f"the branch {LEDGER} exists, with its own history",
    right="Contents",
    clicks="nothing to do: the first judging creates it",
)
_WORKFLOWS = Workflows(
    about=About(
        name="workflows",
        must=f"{', '.join(WORKFLOWS)} run",
        right="Actions",
        clicks="Actions → the workflow → Enable workflow",
    )
)
_ACTIONS = Actions(
    about=About(
        name="actions",
        must="only GitHub's and this repository's are allowed, by full hashes",
        right="Administration",
        clicks=f"{_GENERAL} → Actions permissions: Allow OWNER, and select non-OWNER, actions; Allow actions created "
        "by GitHub; Require actions to be pinned to a full-length commit SHA → Save",
    ),
)
_TOKEN = Fields(
    about=About(
        name="workflow token",
        must="read-only by default; cannot approve pull requests",
        right="Administration",
        clicks=f"{_GENERAL} → Workflow permissions: Read repository contents and packages permissions; untick "
        "Allow GitHub Actions to create and approve pull requests → Save",
    ),
    path="/actions/permissions/workflow",
    wanted={"default_workflow_permissions": "read", "can_approve_pull_request_reviews": False},
)
_APPROVAL = Fields(
    about=About(
        name="approval",
        must="a maintainer must approve workflows of all external contributors",
        right="Administration",
        clicks=f"{_GENERAL} → Approval for running fork pull request workflows: Require approval for all external "
        "contributors → Save",
    ),
    path="/actions/permissions/fork-pr-contributor-approval",
    wanted={"approval_policy": "all_external_contributors"},
)
_POLICY = Policy(
    about=About(
        name="event policy",
        must=f"'{POLICY}' allows {', '.join(EVENTS)} to start workflows, but not pull_request",
        right="Administration",
        clicks=f"Settings → Actions → Policies → New policy: {POLICY}, Active, all workflows; Restrict events: "
        f"{', '.join(EVENTS)} → Create",
    )
)
_REPORTING = Switch(
    about=About(
        name="reporting",
        must="private vulnerability reporting is on, as SECURITY.md promises",
        right="Administration",
        clicks="Settings → Advanced Security → Private vulnerability reporting: Enable",
    ),
    path="/private-vulnerability-reporting",
)
_MAIN_RULESET = Ruleset(
    about=About(
        name="rules of main",
        must="pull requests only, with the code owners' approval; no force push, no deletion",
        right="Administration",
        clicks=f"Settings → Rules → Rulesets → New branch ruleset: {MAIN_RULESET['name']}, Active, bypass: Repository "
        "admin, target: the default branch; Restrict deletions; Block force pushes; Require a pull request before "
        "merging: 0 approvals, review from Code Owners → Create",
    ),
    wanted=MAIN_RULESET,
)
_LEDGER_RULESET = Ruleset(
    about=About(
        name="rules of ledger",
        must="no force push, no deletion, for anybody",
        right="Administration",
        clicks=f"Settings → Rules → Rulesets → New branch ruleset: {LEDGER_RULESET['name']}, Active, target: {LEDGER}; "
        "Restrict deletions; Block force pushes → Create",
    ),
    wanted=LEDGER_RULESET,
)


def _environment(name: str, environment: str, what: str, page: str) -> Environment:
    """An environment for `main`.  `page` is where to click in the list of environments."""
    clicks = (
        f"Settings → Environments → {page} → Deployment branches and tags: Selected branches and tags → Add: {MAIN}"
    )
    about = About(name=name, must=f"{environment}: {what}", right="Actions or Administration", clicks=clicks)
    return Environment(about=about, name=environment)


_ENVIRONMENT = _environment(
    "environment", _ENVIRONMENT_NAME, f"only {MAIN} and branches that you add may deploy", _ENVIRONMENT_NAME
)
_ANNOUNCE = _environment(
    "announcements",
    _ANNOUNCE_NAME,
    f"only {MAIN} can use its secrets, the webhooks",
    f"New environment: {_ANNOUNCE_NAME}",
)
_REVIEW = _environment(
    "review",
    _REVIEW_NAME,
    f"only {MAIN} can use its secret, a language model's key",
    f"New environment: {_REVIEW_NAME}",
)
_BOT = _environment(
    "bot", BOT_NAME, f"only {MAIN} can use its secret, the key of a GitHub App", f"New environment: {BOT_NAME}"
)
_PAGES = Pages(
    about=About(
        name=PAGES,
        must="GitHub Pages, deployed by publish.yml",
        right="Pages or Administration",
        clicks="Settings → Pages → Build and deployment → Source: GitHub Actions",
    )
)
