"""The untrusted side: the only file that imports a submission.

It runs in the sandbox, in a process forked from the warm parent, and obeys orders until it is killed: compile, or
open, load, lay, go (see `protocol`).  The referee trusts nothing here: a submission may patch all of it.  It is short
because every window includes its overhead, and that overhead is time that a cheat can gain.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import socket
import sys
import traceback
from types import ModuleType
from typing import Any

import torch

from harness.inside.gpu_staging import Staging
from harness.inside.library import compile_library, load_kernel
from harness.inside.protocol import ITEM_BYTES, MAX_DEPTH, MAX_MESSAGE, MAX_TEXT, write

_DTYPE_NAMES = {getattr(torch, name): name for name in ITEM_BYTES if hasattr(torch, name)}
_GO: dict[str, Any] = {"do": "go", "scalars": []}
_GO_PACKET = write(_GO)
_SCALARS = (bool, int, float, str, type(None))
_MAX_BITS = 10_000
"""Limit for an integer: Python refuses to parse numbers of more than 4300 digits."""


def main(control: socket.socket, entry: str, library: str, threads: int, device: str = "") -> None:
    """Serve the referee until it kills us.

    Args:
        entry: the folder that holds the submission.
        library: the path of the compiled library, if the submission is compiled.
        device: torch's name for the device that inputs are copied to, or "" if they are not copied.
    """
    torch.set_num_threads(threads)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)  # the last output before a crash matters most
    player = _Player(control, entry, library, device)
    while packet := control.recv(MAX_MESSAGE):
        player.obey(packet)


class _Player:
    def __init__(self, control: socket.socket, entry: str, library: str, device: str) -> None:
        self.control = control
        self.entry = entry
        self.library = library
        self.device = device
        self.staging: Staging | None = None
        self.pid = os.getpid()
        self.kernel: Any = None
        self.tree: Any = None
        self.inputs: list[torch.Tensor] = []
        self.views: list[torch.Tensor] = []
        self.output: Any = None
        self.methods = {name: name for name in ("compile", "load", "lay", "go", "profile", "watch", "fetch")}
        """The method that obeys each order."""
        if device:
            self.methods |= {"open": "open", "fill": "fill", "go": "go_timed"}

    def obey(self, packet: bytes) -> None:
        command = _GO if packet == _GO_PACKET else json.loads(packet)
        answer = getattr(self, self.methods[command["do"]])
        status = 1
        try:
            packet = answer(command)
        except Exception as error:
            packet = write(_failure(error, self.entry))
        except SystemExit as error:
            status = 0 if error.code is None else error.code & 0xFF if isinstance(error.code, int) else 1
            packet = write(_failure(RuntimeError(f"called sys.exit({error.code!r})"), self.entry))
        if len(packet) > MAX_MESSAGE:
            packet = write({"is": "done", "output": {"object": "a structure too large to describe"}})
        if os.getpid() != self.pid:
            os._exit(status)  # a fork by the submission that returned into our code: the referee expects one answer
        self.control.send(packet)
        # The referee is stopping us meanwhile.  Make fresh views each time: a kernel may transpose its input in place.
        self.views = [tensor.detach() for tensor in self.inputs]

    def compile(self, command: dict[str, Any]) -> bytes:
        os.chdir(self.entry)
        status, output = compile_library(command["command"], self.library)
        return write({"is": "compiled", "status": status, "output": output})

    def open(self, _: dict[str, Any]) -> bytes:
        self.staging = Staging(self.device)
        return write({"is": "opened"})

    def load(self, _: dict[str, Any]) -> bytes:
        # Last in the path, so that `task.py` cannot shadow a library module.
        sys.path.append(self.entry)
        os.chdir(self.entry)
        if os.path.exists(os.path.join(self.entry, "submission.py")):
            self.kernel = self._import("submission").custom_kernel
        else:
            self.kernel = load_kernel(self._import("adapter"), self.library)
        return write({"is": "loaded"})

    def _import(self, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, os.path.join(self.entry, f"{name}.py"))
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def lay(self, command: dict[str, Any]) -> bytes:
        self.output = None
        self.tree = command["tree"]
        self.inputs = [
            torch.empty_strided(shape, strides, dtype=getattr(torch, dtype))
            for dtype, shape, strides in command["tensors"]
        ]
        at = [tensor.data_ptr() for tensor in self.inputs]
        if self.staging:
            self.inputs = self.staging.lay(self.inputs)
        return write({"is": "laid", "at": at})

    def fill(self, _: dict[str, Any]) -> bytes:
        assert self.staging
        self.staging.fill()
        return write({"is": "filled"})

    def go_timed(self, command: dict[str, Any]) -> bytes:
        assert self.staging
        data = self._build(self.tree, command["scalars"])
        self.output, inside_us = self.staging.time(self.kernel, data)
        return b'{"is":"timed","inside_us":%r,"delay_us":%r}' % (inside_us, self.staging.delay_us)

    def profile(self, command: dict[str, Any]) -> bytes:
        from harness.inside.profiler import profile_call  # only profiled calls pay for the import

        data = self._build(self.tree, command["scalars"])
        self.output, profile = profile_call(self.kernel, data, self.device)
        return write({"is": "profiled", **profile})

    def watch(self, command: dict[str, Any]) -> bytes:
        from harness.inside.profiler import watch_call

        self.output = watch_call(self.kernel, self._build(self.tree, command["scalars"]), self.device)
        return write({"is": "watched"})

    def fetch(self, _: dict[str, Any]) -> bytes:
        if self.staging:
            self.output = self.staging.fetch(self.output)
        return b'{"is":"done","output":%s}' % describe(self.output).encode()

    def go(self, command: dict[str, Any]) -> bytes:
        # Keep the output until the next call: the referee reads it after this function returns.
        self.output = self.kernel(self._build(self.tree, command["scalars"]))
        return b'{"is":"done","output":%s}' % describe(self.output).encode()

    def _build(self, node: Any, scalars: list[Any]) -> Any:
        if isinstance(node, list):
            return [self._build(item, scalars) for item in node]
        if "tensor" in node:
            return self.views[node["tensor"]]
        if "tuple" in node:
            return tuple([self._build(item, scalars) for item in node["tuple"]])
        if "scalar" in node:
            return scalars[node["scalar"]]
        return {key: self._build(item, scalars) for key, item in node["dict"]}


def describe(value: Any, depth: int = 0) -> str:
    """Describe a kernel's output as JSON, in the grammar of `protocol`.

    Written by hand because its time is in the window.  Values that the referee could not parse become objects: an
    honest player must not look like a forger.
    """
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _describe_tensor(value)
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return json.dumps({"object": f"an integer of {value.bit_length()} bits"})
    if isinstance(value, _SCALARS):  # with subclasses: numpy's float64 is a float
        return json.dumps(value)
    if depth > MAX_DEPTH:
        return json.dumps({"object": f"a structure of more than {MAX_DEPTH} levels"})
    if isinstance(value, tuple):
        return f'{{"tuple":[{",".join([describe(item, depth + 1) for item in value])}]}}'
    if kind is list:
        return f"[{','.join([describe(item, depth + 1) for item in value])}]"
    if isinstance(value, dict):
        pairs = [f"[{json.dumps(key)},{describe(item, depth + 1)}]" for key, item in value.items()]
        return f'{{"dict":[{",".join(pairs)}]}}'
    return json.dumps({"object": kind.__name__})


def _describe_tensor(tensor: torch.Tensor) -> str:
    dtype = _DTYPE_NAMES.get(tensor.dtype)
    if tensor.layout is not torch.strided or not tensor.is_cpu or dtype is None:
        return json.dumps({"object": f"a Tensor of {tensor.dtype}, {tensor.layout}, on {tensor.device.type}"})
    if tensor.is_neg() or (tensor.is_complex() and tensor.is_conj()):
        return json.dumps({"object": "a lazily negated or conjugated Tensor (call resolve_neg() or resolve_conj())"})
    shape, strides = list(tensor.shape), list(tensor.stride())
    return f'{{"dtype":"{dtype}","shape":{shape},"strides":{strides},"at":{tensor.data_ptr()}}}'


def _failure(error: Exception, entry: str) -> dict[str, Any]:
    """Describe what the submission raised; the traceback starts at the submission's own first frame."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [number for number, frame in enumerate(frames) if frame.filename.startswith(entry)]
    own = [number for number in theirs if frames[number].filename.endswith("/submission.py")]
    line = frames[own[-1]].lineno if own else None
    if isinstance(error, SyntaxError) and str(error.filename).startswith(entry):
        # A submission that raises it by hand may put anything there.
        line = error.lineno if type(error.lineno) is int and 0 < error.lineno < 2**31 else None
    text, message = "", ""
    with contextlib.suppress(Exception):  # an exception's __str__ is the submission's code
        message = str(error)
        text = "".join(traceback.format_list(frames[theirs[0] if theirs else len(frames) :]))
    message, text = message[:MAX_TEXT], text[-MAX_TEXT:]
    if len(json.dumps(message + text)) > MAX_MESSAGE // 2:  # JSON spells one character with up to twelve bytes
        message, text = message[: MAX_TEXT // 4], text[-MAX_TEXT // 4 :]
    return {"is": "failed", "error": type(error).__name__[:200], "message": message, "traceback": text, "line": line}
