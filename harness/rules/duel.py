"""Duels: play two files on one board in turns until one is known to be faster, or neither.

    A B B A   A B B A   A B B A   …      eight blocks of fresh players, on every benchmark that counts

Drift affects both sides of a block alike.  Each block gives one ratio, and the interval of the blocks' ratios decides.
A duel that is undecided after eight blocks goes on to 16, 32 and 64.  The same code plays a challenger against the
champion, and any two files against each other.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.records.stats import DRAWN_OUT, DUEL_LOOKS, LONGEST_EXTENDED_DUEL_S, is_faster
from harness.records.times import Duel
from harness.referee import sampling
from harness.rules.runs import Runs
from harness.sandbox.sandbox import PlayerFiles
from harness.task.submission import Submission


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

    def has_time(factor: float) -> bool:
        # Imports do not count toward the phase, but slow ones must not occupy the machine for hours.
        spent_s = time.monotonic() - began
        if factor * phase.deadline.spent_s > seconds or factor * spent_s > LONGEST_EXTENDED_DUEL_S:
            return False
        return phase.has_time_to_import(factor)

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
