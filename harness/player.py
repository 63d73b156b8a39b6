"""The untrusted side: the only file that imports a submission.

It runs inside the walls, in a process forked from the warm parent, and does what it is told until it is
killed: load, lay, go (see `protocol`).  Nothing here is trusted by the referee: a submission may patch all of
it.  It is kept short because its cost is in every window, and a window's cost is what a cheat can gain.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import sys
import traceback
from typing import Any

import torch

from harness.protocol import ITEM_BYTES, MAX_MESSAGE, MAX_TEXT, write

_DTYPE_NAMES = {getattr(torch, name): name for name in ITEM_BYTES if hasattr(torch, name)}
_SCALARS = (bool, int, float, str, type(None))


def main(control: socket.socket, entry: str, threads: int) -> None:
    """Serve the referee until it kills us.  `entry` is the folder that holds the submission."""
    torch.set_num_threads(threads)
    control.send(write({"is": "ready"}))
    player = _Player(control, entry)
    while packet := control.recv(MAX_MESSAGE):
        player.obey(json.loads(packet))


class _Player:
    def __init__(self, control: socket.socket, entry: str) -> None:
        self.control = control
        self.entry = entry
        self.kernel: Any = None
        self.tree: Any = None
        self.inputs: list[torch.Tensor] = []
        self.output: Any = None

    def obey(self, command: dict[str, Any]) -> None:
        answer = {"load": self.load, "lay": self.lay, "go": self.go}[command["do"]]
        try:
            packet = write(answer(command))
        except Exception as error:
            packet = write(_failure(error, self.entry))
        except SystemExit as error:
            packet = write(_failure(RuntimeError(f"called sys.exit({error.code!r})"), self.entry))
        if len(packet) > MAX_MESSAGE:
            packet = write({"is": "done", "output": {"object": "a structure too large to describe"}})
        self.control.send(packet)

    def load(self, _: dict[str, Any]) -> dict[str, Any]:
        # Last in the path, so that `task.py` can hide nothing of the libraries.
        sys.path.append(self.entry)
        os.chdir(self.entry)
        path = os.path.join(self.entry, "submission.py")
        spec = importlib.util.spec_from_file_location("submission", path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["submission"] = module
        spec.loader.exec_module(module)
        self.kernel = module.custom_kernel
        return {"is": "loaded"}

    def lay(self, command: dict[str, Any]) -> dict[str, Any]:
        self.output = None
        self.tree = command["tree"]
        self.inputs = []
        for dtype, shape, strides in command["tensors"]:
            self.inputs.append(torch.empty_strided(shape, strides, dtype=getattr(torch, dtype)))
        return {"is": "laid", "at": [tensor.data_ptr() for tensor in self.inputs]}

    def go(self, command: dict[str, Any]) -> dict[str, Any]:
        data = self._build(self.tree, command["scalars"])
        # Kept until the next call: the referee reads it after this function has returned.
        self.output = self.kernel(data)
        return {"is": "done", "output": describe(self.output)}

    def _build(self, node: Any, scalars: list[Any]) -> Any:
        if isinstance(node, list):
            return [self._build(item, scalars) for item in node]
        if "tensor" in node:
            # A fresh view each time: a kernel may transpose or squeeze its argument in place.
            tensor = self.inputs[node["tensor"]]
            return tensor.as_strided(tensor.shape, tensor.stride())
        if "scalar" in node:
            return scalars[node["scalar"]]
        if "tuple" in node:
            return tuple(self._build(item, scalars) for item in node["tuple"])
        return {key: self._build(item, scalars) for key, item in node["dict"]}


def describe(value: Any) -> Any:
    """What a kernel returned, as JSON in the grammar of `protocol`."""
    kind = type(value)
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _describe_tensor(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, tuple):
        return {"tuple": [describe(item) for item in value]}
    if kind is list:
        return [describe(item) for item in value]
    if isinstance(value, dict):
        return {"dict": [[key, describe(item)] for key, item in value.items()]}
    return {"object": kind.__name__}


def _describe_tensor(tensor: torch.Tensor) -> Any:
    if tensor.layout is not torch.strided or tensor.device.type != "cpu" or tensor.dtype not in _DTYPE_NAMES:
        return {"object": f"a Tensor of {tensor.dtype}, {tensor.layout}, on {tensor.device.type}"}
    if tensor.is_neg() or (tensor.is_complex() and tensor.is_conj()):
        return {"object": "a lazily negated or conjugated Tensor; call resolve_neg() and resolve_conj(), it"}
    return {
        "dtype": _DTYPE_NAMES[tensor.dtype],
        "shape": tuple(tensor.shape),
        "strides": tensor.stride(),
        "at": tensor.data_ptr(),
    }


def _failure(error: Exception, entry: str) -> dict[str, Any]:
    """What the submission raised, told from its own first line on."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [number for number, frame in enumerate(frames) if frame.filename.startswith(entry)]
    line = frames[theirs[-1]].lineno if theirs else None
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(entry):
        line = error.lineno
    text, message = "", ""
    with contextlib.suppress(Exception):  # an exception's __str__ is the submission's code
        message = str(error)
        text = "".join(traceback.format_list(frames[theirs[0] if theirs else len(frames) :]))
    return {
        "is": "failed",
        "error": type(error).__name__[:200],
        "message": message[:MAX_TEXT],
        "traceback": text[-MAX_TEXT:],
        "line": line,
    }
