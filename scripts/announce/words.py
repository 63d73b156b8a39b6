"""Escape and shorten text for Discord.  Pure.

Discord renders Markdown in an embed's title, description and fields, but not in its footer.  Participants' text goes
through `escape`, which leaves no mark-up, link or mention; the message's `allowed_mentions` is the second safeguard.
"""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise

from scripts.common.text import plain, shorten

BLURB = 280
"""Characters of a task's description in an announcement."""

_MARKUP = re.compile(r"(^[+-]|(?<=^\d)\.|[\\`*_~|<>@#\[\]():])")
_BACKSLASHES = re.compile(r"\\*$")


def escape(text: str, limit: int = 300) -> str:
    """Escape untrusted text as one line of Discord's Markdown, of at most `limit` characters before escaping."""
    line = shorten(" ".join(plain(text).split()), limit)
    return _MARKUP.sub(r"\\\1", line)


def first_words(markdown: str) -> str:
    """The first paragraph of a description as plain text, without headings, lists, tables and mark-up."""
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
    """Cut text to `limit` characters as Discord counts them, between lines or else words, with `…` at the end.

    Never cut within an escape: a single backslash at the end would escape the next character.
    """
    if length(text) <= limit:
        return text
    # Drop half a surrogate pair at the end.
    kept = text.encode("utf-16-le", "surrogatepass")[: 2 * max(0, limit - 1)].decode("utf-16-le", "ignore")
    for gap in ("\n", " "):
        if kept.rfind(gap) > len(kept) * 0.6:
            kept = kept[: kept.rfind(gap)]
            break
    if (tail := _BACKSLASHES.search(kept)) and len(tail[0]) % 2:
        kept = kept[:-1]
    return kept.rstrip() + "…" if limit > 0 else ""


def length(text: str) -> int:
    """The length in UTF-16 units, which is never less than Discord's count."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def moment(at: datetime, style: str = "F") -> str:
    """A time that Discord shows in each reader's time zone; the style `R` shows the time until or since it."""
    return f"<t:{int(at.timestamp())}:{style}>"
