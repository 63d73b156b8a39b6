"""Files for programs: tables, badges for shields.io, records as Atom feeds, the sitemap.

Feeds and sitemap need the site's address.  They are left out if it is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from scripts.common.text import format_error, format_us, plain
from scripts.pages.parts.paths import board_path
from scripts.pages.parts.render import json_text
from scripts.pages.parts.results import board_csv
from scripts.pages.parts.site import Site
from scripts.pages.parts.summary import BoardSummary, Mark
from scripts.pages.parts.words import gain, iso

LATEST = 50
"""Entries in a feed."""

_ATOM = "http://www.w3.org/2005/Atom"
_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def board_files(site: Site, summary: BoardSummary) -> Iterator[tuple[str, str]]:
    """A board's CSV, badge and feed."""
    board = summary.board
    yield board_path(board, "board.csv"), board_csv(summary)
    yield board_path(board, "badge.json"), json_text(_badge(summary))
    if site.address:
        title = f"{board.task.title} on {board.gpu}: records"
        yield _feed(site, board_path(board, "records.atom"), title, board_path(board), summary.marks)


def feed_of_all(site: Site, boards: Sequence[BoardSummary]) -> Iterator[tuple[str, str]]:
    """The feed of all records."""
    if site.address:
        marks = sorted((mark for board in boards for mark in board.marks), key=lambda mark: mark.at)
        yield _feed(site, "records.atom", f"{site.title}: records", "index.html", marks)


def sitemap(site: Site, pages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """All pages but 404.html."""
    if not site.address:
        return
    root = Element("urlset", xmlns=_SITEMAP)
    for path in sorted(pages):
        if path != "404.html":
            SubElement(SubElement(root, "url"), "loc").text = site.address + path
    yield "sitemap.xml", _xml(root)


def _badge(summary: BoardSummary) -> dict[str, object]:
    """The fields of a shields.io endpoint, which rejects any other: https://shields.io/badges/endpoint-badge"""
    first, board = summary.first, summary.board
    message = f"{first.login} {format_us(first.score_us.value)}" if first else "no entries"
    if first and first.provisional:
        message += ", provisional"
    label = f"{board.task.name} {board.gpu}"
    return {"schemaVersion": 1, "label": label, "message": message, "color": "blue" if first else "lightgrey"}


def _feed(site: Site, path: str, title: str, page: str, marks: Sequence[Mark]) -> tuple[str, str]:
    root = Element("feed", xmlns=_ATOM)
    SubElement(root, "title").text = plain(title)
    SubElement(root, "id").text = site.address + path
    SubElement(root, "link", rel="self", href=site.address + path)
    SubElement(root, "link", href=site.address + page)
    SubElement(root, "updated").text = iso(marks[-1].at) if marks else "1970-01-01T00:00:00+00:00"
    for mark in reversed(marks[-LATEST:]):
        _add_entry(root, site, mark)
    return path, _xml(root)


def _add_entry(root: Element, site: Site, mark: Mark) -> None:
    board, entry = mark.board, SubElement(root, "entry")
    how = "first entry" if not mark.over else "by forfeit" if mark.gain is None else f"speedup {gain(mark.gain)}"
    time = f"{format_us(mark.score_us.value)} {format_error(mark.score_us)}"
    SubElement(entry, "title").text = plain(f"{mark.login}: {time} on {board.task.title}, {board.gpu} ({how})")
    SubElement(entry, "id").text = f"{site.address}{mark.page}#{iso(mark.at)}"
    SubElement(entry, "link", href=site.address + mark.page)
    SubElement(entry, "updated").text = iso(mark.at)
    SubElement(SubElement(entry, "author"), "name").text = mark.login


def _xml(root: Element) -> str:
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"
