"""Words for Discord: other people's made harmless, and all of them short enough.  Pure.

Discord reads Markdown in an embed's title, description and fields, but not in its footer.  What people wrote goes
through `escape`, which leaves no mark-up, no link and no mention; `allowed_mentions` of the message is the second lock.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise

from scripts.common.text import plain, shorten

BLURB = 280
"""Characters of a task's description that are told."""

_MARKUP = re.compile(r"(^[+-]|(?<=^\d)\.|[\\`*_~|<>@#\[\]():])")
_BACKSLASHES = re.compile(r"\\*$")


def escape(text: str, limit: int = 300) -> str:
    """One line of other people's words as Discord's Markdown for just these words, at most `limit` characters."""
    line = shorten(" ".join(plain(text).split()), limit)
    return _MARKUP.sub(r"\\\1", line)


def first_words(markdown: str) -> str:
    """The first paragraph of a description, as plain words: headings, lists, tables and mark-up are left out."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": False}).enable("table").parse(markdown)
    for opening, content in pairwise(tokens):
        if opening.type == "paragraph_open" and opening.level == 0:
            words = "".join(_read(child.type, child.content) for child in content.children or ())
            if words.strip():
                return clip(" ".join(words.split()), BLURB)
    return ""


def _read(kind: str, content: str) -> str:
    if kind in ("text", "code_inline"):
        return content
    return " " if kind in ("softbreak", "hardbreak") else ""


def clip(text: str, limit: int) -> str:
    """At most `limit` characters as Discord counts them, cut between lines, else between words, with `…` at the end.

    Never within an escape: a lone backslash at the end would take what follows with it.
    """
    if length(text) <= limit:
        return text
    # Half a pair at the end is left out.
    kept = text.encode("utf-16-le", "surrogatepass")[: 2 * max(0, limit - 1)].decode("utf-16-le", "ignore")
    for gap in ("\n", " "):
        if kept.rfind(gap) > len(kept) * 0.6:
            kept = kept[: kept.rfind(gap)]
            break
    if (tail := _BACKSLASHES.search(kept)) and len(tail[0]) % 2:
        kept = kept[:-1]
    return kept.rstrip() + "…" if limit > 0 else ""


def length(text: str) -> int:
    """In UTF-16 units: never less than what Discord counts, whichever way it does."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def moment(at: datetime, style: str = "F") -> str:
    """A time that Discord shows to everybody in their own zone; `R` for how long until or since."""
    return f"<t:{int(at.timestamp())}:{style}>"
