"""Read co-authors and the author's note from a pull request's description.  Pure; the text is hostile.

    Co-authored-by: @ben                                                      a co-author
    Co-authored-by: Ben Doe <1234+ben@users.noreply.github.com>               a co-author, as GitHub writes it
    <!-- … -->, and lines of the repository's template                        left out
    everything else                                                           the note, as plain text

A co-author of any other form is left out, and not shown either: it may hold somebody's e-mail address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.records.fields import LOGIN
from scripts.common.text import shorten, without_hidden
from scripts.ledger.description import MAX_CO_AUTHORS, MAX_NOTE

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
"""As on GitHub, a comment without an end hides the rest."""
_TRAILER = re.compile(r"co-authored-by\s*:(.*)", re.IGNORECASE)
_CO_AUTHOR = re.compile(rf"@({LOGIN})|[^<>]*<[0-9]{{1,12}}\+({LOGIN})@users\.noreply\.github\.com>")
_BLANK_LINES = re.compile(r"\n{3,}")


def read_description(body: str, author: str, template: str = "") -> tuple[tuple[str, ...], str]:
    """The co-authors' logins, without the author's own, and the note.

    Args:
        author: the login of the pull request's author.
        template: the text that GitHub puts into a new pull request.
    """
    theirs = {line.strip() for line in _lines(template)}
    lines = [line for line in _lines(body) if line.strip() not in theirs or not line.strip()]
    trailers = [found[1].strip() for line in lines if (found := _TRAILER.match(line.strip()))]
    note = "\n".join(line.rstrip() for line in lines if not _TRAILER.match(line.strip()))
    return _co_authors(trailers, author), shorten(_BLANK_LINES.sub("\n\n", note).strip(), MAX_NOTE)


def _lines(text: str) -> list[str]:
    return without_hidden(_COMMENT.sub("", text)).split("\n")


def _co_authors(trailers: Iterable[str], author: str) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for trailer in trailers:
        if match := _CO_AUTHOR.fullmatch(trailer):
            login = match[1] or match[2]
            found.setdefault(login.casefold(), login)
    found.pop(author.casefold(), None)
    return tuple(found.values())[:MAX_CO_AUTHORS]
