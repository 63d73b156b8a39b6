"""How a command that people run finds its token, repository and server.

GH_TOKEN, GITHUB_TOKEN, `gh auth token`                  the token, in gh's order
--repo, GITHUB_REPOSITORY, the repository that PullRank was installed from, the current clone's origin
                                                         the repository
GITHUB_SERVER_URL, GITHUB_API_URL                        the server, if not github.com
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import os
import subprocess
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scripts.github.credentials import ORIGIN, AccessError, checked_repository, checked_token

if TYPE_CHECKING:
    from scripts.github.gh import GitHub
    from scripts.github.wire import AppKey

WAIT_S = 20.0
"""Seconds that gh or git may take."""
NEW_TOKEN = "https://github.com/settings/personal-access-tokens/new"  # noqa: S105  an address
CLASSIC_TOKEN = "https://github.com/settings/tokens/new"  # noqa: S105  an address


def require_token(rights: str, page: str = NEW_TOKEN) -> str:
    """The token from GH_TOKEN, GITHUB_TOKEN or gh.

    Args:
        rights: the rights that a new token needs: `for this repository only, with Contents: read and write`.
        page: GitHub's page for creating one.

    Raises:
        AccessError: there is no token, or it is malformed.
    """
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        if token := os.environ.get(name, "").strip():
            return checked_token(token, f"the token in {name}")
    # Without a host, gh may print the token of another server that it is signed in to.
    if token := _output(["gh", "auth", "token", "--hostname", urlsplit(server_url()).netloc]):
        return checked_token(token, "the token that `gh auth token` prints")
    raise AccessError(f"no token: sign in with `gh auth login`, or set GH_TOKEN. Create a token at {page}: {rights}")


def require_repository(named: str | None = None, *, for_maintainers: bool = False) -> str:
    """The repository that the call names, the one that PullRank was installed from, or the origin of this clone.

    A command `for_maintainers` uses the repository that PullRank was installed from only if it is named.
    """
    if named:
        return checked_repository(named, "--repo")
    if of_the_job := os.environ.get("GITHUB_REPOSITORY"):
        return checked_repository(of_the_job, "GITHUB_REPOSITORY")
    installed_from = "" if for_maintainers else _installed_from()
    if found := ORIGIN.search(installed_from or _output(["git", "remote", "get-url", "origin"])):
        return found[1]
    raise AccessError("no repository: pass --repo OWNER/NAME, or run this in a clone of it")


def _installed_from() -> str:
    """The address of the repository from which PullRank was installed, by git or as a release's wheel; else ""."""
    try:
        record = importlib.metadata.distribution("pullrank").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return ""
    source = json.loads(record or "{}")
    address, is_release, _ = str(source.get("url", "")).partition("/releases/download/")
    return address if is_release or "vcs_info" in source else ""


def server_url() -> str:
    return (os.environ.get("GITHUB_SERVER_URL") or "https://github.com").rstrip("/")


def connect(repository: str, token: str | AppKey) -> GitHub:
    """Connect to a repository on the server that the environment names, with a token or as an App."""
    from scripts.github.gh import GitHub
    from scripts.github.wire import API

    # PyGithub logs every refused request to stderr; commands report it once themselves.
    logging.getLogger("github.GithubRetry").setLevel(logging.ERROR)
    return GitHub(repository, token, os.environ.get("GITHUB_API_URL") or API)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL, timeout=WAIT_S)
    except (OSError, subprocess.TimeoutExpired):  # no such program, or one that waits for a locked keyring
        return ""
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
