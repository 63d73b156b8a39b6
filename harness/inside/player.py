"""The untrusted side: the only file that imports a submission.

It runs in the sandbox, in a process forked from the warm parent, and obeys orders until it is killed: compile, or
open, load, allocate, go (see `protocol`).  The referee trusts nothing here: a submission may patch all of it.  It is
short because every window includes its overhead, and that overhead is time that a cheat can gain.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib.util
import io
import json
import os
import re
import socket
import sys
import traceback
from types import ModuleType
from typing import Any

import torch

from harness.inside.gpu_staging import Staging
from harness.inside.library import compile_library, load_kernel
from harness.inside.outputs import describe
from harness.inside.protocol import MAX_MESSAGE, MAX_TEXT, QUEUED, write
from harness.inside.shared_memory import SharedMemory

_GO: dict[str, Any] = {"do": "go", "scalars": [[]]}
_GO_PACKET = write(_GO)


def main(control: socket.socket, entry: str, library: str, threads: int, device: str = "", driver: str = "") -> None:
    """Serve the referee until it kills us.

    Args:
        entry: the folder that holds the submission.
        library: the path of the compiled library, if the submission is compiled.
        device: torch's name for the device that the submission runs on, or "" if that is the CPU itself.
        driver: the library of the device's driver, if the referee shares its memory; otherwise inputs are copied to it.
    """
    torch.set_num_threads(threads)
    faulthandler.enable(all_threads=False)
    for stream in (sys.stdout, sys.stderr):
        assert isinstance(stream, io.TextIOWrapper)
        stream.reconfigure(line_buffering=True)  # the last output before a crash matters most
    player = _Player(control, entry, library, device, driver)
    while packet := control.recv(MAX_MESSAGE) if not driver else player.receive():
        player.obey(packet)


class _Player:
    def __init__(self, control: socket.socket, entry: str, library: str, device: str, driver: str) -> None:
        self.control = control
        self.entry = entry
        self.library = library
        self.device = device
        self.driver = driver
        self.descriptors: list[int] = []
        self.staging: Staging | None = None
        self.shared: SharedMemory | None = None
        self.pid = os.getpid()
        self.kernel: Any = None
        self.tree: Any = None
        self.inputs: list[list[torch.Tensor]] = []
        """Those of each call in a window."""
        self.views: list[list[torch.Tensor]] = []
        self.output: Any = None
        self.methods = {name: name for name in ("compile", "load", "allocate", "go", "profile", "count", "fetch")}
        """The method that obeys each order."""
        if driver:
            self.methods |= {name: f"{name}_shared" for name in ("open", "allocate", "go", "fetch")}
        elif device:
            self.methods |= {"open": "open", "fill": "fill", "go": "go_timed"}

    def receive(self) -> bytes:
        """The next order, which may come with descriptors."""
        packet, self.descriptors, _, _ = socket.recv_fds(self.control, MAX_MESSAGE, 2)
        return packet

    def obey(self, packet: bytes) -> None:
        command = _GO if packet == _GO_PACKET else json.loads(packet)
        answer = getattr(self, self.methods[command["do"]])
        status = 1
        try:
            packet = answer(command)
        except SystemExit as error:
            status = 0 if error.code is None else error.code & 0xFF if isinstance(error.code, int) else 1
            left = RuntimeError(f"called sys.exit({_shown(error.code)})").with_traceback(error.__traceback__)
            packet = write(_failure(left, self.entry))
        except BaseException as error:
            packet = write(_failure(error, self.entry))
        if len(packet) > MAX_MESSAGE:
            packet = write({"is": "done", "output": {"object": "a structure too large to describe"}})
        if os.getpid() != self.pid:
            os._exit(status)  # a fork by the submission that returned into our code: the referee expects one answer
        self.control.send(packet)
        # The referee is stopping us meanwhile.  Make fresh views each time: a kernel may transpose its input in place.
        self.views = [[tensor.detach() for tensor in inputs] for inputs in self.inputs]

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
        sys.argv = ["submission.py"]
        os.chdir(self.entry)
        if os.path.exists(os.path.join(self.entry, "submission.py")):
            self.kernel = self._import("submission").custom_kernel
        else:
            self.kernel = load_kernel(self._import("adapter"), self.library)
        if not callable(self.kernel):
            raise TypeError(f"custom_kernel is not a function, but of type {type(self.kernel).__name__}")
        return write({"is": "loaded"})

    def _import(self, name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, os.path.join(self.entry, f"{name}.py"))
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module

    def allocate(self, command: dict[str, Any]) -> bytes:
        self.output = None
        self.tree = command["tree"]
        inputs = [
            torch.empty_strided(shape, strides, dtype=getattr(torch, dtype), device="cpu")  # whatever the default is
            for dtype, shape, strides in command["tensors"]
        ]
        at = [tensor.data_ptr() for tensor in inputs]
        self.inputs = [self.staging.allocate(inputs) if self.staging else inputs]
        return write({"is": "allocated", "at": at})

    def open_shared(self, command: dict[str, Any]) -> bytes:
        self.shared = SharedMemory(self.device, self.driver)
        self.shared.echo(command, self.descriptors)
        return write({"is": "opened"})

    def allocate_shared(self, command: dict[str, Any]) -> bytes:
        assert self.shared
        self.output = None
        self.tree = command["tree"]
        self.views = []
        self.inputs = self.shared.allocate(command, self.descriptors)
        return write({"is": "allocated", "at": []})

    def go_shared(self, command: dict[str, Any]) -> bytes:
        assert self.shared
        gate = command["gate"]
        if gate and not self.shared.can_queue:
            self.control.send(QUEUED)
        if gate:
            self.shared.wait_for_gate(gate)
        outputs = []
        for call, scalars in enumerate(command["scalars"]):
            # Copy each output before the next call: the submission may return the same tensor every time.
            output = self.kernel(self._build(self.tree, scalars, self.views[call]))
            outputs.append(self.shared.put(output, call))
        if gate and self.shared.can_queue:
            self.control.send(QUEUED)
        self.shared.synchronize()
        return b'{"is":"done","output":[%s]}' % ",".join(outputs).encode()

    def fetch_shared(self, _: dict[str, Any]) -> bytes:
        assert self.shared
        output = self.shared.put(self.output, 0)
        self.shared.synchronize()
        return b'{"is":"done","output":[%s]}' % output.encode()

    def fill(self, _: dict[str, Any]) -> bytes:
        assert self.staging
        self.staging.fill()
        return write({"is": "filled"})

    def go_timed(self, command: dict[str, Any]) -> bytes:
        assert self.staging
        data = self._build(self.tree, command["scalars"][0], self.views[0])
        self.output, inside_us = self.staging.time(self.kernel, data)
        return b'{"is":"timed","inside_us":%r,"delay_us":%r}' % (inside_us, self.staging.delay_us)

    def profile(self, command: dict[str, Any]) -> bytes:
        from harness.inside.profiled_call import profile_call  # only profiled calls pay for the import

        data = self._build(self.tree, command["scalars"][0], self.views[0])
        self.output, profile = profile_call(self.kernel, data, self.device)
        return write({"is": "profiled", **profile})

    def count(self, command: dict[str, Any]) -> bytes:
        from harness.inside.profiled_call import counted_call

        data = self._build(self.tree, command["scalars"][0], self.views[0])
        self.output = counted_call(self.kernel, data, self.device)
        return write({"is": "counted"})

    def fetch(self, _: dict[str, Any]) -> bytes:
        if self.staging:
            self.output = self.staging.fetch(self.output)
        return b'{"is":"done","output":%s}' % describe(self.output).encode()

    def go(self, command: dict[str, Any]) -> bytes:
        # Keep the output until the next call: the referee reads it after this function returns.
        self.output = self.kernel(self._build(self.tree, command["scalars"][0], self.views[0]))
        return b'{"is":"done","output":%s}' % describe(self.output).encode()

    def _build(self, node: Any, scalars: list[Any], views: list[torch.Tensor]) -> Any:
        if isinstance(node, list):
            return [self._build(item, scalars, views) for item in node]
        if "tensor" in node:
            return views[node["tensor"]]
        if "tuple" in node:
            return tuple([self._build(item, scalars, views) for item in node["tuple"]])
        if "scalar" in node:
            return scalars[node["scalar"]]
        return {key: self._build(item, scalars, views) for key, item in node["dict"]}


def _shown(value: object) -> str:
    with contextlib.suppress(BaseException):  # its __repr__ may be the submission's code
        return repr(value)
    return "…"


def _failure(error: BaseException, entry: str) -> dict[str, Any]:
    """Describe what the submission raised; the traceback starts at the submission's own first frame."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [number for number, frame in enumerate(frames) if frame.filename.startswith(entry)]
    own = [number for number in theirs if frames[number].filename.endswith("/submission.py")]
    line = frames[own[-1]].lineno if own else None
    if isinstance(error, SyntaxError) and str(error.filename).startswith(entry):
        # A submission that raises it by hand may put anything there.
        line = error.lineno if type(error.lineno) is int and 0 < error.lineno < 2**31 else None
    text, message = "", ""
    with contextlib.suppress(BaseException):  # an exception's __str__ is the submission's code
        message = str(error)
        text = "".join(traceback.format_list(frames[theirs[0] if theirs else len(frames) :]))
        if line is None and (named := re.findall(rf'File "{re.escape(entry)}/submission\.py", line ([0-9]+)', message)):
            line = int(named[-1][:9])  # torch.compile names it in its message only
    with contextlib.suppress(BaseException):  # its `__cause__` may be the submission's code, too
        text += _causes_of(error)
    message, text = _both_ends(message, MAX_TEXT), text[-MAX_TEXT:]
    if len(json.dumps(message + text)) > MAX_MESSAGE // 2:  # JSON spells one character with up to twelve bytes
        message, text = _both_ends(message, MAX_TEXT // 4), text[-MAX_TEXT // 4 :]
    return {"is": "failed", "error": type(error).__name__[:200], "message": message, "traceback": text, "line": line}


def _causes_of(error: BaseException) -> str:
    """The exceptions that led to an exception, as Python prints them below its traceback; at most three."""
    lines = []
    for _ in range(3):
        word = "Caused by" if error.__cause__ else "Raised while handling"
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None:
            break
        error = cause
        with contextlib.suppress(Exception):
            lines.append(f"\n{word} {type(error).__name__}: {error}\n")
    return "".join(lines)


def _both_ends(text: str, most: int) -> str:
    """At most so many characters: the end of a compiler's output has the errors, the beginning says of what."""
    first = most // 4
    return text if len(text) <= most else f"{text[:first]}\n[…]\n{text[first + 5 - most :]}"
