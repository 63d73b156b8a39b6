"""A repository's name and a token, checked before they are sent anywhere."""

from __future__ import annotations

import re

from harness.records.errors import PullRankError
from scripts.common.text import plain, shorten

ORIGIN = re.compile(r"[/:]([A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+?)(?:\.git)?/?$")
"""A repository's name in the address of a clone."""
_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_TOKEN = re.compile(r"[!-~]+")


class AccessError(PullRankError):
    """There is no token, no repository is named, or what is given cannot be one."""


def checked_token(token: str, where: str) -> str:
    """The token itself.

    Raises:
        AccessError: no header can hold it.  It is not repeated, as it would be by whoever tried to send it.
    """
    if _TOKEN.fullmatch(token):
        return token
    raise AccessError(f"{where} holds a space, a line break or another character that no token has; copy it anew")


def checked_repository(name: str, where: str) -> str:
    """The name itself.

    Raises:
        AccessError: it is not OWNER/NAME.  What stands before an @, as a password does in an address, is not repeated.
    """
    if _REPOSITORY.fullmatch(name):
        return name
    near = f"; did you mean {found[1]}?" if (found := ORIGIN.search(name)) else ""
    shown = shorten(plain(name.rpartition("@")[2]), 100)
    raise AccessError(f"{where}: '{shown}' is no repository; write OWNER/NAME{near}")
