"""Escape untrusted text and format numbers.  Pure.

Everything that a participant wrote (messages, logs, file contents) passes through `plain` before it is displayed, and
through `inline` or `fence` before it goes into Markdown.  Both wrap it in code, where GitHub renders no mentions,
links, images, HTML or emphasis.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from harness.records.stats import Interval

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})
"""Control, format (bidirectional and zero-width), unassigned, private, surrogate, line and paragraph separators."""

INVISIBLE_LETTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are invisible: fillers, joiners, variation selectors."""

_PERHAPS_HIDDEN = re.compile(r"[^\n\t -~]")
"""Anything but printable ASCII, newlines and tabs."""

_LIKE_A_FORMULA = ("=", "+", "-", "@", "\t")
_UNITS = ((1e-3, "ns"), (1.0, "µs"), (1e3, "ms"), (1e6, "s"))


def plain(text: str) -> str:
    r"""Escape characters that are invisible or move other text: `\x1b[31m`, `\u202e`.

    Newlines and tabs stay; Windows line endings become newlines.
    """
    return _PERHAPS_HIDDEN.sub(_visible, text.replace("\r\n", "\n"))


def without_hidden(text: str) -> str:
    """Remove the characters that `plain` escapes, for prose: an emoji may have some."""
    return _PERHAPS_HIDDEN.sub(lambda found: "" if _is_hidden(found[0]) else found[0], text.replace("\r\n", "\n"))


def _is_hidden(char: str) -> bool:
    # Not `isprintable`: it also rejects spaces of other widths, which are visible enough.
    return unicodedata.category(char) in _HIDDEN_CATEGORIES or bool(INVISIBLE_LETTERS.match(char))


def _visible(found: re.Match[str]) -> str:
    char, code = found[0], ord(found[0])
    if not _is_hidden(char):
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def spreadsheet_text(text: str) -> str:
    """Text for a cell of a spreadsheet: what looks like a formula gets an apostrophe in front."""
    return f"'{text}" if text.startswith(_LIKE_A_FORMULA) else text


def inline(text: str, limit: int = 300) -> str:
    """Inline Markdown code for prose and table cells; empty for blank text.

    A pipe becomes `¦`: it would end the cell, and not every renderer accepts a backslash escape.
    """
    line = shorten(" ".join(plain(text).split()).replace("|", "¦"), limit)
    if not line:
        return ""
    ticks = "`" * (_longest_run("`", line) + 1)
    # Spaces separate a leading or trailing backtick from the fence; renderers strip them.
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def fence(text: str, limit: int = 8000, *, keep_end: bool = False) -> str:
    """A Markdown code block whose fence is longer than any run of backticks in the text."""
    body = shorten(plain(text).strip("\n"), limit, keep_end=keep_end)
    ticks = "`" * max(3, _longest_run("`", body) + 1)
    return f"{ticks}text\n{body}\n{ticks}"


def shorten(text: str, limit: int, *, keep_end: bool = False) -> str:
    """Cut text to `limit` characters; `…` marks the cut."""
    if len(text) <= limit:
        return text
    return "…" + text[len(text) - limit + 1 :] if keep_end else text[: limit - 1] + "…"


def shorten_markdown(text: str, limit: int, note: str, *, in_bytes: bool = False) -> str:
    """Cut Markdown after a line to `limit` characters, or bytes of UTF-8, and add a note about the rest.

    An open code block or fold is closed.  Foreign text must be in code, so that no line of it looks like a fold.
    """
    if _size(text, in_bytes=in_bytes) <= limit:
        return text
    kept: list[str] = []
    room, fence, folds, ending = limit, "", 0, f"\n\n{note}\n"
    for line in text.split("\n"):
        fence = _fence_after(line, fence)
        folds += 0 if fence else line.startswith("<details>") - line.startswith("</details>")
        close = f"\n{fence}" * bool(fence) + "\n\n</details>" * folds + f"\n\n{note}\n"
        room -= _size(f"{line}\n", in_bytes=in_bytes)
        if room < _size(close, in_bytes=in_bytes):
            break
        kept.append(line)
        ending = close
    return "\n".join(kept) + ending


def _fence_after(line: str, fence: str) -> str:
    """The fence of the code block that is open after a line; empty if none is."""
    ticks = line[: len(line) - len(line.lstrip("`"))]
    if fence:
        return "" if len(ticks) >= len(fence) and line.strip() == ticks else fence
    return ticks if len(ticks) >= 3 and "`" not in line[len(ticks) :] else ""


def _size(text: str, *, in_bytes: bool) -> int:
    return len(text.encode("utf-8", "surrogatepass")) if in_bytes else len(text)


def in_words(params: Mapping[str, object], leave_out: str = "") -> str:
    """A case's parameters, without the one called `leave_out`: `size: 127, seed: 4242`."""
    return ", ".join(f"{name}: {value}" for name, value in params.items() if name != leave_out)


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


def format_limit(share: float) -> str:
    """A share of the hardware's limit: `62 %`, `3.1 %`."""
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else format_percent(share)


def format_rate(rate: float, unit: str) -> str:
    """Three digits of a rate: `412 GB/s`, `3,350 GB/s`."""
    rate = float(f"{rate:.3g}")
    return f"{rate:,.0f} {unit}" if rate >= 100 else f"{rate:.3g} {unit}"


def format_factor(factor: float) -> str:
    """`2.5×`, `11.0×`, `1,240×`."""
    return f"{factor:.1f}×" if factor < 99.95 else f"{factor:,.0f}×"


def format_speedup(ratio: float) -> str:
    """The speedup of a time that is `ratio` times another: `1.13×` for 0.885; near 1 with another digit: `1.004×`."""
    speedup = 1 / ratio
    return f"{speedup:.3f}×" if 0.9 < speedup < 1.1 else f"{speedup:,.2f}×"


def format_gap(share: float) -> str:
    """How much longer one time is than another: `+12.3 %`, `−3.1 %`, `+997 %`; never a factor, which is a speedup."""
    return f"{share:+z,.{0 if share >= 0.9995 else 1}%}".replace("%", " %").replace("-", "−")
