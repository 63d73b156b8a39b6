"""A submission's source, read once for all rules of `scripts/review/rules.py`.

The source is hostile.  It is parsed and never run, each node is visited without recursion, and no chain of names is
followed further than `LONGEST_CHAIN`.

    dotted names     `t.perf_counter` after `import time as t` is `time.perf_counter`
    native text      a CUDA file without its comments; of a Python file, its strings without docstrings
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from harness.task.python_file import parse_python

LONGEST_CHAIN = 8
LONGEST_NAME = 200
"""Characters of an imported name that are read: each of its uses would repeat a longer one."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMMENT = re.compile(r"""//[^\n]*|/\*.*?(?:\*/|\Z)|(?P<string>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)""", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class VisitedNode:
    """A node of the syntax tree, whether it is inside a function, and whether it is inside a call's parentheses."""

    node: ast.AST
    in_function: bool
    in_call: bool

    @property
    def line(self) -> int:
        return getattr(self.node, "lineno", 1)


@dataclass(frozen=True)
class ReviewedFile:
    """A file's text; `name` ends in .py or .cu.  `sizes` are numbers of the task's benchmarks."""

    text: str
    name: str
    sizes: frozenset[int] = frozenset()

    @property
    def is_python(self) -> bool:
        return PurePath(self.name).suffix != ".cu"

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree of a Python file; None if this Python cannot parse it."""
        try:
            return parse_python(self.text) if self.is_python else ast.Module(body=[], type_ignores=[])
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def places(self) -> list[VisitedNode]:
        """All nodes of the tree, in the file's order."""
        found, stack = (
            list[VisitedNode](),
            [VisitedNode(node=self.tree or ast.Pass(), in_function=False, in_call=False)],
        )
        while stack:
            place = stack.pop()
            found.append(place)
            in_function = place.in_function or isinstance(place.node, _FUNCTIONS)
            in_call = isinstance(place.node, ast.Call) or (place.in_call and isinstance(place.node, ast.expr))
            children = [
                VisitedNode(node=child, in_function=in_function, in_call=in_call)
                for child in ast.iter_child_nodes(place.node)
            ]
            stack += reversed(children)
        return found

    @cached_property
    def imported(self) -> dict[str, str]:
        """What each imported name is: `import numpy as np` makes `np` `numpy`."""
        found: dict[str, str] = {}
        for place in self.places:
            match place.node:
                case ast.Import(names=names):
                    found |= {(one.asname or one.name.split(".")[0]): _module(one) for one in names}
                case ast.ImportFrom(module=module, names=names):
                    found |= {(one.asname or one.name): _dotted(module, one) for one in names}
        return found

    def dotted(self, node: ast.AST) -> str:
        """`torch.cuda.Event` for a chain of attributes; it begins with `?` if that is not a name."""
        parts: list[str] = []
        while len(parts) < LONGEST_CHAIN:
            match node:
                case ast.Attribute(value=value, attr=attr):
                    parts.append(attr)
                    node = value
                case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(attr)), *_]):
                    parts.append(attr)
                    node = value
                case ast.Name(id=name):
                    return ".".join([self.imported.get(name, name), *reversed(parts)])
                case _:
                    break
        return ".".join(["?", *reversed(parts)])

    @cached_property
    def names(self) -> list[tuple[str, int]]:
        """Every dotted name and every import of a Python file, with its line."""
        found: list[tuple[str, int]] = []
        for place in self.places:
            match place.node:
                case ast.Import(names=names):
                    found += ((one.name, place.line) for one in names)
                case ast.ImportFrom(module=module, names=names):
                    found += ((_dotted(module, one), place.line) for one in names)
                case ast.Name() | ast.Attribute() | ast.Call(func=ast.Name(id="getattr")):
                    found.append((self.dotted(place.node), place.line))
                case ast.FunctionDef(name=name):
                    found.append((f"?.{name}", place.line))
                case ast.ClassDef(bases=bases):
                    found += ((f"class:{self.dotted(base)}", place.line) for base in bases)
        return found

    @cached_property
    def native(self) -> list[tuple[int, str]]:
        """Lines of CUDA and C++ with their numbers, without comments; of a Python file, those of its strings."""
        if not self.is_python:
            return list(enumerate(_without_comments(self.text).split("\n"), 1))
        return [
            (min(place.line + number, place.node.end_lineno or place.line), line)
            for place in self.places
            if isinstance(place.node, ast.Constant) and isinstance(place.node.value, str)
            if id(place.node) not in self._docstrings
            for number, line in enumerate(_without_comments(place.node.value).split("\n"))
        ]

    @cached_property
    def _docstrings(self) -> set[int]:
        return {id(place.node.value) for place in self.places if isinstance(place.node, ast.Expr)}

    def first_changes(self, function: ast.FunctionDef) -> dict[str, int]:
        """For each name, the first line of a function on which a call gets it, or a part of it is assigned."""
        found: dict[str, int] = {}
        lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
        for place in self.places:
            match place.node if place.line in lines else None:
                case ast.Name(id=name) if place.in_call:
                    found.setdefault(name, place.line)
                case ast.Subscript(ctx=ast.Store()) | ast.AugAssign():
                    found.setdefault(root_of(place.node), place.line)
        return found


def root_of(node: ast.AST) -> str:
    """The name at the beginning of `a.b[c].d`; empty if there is none."""
    for _ in range(LONGEST_CHAIN):
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.Starred(value=value):
                node = value
            case ast.AugAssign(target=target):
                node = target
            case _:
                return ""
    return ""


def _module(alias: ast.alias) -> str:
    return (alias.name if alias.asname else alias.name.split(".")[0])[:LONGEST_NAME]


def _dotted(module: str | None, alias: ast.alias) -> str:
    return f"{str(module)[:LONGEST_NAME]}.{alias.name}"[:LONGEST_NAME]


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found["string"] or "\n" * found[0].count("\n"), text)
