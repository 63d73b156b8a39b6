"""The summary of stage 4 in Markdown: bias, spread, seconds, and whether the claims hold.  Pure functions.

bias      median over the repetitions of a method's time / the true time, minus 1.  That of queued calls is true, else a
          replay's, else that of the kernels alone
spread    interquartile range of the repetitions' times, as a fraction of their median
seconds   duration of a judging: of one kernel in the table, of one group of kernels in the claim
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from benchmarks.check_gpu.stages.times import KERNELS, OURS, Taken
from scripts.common.text import format_percent, format_us

_TRUE = ("queued", "replay", "cupti")
_NAMES = {
    OURS: "judge",
    "do_bench": "do_bench",
    "kernelbot": "KernelBot's method",
    "cupti": "CUPTI, kernels alone",
    "queued": "CUPTI, queued calls",
    "replay": "replay",
}

BIAS = 0.01
BIASED_FROM_US = 20.0
"""Below this, launching a kernel takes longer than running it, and no method that times single calls is right."""
SPREAD = 0.5
SECONDS = 2.0
RIGHT = 0.9
"""The least share, of intervals that should contain it in 95 % of all cases."""


@dataclass(kw_only=True)
class Measured:
    """All measurements so far.  `seconds` are those of a method's whole process."""

    kernels: tuple[str, ...]
    taken: list[Taken] = field(default_factory=list)
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def of(self, way: str, kernel: str) -> list[Taken]:
        """A method's measurements of a kernel, in the order of the repetitions."""
        return [one for one in self.taken if (one.way, one.kernel) == (way, kernel)]

    def times_us(self, way: str, kernel: str) -> list[float]:
        return [one.us for one in self.of(way, kernel)]

    def true_us(self, kernel: str) -> list[float]:
        """The true times of a kernel; empty if neither method for them was used."""
        return next((times for way in _TRUE if (times := self.times_us(way, kernel))), [])

    def bias(self, way: str, kernel: str) -> float | None:
        pairs = list(zip(self.times_us(way, kernel), self.true_us(kernel), strict=False))
        return median(us / true_us for us, true_us in pairs) - 1 if pairs else None

    def spread(self, way: str, kernel: str) -> float | None:
        return spread(self.times_us(way, kernel))

    def normalised_spread(self, kernel: str) -> float | None:
        """The spread of the judge's ratios to the anchor."""
        return spread([one.ratio for one in self.of(OURS, kernel) if one.ratio is not None])


def spread(values: list[float]) -> float | None:
    """Interquartile range / median; None for fewer than two values."""
    if len(values) < 2:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return (high - low) / median(values)


@dataclass(frozen=True, kw_only=True)
class BenchClaim:
    """A claim, what was measured, and whether the claim holds; None if it was not measured."""

    words: str
    seen: str
    holds: bool | None


@dataclass(frozen=True, kw_only=True)
class BenchReport:
    claims: tuple[BenchClaim, ...]
    text: str
    """Markdown."""


def summary(data: Sequence[dict[str, Any]]) -> str:
    """The methods compared, in Markdown, from the data of all results."""
    found = Measured(kernels=tuple(kernel.name for kernel in KERNELS))
    for one in data:
        found.taken += [Taken(**taken) for taken in one["taken"]]
        found.seconds.setdefault(one["way"], []).append(one["seconds"])
    return report_of(found).text


def report_of(found: Measured) -> BenchReport:
    claims = (_claim_on_bias(found), _claim_on_spread(found), _claim_on_seconds(found), _claim_on_intervals(found))
    return BenchReport(claims=claims, text="\n".join(_lines(found, claims)))


def _claim_on_bias(found: Measured) -> BenchClaim:
    biases = {
        kernel: bias
        for kernel in found.kernels
        if (bias := found.bias(OURS, kernel)) is not None and median(found.true_us(kernel)) >= BIASED_FROM_US
    }
    worst = max(biases, key=lambda kernel: abs(biases[kernel]), default=None)
    return BenchClaim(
        words=f"median bias within {format_percent(BIAS)}, for each kernel of {format_us(BIASED_FROM_US)} or more",
        seen=f"{_signed(biases[worst])} at most ({worst}; {len(biases)} kernels)" if worst else "",
        holds=abs(biases[worst]) <= BIAS if worst else None,
    )


def _claim_on_spread(found: Measured) -> BenchClaim:
    shares = []
    for kernel in found.kernels:
        ours, theirs = found.normalised_spread(kernel), found.spread("kernelbot", kernel)
        if ours is not None and theirs is not None:
            shares.append(ours / theirs if theirs else math.inf)
    within = sum(share <= SPREAD for share in shares)
    return BenchClaim(
        words=f"spread of the ratio to the anchor / KernelBot's spread: at most {SPREAD:g}, median of the kernels",
        seen=f"{median(shares):.2f} ({within} of {len(shares)} kernels within)" if shares else "",
        holds=median(shares) <= SPREAD if shares else None,
    )


def _claim_on_seconds(found: Measured) -> BenchClaim:
    ours, theirs = (found.seconds.get(way) for way in (OURS, "kernelbot"))
    factor = median(ours) / median(theirs) if ours and theirs else None
    return BenchClaim(
        words=f"a ranked verdict takes at most {SECONDS:g} times as long as KernelBot's evaluator",
        seen=f"{factor:.1f} times: {median(ours):.1f} s, {median(theirs):.1f} s" if factor and ours and theirs else "",
        holds=factor <= SECONDS if factor else None,
    )


def _claim_on_intervals(found: Measured) -> BenchClaim:
    right = [one.is_right for one in found.taken if one.is_right is not None]
    return BenchClaim(
        words=f"intervals of kernels judged against themselves contain 1: {format_percent(RIGHT)} or more",
        seen=f"{sum(right)} of {len(right)}" if right else "",
        holds=sum(right) >= RIGHT * len(right) if right else None,
    )


def _lines(found: Measured, claims: tuple[BenchClaim, ...]) -> Iterator[str]:
    others: list[str] = [way for way in ("replay", "cupti", "do_bench", "kernelbot") if way in found.seconds]
    head = [
        "kernel",
        "true",
        *(f"bias: {_NAMES[way]}" for way in (OURS, *others)),
        "spread: judge",
        "ratio to the anchor",
    ]
    head += [*(f"spread: {_NAMES[way]}" for way in others), "bound", "seconds: judge"]
    yield _row([*head, *(f"seconds: {_NAMES[way]}" for way in others)])
    yield _row(["---"] * (len(head) + len(others)))
    for kernel in found.kernels:
        if any(one.kernel == kernel for one in found.taken):
            yield _row(_cells(found, kernel, others))
    yield ""
    yield _row(["claim", "measured", ""])
    yield _row(["---"] * 3)
    for claim in claims:
        verdict = "not measured" if claim.holds is None else "holds" if claim.holds else "does not hold"
        yield _row([claim.words, claim.seen, verdict])


def _cells(found: Measured, kernel: str, others: list[str]) -> Iterator[str]:
    true_us, bounds = found.true_us(kernel), [one.bound_us for one in found.of(OURS, kernel) if one.bound_us]
    yield kernel
    yield format_us(median(true_us)) if true_us else ""
    yield from (_signed(found.bias(way, kernel)) for way in (OURS, *others))
    yield from (_share(found.spread(OURS, kernel)), _share(found.normalised_spread(kernel)))
    yield from (_share(found.spread(way, kernel)) for way in others)
    yield format_us(median(bounds)) if bounds else ""
    for way in (OURS, *others):
        seconds = [one.seconds for one in found.of(way, kernel)]
        yield f"{median(seconds):.1f}" if seconds else ""


def _row(cells: list[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _signed(share: float | None) -> str:
    return "" if share is None else f"{share:+z.1%}".replace("%", " %")


def _share(share: float | None) -> str:
    return "" if share is None else format_percent(share)
