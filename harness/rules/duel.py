"""Duels: play two files on one board in turns until one is known to be faster, or neither.

    A B B A   A B B A   A B B A   …      eight blocks of fresh players, on every benchmark that counts

Drift affects both sides of a block alike.  Each block gives one ratio, and the interval of the blocks' ratios decides.
A duel that is undecided after eight blocks goes on to 16, 32 and 64, while there is time.  The same code plays a
challenger against the champion, and any two files against each other.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from harness.records.stats import DRAWN_OUT, DUE_BLOCKS, DUEL_LOOKS, LONGEST_EXTENDED_DUEL_S, is_won
from harness.records.times import Duel
from harness.records.verdict import Foul, Verdict
from harness.referee import sampling
from harness.rules.phase import Phase, SideFoul
from harness.rules.runs import Runs
from harness.sandbox.sandbox import PlayerFiles
from harness.task.submission import Submission


class DuelTime:
    """Decides whether there is time for more blocks.

    A champion could slow down its imports and warm-ups, which are in no sample, until there is no time for more blocks.
    Fewer blocks do not show that a challenger is faster by a few per cent.  So what they take beyond the challenger's
    has limits of its own.
    """

    def __init__(self, phase: Phase, challenger: str, champion: str) -> None:
        self._phase = phase
        self._challenger = challenger
        self._champion = champion

    def _excess_s(self, spent: Mapping[str, float]) -> float:
        return max(0.0, spent.get(self._champion, 0.0) - spent.get(self._challenger, 0.0))

    def allows(self, factor: float, seconds: float) -> bool:
        """Whether there is time for `factor` times as many blocks, in a phase of `seconds`, apart from the excess."""
        importing_s, excess_s = self._phase.importing_s, self._excess_s(self._phase.unscored_s)
        in_phase_s = self._phase.deadline.spent_s - excess_s
        imports_s = sum(importing_s.values()) - self._excess_s(importing_s)
        # Slow imports of both sides must not occupy the machine for hours.
        return factor * in_phase_s <= seconds and factor * (in_phase_s + imports_s) <= LONGEST_EXTENDED_DUEL_S

    def allows_imports(self, factor: float) -> bool:
        """Whether the excess of the champion's imports leaves time for `factor` times as many blocks.

        A champion is not to blame for it: a challenger can evict what it imports from the page cache.
        """
        return factor * self._excess_s(self._phase.importing_s) <= LONGEST_EXTENDED_DUEL_S

    def require_warm_ups(self, factor: float) -> None:
        """Raise Foul if the excess of the champion's warm-ups leaves no time for `factor` times as many blocks."""
        excess_s = self._excess_s(self._phase.unscored_s)
        if factor * excess_s > LONGEST_EXTENDED_DUEL_S:
            message = f"Its warm-ups took {excess_s:.0f} s longer than the challenger's: too long for a duel. "
            raise Foul(Verdict.TIME_LIMIT_EXCEEDED, message + "Do slow work during the build.")


def play_duel(
    runs: Runs,
    challenger: PlayerFiles,
    champion: PlayerFiles,
    opponent: Submission,
    looks: Sequence[int] = DUEL_LOOKS,
    earlier: int = 0,
) -> Duel:
    """Play two built entries against each other, on every benchmark that counts.

    Args:
        opponent: the champion's file.
        looks: numbers of blocks of each benchmark after which to check for a decision; the last ends the duel.
        earlier: duels without a result before it, by the challenger's author against the champion's file.

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
    duel_time = DuelTime(phase, challenger.name, champion.name)

    def has_time(done: int, look: int) -> bool:
        factor = look / done
        if not (duel_time.allows(factor, seconds) and duel_time.allows_imports(factor)):
            return False
        try:
            duel_time.require_warm_ups(factor)
        except Foul as foul:
            if look > DUE_BLOCKS:
                return False
            raise SideFoul(champion.name, board.counting[0], foul) from None
        phase.imports_s = min(factor * phase.imports_s, board.duel_imports_s + LONGEST_EXTENDED_DUEL_S)
        return True

    def report(done: int, total: int) -> None:
        left_s = (time.monotonic() - began) / done * (total - done) if done else None
        context.report("duel, block", done, total, left_s)

    cases = []
    for case in board.counting:
        overhead_us = runs.early_overhead(case, phase)
        sides = runs.of(challenger, case, phase), runs.of(champion, case, phase)
        cases.append(sampling.Blocks(case.params, *sides, overhead_us))
    ratio = sampling.play_until_decided(cases, board.ranking_by, looks, earlier, has_time=has_time, on_block=report)
    played = tuple(blocks.case for blocks in cases)
    return Duel(
        opponent=opponent.login,
        opponent_digest=opponent.digest,
        cases=played,
        ratio=ratio,
        won=is_won(ratio, played[0].blocks, earlier),
        earlier=earlier,
    )
