"""`pullrank setup --app`: let the bot act as a GitHub App, which has a larger budget of requests than GITHUB_TOKEN.

    client id, private key ─▶ the App's name, and what its installation here may do ─▶ variable and secret of `bot`

The key goes from the file to GitHub, sealed; it is written nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from harness.records.errors import PullRankError
from scripts.github.access import connect
from scripts.github.admin import Admin, Hidden
from scripts.github.pulls import GitHubError, find, items, require
from scripts.setup.repository_settings import BOT_NAME

if TYPE_CHECKING:
    from scripts.github.wire import AppKey

VARIABLE, SECRET = "PULLRANK_APP", "PULLRANK_APP_KEY"
"""Of the environment `bot`: the App's client id, and its private key."""

PERMISSIONS = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "workflows": "write",
}
"""What the App must be allowed.  `workflows` is for merging pull requests whose branch lacks new workflow files."""
MAX_KEY = 16_384
"""Bytes of a key's file."""


class AppError(PullRankError):
    """The App cannot be used here."""


@dataclass(frozen=True)
class App:
    """A GitHub App that is installed on a repository."""

    slug: str
    more: tuple[str, ...]
    """Permissions that it has and does not need."""


def registration_url(admin: Admin, server: str) -> str:
    """GitHub's page for a new App, with its form filled in."""
    repository = admin.github.repository
    owner, _, name = repository.partition("/")
    is_of_organisation = find(admin.repository, str, "owner", "type") == "Organization"
    place = f"organizations/{owner}/settings" if is_of_organisation else "settings"
    facts = {"name": f"{name}-bot"[:34], "url": f"{server}/{repository}", "webhook_active": "false", "public": "false"}
    return f"{server}/{place}/apps/new?{urlencode(facts | PERMISSIONS)}"


def read_key(client_id: str, path: Path) -> AppKey:
    """An App's key from the `.pem` file that GitHub lets its owner download.

    Raises:
        AppError: the file cannot be read, or is no key.
    """
    from scripts.github.wire import AppKey

    try:
        with path.open("rb") as stream:
            key = AppKey(client_id, stream.read(MAX_KEY).decode("ascii"))
        key.authentication()
    except OSError as error:
        raise AppError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise AppError(f"{path} is no private key: download one from the App's page, Generate a private key") from None
    return key


def find_app(repository: str, key: AppKey, server: str) -> App:
    """The App, as it is installed on the repository.

    Raises:
        AppError: GitHub does not accept the key, or the App may do too little here.
        GitHubError: GitHub does not answer.
    """
    try:
        with connect(repository, key) as github:
            slug = require(github.ask("GET", "/app", is_elsewhere=True), str, "slug")
            try:
                granted = require(github.ask("GET", "/installation"), dict, "permissions")
            except GitHubError as error:
                if error.status != 404:
                    raise
                page = f"{server}/apps/{slug}/installations/new"
                raise AppError(f"the App {slug} is not installed on {repository}: install it at {page}") from None
    except GitHubError as error:
        if error.status != 401:
            raise
        raise AppError(f"GitHub does not accept this key for the App {key.client_id}: take its Client ID") from None
    if lacking := [name for name, level in PERMISSIONS.items() if granted.get(name) != level]:
        named = ", ".join(name.replace("_", " ").capitalize() for name in lacking)
        raise AppError(
            f"the App {slug} lacks the permission to write: {named}. Add it on the App's page, Permissions & events, "
            f"then accept the change on the page of its installation"
        )
    return App(slug, tuple(sorted(granted.keys() - PERMISSIONS - {"metadata"})))


def use_app(admin: Admin, key: AppKey) -> None:
    """Store the App's client id and key in the environment `bot`.

    Raises:
        AppError: the token may not.
    """
    from scripts.github.wire import sealed

    place = f"/environments/{quote(BOT_NAME)}"
    try:
        public = admin.read(f"{place}/secrets/public-key")
        body = {
            "encrypted_value": sealed(key.pem, require(public, str, "key")),
            "key_id": require(public, str, "key_id"),
        }
        admin.write("PUT", f"{place}/secrets/{SECRET}", body)
        known = [find(one, str, "name") for one in items(admin.read(f"{place}/variables?per_page=100"), "variables")]
        method, path = (
            ("PATCH", f"{place}/variables/{VARIABLE}") if VARIABLE in known else ("POST", f"{place}/variables")
        )
        admin.write(method, path, {"name": VARIABLE, "value": key.client_id})
    except Hidden:
        raise AppError(
            f"the token may not write secrets and variables of {BOT_NAME}: add Environments: read and write"
        ) from None
