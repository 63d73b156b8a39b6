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

Each call is decided by itself.  Whatever a step takes beyond its limit is added to the call's time (`charged_us`), so a
lie in some of the calls gains nothing, and a stall of the machine costs an honest player one sample.  If more than half
of the calls exceed a limit, it was no stall (`find_lie`), unless other work on the player's cores may have taken that
share of the step.

Sweeps do not detect work that is queued on the device without running, or that ends before a sweep begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from harness.records.stats import median

_FACTOR = 3.0
_SLACK_US = 1000.0
"""A step may take three times as long as an idle player's, plus a millisecond: stalls of the machine are no foul.

A call is charged by the upper quartile of the idle player's samples, so that one stall gives a liar no room.  A player
is blamed by the slowest of them, so that a busy machine is not taken for a lie."""
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


@dataclass(frozen=True, kw_only=True)
class _CallStep:
    """One step outside a call's own time: how long it took, how long it may take, and the message if it took longer.

    `within` is the length of the window that contains the step.
    """

    took: Callable[[Outside], float]
    within: Callable[[Outside], float]
    limit: Callable[[Outside], float]
    message: str

    def excess_us(self, call: Outside, other_work: float = 0.0) -> float:
        """Microseconds above the limit, without those that other work may have taken: this share of the window."""
        return max(0.0, self.took(call) - other_work * self.within(call) - self.limit(call))


def _steps(idle: Sequence[Outside], of_idle: Callable[[Iterable[float]], float]) -> tuple[_CallStep, ...]:
    """The steps with the limits that an idle player's samples give, for inputs of the same shapes.

    Args:
        of_idle: chooses how long a step of the idle player takes, of all its samples.
    """
    beside_us = of_idle(_beside_us(call) - call.delay_us for call in idle)
    sweep_us = of_idle(call.sweep_us for call in idle)
    fill_us = of_idle(call.fill_us for call in idle)
    fetch_us = of_idle(call.fetch_us for call in idle)
    fetched_bytes = max(1, *(call.fetched_bytes for call in idle))
    return (
        _CallStep(
            took=_beside_us,
            within=lambda call: call.window_us,
            limit=lambda call: _FACTOR * beside_us + _SLACK_US + _SHARE * call.inside_us,
            message="The process reported {inside:.1f} µs per call. The referee measured {took:.1f} µs more than that; "
            f"for an idle process, at most {beside_us:.1f} µs.",
        ),
        _CallStep(
            took=lambda call: call.sweep_us,
            within=lambda call: call.sweep_us,
            limit=lambda _: _FACTOR * sweep_us + _SWEEP_SLACK_US,
            message="The device was busy while the process was stopped: the referee's own work on it took {took:.1f} "
            f"µs; with an idle process, at most {sweep_us:.1f} µs.",
        ),
        _CallStep(
            took=lambda call: call.fill_us,
            within=lambda call: call.fill_us,
            limit=lambda _: _FACTOR * fill_us + _SLACK_US,
            message="The process took {took:.1f} µs to receive its inputs, outside its own time; "
            f"an idle process takes at most {fill_us:.1f} µs.",
        ),
        _CallStep(
            took=lambda call: call.fetch_us,
            within=lambda call: call.fetch_us,
            limit=lambda call: _FACTOR * fetch_us * max(1.0, call.fetched_bytes / fetched_bytes) + _SLACK_US,
            message="The process took {took:.1f} µs to return its outputs, outside its own time; "
            f"an idle process takes at most {fetch_us:.1f} µs.",
        ),
    )


def _upper_quartile(values: Iterable[float]) -> float:
    """The value that three of four do not exceed."""
    ascending = sorted(values)
    return ascending[(3 * len(ascending) - 1) // 4]


def _beside_us(call: Outside) -> float:
    return call.window_us - call.inside_us


def charged_us(calls: Sequence[Outside], idle: Sequence[Outside]) -> tuple[float, ...]:
    """The time of each call: what the player reports, plus whatever its other steps took beyond their limits.

    Args:
        idle: the samples of an idle player, with inputs of the same shapes.
    """
    steps = _steps(idle, _upper_quartile)
    return tuple(call.inside_us + sum(step.excess_us(call) for step in steps) for call in calls)


def find_lie(calls: Sequence[Outside], idle: Sequence[Outside], other_work: float = 0.0) -> str:
    """Why a run's own times cannot be true, with numbers; "" if they can.

    Args:
        calls: the samples of one run.
        idle: the samples of an idle player, with inputs of the same shapes.
        other_work: the share of a core that other work took during the run.
    """
    for call in calls:
        if call.inside_us > call.window_us + _RESOLUTION_US:
            return (
                f"The process reported {call.inside_us:.1f} µs for a call that took {call.window_us:.1f} µs in all: "
                "the clock in the process was changed."
            )
    for step in _steps(idle, max):
        if 2 * sum(step.excess_us(call, other_work) > 0 for call in calls) > len(calls):
            took, inside = median(map(step.took, calls)), median([call.inside_us for call in calls])
            return step.message.format(took=took, inside=inside)
    return ""


def hidden_us(calls: Sequence[Outside]) -> float:
    """Upper bound of how much these calls' own times can understate the truth, in microseconds.

    It is the upper median of the hidden times of single calls, so lies in half of the calls count in full.
    """
    hidden = sorted(call.span_us - call.inside_us for call in calls)
    return max(hidden[len(hidden) // 2], _RESOLUTION_US)
