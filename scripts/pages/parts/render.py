"""Jinja, set up to clean and escape every value and to reject undefined ones.

Text by participants passes `plain` (no control or bidirectional characters) and Jinja's autoescape on its way into a
page; a template need not ask for it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from scripts.common.text import format_error, format_gap, format_limit, format_percent, format_speedup, format_us, plain
from scripts.pages.parts import paths, words
from scripts.standings.claims import claim_sentence, is_self_timed, is_unwalled

VERSION = 2
"""Version of the pages' JSON: it grows if a field is removed or changes its meaning, not if one is added.

History
    1   2026-11   first version
    2   2026-11   `provisional` is a time with a wide interval; before, it was what is `unmerged` now
"""

SITE = Path(__file__).resolve().parents[3] / "site"


def _clean(value: object) -> object:
    """Text without invisible characters; Jinja escapes it afterwards."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _unbroken(number: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: words.unbroken(number(value))


def _remark(text: str) -> Markup:
    """A sentence about a row as HTML: no line breaks before a unit, or within a login of common length."""
    html = str(escape(plain(words.unbroken(text))))  # Not as Markup, which would escape the spans.
    return Markup(_HYPHENATED.sub(r'<span class="nowrap">\g<0></span>', html))  # noqa: S704


_HYPHENATED = re.compile(r"(?<![\w-])(?=[\w-]{3,20}(?![\w-]))\w+(?:-\w+)+")


class _Templates(Environment):
    """Templates get objects, not dictionaries: `a.b` is always an attribute."""

    getattr = staticmethod(getattr)  # type: ignore[assignment]


@cache
def environment() -> Environment:
    """The environment of all pages; its templates are compiled once, before other processes are forked."""
    env = _Templates(
        loader=FileSystemLoader(SITE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "board_path": paths.board_path, "author_path": paths.author_path,
        "claim_sentence": claim_sentence, "ranking": words.RANKINGS.__getitem__,
    }  # fmt: skip
    names = "count day first_sentence hue initials iso minute number ordinal params px sentence"
    env.filters |= {name: getattr(words, name) for name in names.split()}
    env.filters["speedup"] = format_speedup
    numbers: dict[str, Callable[[Any], str]] = {
        "us": format_us, "error": format_error, "gap": format_gap, "percent": format_percent, "gain": words.gain,
        "limit": format_limit, "lost": words.lost, "seconds": words.seconds, "bound": words.bound,
        "duel_sentence": words.duel_sentence, "behind": words.behind,
    }  # fmt: skip
    env.filters |= {name: _unbroken(number) for name, number in numbers.items()}
    env.filters["remark"] = _remark
    env.tests["unwalled"] = is_unwalled
    env.tests["self_timed"] = is_self_timed
    env.globals["macros"] = env.get_template("macros.html").module
    for name in env.list_templates(["html"]):
        env.get_template(name)
    return env


def page(template: str, path: str, **context: Any) -> tuple[str, str]:
    """A page's path and its HTML; in templates, `root` is the relative path to the site's root."""
    context = {"root": "../" * path.count("/")} | context
    return path, environment().get_template(template).render(context)


def data(path: str, facts: Mapping[str, Any]) -> tuple[str, str]:
    """A JSON file's path and its text, which begins with its format: `pullrank-board` for `board.json`."""
    kind = path.rpartition("/")[2].removesuffix(".json")
    return path, json_text({"format": f"pullrank-{kind}", "version": VERSION, **facts})


def json_text(facts: Any) -> str:
    return json.dumps(facts, ensure_ascii=True, allow_nan=False) + "\n"
