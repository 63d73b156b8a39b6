"""Render untrusted Markdown and code as safe HTML.

`html: False` escapes raw HTML in Markdown; code is cleaned by `plain`, split into tokens and escaped token by token.
Colours are CSS classes, which the stylesheet defines for both themes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup
from pygments.lexer import Lexer
from pygments.lexers import BashLexer, CudaLexer, JsonLexer, MarkdownLexer, PythonLexer, TextLexer, YamlLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, _TokenType, is_token_subtype

from scripts.common.text import plain
from scripts.pages.parts.words import unbroken

MAX_HIGHLIGHTED = 64 * 1024
"""Characters of code.  Longer files are not highlighted: lexers are slow on hostile input."""

_LONG_GAP = re.compile(r"\s{100}")
"""A file with so much white space in one place is not highlighted.  The time of lexers grows with the square or the
cube of its length: 64 KiB of blank lines would take ten minutes."""

MAX_LINES = 10_000
"""Lines with an element each.  Those after them share one: of nothing but line ends, a page would be 36 times as large
as the file."""

MAX_DIFFED = 1500
"""Lines between the first and the last change.  With more, there is no diff: its time grows with their square."""

_NEAR = 3
"""Context lines around a change."""

_COLOURS = (
    (Comment, "c"), (String, "s"), (Number, "m"), (Keyword, "k"), (Operator.Word, "k"),
    (Name.Decorator, "d"), (Name.Function, "f"), (Name.Class, "f"), (Name.Tag, "f"), (Name.Builtin, "b"),
)  # fmt: skip


class _ShellLexer(BashLexer):  # type: ignore[misc]  # Pygments makes this class on demand, so mypy cannot see it
    """Bash without its builtins: the argument of `pullrank test` is not the builtin `test`."""

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, _TokenType, str]]:
        for index, kind, value in super().get_tokens_unprocessed(text):
            yield index, Name if kind is Name.Builtin else kind, value


_LEXERS: Mapping[str, type[Lexer]] = {
    "bash": _ShellLexer,
    "cuda": CudaLexer,
    "json": JsonLexer,
    "markdown": MarkdownLexer,
    "python": PythonLexer,
    "yaml": YamlLexer,
}
"""Lexers by the language that a fence names: the languages of the guides.  Others are not highlighted."""

_NOT_TO_COPY = "text"
"""The language of a fence that holds output or a drawing, so it has no Copy button."""

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")
_HUNK = re.compile(r"([-+])(\d+)")
_PAGE_LINK = re.compile(r"([a-z-]+)\.md((?:#[\w-]+)?)")


@lru_cache(256)
def render_markdown(text: str, top_level: int = 3) -> Markup:
    """Render Markdown without raw HTML or script links; its first heading has the level `top_level`."""
    return _render(_MARKDOWN.parse(text), top_level)


@lru_cache(64)
def render_guide(text: str) -> Markup:
    """Render a page of site/pages: headings get ids, and links between the files become links between pages."""
    tokens = _MARKDOWN.parse(text)
    for token, following in pairwise(tokens):
        if token.type == "heading_open" and token.tag != "h1":
            token.attrSet("id", anchor(following.content))
    for link in (child for token in tokens for child in token.children or () if child.type == "link_open"):
        if found := _PAGE_LINK.fullmatch(str(link.attrGet("href"))):
            link.attrSet("href", f"../{found[1]}/index.html{found[2]}")
    return _render(tokens, top_level=1)


def sections_of(text: str) -> dict[str, str]:
    """The titles of a guide page's sections, by their anchors, in reading order."""
    pairs = pairwise(_MARKDOWN.parse(text))
    titles = [inner for token, inner in pairs if token.type == "heading_open" and token.tag == "h2" and not token.level]
    return {anchor(title.content): "".join(piece.content for piece in title.children or ()) for title in titles}


def anchor(heading: str) -> str:
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _render(tokens: Sequence[Token], top_level: int) -> Markup:
    _head_rows(tokens)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + top_level - 1, 6)}"
        elif token.type in ("th_open", "td_open"):
            _dress_cell(token)
        for piece in token.children or ():
            if piece.type == "text":
                piece.content = unbroken(piece.content)
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {})
    # Wide tables and code blocks scroll by themselves, and by keyboard.
    html = html.replace("<table>", '<div class="scroll" role="group" aria-label="Table" tabindex="0"><table>')
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    html = html.replace('<th scope="col"></th>', "<td></td>")  # An empty heading is no heading.
    return Markup(html)  # noqa: S704 (html: False escapes)


def _render_fence(_renderer: RendererHTML, tokens: Sequence[Token], index: int, *_: object) -> str:
    """A fenced block: highlighted code, with a Copy button."""
    language = tokens[index].info.strip()
    lines = _render_lines(tokens[index].content, _LEXERS.get(language, TextLexer))
    button = "" if language == _NOT_TO_COPY else '<button class="copy js-only" type="button">Copy</button>'
    return f'<div class="copyable">{button}<pre class="code" tabindex="0">{lines}</pre></div>\n'


_MARKDOWN.add_render_rule("fence", _render_fence)


def _head_rows(tokens: Sequence[Token]) -> None:
    """The cells of a table's first column are the heads of their rows if that column has none."""
    unheaded = False
    for index, token in enumerate(tokens):
        if token.type == "thead_open":
            unheaded = not tokens[index + 3].content  # After the row's opening and the cell's.
        elif token.type == "tr_open" and unheaded and tokens[index + 1].type == "td_open":
            tokens[index + 1].tag = tokens[index + 3].tag = "th"


def _dress_cell(token: Token) -> None:
    """Mark a cell as a head or right-aligned, by a class: the site's Content-Security-Policy forbids inline styles."""
    if token.tag == "th":
        token.attrSet("scope", "col" if token.type == "th_open" else "row")
    if token.attrs.pop("style", "") == "text-align:right":
        token.attrSet("class", "num")


@lru_cache(1024)
def render_code(source: str, name: str, *, anchors: bool = False) -> Markup:
    """Highlighted code, one element per line; `anchors` gives lines ids, so use it once per page."""
    return _render_lines(source, CudaLexer if name.endswith((".cu", ".cuh", ".h")) else PythonLexer, anchors=anchors)


def _render_lines(source: str, lexer: type[Lexer], *, anchors: bool = False) -> Markup:
    lines = _highlighted(_shown(source), lexer).split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = ["\n".join(lines[MAX_LINES:])]
    ids = (f' id="L{number}"' if anchors else "" for number in range(1, len(lines) + 1))
    made = (f'<span class="l"{name}>{line}</span>\n' for name, line in zip(ids, lines, strict=True))
    return Markup("".join(made))  # noqa: S704 (every piece was escaped)


def is_exact(source: str) -> bool:
    """Whether `render_code` shows the file exactly; else invisible characters are escaped and line ends changed."""
    return _shown(source) == _without_mark(source)


def _shown(source: str) -> str:
    return plain(_without_mark(source))


def _without_mark(source: str) -> str:
    return source.removeprefix("\ufeff")  # A byte order mark is no part of the code.


def _highlighted(text: str, lexer: type[Lexer]) -> str:
    if not text or len(text) > MAX_HIGHLIGHTED or _LONG_GAP.search(text):
        return escape(text)
    # `ensurenl`: at an unfinished line, the lexer of CUDA looks for its end again and again.
    tokens = lexer(ensurenl=True, stripnl=False).get_tokens(text)
    return "".join(_coloured(value, _colour_of(kind)) for kind, value in tokens)


@cache
def _colour_of(kind: _TokenType) -> str:
    return next((colour for group, colour in _COLOURS if is_token_subtype(kind, group)), "")


def _coloured(value: str, colour: str) -> str:
    """A token, with its colour on each of its lines: each line is an element of its own."""
    if not colour or not value.strip():
        return escape(value)
    return "\n".join(f'<i class="{colour}">{escape(line)}</i>' if line else "" for line in value.split("\n"))


def render_diff(old: str, new: str) -> Markup | None:
    """A diff of two files; None if they differ in too many lines."""
    before, after = _shown(old).splitlines(), _shown(new).splitlines()
    start = max(0, _agreeing(before, after) - _NEAR)
    before, after = before[start:], after[start:]
    end = max(0, _agreeing(before[::-1], after[::-1]) - _NEAR)
    before, after = before[: len(before) - end], after[: len(after) - end]
    if max(len(before), len(after)) > MAX_DIFFED:
        return None
    return Markup("").join(_diff_lines(difflib.unified_diff(before, after, lineterm="", n=_NEAR), start))


def _agreeing(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """The number of equal lines at the beginning."""
    pairs = zip(ours, theirs, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(ours), len(theirs)))


def _diff_lines(lines: Iterator[str], left_out: int) -> Iterator[Markup]:
    """A unified diff as HTML; `left_out` lines precede both sides."""
    kinds = {"+": "add", "-": "del", "@": "at"}
    for index, line in enumerate(lines):
        if line.startswith("@"):
            line = _HUNK.sub(lambda found: f"{found[1]}{int(found[2]) + left_out}", line)
        if index >= 2:  # The first two lines name the files, as the page does already.
            yield Markup(f'<span class="l {kinds.get(line[:1], "same")}">{escape(line)}</span>\n')  # noqa: S704 (escaped)
