"""The preview picture that other sites show for a link to a board (Open Graph): the leader, the time, the records.

1200 × 630 pixels, in few colours, in the font that comes with Pillow: the same data give the same bytes on any machine.
"""

from __future__ import annotations

import io
import re
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
_MICRO = "\u03bc"
"""NFKD turns the micro sign into this letter."""
_U_STARTS_AT, _U_STEM = 0.066, 0.094
"""The left edge and the width of the stem of a `u`, as shares of the font's size."""
_SHADES = 8
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 1128, 392, 560


def board_picture(site: Site, summary: BoardSummary) -> Iterator[tuple[str, bytes]]:
    """A board's picture, if the site's address is known: Open Graph needs an absolute URL."""
    if site.address:
        yield board_path(summary.board, "og.png"), _drawn(site, summary)


def _drawn(site: Site, summary: BoardSummary) -> bytes:
    image = Image.new("RGB", SIZE, _PAGE)
    draw = ImageDraw.Draw(image)
    board, first = summary.board, summary.first
    _write(draw, 60, 30, site.title, _SOFT, 40)
    _write(draw, 104, 76, board.task.title if _in_type(board.task.title) else board.task.name, _INK, 26)
    _write(draw, 204, 38, f"{board.gpu}, {count(len(summary.places), 'entry', 'entries')}", _ACCENT, 44)
    if first:
        _write(draw, 280, 50, f"{first.login}  {format_us(first.score_us.value)}", _INK, 34)
        records = count(len(summary.records), "record", "records") if summary.records else "first entry"
        doubt = ", contested" if summary.contenders else ""
        about = "provisional" if first.provisional else f"{records}{doubt}"
        _write(draw, 340, 28, f"{format_error(first.score_us)}, {about}", _SOFT, 60)
        if summary.marks:
            draw.line(_stairs(summary), fill=_ACCENT, width=6, joint="curve")
    else:
        invites = "The first accepted entry takes first place."
        _write(draw, 300, 50, invites if site.takes_entries(board) else "No entries.", _SOFT, 44)
    draw.line((_LEFT, _BOTTOM + 14, _RIGHT, _BOTTOM + 14), fill=_LINE, width=3)
    out = io.BytesIO()
    image.quantize(palette=_palette(), dither=Image.Dither.NONE).save(out, "PNG")
    return out.getvalue()


@cache
def _palette() -> Image.Image:
    """Shades from the background to each other colour, for the smooth edges of letters."""
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
    """Write a line of text, `y` from the top; the font lacks `µ`, so it is drawn as a `u` with a stem."""
    font = ImageFont.load_default(size)
    assert isinstance(font, ImageFont.FreeTypeFont)
    x, baseline = float(_LEFT), y + font.getmetrics()[0]
    for piece in re.split(f"({_MICRO})", _in_type(shorten(plain(text), most))):
        letters = "u" if piece == _MICRO else piece
        draw.text((x, baseline), letters, font=font, fill=colour, anchor="ls")
        if piece == _MICRO:
            left, below = round(x + _U_STARTS_AT * size), baseline + font.getbbox("p", anchor="ls")[3]
            draw.rectangle((left, baseline - size // 8, left + round(_U_STEM * size) - 1, below - 1), fill=colour)
        x += font.getlength(letters)


def _in_type(text: str) -> str:
    """The characters of a text that the font can show, and `µ`: Latin letters lose their accents."""
    letters = unicodedata.normalize("NFKD", text.replace("–", "-").replace("×", "x"))
    return "".join(one for one in letters if one.isascii() or one in f"±…’{_MICRO}").strip()


def _stairs(summary: BoardSummary) -> list[tuple[float, float]]:
    """The best time over the season, one step down for each record."""
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
