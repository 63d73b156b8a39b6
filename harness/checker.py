"""The task's own code in the referee's hands: it makes inputs, knows answers, and says which element is wrong.

    reference.py    generate_input(**case)                               -> data
                    ref_kernel(data)                                     -> output
                    check_implementation(data, output)                   -> "" or what is wrong
                                                                         -> (True, "") or (False, what is wrong)
                    check_implementation(user_output, reference_output)  -> bool, the oldest form

A task's fault is a `TaskError` that names file and line.  A participant is told "wrong" only after the
reference's own answer to the same inputs was accepted, so that a task's fault never becomes theirs.
`compare` is what tasks check with, and the only place where tensors are compared.
"""

from __future__ import annotations

import copy
import importlib
import importlib.abc
import importlib.util
import inspect
import math
import os
import random
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from harness.errors import TaskError
from harness.task import Board
from harness.values import UnsupportedInput, deal

FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")
EQUAL_DRAWS = 32
"""So many seeds with the same values make a generator constant; a single coin may well fall alike five times."""

_REFUSED = "the task's check refuses this output"
_LEAVE_OUT_DEVICE = "this board runs on the CPU: name no device, and tensors follow the board's"


class Reference:
    """A board's `reference.py`, loaded.  Whatever it is asked ends in a value or in a `TaskError`.

    Args:
        device: where tensors go whose code names no device.
    """

    def __init__(self, board: Board, device: str = "cpu") -> None:
        task = board.task
        self._files = _TaskFiles(task.folder, {**task.shared_files, "reference.py": task.reference.encode()})
        self._device = torch.device(device)
        self._module = ModuleType("reference")
        with self._blaming("reference.py"):
            self._module = importlib.import_module("reference")
        for name in FUNCTIONS:
            if not callable(getattr(self._module, name, None)):
                raise self._fault(name, f"is missing; reference.py defines {', '.join(FUNCTIONS)}")
        self._buffers: dict[str, frozenset[int]] = {}
        self._takes_seed = _takes_seed(self._module.generate_input)
        self._is_oldest_form = _is_oldest_form(self._module.check_implementation)

    def generate(self, params: Mapping[str, Any], seed: int) -> Any:
        """Inputs of a case: the same for the same seed, whatever generator they are drawn from."""
        _seed_generators(seed, self._device)
        with torch.no_grad():
            return self._call("generate_input", **{**params, "seed": seed} if self._takes_seed else params)

    def compute(self, data: Any) -> Any:
        """The reference's answer; `data` stay as they are."""
        return self._call("ref_kernel", copy.deepcopy(data))

    def check(self, data: Any, output: Any) -> str:
        """What is wrong with a participant's output; "" if it is right.  `data` are the pristine inputs."""
        message = self.objection(data, output)
        if message:
            self._require_own_answer_accepted(data)
        return message

    def objection(self, data: Any, output: Any) -> str:
        """As `check`, where it is known that the reference's own answer to these inputs is accepted."""
        try:
            return self._ask(data, output)
        except _Raised as raised:
            # What upsets a check is mostly None, or a tensor of another shape or dtype.
            return _mismatch(output, self.compute(data)) or f"{_REFUSED}: {raised.summary}"

    def probe(self, params: Mapping[str, Any]) -> None:
        """Try a case with the reference alone, before anybody is judged by it.

        Raises:
            TaskError: something raises or returns what cannot cross to a player, seeds make no difference, the
                reference changes its inputs, or the check refuses the reference's own answer.
        """
        seed = _first_seed(params)
        data = self.generate(params, seed)
        self._require_plain("generate_input", data)
        self._require_variety(params, seed, data)
        given = copy.deepcopy(data)
        output = self._call("ref_kernel", given)
        self._require_plain("ref_kernel", output)
        self._require_unchanged(data, given, output)
        self._require_own_answer_accepted(data)

    def output_buffers(self, params: Mapping[str, Any]) -> frozenset[int]:
        """Which tensors of a case's inputs, counted in order, the reference only writes to and returns."""
        key = repr(sorted(params.items()))
        if key not in self._buffers:
            self._buffers[key] = self._find_output_buffers(params)
        return self._buffers[key]

    def _find_output_buffers(self, params: Mapping[str, Any]) -> frozenset[int]:
        data = self.generate(params, _first_seed(params))
        given = copy.deepcopy(data)
        returned = {_storage(tensor) for tensor in _tensors(self._call("ref_kernel", given)) if tensor.numel()}
        buffers = frozenset(i for i, tensor in enumerate(_tensors(given)) if _storage(tensor) in returned)
        poisoned = copy.deepcopy(data)
        for index, tensor in enumerate(_tensors(poisoned)):
            if index in buffers:
                tensor.fill_(math.nan if tensor.is_floating_point() else 1)
        # What is read before it is written, an accumulator say, is an input and stays what it is.
        return buffers if buffers and not self._ask(data, self.compute(poisoned)) else frozenset()

    def _ask(self, data: Any, output: Any) -> str:
        """What `check_implementation` says, in any of its forms."""
        if not self._is_oldest_form:
            return self._message_of(self._call("check_implementation", copy.deepcopy(data), output))
        expected = self.compute(data)
        message = self._message_of(self._call("check_implementation", output, expected))
        return _explain(output, expected) if message == _REFUSED else message

    def _message_of(self, result: Any) -> str:
        match result:
            case str():
                return result
            case (right, str(message)) if (accepted := _truth(right)) is not None:
                return "" if accepted else message or _REFUSED
            case _ if (accepted := _truth(result)) is not None:
                return "" if accepted else _REFUSED
        raise self._fault("check_implementation", f"returns {_describe(result)}, but must return str or (bool, str)")

    def _require_own_answer_accepted(self, data: Any) -> None:
        if message := self._ask(data, self.compute(data)):
            raise self._fault("check_implementation", f"refuses the answer of ref_kernel itself: {message}")

    def _require_plain(self, function: str, tree: Any) -> None:
        try:
            deal(tree)
        except UnsupportedInput as error:
            raise self._fault(function, f"returns what cannot cross to a player: {error}") from None
        if self._device.type == "cpu" and any(tensor.device.type != "cpu" for tensor in _tensors(tree)):
            raise self._fault(function, f"returns a tensor of another device; {_LEAVE_OUT_DEVICE}")

    def _require_variety(self, params: Mapping[str, Any], seed: int, data: Any) -> None:
        if not any(tensor.numel() for tensor in _tensors(data)):
            return
        for other in range(seed + 1, seed + EQUAL_DRAWS):
            if not _same(self.generate(params, other), data):
                return
        raise self._fault("generate_input", "returns the same values for every seed; draw them from torch's generators")

    def _require_unchanged(self, data: Any, given: Any, output: Any) -> None:
        returned = {_storage(tensor) for tensor in _tensors(output)}
        for where, before, after in _pairs(data, given, "data"):
            # A changed tensor that is also returned is an output buffer, and meant to be changed.
            is_buffer = isinstance(after, torch.Tensor) and _storage(after) in returned
            if not is_buffer and not _same(before, after):
                raise self._fault("ref_kernel", f"changes its input {where}; copy it first, or return it")

    def _call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        with self._blaming(function):
            return getattr(self._module, function)(*args, **kwargs)

    @contextmanager
    def _blaming(self, function: str) -> Iterator[None]:
        """Run the task's code, its files importable and on its device; whatever it raises is a `TaskError`."""
        try:
            with self._files.importable(), self._device:
                yield
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and not self._files.is_innermost(error):
                raise  # a signal ended us in the middle of the task's code
            summary = f"{type(error).__name__}: {error}".splitlines()[0]
            asks_for_cuda = self._device.type == "cpu" and ("CUDA" in summary or "NVIDIA" in summary)
            hint = f"; {_LEAVE_OUT_DEVICE}" if asks_for_cuda else ""
            where = self._files.line_of(error) or self._definition(function)
            raise _Raised(f"{where}: {function}: {summary}{hint}", summary=summary) from error

    def _fault(self, function: str, what: str) -> TaskError:
        return TaskError(f"{self._definition(function)}: {function} {what}")

    def _definition(self, function: str) -> str:
        code = getattr(getattr(self._module, function, None), "__code__", None)
        return f"{self._files.label('reference.py')}:{code.co_firstlineno if code else 1}"


class _Raised(TaskError):
    """The task's code raised; `summary` says what, without where."""

    def __init__(self, message: str, *, summary: str) -> None:
        super().__init__(message)
        self.summary = summary


class _TaskFiles(importlib.abc.MetaPathFinder, importlib.abc.ExecutionLoader):
    """Makes a task's files importable by their names, for its own code only, and finds its lines in tracebacks.

    The files come from memory: a name may stand for a file of another folder, and a bundle may have no folder.
    """

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self._folder = folder
        self._files = {name.removesuffix(".py"): content for name, content in files.items() if name.endswith(".py")}
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Put our modules in the place of others of the same name, and those back in the end."""
        others = {name: sys.modules.pop(name) for name in self._files if name in sys.modules}
        sys.modules.update(self._modules)
        sys.meta_path.insert(0, self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            self._modules = {name: sys.modules.pop(name) for name in self._files if name in sys.modules}
            sys.modules.update(others)

    def label(self, name: str) -> str:
        """How messages call a file: `tasks/vectoradd/reference.py`."""
        return os.path.join("tasks", self._folder.name, name)

    def line_of(self, error: BaseException) -> str | None:
        """`tasks/vectoradd/reference.py:12`: the innermost of the task's own lines that led to `error`."""
        places = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
        if isinstance(error, SyntaxError):
            places.append((error.filename or "", error.lineno or 1))
        ours = {self.get_filename(name): self.label(f"{name}.py") for name in self._files}
        return next((f"{ours[path]}:{line}" for path, line in reversed(places) if path in ours), None)

    def is_innermost(self, error: BaseException) -> bool:
        """Whether it was a line of the task's own that raised."""
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        return frame.f_code.co_filename in {self.get_filename(name) for name in self._files}

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname not in self._files:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self.get_filename(fullname))

    def get_filename(self, fullname: str) -> str:
        return str(self._folder / f"{fullname}.py")

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self._files[fullname])


def compare(output: Any, expected: Any, *, rtol: float, atol: float) -> tuple[bool, str]:
    """Whether every number of `output` is within `atol + rtol * |expected|`, and if not, which is the first to differ.

    Any nesting of tuples, lists, dicts, tensors and scalars.  Dtypes and shapes must be equal, integers and bools
    exactly so; NaN is right only where NaN is expected, an infinity only where the same one is.  Differences are
    taken in float64, in chunks.

    >>> compare(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), rtol=0.01, atol=0)
    (False, 'output[1] is 2.5000, expected 2.0000 (allowed 0.02); 1 of 2 differ')
    """
    if message := _mismatch(output, expected):
        return False, message
    for where, mine, right in _pairs(output, expected, "output"):
        if message := _difference(mine, right, where, rtol, atol):
            return False, message
    return True, ""


def _mismatch(output: Any, expected: Any, where: str = "output") -> str:
    """How an output differs from the expected one in anything but its numbers; "" if it doesn't."""
    subject = "custom_kernel returned" if where == "output" else f"{where} is"
    if not _is_same_kind(output, expected):
        return f"{subject} {_describe(output)}; the task expects {_describe(expected)}"
    if isinstance(expected, torch.Tensor):
        return _tensor_mismatch(output, expected, where)
    if isinstance(expected, dict) and output.keys() != expected.keys():
        return f"{where} has the keys {', '.join(map(repr, output))}; the task expects {', '.join(map(repr, expected))}"
    if isinstance(expected, tuple | list) and len(output) != len(expected):
        return f"{where} has length {len(output)}; the task expects {len(expected)}"
    children = ((output[key], item, f"{where}[{key!r}]") for key, item in _children(expected))
    return next(filter(None, (_mismatch(*child) for child in children)), "")


def _is_same_kind(output: Any, expected: Any) -> bool:
    for kind in (torch.Tensor, dict, (tuple, list)):
        if isinstance(expected, kind):
            return isinstance(output, kind)
    # `type is`, not isinstance: True is an int to Python.
    return type(output) is type(expected)


def _tensor_mismatch(output: torch.Tensor, expected: torch.Tensor, where: str) -> str:
    if output.layout is not expected.layout:
        return f"{where} has layout {output.layout}; the task expects {expected.layout}"
    differences = []
    if output.shape != expected.shape:
        differences.append(f"shape {tuple(output.shape)}, expected {tuple(expected.shape)}")
    if output.dtype is not expected.dtype:
        differences.append(f"dtype {_name(output.dtype)}, expected {_name(expected.dtype)}")
    return f"{where} has {' and '.join(differences)}" if differences else ""


def _difference(output: Any, expected: Any, where: str, rtol: float, atol: float) -> str:
    if isinstance(expected, float | complex):
        wide = torch.complex128 if isinstance(expected, complex) else torch.float64
        output, expected = torch.tensor(output, dtype=wide), torch.tensor(expected, dtype=wide)
    if isinstance(expected, torch.Tensor):
        return _tensor_difference(output.detach(), expected.detach(), where, rtol, atol)
    return "" if output == expected else f"{where} is {output!r}, expected {expected!r}"


def _tensor_difference(output: torch.Tensor, expected: torch.Tensor, where: str, rtol: float, atol: float) -> str:
    mine, right = _flat(output), _flat(expected)
    if _are_same_bits(mine, right):
        return ""
    # Small enough for a CPU's cache; on a GPU, large enough to hide the launches.
    chunk = 1 << 16 if right.device.type == "cpu" else 1 << 24
    first, wrong = -1, 0
    for start in range(0, right.numel(), chunk):
        part = right[start : start + chunk]
        is_close = _is_close(mine[start : start + chunk].to(part.device), part, rtol, atol)
        if not is_close.all():
            first = first if wrong else start + int(is_close.logical_not().nonzero()[0])
            wrong += int(is_close.logical_not().count_nonzero())
    if not wrong:
        return ""
    values = _say(mine[first].item(), right[first].item(), rtol, atol)
    count = f"; {wrong} of {right.numel()} differ" if right.numel() > 1 else ""
    return f"{where}{_index(first, expected.shape)} is {values}{count}"


def _are_same_bits(output: torch.Tensor, expected: torch.Tensor) -> bool:
    # As integers: torch compares halves one by one.  No proof to the contrary: 0.0 and -0.0 are equal, too.
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(expected.element_size())
    return bits is not None and torch.equal(output.to(expected.device).view(bits), expected.view(bits))


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    # Two numbers of four bits share a byte, and torch can do nothing with them: compare the bytes.
    packed = _name(tensor.dtype).startswith("float4")
    return (tensor.view(torch.uint8) if packed else tensor).reshape(-1)


def _is_close(output: torch.Tensor, expected: torch.Tensor, rtol: float, atol: float) -> torch.Tensor:
    if not (expected.is_floating_point() or expected.is_complex()):
        return output == expected
    wide = torch.complex128 if expected.is_complex() else torch.float64
    output, expected = output.to(wide), expected.to(wide)
    allowed = expected.abs().mul_(rtol).add_(atol)
    # `<=`, so that a NaN fails: every comparison with NaN is False.  Where infinity is expected, `allowed` is
    # infinite as well and would let everything pass: there, as with NaN, only the same counts.
    is_close = ((output - expected).abs() <= allowed) & (allowed < math.inf)
    if not is_close.all():
        is_close |= (output == expected) | (output.isnan() & expected.isnan())
    return is_close


def _say(output: Any, expected: Any, rtol: float, atol: float) -> str:
    """`1.0312, expected 1.0000 (allowed 0.0011)`, with as many digits as tell the two apart."""
    if not isinstance(expected, float | complex):
        return f"{output}, expected {expected}"
    texts = [(f"{output:#.{digits}g}".rstrip("."), f"{expected:#.{digits}g}".rstrip(".")) for digits in (5, 9, 17)]
    mine, right = next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
    allowed = atol + rtol * abs(expected)
    return f"{mine}, expected {right}" + (f" (allowed {allowed:.2g})" if math.isfinite(allowed) else "")


def _explain(output: Any, expected: Any) -> str:
    """Why a check that says no more than False may have said so."""
    right, message = compare(output, expected, rtol=1e-3, atol=1e-5)
    return _REFUSED if right else f"{_REFUSED}; beside the reference's, {message}"


def _index(flat: int, shape: torch.Size) -> str:
    index: list[int] = []
    for size in reversed(shape):
        flat, position = divmod(flat, size)
        index.insert(0, position)
    return str(index) if index else ""


def _describe(value: Any) -> str:
    match value:
        case None:
            return "None"
        case torch.Tensor():
            return f"a tensor of shape {tuple(value.shape)}, dtype {_name(value.dtype)}"
        case tuple() | list():
            return f"a {type(value).__name__} of length {len(value)}"
    name = type(value).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _pairs(output: Any, expected: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """The leaves of two trees of the same nesting, side by side."""
    if isinstance(expected, tuple | list | dict):
        for key, item in _children(expected):
            yield from _pairs(output[key], item, f"{where}[{key!r}]")
    else:
        yield where, output, expected


def _children(tree: Any) -> Iterator[tuple[Any, Any]]:
    match tree:
        case dict():
            yield from tree.items()
        case tuple() | list():
            yield from enumerate(tree)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for _, leaf, _ in _pairs(tree, tree, "") if isinstance(leaf, torch.Tensor))


def _same(a: Any, b: Any) -> bool:
    return compare(a, b, rtol=0, atol=0)[0]


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _truth(value: Any) -> bool | None:
    """True or False, be it Python's, numpy's or a tensor's; None for anything else."""
    if isinstance(value, torch.Tensor):
        return bool(value) if value.numel() == 1 else None
    return bool(value) if type(value).__name__ in ("bool", "bool_") else None


def _first_seed(params: Mapping[str, Any]) -> int:
    seed = params.get("seed")
    return seed if type(seed) is int and seed >= 0 else 1


def _seed_generators(seed: int, device: torch.device) -> None:
    random.seed(seed)
    # Not `torch.manual_seed`: it looks for devices of every kind, for 250 µs a call where there are none.
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed_all(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


def _takes_seed(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.name == "seed" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _is_oldest_form(check: Callable[..., Any]) -> bool:
    """`(user_output, reference_output)`, told by the second name."""
    names = list(inspect.signature(check).parameters)
    return len(names) == 2 and names[1].startswith(("ref", "expected"))
