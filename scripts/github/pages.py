"""Where GitHub Pages serves a repository's site."""

from __future__ import annotations

from urllib.parse import urlsplit

GITHUB = "https://github.com"


def pages_address(repository: str, server: str = GITHUB) -> str:
    """Where GitHub Pages serves a repository's site, unless it has a domain of its own.

    Of an Enterprise server, with subdomain isolation; without, Pages had better be off, as GitHub says.
    """
    owner = repository.partition("/")[0]
    if server != GITHUB:
        parts = urlsplit(server)
        return f"{parts.scheme}://pages.{parts.netloc}/{repository}/"
    return f"https://{owner.lower()}.github.io{base_path(repository)}"


def base_path(repository: str) -> str:
    """Below which path GitHub Pages serves a repository's site."""
    owner, _, name = repository.partition("/")
    return "/" if name.lower() == f"{owner.lower()}.github.io" else f"/{name}/"
