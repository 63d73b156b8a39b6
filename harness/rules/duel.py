"""Duels: play two files on one board in turns until one is known to be faster, or neither.

    A B B A   A B B A   A B B A   …      eight blocks of fresh players, on every benchmark that counts

Drift affects both sides of a block alike.  Each block gives one ratio, and the interval of the blocks' ratios decides.
A duel that is undecided after eight blocks goes on to 16, 32 and 64, while there is time.  The same code plays a
challenger against the champion, and any two files against each other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.stats import DRAWN_OUT, DUE_BLOCKS, DUEL_LOOKS, LONGEST_EXTENDED_DUEL_S, is_faster
from harness.records.times import Duel
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.rules.phase import SideFoul
from harness.rules.runs import Runs
from harness.sandbox.sandbox import PlayerFiles
from harness.task.submission import Submission


@dataclass(frozen=True, kw_only=True)
class DuelTime:
    """What the blocks of a duel so far have taken, in seconds.

    A champion could slow down its imports and warm-ups, which are in no sample, until there is no time for more blocks.
    Fewer blocks do not show that a challenger is faster by a few per cent.  So what a champion's imports and warm-ups
    take beyond the challenger's has a limit of its own.
    """

    phase_s: float
    """In the phase, to which imports do not count."""
    all_s: float
    excess_s: tuple[float, float]
    """What the champion's imports took beyond the challenger's; the same of warm-ups and the end of its players."""

    def leaves_time(self, factor: float, seconds: float) -> bool:
        """Whether there is time for `factor` times as many blocks, apart from the excess, in a phase of `seconds`."""
        imports_s, rest_s = self.excess_s
        if factor * (self.phase_s - rest_s) > seconds:
            return False
        # Slow imports of both sides must not occupy the machine for hours.
        return factor * (self.all_s - rest_s - imports_s) <= LONGEST_EXTENDED_DUEL_S

    def is_drawn_out(self, factor: float) -> bool:
        """Whether the excess of `factor` times as many blocks would be too long."""
        return factor * sum(self.excess_s) > LONGEST_EXTENDED_DUEL_S

    @property
    def foul(self) -> Foul:
        longer = f"{sum(self.excess_s):.0f} s longer than the challenger's"
        message = f"Its imports and warm-ups took {longer}: too long for a duel. Cache slow work during the build."
        return Foul(Verdict.TIME_LIMIT_EXCEEDED, message)


def play_duel(
    runs: Runs,
    challenger: PlayerFiles,
    champion: PlayerFiles,
    opponent: Submission,
    looks: Sequence[int] = DUEL_LOOKS,
) -> Duel:
    """Play two built entries against each other, on every benchmark that counts.

    Args:
        opponent: the champion's file.
        looks: numbers of blocks of each benchmark after which to check for a decision; the last ends the duel.

    Raises:
        SideFoul: an output was wrong, or a rule was broken, by the player in `side`.
        OutOfTime: it took too long, and neither side is to blame.
    """
    context = runs.context
    board = context.board
    seconds = board.limits.ranked_timeout_s
    if looks[-1] > DUEL_LOOKS[0]:
        seconds = max(seconds, min(seconds * looks[-1] / DUEL_LOOKS[0], LONGEST_EXTENDED_DUEL_S))
    # One import may take twice as long as in a ranked judging, so that every entry on the board can be dueled.
    phase = context.phase("the duel", DRAWN_OUT * seconds, patience=2, imports_s=board.duel_imports_s)
    began = time.monotonic()

    def has_time(done: int, look: int) -> bool:
        spent = DuelTime(
            phase_s=phase.deadline.spent_s,
            all_s=time.monotonic() - began,
            excess_s=phase.excess_s(champion.name, challenger.name),
        )
        if not spent.leaves_time(look / done, seconds):
            return False
        is_drawn_out = spent.is_drawn_out(look / done)
        if is_drawn_out and look <= DUE_BLOCKS:
            raise SideFoul(champion.name, board.counting[0], spent.foul)
        return not is_drawn_out

    def report(done: int, total: int) -> None:
        left_s = (time.monotonic() - began) / done * (total - done) if done else None
        context.report("duel, block", done, total, left_s)

    cases = []
    for case in board.counting:
        overhead_us = runs.calibrate(case, phase)
        sides = runs.of(challenger, case, phase), runs.of(champion, case, phase)
        cases.append(sampling.Blocks(case.params, *sides, overhead_us))
    ratio = sampling.play_until_decided(cases, board.ranking_by, looks, has_time=has_time, on_block=report)
    played = tuple(blocks.case for blocks in cases)
    return Duel(
        opponent=opponent.login,
        opponent_digest=opponent.digest,
        cases=played,
        ratio=ratio,
        won=is_faster(ratio) and played[0].blocks >= DUEL_LOOKS[0],
    )
