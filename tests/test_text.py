"""Hostile text in Markdown, and numbers for people."""

import re

import pytest
from markdown_it import MarkdownIt

from harness.records.stats import Interval
from scripts.common.text import (
    fence,
    format_gap,
    format_interval,
    format_percent,
    format_us,
    inline,
    plain,
    shorten,
    shorten_markdown,
)
from tests.properties import given, settings, st

calmly = settings(deadline=None, derandomize=True, database=None)
hostile = st.text(
    alphabet=st.one_of(st.sampled_from("`|\\<>@#[]()!*_~:/\n\r\t \x1b\u202e\u200b$"), st.characters()), max_size=200
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("output[3] is 1.5, expected 1.0 ± 0.1 µs", "output[3] is 1.5, expected 1.0 ± 0.1 µs"),
        ("日本語 é ß 🎉", "日本語 é ß 🎉"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("from\r\nWindows", "from\nWindows"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x1b[31mred\x1b[0m \x07\x00\x7f", "\\x1b[31mred\\x1b[0m \\x07\\x00\\x7f"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202egnp.exe\u2066\u200f", "abc\\u202egnp.exe\\u2066\\u200f"),
        ("zero\u200bwidth\ufeff\u2060\u00ad", "zero\\u200bwidth\\ufeff\\u2060\\xad"),
        ("tag \U000e0041", "tag \\U000e0041"),
        ("filler \u3164\u2800\u115f\ufe0f", "filler \\u3164\\u2800\\u115f\\ufe0f"),
        ("line\u2028separator\u2029", "line\\u2028separator\\u2029"),
        ("lone \ud800", "lone \\ud800"),
        ("wide\u3000space\u00a0", "wide\u3000space\u00a0"),
    ],
)
def test_plain_escapes_invisible_characters_and_keeps_the_rest(text: str, expected: str) -> None:
    assert plain(text) == expected


@calmly
@given(hostile)
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert plain(plain(text)) == plain(text)
    plain(text).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("simple", "`simple`"),
        ("two\n  lines", "`two lines`"),
        ("a|b", "`a¦b`"),
        ("a `b` c", "``a `b` c``"),
        ("``` at start", "```` ``` at start ````"),
        ("@alice #1 <img src=x>", "`@alice #1 <img src=x>`"),
        (" \n ", ""),
        ("", ""),
    ],
)
def test_a_line_becomes_code(text: str, expected: str) -> None:
    assert inline(text) == expected


@calmly
@given(hostile)
def test_a_cell_of_a_table_is_code_and_nothing_else(text: str) -> None:
    cell = inline(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(f"| a | b |\n| --- | --- |\n| {cell} | end |")
    inlines = [token for token in tokens if token.type == "inline"]
    assert [token.content for token in inlines if token.content == "end"] or cell.strip("` ") == "end"
    assert len(inlines) == 4
    assert [child.type for child in inlines[2].children or []] == (["code_inline"] if cell else [])


@calmly
@given(hostile)
def test_a_fence_is_one_block_of_code_and_nothing_else(text: str) -> None:
    tokens = MarkdownIt("commonmark").parse(f"before\n\n{fence(text)}\n\nafter")
    assert [token.type for token in tokens if not token.type.startswith("paragraph")] == ["inline", "fence", "inline"]


def test_a_fence_is_longer_than_the_fences_in_its_text() -> None:
    text = "before\n```\n@everyone\n````\nafter"
    assert fence(text) == f"`````text\n{text}\n`````"


FOLDED = (
    "### Heading\n\n<details><summary>Log</summary>\n\n````text\n```\n" + "±\n" * 90 + "````\n\n</details>\n\nEnd.\n"
)


@pytest.mark.parametrize("in_bytes", [False, True])
@pytest.mark.parametrize("limit", range(20, 330, 7))
def test_markdown_is_cut_within_its_limit_and_nothing_is_left_open(limit: int, in_bytes: bool) -> None:
    text = shorten_markdown(FOLDED, limit, "*More.*", in_bytes=in_bytes)
    assert len(text.encode() if in_bytes else text) <= limit
    if text == FOLDED:
        return
    assert text.endswith("\n\n*More.*\n") and text.count("<details>") == text.count("</details>")
    said = [token.content for token in MarkdownIt().parse(text) if token.type == "inline"]
    assert said[-1] == "*More.*", "the note is not code"


def test_markdown_that_fits_is_not_cut() -> None:
    size = len(FOLDED.encode())
    assert shorten_markdown(FOLDED, size, "more", in_bytes=True) == FOLDED
    assert shorten_markdown(FOLDED, size - 1, "more", in_bytes=True) != FOLDED


def test_long_text_is_cut_after_escaping() -> None:
    assert len(inline("\u202e" * 1000, 100)) == 102
    assert shorten("abcdef", 4) == "abc…"
    assert shorten("abcdef", 4, keep_end=True) == "…def"
    assert fence("x" * 100 + "end", 10, keep_end=True) == "```text\n…xxxxxxend\n```"


@pytest.mark.parametrize(
    ("us", "expected"),
    [
        (0.0004, "0.400 ns"),
        (0.4123, "412.3 ns"),
        (1e-8, "1e-05 ns"),
        (0.000_025, "0.025 ns"),
        (1, "1.000 µs"),
        (412.34, "412.3 µs"),
        (999.94, "999.9 µs"),
        (999.96, "1.000 ms"),
        (1234.4, "1.234 ms"),
        (12_344, "12.34 ms"),
        (1_500_000, "1.500 s"),
        (7_200_000_000, "7200 s"),
    ],
)
def test_a_time_has_four_digits_and_a_unit(us: float, expected: str) -> None:
    assert format_us(us) == expected


@calmly
@given(st.floats(1e-3, 1e9))
def test_no_time_is_longer_than_a_cell(us: float) -> None:
    assert re.fullmatch(r"\d[\d.]{0,4} (ns|µs|ms|s)", format_us(us)) or us >= 1e10


def test_intervals_and_shares_are_written_with_their_unit() -> None:
    assert format_interval(Interval(value=412.3, low=410.6, high=413.9)) == "412.3 µs ±0.4 %"
    assert format_percent(0.031) == "3.1 %"


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (0.031, "+3.1 %"),
        (0.0, "+0.0 %"),
        (-0.0004, "+0.0 %"),
        (-0.05, "−5.0 %"),
        (0.999, "+99.9 %"),
        (1, "+100 %"),
        (9.974, "+997 %"),
        (1239, "+123,900 %"),
    ],
)
def test_a_gap_is_a_percentage_and_never_looks_like_a_speedup(share: float, expected: str) -> None:
    assert format_gap(share) == expected
