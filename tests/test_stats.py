"""The statistics behind decisions, checked by enumeration, by simulation and for symmetry."""

import itertools
import math
import random
from collections.abc import Callable
from functools import partial

import pytest
from pydantic import ValidationError

from harness.records.stats import (
    DUEL_LOOKS,
    MIN_PAIRS,
    TIE,
    Interval,
    _signed_rank_skip,
    beats,
    duel_interval,
    fewest_blocks,
    is_decided,
    is_faster,
    ratio_interval,
    score,
    stalls,
    tapered_mean,
    tied,
    trimmed_mean,
)
from harness.referee.sampling import SAMPLES, WARMUPS, Blocks, Windows, play_until_decided
from tests.properties import given, settings, st

ratios = st.lists(st.floats(0.1, 10), min_size=1, max_size=20)
times = st.floats(0.5, 500)
calmly = settings(deadline=None, derandomize=True, max_examples=60, database=None)


def exact(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)


def about(value: float, error: float) -> Interval:
    return Interval(value=value, low=value / (1 + error), high=value * (1 + error))


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    return about(draw(times), draw(st.floats(0, 0.2)))


def skip_by_enumeration(n: int) -> int:
    """The largest k with P(W <= k) <= 2.5 %, over all 2^n assignments of signs to the ranks; 0 if there is none."""
    sums = [sum(signs) for signs in itertools.product(*((0, rank) for rank in range(1, n + 1)))]
    fitting = [k for k in range(n * (n + 1) // 2) if sum(w <= k for w in sums) <= 0.025 * len(sums)]
    return max(fitting, default=0)


def counts_of_sums(n: int) -> list[int]:
    counts = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for w in range(len(counts) - 1, rank - 1, -1):
            counts[w] += counts[w - rank]
    return counts


@pytest.mark.parametrize("n", range(1, 11))
def test_the_signed_rank_skip_matches_an_enumeration(n: int) -> None:
    assert _signed_rank_skip(n) == skip_by_enumeration(n)


@pytest.mark.parametrize("n", [65, 80, 120])
def test_the_approximation_for_many_pairs_covers_95_percent_and_is_nearly_exact(n: int) -> None:
    tails = list(itertools.accumulate(counts_of_sums(n)))
    right = max(k for k, tail in enumerate(tails) if 40 * tail <= 2**n)
    assert right - 3 <= _signed_rank_skip(n) <= right


def test_every_sample_of_a_run_counts_and_the_outer_ones_a_tenth() -> None:
    quick = [10.0] * 8
    assert tapered_mean([*quick, 10.0, 16.4]) == pytest.approx(10.1)
    assert tapered_mean([*quick, 16.4, 16.4]) == pytest.approx(10.2)
    assert tapered_mean([*quick[1:], 16.4, 16.4, 16.4]) == pytest.approx(10 + 0.2 + 1), "a third one counts in full"
    assert tapered_mean([3.6, 10.0, *quick]) == pytest.approx(9.9), "fast calls do not count more than slow ones"
    assert tapered_mean([1.0, 2.0, 2.0, 2.0, 2.0, 13.6]) == pytest.approx((8 + 1.46) / 4.2)


@calmly
@given(st.lists(st.floats(1, 1e7), min_size=10, max_size=10))
def test_the_samples_of_a_run_take_at_most_64_times_its_time(samples: list[float]) -> None:
    assert sum(samples) <= 64 * tapered_mean(samples) * (1 + 1e-9)


def test_by_method_4_two_slow_calls_of_ten_are_noise_and_a_third_counts() -> None:
    quick = [10.0] * 8
    assert trimmed_mean([*quick, 1e6, 1e6]) == 10.0
    assert trimmed_mean([*quick[1:], 16.0, 1e6, 1e6]) == 11.0
    assert trimmed_mean([1.0, 1.0, *quick]) == 10.0, "two calls that were too quick do not count either"


def test_a_call_ten_times_and_fifty_milliseconds_slower_is_a_stall() -> None:
    assert stalls([100.0] * 9 + [50_101.0]) and stalls([10_000.0] * 9 + [100_001.0])
    assert not stalls([100.0] * 9 + [50_100.0]), "a short kernel may wait for a core"
    assert not stalls([10_000.0] * 9 + [100_000.0])
    assert not stalls([1e6, 5e6])


@pytest.mark.parametrize("samples", [[3.0], [1.0, 5.0], [9.0, 1.0, 2.0, 3.0, 4.0]])
def test_few_samples_have_a_mean_too(samples: list[float]) -> None:
    assert trimmed_mean(samples) == pytest.approx(3.0)
    assert tapered_mean(samples) == pytest.approx(3.0 if len(samples) < 5 else (9 + 1) / 3.2)


def test_six_pairs_are_the_fewest_that_cover_95_percent() -> None:
    assert 2 / 2**MIN_PAIRS <= 0.05 < 2 / 2 ** (MIN_PAIRS - 1)


def test_thousands_of_pairs_do_not_overflow() -> None:
    assert _signed_rank_skip(5000) > 0


def normal(noise: random.Random) -> float:
    return noise.gauss(0, 0.02)


def with_stalls(noise: random.Random) -> float:
    """Symmetric, because either side of a pair may stall; heavy, because stalls are long."""
    stall = noise.choice((-1, 1)) * noise.expovariate(3) if noise.random() < 0.1 else 0
    return noise.gauss(0, 0.01) + stall


@pytest.mark.parametrize("n", [6, 8, 16])
@pytest.mark.parametrize("error", [normal, with_stalls])
def test_the_interval_covers_the_truth_in_95_percent_of_simulations(
    n: int, error: Callable[[random.Random], float]
) -> None:
    noise, runs, covered = random.Random(4242), 1500, 0
    for _ in range(runs):
        interval = ratio_interval([0.8 * math.exp(error(noise)) for _ in range(n)])
        covered += interval.low <= 0.8 <= interval.high
    assert covered / runs > 0.94


def looked_at(
    noise: random.Random, error: Callable[[random.Random], float], truth: float = 1, earlier: int = 0
) -> Interval:
    """A duel's ratio, block after block, until a look decides."""
    ratios: list[float] = []
    for look in (look for look in DUEL_LOOKS if look >= fewest_blocks(earlier)):
        ratios += [truth * math.exp(error(noise)) for _ in range(look - len(ratios))]
        ratio = duel_interval(ratios, earlier)
        if is_decided(ratio):
            break
    return ratio


@pytest.mark.parametrize("error", [normal, with_stalls])
def test_repeated_looks_give_an_equal_challenger_no_extra_chance(error: Callable[[random.Random], float]) -> None:
    noise, runs = random.Random(9173), 2000
    ratios = [looked_at(noise, error) for _ in range(runs)]
    assert sum(map(is_faster, ratios)) / runs < 0.025
    assert sum(ratio.low > 1 or ratio.high < 1 for ratio in ratios) / runs < 0.05


def test_an_author_with_an_equal_file_does_not_win_one_of_many_duels_by_luck() -> None:
    noise, authors, duels = random.Random(5511), 120, 20
    wins = [any(is_faster(looked_at(noise, normal, earlier=n)) for n in range(duels)) for _ in range(authors)]
    assert sum(wins) / authors < 0.1


@pytest.mark.parametrize(("earlier", "blocks"), [(0, 8), (1, 10), (9, 14), (1000, 28)])
def test_a_later_duel_needs_blocks_enough_for_its_confidence(earlier: int, blocks: int) -> None:
    error = 0.0125 / (earlier + 1) ** 2
    assert fewest_blocks(earlier) == blocks and 2 * 0.5**blocks <= error
    assert blocks == DUEL_LOOKS[0] or 2 * 0.5 ** (blocks - 1) > error


def test_a_much_faster_file_wins_its_hundredth_duel() -> None:
    noise = random.Random(2146)
    won = sum(is_faster(looked_at(noise, lambda noise: noise.gauss(0, 0.08), 0.9, 99)) for _ in range(300))
    assert won / 300 >= 0.95


def test_a_gain_of_10_percent_wins_95_percent_of_noisy_duels() -> None:
    noise, runs = random.Random(2146), 2000
    won = sum(is_faster(looked_at(noise, lambda noise: noise.gauss(0, 0.08), 0.9)) for _ in range(runs))
    assert won / runs >= 0.95


@pytest.mark.parametrize(
    ("low", "value", "high", "decided"),
    [(0.8, 0.9, 0.99, True), (1.01, 1.1, 1.2, True), (0.995, 1.0, 1.005, True), (0.98, 1.0, 1.02, False),
     (0.985, 0.995, 0.999, False), (0.995, 1.02, 1.05, False)],
)  # fmt: skip
def test_a_duel_goes_on_until_one_is_faster_or_neither_can_be(
    low: float, value: float, high: float, decided: bool
) -> None:
    ratio = Interval(value=value, low=low, high=high)
    assert is_decided(ratio) is is_decided(ratio.inverse) is decided


def share_of_won_duels(ours_us: float, theirs_us: float, duels: int) -> float:
    """The share of won duels, run by run, on a machine where speed drifts, runs differ, and calls stall."""
    noise, speed = random.Random(54352), 1.0

    def play(truth_us: float, order: int) -> Windows:
        nonlocal speed
        speed *= math.exp(noise.gauss(0, 0.01))
        this_run_us = truth_us * speed * math.exp(noise.gauss(0, 0.03))
        stalls_us = [noise.expovariate(1 / 4000) if noise.random() < 0.05 else 0 for _ in range(WARMUPS + SAMPLES)]
        windows_us = tuple(120 + this_run_us * math.exp(noise.gauss(0, 0.05)) + stall_us for stall_us in stalls_us)
        return Windows(windows_us=windows_us, seeds=tuple(range(len(windows_us))))

    won = 0
    for _ in range(duels):
        sides = partial(play, ours_us), partial(play, theirs_us)
        blocks = Blocks({}, *sides, 120)
        won += is_faster(
            play_until_decided([blocks], "geom", DUEL_LOOKS, has_time=lambda *_: True, on_block=lambda *_: None)
        )
    return won / duels


def test_an_equal_challenger_rarely_wins_a_duel_and_a_faster_one_nearly_always() -> None:
    assert share_of_won_duels(500, 500, 600) < 0.05
    assert share_of_won_duels(450, 500, 400) >= 0.95


def test_one_stall_among_six_runs_does_not_move_the_estimate() -> None:
    calm = ratio_interval([0.79, 0.8, 0.8, 0.8, 0.8, 0.81])
    stalled = ratio_interval([0.79, 0.8, 0.8, 0.8, 0.8, 8.0])
    assert stalled.value == pytest.approx(calm.value, rel=0.01)


@calmly
@given(ratios, st.floats(0.01, 100))
def test_scaling_all_ratios_scales_the_interval(values: list[float], factor: float) -> None:
    scaled = ratio_interval([value * factor for value in values])
    expected = ratio_interval(values).scaled(factor)
    assert (scaled.value, scaled.low, scaled.high) == pytest.approx((expected.value, expected.low, expected.high))


@calmly
@given(ratios)
def test_inverting_all_ratios_inverts_the_interval(values: list[float]) -> None:
    there, back = ratio_interval(values), ratio_interval([1 / value for value in values])
    assert (back.value, back.low, back.high) == pytest.approx((1 / there.value, 1 / there.high, 1 / there.low))


@calmly
@given(ratios, st.randoms(use_true_random=False))
def test_the_order_of_ratios_does_not_matter(values: list[float], shuffler: random.Random) -> None:
    shuffled = shuffler.sample(values, len(values))
    assert ratio_interval(shuffled) == ratio_interval(values)


@calmly
@given(ratios)
def test_an_interval_stays_within_its_ratios(values: list[float]) -> None:
    interval = ratio_interval(values)
    assert min(values) * (1 - 1e-12) <= interval.low <= interval.value <= interval.high <= max(values) * (1 + 1e-12)


@pytest.mark.parametrize("ranking_by", ["geom", "mean", "last"])
@calmly
@given(cases=st.lists(intervals(), min_size=1, max_size=6))
def test_a_score_is_an_interval_between_the_fastest_and_the_slowest_case(
    ranking_by: str, cases: list[Interval]
) -> None:
    result = score(cases, ranking_by)
    assert min(case.low for case in cases) * (1 - 1e-9) <= result.low
    assert result.high <= max(case.high for case in cases) * (1 + 1e-9)


@pytest.mark.parametrize(("ranking_by", "expected"), [("geom", 20.0), ("mean", 22.5), ("last", 40.0)])
def test_ranking_by_decides_how_a_score_is_computed(ranking_by: str, expected: float) -> None:
    cases = [exact(10.0), exact(40.0)] if ranking_by != "mean" else [exact(5.0), exact(40.0)]
    assert score(cases, ranking_by).value == pytest.approx(expected)


def test_errors_of_independent_cases_add_in_squares() -> None:
    assert score([about(10, 0.02)] * 4, "geom").log_half_width == pytest.approx(math.log(1.02) / 2)


@pytest.mark.parametrize(
    ("a", "b", "is_tied"),
    [
        (exact(100), exact(100), True),
        (exact(100), exact(100 * (1 + TIE) - 0.01), True),
        (exact(100), exact(100 * (1 + TIE) + 0.01), False),
        (about(100, 0.03), exact(102), True),
        (about(100, 0.03), about(104, 0.03), True),
        (about(100, 0.03), about(105, 0.03), False),
    ],
)
def test_times_tie_within_one_percent_or_within_their_intervals(a: Interval, b: Interval, is_tied: bool) -> None:
    assert tied(a, b) is is_tied
    assert beats(a, b) is not is_tied


@calmly
@given(intervals(), intervals())
def test_two_times_are_either_tied_or_one_beats_the_other(a: Interval, b: Interval) -> None:
    assert tied(a, b) == tied(b, a)
    assert tied(a, b) + beats(a, b) + beats(b, a) == 1


@pytest.mark.parametrize(
    ("low", "value", "high", "wins"),
    [
        (0.95, 0.97, 0.99, True),
        (0.9, 0.97, 1.0, False),  # the interval reaches 1
        (0.9949, 0.995, 0.9951, False),  # certain, but too small
        (0.98, 0.99, 0.9999, True),
        (1.01, 1.02, 1.03, False),
    ],
)
def test_winning_a_duel_takes_a_sure_gain_of_one_percent(low: float, value: float, high: float, wins: bool) -> None:
    assert is_faster(Interval(value=value, low=low, high=high)) is wins


@pytest.mark.parametrize(
    "numbers",
    [(1.0, 1.1, 1.2), (1.0, 0.5, 0.9), (0.0, 0.0, 0.0), (math.nan, 1.0, 1.0), (1.0, 1.0, math.inf), (-1, -2, -0.5)],
)
def test_an_interval_is_positive_finite_and_ordered(numbers: tuple[float, float, float]) -> None:
    value, low, high = numbers
    with pytest.raises(ValidationError):
        Interval(value=value, low=low, high=high)


def test_a_duel_plays_all_cases_look_by_look_and_announces_each_block() -> None:
    played, heard = [], []

    def play(name: str, us: float, order: int) -> Windows:
        played.append((name, order))
        return Windows(windows_us=(us,) * (WARMUPS + SAMPLES), seeds=tuple(range(WARMUPS + SAMPLES)))

    cases = [Blocks({"n": n}, partial(play, f"A{n}", 100), partial(play, f"B{n}", 100), 1) for n in (1, 2)]
    flipping = iter([1.2, 1.2, 0.8, 0.8] * 100)
    cases.append(Blocks({"n": 3}, lambda order: play("A3", 100 * next(flipping), order), partial(play, "B3", 100), 1))
    ratio = play_until_decided(
        cases, "last", (8, 10, 12), has_time=lambda done, look: look / done > 1.2, on_block=lambda *at: heard.append(at)
    )
    assert not is_decided(ratio)
    assert [case.case.blocks for case in cases] == [10, 10, 10]
    assert heard == [*((done, 24) for done in range(24)), *((done, 30) for done in range(24, 30))]
    assert [name for name, _ in played[:8]] == ["A1", "B1", "B1", "A1"] * 2
    assert [order for name, order in played if name == "B2"] == [4 * b + place for b in range(10) for place in (1, 2)]
