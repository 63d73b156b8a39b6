"""Other people's words, made harmless, and our numbers, made readable.  Pure.

Whatever a participant wrote (messages, logs, file contents) goes through `plain` before a person sees it, and
through `inline` or `fence` on its way into Markdown.  Both put it into code, where GitHub reads no mention, no
link, no image, no HTML and no emphasis.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from harness.records.stats import Interval

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional and zero-width), unassigned, private, surrogate, line and paragraph separators."""

_HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that look like nothing: fillers, joiners, variation selectors."""

_PERHAPS_HIDDEN = re.compile(r"[^\n\t -~]")
"""Whatever is no plain ASCII: a file without it is read at a glance."""

_UNITS = ((1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s"))


def plain(text: str) -> str:
    r"""The text with all that is invisible, or moves other text, written out: `\x1b[31m`, `\u202e`.

    Newlines and tabs stay; Windows line ends become newlines.
    """
    if not _PERHAPS_HIDDEN.search(text):
        return text
    return "".join(map(_visible, text.replace("\r\n", "\n")))


@lru_cache(4096)
def _visible(char: str) -> str:
    # Not `isprintable`: it refuses spaces of other widths, too, which are visible enough.
    is_hidden = unicodedata.category(char) in _HIDDEN_CATEGORIES or _HIDDEN.match(char)
    if char in "\n\t" or not is_hidden:
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def inline(text: str, limit: int = 300) -> str:
    """One line of Markdown code, for prose and for the cells of tables; empty for blank text.

    A pipe becomes `¦`: it would end the cell, and whether a backslash saves it depends on who renders it.
    """
    line = shorten(" ".join(plain(text).split()).replace("|", "¦"), limit)
    if not line:
        return ""
    ticks = "`" * (_longest_run("`", line) + 1)
    # Spaces keep a backtick at an end apart from the fence, and are not shown.
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, limit: int = 8000, *, keep_end: bool = False) -> str:
    """A block of Markdown code whose fence is longer than any that the text could close it with."""
    body = shorten(plain(text).strip("\n"), limit, keep_end=keep_end)
    ticks = "`" * max(3, _longest_run("`", body) + 1)
    return f"{ticks}text\n{body}\n{ticks}"


def shorten(text: str, limit: int, *, keep_end: bool = False) -> str:
    """At most `limit` characters, with `…` where some were left out."""
    if len(text) <= limit:
        return text
    return "…" + text[len(text) - limit + 1 :] if keep_end else text[: limit - 1] + "…"


def _longest_run(char: str, text: str) -> int:
    return max(map(len, re.findall(f"{char}+", text)), default=0)


def format_us(us: float) -> str:
    """Four digits of a time, given in microseconds: `412.3 µs`, `1.234 ms`."""
    us = float(f"{us:.4g}")
    scale, unit = next((pair for pair in reversed(_UNITS) if us >= pair[0]), _UNITS[0])
    value = us / scale
    digits = 3 if value < 10 else 2 if value < 100 else 1 if value < 1000 else 0
    return f"{value:.{digits}f} {unit}" if value >= 0.1 else f"{value:.3g} {unit}"


def format_error(interval: Interval) -> str:
    """`±0.4 %`: half of the 95 % interval."""
    return f"±{format_percent(interval.log_half_width)}"


def format_interval(interval: Interval) -> str:
    """A time in microseconds with its interval: `412.3 µs ±0.4 %`."""
    return f"{format_us(interval.value)} {format_error(interval)}"


def format_percent(share: float) -> str:
    """`3.1 %` for 0.031."""
    return f"{share:.1%}".replace("%", " %")


def format_factor(factor: float) -> str:
    """`2.5×`, `11.0×`, `1,240×`."""
    return f"{factor:.1f}×" if factor < 99.95 else f"{factor:,.0f}×"


def format_gap(share: float) -> str:
    """How much longer a time is than another: `+12.3 %`, `−3.1 %`; where it is double or more, `11.0×` as long."""
    if share >= 0.9995:
        return format_factor(1 + share)
    return f"{share:+z.1%}".replace("%", " %").replace("-", "−")
