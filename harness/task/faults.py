"""Everything that is wrong with a file, said in one go: each fault with its line, its place and the way out.

    tasks/gemm/task.yml:12: benchmark_timout: unknown key; did you mean 'benchmark_timeout'?
    tasks/gemm/task.yml:19: tests[2].size: must be a number, a word, true, false or a list of whole numbers, not nothing

Readers add what they find to a `Faults`; whoever started them raises its text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from harness.records.errors import did_you_mean

Loc = tuple[str | int, ...]
"""A place in a file: `("tests", 2, "size")`."""

_WANTED = {
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "at most {le:g}",
    "too_long": "at most {max_length} long",
    "string_too_long": "at most {max_length} characters",
}


class Faults:
    """What was found wrong with one file, in the order of its lines.

    `is_packed` says that it lies in a zip, where no command reaches it.
    """

    def __init__(self, path: Path, *, is_packed: bool = False) -> None:
        self.path = path
        self.is_packed = is_packed
        self.lines: dict[Loc, int] = {(): 1}
        self._places: set[Loc] = set()
        self._found: list[tuple[int, str]] = []

    def add(self, loc: Loc, message: str, *, line: int | None = None) -> None:
        """One fault a place: what follows from the first would only confuse."""
        if loc and loc in self._places:
            return
        self._places.add(loc)
        line = line or self._line(loc)
        place = f"{_dotted(loc)}: " if loc else ""
        self._found.append((line, f"{display(self.path)}:{line}: {place}{message}"))

    def add_elsewhere(self, path: Path, message: str, *, line: int | None = None) -> None:
        """A fault of another file that belongs to this one; such faults come last."""
        place = f":{line}" if line else ""
        self._found.append((sys.maxsize, f"{display(path)}{place}: {message}"))

    def add_all(self, error: ValidationError, model: type[BaseModel]) -> None:
        """What pydantic found when it read values as a `model`."""
        for details in error.errors(include_url=False):
            loc = tuple(part for part in details["loc"] if part != "[key]")
            # pydantic counts only what was valid: a list whose one item is at fault would be called empty, too.
            if details["type"] != "too_short" or not details["input"]:
                names = _keys_beside(loc, model)
                self.add(loc, _in_plain_words(details["type"], details["input"], details.get("ctx", {}), loc, names))

    def _line(self, loc: Loc) -> int:
        while loc not in self.lines:
            loc = loc[:-1]
        return self.lines[loc]

    def __bool__(self) -> bool:
        return bool(self._found)

    def __str__(self) -> str:
        return "\n".join(text for _, text in sorted(self._found, key=itemgetter(0)))


def display(path: Path) -> str:
    """A path as messages show it: from where the reader stands, if it lies below."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def quote(value: object) -> str:
    """A value as messages show it: short, whatever it is."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**30:  # Python refuses to print the largest
            return "a number of that size"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_plain_words(kind: str, value: Any, context: dict[str, Any], loc: Loc, names: Iterable[str]) -> str:
    """What pydantic found, in the words of this project: what is wrong and how to write it."""
    match kind:
        case "value_error":
            return str(context["error"])
        case "missing":
            return "required key is missing"
        case "extra_forbidden":
            return f"unknown key{did_you_mean(str(loc[-1]), names)}"
        case "enum" | "literal_error":
            known = re.findall(r"'([^']+)'", context["expected"])
            return f"must be one of {', '.join(known)}, not {quote(value)}{did_you_mean(str(value)[:60], known)}"
        case "string_type":
            hint = "" if value is None or isinstance(value, list | dict) else "; put it in quotes"
            return f"must be text, not {quote(value)}{hint}"
        case "too_short" | "string_too_short":
            return "must not be empty"
    return f"must be {_WANTED.get(kind, kind).format_map(context)}, not {quote(value)}"


def _keys_beside(loc: Loc, model: type[BaseModel]) -> Iterable[str]:
    """The keys that are known where `loc` stands."""
    for part in loc[:-1]:
        if field := model.model_fields.get(str(part)):
            model = _model_in(field.annotation) or model
    return model.model_fields


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _dotted(loc: Loc) -> str:
    """`tests[2].size`"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")
