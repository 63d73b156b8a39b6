"""Inputs and outputs by way of host memory; the player copies them to and from its device, and times the call there.

    fill · go · fetch      three windows; the referee sweeps the device's caches before, between and after them

The time is the player's own.  The referee measures how long each step takes, and whether the device is idle between
them (`harness.referee.self_timing`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from harness.gpu.device import RefereeDevice
from harness.inside.protocol import Done, Filled, Timed, tensors_of
from harness.referee.host_memory import HostMemory
from harness.referee.orders import Deadline, Orders, expect
from harness.referee.self_timing import Outside
from harness.reference.values import Flattened


class Staged(HostMemory):
    def __init__(self, orders: Orders, device: RefereeDevice) -> None:
        super().__init__(orders)
        self.outside: list[Outside] = []
        """The referee's measurements of each call."""
        self._sweep_us = device.sweep_us

    def play(
        self,
        inputs: Sequence[Flattened],
        deadline: Deadline,
        *,
        is_idle: bool = False,  # noqa: ARG002
    ) -> tuple[float, list[Any]]:
        """Play one call.

        A kernel left running on the device may see the inputs as soon as they are written, so the time is bounded by
        the span from then to the last stop.
        """
        (flat,) = inputs
        sweeps_us = [self._sweep_us()]
        revealed = time.perf_counter_ns()
        super().reveal(flat, deadline)
        fill_us, answer = self.orders.open_window({"do": "fill"}, deadline)
        expect(answer, Filled)
        sweeps_us.append(self._sweep_us())
        window_us, answer = self.orders.open_window({"do": "go", "scalars": [flat.scalars]}, deadline)
        timed = expect(answer, Timed)
        sweeps_us.append(self._sweep_us())
        fetch_us, answer = self.orders.open_window({"do": "fetch"}, deadline)
        span_us = (time.perf_counter_ns() - revealed) / 1e3
        done = expect(answer, Done)
        call = Outside(
            inside_us=timed.inside_us,
            delay_us=timed.delay_us,
            fill_us=fill_us,
            window_us=window_us,
            fetch_us=fetch_us,
            span_us=span_us,
            fetched_bytes=sum(spec.span_bytes for spec in tensors_of(done.output)),
            sweep_us=max(sweeps_us),
        )
        self.outside.append(call)
        # The output is in host copies made by the player, so there is nothing to poison.
        return timed.inside_us, [self.collect(done)]

    def reveal(self, flat: Flattened, deadline: Deadline) -> None:
        super().reveal(flat, deadline)
        expect(self.orders.open_window({"do": "fill"}, deadline)[1], Filled)

    def prepare_device(self) -> None:
        self.orders.open_device({})
