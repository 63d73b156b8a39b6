"""Rewrite "cuda" to "cpu" in source code, to try a task without a GPU.

It rewrites only device names: the strings "cuda", "cuda:0" and f"cuda:{rank}", and calls of `.cuda()`.  Code that asks
torch for a GPU in other ways, or over several lines, stays and is reported, unless it is harmless without a GPU.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from scripts.kernelbot.kind import parse

ALIASES = ("cuda=cpu",)

_CUDA = re.compile(r"cuda(:\d+)?")
_UNFINISHED = re.compile(r"cuda:(%\w|\{\w*\})?")
"""A device whose number is inserted later."""

_HARMLESS = {"is_available", "is_initialized", "device_count", "manual_seed", "manual_seed_all"}
"""Functions of torch.cuda that work, or do nothing, without a GPU."""
_GPU_DTYPES = {"float4_e2m1fn_x2"}
"""The torch dtypes that only a GPU can compute with."""

_Replacement = tuple[int, int, int, bytes]
"""Line, start and end in its bytes, and the replacement."""


def without_cuda(source: bytes) -> bytes:
    """The same program for a CPU; source that is not Python is returned unchanged."""
    lines = source.splitlines(keepends=True)
    # Edit from the end, so that earlier positions stay valid.
    for line, start, end, text in sorted(_edits(parse(source)), reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text + lines[line - 1][end:]
    return b"".join(lines)


def cuda_lines(source: bytes) -> list[int]:
    """The lines that need a GPU: they name it as a device or ask torch for it."""
    return sorted({node.lineno for node, _ in _places(parse(source))})


def _edits(tree: ast.Module) -> list[_Replacement]:
    """The possible edits; of two nested ones, the outer."""
    found = [edit for _, edit in _places(tree) if edit]
    return [edit for edit in found if not any(_lies_in(edit, other) for other in found)]


def _lies_in(edit: _Replacement, other: _Replacement) -> bool:
    (line, start, end, _), (other_line, other_start, other_end, _) = edit, other
    return line == other_line and other_start <= start and end <= other_end and edit != other


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, _Replacement | None]]:
    """Every node that asks for a GPU, and the edit that rewrites it, if there is one."""
    inside_texts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in _below(node)}
    harmless = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _HARMLESS}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(value)) if _CUDA.fullmatch(value):
                yield node, None if id(node) in inside_texts else _edit(node, node.col_offset, b'"cpu"')
            case ast.Constant(value=str(value)) if _UNFINISHED.fullmatch(value) and id(node) not in inside_texts:
                yield node, None
            case ast.JoinedStr(values=[ast.Constant(value="cuda:"), ast.FormattedValue()]):
                yield node, _edit(node, node.col_offset, b'"cpu"')
            case ast.Call(func=ast.Attribute(attr="cuda") as method):
                name = (method.end_col_offset or 0) - len("cuda")
                is_in_line = method.end_lineno == node.end_lineno
                yield node, _edit(node, name, b"cpu()", line=node.end_lineno) if is_in_line else None
            case ast.Attribute(attr="cuda", value=ast.Name(id="torch")) if id(node) not in harmless:
                yield node, None
            case ast.Attribute(attr=dtype, value=ast.Name(id="torch")) if dtype in _GPU_DTYPES:
                yield node, None
            case ast.Import(names=names) if any(alias.name.split(".")[:2] == ["torch", "cuda"] for alias in names):
                yield node, None
            case ast.ImportFrom(module=str(module), names=names) if _is_torch_cuda(module, names):
                yield node, None


def _below(node: ast.AST) -> Iterator[ast.AST]:
    return (part for child in ast.iter_child_nodes(node) for part in ast.walk(child))


def _edit(node: ast.expr, start: int, text: bytes, *, line: int | None = None) -> _Replacement | None:
    """Replace everything from `start` to the node's end with `text`, if that is on one line."""
    line = line or node.lineno
    return (line, start, node.end_col_offset or 0, text) if line == node.end_lineno else None


def _is_torch_cuda(module: str, names: list[ast.alias]) -> bool:
    is_below = module.split(".")[:2] == ["torch", "cuda"]
    return is_below or (module == "torch" and any(alias.name == "cuda" for alias in names))
