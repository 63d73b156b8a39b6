"""Collect all faults of a file and report them at once, each with its line, its place and how to fix it.

    tasks/gemm/task.yml:12: benchmark_timout: unknown key; did you mean 'benchmark_timeout'?
    tasks/gemm/task.yml:19: tests[2].size: must be a number, a word, true, false or a list of whole numbers, not nothing

Parsers add to a `Faults`; their caller raises its text.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from harness.records.errors import did_you_mean

Loc = tuple[str | int, ...]
"""A place in a file: `("tests", 2, "size")`."""

M = TypeVar("M", bound=BaseModel)

_WANTED = {
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "string_too_long": "at most {max_length} characters",
}


class Faults:
    """The faults of one file, in line order.

    `is_packed` says that the file is in a zip, so messages suggest no shell command for it.
    """

    def __init__(self, path: Path, *, is_packed: bool = False) -> None:
        self.path = path
        self.is_packed = is_packed
        self.lines: dict[Loc, int] = {(): 1}
        self._places: set[Loc] = set()
        self._found: list[tuple[int, str]] = []

    def add(self, loc: Loc, message: str, *, line: int | None = None) -> None:
        """Add a fault.  Keeps only the first per place, because others usually follow from it."""
        if loc and loc in self._places:
            return
        self._places.add(loc)
        line = line or self._line(loc)
        place = f"{_dotted(loc)}: " if loc else ""
        self._found.append((line, f"{display(self.path)}:{line}: {place}{message}"))

    def add_elsewhere(self, path: Path, message: str, *, line: int | None = None) -> None:
        """Add a fault of a related file; these come last."""
        place = f":{line}" if line else ""
        self._found.append((sys.maxsize, f"{display(path)}{place}: {message}"))

    def validate(self, model: type[M], values: Any, *, context: object = None) -> M | None:
        """The values as a model; None without values, or if they have faults, which are added."""
        try:
            return None if values is None else model.model_validate(values, context=context)
        except ValidationError as error:
            self.add_all(error, model)
            return None

    def add_all(self, error: ValidationError, model: type[BaseModel]) -> None:
        """Add the errors of a failed validation against `model`."""
        for details in error.errors(include_url=False):
            loc = tuple(part for part in details["loc"] if part != "[key]")
            # pydantic counts only valid items: it also calls a list empty whose only item is invalid.
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
    """A path for messages: relative to the current folder if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def quote(value: object) -> str:
    """A value for messages, shortened."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) >= 10**30:  # Python refuses to print very large ones
            return "a number of that size"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _in_plain_words(kind: str, value: Any, context: dict[str, Any], loc: Loc, names: Iterable[str]) -> str:
    """Turn a pydantic error into a message that says what is wrong and how to write it."""
    match kind:
        case "value_error":
            return str(context["error"])
        case "missing":
            return "required key is missing"
        case "extra_forbidden":
            return f"unknown key{did_you_mean(str(loc[-1]), names)}"
        case "enum" | "literal_error":
            known = re.findall(r"'([^']+)'", context["expected"])
            near = did_you_mean(value[:60], known) if isinstance(value, str) else ""
            return f"must be one of {', '.join(known)}, not {quote(value)}{near}"
        case "string_type":
            hint = "" if value is None or isinstance(value, list | dict) else "; put it in quotes"
            return f"must be text, not {quote(value)}{hint}"
        case "too_long":
            return f"must be at most {context['max_length']} long, not {context['actual_length']}"
        case "too_short" | "string_too_short":
            return "must not be empty"
    return f"must be {_WANTED.get(kind, kind).format_map(context)}, not {quote(value)}"


def _keys_beside(loc: Loc, model: type[BaseModel]) -> Iterable[str]:
    """The known keys at the level of `loc`."""
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
