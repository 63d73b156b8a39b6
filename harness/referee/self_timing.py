"""Check a player's own clock against the referee's clock for the same call.  Pure functions.

    fill ──────┬── window ──┬── fetch ─────        referee's clock: each step from resume to confirmed stop
    inputs in  │  ░inside░  │   outputs out        inside: the call's time as the player reports it
   ▲           ▲            ▲                      sweeps: short device work by the referee while the player is stopped

For the same inputs, the steps of an honest player take as long as those of an idle player: the window apart from the
call itself, the whole fill, the fetch in proportion to the output's size, and each sweep, because nothing runs on the
device between steps.  Much longer steps mean that work was done outside the measured time, and are refused.  The most
that can still be hidden is `hidden_us`: the time from the first access to the inputs to the last stop, less the time
that the player reports.  That is the bound of such a time.  It is loose, and the claim says so.

Before each call the player's clock keeps the device busy for a moment (`inside.Delay`), which lengthens the window of
every player.  A cheater could skip the delay to gain that much room.  So that the delay widens no limit, it is
subtracted from the idle player's window, and from no other.

Sweeps do not detect work that is queued on the device without running, or that ends before a sweep begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.records.stats import median

_FACTOR = 3.0
_SLACK_US = 1000.0
"""A step may take three times an idle player's slowest plus a millisecond: stalls of the machine are no foul."""
_SHARE = 0.25
"""A call may take this share of its own time in addition inside the window: for launches and freeing memory."""
_SWEEP_SLACK_US = 200.0
"""For sweeps, a slack of a millisecond would hide what they look for: the time slices of a shared GPU."""
_RESOLUTION_US = 1.0
"""Maximum difference of two clocks that agree."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """One call by the referee's clock, in microseconds, and the size of its output in bytes.

    `span_us` runs from the moment the player could see its inputs to the last stop.  It includes pauses, because work
    launched on a device continues in them.  `sweep_us` is the slowest of three sweeps: before the inputs, before the
    window and after it.  `inside_us` and `delay_us` (the delay before the call) are reported by the player.
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
    """Why a run's own times cannot be true, with numbers; "" if they can.

    Args:
        calls: the samples of one run.
        idle: the samples of an idle player, with inputs of the same shapes.
    """
    for call in calls:
        if call.inside_us > call.window_us + _RESOLUTION_US:
            return (
                f"The process reported {call.inside_us:.1f} µs for a call that took {call.window_us:.1f} µs in all: "
                "the clock in the process was changed."
            )
    beside, inside = _lower_median(calls, lambda call: call.window_us - call.inside_us), median_inside_us(calls)
    idle_beside = max(call.window_us - call.inside_us - call.delay_us for call in idle)
    if beside > _FACTOR * idle_beside + _SLACK_US + _SHARE * inside:
        return (
            f"The process reported {inside:.1f} µs per call. The referee measured {beside:.1f} µs more than that; "
            f"for an idle process, at most {idle_beside:.1f} µs."
        )
    swept, usually = _lower_median(calls, lambda call: call.sweep_us), max(call.sweep_us for call in idle)
    if swept > _FACTOR * usually + _SWEEP_SLACK_US:
        return (
            f"The device was busy while the process was stopped: the referee's own work on it took {swept:.1f} µs; "
            f"with an idle process, at most {usually:.1f} µs."
        )
    return _find_work_elsewhere(calls, idle)


def _find_work_elsewhere(calls: Sequence[Outside], idle: Sequence[Outside]) -> str:
    returned, usually = (max(call.fetched_bytes for call in played) for played in (calls, idle))
    more = max(1.0, returned / max(1, usually))
    for what, step, scale in (
        ("receive its inputs", lambda call: call.fill_us, 1.0),
        ("return its outputs", lambda call: call.fetch_us, more),
    ):
        took, usual = _lower_median(calls, step), max(map(step, idle)) * scale
        if took > _FACTOR * usual + _SLACK_US:
            return (
                f"The process took {took:.1f} µs to {what}, outside its own time; "
                f"an idle process takes at most {usual:.1f} µs."
            )
    return ""


def hidden_us(calls: Sequence[Outside]) -> float:
    """Upper bound of how much these calls' own times can understate the truth, in microseconds."""
    return max(median([call.span_us for call in calls]) - median_inside_us(calls), _RESOLUTION_US)


def median_inside_us(calls: Sequence[Outside]) -> float:
    return median([call.inside_us for call in calls])


def _lower_median(calls: Sequence[Outside], value: Callable[[Outside], float]) -> float:
    """The lower median: only misbehaviour in more than half of the calls can raise it, not bad luck in some."""
    return sorted(map(value, calls))[(len(calls) - 1) // 2]
