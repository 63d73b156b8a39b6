"""Run a task's reference.py: generate inputs, compute expected outputs, check outputs.

    reference.py    generate_input(**case)                               -> data
                    ref_kernel(data)                                     -> output
                    check_implementation(data, output)                   -> "" or what is wrong
                                                                         -> (True, "") or (False, what is wrong)
                    check_implementation(user_output, reference_output)  -> bool, the oldest form

A mistake in the task raises a `TaskError` with file and line.  An output is only called wrong after the check has
accepted the reference's own output for the same inputs, so participants are never blamed for a mistake in the task.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import inspect
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Concatenate, ParamSpec, TypeVar

import torch

from harness.gpu import cpu
from harness.gpu.gpu_errors import is_out_of_memory
from harness.records.errors import JudgeError, TaskError
from harness.records.fields import CaseKind
from harness.reference.checker import compare, describe, is_packed, is_same, mismatch, pairs, tensors
from harness.reference.spare_memory import SpareMemory, ran_out, too_large
from harness.reference.task_modules import TaskFiles
from harness.reference.trees import map_tensors
from harness.reference.uninitialised import FillUninitialised
from harness.reference.values import UnsupportedInput, flatten
from harness.task.task import Board, Case

FUNCTIONS = ("generate_input", "ref_kernel", "check_implementation")
EQUAL_DRAWS = 32
"""A generator that returns the same values for this many seeds ignores its seed; a coin flip may repeat five times."""

P = ParamSpec("P")
R = TypeVar("R")

_REFUSED = "the task's check rejects this output"
_LEAVE_OUT_DEVICE = "this board runs on the CPU: do not name a device, so that tensors use the board's"
_REWRITTEN = (
    "the task was rewritten from cuda to cpu, where torch may lack features that it uses; "
    "import it without --device-alias, and judge it on a GPU"
)


def _within_memory(method: Callable[Concatenate[Reference, P], R]) -> Callable[Concatenate[Reference, P], R]:
    """Let the method raise a JudgeError if it needs more memory than the machine has."""

    @functools.wraps(method)
    def limited(self: Reference, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.memory:
            return method(self, *args, **kwargs)

    return limited


@dataclass(frozen=True)
class Returned:
    """What the reference returns for a case."""

    buffers: frozenset[int]
    """Indices of input tensors that it only writes to and returns."""
    fresh_bytes: tuple[int, ...]
    """The sizes of the other tensors that it returns."""
    nodes: int = 1
    """How many values and structures its output has."""


class Reference:
    """A board's loaded `reference.py`.  Exceptions in the task's code become `TaskError`s.

    Args:
        device: default device for tensors of the task's code.
    """

    def __init__(self, board: Board, device: str = "cpu") -> None:
        task = board.task
        files = {**task.shared_files, "reference.py": task.reference.encode()}
        self._files = TaskFiles(task.folder, files, task.shown)
        self.device = torch.device(device)
        self.memory = SpareMemory(has_limit=self.device.type == "cpu")
        self._is_rewritten = bool(task.device_alias)
        self._module = ModuleType("reference")
        with self.memory:
            self._module = self._run("reference.py", lambda: importlib.import_module("reference"))
        for name in FUNCTIONS:
            if not callable(found := getattr(self._module, name, None)):
                what = "is missing" if found is None else f"is not a function, but {describe(found)}"
                raise self._fault(name, f"{what}; reference.py must define {', '.join(FUNCTIONS)}")
        self._returned: dict[str, Returned] = {}
        self._takes_seed = self._run("generate_input", lambda: _takes_seed(self._module.generate_input))
        self._is_oldest_form = self._run(
            "check_implementation", lambda: _is_oldest_form(self._module.check_implementation)
        )

    @_within_memory
    def generate(self, params: Mapping[str, Any], seed: int) -> Any:
        """Generate the inputs of a case.  Seeds all random generators, so that equal seeds give equal inputs."""
        random.seed(seed)
        self._seed_torch(seed)
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed(seed % 2**32)
        with torch.no_grad(), FillUninitialised():
            data = self._call("generate_input", **{**params, "seed": seed} if self._takes_seed else params)
        if self.device.type == "cpu":
            cpu.prepare_for(sum(tensor.numel() * tensor.element_size() for tensor in tensors(data)))
        return data

    @_within_memory
    def compute(self, data: Any) -> Any:
        """The reference's answer; does not change `data`."""
        return self._call("ref_kernel", copy.deepcopy(data))

    def _seed_torch(self, seed: int) -> torch.Generator:
        """As `torch.manual_seed`, which also writes a traceback for each kind of device that is not in use."""
        if self.device.type == "cuda":
            torch.cuda.manual_seed_all(seed)
        return torch.default_generator.manual_seed(int(seed))

    def settled_at(self) -> float:
        """Wait until the device is idle; return the time in seconds."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    @_within_memory
    def check(self, data: Any, output: Any, regenerate: Callable[[], Any] | None = None) -> str:
        """What is wrong with a participant's output; "" if it is right.

        Args:
            data: the pristine inputs.
            regenerate: generates them once more.  With it, the check gets `data` instead of a copy, and may change
                them: so the inputs are in memory only once.
        """
        if self.device.type != "cpu":  # the output was read into host memory
            output = map_tensors(output, lambda tensor: tensor.to(self.device))
        try:
            message = self.objection(data, output, regenerate)
        except JudgeError:
            message = f"{_REFUSED}: checking it takes more memory than there is"
        if message:  # raises if the check fails even for the right output, for example for lack of memory
            self._require_own_answer_accepted(data, regenerate)
        return message

    @_within_memory
    def objection(self, data: Any, output: Any, regenerate: Callable[[], Any] | None = None) -> str:
        """As `check`, for inputs whose reference answer is known to be accepted."""
        try:
            return self._ask(data if regenerate else copy.deepcopy(data), output)
        except _Raised as raised:
            said: str | JudgeError | TaskError = f"{_REFUSED}: {raised.summary}"
        except (JudgeError, TaskError) as error:
            said = type(error)(str(error))
        # A check mostly fails on None, or on a tensor of another shape or dtype: its broadcast can fill a GPU, and `==`
        # returns no single truth.
        # Outside the `except` blocks, because the exception kept the check's variables and their memory alive.
        if message := mismatch(output, self._own_answer(data, regenerate)):
            return message
        if not isinstance(said, str):
            raise said
        return said

    @_within_memory
    def failure(self, data: Any, output: Any) -> str:
        """Why the check itself crashes on an output of the right form; "" if it answers or raises AssertionError."""
        try:
            self._ask(copy.deepcopy(data), output)
        except _Raised as raised:
            is_answer = isinstance(raised.__cause__, AssertionError) or mismatch(output, self.compute(data))
            return "" if is_answer else raised.summary
        return ""

    @_within_memory
    def probe(self, params: Mapping[str, Any]) -> bool:
        """Try a case with the reference alone before judging; return whether different seeds give different inputs.

        Raises:
            TaskError: a function raises or returns a value that cannot be sent to a player, the reference changes its
                inputs, or the check rejects the reference's own answer.
            JudgeError: the case does not fit this machine's memory.
        """
        seed = first_seed(params)
        data = self.generate(params, seed)
        if data is None:
            raise self._fault("generate_input", "returns None; is a `return` missing?")
        self._require_plain("generate_input", data)
        self._require_unchanged(data)
        self._require_own_answer_accepted(data)
        return self._varies(params, seed, data)

    def require_variety(self, probed: Iterable[tuple[Case, bool]]) -> None:
        """Check that inputs depend on the seed, given the result of `probe` for each case.

        Single tests need not: an example is an identity matrix.

        Raises:
            TaskError: a benchmark, or every test, has the same inputs for every seed.
        """
        varies: dict[CaseKind, list[bool]] = {}
        for case, does in probed:
            varies.setdefault(case.kind, []).append(does)
        if not all(varies.get(CaseKind.BENCHMARK, [])) or not any(varies.get(CaseKind.TEST, [True])):
            what = "returns the same values for every seed; draw them from torch's generators, or seed one with `seed`"
            raise self._fault("generate_input", what)

    def returned(self, params: Mapping[str, Any]) -> Returned:
        """What the reference returns for a case."""
        key = repr(sorted(params.items()))
        if key not in self._returned:
            self._returned[key] = self._find_returned(params)
        return self._returned[key]

    @_within_memory
    def _find_returned(self, params: Mapping[str, Any]) -> Returned:
        data = self.generate(params, first_seed(params))
        buffers, sizes, nodes = self._find_buffers(data)
        # A buffer that is read before it is written, such as an accumulator, is an input.
        if buffers and not all(self._is_right_after(overwrite, buffers, data) for overwrite in _OVERWRITES):
            buffers = frozenset()
        fresh = tuple(size for size, is_input in sizes if not (is_input and buffers))
        return Returned(buffers, fresh, nodes)

    def _find_buffers(self, data: Any) -> tuple[frozenset[int], list[tuple[int, bool]], int]:
        """Find input tensors that the reference returns.

        Returns their indices; for each returned tensor, its size and whether it is such an input; the number of nodes
        of the answer."""
        given = copy.deepcopy(data)
        answer = self._call("ref_kernel", given)
        returned = {_storage(tensor) for tensor in tensors(answer) if tensor.numel()}
        buffers = [
            (place, _storage(tensor)) for place, tensor in enumerate(tensors(given)) if _storage(tensor) in returned
        ]
        filled = {storage for _, storage in buffers}
        sizes = [(tensor.numel() * tensor.element_size(), _storage(tensor) in filled) for tensor in tensors(answer)]
        return frozenset(place for place, _ in buffers), sizes, flatten(answer, self.device).nodes

    def _is_right_after(self, overwrite: Callable[[torch.Tensor], object], places: frozenset[int], data: Any) -> bool:
        """Whether the reference's answer stays right if these tensors contain other numbers."""
        given = copy.deepcopy(data)
        for index, tensor in enumerate(tensors(given)):
            if index in places:
                overwrite(_elements(tensor))
        try:
            return not self._ask(copy.deepcopy(data), self._call("ref_kernel", given))
        except (TaskError, JudgeError):  # such as an index or a size that is too large
            return False

    def _ask(self, data: Any, output: Any) -> str:
        """The message of `check_implementation`, in any of its forms.  It may change `data`."""
        if not self._is_oldest_form:
            # Many checks escape newlines for KernelBot's line protocol, which is not used here.
            said = self._message_of(self._call("check_implementation", data, output))
            return said.replace("\\n", "\n")
        expected = self._call("ref_kernel", data)
        del data
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
        raise self._fault("check_implementation", f"returns {describe(result)}; it must return str or (bool, str)")

    def _own_answer(self, data: Any, regenerate: Callable[[], Any] | None) -> Any:
        return self._call("ref_kernel", regenerate()) if regenerate else self.compute(data)

    def _require_own_answer_accepted(self, data: Any, regenerate: Callable[[], Any] | None = None) -> None:
        answer = self._own_answer(data, regenerate)
        if message := self._ask(regenerate() if regenerate else copy.deepcopy(data), answer):
            raise self._fault("check_implementation", f"rejects the output of ref_kernel itself: {message}")

    def _require_plain(self, function: str, tree: Any) -> None:
        try:
            flatten(tree, self.device)
        except UnsupportedInput as error:
            raise self._fault(function, f"returns a value that cannot be sent to a player: {error}") from None
        if self.device.type == "cpu" and any(tensor.device.type != "cpu" for tensor in tensors(tree)):
            raise self._fault(function, f"returns a tensor on another device; {_LEAVE_OUT_DEVICE}")

    def _varies(self, params: Mapping[str, Any], seed: int, data: Any) -> bool:
        if not any(tensor.numel() for tensor in tensors(data)):
            return True  # there is nothing to draw
        others = range(seed + 1, seed + EQUAL_DRAWS)
        return any(not is_same(self.generate(params, other), data) for other in others)

    def _require_unchanged(self, data: Any) -> None:
        given = copy.deepcopy(data)
        output = self._call("ref_kernel", given)
        self._require_plain("ref_kernel", output)
        returned = {_storage(tensor) for tensor in tensors(output)}
        try:
            values = list(pairs(data, given, "data"))
        except (LookupError, TypeError):
            raise self._fault("ref_kernel", "adds values to its input; copy it first") from None
        for where, before, after in values:
            # A changed tensor that is also returned is an output buffer, so the change is intended.
            is_buffer = isinstance(after, torch.Tensor) and _storage(after) in returned
            if not is_buffer and not is_same(before, after):
                raise self._fault("ref_kernel", f"changes its input {where}; copy it first, or return it")

    def _call(self, function: str, *args: Any, **kwargs: Any) -> Any:
        return self._run(function, lambda: getattr(self._module, function)(*args, **kwargs))

    def _run(self, function: str, code: Callable[[], R]) -> R:
        """Run the task's code with its files importable and its device as default; exceptions become `TaskError`s.

        No context manager made from a generator: from Python 3.12 on, an exception that one raises while it handles
        another is part of a reference cycle, so the variables of the task's code would stay in memory.
        """
        try:
            with self._files.importable(), self.device, self._seeding_its_device():
                return code()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            if not isinstance(error, Exception) and not self._files.is_innermost(error):
                raise  # a signal interrupted the task's code
            summary = _summary_of(error)
            if ran_out(error):
                raise too_large(function) from None
            if self.device.type != "cpu" and _found_no_room(function, error, summary):
                raise JudgeError(
                    f"{function} ran out of the GPU memory that the player left: {summary}; lower gpu_memory_gib to "
                    "leave more to the referee, or judge on a GPU with more memory"
                ) from None
            where = self._files.line_of(error) or self._definition(function)
            what = "" if function == "reference.py" else f"{function}: "
            raise _Raised(f"{where}: {what}{summary}{self._hint(error, summary)}", summary=summary) from error

    @contextlib.contextmanager
    def _seeding_its_device(self) -> Iterator[None]:
        """Have `torch.manual_seed` seed the CPU and this reference's device, and nothing else."""
        usual = torch.manual_seed
        torch.manual_seed = torch.random.manual_seed = self._seed_torch
        try:
            yield
        finally:
            torch.manual_seed = torch.random.manual_seed = usual

    def _hint(self, error: BaseException, summary: str) -> str:
        """What may be wrong with running the task's code on this device."""
        if self._is_rewritten and not isinstance(error, ImportError):
            return f"; {_REWRITTEN}"
        asks_for_cuda = self.device.type == "cpu" and ("CUDA" in summary or "NVIDIA" in summary)
        return f"; {_LEAVE_OUT_DEVICE}" if asks_for_cuda else ""

    def _fault(self, function: str, what: str) -> TaskError:
        return TaskError(f"{self._definition(function)}: {function} {what}")

    def _definition(self, function: str) -> str:
        code = getattr(getattr(self._module, function, None), "__code__", None)
        return f"{self._files.label('reference.py')}:{code.co_firstlineno if code else 1}"


def _summary_of(error: BaseException) -> str:
    """`ValueError: no`, without further lines."""
    try:
        message = str(error)
    except Exception as another:  # its __str__ is the task's code
        message = f"its message cannot be read: {type(another).__name__}"
    return f"{type(error).__name__}: {message}".splitlines()[0]


class _Raised(TaskError):
    """The task's code raised an exception; `summary` is its message without the place."""

    def __init__(self, message: str, *, summary: str = "") -> None:  # without it, as pickle builds it
        super().__init__(message)
        self.summary = summary


def _found_no_room(function: str, error: BaseException, summary: str) -> bool:
    """Whether GPU memory ran out.  For checks, only the exception's type counts: the output may control its text."""
    if function == "check_implementation":
        return isinstance(error, torch.cuda.OutOfMemoryError)
    return is_out_of_memory(summary)


def _explain(output: Any, expected: Any) -> str:
    """A likely reason for a check that only returned False."""
    right, message = compare(output, expected, rtol=1e-3, atol=1e-5)
    return _REFUSED if right else f"{_REFUSED}; compared with the reference, {message}"


def _change(numbers: torch.Tensor) -> None:
    """Change every number.  Whole numbers become 0 and 1, which are valid as indexes."""
    if numbers.is_floating_point():
        numbers.fill_(math.nan)
    else:
        numbers.copy_(numbers == 0)


def _randomise(numbers: torch.Tensor) -> None:
    """Write random bytes, as players find them."""
    (numbers if numbers.dtype is torch.bool else numbers.view(torch.uint8)).random_()


def _write_lowest(numbers: torch.Tensor) -> None:
    """Write the lowest number: a minimum of few numbers may ignore random ones."""
    if limits := _limits_of(numbers.dtype):
        numbers.fill_(limits.min)


def _write_highest(numbers: torch.Tensor) -> None:
    """Write the highest number, for a maximum."""
    if limits := _limits_of(numbers.dtype):
        numbers.fill_(limits.max)


def _limits_of(dtype: torch.dtype) -> torch.finfo | torch.iinfo | None:
    if dtype is torch.bool or dtype.is_complex:
        return None
    return torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)


_OVERWRITES = (_change, _randomise, _write_lowest, _write_highest)
"""In this order: a number that is an index or a size decides the answer before it can be too large."""


def _elements(tensor: torch.Tensor) -> torch.Tensor:
    """All of a tensor's storage in one dimension, so that strides don't matter; two 4-bit numbers are an element."""
    dtype = torch.uint8 if is_packed(tensor) else tensor.dtype
    return torch.empty(0, dtype=dtype, device=tensor.device).set_(tensor.untyped_storage())


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _truth(value: Any) -> bool | None:
    """A bool of Python, numpy or torch as a Python bool; None for anything else."""
    if isinstance(value, torch.Tensor):
        return bool(value) if value.numel() == 1 else None
    return bool(value) if type(value).__name__ in ("bool", "bool_") else None


def first_seed(params: Mapping[str, Any]) -> int:
    """The case's seed in task.yml, or 1 if it has none."""
    seed = params.get("seed")
    return seed if type(seed) is int and seed >= 0 else 1


def _takes_seed(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.name == "seed" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _is_oldest_form(check: Callable[..., Any]) -> bool:
    """Whether the signature is `(user_output, reference_output)`, recognised by the second name."""
    names = list(inspect.signature(check).parameters)
    return len(names) == 2 and names[1].startswith(("ref", "expected"))
