"""How far a judgement's times can be trusted, in sentences for comments, commands and the site.  Pure."""

from __future__ import annotations

from harness.records.judgement import Claim, Judgement
from harness.records.stats import TIE, fewest_blocks, is_faster
from harness.records.times import Duel, Timing
from scripts.common.text import format_error, format_factor, format_percent, format_speedup

_SENTENCES = {
    Claim.BOUNDED: "The referee's own clock bounds these times.",
    Claim.INSIDE_TIMED: "These times were taken inside the submission's process and are only loosely bounded from "
    "outside; a first place based on them needs a maintainer's review.",
    Claim.SELF_TIMED: "Self-timed: the task's own program ran with the submission, which could forge verdict and "
    "times. They have no bound: nothing outside that process measures them. A first place based on them needs a "
    "maintainer's review.",
}
FIRST_PLACE_TAKES = f"first place needs a gain of at least {100 * TIE:g} %, and more than the noise"
_UNWALLED = "Judged without a sandbox: trust these times only if you trust the author."


def is_unwalled(judgement: Judgement) -> bool:
    return judgement.sandbox.kind == "none"


def claim_sentence(judgement: Judgement) -> str:
    if is_unwalled(judgement):
        return _UNWALLED
    calls = max((case.timing.calls_per_sample for case in judgement.benchmarks if case.timing), default=1)
    mean = f" They are means of up to {calls} calls in one window." if calls > 1 else ""
    return _SENTENCES[judgement.claim] + mean


def is_self_timed(judgement: Judgement) -> bool:
    """Whether it was judged in the sandbox, by the task's own program."""
    return judgement.claim is Claim.SELF_TIMED and not is_unwalled(judgement)


def is_bounded(judgement: Judgement) -> bool:
    return judgement.claim is Claim.BOUNDED and not is_unwalled(judgement)


def worst_bound(judgement: Judgement) -> Timing | None:
    """The benchmark whose time could understate the truth by the largest share; None if there are no times."""
    return max((case.timing for case in judgement.benchmarks if case.timing), key=bound_share, default=None)


def bound_share(timing: Timing) -> float:
    return timing.bound_us / timing.submission_us


def duel_margin(duel: Duel) -> str:
    """`speedup 1.25×, ±0.4 %`, or `2.0 % slower, ±0.4 %`."""
    ratio = duel.ratio.value
    change = f"speedup {format_speedup(ratio)}" if ratio < 1 else f"{format_percent(ratio - 1)} slower"
    if ratio >= 2:
        change = f"{format_factor(ratio)} the time"
    return f"{change}, {format_error(duel.ratio)}"


def duel_result(duel: Duel) -> str:
    """`speedup 1.25×, ±0.4 %, over 8 interleaved blocks`."""
    blocks = duel.cases[0].blocks
    return f"{duel_margin(duel)}, over {blocks} interleaved block{'' if blocks == 1 else 's'}"


def why_lost(duel: Duel) -> str:
    """Why a faster challenger lost its duel; empty if it was slower or won."""
    if duel.won or duel.ratio.value >= 1:
        return ""
    if is_faster(duel.ratio):
        duels = "a duel" if duel.earlier == 1 else f"{duel.earlier} duels"
        after = f" after {duels} without a result" if duel.earlier else ""
        return f"first place needs at least {fewest_blocks(duel.earlier)} blocks{after}"
    return FIRST_PLACE_TAKES
