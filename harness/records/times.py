"""Times in a judgement: every sample, and the numbers computed from them.

    Timing       submission and anchor, in pairs of runs      measured by the referee
    Duel         challenger and champion, in blocks           measured by the referee
    Forfeit      a duel that could not be played              the champion's file failed
    ToldTiming   what a task's own program reports            not verified

The models recompute derived numbers from the samples and compare them, both on creation and on reading.  A duel's ratio
also depends on the board: `scripts/bot/report/artifact.py` checks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from harness.records.fields import (
    Digest,
    Login,
    Microseconds,
    Model,
    Param,
    RecordName,
    Seed,
    ShortLine,
    Spread,
    Text,
    omitted,
)
from harness.records.stats import (
    MIN_PAIRS,
    Interval,
    duel_interval,
    is_won,
    median,
    ratio_interval,
    stalls,
    tapered_mean,
    trimmed_mean,
)
from harness.records.verdict import Verdict


class GpuState(Model):
    """State of a GPU right after a run, as reported by its driver; None if the driver does not report it."""

    clock_mhz: PositiveFloat | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    held_back: tuple[ShortLine, ...] = Field(
        default=(), description="reasons for reduced clocks, in the driver's terms"
    )
    hindrance: ShortLine = Field(default="", description="why the run cannot count for ranking; empty if it can")


GpuStates = Annotated[
    tuple[GpuState, ...],
    Field(default=(), exclude_if=omitted, description="one per run, in order of play; empty if not recorded"),
]


CallsPerSample = Annotated[
    int,
    Field(
        default=1,
        ge=1,
        le=1000,
        exclude_if=lambda calls: calls == 1,  # so that files written before this field existed round-trip unchanged
        description="calls in one window, of which a sample is the mean; they may overlap",
    ),
]


class Run(Model):
    """One fresh player on one benchmark: all its calls, in order."""

    order: int = Field(ge=0, description="position among all runs of this case, both sides counted")
    warmups_us: tuple[Microseconds, ...]
    samples_us: tuple[Microseconds, ...] = Field(min_length=1)
    seeds: tuple[Seed, ...] = Field(description="one per call, warm-ups first")

    estimator: Literal["median", "trimmed mean", "mean", "tapered mean"] = Field(
        default="median",
        exclude_if=lambda estimator: estimator == "median",  # so that files of method 1 round-trip unchanged
        description="how the run's time follows from its samples",
    )

    @property
    def time_us(self) -> float:
        """The run's time, computed once.  Not a `cached_property`: its lock costs as much as the sorting."""
        if (found := self.__dict__.get("_time_us")) is None:
            found = self.__dict__["_time_us"] = _ESTIMATES[self.estimator](self.samples_us)
        return float(found)

    def without_samples(self) -> Self:
        """A run of the same time, which is its only sample."""
        only, seed = (self.time_us,), self.seeds[-1:]
        return self.model_construct(_OF_EACH_RUN, order=self.order, warmups_us=(), samples_us=only, seeds=seed)

    @model_validator(mode="after")
    def _has_a_seed_per_call(self) -> Self:
        if len(self.seeds) != len(self.warmups_us) + len(self.samples_us):
            raise ValueError("a run needs one seed per call")
        if self.estimator == "mean" and not stalls(self.samples_us):
            raise ValueError("all samples of a run count only if one of them stalls")
        return self


_OF_EACH_RUN = {"order", "warmups_us", "samples_us", "seeds"}
"""The fields of a run without samples.  One set for all: pydantic's own would take more memory than the rest of it."""

_ESTIMATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "median": median,
    "trimmed mean": trimmed_mean,
    "mean": fmean,
    "tapered mean": tapered_mean,
}
"""By method: 1 median; 2 to 4 trimmed mean, or mean if a run stalled again and again; from 5 on tapered mean."""

TimedRuns = Annotated[tuple[Run, ...], Field(min_length=1, max_length=500)]
"""The runs of one side.  Bounded, because the cost of the interval is quadratic in their number."""


class Timing(Model):
    """A benchmark's times, submission against anchor.  `ratio` decides the rank; the medians are informational."""

    submission: TimedRuns
    anchor: TimedRuns
    submission_us: Microseconds
    anchor_us: Microseconds
    ratio: Interval
    overhead_us: PositiveFloat = Field(description="a call's share of an idle player's window; already subtracted")
    overheads_us: Annotated[
        tuple[PositiveFloat, ...],
        Field(
            default=(), exclude_if=omitted, description="one per pair, if measured so; their median is `overhead_us`"
        ),
    ]
    bound_us: PositiveFloat = Field(description="upper bound of how much a time can understate the truth")
    steady: bool
    note: ShortLine = Field(description="why it is not steady, and what to do about it")
    calls_per_sample: CallsPerSample = 1
    gpu: GpuStates = ()

    @classmethod
    def of(cls, submission: tuple[Run, ...], anchor: tuple[Run, ...], **rest: Any) -> Self:
        """A Timing with all derived numbers computed from the samples."""
        return cls(
            submission=submission,
            anchor=anchor,
            submission_us=median([run.time_us for run in submission]),
            anchor_us=median([run.time_us for run in anchor]),
            ratio=ratio_interval(pair_ratios(submission, anchor)),
            **rest,
        )

    def without_samples(self) -> Self:
        """The same times, bounds and notes."""
        submission, anchor = _without_samples(self.submission), _without_samples(self.anchor)
        return self.model_copy(update={"submission": submission, "anchor": anchor, "gpu": ()})

    @property
    def pair_ratios(self) -> tuple[float, ...]:
        return pair_ratios(self.submission, self.anchor)

    @model_validator(mode="after")
    def _follows_from_its_samples(self) -> Self:
        if len(self.submission) != len(self.anchor):
            raise ValueError("every run of the submission needs a matching run of the anchor")
        if self.overheads_us:
            if len(self.overheads_us) != len(self.submission):
                raise ValueError("the overhead must be recorded for every pair or none")
            if not math.isclose(self.overhead_us, median(self.overheads_us)):
                raise ValueError("the overhead is not the median of the pairs' overheads")
        _require_state_per_run(self.gpu, self.submission, self.anchor)
        _require_one_estimator(self.submission, self.anchor)
        if any(run.estimator == "mean" for run in self.anchor):
            raise ValueError("an anchor that stalls does not count")
        expected = (
            median([run.time_us for run in self.submission]),
            median([run.time_us for run in self.anchor]),
            *_numbers(ratio_interval(self.pair_ratios)),
        )
        if not all(map(math.isclose, (self.submission_us, self.anchor_us, *_numbers(self.ratio)), expected)):
            raise ValueError("medians and ratio do not match the samples")
        return self


class ToldRun(Model):
    """What one process of the task's own program reports about its calls.  Nothing verifies it."""

    order: int = Field(ge=0, description="position among all processes of this case")
    calls: PositiveInt
    mean_us: Microseconds
    std_us: Spread
    err_us: Spread = Field(description="standard error of the mean")
    best_us: Microseconds
    worst_us: Microseconds
    seed: Seed | None = Field(description="POPCORN_SEED of this process, if set")

    @model_validator(mode="after")
    def _lies_between_its_extremes(self) -> Self:
        # The mean was rounded when it was printed as text, so it may lie slightly outside the range.
        if not self.best_us * (1 - 1e-6) <= self.mean_us <= self.worst_us * (1 + 1e-6):
            raise ValueError("the mean must be between the best and the worst time")
        return self

    @property
    def range_us(self) -> Interval:
        """The mean ± 1.96 standard errors, but not below the best call."""
        low = max(self.mean_us - 1.96 * self.err_us, min(self.best_us, self.mean_us))
        return Interval(value=self.mean_us, low=low, high=self.mean_us + 1.96 * self.err_us)


class ToldTiming(Model):
    """A benchmark's time as measured by the task's own program: without an anchor and without a bound."""

    runs: Annotated[tuple[ToldRun, ...], Field(min_length=1, max_length=500)]
    time_us: Interval
    note: ShortLine = Field(default="", description="why too few processes ran for a 95 % interval")

    @classmethod
    def of(cls, runs: tuple[ToldRun, ...], note: str = "") -> Self:
        return cls(runs=runs, time_us=told_time(runs), note=note)

    @model_validator(mode="after")
    def _follows_from_its_runs(self) -> Self:
        if not all(map(math.isclose, _numbers(self.time_us), _numbers(told_time(self.runs)))):
            raise ValueError("the time does not match the reported runs")
        return self


class DuelCase(Model):
    """One benchmark of a duel: block b has runs 2b and 2b+1 of each side, played A-B-B-A."""

    params: dict[RecordName, Param]
    challenger: TimedRuns
    champion: TimedRuns
    calls_per_sample: CallsPerSample = 1
    gpu: GpuStates = ()

    @property
    def blocks(self) -> int:
        return len(self.challenger) // 2

    @property
    def block_times_us(self) -> list[tuple[float, float]]:
        """Challenger's and champion's time per block: the geometric mean of two runs each."""
        return list(zip(_means_of_two(self.challenger), _means_of_two(self.champion), strict=True))

    def without_samples(self) -> Self:
        challenger, champion = _without_samples(self.challenger), _without_samples(self.champion)
        return self.model_copy(update={"challenger": challenger, "champion": champion, "gpu": ()})

    @property
    def ratio(self) -> Interval:
        """Challenger / champion over the blocks of this benchmark."""
        return duel_interval([ours / theirs for ours, theirs in self.block_times_us])

    @model_validator(mode="after")
    def _is_made_of_whole_blocks(self) -> Self:
        if len(self.challenger) != len(self.champion) or len(self.challenger) % 2:
            raise ValueError("a duel needs complete A-B-B-A blocks")
        _require_state_per_run(self.gpu, self.challenger, self.champion)
        _require_one_estimator(self.challenger, self.champion)
        return self


class Duel(Model):
    """The interleaved comparison with the champion.  `ratio` is challenger / champion over the blocks."""

    opponent: Login
    opponent_digest: Digest
    cases: tuple[DuelCase, ...] = Field(min_length=1)
    ratio: Interval
    won: bool
    earlier: Annotated[
        int,
        Field(ge=0, le=10**6, description="duels without a result before it, by the same author against this file"),
    ] = Field(default=0, exclude_if=omitted)

    @model_validator(mode="after")
    def _is_won_as_it_says(self) -> Self:
        blocks = {case.blocks for case in self.cases}
        if len(blocks) > 1:
            raise ValueError("a duel needs the same number of blocks for each case")
        if self.won != is_won(self.ratio, min(blocks), self.earlier):
            raise ValueError("the winner of the duel does not match its ratio")
        return self


class Forfeit(Model):
    """A duel that the champion has lost, because its file failed in it."""

    opponent: Login
    opponent_digest: Digest
    verdict: Verdict
    message: Text

    @model_validator(mode="after")
    def _is_a_failure_of_its_own(self) -> Self:
        if self.verdict in (Verdict.ACCEPTED, Verdict.JUDGING_ERROR):
            raise ValueError(f"a champion does not lose a duel by {self.verdict}")
        return self


def _without_samples(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    return tuple([run.without_samples() for run in runs])


def _require_state_per_run(states: Sequence[GpuState], *sides: Sequence[Run]) -> None:
    if states and len(states) != sum(map(len, sides)):
        raise ValueError("GPU state must be recorded for every run or none")


def _require_one_estimator(*sides: Sequence[Run]) -> None:
    estimators = {"trimmed mean" if run.estimator == "mean" else run.estimator for side in sides for run in side}
    if len(estimators) > 1:
        raise ValueError("runs of one case need estimators of the same method")


def duel_ratio(cases: Sequence[DuelCase], ranking_by: str, earlier: int = 0) -> Interval:
    """Challenger / champion over a duel's blocks; the cases of a block are combined by the board's `ranking_by`."""
    blocks = zip(*(case.block_times_us for case in cases), strict=True)
    return duel_interval([_block_ratio(block, ranking_by) for block in blocks], earlier)


def _block_ratio(block: tuple[tuple[float, float], ...], ranking_by: str) -> float:
    if ranking_by == "mean":
        return sum(ours for ours, _ in block) / sum(theirs for _, theirs in block)
    return math.prod(ours / theirs for ours, theirs in block) ** (1 / len(block))


def pair_ratios(submission: tuple[Run, ...], anchor: tuple[Run, ...]) -> tuple[float, ...]:
    """Submission / anchor for each pair of runs that were played side by side."""
    return tuple(a.time_us / b.time_us for a, b in zip(submission, anchor, strict=False))


def told_time(runs: Sequence[ToldRun]) -> Interval:
    """Combine the reports of the processes of a task's own program, in microseconds.

    With `MIN_PAIRS` processes or more, the Hodges-Lehmann interval over their means.  With fewer, the whole range of
    their own intervals: it ignores differences between processes and may be too narrow, so `note` says so.
    """
    found = ratio_interval([run.mean_us for run in runs])
    if len(runs) >= MIN_PAIRS:
        return found
    ranges = [run.range_us for run in runs]
    low, high = min(one.low for one in ranges), max(one.high for one in ranges)
    return Interval(value=found.value, low=min(low, found.value), high=max(high, found.value))


def _means_of_two(runs: tuple[Run, ...]) -> list[float]:
    return [math.sqrt(first.time_us * second.time_us) for first, second in zip(runs[::2], runs[1::2], strict=True)]


def _numbers(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high
