"""Find from the source of an example which packages and programs it needs besides torch and numpy, and declare them.

    import triton                        #!PULLRANK needs triton
    load_inline(cpp_sources=…)           #!PULLRANK needs g++ ninja
    load_inline(cuda_sources=…)          #!PULLRANK needs nvcc ninja

An import inside `try` is optional.  An example that declares its needs already is left as it is.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection, Iterator

from harness.records.errors import SubmissionError
from harness.task.submission import read_directives
from scripts.kernelbot.kind import parse

_EVERYWHERE = {*sys.stdlib_module_names, "torch", "numpy"}
_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]{0,63}")
_DIRECTIVE = re.compile(r"#!(?:POPCORN|PULLRANK)\b")
_COMPILERS = {
    "hipcc": re.compile(rb"hip/hip_\w+\.h"),
    "nvcc": re.compile(rb"cuda_sources|__global__|<<<|#include *<(?:cuda|cute/|cutlass/)"),
}
"""Programs that compile device code, by what such code contains; other code needs g++."""


def with_needs(source: bytes, own: Collection[str]) -> bytes:
    """The same example, with a directive that names its needs.

    Args:
        own: the task's own files, whose imports need no package.
    """
    text = source.decode("utf-8-sig", "replace")
    needs = list(dict.fromkeys(_needs_of(source, {name.removesuffix(".py") for name in own})))
    if not needs or declared_needs(source) is not None:
        return source
    lines = text.split("\n")
    # After the last directive, and so in the first block of comments.
    at = next((number for number, line in enumerate(lines) if not _DIRECTIVE.match(line)), 0)
    return "\n".join([*lines[:at], f"#!PULLRANK needs {' '.join(needs)}", *lines[at:]]).encode()


def declared_needs(source: bytes) -> tuple[str, ...] | None:
    """The needs that an example declares; None if there are none, and an empty tuple if its directives are invalid."""
    try:
        return read_directives(source.decode("utf-8-sig", "replace")).needs or None
    except SubmissionError:
        return ()


def _needs_of(source: bytes, own: Collection[str]) -> Iterator[str]:
    for node in _required(parse(source)):
        match node:
            case ast.Import(names=names):
                modules = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.Call(func=ast.Name(id="load_inline") | ast.Attribute(attr="load_inline")):
                yield next((program for program, code in _COMPILERS.items() if code.search(source)), "g++")
                yield "ninja"
                continue
            case _:
                continue
        packages = (module.partition(".")[0] for module in modules)
        yield from (one for one in packages if one not in _EVERYWHERE and one not in own and _PACKAGE.fullmatch(one))


def _required(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes except those in `try`, whose imports are optional."""
    stack = [node]  # no recursion: a sum may have a thousand terms
    while stack:
        yield (node := stack.pop())
        stack += [child for child in reversed([*ast.iter_child_nodes(node)]) if not isinstance(child, ast.Try)]
