"""The pieces of Markdown that reports are made of.  Pure; whatever stands in them was made harmless before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from harness.records.fields import CaseKind, Param
from scripts.common.text import inline

NBSP = "\u00a0"
MAX_SAID = 300
"""Characters of a message in a table."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table: words on the left; columns whose heading ends in `:` are numbers, and stand on the right."""
    rule = ["--:" if name.endswith(":") else "---" for name in head]
    lines = [[name.removesuffix(":") for name in head], rule, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def solid(text: str) -> str:
    """A number with its unit, which no narrow screen breaks into two lines."""
    return text.replace(" ", NBSP)


def case_name(kind: CaseKind, params: Mapping[str, Param]) -> str:
    """`size: 1024, seed: 7`, as code whose lines break between parameters only."""
    named = inline(", ".join(f"{name}: {value}" for name, value in params.items()), 120)
    return named.replace(": ", f":{NBSP}") or str(kind)


def first_paragraph(text: str) -> str:
    """What a message says, without the trace that it ends with, as code."""
    return inline(text.strip().partition("\n\n")[0], MAX_SAID)


def run_link(url: str | None, text: str = "run", anchor: str = "") -> str:
    """A link to a run's page, or the address as code if it could be anything else."""
    if not url:
        return ""
    is_harmless = re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?/[A-Za-z0-9/_.-]*", url)
    return f"[{text}]({url}{anchor})" if is_harmless else inline(url)


def folded(summary: str, body: str) -> str:
    """Markdown that GitHub folds away under a line of ours."""
    # The blank lines make GitHub read the body as Markdown again.
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
