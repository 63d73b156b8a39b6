"""Check a repository's name and a token before they are sent."""

from __future__ import annotations

import re

from harness.records.errors import PullRankError
from scripts.common.text import plain, shorten

ORIGIN = re.compile(r"[/:]([A-Za-z0-9_-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?$")
"""The repository's name in a clone's URL."""
_REPOSITORY = re.compile(r"[A-Za-z0-9_-]+/[A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[!-~]+")


class AccessError(PullRankError):
    """A token or repository is missing or malformed."""


def checked_token(token: str, where: str) -> str:
    """The token, unchanged.

    Raises:
        AccessError: an HTTP header cannot hold it.  The message does not repeat it, as the HTTP library's would.
    """
    if _TOKEN.fullmatch(token):
        return token
    raise AccessError(f"{where} has a space, a line break or another character that tokens never have; copy it again")


def checked_repository(name: str, where: str) -> str:
    """The name, unchanged.

    Raises:
        AccessError: it is not OWNER/NAME.  The message omits all before an @, which may be a password in a URL.
    """
    if _REPOSITORY.fullmatch(name):
        return name
    near = f"; did you mean {found[1]}?" if (found := ORIGIN.search(name)) else ""
    shown = shorten(plain(name.rpartition("@")[2]), 100)
    raise AccessError(f"{where}: '{shown}' is not a repository; write OWNER/NAME{near}")
