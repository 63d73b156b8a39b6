"""The address of a repository's site on GitHub Pages."""

from __future__ import annotations

from urllib.parse import urlsplit

GITHUB = "https://github.com"


def pages_address(repository: str, server: str = GITHUB) -> str:
    """The URL of a repository's site on GitHub Pages, unless it has a custom domain.

    For an Enterprise server, it assumes subdomain isolation; without that, GitHub advises against Pages.
    """
    owner = repository.partition("/")[0]
    if server != GITHUB:
        parts = urlsplit(server)
        return f"{parts.scheme}://pages.{parts.netloc}/{repository}/"
    return f"https://{owner.lower()}.github.io{base_path(repository)}"


def base_path(repository: str) -> str:
    """The path of a repository's site on its GitHub Pages host."""
    owner, _, name = repository.partition("/")
    return "/" if name.lower() == f"{owner.lower()}.github.io" else f"/{name}/"
