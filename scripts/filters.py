"""The words, numbers and code blocks of the site's pages: what its templates may call.

Whatever a participant wrote passes `plain` (no control or bidirectional characters) and Jinja's autoescape on
its way into a page, without a template having to ask for it: see `environment`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer, PythonLexer

from harness.judgement import Duel, Judgement
from harness.task import Board
from scripts.claims import bound_share, claim_sentence, duel_result, is_bounded, is_self_timed, is_unwalled, worst_bound
from scripts.standings import Row, Standings
from scripts.text import format_error, format_gap, format_percent, format_us, plain

SITE = Path(__file__).resolve().parent.parent / "site"
MAX_HIGHLIGHTED = 64 * 1024
"""Characters of code.  Longer files are shown uncoloured: lexers are slow on hostile input."""

_RANKINGS = {"geom": "geometric mean", "mean": "mean", "last": "last"}
_HEAT_STEPS = ((0.01, 5), (0.05, 4), (0.15, 3), (0.5, 2), (1.0, 1))


@cache
def environment() -> Environment:
    """Jinja with everything on that keeps a page from breaking: escaping, cleaning, no silent blanks."""
    env = Environment(
        loader=FileSystemLoader(SITE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_cleaned,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "board_path": board_path, "submission_path": submission_path, "author_path": author_path,
        "us": format_us, "error": format_error, "gap": format_gap, "gain": gain, "speedup": speedup, "seconds": seconds,
        "number": number, "count": count, "ordinal": ordinal, "px": px, "heat": heat,
        "iso": iso, "day": day, "minute": minute, "params": params, "sentence": sentence,
        "ranking": _RANKINGS.__getitem__, "claim_sentence": claim_sentence,
        "bound": bound, "duel_sentence": duel_sentence, "remarks": remarks,
    }  # fmt: skip
    env.tests["unwalled"] = is_unwalled
    env.tests["self_timed"] = is_self_timed
    env.globals["macros"] = env.get_template("macros.html").module
    return env


def _cleaned(value: Any) -> Any:
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


# Where pages stand, seen from the site's root.


def board_path(board: Board, name: str = "index.html") -> str:
    return f"{board.task.name}/{board.gpu}/{name}"


def submission_path(board: Board, login: str, digest: str, name: str = "index.html") -> str:
    return f"{board.task.name}/{board.gpu}/{login}/{digest[:12]}/{name}"


def author_path(login: str, name: str = "index.html") -> str:
    return f"authors/{login.lower()}/{name}"  # GitHub's logins are the same in any case


# Numbers.


def gain(share: float | None) -> str:
    return "first entry" if share is None else format_percent(share).replace("-", "−")


def speedup(ratio: float) -> str:
    return f"{1 / ratio:,.2f}×"


def seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def number(value: float) -> str:
    return f"{value:,.4g}" if value < 1e4 else f"{value:,.0f}"


def count(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"


def ordinal(n: int) -> str:
    suffix = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def heat(loss: float) -> int:
    """5 for a case's best time, down to 0 for more than twice as long."""
    return next((step for limit, step in _HEAT_STEPS if loss <= limit), 0)


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%-d %b %Y}"


def minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%-d %b %Y, %H:%M} UTC"


# Words.


def params(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in values.items()) or "no arguments"


def sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}".rstrip(".") + "." if text else ""


def bound(judgement: Judgement) -> str:
    """The worst of its benchmarks: by how much a time could understate the truth."""
    worst = worst_bound(judgement)
    if not worst or not is_bounded(judgement):
        return "none"
    return f"at most {format_us(worst.bound_us)}, {format_percent(bound_share(worst))} of a call"


def duel_sentence(duel: Duel) -> str:
    return f"{'Won' if duel.won else 'Lost'}: {duel_result(duel)}."


def remarks(row: Row, standings: Standings) -> list[str]:
    """What a reader should know about a row, in words."""
    leader = standings.leader_of(row)
    tie = [] if leader is row or row.note else [f"tied with {leader.login}"]
    return tie + ([row.note] if row.note else [])


def claims(standings: Standings) -> str:
    """Said once on a board, when a time there is less than bounded."""
    judgements = [judgement for row in standings.rows for judgement in row.judgements]
    return " ".join(sorted({claim_sentence(one) for one in judgements if not is_bounded(one)}))


def case_labels(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each case, by what tells them apart; by the seed only if nothing else does: ranked ones are fresh."""
    telling = [name for name in dict.fromkeys(chain(*cases)) if len({str(case.get(name)) for case in cases}) > 1]
    for names in ([name for name in telling if name != "seed"], telling):
        short = [params({name: case[name] for name in names if name in case}) for case in cases]
        if len(set(short)) == len(cases) > 1:
            return short
    return [params(case) for case in cases]


# Markdown and code.


def render_markdown(text: str, top_level: int = 3) -> Markup:
    """Markdown of the repository: no raw HTML, no script links; its first heading is of `top_level`."""
    return _render(_MARKDOWN.parse(text), top_level)


def render_guide(text: str) -> Markup:
    """A page of site/pages: its headings can be linked to, and links between the files lead from page to page."""
    tokens = _MARKDOWN.parse(text)
    for token, following in pairwise(tokens):
        if token.type == "heading_open" and token.tag != "h1":
            token.attrSet("id", anchor(following.content))
    for link in (child for token in tokens for child in token.children or () if child.type == "link_open"):
        if found := _PAGE_LINK.fullmatch(str(link.attrGet("href"))):
            link.attrSet("href", f"../{found[1]}/index.html{found[2]}")
    return _render(tokens, top_level=1)


def anchor(heading: str) -> str:
    """A heading's name in links, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_PAGE_LINK = re.compile(r"([a-z-]+)\.md((?:#[\w-]+)?)")


def _render(tokens: Sequence[Token], top_level: int) -> Markup:
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + top_level - 1, 6)}"
    return Markup(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))  # noqa: S704 (html: False escapes)


def render_code(source: str, name: str, *, anchors: bool = False) -> Markup:
    """Code with CSS classes for its colours, and a link per line where it is the only code of a page."""
    text = plain(source)
    if len(text) > MAX_HIGHLIGHTED:
        return Markup("<pre>{}</pre>").format(text)
    lexer = CudaLexer() if name.endswith((".cu", ".cuh", ".h")) else PythonLexer()
    formatter = HtmlFormatter(
        cssclass="source", linenos="inline", lineanchors="L" if anchors else "", anchorlinenos=anchors
    )
    return Markup(highlight(text, lexer, formatter))  # noqa: S704 (pygments escapes)


def stylesheet() -> str:
    """The site's one stylesheet: ours, and the colours of code in both themes."""
    light = HtmlFormatter(style="default").get_token_style_defs(".source")  # type: ignore[no-untyped-call]
    dark = HtmlFormatter(style="github-dark").get_token_style_defs(".source")  # type: ignore[no-untyped-call]
    rules = [
        (SITE / "assets" / "style.css").read_text("utf-8"),
        "@media (prefers-color-scheme: light) {", *light, "}",
        "@media (prefers-color-scheme: dark) {", *dark, "}",
    ]  # fmt: skip
    return "\n".join(rules) + "\n"
