"""The address of a Discord webhook: read from a secret, checked, and hidden from logs.  With it, anybody can post.

https://discord.com/api/webhooks/123/abc?thread_id=77
base ───────────────────────────────┘└ token       └ thread
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import parse_qs, urlsplit

_HOSTS = re.compile(r"(?:(?:ptb|canary)\.)?discord(?:app)?\.com")
_PATH = re.compile(r"(/api(?:/v[0-9]+)?/webhooks/[0-9]{1,20}/)([A-Za-z0-9_-]{1,128})/?")
_SHORTEST_TOKEN = 9
"""Shorter ones are not replaced in logs: they may be parts of words."""


@dataclass(frozen=True, kw_only=True)
class WebhookAddress:
    """An address in its parts; its repr has none of them but the thread."""

    base: str = field(repr=False)
    token: str = field(repr=False)
    thread: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Split an address on discord.com or 127.0.0.1, which may name a thread.  Raises ValueError: it is none."""
        parts = urlsplit(text.strip())
        host, _ = parts.hostname, parts.port  # This may raise ValueError, too.
        is_local = parts.scheme == "http" and host == "127.0.0.1"
        is_discord = parts.scheme == "https" and _HOSTS.fullmatch(parts.netloc.lower())
        path, query = _PATH.fullmatch(parts.path), parse_qs(parts.query)
        thread = query.pop("thread_id", [""])[0]
        if not path or not (is_local or is_discord) or query or not re.fullmatch(r"[0-9]{0,20}", thread):
            raise ValueError("not the address of a Discord webhook")
        return cls(base=f"{parts.scheme}://{parts.netloc}{path[1]}", token=path[2], thread=thread)


def read_address(secret: str) -> str:
    """The address in a secret, which the workflow passes as an environment variable; "" if there is none."""
    return os.environ.get(secret, "").strip()


def hide_addresses(line: str) -> str:
    """Remove the environment's webhook addresses and their tokens: a second safeguard that they are never logged."""
    for value in os.environ.values():
        if "/webhooks/" in value:
            token = value.strip().partition("?")[0].rstrip("/").rpartition("/")[2]
            line = line.replace(value.strip(), "…")
            line = line.replace(token, "…") if len(token) >= _SHORTEST_TOKEN else line
    return line
