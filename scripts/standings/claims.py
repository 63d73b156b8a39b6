"""What a judgement's numbers claim, in the words that comment, commands and site share.  Pure."""

from __future__ import annotations

from harness.records.judgement import Claim, Judgement
from harness.records.stats import DUEL_LOOKS, TIE, is_faster
from harness.records.times import Duel, Timing
from scripts.common.text import format_error, format_factor, format_percent

_SENTENCES = {
    Claim.BOUNDED: "The referee's own clock bounds these times.",
    Claim.INSIDE_TIMED: "These times were taken inside the submission's process and are bounded only loosely from "
    "outside; a first place that rests on them waits for a maintainer's look.",
    Claim.SELF_TIMED: "Self-timed: the task's own program judged beside the submission, which could forge verdict and "
    "times. Nothing outside that process bounds them.",
}
FIRST_PLACE_TAKES = f"first place takes a gain of at least {100 * TIE:g} %, and more than the noise"
_UNWALLED = "Judged without walls: a time to trust only if you trust the author."


def is_unwalled(judgement: Judgement) -> bool:
    return judgement.sandbox.kind == "none"


def claim_sentence(judgement: Judgement) -> str:
    return _UNWALLED if is_unwalled(judgement) else _SENTENCES[judgement.claim]


def is_self_timed(judgement: Judgement) -> bool:
    """Judged behind walls, and by the task's own program."""
    return judgement.claim is Claim.SELF_TIMED and not is_unwalled(judgement)


def is_bounded(judgement: Judgement) -> bool:
    return judgement.claim is Claim.BOUNDED and not is_unwalled(judgement)


def worst_bound(judgement: Judgement) -> Timing | None:
    """The benchmark whose time could understate the truth by the largest share; None if there are no times."""
    return max((case.timing for case in judgement.benchmarks if case.timing), key=bound_share, default=None)


def bound_share(timing: Timing) -> float:
    return timing.bound_us / timing.submission_us


def duel_margin(duel: Duel) -> str:
    """`20.0 % faster, ±0.4 %`."""
    ratio = duel.ratio.value
    change = f"{format_percent(abs(1 - ratio))} {'faster' if ratio < 1 else 'slower'}"
    if ratio >= 2:
        change = f"{format_factor(ratio)} the time"
    return f"{change}, {format_error(duel.ratio)}"


def duel_result(duel: Duel) -> str:
    """`20.0 % faster, ±0.4 %, over 8 interleaved blocks`."""
    blocks = duel.cases[0].blocks
    return f"{duel_margin(duel)}, over {blocks} interleaved block{'' if blocks == 1 else 's'}"


def why_lost(duel: Duel) -> str:
    """What a lost duel lacks that came out faster; empty where it was slower, or is won."""
    if duel.won or duel.ratio.value >= 1:
        return ""
    if is_faster(duel.ratio):
        return f"first place takes at least {DUEL_LOOKS[0]} blocks"
    return FIRST_PLACE_TAKES
