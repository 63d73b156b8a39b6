"""Where GitHub Pages serves a repository's site."""

from __future__ import annotations


def pages_address(repository: str) -> str:
    """Where GitHub Pages serves a repository's site, unless it has a domain of its own."""
    return f"https://{repository.partition('/')[0].lower()}.github.io{base_path(repository)}"


def base_path(repository: str) -> str:
    """Below which path GitHub Pages serves a repository's site."""
    owner, _, name = repository.partition("/")
    return "/" if name.lower() == f"{owner.lower()}.github.io" else f"/{name}/"
