"""The shipped tasks fit the GPUs that they name: counts the bytes that torch would allocate, without allocating them.

Tensors on torch's `meta` device have shapes but no memory.  There the reference makes inputs, answers and checks, and
the anchor runs; every storage is counted from the operation that makes it until it is freed.  Memory inside operations,
and what the allocator cannot reuse, is not counted: the tests add a quarter for it.

In some tasks, shapes depend on numbers.  For these, the CPU board's cases run for real and are counted; the GPUs' cases
need more in proportion to the bytes that they move.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
import torch
from torch.utils._pytree import tree_leaves

from harness.reference.reference import Reference
from harness.reference.task_modules import TaskFiles
from harness.task.formula import evaluate
from harness.task.task import Board, Case, Task, load_tasks
from harness.task_check.estimate_memory import LiveBytes
from scripts.competition.gpu_models import find_model, gpu_models

ROOT = Path(__file__).parent.parent
TASKS = load_tasks(ROOT / "tasks")
NVIDIAS = ("T4", "L4", "A10G", "A100", "H100", "H200", "B200", "RTX4090", "RTX5090")
LINKED = ("A100x2", "H100x2", "H200x2", "B200x2", "MI300Xx2")
COMMON = (*NVIDIAS, "MI250", "MI300X", "MI355X")

SHAPED_BY_NUMBERS = {"groupedgemm", "mladecode", "pagedattention"}
GIB = 2**30
MARGIN = 1.25
ROOM = 15 / 16
"""The usable share of a card; the referee leaves the rest free."""
CONTEXTS_GIB = 1.5
"""The memory that CUDA itself uses on the card, in the referee's process and in the player's."""


class RealBytes(LiveBytes):
    """Counts the bytes of tensors that have numbers."""

    def answer(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return func(*args, **kwargs)


def counting(device: str) -> LiveBytes:
    return LiveBytes() if device == "meta" else RealBytes()


def referee_bytes(board: Board, case: Case, device: str = "meta") -> int:
    """The referee's maximum on the GPU while it makes a call's inputs and checks the output."""
    with counting(device) as counted:
        reference = Reference(board, device)
        data = reference.generate(case.params, 1)
        # Without CUDA, its reference does not use torch; on a GPU it does this.
        answer = torch.sort(data).values if board.task.name == "sort" else reference.compute(data)
        if board.task.name != "sort":
            reference.objection(data, answer)
        return counted.most


def player_bytes(board: Board, case: Case, device: str = "meta") -> int:
    """The anchor's maximum on the GPU, with its one copy of the inputs."""
    task = board.task
    data = Reference(board, device).generate(case.params, 1)
    inputs = sum(leaf.untyped_storage().nbytes() for leaf in tree_leaves(data) if isinstance(leaf, torch.Tensor))
    with (
        TaskFiles(task.folder, task.shared_files).importable(),
        torch.device(device),
        counting(device) as counted,
    ):
        kernel_of(task)(data)
        return inputs + counted.most


def kernel_of(task: Task) -> Callable[..., object]:
    """The anchor's function; for a compiled one, the part of the adapter that allocates all outputs."""
    module = ModuleType("anchor")
    if task.is_compiled:
        exec(task.shared_files["adapter.py"], vars(module))
        return cast(Callable[..., object], module.bind(MagicMock()))
    exec(task.anchor_source, vars(module))
    return cast(Callable[..., object], module.custom_kernel)


def needed_gib(board: Board, case: Case) -> float:
    if not board.task.is_refereed:
        # The program's own memory is the host's.  A GPU has the inputs and outputs of a rank, and one more sum.
        needed = (case.params["calls"] + 1) * moved_bytes(board.task, case)
    elif board.task.name in SHAPED_BY_NUMBERS:
        needed = needed_per_byte(board.task.name) * moved_bytes(board.task, case)
    else:
        needed = referee_bytes(board, case) + player_bytes(board, case)
    return CONTEXTS_GIB + MARGIN * needed / GIB


@functools.cache
def needed_per_byte(name: str) -> float:
    """The most memory that cases of a task's CPU board need for each byte that they move."""
    task = next(task for task in TASKS if task.name == name)
    board = task.board("CPU")
    return max(
        (referee_bytes(board, case, "cpu") + player_bytes(board, case, "cpu")) / moved_bytes(task, case)
        for case in board.benchmarks
    )


def moved_bytes(task: Task, case: Case) -> float:
    assert task.work and task.work.bytes
    return evaluate(task.work.bytes, case.params)


def boards() -> Iterator[tuple[Board, tuple[str, ...]]]:
    """Every edition of the GPU boards, and the GPUs that have it."""
    for task in TASKS:
        editions: dict[str, list[str]] = {}
        for board in task.boards:
            if board.gpu != "CPU":
                editions.setdefault(board.edition, []).append(board.gpu)
        yield from ((task.board(gpus[0]), tuple(gpus)) for gpus in editions.values())


CASES = [(board, gpus, case) for board, gpus in boards() for case in board.benchmarks]


@pytest.mark.parametrize(("board", "gpus", "case"), CASES, ids=[f"{b.task.name}-{g[0]}-{c.name}" for b, g, c in CASES])
def test_a_benchmark_fits_the_smallest_card_that_plays_it(board: Board, gpus: Sequence[str], case: Case) -> None:
    models = [model for gpu in gpus if (model := find_model(gpu))]
    assert len(models) == len(gpus)
    assert needed_gib(board, case) <= ROOM * min(model.memory_gb for model in models) * 1e9 / GIB


def test_the_largest_benchmark_of_large_cards_does_not_fit_small_ones() -> None:
    large = next(board for board, gpus in boards() if board.task.name == "crossentropy" and "H100" in gpus)
    assert needed_gib(large, large.benchmarks[-1]) > ROOM * 16e9 / GIB


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_has_boards_for_the_cpu_and_the_common_gpus(task: Task) -> None:
    """AMD's compiler is not supported: compiled tasks have boards for NVIDIA's GPUs.  Ranks need fast links."""
    common = NVIDIAS if task.is_compiled else LINKED if task.multi_gpu else COMMON
    assert task.gpus == ("CPU", *common) and gpu_models().keys() >= set(COMMON)


def test_bytes_are_counted_until_they_are_freed() -> None:
    with LiveBytes() as counted:
        kept = torch.empty(1000, dtype=torch.float64, device="meta")
        assert (counted.live, counted.most) == (8000, 8000)
        kept.view(torch.int64)[::2].add_(1)
        assert counted.live == 8000
        (kept + 1).sum()
        assert counted.live == 8000 and counted.most >= 16000
    assert "anchor" not in sys.modules
