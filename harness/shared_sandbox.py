"""Let judgings share a sandbox: starting one takes seconds, because its warm parent imports torch.

    with share_sandbox():
        judge(…)        starts a sandbox, which stays open
        judge(…)        uses it if the board needs the same, and replaces it otherwise

Each judging has its own players and caches, like the sides of a duel.  After each, the sandbox's health is checked.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import TypedDict, Unpack

from harness.gpu.device import Device
from harness.sandbox.sandbox import Kind, Sandbox


class Needs(TypedDict):
    """What a judging needs of a sandbox: the arguments of `Sandbox`."""

    kind: Kind
    memory_gib: float
    gpu_memory_gib: float | None
    shown: Sequence[str]
    has_compiler: bool
    device: Device


class SharedSandbox:
    """A sandbox that stays open after a judging, for the next one.  `close` it at the end."""

    def __init__(self) -> None:
        self._exits = contextlib.ExitStack()
        self._sandbox: Sandbox | None = None
        self._needs: Needs | None = None
        self.is_lent = False

    @contextlib.contextmanager
    def lend(self, needs: Needs) -> Iterator[Sandbox]:
        """The sandbox, for one judging.  After an error, the next judging starts another."""
        try:
            sandbox = self._sandbox_for(needs)
            self.is_lent = True
            os.sched_setaffinity(0, sandbox.referee_core)
            yield sandbox
            if sandbox.is_spent:
                self.close()
            elif sandbox.warm_parent.is_warm:
                sandbox.require_health()
        except BaseException:
            self.close()
            raise
        finally:
            self.is_lent = False
        os.sched_setaffinity(0, sandbox.cores)

    def _sandbox_for(self, needs: Needs) -> Sandbox:
        cores = os.sched_getaffinity(0)
        if self._sandbox and (self._needs != needs or set(self._sandbox.cores) != cores):
            self.close()
            os.sched_setaffinity(0, cores)
        if not self._sandbox:
            self._sandbox, self._needs = self._exits.enter_context(Sandbox(**needs)), needs
        return self._sandbox

    def close(self) -> None:
        """End the sandbox, if one is open."""
        if self._sandbox:
            os.sched_setaffinity(0, self._sandbox.referee_core)  # as at the start: its health is checked once more
        self._sandbox = None
        self._exits.__exit__(*sys.exc_info())


_shared: ContextVar[SharedSandbox | None] = ContextVar("shared", default=None)


@contextlib.contextmanager
def share_sandbox(shared: SharedSandbox | None = None) -> Iterator[None]:
    """Within this block, the judgings of this thread share a sandbox.

    Args:
        shared: use this one, and leave it open.  Default: a new one, which ends with the block.
    """
    with contextlib.ExitStack() as exits:
        if not shared:
            shared = SharedSandbox()
            exits.callback(shared.close)
        exits.callback(_shared.reset, _shared.set(shared))
        yield


def open_sandbox(**needs: Unpack[Needs]) -> contextlib.AbstractContextManager[Sandbox]:
    """The shared sandbox for one judging; a new one outside of `share_sandbox`, or while another judging uses it."""
    shared = _shared.get()
    return shared.lend(needs) if shared and not shared.is_lent else Sandbox(**needs)
