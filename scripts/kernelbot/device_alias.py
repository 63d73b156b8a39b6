"""Source code with one device in the place of another: to try a task without a GPU, "cuda" becomes "cpu".

Only what names a device is rewritten: the strings "cuda" and "cuda:0", and calls of `.cuda()`.  What asks torch for a
GPU in other ways stays, and is named.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

ALIASES = {"cuda=cpu": ("cuda", "cpu")}

_CUDA = re.compile(r"cuda(:\d+)?")


def without_cuda(source: bytes) -> bytes:
    """The same program on a CPU; what is no Python comes back as it is."""
    tree = _parse(source)
    lines = source.splitlines(keepends=True)
    # From the end, so that what comes before keeps its place.
    for line, start, end, text in sorted(_edits(tree) if tree else [], reverse=True):
        lines[line - 1] = lines[line - 1][:start] + text + lines[line - 1][end:]
    return b"".join(lines)


def cuda_lines(source: bytes) -> list[int]:
    """The lines that need a GPU: that name it as a device, or that ask torch for it."""
    tree = _parse(source)
    if not tree:
        return []
    asked = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_torch_cuda(node)}
    return sorted(asked | {line for line, _, _, _ in _edits(tree)})


def _parse(source: bytes) -> ast.Module | None:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _edits(tree: ast.Module) -> Iterator[tuple[int, int, int, bytes]]:
    """Line, and where in its bytes to put what."""
    inside_texts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(value)) if _CUDA.fullmatch(value) and id(node) not in inside_texts:
                if node.end_lineno == node.lineno:
                    yield node.lineno, node.col_offset, node.end_col_offset or 0, b'"cpu"'
            case ast.Call(func=ast.Attribute(attr="cuda") as method, args=[], keywords=[]):
                end = method.end_col_offset or 0
                yield method.end_lineno or 0, end - len("cuda"), end, b"cpu"


def _is_torch_cuda(node: ast.Attribute) -> bool:
    return node.attr == "cuda" and isinstance(node.value, ast.Name) and node.value.id == "torch"
