"""`pullrank setup`: configure a repository made from the template as a competition; `--check` changes nothing.

    token, OWNER/NAME ─▶ Admin ─▶ refuse unsuitable repositories ─▶ each setting: look, mend, look again ─▶ findings

A second run finds in order what the first could set.  What an organiser added stays, except exceptions to the ledger's
rules, and events that run workflow files of forks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.records.errors import PullRankError
from scripts.common.git_command import GitError
from scripts.common.options import of_maintainers
from scripts.common.terminal import cell, console, table
from scripts.github.access import NEW_TOKEN, connect, require_repository, require_token, server_url
from scripts.github.admin import Admin, Hidden, NotInPlan, Unclear
from scripts.github.pulls import GitHubError, RateLimitError, find
from scripts.ledger.ledger import LedgerError
from scripts.setup.kinds import Setting
from scripts.setup.wanted import WORKFLOWS

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

_STYLES = {"ok": "green", "changed": "bold green", "missing": "red", "cannot be seen": "yellow"}
_RIGHTS = "with Actions, Administration, Contents, Issues and Pages: read and write"


class SetupError(PullRankError):
    """The repository cannot be set up, or not with this token."""


class SettingState(StrEnum):
    OK = "ok"
    CHANGED = "changed"
    MISSING = "missing"
    UNSEEN = "cannot be seen"


@dataclass(frozen=True)
class SettingFinding:
    """The state of a setting.  `found` is empty if the setting was right from the start."""

    setting: Setting
    state: SettingState
    found: str

    @property
    def facts(self) -> dict[str, str]:
        one = self.setting
        about = {"name": one.name, "must": one.must, "right": one.right, "clicks": one.clicks}
        return {**about, "state": self.state, "found": self.found}

    @property
    def is_good(self) -> bool:
        return self.state in (SettingState.OK, SettingState.CHANGED)


@click.command()
@of_maintainers
@click.option("--check", is_flag=True, help="Change nothing; show each setting's state and where to click.")
@click.option("--new-app", is_flag=True, help="Print the address at which to register a GitHub App for the bot.")
@click.option("--app", metavar="CLIENT_ID", help="Let the bot act as this GitHub App, which is installed here.")
@click.option("--app-key", type=click.Path(path_type=Path), help="The App's private key, a .pem file.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def setup(repo: str | None, check: bool, new_app: bool, app: str | None, app_key: Path | None, as_json: bool) -> int:
    """Set up a GitHub repository for a competition, or check its settings.

    Needs an admin's token: GH_TOKEN, GITHUB_TOKEN or `gh auth login`. Running it again changes nothing.
    Exits with 0 if every setting is right, and with 1 if one is wrong or cannot be seen.

    Example: pullrank setup --repo OWNER/NAME --check
    """
    from scripts.ledger.branch import LedgerBranch
    from scripts.setup.app import find_app, read_key, registration_url, use_app
    from scripts.setup.repository_settings import PAGES, settings_for

    if new_app and (check or as_json):
        raise click.UsageError("--new-app cannot be combined with --check or --json.")
    if bool(app) != bool(app_key) or (app and (check or new_app)):
        raise click.UsageError("--app and --app-key belong together, without --check and --new-app")
    key = read_key(app, app_key) if app and app_key else None
    token = require_token(f"for this repository only, {_RIGHTS}")
    repository = require_repository(repo, for_maintainers=True)
    server = server_url()
    with connect(repository, token) as github:
        admin = require_admin(github, must_be_admin=not check and not new_app)
        if new_app:
            click.echo(registration_url(admin, server))
            return 0
        ledger = partial(LedgerBranch, f"{server}/{repository}.git", token=token)
        settings = settings_for(ledger, is_public=admin.is_public)
        findings = [examine(one, admin) if check else set_up(one, admin) for one in settings]
        if any(one.setting.name == PAGES and one.state is SettingState.CHANGED for one in findings):
            _publish(admin)
        if key:
            found = find_app(repository, key, server)
            use_app(admin, key)
            more = f"; it does not need: {', '.join(found.more)}" if found.more else ""
            click.echo(f"The bot acts as the App {found.slug}{more}.", err=True)
    if as_json:
        click.echo(json.dumps({"repository": repository, "settings": [one.facts for one in findings]}, indent=1))
    else:
        _print(findings, f"{server}/{repository}", checked=check, may_see=admin.is_admin)
    return int(not all(one.is_good for one in findings))


# One setting.


def examine(setting: Setting, admin: Admin) -> SettingFinding:
    """Look at a setting, and change nothing."""
    try:
        faults = setting.look(admin)
    except (Hidden, NotInPlan, Unclear) as error:
        return SettingFinding(setting, SettingState.UNSEEN, _reason(error, setting, admin))
    return SettingFinding(setting, SettingState.MISSING if faults else SettingState.OK, "; ".join(faults))


def set_up(setting: Setting, admin: Admin) -> SettingFinding:
    """Correct a setting if necessary, then check that GitHub kept the change."""
    before = examine(setting, admin)
    if before.state is not SettingState.MISSING:
        return before
    try:
        setting.mend(admin)
    except (GitError, GitHubError, LedgerError) as error:
        # A refusal concerns this setting alone; an outage would fail the others, too.
        if isinstance(error, RateLimitError) or (isinstance(error, GitHubError) and (error.status or 500) >= 500):
            raise
        return SettingFinding(setting, SettingState.MISSING, f"{before.found}; {_reason(error, setting, admin)}")
    after = examine(setting, admin)
    is_right = after.state is SettingState.OK
    return SettingFinding(setting, SettingState.CHANGED, before.found) if is_right else after


def _reason(error: PullRankError, setting: Setting, admin: Admin) -> str:
    if isinstance(error, NotInPlan):
        return "GitHub's plan does not include this for a private repository: make it public, or upgrade"
    if not isinstance(error, Hidden):
        return str(error).splitlines()[0]
    if not admin.is_admin:
        return f"your account is not an admin of {admin.github.repository}"
    return f"the token lacks the permission {setting.right}"


# Preconditions.


def require_admin(github: GitHub, *, must_be_admin: bool) -> Admin:
    """Check that the repository can become a competition and that the account may set it up."""
    repository = github.repository
    try:
        admin = Admin(github)
    except GitHubError as error:
        if error.status == 401:
            raise SetupError("GitHub rejects this token: it is wrong, or has expired") from None
        if error.status == 404:
            raise SetupError(
                f"there is no repository {repository}, or this token may not see it; check the name and the token's "
                "repositories"
            ) from None
        raise
    if find(admin.repository, bool, "fork"):
        raise SetupError(
            f"{repository} is a fork: GitHub sends its pull requests to the original. Create your own repository from "
            "the template: Use this template → Create a new repository"
        )
    if must_be_admin and not admin.is_admin:
        raise SetupError(
            f"only an admin of {repository} can set it up, and your account is not one; --check shows what you may see"
        )
    if must_be_admin and not _has_workflows(admin):
        raise SetupError(
            f"{repository} has none of PullRank's workflows, so nothing was changed. If you just created it from the "
            "template, try again in a minute"
        )
    return admin


def _has_workflows(admin: Admin) -> bool:
    """Whether it is a copy of this repository; the settings of any other are left alone."""
    try:
        return bool(set(WORKFLOWS) & admin.workflows().keys())
    except Hidden:
        raise SetupError(f"the token lacks the permission Actions; create one {_RIGHTS}") from None


def _publish(admin: Admin) -> None:
    """Build the site for the first time.  If that fails, the next merge or scheduled build does it."""
    try:
        admin.github.dispatch("publish.yml", {}, admin.default_branch)
    except GitHubError as error:
        click.echo(f"pullrank: the site is not built yet: {error}", err=True)


# Output.


def _print(findings: list[SettingFinding], url: str, *, checked: bool, may_see: bool) -> None:
    made = table("", "", "", "")
    made.show_header = False
    for one in findings:
        made.add_row(one.state, one.setting.name, cell(_words(one)), style=_STYLES[one.state])
    console().print(made)
    rest = [one for one in findings if not one.is_good]
    if not rest:
        click.echo(f"\n{url} is ready: open a pull request.")
        return
    click.echo(f"\nRun `pullrank setup`, or change by hand at {url}:" if checked else f"\nChange by hand at {url}:")
    for one in rest:
        click.echo(f"  {one.setting.name}: {one.setting.clicks}")
    if may_see and any(one.state is SettingState.UNSEEN for one in rest):
        click.echo(f"\nA token that can see and change them all: {NEW_TOKEN}, for this repository only,\n{_RIGHTS}.")


def _words(one: SettingFinding) -> str:
    match one.state:
        case SettingState.OK:
            return one.setting.must
        case SettingState.CHANGED:
            return f"{one.setting.must} (before: {one.found})"
        case SettingState.MISSING:
            return f"{one.found} (wanted: {one.setting.must})"
    return one.found
