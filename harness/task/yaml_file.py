"""Parse hand-written YAML: plain values, the line of each, and all faults at once.

    bytes ── text ── events ── nodes ── values        {"tests": [{"size": 127}]}
             size    depth     count    └─ lines      {("tests",): 9, ("tests", 0): 10, ("tests", 0, "size"): 10}

PyYAML alone takes the last of two equal keys, reads 1e-3 as text, 010 as 8 and `on` as true, expands alias bombs, and
needs minutes for thousands of open brackets.  This module reports duplicate keys, reads 1e-3 as a number, refuses 010,
1:30, yes, no, on and off without quotes, and limits size and depth.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor
from yaml.reader import Reader

from harness.task.faults import Faults, Loc, display, quote

MAX_BYTES = 128 * 1024
MAX_DEPTH = 16
MAX_VALUES = 20_000

UNREADABLE = object()
"""Placeholder for a value that could not be parsed; no model accepts it."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STANDARD = "tag:yaml.org,2002:"
_SCALARS = {"str", "int", "float", "bool", "null", "timestamp"}
_WRONG_SCALAR = (yaml.YAMLError, ValueError, LookupError, AttributeError, ArithmeticError)
"""Exceptions that PyYAML raises on `!!bool maybe`, `2027-13-01`, `!!timestamp soon` and the like."""
EXPONENT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+")
"""Numbers such as 1e3, which YAML 1.1 takes for text."""
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
"""YAML 1.1 reads 010 as 8, and 08 as text."""
_OTHER_VALUE = re.compile(r"[-+]?[0-9_]+(:[0-5]?[0-9])+(\.[0-9_]*)?|yes|no|on|off", re.IGNORECASE)
"""YAML 1.1 reads 1:30 as 90, and on as true."""
_HINTS = {
    "mapping values are not allowed": "text that contains ': ' needs quotes",
    "cannot start any token": "text that begins with @, % or ` needs quotes; if it continues a text, indent it",
    "found another document": "remove the '---'",
    "did not find expected": "is a bracket or a quote left open?",
}


def read_yaml(path: Path, faults: Faults) -> dict[str, Any] | None:
    """The values of a YAML mapping, adding its faults to `faults`.  None if it cannot be parsed at all."""
    try:
        text = _read_text(path, faults)
        values = _Walk(faults).value(_compose(text), ())
    except _Unreadable as error:
        faults.add((), str(error), line=error.line)
        return None
    if not isinstance(values, dict):
        faults.add((), "must contain keys and values, such as 'title: Vector addition'")
        return None
    return values


class _Unreadable(Exception):
    """The file cannot be parsed any further."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def _read_text(path: Path, faults: Faults) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _Unreadable(f"cannot be read: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise _Unreadable(f"larger than {MAX_BYTES // 1024} KiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Unreadable("not UTF-8; save it as UTF-8", content.count(b"\n", 0, error.start) + 1) from None
    if strange := Reader.NON_PRINTABLE.search(text):
        raise _Unreadable(f"contains the control character {strange[0]!r}", text.count("\n", 0, strange.start()) + 1)
    if "\r" in text:
        faults.add((), windows_line_ends(path, is_packed=faults.is_packed))
    return text


def windows_line_ends(path: Path, *, is_packed: bool = False) -> str:
    command = "" if is_packed else f", or run: sed -i 's/\\r$//' {display(path)}"
    return f"has Windows line endings (CRLF); save it with LF{command}"


def _compose(text: str) -> yaml.Node | None:
    try:
        _refuse_depth(text)
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        raise _in_plain_words(error, text) from None


def _refuse_depth(text: str) -> None:
    """Limit the depth before nodes are built: that recurses, and libyaml takes minutes for 100,000 open brackets."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _Unreadable(f"nested more than {MAX_DEPTH} levels deep", _line(event))


def _in_plain_words(error: yaml.YAMLError, text: str) -> _Unreadable:
    mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line = mark.line + 1 if mark else 1
    tabs = [number for number, content in enumerate(text.split("\n"), 1) if re.match(r" *\t", content)]
    if tabs and tabs[0] <= line:
        others = f" (also in {', '.join(map(str, tabs[1:9]))})" if tabs[1:] else ""
        return _Unreadable(f"indented with a tab; YAML requires spaces{others}", tabs[0])
    problem = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    hint = next((f"; {hint}" for part, hint in _HINTS.items() if part in problem), "")
    return _Unreadable(f"not valid YAML: {problem}{hint}", line)


class _Walk:
    """Convert nodes to plain values, and count them; an alias counts as everything it expands to."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.left = MAX_VALUES
        self.scalars = SafeConstructor()

    def value(self, node: yaml.Node | None, loc: Loc) -> Any:
        self.left -= 1
        if self.left < 0 or len(loc) > MAX_DEPTH:
            raise _Unreadable(f"more than {MAX_VALUES:,} values, or endless nesting; write less, or avoid aliases")
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self.mapping(node, loc)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.placed(child, (*loc, index), _line(child)) for index, child in enumerate(node.value)]
            case yaml.ScalarNode() if node.tag.removeprefix(_STANDARD) in _SCALARS:
                return self.scalar(node, loc)
            case yaml.Node():
                self.faults.add(loc, f"the tag {_short(node.tag)} is not supported")
                return UNREADABLE
        return None

    def placed(self, node: yaml.Node, loc: Loc, line: int) -> Any:
        self.faults.lines[loc] = line
        return self.value(node, loc)

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.faults.add(loc, "a key must be text", line=_line(key))
            elif key.tag == f"{_STANDARD}merge":
                self.faults.add((*loc, "<<"), "merge keys are not supported; write the keys out", line=_line(key))
            elif key.value in values:
                first = self.faults.lines[*loc, key.value]
                self.faults.add((*loc, key.value), f"duplicate key, first on line {first}", line=_line(key))
            else:
                values[key.value] = self.placed(child, (*loc, key.value), _line(key))
        return values

    def scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        if not node.style and EXPONENT.fullmatch(node.value):
            return float(node.value)
        try:
            value = self.scalars.construct_object(node)
        except _WRONG_SCALAR:
            self.faults.add(loc, f"{quote(node.value)} cannot be read as {_short(node.tag)}")
            return UNREADABLE
        if not node.style and (fault := _surprise(node.value, value)):
            self.faults.add(loc, fault)
            return UNREADABLE
        return value


def _surprise(text: str, value: object) -> str:
    """Why a text without quotes may not mean what its author thinks; "" if it does."""
    if _LEADING_ZERO.fullmatch(text):
        return f"YAML does not read {text} as a decimal number; leave out the first 0, or write '{text}' in quotes"
    if _OTHER_VALUE.fullmatch(text) and not isinstance(value, str):
        return f"YAML reads {text} as {quote(value)}; write {quote(value)}, or '{text}' in quotes"
    return ""


def _line(node: yaml.Node | yaml.Event) -> int:
    mark: Any = node.start_mark
    return int(mark.line) + 1


def _short(tag: str) -> str:
    return tag.replace(_STANDARD, "!!")
