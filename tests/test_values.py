"""The parts of a task's tensors that reach the player: numbers and strides, but no memory in the gaps."""

import resource
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

from harness.inside.protocol import TensorSpec
from harness.processes.watched_memory import MACHINE_BYTES, Meminfo
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict
from harness.reference.spare_memory import SpareMemory
from harness.reference.values import collect, flatten


class OnAGpu(torch.Tensor):
    """Like a GPU's tensor: `cpu` copies it to the host without gaps."""

    is_cpu = False  # type: ignore[assignment]

    def cpu(self, *_: Any, **__: Any) -> torch.Tensor:
        there = self.as_subclass(torch.Tensor)
        return torch.empty_like(there).copy_(there)


PADDED = torch.arange(128.0).view(8, 16)
VIEWS = {
    "whole": (PADDED, (16, 1)),
    "transposed": (PADDED.t(), (1, 16)),
    "rows with a gap": (PADDED[:, :10], (16, 1)),
    "every other row": (PADDED[::2], (32, 1)),
    "a column": (PADDED[:, 3], (16,)),
    "one row for all": (PADDED[:1].expand(4, 16), (16, 1)),
    "windows": (PADDED[0].unfold(0, 3, 1), (1, 1)),
    "nothing": (PADDED[:, :0], (16, 1)),
}


@pytest.mark.parametrize(("view", "strides"), VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("device", [torch.Tensor, OnAGpu])
def test_a_kernel_gets_the_same_strides_from_any_input_device(
    device: type[torch.Tensor], view: torch.Tensor, strides: tuple[int, ...]
) -> None:
    flat = flatten(view.as_subclass(device))
    (tensor,) = flat.tensors
    assert flat.layout["tensors"] == [("float32", tuple(view.shape), strides)]
    assert torch.equal(tensor.as_subclass(torch.Tensor), view)


@pytest.mark.parametrize("strides", [(1,), (0,)])
def test_an_output_that_spans_far_more_than_a_right_one_is_not_read(strides: tuple[int, ...]) -> None:
    def read(address: int, target: int, length: int) -> None:
        raise AssertionError("it is read")

    size = ((64 << 20) + 2 * 1024) // 4 + 1
    with pytest.raises(Foul, match="the limit is 67110912") as caught:
        collect((TensorSpec("float32", (size,), strides, 4096),), read, 1024)
    assert caught.value.verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize(("usual_tib", "error"), [(3, Foul), (4, JudgeError)])
def test_an_output_without_room_is_wrong_only_if_it_is_larger_than_a_right_one(
    usual_tib: int, error: type[Exception]
) -> None:
    spec = TensorSpec("uint8", (4 << 40,), (1,), 4096)
    with pytest.raises(error, match=r"do not fit here|ran out of memory"), SpareMemory():
        collect((spec,), lambda *_: None, usual_tib << 40)


def test_the_limit_is_what_is_available_when_a_block_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SpareMemory()
    with memory:
        torch.empty(2**28)
    share = 2**29 / Meminfo.read().available  # as if others had taken the rest
    monkeypatch.setattr("harness.reference.spare_memory._SHARE", share)
    with pytest.raises(JudgeError, match="ran out of memory"), memory:
        torch.empty(2**28)


@pytest.mark.parametrize("has_limit", [True, False])
def test_nothing_more_is_allocated_once_others_have_taken_the_memory(
    monkeypatch: pytest.MonkeyPatch, *, has_limit: bool
) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with SpareMemory(has_limit=has_limit):
        assert compute_and_allocate().numel() == 2**26
    monkeypatch.setattr("harness.reference.spare_memory._LAST_BYTES", MACHINE_BYTES)  # as if others had taken all of it
    with pytest.raises(JudgeError, match="the referee ran out of memory"), SpareMemory(has_limit=has_limit):
        compute_and_allocate()
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def compute_and_allocate() -> torch.Tensor:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    return torch.empty(2**26)


@pytest.mark.parametrize("view", [torch.Tensor.conj, lambda x: x.conj().imag, torch.Tensor.mH.__get__])
def test_a_kernel_gets_the_values_of_a_lazily_conjugated_tensor(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    seen = view(torch.tensor([[1 + 2j, 3 - 4j], [5j, 6]]))
    (tensor,) = flatten(seen).tensors
    sent = torch.frombuffer(bytearray(tensor.untyped_storage()), dtype=tensor.dtype)
    assert torch.equal(sent[tensor.storage_offset() :].as_strided(tensor.shape, tensor.stride()), seen.resolve_conj())


def test_memory_in_the_gaps_of_a_tensor_never_reaches_the_player() -> None:
    (tensor,) = flatten(PADDED[:, :10]).tensors
    memory = tensor.as_strided((7 * 16 + 10,), (1,))
    assert sorted(set(memory.tolist()) - {0.0}) == sorted(set(PADDED[:, :10].flatten().tolist()) - {0.0})
