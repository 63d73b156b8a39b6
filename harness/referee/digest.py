"""Digests of inputs and outputs, so that a judgement identifies what was computed without storing it.

Two values have the same digest if structure, dtypes, shapes and bits are equal; strides and devices don't matter.
"""

from __future__ import annotations

import ctypes
import hashlib
from typing import Any

import torch


def digest(tree: Any) -> str:
    """SHA-256 of any nesting of tuples, lists, dicts, tensors and plain scalars; 64 hexadecimal digits."""
    found = hashlib.sha256()
    _add(tree, found)
    return found.hexdigest()


def _add(node: Any, found: hashlib._Hash) -> None:
    match node:
        case torch.Tensor():
            _add_tensor(node.detach().cpu().resolve_conj().resolve_neg().contiguous(), found)
        case tuple() | list():
            found.update(f"{'tuple' if isinstance(node, tuple) else 'list'} {len(node)}\n".encode())
            for item in node:
                _add(item, found)
        case dict():
            found.update(f"dict {len(node)}\n".encode())
            for pair in node.items():
                _add(pair, found)
        case _:
            text = repr(node).encode("utf-8", "surrogatepass")
            found.update(b"%s %d\n%s" % (type(node).__name__.encode(), len(text), text))


def _add_tensor(tensor: torch.Tensor, found: hashlib._Hash) -> None:
    found.update(f"{tensor.dtype} {tuple(tensor.shape)}\n".encode())
    if size := tensor.numel() * tensor.element_size():
        found.update((ctypes.c_char * size).from_address(tensor.data_ptr()))
