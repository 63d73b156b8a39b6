"""A GPU's memory, as its driver reports it: the growth since the player started belongs to the player.

No other judging uses the GPU, and what the referee allocated meanwhile is subtracted.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from harness.gpu.gpu_memory import CardMemory, ReadCard
from harness.inside.cuda_driver import Driver
from harness.processes.freezer import Freezer
from harness.processes.watched_memory import MeasuredMemory
from harness.records.errors import JudgeError
from harness.records.verdict import Foul, Verdict

_REFEREES_SHARE = 1 / 4
"""The share of a GPU's memory that a player must leave free: the referee has inputs and outputs there several times."""


class CardWatch(MeasuredMemory):
    """The memory of one card.

    `meanwhile` watches the machine's memory while the player is being stopped.
    """

    def __init__(
        self, card: ReadCard, freezer: Freezer, limit_bytes: int | None, meanwhile: Callable[[], None]
    ) -> None:
        self._card = card
        self._meanwhile = meanwhile
        self._before = self._ask()
        self._ours_before = _held_on_gpu()
        spare = max(0, self._before.free - int(_REFEREES_SHARE * self._before.total))
        super().__init__(freezer, spare if limit_bytes is None else min(limit_bytes, spare))

    def look(self) -> None:
        used = self._used()
        if used > self._limit_bytes and not self._freezer.is_stopped:
            # Its end must prove how much it holds, so it may free nothing until then.
            with contextlib.suppress(Foul):  # if it does not stop, it is ended for what was read
                self._freezer.stop(self._meanwhile)
                used = self._used()
                if used <= self._limit_bytes:
                    self._freezer.resume()
        if used > self._limit_bytes:
            self._is_suspected = True
            message = f"Used {used / 2**30:.1f} GiB of the GPU's memory; {self._allowed}."
            raise Foul(Verdict.MEMORY_LIMIT_EXCEEDED, message)

    def _used(self) -> int:
        return self._ask().used - self._before.used - (_held_on_gpu() - self._ours_before)

    @property
    def _allowed(self) -> str:
        return f"the limit is {self._limit_bytes / 2**30:.3g} GiB"

    def _left(self) -> int:
        return self._ask().free

    def _disproof(self) -> JudgeError:
        return JudgeError(
            "the GPU's memory was full, but not because of the player that was killed: check what else runs on the GPU"
        )

    def _ask(self) -> CardMemory:
        try:
            return self._card()
        except OSError as error:
            raise JudgeError(f"the GPU's driver no longer reports memory use: {error}") from None


def _held_on_gpu() -> int:
    """The GPU memory of the referee's torch and driver, in bytes; its context existed before the first player."""
    torch: Any = sys.modules.get("torch")
    reserved = torch.cuda.memory_reserved() if torch and torch.cuda.is_initialized() else 0
    return int(reserved) + Driver.held_bytes
