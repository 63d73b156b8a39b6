"""A page that shows messages as Discord does, from their JSON alone: `python -m tests.discord_page OUT.html`.

It knows nothing about PullRank.  Embeds follow Discord's layout (inline fields three in a row, the picture below them,
the colour as a bar at the left), and so does their Markdown: escapes first, no HTML, times as `<t:…>`,
`[words](address)`, and none in an author's name or a footer.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Any

Json = dict[str, Any]

STYLE = """
:root { color-scheme: dark; }
* { box-sizing: border-box; margin: 0; }
body { background: #313338; color: #dbdee1; font: 16px/1.375 "gg sans", "Noto Sans", "Helvetica Neue", Arial, sans-serif;
  padding: 16px 0 24px; }
.channel { color: #f2f3f5; font-weight: 600; padding: 0 16px 12px; border-bottom: 1px solid #26272b; margin-bottom: 8px; }
.channel::before { content: "#"; color: #80848e; font-weight: 500; font-size: 24px; margin-right: 8px; vertical-align: -2px; }
.message { display: grid; grid-template-columns: 40px minmax(0, 1fr); gap: 0 16px; padding: 8px 48px 8px 16px; }
.avatar { width: 40px; height: 40px; border-radius: 50%; background: #5865f2; color: #fff; display: grid;
  place-items: center; font-weight: 700; }
.who { color: #f2f3f5; font-weight: 500; }
.app { background: #5865f2; color: #fff; border-radius: 4px; font-size: 10px; font-weight: 600; padding: 1px 5px; margin: 0 6px;
  vertical-align: 2px; }
.when { color: #949ba4; font-size: 12px; }
.embed { background: #2b2d31; border-left: 4px solid #1e1f22; border-radius: 4px; max-width: min(516px, 100%); width: max-content;
  padding: 8px 16px 16px 12px; margin-top: 4px; font-size: 14px; line-height: 18px; }
.author { font-weight: 600; color: #f2f3f5; margin-top: 8px; }
.title { font-size: 16px; line-height: 22px; font-weight: 600; margin-top: 8px; color: #f2f3f5; }
a { color: #00a8fc; text-decoration: none; }
.description { margin-top: 8px; white-space: pre-line; }
.fields { display: grid; grid-template-columns: repeat(12, 1fr); gap: 8px; margin-top: 8px; }
.name { color: #f2f3f5; font-weight: 600; }
.value { white-space: pre-line; }
.image { display: block; width: 484px; max-width: 100%; aspect-ratio: 1200 / 630; border-radius: 4px; margin-top: 16px;
  background: #1e1f22; }
.footer { font-size: 12px; line-height: 16px; font-weight: 500; margin-top: 8px; }
.time { background: #3f4147; border-radius: 3px; padding: 0 2px; }
code { background: #1e1f22; border-radius: 4px; padding: 0 3px; font-size: 85%; }
.message b { color: inherit; font-weight: 700; }
"""

_INLINE = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9\s])"
    r"|<t:(?P<time>-?\d+)(?::(?P<style>[tTdDfFR]))?>"
    r"|<(?P<mention>[@#][!&]?\d+)>|(?P<everyone>@everyone|@here)"
    r"|\[(?P<words>(?:\\.|[^\]\\])+)\]\((?P<link>https?://[^\s)]+)\)"
    r"|(?P<url>https?://[^\s<]+)"
    r"|`(?P<code>[^`\n]+)`"
    r"|\*\*(?P<bold>(?:\\.|[^*\\])+)\*\*|~~(?P<struck>(?:\\.|[^~\\])+)~~|\|\|(?P<spoiler>.+?)\|\|"
    r"|\*(?P<italic>(?:\\.|[^*\\\s])(?:\\.|[^*\\])*)\*|_(?P<under>(?:\\.|[^_\\])+)_(?!\w)"
)


def markdown(text: str, now: datetime) -> str:
    """Discord's inline Markdown as HTML."""
    made, end = [], 0
    for found in _INLINE.finditer(text):
        made += [escape(text[end : found.start()]), _span(found, now)]
        end = found.end()
    return "".join([*made, escape(text[end:])])


def _span(found: re.Match[str], now: datetime) -> str:
    kind = next(
        name for name, value in found.groupdict().items() if value is not None and name not in ("style", "link")
    )
    value = found[kind]
    match kind:
        case "escaped":
            return escape(value)
        case "time":
            return f'<span class="time">{_when(datetime.fromtimestamp(int(value), UTC), found["style"] or "f", now)}</span>'
        case "mention" | "everyone":
            return f'<mark class="mention">{escape(value)}</mark>'
        case "words":
            return f'<a href="{escape(found["link"])}">{markdown(value, now)}</a>'
        case "url":
            return f'<a href="{escape(value)}">{escape(value)}</a>'
        case "code":
            return f"<code>{escape(value)}</code>"
    tag = {"bold": "b", "struck": "s", "spoiler": "mark", "italic": "i", "under": "i"}[kind]
    return f"<{tag}>{markdown(value, now)}</{tag}>"


def _when(at: datetime, style: str, now: datetime) -> str:
    if style != "R":
        return f"{at:%A, %-d %B %Y %H:%M}" if style == "F" else f"{at:%-d %B %Y %H:%M}"
    hours = (at - now) / timedelta(hours=1)
    size = f"{abs(hours):.0f} hours" if abs(hours) < 36 else f"{abs(hours) / 24:.0f} days"
    return f"in {size}" if hours > 0 else f"{size} ago"


def page(
    messages: Sequence[Json],
    channel: str = "kernel-cup",
    now: datetime | None = None,
    pictures: Mapping[str, bytes] | None = None,
) -> str:
    """The whole page.

    Args:
        messages: bodies of posts, as Discord received them.
        now: for relative times; by default, each message's own time.
        pictures: PNGs by address; for any other picture the page shows a box, as Discord does.
    """
    shown = "\n".join(_message(body, now, pictures or {}) for body in messages)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>#{escape(channel)}</title>'
        f'<style>{STYLE}</style><body><div class="channel">{escape(channel)}</div>\n{shown}</body></html>'
    )


def _message(body: Json, now: datetime | None, pictures: Mapping[str, bytes]) -> str:
    stamp = datetime.fromisoformat(body["embeds"][0]["timestamp"])
    name = body.get("username") or "PullRank"
    head = f'<span class="who">{escape(name)}</span><span class="app">APP</span><span class="when">{stamp:%d/%m/%Y, %H:%M}</span>'
    embeds = "".join(_embed(embed, now or stamp, pictures) for embed in body["embeds"])
    return (
        f'<div class="message"><div class="avatar">{escape(name[:1])}</div><div><div>{head}</div>{embeds}</div></div>'
    )


def _embed(embed: Json, now: datetime, pictures: Mapping[str, bytes]) -> str:
    parts = []
    if author := embed.get("author"):
        parts.append(f'<div class="author">{escape(author["name"])}</div>')
    if title := embed.get("title"):
        words = markdown(title, now)
        parts.append(f'<div class="title">{_linked(words, embed.get("url"))}</div>')
    if description := embed.get("description"):
        parts.append(f'<div class="description">{markdown(description, now)}</div>')
    if fields := embed.get("fields"):
        parts.append(f'<div class="fields">{"".join(_fields(fields, now))}</div>')
    if image := embed.get("image"):
        parts.append(_image(pictures.get(image["url"])))
    stamp = datetime.fromisoformat(embed["timestamp"]) if embed.get("timestamp") else None
    foot = [escape(embed.get("footer", {}).get("text", "")), f"{stamp:%d/%m/%Y %H:%M}" if stamp else ""]
    parts.append(f'<div class="footer">{" • ".join(filter(None, foot))}</div>')
    return f'<div class="embed" style="border-left-color: #{embed.get("color", 0x1E1F22):06x}">{"".join(parts)}</div>'


def _image(png: bytes | None) -> str:
    if png is None:
        return '<div class="image"></div>'
    return f'<img class="image" alt="" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def _linked(words: str, url: str | None) -> str:
    return f'<a href="{escape(url)}">{words}</a>' if url else words


def _fields(fields: Sequence[Json], now: datetime) -> Iterable[str]:
    """Inline fields in rows of three, or two if there are only two; all others alone."""
    for row in _rows(fields):
        for index, field in enumerate(row):
            span = 12 // len(row)
            yield (
                f'<div style="grid-column: {1 + index * span} / span {span}">'
                f'<div class="name">{markdown(field["name"], now)}</div>'
                f'<div class="value">{markdown(field["value"], now)}</div></div>'
            )


def _rows(fields: Sequence[Json]) -> list[list[Json]]:
    rows: list[list[Json]] = []
    for field in fields:
        last = rows[-1] if rows else []
        if field.get("inline") and last and last[0].get("inline") and len(last) < 3:
            last.append(field)
        else:
            rows.append([field])
    return rows


if __name__ == "__main__":
    from tests.test_announce import one_of_each

    out = Path(sys.argv[1] if len(sys.argv) > 1 else "announcements.html")
    bodies, drawn = one_of_each(out.resolve().parent / ".announcements")
    out.write_text(page(bodies, pictures=drawn), encoding="utf-8")
    sys.stdout.write(f"{out}\n")
