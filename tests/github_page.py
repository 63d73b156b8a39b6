"""A page that shows comments as GitHub does, from their Markdown alone: `python -m tests.github_page IN.md OUT.html`.

It knows nothing about PullRank.  It reads tables, strikethrough, alerts and HTML; `@login`, `#7` and bare addresses
outside of code become links, as on GitHub.  It is less careful than GitHub: raw HTML stays unchanged, so that a browser
runs anything that a participant got through.  Widths and sizes are those of GitHub's own comments.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

STYLE = """
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1f2328; font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial,
  sans-serif, "Noto Color Emoji"; }
.column { max-width: 720px; margin: 0 auto; padding: 16px; }
.comment { border: 1px solid #d1d9e0; border-radius: 6px; margin-bottom: 16px; }
.who { background: #f6f8fa; border-bottom: 1px solid #d1d9e0; border-radius: 6px 6px 0 0; padding: 8px 16px; color: #59636e; }
.who b { color: #1f2328; }
.who i { border: 1px solid #d1d9e0; border-radius: 2em; padding: 0 6px; font-size: 12px; font-style: normal; }
.body { padding: 16px; overflow-wrap: break-word; }
.body > :first-child { margin-top: 0; }
.body > :last-child, blockquote > :last-child { margin-bottom: 0; }
p, pre, table, blockquote, details, ul { margin: 0 0 16px; }
h3 { font-size: 1.25em; line-height: 1.25; margin: 24px 0 16px; font-weight: 600; }
a { color: #0969da; }
code { font: 85% ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; background: #818b981f;
  border-radius: 6px; padding: .2em .4em; white-space: break-spaces; }
pre { background: #f6f8fa; border-radius: 6px; padding: 16px; overflow: auto; line-height: 1.45; }
pre code { background: none; padding: 0; white-space: pre; }
h3 code { font-size: inherit; padding: 0 .2em; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse; }
th { font-weight: 600; }
th, td { border: 1px solid #d1d9e0; padding: 6px 13px; }
tbody tr:nth-child(even) { background: #f6f8fa; }
details table, details pre { margin-top: 16px; }
summary { cursor: pointer; }
sub { font-size: 75%; line-height: 0; position: relative; bottom: -.25em; vertical-align: baseline; }
blockquote { border-left: .25em solid #d1d9e0; color: #59636e; padding: 0 1em; }
.alert { border-left: .25em solid #0969da; padding: .5rem 1rem; margin-bottom: 16px; }
.alert > .title { color: #0969da; font-weight: 500; margin-bottom: 4px; }
.alert > :last-child { margin-bottom: 0; }
.alert.warning { border-color: #9a6700; }
.alert.warning > .title { color: #9a6700; }
.annotation { border: 1px solid #d1d9e0; border-left: 3px solid #cf222e; border-radius: 6px; padding: 8px 12px; margin-bottom: 16px; }
.annotation b { color: #cf222e; }
"""
_ALERT = re.compile(r"\[!(NOTE|WARNING)\]\n?")
_LINKED = re.compile(r"(?<![\w/@])@[A-Za-z0-9][A-Za-z0-9-]*|(?<![\w&])#[0-9]+|https?://[^\s<]+|www\.[^\s<]+")


def page_of(comments: Mapping[str, str]) -> str:
    """A page of comments, each with a heading."""
    shown = "".join(
        f'<section class="comment"><div class="who"><b>github-actions</b> <i>bot</i> {escape(heading)}</div>'
        f'<div class="body">{html_of(text)}</div></section>'
        for heading, text in comments.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Comments</title>'
        f'<style>{STYLE}</style></head><body><div class="column">{shown}</div></body></html>\n'
    )


def html_of(text: str) -> str:
    """A comment's HTML."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = reader.parse(text)
    _make_alerts(tokens)
    for token in tokens:
        _make_links(token)
    return str(reader.renderer.render(tokens, reader.options, {}))


def _make_alerts(tokens: list[Token]) -> None:
    """`> [!WARNING]` is a quotation in plain Markdown; GitHub gives it a colour."""
    for start, token in reversed(list(enumerate(tokens[:-2]))):
        words = tokens[start + 2]
        found = _ALERT.match(words.content) if token.type == "blockquote_open" else None
        if not found or not words.children:
            continue
        end = next(one for one in tokens[start:] if (one.type, one.level) == ("blockquote_close", token.level))
        token.tag = end.tag = "div"
        token.attrs = {"class": f"alert {found[1].lower()}"}
        words.children = words.children[2:]
        tokens.insert(start + 1, Token("html_block", "", 0, content=f'<p class="title">{found[1].title()}</p>'))


def _make_links(token: Token) -> None:
    for child in token.children or ():
        if child.type == "text" and _LINKED.search(child.content):
            child.type, child.content = "html_inline", _LINKED.sub(r'<a class="made" href="#">\g<0></a>', child.content)


def main(source: str, out: str) -> None:
    Path(out).write_text(page_of({"commented": Path(source).read_text("utf-8")}), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
