"""Let judgings share a sandbox: starting one takes seconds, because its warm parent imports torch.

    with share_sandbox():
        judge(…)        starts a sandbox, which stays open
        judge(…)        uses it if the board needs the same, and replaces it otherwise

Each judging has its own players and caches, like the sides of a duel.  After each, the sandbox's health is checked.
Without bubblewrap, players share a folder for their caches, and so each judging gets a sandbox of its own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TypedDict, Unpack

from harness.gpu.device import Device
from harness.sandbox.sandbox import Sandbox, SandboxKind


class Needs(TypedDict):
    """What a judging needs of a sandbox: the arguments of `Sandbox`."""

    kind: SandboxKind
    memory_gib: float
    gpu_memory_gib: float | None
    shown: Sequence[str]
    has_compiler: bool
    device: Device


class SharedSandbox:
    """A sandbox that stays open after a judging, for the next one.  After `close`, the next judging starts another."""

    def __init__(self) -> None:
        self._sandbox: Sandbox | None = None
        self._needs: Needs | None = None
        self.is_lent = False

    @contextlib.contextmanager
    def lend(self, needs: Needs) -> Iterator[Sandbox]:
        """The sandbox, for one judging.  After an error, the next judging starts another."""
        cores = os.sched_getaffinity(0)
        self.is_lent = True
        try:
            sandbox = self._sandbox_for(needs, cores)
            os.sched_setaffinity(0, sandbox.referee_core)
            sandbox.warm_parent.wake()
            yield sandbox
            sandbox.require_health_if_used()
            sandbox.warm_parent.rest()
            if sandbox.is_spent:
                self.close()
        except BaseException:
            self.close()
            raise
        finally:
            self.is_lent = False
            os.sched_setaffinity(0, cores)

    def _sandbox_for(self, needs: Needs, cores: set[int]) -> Sandbox:
        if self._sandbox and (self._needs != needs or set(self._sandbox.cores) != cores):
            self.close()
        if not self._sandbox:
            self._sandbox, self._needs = Sandbox(**needs).__enter__(), needs
        return self._sandbox

    def close(self) -> None:
        """End the sandbox, if one is open.  It was checked after each judging."""
        cores = os.sched_getaffinity(0)
        sandbox, self._sandbox = self._sandbox, None
        if sandbox:
            sandbox.end()
        os.sched_setaffinity(0, cores)


_shared: ContextVar[SharedSandbox | None] = ContextVar("shared", default=None)


@contextlib.contextmanager
def share_sandbox() -> Iterator[SharedSandbox]:
    """Within this block, the judgings of this thread share a sandbox.  It ends with the outermost such block."""
    if outer := _shared.get():
        yield outer
        return
    shared = SharedSandbox()
    token = _shared.set(shared)
    try:
        yield shared
    finally:
        _shared.reset(token)
        shared.close()


def open_sandbox(**needs: Unpack[Needs]) -> contextlib.AbstractContextManager[Sandbox]:
    """The shared sandbox for one judging; a new one outside of `share_sandbox`, or while another judging uses it."""
    shared = _shared.get()
    if shared and not shared.is_lent and needs["kind"] != "none":
        return shared.lend(needs)
    return Sandbox(**needs)
