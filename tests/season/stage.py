"""One board of a fictional season: the times of its files and their duels.

The best possible time is a little above the hardware's limit; the anchor takes several times as long.  A file's quality
places it between the two.  The champion is tracked only roughly: if the true standings differ, a duel is due, as it may
be on a real board.
"""

from __future__ import annotations

import hashlib
import math
import random
from datetime import datetime, timedelta

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.stats import Interval, beats, duel_interval, is_faster, score
from harness.records.times import Duel, DuelCase, Run, Timing
from harness.records.verdict import Verdict
from harness.task.task import Board, Case
from scripts.competition.settings import Settings
from scripts.standings.roofline import find_floors_us
from tests.season.cast import LAUNCH_US, MadeUpFile, machine_of

_PAIRS, _SAMPLES, _BLOCKS = 6, 10, 8
_FAILS = 0.04
_OLD_EDITION, _OLD_EDITION_UNTIL = hashlib.sha256(b"before the tolerance was mended").hexdigest(), 0.12
_SPREAD, _DRIFT, _STALL = 0.006, 0.004, 0.004
"""The spread between the samples of a run and between runs, as shares, and the probability that a sample stalls."""


class BoardSeason:
    """A board during its season.  `began_anew`: its edition changed after the first days."""

    def __init__(self, settings: Settings, board: Board, *, began_anew: bool) -> None:
        self._board, self._began_anew = board, began_anew
        dice = random.Random(f"{board.task.name} {board.gpu}")
        floors = find_floors_us(board, settings.gpus.get(board.gpu)) or (50.0,) * len(board.benchmarks)
        launch = LAUNCH_US.get(board.gpu, 3.0)
        self._best_us = [launch + floor * dice.uniform(1.12, 1.6) for floor in floors]
        self._anchor_us = [best * dice.uniform(3.5, 7.5) for best in self._best_us]
        self._edition = ""
        self._standing: dict[str, tuple[MadeUpFile, Interval]] = {}
        self._champion: str | None = None

    def judge(self, file: MadeUpFile, at: datetime, moment: float, *, baseline: str = "") -> Judgement:
        """The judgement of a file submitted at `at`, after the share `moment` of the season; `baseline` is its name."""
        dice = random.Random(f"{self._board.task.name} {self._board.gpu} {file.digest} {at}")
        self._play(self._edition_at(moment))
        fails = not baseline and dice.random() < _FAILS
        machine = machine_of(self._board.gpu, dice)
        cases = list(self._cases(file, dice, machine, fails=fails))
        duel = None if fails or baseline else self._enter(file, cases, dice)
        made = self._judgement(file, at, tuple(cases), duel, machine, dice)
        return made.model_copy(update={"baseline": baseline})

    def _edition_at(self, moment: float) -> str:
        return _OLD_EDITION if self._began_anew and moment < _OLD_EDITION_UNTIL else self._board.edition

    def _play(self, edition: str) -> None:
        """A new edition starts without rows or a champion."""
        if edition != self._edition:
            self._edition, self._standing, self._champion = edition, {}, None

    def _cases(self, file: MadeUpFile, dice: random.Random, machine: Machine, *, fails: bool) -> list[CaseResult]:
        board = self._board
        cases = [CaseResult(kind=CaseKind.BUILD, params={}, verdict=Verdict.ACCEPTED, seconds=dice.uniform(1, 9))]
        cases += [_tested(case, dice, fails=fails and case is board.tests[-1]) for case in board.tests]
        if not fails:
            cases += [self._timed(file, index, case, dice, machine) for index, case in enumerate(board.benchmarks)]
        return cases

    def _timed(self, file: MadeUpFile, index: int, case: Case, dice: random.Random, machine: Machine) -> CaseResult:
        anchor_us = self._anchor_us[index] * math.exp(dice.gauss(0, 0.02))
        true_us = self._true_us(file, index)
        steady = machine.quiet or dice.random() > 0.5
        timing = Timing.of(
            _runs(true_us, dice, side=0, count=_PAIRS),
            _runs(anchor_us, dice, side=1, count=_PAIRS),
            overhead_us=2.0,
            bound_us=4.5,
            steady=steady,
            note="" if steady else "The interval is still ±1.4 %: the machine was busy. Judge again in a quiet hour.",
        )
        params = {**case.params, "seed": dice.getrandbits(62)}
        return CaseResult(
            kind=CaseKind.BENCHMARK, params=params, verdict=Verdict.ACCEPTED, seconds=dice.uniform(2, 11), timing=timing
        )

    def _true_us(self, file: MadeUpFile, index: int) -> float:
        """A time between slow and best, by quality and by the author's strength in this benchmark."""
        best, slow = self._best_us[index], self._anchor_us[index] * 1.3
        taste = random.Random(f"{file.login} {index}").gauss(0, 0.16) * (1 - file.quality)
        return best * math.exp(math.log(slow / best) * (1 - file.quality) + taste)

    # The champion.

    def _enter(self, file: MadeUpFile, cases: list[CaseResult], dice: random.Random) -> Duel | None:
        mine = self._score(cases)
        before = self._standing.get(file.login)
        if before is None or beats(mine, before[1]):
            self._standing[file.login] = (file, mine)
        if self._champion is None:
            self._champion = file.login
        first, theirs = self._standing[self._champion]
        if first.login == file.login or mine.value > theirs.value * 1.004:
            return None
        duel = self._duel(file, first, dice)
        if duel.won:
            self._champion = file.login
            self._standing[file.login] = (file, mine)
        return duel

    def _score(self, cases: list[CaseResult]) -> Interval:
        ratios = [case.timing.ratio for case in cases if case.timing]
        times = [ratio.scaled(us) for ratio, us in zip(ratios, self._anchor_us, strict=True)]
        return score(times, self._board.ranking_by)

    def _duel(self, file: MadeUpFile, first: MadeUpFile, dice: random.Random) -> Duel:
        cases = tuple(
            DuelCase(
                params={**case.params, "seed": dice.getrandbits(62)},
                challenger=_runs(self._true_us(file, index), dice, side=0, count=2 * _BLOCKS),
                champion=_runs(self._true_us(first, index), dice, side=1, count=2 * _BLOCKS),
            )
            for index, case in enumerate(self._board.benchmarks)
        )
        blocks = zip(*(case.block_times_us for case in cases), strict=True)
        ratios = [math.exp(sum(math.log(a / b) for a, b in block) / len(block)) for block in blocks]
        ratio = duel_interval(ratios)
        return Duel(opponent=first.login, opponent_digest=first.digest, cases=cases, ratio=ratio, won=is_faster(ratio))

    def _judgement(
        self,
        file: MadeUpFile,
        at: datetime,
        cases: tuple[CaseResult, ...],
        duel: Duel | None,
        machine: Machine,
        dice: random.Random,
    ) -> Judgement:
        board, failed = self._board, cases[-1].verdict is not Verdict.ACCEPTED
        return Judgement(
            task=board.task.name,
            edition=self._edition,
            gpu=board.gpu,
            mode=Mode.RANKED,
            submission=SubmissionInfo(
                login=file.login,
                user_id=file.user_id,
                pull_request=file.number,
                head_sha=hashlib.sha1(file.text.encode(), usedforsecurity=False).hexdigest(),
                digest=file.digest,
                lines=file.text.count("\n"),
                language=file.language,
            ),
            verdict=cases[-1].verdict,
            message=cases[-1].message if failed else "",
            cases=cases,
            duel=duel,
            claim=Claim.BOUNDED,
            machine=machine,
            sandbox=SandboxInfo(kind="bubblewrap", stop="freezer"),
            harness=HarnessInfo(version="0.1.0", method=1, digest="5" * 64),
            started_at=at - timedelta(seconds=dice.randint(40, 160)),
            finished_at=at,
            run_url=None,
            log="warming up\n" if dice.random() < 0.1 else "",
        )


def _tested(case: Case, dice: random.Random, *, fails: bool) -> CaseResult:
    return CaseResult(
        kind=CaseKind.TEST,
        params=dict(case.params),
        verdict=Verdict.WRONG_ANSWER if fails else Verdict.ACCEPTED,
        message="output[3, 17] is 1.0312, expected 1.0000 (allowed 0.0011); 48 of 65536 differ" if fails else "",
        seconds=dice.uniform(0.01, 0.4),
        seed=dice.getrandbits(62),
    )


def _runs(centre_us: float, dice: random.Random, *, side: int, count: int) -> tuple[Run, ...]:
    return tuple(_run(centre_us, dice, order=2 * index + side) for index in range(count))


def _run(centre_us: float, dice: random.Random, *, order: int) -> Run:
    mine = centre_us * math.exp(dice.gauss(0, _DRIFT))
    samples = [mine * (1 + abs(dice.gauss(0, _SPREAD))) for _ in range(_SAMPLES)]
    if dice.random() < _STALL * _SAMPLES:
        samples[dice.randrange(_SAMPLES)] += dice.uniform(0.2, 4) * mine
    return Run(
        order=order,
        warmups_us=(round(mine * 1.7, 4), round(mine * 1.05, 4)),
        samples_us=tuple(round(sample, 4) for sample in samples),
        seeds=tuple(dice.getrandbits(62) for _ in range(_SAMPLES + 2)),
    )
