"""The protocol between referee and player: every message, its fields, and how to read it.

An adversary wrote everything that `read_answer` gets: it returns an `Answer` or raises an error.
Each message is one packet of JSON on a SEQPACKET socket, so the referee never waits for half a message.

    referee → player                          player → referee
                                              Ready                    the sandbox is up, the submission not yet read
    Compile   a compiler's command            Compiled | Failed        compile the submission to a library, if needed
    Load                                      Loaded | Failed          import the submission
    Allocate  tree of tensors, no contents    Allocated  addresses     allocate the inputs
    Go        scalars of the inputs           Done   tree | Failed     the window: one call of custom_kernel

On a device whose memory the referee shares (`shared_memory`), Open comes before Load, two descriptors come with
Allocate, and `at` is a place in the shared memory of the outputs.  A window may hold several calls: Go has the scalars
of each, and Done a list of trees.  Fetch follows Profile only.  If Go names a number for the gate, there are no inputs
yet: the player queues its work behind the gate, answers Queued, and Done when the work is done.

On a staged device, whose memory is not the player's own (`gpu_staging`), Open comes before Load, and these replace Go:

    Open                                      Opened | Failed          initialize the device
    Fill                                      Filled | Failed          copy the inputs to the device
    Go     scalars of the inputs              Timed  µs   | Failed     the window
    Fetch                                     Done   tree | Failed     copy the outputs to host memory

To profile a call, one of these replaces Go; Fetch follows Profile on every device:

    Profile  scalars of the inputs            Profiled | Failed        one call under torch's profiler
    Count    scalars of the inputs            Counted  | Failed        one call under a vendor's profiler

A tree is any nesting of tuples, lists and dicts.  In a kernel's output, its leaves are:

    {"dtype": "float32", "shape": [2, 3], "strides": [3, 1], "at": 94012345678}       a tensor in the player's memory
    3, 2.5, true, null, "text"                                                       a scalar
    {"object": "its type's name"}                                                    anything else

`Allocate` carries no contents of the inputs.  Their leaves are `{"tensor": 0}`, an index into the list of tensors
(dtype, shape, strides), and `{"scalar": 0}`, an index into the list of the call that comes with `Go`.  In both, a tuple
is `{"tuple": [..]}`, a dict is `{"dict": [[key, value], ..]}`, and a list is a list.  Messages never carry tensor
bytes: the referee reads and writes them in the memory of the stopped player.
"""

from __future__ import annotations

import functools
import json
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_MESSAGE = 64 * 1024
MAX_DEPTH = 16
MAX_LEAVES = 1024
MAX_DIMENSIONS = 16
MAX_SIZE = 2**48
MAX_TEXT = 8_000
_MAX_US = 1e12
MAX_OPERATIONS = 20
"""How many rows a profile has, longest first; the shortest operations share one."""
MAX_OUTPUT = 10_000
"""How much of a compiler's output is kept, in bytes.  As JSON it takes at most six times as much."""

LOG_HEADER = struct.Struct("<iiQ")
"""Header of a player's log, a memfd that its keeper writes: ended (0 or 1), wait status, total bytes printed."""
LOG_BYTES = 16 * 1024
"""How much of the end of a player's output the log keeps after the header."""

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}  # fmt: skip
"""The bytes per element of each dtype that the protocol supports, by torch's names."""


ALIGNMENT = 512
"""Of tensors in memory that referee and player share, in bytes: as torch aligns its own."""


def gate_of(address: int, size: int) -> int:
    """The address of the gate, in the shared memory of the inputs with this address and size."""
    return address + size - ALIGNMENT


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class ProtocolError(Exception):
    """A packet that no honest player sends."""


class TooComplex(Exception):
    """An output that an honest kernel may return, but that exceeds a limit of this protocol."""


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in the player's memory.  Strides count elements; `address` is 0 before the tensor is allocated."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int = 0

    @functools.cached_property
    def elements(self) -> int:
        return math.prod(self.shape)

    @functools.cached_property
    def span_bytes(self) -> int:
        """The bytes from the first to the last element, including gaps."""
        if self.elements == 0:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]

    @functools.cached_property
    def is_dense(self) -> bool:
        return self.span_bytes == self.elements * ITEM_BYTES[self.dtype]

    @property
    def has_gaps(self) -> bool:
        return self.span_bytes > self.elements * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A leaf that is neither a tensor nor a scalar; only its type's name is sent."""

    name: str


@dataclass(frozen=True, slots=True)
class Ready:
    pass


@dataclass(frozen=True, slots=True)
class Opened:
    pass


@dataclass(frozen=True, slots=True)
class Loaded:
    pass


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiler's exit code, and the beginning of what it printed, which is hostile text."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Allocated:
    addresses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Done:
    output: Any


QUEUED = b'{"is":"queued"}'
"""The player has queued its work, and the referee may reveal the inputs."""


@dataclass(frozen=True, slots=True)
class Filled:
    pass


@dataclass(frozen=True, slots=True)
class Timed:
    """A call's duration by the player's own clock, and how long the delay kept the device busy, in microseconds."""

    inside_us: float
    delay_us: float


@dataclass(frozen=True, slots=True)
class Profiled:
    """Where a call's time went, as the player claims: each operation's name, whether the device ran it, calls, µs."""

    call_us: float
    operations: tuple[tuple[str, bool, int, float], ...]


@dataclass(frozen=True, slots=True)
class Counted:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    """The submission raised an exception.  The submission wrote all of this text."""

    error: str
    message: str
    traceback: str
    line: int | None


Answer = Ready | Compiled | Opened | Loaded | Allocated | Filled | Timed | Profiled | Counted | Done | Failed


_BARE: dict[str, type[Ready | Opened | Loaded | Filled | Counted]] = {
    "ready": Ready, "opened": Opened, "loaded": Loaded, "filled": Filled, "counted": Counted,
}  # fmt: skip


@functools.lru_cache(maxsize=8)
def read_answer(packet: bytes) -> Answer:
    """Parse one packet from the player.  Equal packets, as from a reused output buffer, are parsed once.

    Raises:
        ProtocolError: an honest player never sends such a packet.
        TooComplex: the output is nested too deep, too large, or has unsupported keys.
    """
    if len(packet) > MAX_MESSAGE:
        raise ProtocolError(f"the message has more than {MAX_MESSAGE} bytes")
    try:
        fields = json.loads(packet)
    except (ValueError, RecursionError):
        raise ProtocolError("the message is not JSON") from None
    if not isinstance(fields, dict):
        raise ProtocolError("the message is not a JSON object")
    match fields:
        case {"is": "ready" | "opened" | "loaded" | "filled" | "counted" as kind, **rest} if not rest:
            return _BARE[kind]()
        case {"is": "compiled", "status": int(status), "output": str(output), **rest} if not rest:
            return Compiled(status, _text(output, MAX_MESSAGE))
        case {"is": "allocated", "at": list(addresses), **rest} if not rest:
            return Allocated(tuple(_integer(address) for address in addresses))
        case {"is": "timed", "inside_us": inside_us, "delay_us": delay_us, **rest} if not rest:
            return Timed(_duration(inside_us), _duration(delay_us))
        case {"is": "profiled", "call_us": call_us, "operations": list(rows), **rest} if not rest:
            return Profiled(_duration(call_us), tuple(map(_operation, rows[:MAX_OPERATIONS])))
        case {"is": "done", "output": output, **rest} if not rest:
            return Done(_TreeReader().read(output))
        case {"is": "failed", "error": str(error), "message": str(message), "traceback": str(trace), "line": line}:
            where = None if line is None else _integer(line)
            return Failed(_text(error, 200), _text(message, MAX_TEXT), _text(trace, MAX_TEXT), where)
    raise ProtocolError("the message is of an unknown kind")


class _TreeReader:
    """Reads a tree from the player and counts its nodes."""

    def __init__(self) -> None:
        self.leaves = 0

    def read(self, node: object, depth: int = 0) -> Any:
        self.leaves += 1
        # One more than a player's own limit: a window with several calls has a list of outputs.
        if depth > MAX_DEPTH + 1 or self.leaves > MAX_LEAVES:
            raise TooComplex(f"is deeper than {MAX_DEPTH} levels, or has more than {MAX_LEAVES} values")
        match node:
            case None | bool() | int() | float():
                return node
            case str():
                return _text(node, MAX_MESSAGE)
            case list():
                return [self.read(item, depth + 1) for item in node]
            case {"tuple": list(items), **rest} if not rest:
                return tuple(self.read(item, depth + 1) for item in items)
            case {"dict": list(pairs), **rest} if not rest:
                return dict(self._pair(pair, depth + 1) for pair in pairs)
            case {"object": str(name), **rest} if not rest:
                return Unsupported(_text(name, 100))
            case {"dtype": str(dtype), "shape": list(shape), "strides": list(strides), "at": at, **rest} if not rest:
                return _tensor(dtype, shape, strides, at)
        raise ProtocolError("the output has a value of an unknown kind")

    def _pair(self, pair: object, depth: int) -> tuple[Any, Any]:
        match pair:
            case [str() | int() as key, value]:
                return key, self.read(value, depth)
        raise TooComplex("has a dict with a key that is neither a string nor an integer")


def _tensor(dtype: str, shape: list[object], strides: list[object], address: object) -> TensorSpec:
    if dtype not in ITEM_BYTES:
        raise ProtocolError("a tensor has an unknown dtype")
    if len(shape) != len(strides):
        raise ProtocolError("a tensor's strides do not match its shape")
    sizes = tuple(_integer(size) for size in shape)
    steps = tuple(_integer(stride) for stride in strides)
    # Skip sizes of 0: libraries still multiply the other sizes, and overflow.
    elements = math.prod(size for size in sizes if size)
    if len(sizes) > MAX_DIMENSIONS or max((elements, *steps)) > MAX_SIZE:
        raise TooComplex(f"has a tensor of more than {MAX_DIMENSIONS} dimensions or {MAX_SIZE} elements")
    return TensorSpec(dtype, sizes, steps, _integer(address))


def _text(value: str, limit: int) -> str:
    # JSON can spell half of a surrogate pair, which no file or terminal can encode.
    return value[:limit].encode(errors="replace").decode()


def _integer(value: object) -> int:
    # `type is`, not isinstance: in Python, True is an int.
    if type(value) is not int or not 0 <= value < 2**63:
        raise ProtocolError("a size, stride, address or count is invalid")
    return value


def _duration(value: object) -> float:
    """A duration in microseconds.  `0 <=`, not `not < 0`: NaN must fail, and every comparison with NaN is False."""
    if type(value) not in (int, float) or not 0 <= value < _MAX_US:  # type: ignore[operator]
        raise ProtocolError("a time is invalid")
    return float(value)  # type: ignore[arg-type]


def _operation(row: object) -> tuple[str, bool, int, float]:
    match row:
        case [str(name), bool(on_device), int(calls), own_us] if calls:
            return _text(name, 200), on_device, _integer(calls), _duration(own_us)
    raise ProtocolError("an operation of the profile is malformed")


def write(message: dict[str, Any]) -> bytes:
    """Encode a message as one packet.  Floats may be NaN or infinite: they are a task's scalars."""
    return _encode(message).encode()


def aligned(size: int) -> int:
    """The next multiple of `ALIGNMENT`."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def tensors_of(node: Any) -> Iterator[TensorSpec]:
    """The tensors of a tree, in order."""
    match node:
        case TensorSpec():
            yield node
        case tuple() | list():
            for item in node:
                yield from tensors_of(item)
        case dict():
            for item in node.values():
                yield from tensors_of(item)
