"""How much memory a case needs, without allocating it.

Tensors on torch's `meta` device have shapes but no memory.  There the reference makes inputs and answer, and every
storage is counted from the operation that makes it until it is freed.  Memory inside operations is not counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from harness.records.errors import JudgeError, TaskError
from harness.reference.reference import Reference, first_seed
from harness.task.task import Board, Case

MOST_OPERATIONS = 5_000
"""Without numbers, a loop may never end: `while error.max() > 1e-6`."""


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are alive, and their maximum.

    Raises:
        RuntimeError: after too many operations.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live: int = 0
        self.most: int = 0
        self._known: set[int] = set()
        self._operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self._operations += 1
        if self._operations > MOST_OPERATIONS:
            raise RuntimeError("too many operations")
        out = self.answer(func, args, kwargs or {})
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self._count(leaf.untyped_storage())
        return out

    def answer(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation.  Without numbers, comparisons of whole outputs fail, and single comparisons succeed."""
        if func is torch.ops.aten.equal.default:
            return False
        if func is torch.ops.aten._local_scalar_dense.default:
            return True
        if func is torch.ops.aten.bincount.default:
            return torch.empty(args[2], dtype=torch.int64, device="meta")
        return func(*args, **kwargs)

    def _count(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self.live += size
            self.most = max(self.most, self.live)
            weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size


class Fused(TorchFunctionMode):
    """Answers attention with its output alone: without numbers, torch would make all of its scores."""

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = {**dict(zip(("query", "key", "value"), args, strict=False)), **(kwargs or {})}
        is_attention = func is torch.nn.functional.scaled_dot_product_attention
        if not is_attention or any(named[name].requires_grad for name in ("query", "key", "value")):
            return func(*args, **(kwargs or {}))
        query, value = named["query"], named["value"]
        batch = query.shape[:-2]
        if not named.get("enable_gqa"):
            shapes = (batch, named["key"].shape[:-2], value.shape[:-2])
            batch = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]
        return query.new_empty(*batch, query.shape[-2], value.shape[-1])


def estimate_bytes(board: Board, case: Case) -> int:
    """The most memory that a case's inputs and answer take at a time; 0 if their shapes depend on numbers."""
    try:
        with LiveBytes() as counted, Fused():
            reference = Reference(board, "meta")
            reference.compute(reference.generate(case.params, first_seed(case.params)))
    except (TaskError, JudgeError, TypeError):  # Not every operation works without numbers, nor any copy of a value.
        return 0
    return int(counted.most)
