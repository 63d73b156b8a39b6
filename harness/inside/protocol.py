"""The border to the player: every message, its fields, and how it is read.

Whatever `read_answer` gets was written by an adversary: it returns an `Answer` or raises `ProtocolError`.
One message is one packet of JSON on a SEQPACKET socket, so that there are no half messages to wait for.

    referee → player                          player → referee
                                              Ready                    the walls stand, the submission waits
    Compile  a compiler's command             Compiled | Failed        make a library of it, where it is compiled
    Load                                      Loaded | Failed          import the submission
    Lay    tree of tensors without contents   Laid   addresses         make room for the inputs
    Go     scalars of the inputs              Done   tree | Failed     the window: one call of custom_kernel

and where a device's memory is not the player's own (`inside`), before Load, and in the place of Go:

    Open                                      Opened | Failed          get hold of the device
    Fill                                      Filled | Failed          inputs to the device
    Go     scalars of the inputs              Timed  µs   | Failed     the window
    Fetch                                     Done   tree | Failed     outputs to host memory

and to profile a call, in the place of Go; with Fetch after the first of them everywhere:

    Profile  scalars of the inputs            Profiled | Failed        one call, watched by torch's profiler
    Watch    scalars of the inputs            Watched  | Failed        one call, watched by a vendor's (`watch`)

A tree is any nesting of tuples, lists and dicts.  Its leaves are, in what a kernel returned:

    {"dtype": "float32", "shape": [2, 3], "strides": [3, 1], "at": 94012345678}       a tensor in the player's memory
    3, 2.5, true, null, "text"                                                       a scalar
    {"object": "its type's name"}                                                    anything else

and in the inputs, whose bytes and values don't travel in `Lay`: `{"tensor": 0}`, a place in the list of tensors
(dtype, shape, strides), and `{"scalar": 0}`, a place in the list that comes with `Go`.  In both, tuples are
`{"tuple": [..]}`, dicts `{"dict": [[key, value], ..]}`, lists lists.  Bytes of tensors never travel here: the referee
reads and writes them in the memory of the stopped player.
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
"""Of a profile: the longest."""
MAX_OUTPUT = 10_000
"""Of a compiler, in bytes: as JSON they take six times as much, at most."""

LOG_HEADER = struct.Struct("<iiQ")
"""Start of a player's log, a memfd that its keeper writes: ended (0 or 1), wait status, bytes printed in all."""
LOG_BYTES = 16 * 1024
"""How much of the end of a player's output the log keeps, after the header."""

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "uint32": 4, "int32": 4, "uint64": 8, "int64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}  # fmt: skip
"""The dtypes that cross the border, by torch's names."""


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class ProtocolError(Exception):
    """Bytes that no honest player sends."""


class TooComplex(Exception):
    """An output that an honest kernel may return, beyond what is read here."""


@dataclass(frozen=True)
class TensorSpec:
    """Where a tensor lies in the player's memory.  Strides count elements; `address` is 0 where there is none yet."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int = 0

    @functools.cached_property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @functools.cached_property
    def span_bytes(self) -> int:
        """From the first to the last element, gaps included."""
        if self.elements == 0:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ITEM_BYTES[self.dtype]

    @functools.cached_property
    def is_dense(self) -> bool:
        return self.span_bytes == self.elements * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A leaf that is neither tensor nor scalar; all that crosses the border is its type's name."""

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
    """How a compiler ended, and the beginning of what it printed, which is hostile text."""

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Laid:
    addresses: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Done:
    output: Any


@dataclass(frozen=True, slots=True)
class Filled:
    pass


@dataclass(frozen=True, slots=True)
class Timed:
    """How long a call took by the player's own clock, in microseconds, and how long it kept the device busy before."""

    inside_us: float
    delay_us: float


@dataclass(frozen=True, slots=True)
class Profiled:
    """Where a call's time went, by the player's word: of operations the name, whether the device did it, calls, µs."""

    call_us: float
    operations: tuple[tuple[str, bool, int, float], ...]


@dataclass(frozen=True, slots=True)
class Watched:
    pass


@dataclass(frozen=True, slots=True)
class Failed:
    """The submission raised.  All of it is text by the submission."""

    error: str
    message: str
    traceback: str
    line: int | None


Answer = Ready | Compiled | Opened | Loaded | Laid | Filled | Timed | Profiled | Watched | Done | Failed


_BARE: dict[str, type[Ready | Opened | Loaded | Filled | Watched]] = {
    "ready": Ready, "opened": Opened, "loaded": Loaded, "filled": Filled, "watched": Watched,
}  # fmt: skip


@functools.lru_cache(maxsize=8)
def read_answer(packet: bytes) -> Answer:
    """Read one packet of the player.  The same one, as of a buffer that is used again, is read once.

    Raises:
        ProtocolError: the packet is none that our side of the player sends.
        TooComplex: it describes an output that is too deep, too large or too odd.
    """
    if len(packet) > MAX_MESSAGE:
        raise ProtocolError(f"a message of more than {MAX_MESSAGE} bytes")
    try:
        fields = json.loads(packet)
    except (ValueError, RecursionError):
        raise ProtocolError("a message that is not JSON") from None
    if not isinstance(fields, dict):
        raise ProtocolError("a message that is not an object")
    match fields:
        case {"is": "ready" | "opened" | "loaded" | "filled" | "watched" as kind, **rest} if not rest:
            return _BARE[kind]()
        case {"is": "compiled", "status": int(status), "output": str(output), **rest} if not rest:
            return Compiled(status, _text(output, MAX_MESSAGE))
        case {"is": "laid", "at": list(addresses), **rest} if not rest:
            return Laid(tuple(_integer(address) for address in addresses))
        case {"is": "timed", "inside_us": inside_us, "delay_us": delay_us, **rest} if not rest:
            return Timed(_duration(inside_us), _duration(delay_us))
        case {"is": "profiled", "call_us": call_us, "operations": list(rows), **rest} if not rest:
            return Profiled(_duration(call_us), tuple(map(_operation, rows[:MAX_OPERATIONS])))
        case {"is": "done", "output": output, **rest} if not rest:
            return Done(_TreeReader().read(output))
        case {"is": "failed", "error": str(error), "message": str(message), "traceback": str(trace), "line": line}:
            where = None if line is None else _integer(line)
            return Failed(_text(error, 200), _text(message, MAX_TEXT), _text(trace, MAX_TEXT), where)
    raise ProtocolError("a message of no known kind")


class _TreeReader:
    """Reads a tree of the player, counting what it has seen."""

    def __init__(self) -> None:
        self.leaves = 0

    def read(self, node: object, depth: int = 0) -> Any:
        self.leaves += 1
        if depth > MAX_DEPTH or self.leaves > MAX_LEAVES:
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
        raise ProtocolError("a value of no known kind in the output")

    def _pair(self, pair: object, depth: int) -> tuple[Any, Any]:
        match pair:
            case [str() | int() as key, value]:
                return key, self.read(value, depth)
        raise TooComplex("has a dict whose keys are neither text nor integers")


def _tensor(dtype: str, shape: list[object], strides: list[object], address: object) -> TensorSpec:
    if dtype not in ITEM_BYTES:
        raise ProtocolError("a tensor of an unknown dtype")
    if len(shape) != len(strides):
        raise ProtocolError("a tensor without a stride for each dimension")
    sizes = tuple(_integer(size) for size in shape)
    steps = tuple(_integer(stride) for stride in strides)
    # Sizes of 0 left out: libraries multiply the others all the same, and overflow.
    elements = math.prod(size for size in sizes if size)
    if len(sizes) > MAX_DIMENSIONS or max((elements, *steps)) > MAX_SIZE:
        raise TooComplex(f"has a tensor of more than {MAX_DIMENSIONS} dimensions or of {MAX_SIZE} elements")
    return TensorSpec(dtype, sizes, steps, _integer(address))


def _text(value: str, limit: int) -> str:
    # JSON can spell half of a surrogate pair, which no file and no terminal can.
    return value[:limit].encode(errors="replace").decode()


def _integer(value: object) -> int:
    # `type is`, not isinstance: True is an int to Python.
    if type(value) is not int or not 0 <= value < 2**63:
        raise ProtocolError("a number that is no size, stride or address")
    return value


def _duration(value: object) -> float:
    """In microseconds.  `0 <=`, not `not < 0`: a NaN must fail, and every comparison with NaN is False."""
    if type(value) not in (int, float) or not 0 <= value < _MAX_US:  # type: ignore[operator]
        raise ProtocolError("a time that no clock shows")
    return float(value)  # type: ignore[arg-type]


def _operation(row: object) -> tuple[str, bool, int, float]:
    match row:
        case [str(name), bool(on_device), int(calls), own_us] if calls:
            return _text(name, 200), on_device, _integer(calls), _duration(own_us)
    raise ProtocolError("an operation of a profile without name, place, calls and time")


def write(message: dict[str, Any]) -> bytes:
    """One packet.  Floats may be NaN or infinite: they are a task's scalars."""
    return _encode(message).encode()


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
