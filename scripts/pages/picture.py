"""The picture that other sites show beside a link to a board (Open Graph): who leads, with which time, by which steps.

1200 × 630 pixels, in few colours, with the typeface that Pillow brings: the same bytes from the same data everywhere.
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator
from functools import cache

from PIL import Image, ImageColor, ImageDraw, ImageFont

from scripts.common.text import format_error, format_us, plain, shorten
from scripts.pages.parts.charts import Scale, span_of
from scripts.pages.parts.paths import board_path
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import BoardSummary
from scripts.pages.parts.words import count

SIZE = (1200, 630)
_PAGE, _INK, _SOFT, _LINE, _ACCENT = "#0e1116", "#e8ebef", "#98a2b0", "#262c36", "#8fb0ff"
_SHADES = 8
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 1128, 392, 560


def board_picture(site: Site, summary: BoardSummary) -> Iterator[tuple[str, bytes]]:
    """A board's picture, where the site's address is known: a link to a picture has to be whole."""
    if site.address:
        yield board_path(summary.board, "og.png"), _drawn(site, summary)


def _drawn(site: Site, summary: BoardSummary) -> bytes:
    image = Image.new("RGB", SIZE, _PAGE)
    draw = ImageDraw.Draw(image)
    board, first = summary.board, summary.champion
    _write(draw, 60, 30, site.title, _SOFT, 40)
    _write(draw, 104, 76, board.task.title if _in_type(board.task.title) else board.task.name, _INK, 26)
    _write(draw, 204, 38, f"{board.gpu}, {count(len(summary.places), 'entry', 'entries')}", _ACCENT, 44)
    if first:
        _write(draw, 280, 50, f"{first.login}  {format_us(first.score_us.value)}", _INK, 34)
        records = count(len(summary.marks), "record", "records")
        _write(draw, 340, 28, f"{format_error(first.score_us)}, after {records}", _SOFT, 60)
        draw.line(_stairs(summary), fill=_ACCENT, width=6, joint="curve")
    else:
        invites = "The first accepted entry takes first place."
        _write(draw, 300, 50, invites if site.takes_entries(board) else "Nobody stands here.", _SOFT, 44)
    draw.line((_LEFT, _BOTTOM + 14, _RIGHT, _BOTTOM + 14), fill=_LINE, width=3)
    out = io.BytesIO()
    image.quantize(palette=_palette(), dither=Image.Dither.NONE).save(out, "PNG")
    return out.getvalue()


@cache
def _palette() -> Image.Image:
    """Shades from the page's colour to each of the others, as letters have them at their edges."""
    page, *others = map(ImageColor.getrgb, (_PAGE, _INK, _SOFT, _LINE, _ACCENT))
    shares = [step / (_SHADES - 1) for step in range(_SHADES)]
    palette = Image.new("P", (1, 1))
    palette.putpalette(
        [
            round(start + (end - start) * share)
            for colour in others
            for share in shares
            for start, end in zip(page, colour, strict=True)
        ]
    )
    return palette


def _write(draw: ImageDraw.ImageDraw, y: int, size: int, text: str, colour: str, most: int) -> None:
    draw.text((_LEFT, y), _in_type(shorten(plain(text), most)), font=ImageFont.load_default(size), fill=colour)


def _in_type(text: str) -> str:
    """What the typeface can show of a text: Latin letters without accents, and `u` for micro."""
    letters = unicodedata.normalize("NFKD", text.replace("µ", "u").replace("–", "-").replace("×", "x"))
    return "".join(one for one in letters if one.isascii() or one in "±…’").strip()


def _stairs(summary: BoardSummary) -> list[tuple[float, float]]:
    """The best time over the season, one step a record, down from the first."""
    marks = summary.marks
    times = [mark.score_us.value for mark in marks]
    y = Scale(*span_of(min(times), max(times)), _BOTTOM, _TOP)
    start = marks[0].at
    seconds = ((summary.as_of or marks[-1].at) - start).total_seconds() or 1.0
    points = [(float(_LEFT), y(times[0]))]
    for mark, us in list(zip(marks, times, strict=True))[1:]:
        x = min(_LEFT + (_RIGHT - _LEFT) * (mark.at - start).total_seconds() / seconds, _RIGHT)
        points += [(x, points[-1][1]), (x, y(us))]
    return [*points, (float(_RIGHT), points[-1][1])]
