"""A repository's site on GitHub Pages: its address, and whether publish.yml can deploy it."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

GITHUB = "https://github.com"


def pages_address(repository: str, server: str = GITHUB) -> str:
    """The URL of a repository's site on GitHub Pages, unless it has a custom domain.

    For an Enterprise server, it assumes subdomain isolation; without that, GitHub advises against Pages.
    """
    if server != GITHUB:
        parts = urlsplit(server)
        return f"{parts.scheme}://pages.{parts.netloc}/{repository}/"
    owner, _, name = repository.partition("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


@dataclass(frozen=True, kw_only=True)
class PagesSite:
    """A site on GitHub Pages.  `build_type` is workflow or legacy; `address` is "" if GitHub does not send it."""

    build_type: str
    address: str


def why_no_site(site: PagesSite | None) -> str:
    """What to do before publish.yml can deploy; empty if it can.

    `site` is None if Pages is off.
    """
    if site and site.build_type == "workflow":
        return ""
    state = "off" if site is None else "deployed from a branch"
    return (
        f"No site was built: GitHub Pages is {state}. Run `pullrank setup`, or choose Settings → Pages → Build and "
        "deployment → Source: GitHub Actions, and run this workflow again."
    )
