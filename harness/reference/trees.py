"""Trees of values: tuples, lists and dicts, whose leaves are tensors, numbers, strings and None."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def map_leaves(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with `change` applied to every leaf."""
    match tree:
        case tuple():
            return tuple(map_leaves(item, change) for item in tree)
        case list():
            return [map_leaves(item, change) for item in tree]
        case dict():
            return {key: map_leaves(item, change) for key, item in tree.items()}
    return change(tree)


def map_tensors(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same tree with `change` applied to every tensor."""
    return map_leaves(tree, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)
