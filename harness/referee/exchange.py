"""How inputs reach a player, and outputs the referee: one module for each way.

host_memory   CPUs: the referee reads and writes the memory of the stopped player
sealed        NVIDIA GPUs: the referee shares memory of the GPU, and reveals inputs for one window only
staged        other GPUs: like `host_memory`; the player copies inputs to its GPU, and times the call itself
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from harness.referee.orders import Deadline
from harness.reference.reference import Returned
from harness.reference.values import Flattened


class Exchange(Protocol):
    """Passes inputs and outputs of calls between the referee and one player.  Methods raise Foul or JudgeError."""

    reuses_output: bool
    """Whether the last output is in memory of the one before it, which was overwritten in between."""

    def make_room(self, inputs: Sequence[Flattened], returned: Returned, deadline: Deadline, /) -> None:
        """Have the player make room for as many inputs of these shapes, unless it has it already."""

    def play(
        self, inputs: Sequence[Flattened], deadline: Deadline, /, *, is_idle: bool = False
    ) -> tuple[float, list[Any]]:
        """Play all these calls in one window; return the time of each, in microseconds, and their outputs.

        With `is_idle`, the player computes nothing: the time is the overhead of each call, and outputs may be missing.
        """

    def reveal(self, flat: Flattened, deadline: Deadline, /) -> None:
        """Hand over the inputs of a call that is not timed."""

    def fetch(self, flat: Flattened, deadline: Deadline, /) -> Any:
        """The output of a call that was not timed."""

    def prepare_device(self) -> None:
        """Have the player open its device, before it reads the submission.  Raises JudgeError."""

    def close(self) -> None:
        """Free what is shared; the player has ended."""
