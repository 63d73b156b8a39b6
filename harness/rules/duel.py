"""Duels: two files on one board, played by turns until it can be told whether one is faster.

    A B B A   A B B A   A B B A   …      eight blocks of fresh players, on every benchmark that counts

Drift falls on both sides of a block alike.  Each block gives one ratio; the interval of the blocks' ratios decides.
What eight blocks leave open goes on to sixteen, thirty-two, sixty-four.  A challenger is dueled with a board's
champion, and anybody's two files with each other: by the same rules, in the same code.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from harness.records.stats import DUEL_LOOKS, LONGEST_EXTENDED_DUEL_S, is_faster
from harness.records.times import Duel
from harness.referee import sampling
from harness.rules.runs import Runs
from harness.sandbox.sandbox import PlayerFiles
from harness.task.submission import Submission
from harness.task.task import Ranking


def play_duel(
    runs: Runs,
    challenger: PlayerFiles,
    champion: PlayerFiles,
    opponent: Submission,
    looks: Sequence[int] = DUEL_LOOKS,
) -> Duel:
    """Play two entries that are built against each other, on every benchmark that counts.

    Args:
        opponent: the champion's file.
        looks: after how many blocks of each benchmark to see whether it is decided; the last ends it.

    Raises:
        SideFoul: an output was wrong, or a rule was broken; `side` says by whom.
        OutOfTime: it took too long, and not because of one side.
    """
    context = runs.context
    board = context.board
    counting = board.benchmarks[-1:] if board.ranking_by is Ranking.LAST else board.benchmarks
    seconds = board.limits.ranked_timeout_s
    if looks[-1] > DUEL_LOOKS[0]:
        seconds = max(seconds, min(seconds * looks[-1] / DUEL_LOOKS[0], LONGEST_EXTENDED_DUEL_S))
    # Twice as patient as a ranked judging: whoever got onto the board can be dueled.
    phase = context.phase("the duel", seconds, patience=2)
    began = time.monotonic()

    def has_time(factor: float) -> bool:
        # Imports don't count for the phase, but slow ones must not hold the machine for hours.
        spent_s = time.monotonic() - began
        return factor * phase.deadline.spent_s <= seconds and factor * spent_s <= LONGEST_EXTENDED_DUEL_S

    def report(done: int, total: int) -> None:
        left_s = (time.monotonic() - began) / done * (total - done) if done else None
        context.report("duel, block", done, total, left_s)

    cases = []
    for case in counting:
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
