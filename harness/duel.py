"""Duels: two files on one board, played by turns until it can be told whether one is faster.

    A B B A   A B B A   A B B A   …      eight blocks of fresh players, on every benchmark that counts

Drift falls on both sides of a block alike.  Each block gives one ratio; the interval of the blocks' ratios and
`stats.is_faster` decide.  A challenger is dueled with a board's champion, and anybody's two files with each other:
by the same rules, in the same code.
"""

from __future__ import annotations

import time

from harness import clock
from harness.arena import Arena, SideFoul, result
from harness.judgement import CaseKind, CaseResult, Duel, DuelCase
from harness.sandbox import Entry
from harness.stats import DUEL_BLOCKS, MIN_PAIRS, is_faster
from harness.submission import Submission
from harness.task import Ranking
from harness.verdict import Foul, Verdict


def play_duel(
    arena: Arena, challenger: Entry, champion: Entry, opponent: Submission, blocks: int = DUEL_BLOCKS
) -> Duel:
    """Play two entries that are built against each other, on every benchmark that counts.

    Args:
        opponent: the champion's file.

    Raises:
        SideFoul: an output was wrong, or a rule was broken; `side` says by whom.
        OutOfTime: it took too long, and not because of one side.
    """
    board = arena.board
    counting = board.benchmarks[-1:] if board.ranking_by is Ranking.LAST else board.benchmarks
    seconds = board.limits.ranked_timeout_s * max(1.0, blocks / DUEL_BLOCKS)
    # Twice as patient as a ranked judging: whoever got onto the board can be dueled.
    phase = arena.phase("the duel", seconds, patience=2)
    progress = _Progress(arena, blocks * len(counting))
    cases = []
    for case in counting:
        overhead_us = arena.calibrate(case, phase)
        sides = arena.runs_of(challenger, case, phase), arena.runs_of(champion, case, phase)
        ours, theirs = clock.play_blocks(*sides, overhead_us, blocks, progress.next_block)
        cases.append(DuelCase(params=dict(case.params), challenger=ours, champion=theirs))
    ratio = clock.duel_ratio(cases, board.ranking_by)
    return Duel(
        opponent=opponent.login,
        opponent_digest=opponent.digest,
        cases=tuple(cases),
        ratio=ratio,
        won=is_faster(ratio) and blocks >= MIN_PAIRS,
    )


class _Progress:
    """Tells whoever watches which block is being played, and how long the others may take."""

    def __init__(self, arena: Arena, total: int) -> None:
        self._arena = arena
        self._total = total
        self._done = 0
        self._began = time.monotonic()

    def next_block(self) -> None:
        done, spent_s = self._done, time.monotonic() - self._began
        left_s = spent_s / done * (self._total - done) if done else None
        self._arena.report("duel, block", done, self._total, left_s)
        self._done += 1


class Match:
    """Anybody's two files: both are built and tested and, if both are accepted, dueled; A is the challenger."""

    def __init__(self, arena: Arena, a: Submission, b: Submission) -> None:
        self.arena = arena
        self.files = {"A": a, "B": b}
        self.entries = {side: arena.entry(side, file) for side, file in self.files.items()}
        self.results: dict[str, list[CaseResult]] = {}
        self.duel: Duel | None = None

    def play(self, blocks: int) -> None:
        self.results = {side: self._examine(side) for side in self.files}
        if all(one.verdict is Verdict.ACCEPTED for results in self.results.values() for one in results):
            self._play_duel(blocks)

    def _examine(self, side: str) -> list[CaseResult]:
        if fault := self.files[side].fault:
            return [result(CaseKind.BUILD, {}, Foul(Verdict.COMPILE_ERROR, fault), time.monotonic())]
        cases = [*self.arena.board.tests, *self.arena.board.benchmarks]
        return self.arena.examine(self.entries[side], cases, label=f"{side}: ")

    def _play_duel(self, blocks: int) -> None:
        start = time.monotonic()
        try:
            self.duel = play_duel(self.arena, self.entries["A"], self.entries["B"], self.files["B"], blocks)
        except SideFoul as fault:
            if fault.side not in self.results:
                raise self.arena.our_fault(fault) from None
            self.results[fault.side].append(result(CaseKind.BENCHMARK, fault.case.params, fault.foul, start))
