"""Find the address of a board's picture on the site."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from scripts.common.http_request import RequestFailed, RequestLimits, download

PICTURE = "og.png"
LIMITS = RequestLimits(max_bytes=0, timeout_s=10.0)


def finder(site: str) -> Callable[[str, str], str | None]:
    """A function from task and GPU to the picture's address; None if the site has none or does not answer."""

    @cache
    def find(task: str, gpu: str) -> str | None:
        address = f"{site}{task}/{gpu}/{PICTURE}"
        try:
            answer = download(address, LIMITS, method="HEAD")
        except RequestFailed:
            return None
        return address if answer.is_ok and answer.headers.get_content_type().startswith("image/") else None

    return find
