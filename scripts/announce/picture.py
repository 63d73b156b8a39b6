"""Find the address of a board's picture on the site."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from functools import cache
from http.client import HTTPException
from urllib.parse import urlsplit

PICTURE = "og.png"
TIMEOUT_S = 10.0


def finder(site: str) -> Callable[[str, str], str | None]:
    """A function from task and GPU to the picture's address; None if the site has none or does not answer."""

    @cache
    def find(task: str, gpu: str) -> str | None:
        address = f"{site}{task}/{gpu}/{PICTURE}"
        return address if urlsplit(site).scheme in ("http", "https") and _is_picture(address) else None

    return find


def _is_picture(address: str) -> bool:
    request = urllib.request.Request(address, method="HEAD")  # noqa: S310  (the scheme is checked above)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return str(answer.headers.get_content_type()).startswith("image/")
    except (OSError, HTTPException, ValueError):
        return False
