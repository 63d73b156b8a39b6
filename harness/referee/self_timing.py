"""Whether a player's own clock can be believed, by what the referee's clock says of the same call.  Pure.

    fill ──────┬── window ──┬── fetch ─────        each step from resume to confirmed stop, by the referee's clock
    inputs in  │  ░inside░  │   outputs out        inside: what the player says that the call took
   ▲           ▲            ▲                      sweeps: short work of the referee's own there, the player stopped

An honest player's steps cost what an idle player's cost, with the same inputs: the window beside the call itself, the
fill in all, the fetch in proportion to what is returned, and a sweep as it is, for between steps nothing runs on the
device.  What goes grossly beyond is work where no time is taken, and is refused.  What remains possible is
`hidden_us`: all that lies between the first look at the inputs and the last stop, but for what the player calls its
time.  That is the bound of such a time.  It is loose, and the claim says so.

Before a call the player's clock keeps the device busy for a moment (`inside.Delay`), which is in the window of all who
play.  Who leaves that out gains as much room as it takes, so it widens no limit: it is taken off what an idle player's
window takes, and off nobody else's.

What waits on the device without running, and what ends before a sweep begins, no sweep sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.records.stats import median

_FACTOR = 3.0
_SLACK_US = 1000.0
"""A step may take three times an idle player's slowest, and a millisecond: nobody is blamed for a machine's stalls."""
_SHARE = 0.25
"""Of its own time a call may take as much again in the window: a kernel's launches, and what it frees."""
_SWEEP_SLACK_US = 200.0
"""For a sweep a whole millisecond would hide what it looks for: the turns that a GPU gives to one after another."""
_RESOLUTION_US = 1.0
"""Two clocks that agree may differ by as much."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """One call by the referee's clock, in microseconds, and how many bytes it returned.

    `span_us` is from the moment that the player could see its inputs to the last stop, pauses included: what was
    launched on a device goes on in them.  `sweep_us` is of the slowest sweep: before the inputs, before the window and
    after it.  `inside_us` and `delay_us`, of the delay before the call, are the player's word.
    """

    inside_us: float
    delay_us: float
    fill_us: float
    window_us: float
    fetch_us: float
    span_us: float
    fetched_bytes: int
    sweep_us: float


def find_lie(calls: Sequence[Outside], idle: Sequence[Outside]) -> str:
    """What a run's own times contradict, with numbers; "" if they may be true.

    Args:
        calls: the samples of one run.
        idle: those of a player that does nothing, with inputs of the same shapes.
    """
    for call in calls:
        if call.inside_us > call.window_us + _RESOLUTION_US:
            return (
                f"Its own clock says {call.inside_us:.1f} µs of a call that took {call.window_us:.1f} µs in all: "
                "the clock in the process was changed."
            )
    beside, inside = _lower_median(calls, lambda call: call.window_us - call.inside_us), median_inside_us(calls)
    idle_beside = max(call.window_us - call.inside_us - call.delay_us for call in idle)
    if beside > _FACTOR * idle_beside + _SLACK_US + _SHARE * inside:
        return (
            f"Its own clock says {inside:.1f} µs. By the referee's clock its calls took {beside:.1f} µs beside that; "
            f"an idle process takes {idle_beside:.1f} µs at most."
        )
    swept, usually = _lower_median(calls, lambda call: call.sweep_us), max(call.sweep_us for call in idle)
    if swept > _FACTOR * usually + _SWEEP_SLACK_US:
        return (
            f"The device was at work while the process was stopped: the referee's own work there took {swept:.1f} µs; "
            f"beside an idle process, {usually:.1f} µs at most."
        )
    return _find_work_elsewhere(calls, idle)


def _find_work_elsewhere(calls: Sequence[Outside], idle: Sequence[Outside]) -> str:
    returned, usually = (max(call.fetched_bytes for call in played) for played in (calls, idle))
    more = max(1.0, returned / max(1, usually))
    for what, step, scale in (
        ("receive its inputs", lambda call: call.fill_us, 1.0),
        ("hand over its outputs", lambda call: call.fetch_us, more),
    ):
        took, usual = _lower_median(calls, step), max(map(step, idle)) * scale
        if took > _FACTOR * usual + _SLACK_US:
            return f"It took {took:.1f} µs to {what}, outside of its own time; an idle process, {usual:.1f} µs at most."
    return ""


def hidden_us(calls: Sequence[Outside]) -> float:
    """The most by which these calls' own times could understate the truth, in microseconds."""
    return max(median([call.span_us for call in calls]) - median_inside_us(calls), _RESOLUTION_US)


def median_inside_us(calls: Sequence[Outside]) -> float:
    return median([call.inside_us for call in calls])


def _lower_median(calls: Sequence[Outside], value: Callable[[Outside], float]) -> float:
    """Who would move the median must be beyond it in half of the calls; who has bad luck in some is not."""
    return sorted(map(value, calls))[(len(calls) - 1) // 2]
