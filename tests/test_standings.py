"""Standings as tables: the events on a board, and the resulting rows."""

import hashlib
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.stats import Interval, beats, is_provisional
from harness.records.times import Duel, DuelCase, Forfeit, Run, Timing
from harness.records.verdict import Verdict
from harness.task.task import Baseline, Board, Task
from scripts.announce.board_news import results_of
from scripts.announce.news import NewsKind
from scripts.bot.reconcile.judged_again import find_due_rows, find_provisional_rows
from scripts.ledger.moderation import hold
from scripts.standings import author_files
from scripts.standings.case_times import MAX_POOLED
from scripts.standings.roofline import NO_ROOFLINE
from scripts.standings.rows import DuelStatus
from scripts.standings.standings import Standings, podiums, standings
from scripts.standings.ties import RankingTime, ahead_of, in_bands, in_order
from tests.properties import given, settings, st

START = datetime(2026, 11, 2, tzinfo=UTC)
SPREAD = (-1.0, -0.6, -0.2, 0.2, 0.6, 1.0)
"""Six pairs around the ratio: its interval is the whole range, so a noise of 0.01 reads as ±1 %."""


def board(*sizes: int, ranking_by: str = "geom", baselines: tuple[str, ...] = ()) -> Board:
    """A board with only the fields that `standings` reads; `baselines` are the files that its judge does not rank."""
    benchmarks = tuple(SimpleNamespace(params={"size": size, "seed": 7}) for size in sizes or (1024,))
    named = tuple(Baseline(name=f"torch.{file}", path=Path(f"{file}.py"), digest=digest(file)) for file in baselines)
    task = Task(name="vectoradd", folder=Path("vectoradd"), baselines=named)
    return cast(
        Board, SimpleNamespace(task=task, gpu="CPU", edition="e" * 64, benchmarks=benchmarks, ranking_by=ranking_by)
    )


def digest(file: str) -> str:
    return hashlib.sha256(file.encode()).hexdigest()


@dataclass(frozen=True)
class Event:
    """One judgement: author, file, times relative to the anchor; a duel as (opponent, file, ratio)."""

    login: str
    file: str
    ratios: float | tuple[float, ...]
    duel: tuple[str, str, float] | None = None
    noise: float = 0.0001
    anchor_us: float | tuple[float, ...] = 100.0
    more: dict[str, Any] = field(default_factory=dict)


def run(us: float, order: int = 0) -> Run:
    return Run(order=order, warmups_us=(), samples_us=(us,), seeds=(order,))


def timing(ratio: float, noise: float, anchor_us: float, pairs: int = 6) -> Timing:
    return Timing.of(
        tuple(run(anchor_us * ratio * math.exp(noise * share)) for share in SPREAD[:pairs]),
        tuple(run(anchor_us) for _ in range(pairs)),
        overhead_us=1.0, bound_us=1.0, steady=True, note="",
    )  # fmt: skip


def duel(opponent: str, file: str, ratio: float) -> Duel:
    case = DuelCase(params={"size": 1024}, challenger=(run(100 * ratio),) * 16, champion=(run(100.0),) * 16)
    return Duel(
        opponent=opponent, opponent_digest=digest(file), cases=(case,),
        ratio=Interval(value=ratio, low=ratio * 0.999, high=ratio * 1.001), won=ratio < 0.99,
    )  # fmt: skip


def judged(event: Event, minute: int, on: Board) -> Judgement:
    ratios, anchors_us = (
        given if isinstance(given, tuple) else (given,) * len(on.benchmarks)
        for given in (event.ratios, event.anchor_us)
    )
    accepted: dict[str, Any] = {"verdict": Verdict.ACCEPTED, "seconds": 1.0}
    cases = [
        CaseResult(kind=CaseKind.BUILD, params={}, **accepted),
        CaseResult(kind=CaseKind.TEST, params={"size": 7}, **accepted),
        *(
            CaseResult(
                kind=CaseKind.BENCHMARK, params=dict(case.params),
                timing=timing(ratio, event.noise, anchor_us), **accepted,
            )
            for case, ratio, anchor_us in zip(on.benchmarks, ratios, anchors_us, strict=True)
        ),
    ]  # fmt: skip
    fields: dict[str, Any] = {
        "task": on.task.name, "edition": on.edition, "gpu": on.gpu, "mode": Mode.RANKED,
        "baseline": on.task.baseline_name(digest(event.file)),
        "submission": SubmissionInfo(login=event.login, digest=digest(event.file), lines=10),
        "verdict": Verdict.ACCEPTED, "message": "", "cases": tuple(cases), "claim": Claim.BOUNDED,
        "duel": duel(*event.duel) if event.duel else None,
        "machine": Machine(
            device="CPU", cpu="c", cores=2, memory_gib=8.0, os="Linux", python="3.11", torch="2.13", quiet=True
        ),
        "sandbox": SandboxInfo(kind="bubblewrap", stop="signals"),
        "harness": HarnessInfo(version="0.1.0", method=1, digest="0" * 64),
        "started_at": START, "finished_at": START + timedelta(minutes=minute),
    }  # fmt: skip
    return Judgement(**(fields | event.more))


def season(events: list[Event], on: Board | None = None, **rest: Any) -> Standings:
    on = on or board()
    return standings(on, [judged(event, minute, on) for minute, event in enumerate(events)], **rest)


@dataclass(frozen=True)
class Scenario:
    """Events, and the resulting table: (band, login, file, note) by rank, and the records' files."""

    name: str
    events: list[Event]
    rows: list[tuple[int, str, str, str]]
    records: list[str]


SCENARIOS = [
    Scenario("nothing has happened", [], [], []),
    Scenario(
        "a first entry stands first without a duel",
        [Event("ada", "a", 0.5)],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "slower entries follow by score, whenever they came",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.9), Event("cy", "c", 0.7)],
        [(1, "ada", "a", ""), (2, "cy", "c", ""), (3, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "a won duel takes first place",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.4, duel=("ada", "a", 0.8))],
        [(1, "bob", "b", ""), (2, "ada", "a", "")],
        ["a", "b"],
    ),
    Scenario(
        "a won duel takes first place even from a file that looks faster",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.55, noise=0.09, duel=("ada", "a", 0.95))],
        [(1, "bob", "b", ""), (1, "ada", "a", "looks faster; its duel with bob is due")],
        ["a", "b"],
    ),
    Scenario(
        "looking faster without a duel is not first place",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.4), Event("cy", "c", 0.6)],
        [(1, "ada", "a", ""), (1, "bob", "b", "looks faster; its duel with ada is due"), (2, "cy", "c", "")],
        ["a"],
    ),
    Scenario(
        "a lost duel is not first place",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.49, duel=("ada", "a", 0.995))],
        [(1, "ada", "a", ""), (1, "bob", "b", "looks faster, but lost its duel with ada")],
        ["a"],
    ),
    Scenario(
        "a lost duel of a file that is slower needs no note",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.502, duel=("ada", "a", 1.01))],
        [(1, "ada", "a", ""), (1, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "a duel with a former champion decides nothing",
        [
            Event("ada", "a", 0.5),
            Event("bob", "b", 0.45, duel=("ada", "a", 0.9)),
            Event("cy", "c", 0.4, duel=("ada", "a", 0.8)),
        ],
        [
            (1, "bob", "b", ""),
            (1, "cy", "c", "looks faster; it last played ada, and its duel with bob is due"),
            (2, "ada", "a", ""),
        ],
        ["a", "b"],
    ),
    Scenario(
        "a duel that is made up for decides",
        [
            Event("ada", "a", 0.5),
            Event("bob", "b", 0.45, duel=("ada", "a", 0.9)),
            Event("cy", "c", 0.4, duel=("ada", "a", 0.8)),
            Event("cy", "c", 0.4, duel=("bob", "b", 0.9)),
        ],
        [(1, "cy", "c", ""), (2, "bob", "b", ""), (3, "ada", "a", "")],
        ["a", "b", "c"],
    ),
    Scenario(
        "a duel with an earlier file of the champion's decides nothing",
        [Event("ada", "a", 0.5), Event("ada", "a2", 0.4), Event("bob", "b", 0.39, duel=("ada", "a", 0.8))],
        [
            (1, "ada", "a2", ""),
            (1, "bob", "b", "looks faster; it last played an earlier file of ada's, and its duel with ada is due"),
        ],
        ["a", "a2"],
    ),
    Scenario(
        "the champion improves itself without a duel",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.6), Event("ada", "a2", 0.4)],
        [(1, "ada", "a2", ""), (2, "bob", "b", "")],
        ["a", "a2"],
    ),
    Scenario(
        "the champion's new file that is only tied with its own changes nothing",
        [Event("ada", "a", 0.5), Event("ada", "a2", 0.4972)],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "a dethroned champion stands with its best file",
        [
            Event("ada", "a", 0.5),
            Event("ada", "a2", 0.45),
            Event("bob", "b", 0.4, duel=("ada", "a2", 0.9)),
            Event("ada", "a3", 0.47),
        ],
        [(1, "bob", "b", ""), (2, "ada", "a2", "")],
        ["a", "a2", "b"],
    ),
    Scenario(
        "first place can be won back",
        [
            Event("ada", "a", 0.5),
            Event("bob", "b", 0.4, duel=("ada", "a", 0.8)),
            Event("ada", "a2", 0.3, duel=("bob", "b", 0.75)),
        ],
        [(1, "ada", "a2", ""), (2, "bob", "b", "")],
        ["a", "b", "a2"],
    ),
    Scenario(
        "the champion cannot win a duel with itself",
        [Event("ada", "a", 0.5), Event("ada", "a2", 0.499, duel=("ada", "a", 0.9))],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "a slower file leaves its author's row alone",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.6), Event("bob", "b2", 0.8)],
        [(1, "ada", "a", ""), (2, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "a new file within the noise leaves its author's row alone",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.6, noise=0.05), Event("bob", "b2", 0.58, noise=0.05)],
        [(1, "ada", "a", ""), (2, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "a better file replaces its author's row",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.8), Event("bob", "b2", 0.6)],
        [(1, "ada", "a", ""), (2, "bob", "b2", "")],
        ["a"],
    ),
    Scenario(
        "a file that won first place stands, though its author's earlier one looks as fast",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.45), Event("bob", "b2", 0.449, duel=("ada", "a", 0.9))],
        [(1, "bob", "b2", ""), (2, "ada", "a", "")],
        ["a", "b2"],
    ),
    Scenario(
        "a file that won first place keeps its row, though its author's earlier one looks faster but lost its duel",
        [
            Event("ada", "a", 0.5),
            Event("bob", "z", 0.49, duel=("ada", "a", 0.995)),
            Event("bob", "b", 0.497, duel=("ada", "a", 0.985)),
            Event("bob", "b", 0.497),
        ],
        [(1, "bob", "b", ""), (1, "ada", "a", "")],
        ["a", "b"],
    ),
    Scenario(
        "a file that lost its duel and was judged again without one is passed over when its author's other file wins",
        [
            Event("ada", "a", 0.5),
            Event("bob", "z", 0.4, duel=("ada", "a", 1.05)),
            Event("bob", "z", 0.4),
            Event("bob", "b", 0.48, duel=("ada", "a", 0.9)),
        ],
        [(1, "bob", "b", ""), (2, "ada", "a", "")],
        ["a", "b"],
    ),
    Scenario(
        "a file that lost its duel is passed over, though it won another with a former champion later",
        [
            *[Event("ada", "a", 0.5), Event("bob", "z", 0.4, duel=("ada", "a", 1.05))],
            *[Event("cy", "c", 0.49, duel=("ada", "a", 0.95)), Event("bob", "z", 0.4, duel=("ada", "a", 0.9))],
            Event("bob", "b", 0.48, duel=("cy", "c", 0.9)),
        ],
        [(1, "bob", "b", ""), (2, "cy", "c", ""), (3, "ada", "a", "")],
        ["a", "c", "b"],
    ),
    Scenario(
        "a file that lost first place in a duel is passed over when its author's other file wins",
        [
            Event("ada", "a", 0.4),
            Event("bob", "b", 0.45, duel=("ada", "a", 0.95)),
            Event("ada", "a2", 0.44, duel=("bob", "b", 0.95)),
        ],
        [(1, "ada", "a2", ""), (2, "bob", "b", "")],
        ["a", "b", "a2"],
    ),
    Scenario(
        "a file that lost first place ranks again once it is judged again",
        [
            Event("ada", "a", 0.4),
            Event("bob", "b", 0.45, duel=("ada", "a", 0.95)),
            Event("ada", "a2", 0.44, duel=("bob", "b", 0.95)),
            Event("ada", "a", 0.4),
        ],
        [(1, "ada", "a", ""), (2, "bob", "b", "")],
        ["a", "b", "a2", "a"],
    ),
    Scenario(
        "a file that won at last takes first place, though it had lost before",
        [
            Event("ada", "a", 0.5),
            Event("bob", "z", 0.45, duel=("ada", "a", 0.995)),
            Event("bob", "b", 0.6),
            Event("bob", "z", 0.45, duel=("ada", "a", 0.95)),
        ],
        [(1, "bob", "z", ""), (2, "ada", "a", "")],
        ["a", "z"],
    ),
    Scenario(
        "a file that lost its duel replaces its author's winning one once it is judged again",
        [
            Event("ada", "a", 0.5),
            Event("bob", "z", 0.45, duel=("ada", "a", 0.995)),
            Event("bob", "b", 0.497, duel=("ada", "a", 0.985)),
            Event("bob", "z", 0.45),
        ],
        [(1, "bob", "z", ""), (2, "ada", "a", "")],
        ["a", "b", "z"],
    ),
    Scenario(
        "an old file that is judged again does not come back",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.8), Event("bob", "b2", 0.6), Event("bob", "b", 0.8)],
        [(1, "ada", "a", ""), (2, "bob", "b2", "")],
        ["a"],
    ),
    Scenario(
        "an old file comes back when judging again shows that the new one was only lucky",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.8), Event("bob", "b2", 0.7), *[Event("bob", "b2", 0.9)] * 4],
        [(1, "ada", "a", ""), (2, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "the champion's lucky file gives way to its earlier one, and no record is set by that",
        [Event("ada", "a", 0.5), Event("ada", "a2", 0.4), *[Event("ada", "a2", 0.6)] * 4],
        [(1, "ada", "a", "")],
        ["a", "a2"],
    ),
    Scenario(
        "one lucky judgement among several of the same file gains nothing",
        [Event("ada", "a", 0.5), *[Event("bob", "b", 0.6)] * 4, Event("bob", "b", 0.45)],
        [(1, "ada", "a", ""), (2, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "the same bytes of two authors are two rows, and the earlier stands first",
        [Event("ada", "a", 0.5), Event("bob", "a", 0.48), Event("cy", "a", 0.502)],
        [(1, "ada", "a", ""), (1, "bob", "a", "the same file as ada's"), (1, "cy", "a", "the same file as ada's")],
        ["a"],
    ),
    Scenario(
        "a copy cannot win first place from its original",
        [Event("ada", "a", 0.5), Event("bob", "a", 0.48, duel=("ada", "a", 0.9))],
        [(1, "ada", "a", ""), (1, "bob", "a", "the same file as ada's")],
        ["a"],
    ),
    Scenario(
        "a duel is with an author and a file: the same file of another author is not the champion's",
        [Event("ada", "a", 0.5), Event("bob", "a", 0.5), Event("cy", "c", 0.4, duel=("bob", "a", 0.8))],
        [
            (1, "ada", "a", ""),
            (1, "bob", "a", "the same file as ada's"),
            (1, "cy", "c", "looks faster; it last played bob, and its duel with ada is due"),
        ],
        ["a"],
    ),
    Scenario(
        "a login in other letters is the same author",
        [Event("Ada", "a", 0.5), Event("ada", "a2", 0.4), Event("bob", "b", 0.3, duel=("ADA", "a2", 0.75))],
        [(1, "bob", "b", ""), (2, "ada", "a2", "")],
        ["a", "a2", "b"],
    ),
    Scenario(
        "within a band the earlier stands first",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.604), Event("cy", "c", 0.6), Event("dee", "d", 0.62)],
        [(1, "ada", "a", ""), (2, "bob", "b", ""), (2, "cy", "c", ""), (3, "dee", "d", "")],
        ["a"],
    ),
    Scenario(
        "a band ends where its best beats a row, not where neighbours differ",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.6), Event("cy", "c", 0.604), Event("dee", "d", 0.608)],
        [(1, "ada", "a", ""), (2, "bob", "b", ""), (2, "cy", "c", ""), (3, "dee", "d", "")],
        ["a"],
    ),
    Scenario(
        "a later row that beats an earlier one is ahead of it, though a wide one ties with both",
        [
            *[Event("ada", "a", 0.3), Event("old", "o", 0.54), Event("mid", "m", 0.503), Event("new", "n", 0.5)],
            Event("wide", "w", 0.499, noise=0.099),
        ],
        [(1, "ada", "a", ""), (2, "mid", "m", ""), (2, "new", "n", ""), (3, "old", "o", ""), (3, "wide", "w", "")],
        ["a"],
    ),
    Scenario(
        "a later row that beats an earlier one is ahead of it, though a wide champion ties with both",
        [Event("ada", "a", 0.5, noise=0.099), Event("old", "o", 0.54), Event("new", "n", 0.502)],
        [(1, "ada", "a", ""), (1, "new", "n", ""), (2, "old", "o", "")],
        ["a"],
    ),
    Scenario(
        "a noisy judging does not make a file tie with one that beats it",
        [
            *[Event("ada", "a", 0.3), Event("old", "o", 0.54), Event("new", "n", 0.5)],
            *[Event("old", "o", 0.54, noise=0.2)] * 2,
        ],
        [(1, "ada", "a", ""), (2, "new", "n", ""), (3, "old", "o", "")],
        ["a"],
    ),
    Scenario(
        "a row that has yet to win its duel is behind an earlier one that is tied with the champion, and before later ones",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.502), Event("cy", "c", 0.4), Event("dee", "d", 0.501)],
        [
            (1, "ada", "a", ""),
            (1, "bob", "b", ""),
            (1, "cy", "c", "looks faster; its duel with ada is due"),
            (1, "dee", "d", ""),
        ],
        ["a"],
    ),
    Scenario(
        "a row that has yet to win its duel passes no earlier one that is tied with the champion",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.502), Event("cy", "c", 0.4)],
        [(1, "ada", "a", ""), (1, "bob", "b", ""), (1, "cy", "c", "looks faster; its duel with ada is due")],
        ["a"],
    ),
    Scenario(
        "noisy times are tied with the champion over a wide range",
        [Event("ada", "a", 0.5, noise=0.09), Event("bob", "b", 0.55, noise=0.09), Event("cy", "c", 0.7)],
        [(1, "ada", "a", ""), (1, "bob", "b", ""), (2, "cy", "c", "")],
        ["a"],
    ),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_standings_follow_from_the_judged_events(scenario: Scenario) -> None:
    table = season(scenario.events)
    assert [(row.band, row.login, row.digest, row.note) for row in table.rows] == [
        (band, login, digest(file), note) for band, login, file, note in scenario.rows
    ]
    assert [record.digest for record in table.records] == [digest(file) for file in scenario.records]
    assert [row.rank for row in table.rows] == list(range(1, len(table.rows) + 1))
    assert [row.champion for row in table.rows] == [True, *[False] * len(table.rows)][: len(table.rows)]


def test_a_finished_board_has_no_duel_due() -> None:
    events = [
        Event("ada", "a", 0.5),
        Event("bob", "b", 0.45, duel=("ada", "a", 0.9)),
        Event("cy", "c", 0.4, duel=("ada", "a", 0.8)),
        Event("dan", "d", 0.3),
        Event("eve", "e", 0.44, duel=("bob", "b", 0.999)),
    ]
    rows = season(events, is_over=True).rows
    assert not any(row.contends for row in rows) and [row.login for row in rows if row.unproven] == ["cy", "dan", "eve"]
    notes = {row.login: row.note for row in rows if row.note}
    assert notes == {
        "cy": "looks faster; it last played ada, and its duel with bob was never played",
        "dan": "looks faster; its duel with bob was never played",
        "eve": "looks faster, but lost its duel with bob",
    }


DOES_NOT_RANK = {
    "of another mode": {"mode": Mode.BENCHMARK},
    "without walls": {"sandbox": SandboxInfo(kind="none", stop="signals")},
    "not accepted": {
        "verdict": Verdict.COMPILE_ERROR,
        "cases": (CaseResult(kind=CaseKind.BUILD, params={}, verdict=Verdict.COMPILE_ERROR, seconds=1.0),),
    },
}


@pytest.mark.parametrize("change", DOES_NOT_RANK.values(), ids=DOES_NOT_RANK)
def test_an_unranked_judgement_is_counted_but_gets_no_row(change: dict[str, Any]) -> None:
    table = season([Event("ada", "a", 0.5), Event("bob", "b", 0.4, more=change)])
    assert [row.login for row in table.rows] == ["ada"]
    assert table.unranked == 1


def test_judgements_of_other_cases_do_not_rank_and_are_counted() -> None:
    other, ours = board(1024, 4096), board(1024, 2048)
    judgements = [judged(Event("ada", "a", 0.5), 0, ours), judged(Event("bob", "b", 0.4), 1, other)]
    judgements.append(judged(Event("cy", "c", 0.4), 2, board(1024)))
    table = standings(ours, judgements)
    assert ([row.login for row in table.rows], table.unranked) == (["ada"], 2)


def test_a_benchmark_of_fewer_than_six_pairs_does_not_rank() -> None:
    hasty = judged(Event("bob", "b", 0.4), 1, board())
    short = hasty.cases[2].model_copy(update={"timing": timing(0.4, 0.001, 100.0, pairs=5)})
    table = standings(
        board(),
        [judged(Event("ada", "a", 0.5), 0, board()), hasty.model_copy(update={"cases": (*hasty.cases[:2], short)})],
    )
    assert ([row.login for row in table.rows], table.unranked) == (["ada"], 1)


@pytest.mark.parametrize("claims", [(Claim.BOUNDED, Claim.INSIDE_TIMED), (Claim.INSIDE_TIMED, Claim.BOUNDED)])
def test_a_row_claims_no_more_than_the_weakest_of_its_judgements(claims: tuple[Claim, ...]) -> None:
    (row,) = season([Event("ada", "a", 0.5, more={"claim": claim}) for claim in claims]).rows
    assert row.claim is Claim.INSIDE_TIMED


def test_a_duel_is_due_once_with_each_new_champion() -> None:
    events = [Event("ada", "a", 0.5), Event("bob", "b", 0.45, duel=("ada", "a", 1.02))]
    assert not list(find_due_rows([season(events)]))
    events.append(Event("cy", "c", 0.48, duel=("ada", "a", 0.9)))
    (due,) = find_due_rows([season(events)])
    assert (due.row.login, due.reason) == ("bob", f"its duel with cy ({digest('c')[:12]}) is due")
    events.append(Event("bob", "b", 0.45, duel=("cy", "c", 1.02)))
    assert not list(find_due_rows([season(events)]))


def test_a_duel_is_due_with_a_champion_whose_interval_has_widened() -> None:
    table = season([Event("ada", "a", 0.5), Event("ada", "a", 0.5, noise=0.9), Event("bob", "b", 0.42)])
    assert [due.row.login for due in find_due_rows([table])] == ["bob"]
    assert [(row.login, row.unproven, row.contends) for row in table.rows] == [
        ("ada", False, False),
        ("bob", True, True),
    ]


def test_a_duel_that_three_judgings_did_not_decide_is_no_longer_called_due() -> None:
    ada, bob, cy = Event("ada", "a", 0.5), Event("bob", "b", 0.42), Event("cy", "c", 0.48, duel=("ada", "a", 0.9))
    assert season([ada, bob, bob, bob]).rows[1].contends
    row = season([ada, bob, bob, bob, bob]).rows[1]
    assert row.unproven and not row.contends and row.duel_status is DuelStatus.UNDECIDED
    assert row.note == "looks faster; its duel with ada was not decided in 3 more judgings"
    older = season([ada, Event("ada", "a2", 0.45), bob, bob, bob, bob, *[Event("ada", "a2", 0.9)] * 3]).rows
    assert older[0].digest == digest("a") and older[1].contends, "no duel with this file was asked for yet"
    again = season([ada, bob, bob, bob, bob, cy]).rows[1]
    assert again.contends and again.note == "looks faster; its duel with cy is due"


def test_a_duel_lost_to_the_same_file_of_another_account_is_not_due() -> None:
    lost = Event("cy", "c", 0.45, duel=("former", "a", 0.995))
    table = season([Event("ada", "a", 0.5), lost])
    assert not list(find_due_rows([table])) and table.rows[1].duel_status is DuelStatus.LOST


def test_a_newly_drawn_seed_does_not_make_a_different_case() -> None:
    judgement = judged(Event("ada", "a", 0.5), 0, board())
    case = judgement.cases[2].model_copy(update={"params": {"size": 1024, "seed": 99}})
    assert standings(board(), [judgement.model_copy(update={"cases": (*judgement.cases[:2], case)})]).rows


def test_the_standings_list_earlier_editions_and_ignore_other_boards() -> None:
    events = [
        Event("ada", "a", 0.5, more={"edition": "1" * 64}),
        Event("ada", "a", 0.5, more={"edition": "2" * 64}),
        Event("bob", "b", 0.5, more={"edition": "1" * 64}),
        Event("cy", "c", 0.5, more={"gpu": "H100"}),
        Event("dee", "d", 0.5, more={"task": "matmul"}),
        Event("eve", "e", 0.9),
    ]
    table = season(events)
    assert [row.login for row in table.rows] == ["eve"]
    assert table.earlier_editions == ("1" * 64, "2" * 64)
    assert table.unranked == 0


def test_unsandboxed_judgements_rank_where_allowed_and_are_marked() -> None:
    unwalled = {"sandbox": SandboxInfo(kind="none", stop="signals")}
    events = [Event("ada", "a", 0.5), Event("bob", "b", 0.6, more=unwalled), Event("ada", "a", 0.5)]
    table = season(events, allow_unwalled=True)
    assert [(row.login, row.unwalled) for row in table.rows] == [("ada", False), ("bob", True)]


@pytest.mark.parametrize(
    ("ranking_by", "order"),
    [("geom", ["ada", "bob"]), ("mean", ["bob", "ada"]), ("last", ["bob", "ada"])],
)
def test_the_boards_ranking_decides_the_order(ranking_by: str, order: list[str]) -> None:
    on = board(1024, 4096, ranking_by=ranking_by)
    events = [Event("zoe", "z", 0.1), Event("ada", "a", (0.2, 0.9)), Event("bob", "b", (0.5, 0.5))]
    assert [row.login for row in season(events, on).rows] == ["zoe", *order]


def test_a_time_is_its_ratio_multiplied_by_the_median_anchor_time() -> None:
    table = season([
        Event("ada", "a", 0.5, anchor_us=100.0),
        Event("bob", "b", 0.6, anchor_us=400.0),
        Event("cy", "c", 0.7, anchor_us=200.0),
    ])  # fmt: skip
    assert table.nominal_us == (200.0,)
    assert [row.score_us.value for row in table.rows] == pytest.approx([100, 120, 140])
    assert [row.gap for row in table.rows] == pytest.approx([0, 0.2, 0.4])
    case = table.rows[1].cases[0]
    assert (case.time_us.value, case.ratio.value) == pytest.approx((120, 0.6))


@pytest.mark.parametrize(("ranking_by", "expected"), [("geom", 200), ("mean", 250), ("last", 400)])
def test_the_anchors_score_combines_its_usual_times_as_a_row_does(ranking_by: str, expected: float) -> None:
    table = season([Event("ada", "a", 0.5, anchor_us=300.0)], board(1024, 4096, ranking_by=ranking_by))
    assert table.anchor_us == pytest.approx(300)
    assert replace(table, nominal_us=(100.0, 400.0)).anchor_us == pytest.approx(expected)
    assert season([]).anchor_us is None


def test_a_machine_that_is_twice_as_slow_moves_no_row() -> None:
    events = [Event("ada", "a", 0.5), Event("bob", "b", 0.6), Event("cy", "c", 0.7)]
    slow = [*events[:2], Event("cy", "c", 0.7, anchor_us=200.0)]
    assert [row.gap for row in season(slow).rows] == pytest.approx([row.gap for row in season(events).rows])


def test_pooling_narrows_the_interval_and_keeps_the_first_judging_time() -> None:
    once = season([Event("ada", "a", 0.5, noise=0.02)]).rows[0]
    thrice = season([Event("ada", "a", 0.5, noise=0.02)] * 3).rows[0]
    assert thrice.score_us.log_half_width < once.score_us.log_half_width
    assert thrice.score_us.value == pytest.approx(once.score_us.value)
    assert [one.finished_at.minute for one in thrice.judgements] == [0, 1, 2]
    assert thrice.first_at == START


def test_only_the_newest_judgements_of_a_file_are_pooled_but_all_are_kept() -> None:
    table = season([*[Event("ada", "a", 0.9)] * 5, *[Event("ada", "a", 0.5)] * MAX_POOLED])
    assert table.rows[0].score_us.value == pytest.approx(50)
    assert len(table.rows[0].judgements) == MAX_POOLED + 5


def test_a_record_names_its_time_author_and_gain() -> None:
    table = season([
        Event("ada", "a", 0.5),
        Event("ada", "a2", 0.4),
        Event("bob", "b", 0.3, duel=("ada", "a2", 0.76)),
    ])  # fmt: skip
    assert [(record.login, record.at.minute) for record in table.records] == [("ada", 0), ("ada", 1), ("bob", 2)]
    assert [record.gain for record in table.records[1:]] == pytest.approx([0.2, 0.24])
    assert table.records[0].gain is None
    assert [record.score_us.value for record in table.records] == pytest.approx([50, 40, 30])
    assert table.records[2].judgement.duel


def test_improvements_are_each_authors_first_file_and_each_new_best() -> None:
    table = season([
        Event("ada", "a", 0.5),
        Event("bob", "b", 0.9),
        Event("bob", "slower", 0.95),
        Event("Bob", "b2", 0.7),
        Event("bob", "tied", 0.7),
        Event("bob", "b", 0.9),
    ])  # fmt: skip
    told = [(one.login, one.digest, one.at.minute, round(one.score_us.value)) for one in table.improvements]
    assert told == [("ada", digest("a"), 0, 50), ("bob", digest("b"), 1, 90), ("Bob", digest("b2"), 3, 70)]


def test_a_row_faster_beyond_a_tie_is_unproven_until_it_wins_its_duel() -> None:
    first = [Event("ada", "a", 0.5), Event("near", "n", 0.497), Event("same", "a", 0.4), Event("slow", "s", 0.504)]
    faster = [Event("due", "d", 0.4), Event("lost", "l", 0.45, duel=("ada", "a", 1.02))]
    table = season(first + faster)
    assert {row.band for row in table.rows} == {1}
    assert [row.login for row in table.rows if row.unproven] == ["due", "lost"]
    assert [row.login for row in table.rows if row.facts(table.board, NO_ROOFLINE)["unproven"]] == ["due", "lost"]
    won = season([*first, *faster, Event("won", "w", 0.45, duel=("ada", "a", 0.9))])
    assert won.rows[0].login == "won" and [row.login for row in won.rows if row.unproven] == ["same", "due"]


WILD = 0.6
"""The noise of an honest judging on a bad machine: ±60 %."""

PROVISIONAL = [
    Scenario(
        "a provisional time ranks after all others, whatever it is",
        [Event("ada", "a", 0.5), Event("eve", "e", 0.1, noise=WILD), Event("bob", "b", 0.9)],
        [(1, "ada", "a", ""), (2, "bob", "b", ""), (3, "eve", "e", "provisional: its 95 % interval is ±60.0 %")],
        ["a"],
    ),
    Scenario(
        "provisional times are tied with nobody, and rank by score among themselves",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.502, noise=WILD), Event("cy", "c", 0.501, noise=0.3)],
        [
            (1, "ada", "a", ""),
            (2, "cy", "c", "provisional: its 95 % interval is ±30.0 %"),
            (3, "bob", "b", "provisional: its 95 % interval is ±60.0 %"),
        ],
        ["a"],
    ),
    Scenario(
        "a time is provisional from just above ±10 % on",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.9, noise=0.0999), Event("cy", "c", 0.8, noise=0.1001)],
        [(1, "ada", "a", ""), (2, "bob", "b", ""), (3, "cy", "c", "provisional: its 95 % interval is ±10.0 %")],
        ["a"],
    ),
    Scenario(
        "a won duel does not take first place while the time is provisional",
        [Event("ada", "a", 0.5), Event("eve", "e", 0.1, noise=WILD, duel=("ada", "a", 0.5))],
        [(1, "ada", "a", ""), (2, "eve", "e", "provisional: its 95 % interval is ±60.0 %")],
        ["a"],
    ),
    Scenario(
        "a duel that is won when judging again has narrowed the interval takes first place",
        [
            Event("ada", "a", 0.5),
            Event("bob", "b", 0.4, noise=WILD, duel=("ada", "a", 0.8)),
            *[Event("bob", "b", 0.4, duel=("ada", "a", 0.8))] * 3,
        ],
        [(1, "bob", "b", ""), (2, "ada", "a", "")],
        ["a", "b"],
    ),
    Scenario(
        "a board without any other time shows the provisional ones, and has no record",
        [Event("ada", "a", 0.5, noise=WILD), Event("bob", "b", 0.4, noise=WILD)],
        [
            (1, "bob", "b", "provisional: its 95 % interval is ±60.0 %"),
            (2, "ada", "a", "provisional: its 95 % interval is ±60.0 %"),
        ],
        [],
    ),
    Scenario(
        "the first time that is not provisional takes first place without a duel",
        [Event("eve", "e", 0.1, noise=WILD), Event("ada", "a", 0.5)],
        [(1, "ada", "a", ""), (2, "eve", "e", "provisional: its 95 % interval is ±60.0 %")],
        ["a"],
    ),
    Scenario(
        "a provisional file takes the first place of a board without another when judging again has narrowed it",
        [Event("ada", "a", 0.5, noise=WILD), *[Event("ada", "a", 0.5)] * 3],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "a provisional file does not replace its author's row, however fast it looks",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.9), Event("bob", "b2", 0.01, noise=WILD)],
        [(1, "ada", "a", ""), (2, "bob", "b", "")],
        ["a"],
    ),
    Scenario(
        "any other file replaces its author's provisional row, however slow it is",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.01, noise=WILD), Event("bob", "b2", 0.9)],
        [(1, "ada", "a", ""), (2, "bob", "b2", "")],
        ["a"],
    ),
    Scenario(
        "of two provisional files of an author the better one ranks",
        [Event("ada", "a", 0.5), Event("bob", "b", 0.9, noise=0.2), Event("bob", "b2", 0.4, noise=0.2)],
        [(1, "ada", "a", ""), (2, "bob", "b2", "provisional: its 95 % interval is ±20.0 %")],
        ["a"],
    ),
    Scenario(
        "the champion's provisional file does not replace its own",
        [Event("ada", "a", 0.5), Event("ada", "a2", 0.1, noise=WILD)],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "the champion stays first though judging again widens its interval, and no provisional file of its replaces it",
        [Event("ada", "a", 0.5), *[Event("ada", "a", 0.5, noise=WILD)] * 3, Event("ada", "a2", 0.1, noise=WILD)],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "a champion whose interval has widened is tied only with times like its own",
        [
            *[Event("ada", "a", 0.5), Event("slow", "s", 0.62), Event("mid", "m", 0.56), Event("like", "l", 0.502)],
            Event("ada", "a", 0.5, noise=0.9),
        ],
        [(1, "ada", "a", ""), (1, "like", "l", ""), (2, "mid", "m", ""), (3, "slow", "s", "")],
        ["a"],
    ),
    Scenario(
        "the champion's improvement stays first though judging again widens its interval",
        [
            *[Event("ada", "a", 1.0), Event("ada", "a2", 0.5), Event("bob", "b", 0.7)],
            Event("ada", "a2", 0.5, noise=0.9),
        ],
        [(1, "ada", "a2", ""), (2, "bob", "b", "")],
        ["a", "a2"],
    ),
    Scenario(
        "the champion's improvement stays first though judging again makes it tie with the earlier file",
        [Event("ada", "a", 1.0), Event("ada", "a2", 0.95), *[Event("ada", "a2", 0.95, noise=0.3)] * 3],
        [(1, "ada", "a2", "")],
        ["a", "a2"],
    ),
    Scenario(
        "a champion whose interval has widened is not replaced by its own slower file",
        [Event("ada", "a", 0.5), *[Event("ada", "a", 0.5, noise=WILD)] * 3, Event("ada", "a2", 0.6)],
        [(1, "ada", "a", "")],
        ["a"],
    ),
    Scenario(
        "a champion whose interval has widened is replaced by its own faster file",
        [Event("ada", "a", 0.5), *[Event("ada", "a", 0.5, noise=WILD)] * 3, Event("ada", "a2", 0.49)],
        [(1, "ada", "a2", "")],
        ["a", "a2"],
    ),
    Scenario(
        "a dethroned champion's file whose interval has widened gives way to any other of its author's",
        [
            *[Event("ada", "a", 1.0), Event("ada", "a2", 0.5), Event("ada", "a2", 0.5, noise=0.9)],
            Event("bob", "b", 0.45, duel=("ada", "a2", 0.9)),
        ],
        [(1, "bob", "b", ""), (2, "ada", "a", "")],
        ["a", "a2", "b"],
    ),
]


@pytest.mark.parametrize("scenario", PROVISIONAL, ids=lambda scenario: scenario.name)
def test_provisional_times_rank_last_and_never_take_first_place(scenario: Scenario) -> None:
    table = season(scenario.events)
    assert [(row.band, row.login, row.digest, row.note) for row in table.rows] == [
        (band, login, digest(file), note) for band, login, file, note in scenario.rows
    ]
    assert [record.digest for record in table.records] == [digest(file) for file in scenario.records]
    assert [row.provisional for row in table.rows] == [bool(row.note) for row in table.rows]
    assert [row.facts(table.board, NO_ROOFLINE)["provisional"] for row in table.rows] == [
        row.provisional for row in table.rows
    ]
    assert table.champion == (table.rows[0] if scenario.records else None)
    assert [row.champion for row in table.rows] == [row is table.champion for row in table.rows]


def test_a_provisional_row_contests_nothing_and_has_no_duel_due() -> None:
    table = season([Event("ada", "a", 0.5), Event("eve", "e", 0.1, noise=0.3)])
    eve = table.rows[1]
    assert eve.provisional and not (eve.unproven or eve.contends or table.leader_of(eve) is table.rows[0])
    assert ahead_of(eve, table.rows) is None
    assert not list(find_due_rows([table]))


@pytest.mark.parametrize(
    ("judgings", "after", "due"),
    [
        (1, timedelta(minutes=59), False),
        (1, timedelta(hours=1), True),
        (2, timedelta(hours=1), False),
        (2, timedelta(hours=6), True),
        (3, timedelta(hours=6), False),
        (3, timedelta(days=1), True),
        (4, timedelta(days=30), False),
    ],
)
def test_a_provisional_row_is_judged_again_three_times_after_growing_pauses(
    judgings: int, after: timedelta, due: bool
) -> None:
    table = season([Event("ada", "a", 0.5), *[Event("bob", "b", 0.7, noise=WILD)] * judgings])
    found = find_provisional_rows([table], table.rows[1].newest.finished_at + after)
    assert [row.row.login for row in found] == ["bob"] * due
    assert all(row.reason.startswith(f"its time is provisional after {judgings} judging") for row in found)


def test_the_longest_waiting_provisional_row_is_judged_first() -> None:
    bob, cy = Event("bob", "b", 0.7, noise=WILD), Event("cy", "c", 0.6, noise=WILD)
    table = season([Event("ada", "a", 0.5), bob, cy])
    assert [row.login for row in table.rows] == ["ada", "cy", "bob"]
    found = find_provisional_rows([table], START + timedelta(days=1))
    assert [row.row.login for row in found] == ["bob", "cy"]


def test_a_champion_whose_interval_has_widened_is_judged_again() -> None:
    table = season([Event("ada", "a", 0.5), Event("ada", "a", 0.5, noise=WILD), Event("ada", "a", 0.5, noise=WILD)])
    (row,) = table.rows
    assert row.champion and not row.provisional and row.score_us.log_half_width > 0.1
    assert find_provisional_rows([table], START + timedelta(days=2))


def test_a_file_that_ranks_because_another_won_the_duel_is_a_record() -> None:
    history = [Event("ada", "a", 0.5), Event("bob", "b1", 0.4), Event("bob", "b2", 0.45, duel=("ada", "a", 0.9))]
    table = season(history)
    assert [record.digest for record in table.records] == [digest(file) for file in ("a", "b2", "b1")]
    assert table.rows[0].digest == digest("b1") == table.records[-1].digest
    assert table.records[1].cause is table.records[2].cause and table.records[1].duel and not table.records[2].duel
    assert season([*history, Event("bob", "b3", 0.6)]).records == table.records
    on = board()
    read = [Judgement.from_json(judged(event, minute, on).to_json()) for minute, event in enumerate(history)]
    (*_, news) = results_of(on, read, {}, {})
    assert (news.kind, news.who.login, news.over) == (NewsKind.RECORD, "bob", "ada") and news.by_duel
    assert news.gain == pytest.approx(0.2) and news.who.digest == digest("b1"), "of the file that the podium shows"


def test_the_news_of_a_won_duel_names_no_speedup_below_1() -> None:
    on = board()
    history = [Event("ada", "a", 0.5), Event("bob", "b1", 0.51), Event("bob", "b2", 0.6, duel=("ada", "a", 0.9))]
    read = [Judgement.from_json(judged(event, minute, on).to_json()) for minute, event in enumerate(history)]
    (*_, news) = results_of(on, read, {}, {})
    assert (news.kind, news.who.digest, news.gain) == (NewsKind.RECORD, digest("b1"), 0.0)


def test_a_provisional_file_does_not_count_as_an_improvement_or_reach_the_podium() -> None:
    history = [Event("ada", "a", 0.5), Event("ada", "a2", 0.1, noise=WILD), Event("bob", "b", 0.9, noise=WILD)]
    on = board()
    told = [judged(event, minute, on) for minute, event in enumerate(history)]
    assert [one.digest for one in standings(on, told).improvements] == [digest("a")]
    assert [[row.login for row in podium.rows] for podium in podiums(on, told)] == [["ada"]]


def test_a_login_finds_its_row_regardless_of_capitals() -> None:
    table = season([Event("Ada", "a", 0.5), Event("bob", "b", 0.502)])
    row = table.find_row("BOB")
    assert row and table.leader_of(row) is table.champion
    assert table.find_row("eve") is None


events = st.builds(
    Event,
    login=st.sampled_from(["ada", "bob", "cy"]),
    file=st.sampled_from("abcd"),
    ratios=st.floats(0.4, 0.6),
    duel=st.none() | st.tuples(st.sampled_from(["ada", "bob", "cy"]), st.sampled_from("abcd"), st.floats(0.9, 1.05)),
    noise=st.sampled_from([0.0, 0.001, 0.05, 0.4]),
)


@settings(deadline=None, derandomize=True, max_examples=60, database=None)
@given(st.lists(events, min_size=1, max_size=12))
def test_the_table_keeps_its_invariants_for_any_history(history: list[Event]) -> None:
    table = season(history)
    rows = table.rows
    assert {row.login for row in rows} == {event.login for event in history}
    assert sum(len(row.judgements) for row in rows) <= len(history)
    assert [row.band for row in rows] == sorted(row.band for row in rows)
    assert [row.provisional for row in rows] == sorted(row.provisional for row in rows)
    assert [row.champion for row in rows] == [not rows[0].provisional] + [False] * (len(rows) - 1)
    assert [record.login for record in table.records[-1:]] == [row.login for row in rows[:1] if row.champion]
    assert [record.gain is None for record in table.records] == [index == 0 for index in range(len(table.records))]
    for row in rows:
        slower = (one for one in rows[row.rank :] if one.gap >= 0 and not one.provisional)
        assert not any(beats(one.score_us, row.score_us) for one in slower), "no row is behind one that it beats"
        assert row.champion or not row.note or "looks faster" not in row.note or row.gap < 0
        assert row.champion or row.gap >= 0 or row.note


@settings(deadline=None, derandomize=True, max_examples=30, database=None)
@given(st.lists(events, min_size=1, max_size=8), events)
def test_another_boards_judgements_change_nothing(history: list[Event], other: Event) -> None:
    on = board()
    judgements = [judged(event, minute, on) for minute, event in enumerate(history)]
    foreign = judged(other, 3, on).model_copy(update={"gpu": "H100"})
    assert standings(on, [foreign, *judgements, foreign]).rows == standings(on, judgements).rows


def long_season(judgements: int) -> list[Judgement]:
    """Three judgements of each file, by 250 authors in turn."""
    on = board(1024, 2048, 4096)
    patterns = [judged(Event("ada", "a", 0.3 + index / 1000, noise=0.02), index, on) for index in range(50)]
    return [
        patterns[index * 7 % 50].model_copy(
            update={
                "submission": SubmissionInfo(login=f"user{index // 3 % 250}", digest=digest(str(index // 3)), lines=9),
                "finished_at": START + timedelta(minutes=index),
            }
        )
        for index in range(judgements)
    ]


def seconds_to_rank(history: list[Judgement]) -> float:
    began = time.process_time()
    assert len(standings(board(1024, 2048, 4096), history).rows) == 250
    return time.process_time() - began


def random_season(dice: random.Random, on: Board) -> list[Judgement]:
    """A season of close and uncertain times: new files and old ones, and duels that even slower files may win."""
    first, spread = ("user0", "first"), dice.choice([0.03, 0.1])
    files, told = [first], [judged(Event(*first, 0.5), 0, on)]
    for minute in range(1, dice.choice([10, 40])):
        file = dice.choice(files) if dice.random() < 0.4 else (f"user{dice.randrange(9)}", f"file{minute}")
        opponent = first if dice.random() < 0.8 else dice.choice(files)
        asked = (*opponent, dice.choice([0.9, 0.95, 1.0])) if file[0] != opponent[0] and dice.random() < 0.5 else None
        noise = dice.choice([0.0001, 0.003, 0.03, 0.2])
        told.append(judged(Event(*file, 0.5 * math.exp(dice.gauss(0, spread)), asked, noise), minute, on))
        files.append(file)
        first = file if asked and opponent == first and asked[2] < 0.99 and noise < 0.1 else first
    return [Judgement.from_json(one.to_json()) for one in told]


def test_podiums_are_all_that_the_standings_had_in_their_first_places() -> None:
    dice, on, full = random.Random(4), board(), 0
    for _ in range(40):
        told = random_season(dice, on)
        gone = [hold(one, "Is this right?", by=1, at=START) for one in told if dice.random() < 0.05]
        removed = {one.judgement: one for one in gone if one.judgement}
        settled = [
            [(row.login, row.digest) for row in standings(on, told[:played], removed).rows if not row.provisional][:3]
            for played in range(len(told) + 1)
        ]
        podia = [[(row.login, row.digest) for row in one.rows] for one in podiums(on, told, removed)]
        assert podia == [now for before, now in pairwise(settled) if now != before]
        full += sum(len(rows) == 3 for rows in podia)
    assert full > 100


def test_a_judgement_without_samples_ranks_as_with_them() -> None:
    dice, on = random.Random(5), board(1024, 2048, ranking_by="mean")
    for _ in range(5):
        told = random_season(dice, on)
        with_samples, without = standings(on, told), standings(on, [one.without_samples() for one in told])
        assert [row.facts(on, NO_ROOFLINE) for row in without.rows] == [
            row.facts(on, NO_ROOFLINE) for row in with_samples.rows
        ]
        assert without.scores_us == with_samples.scores_us and without.undecided == with_samples.undecided
        assert [one.gain for one in without.records] == [one.gain for one in with_samples.records]


def boards_of_scores(number: int) -> Iterator[tuple[random.Random, list[Any], Any]]:
    """Random boards of random scores: the source of chance, the authors, and the champion."""
    noise = random.Random(3)
    for _ in range(number):
        authors = [author_with(noise) for _ in range(noise.randint(1, 9))]
        yield noise, authors, noise.choice(authors)


def author_with(noise: random.Random) -> Any:
    value, width, wider = 100 * math.exp(noise.gauss(0, 0.03)), abs(noise.gauss(0, 0.03)), abs(noise.gauss(0, 0.02))
    at = START + timedelta(hours=99 * noise.random())
    return SimpleNamespace(standing=file_with(value, width + wider * (noise.random() < 0.3), width, at))


def file_with(value: float, width: float, narrowest: float, first_at: datetime) -> Any:
    score_us, for_ties = (
        Interval(value=value, low=value * math.exp(-wide), high=value * math.exp(wide)) for wide in (width, narrowest)
    )
    return SimpleNamespace(
        score_us=score_us, score_for_ties=for_ties, is_provisional=is_provisional(score_us), first_at=first_at
    )


def test_the_next_row_is_always_the_earliest_that_none_of_the_rest_beats() -> None:
    for _, authors, champion in boards_of_scores(300):
        entries = [RankingTime.of(one, champion.standing.score_us.value) for one in authors]
        ordered, rest = [], sorted(entries, key=lambda one: one.author.standing.first_at)
        while rest:
            ordered.append(next(one for one in rest if not any(other.beats(one) for other in rest)))
            rest.remove(ordered[-1])
        assert [*in_order(entries)] == ordered


def test_a_band_is_of_rows_that_tie_with_each_other_and_ends_where_one_of_it_beats_the_next() -> None:
    for _, authors, champion in boards_of_scores(300):
        placed = [*in_bands(authors, champion)]
        assert len(placed) == len(authors) and placed[0] == (1, champion)
        least_us = champion.standing.score_us.value
        settled = [one for one in placed if one[1] is champion or not one[1].standing.is_provisional]
        entries = [(band, RankingTime.of(one, least_us)) for band, one in settled]
        for (band, one), (other_band, other) in combinations(entries, 2):
            assert band != other_band or not (one.beats(other) or other.beats(one))
            assert other is entries[0][1] or not other.beats(one), "no row is behind one that it beats"
        for (band, _), (next_band, one) in pairwise(entries):
            theirs = [other for number, other in entries if number == band]
            assert next_band == band or any(other.beats(one) for other in theirs)


def test_no_row_gains_a_place_by_a_slower_or_wider_time() -> None:
    changes = 0
    for noise, authors, champion in boards_of_scores(1000):
        row = noise.choice(authors)
        before = [one for _, one in in_bands(authors, champion)].index(row)
        file = row.standing
        slower, wider = (abs(noise.gauss(0, 0.03)) * noise.choice([0, 1]) for _ in range(2))
        value, width = file.score_us.value * math.exp(slower), file.score_us.log_half_width + wider
        row.standing = file_with(value, width, file.score_for_ties.log_half_width, file.first_at)
        after = [one for _, one in in_bands(authors, champion)].index(row)
        assert after >= before
        changes += after > before
    assert changes > 50


def test_no_row_gains_a_place_by_a_slower_judging_that_widens_its_interval() -> None:
    noise, changes = random.Random(5), 0
    for _ in range(200):
        events = [
            Event(login, login, noise.uniform(0.45, 0.55), noise=noise.choice([0.001, 0.02, 0.05]))
            for login in noise.sample("abcdefg", k=7)
        ]
        again = noise.choice(events)
        slower = replace(again, ratios=again.ratios * noise.uniform(1, 1.05), noise=noise.choice([0.03, 0.09, 0.15]))
        before, after = (season([*events, *more]).find_row(again.login) for more in ([], [slower]))
        assert before and after
        if after.score_us.log_half_width >= before.score_us.log_half_width:
            assert after.rank >= before.rank
            changes += after.rank > before.rank
    assert changes > 10


def test_four_times_the_judgements_take_about_four_times_as_long() -> None:
    history = long_season(8000)
    few = min(seconds_to_rank(history[:2000]) for _ in range(2))
    many = seconds_to_rank(history)
    assert many < 10 * few, f"{many:.2f} s for 8,000 judgements, {few:.2f} s for 2,000"


def test_an_authors_attempt_is_compared_only_with_their_best_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents submit thousands of files: comparing all of them after each attempt took 11 s for 4,000."""
    compared: list[Any] = []
    monkeypatch.setattr(author_files, "beats", lambda new, old: compared.append(new) or new.value < old.value)
    files: list[Any] = [
        SimpleNamespace(digest=str(number), score_us=score, score_for_ties=score, is_provisional=False)
        for number in range(50)
        if (score := SimpleNamespace(value=-number))
    ]
    author = author_files.AuthorFiles(files[0])
    for file in files[1:]:
        author.add(file)
        assert author.standing is file
    assert len(compared) == len(files) - 1


def forfeit(opponent: str, file: str) -> dict[str, Any]:
    lost = Forfeit(
        opponent=opponent, opponent_digest=digest(file), verdict=Verdict.RUN_TIME_ERROR, message="it crashed"
    )
    return {"forfeit": lost}


def test_a_champion_whose_file_failed_in_the_duel_loses_first_place() -> None:
    first = Event("ada", "a", 0.5)
    table = season([first, Event("bob", "b", 0.501, more=forfeit("ada", "a"))])
    assert [row.login for row in table.rows] == ["bob", "ada"]
    assert table.records[-1].gain is None
    late = season([first, Event("bob", "b", 0.4, ("ada", "a", 0.8)), Event("cy", "c", 0.39, more=forfeit("ada", "a"))])
    assert late.rows[0].login == "bob", "ada was no longer first"


# Baselines


def test_a_baseline_has_a_time_and_takes_no_place() -> None:
    """The fastest file of the board: whoever submits it, it is no row, no record, and nothing that others are behind."""
    events = [Event("org", "sum", 0.2), Event("ada", "a", 0.5), Event("bob", "sum", 0.3), Event("ada", "b", 0.4)]
    table = season(events, board(baselines=("sum", "never_judged")))
    assert [(row.login, row.rank, row.gap) for row in table.rows] == [("ada", 1, 0.0)]
    assert [record.digest for record in table.records] == [digest("a"), digest("b")]
    (baseline,) = table.baselines
    assert (baseline.name, len(baseline.judgements)) == ("torch.sum", 2)
    assert baseline.score_us.low < 25 < baseline.score_us.high, "pooled over both"
    assert table.unranked == 0 and table.anchor_us == pytest.approx(100)


def test_baselines_are_shown_fastest_first_and_on_a_board_without_rows() -> None:
    table = season([Event("org", "slow", 3.0), Event("org", "fast", 0.5)], board(baselines=("slow", "fast")))
    assert [one.name for one in table.baselines] == ["torch.fast", "torch.slow"]
    assert table.rows == () and table.champion is None and table.anchor_us == pytest.approx(100)


def test_a_baseline_that_was_judged_without_a_sandbox_has_no_time() -> None:
    unwalled = {"sandbox": SandboxInfo(kind="none", stop="signals")}
    table = season([Event("org", "sum", 0.2, more=unwalled)], board(baselines=("sum",)))
    assert (table.baselines, table.unranked) == ((), 1)


def test_a_change_of_the_baselines_changes_no_rank() -> None:
    """Neither of what was judged as a baseline, nor of what was not."""
    before, after = board(baselines=("sum",)), board(baselines=("a",))
    judgements = [
        judged(event, n, before) for n, event in enumerate([Event("org", "sum", 0.2), Event("ada", "a", 0.5)])
    ]
    table = standings(after, judgements)
    assert ([row.login for row in table.rows], table.baselines) == (["ada"], ())
    again = standings(after, [*judgements, judged(Event("org", "a", 0.5), 2, after)])
    assert [row.login for row in again.rows] == ["ada"]
    assert [(one.name, len(one.judgements)) for one in again.baselines] == [("torch.a", 1)]


def test_no_podium_has_a_baseline() -> None:
    on = board(baselines=("sum",))
    events = [Event("org", "sum", 0.2), Event("ada", "a", 0.5)]
    changes = list(podiums(on, [judged(event, minute, on) for minute, event in enumerate(events)]))
    assert [[row.login for row in one.rows] for one in changes] == [["ada"]]
