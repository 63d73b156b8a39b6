"""Building blocks for the Markdown of reports.  Pure; their texts must already be harmless."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from harness.records.fields import CaseKind, Param
from scripts.common.text import inline

NBSP = "\u00a0"
MAX_SAID = 300
"""Maximum length of a message in a table."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table.  Columns whose heading ends in `:` hold numbers and are aligned right, the others left."""
    rule = ["--:" if name.endswith(":") else "---" for name in head]
    lines = [[name.removesuffix(":") for name in head], rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def not_shown(count: int) -> str:
    """A sentence about rows that do not fit into a table; empty if all do."""
    return f"{count} more {'is' if count == 1 else 'are'} not shown." if count > 0 else ""


def solid(text: str) -> str:
    """A number with its unit, which narrow screens do not break into two lines."""
    return text.replace(" ", NBSP)


def case_name(kind: CaseKind, params: Mapping[str, Param]) -> str:
    """`size: 1024, seed: 7`, as code that breaks only between parameters."""
    named = inline(", ".join(f"{name}: {value}" for name, value in params.items()), 120)
    return named.replace(": ", f":{NBSP}") or str(kind)


def first_paragraph(text: str) -> str:
    """A message without the traceback at its end, as code."""
    return inline(text.strip().partition("\n\n")[0], MAX_SAID)


def run_link(url: str | None, text: str = "run", anchor: str = "") -> str:
    """A link to a run's page, or the address as code if it is not a plain URL."""
    if not url:
        return ""
    is_harmless = re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?/[A-Za-z0-9/_.-]*", url)
    return f"[{text}]({url}{anchor})" if is_harmless else inline(url)


def folded(summary: str, body: str) -> str:
    """Markdown that GitHub folds under a summary line."""
    # The blank lines make GitHub read the body as Markdown again.
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
