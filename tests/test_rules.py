"""Rules of the game that need no player: which duels, seeds, orders and durations."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.records.fields import CaseKind, Mode
from harness.records.stats import Interval
from harness.records.verdict import Verdict, overall
from harness.referee.sampling import SAMPLES, WARMUPS, Blocks, Play, Windows, is_steady, play_until_decided
from harness.rules.context import Context
from harness.rules.examine import _test_seed
from harness.rules.game import Game
from harness.task.submission import Champion, Submission
from harness.task.task import Case

CHAMPION = Champion(
    submission=Submission(login="ada", source=b"hers"),
    score=Interval(value=50.0, low=49.0, high=51.0),
    nominal_us=(100.0,),
)


def could_be_first(ratio: Interval, mode: Mode = Mode.RANKED, login: str = "bob", source: bytes = b"his") -> bool:
    """Whether a file with this ratio on its only benchmark duels with the champion."""
    game = Game.__new__(Game)
    game.mode, game.submission = mode, Submission(login=login, source=source)
    game.board = cast(Any, SimpleNamespace(ranking_by="geom"))
    game.results = cast(Any, [SimpleNamespace(timing=SimpleNamespace(ratio=ratio))])
    return game._could_be_first(CHAMPION)


def test_a_challenger_duels_if_its_interval_reaches_below_the_champions_time() -> None:
    assert could_be_first(Interval(value=0.52, low=0.49, high=0.55))
    assert not could_be_first(Interval(value=0.52, low=0.51, high=0.53))


def test_a_duel_needs_another_author_another_file_and_a_ranked_judging() -> None:
    faster = Interval(value=0.4, low=0.39, high=0.41)
    assert could_be_first(faster)
    assert not could_be_first(faster, login="Ada")
    assert not could_be_first(faster, source=b"hers")
    assert not could_be_first(faster, mode=Mode.BENCHMARK)


@pytest.mark.parametrize(("mode", "seed"), [(Mode.TEST, 13), (Mode.BENCHMARK, 99), (Mode.RANKED, 99)])
def test_only_test_mode_uses_the_seeds_of_the_task(mode: Mode, seed: int) -> None:
    context = cast(Context, SimpleNamespace(mode=mode, replay=None, seed=lambda: 99))
    assert _test_seed(context, Case(kind=CaseKind.TEST, params={"size": 7, "seed": 13}), 0) == seed


def test_warm_ups_are_not_samples() -> None:
    windows_us = tuple(range(100, 100 + WARMUPS + SAMPLES))
    run = Windows(windows_us=windows_us, seeds=windows_us).as_run(0, 10.0)
    assert run.warmups_us == tuple(range(90, 90 + WARMUPS))
    assert run.samples_us == tuple(range(90 + WARMUPS, 90 + WARMUPS + SAMPLES))


def test_a_benchmark_is_steady_within_one_percent() -> None:
    assert is_steady(Interval(value=1.0, low=math.exp(-0.0099), high=math.exp(0.0099)))
    assert not is_steady(Interval(value=1.0, low=math.exp(-0.0101), high=math.exp(0.0101)))


def test_the_first_failure_is_the_overall_verdict() -> None:
    first, second = Verdict.WRONG_ANSWER, Verdict.TIME_LIMIT_EXCEEDED
    assert overall([Verdict.ACCEPTED, first, Verdict.ACCEPTED, second]) is first
    assert overall([Verdict.ACCEPTED]) is Verdict.ACCEPTED


def plays(side: str, order: list[str], noise: float = 0.0) -> Play:
    """A side that notes when it plays, and is slower in every second block."""

    def play(place: int) -> Windows:
        order.append(side)
        window_us = 300.0 * (1 + noise if place // 4 % 2 else 1 - noise)
        return Windows(windows_us=(window_us,) * (WARMUPS + SAMPLES), seeds=tuple(range(WARMUPS + SAMPLES)))

    return play


def test_a_block_is_played_in_mirrored_order() -> None:
    order: list[str] = []
    blocks = Blocks({}, plays("A", order), plays("B", order), 1.0)
    blocks.play()
    blocks.play()
    assert "".join(order) == "ABBA" * 2
    assert [run.order for run in blocks.case.challenger + blocks.case.champion] == [0, 3, 4, 7, 1, 2, 5, 6]


@pytest.mark.parametrize(("ours_us", "earlier", "blocks"), [(200.0, 0, 8), (200.0, 1, 16), (400.0, 1, 8)])
def test_after_a_duel_without_a_result_the_next_needs_more_blocks_to_be_won(
    ours_us: float, earlier: int, blocks: int
) -> None:
    def ours(place: int) -> Windows:
        return replace(plays("A", [])(place), windows_us=(ours_us,) * (WARMUPS + SAMPLES))

    case = Blocks({}, ours, plays("B", []), 1.0)
    play_until_decided([case], "geom", (8, 16, 32), earlier, has_time=lambda *_: True, on_block=lambda *_: None)
    assert case.case.blocks == blocks


@pytest.mark.parametrize(("room", "blocks"), [(1.5, 8), (2.0, 16)])
def test_an_undecided_duel_goes_on_as_long_as_there_is_time(room: float, blocks: int) -> None:
    case = Blocks({}, plays("A", [], noise=0.05), plays("B", []), 1.0)
    play_until_decided(
        [case], "geom", (8, 16), has_time=lambda done, look: look / done <= room, on_block=lambda *_: None
    )
    assert case.case.blocks == blocks
