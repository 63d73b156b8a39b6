"""First place after a leader's result was withdrawn, held or disqualified, and what any addition must not change."""

import random
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest

from harness.records.judgement import Judgement
from harness.records.stats import beats, is_won
from harness.records.times import Duel, DuelCase, duel_ratio
from harness.task.task import Board
from scripts.ledger.moderation import Action, Moderated, Moderation
from scripts.standings.standings import Standings, podiums, standings
from tests.test_standings import START, Event, board, digest, judged, run, season

ADA, CY = Event("ada", "a", 0.5), Event("cy", "c", 0.495)
BOB = Event("bob", "b", 0.497, duel=("ada", "a", 0.985))
DEE = Event("dee", "d", 0.49, duel=("bob", "b", 0.98))


def ledger(events: list[Event], on: Board) -> list[Judgement]:
    """Judgements with checksums."""
    made = [judged(event, minute, on) for minute, event in enumerate(events)]
    return [one.model_copy(update={"checksum": f"{number:064x}"}) for number, one in enumerate(made)]


def removals(judgements: list[Judgement], logins: Collection[str], action: Action) -> dict[str, Moderation]:
    """The decisions in force after all judgements of some authors were removed."""
    decisions = [
        Moderation.about(one, action, id=f"{action}-{number}", reason="r", by=7, at=START + timedelta(days=1))
        for number, one in enumerate(judgements)
        if one.submission.login in logins
    ]
    return Moderated.after(decisions).removed(judgements)


def season_without(
    events: list[Event], withdrawn: Collection[str] = (), disqualified: Collection[str] = (), on: Board | None = None
) -> Standings:
    on = on or board()
    judgements = ledger(events, on)
    removed = removals(judgements, withdrawn, Action.WITHDRAW)
    return standings(on, judgements, removed | removals(judgements, disqualified, Action.DISQUALIFY))


def logins(table: Standings) -> list[str]:
    return [row.login for row in table.rows]


@pytest.mark.parametrize("action", [Action.WITHDRAW, Action.DISQUALIFY, Action.HOLD])
def test_the_winner_of_a_duel_stays_first_if_its_loser_no_longer_counts(action: Action) -> None:
    """cy was judged in between and beat nobody: with ada gone, its entry is the earliest, and bob's time is no better."""
    judgements = ledger([ADA, CY, BOB], board())
    removed = removals(judgements, ["ada"], action)
    table = standings(board(), judgements, removed)
    assert logins(table) == ["bob", "cy"] and table.rows[0].champion
    assert [record.login for record in table.records] == ["cy", "bob"]
    assert [record.gain for record in table.records] == [None, 0.0], "bob won no duel with cy"
    assert [podium.rows[0].login for podium in podiums(board(), judgements, removed)] == ["cy", "bob"]


@pytest.mark.parametrize(
    ("withdrawn", "disqualified", "first"),
    [
        ("", "", "dee"),
        ("ada", "", "dee"),
        ("bob", "", "dee"),
        ("ada bob", "", "dee"),
        ("dee", "", "bob"),
        ("dee bob", "", "ada"),
        ("dee bob ada", "", "cy"),
        ("", "ada", "dee"),
        ("", "bob", "ada"),
        ("", "dee", "bob"),
        ("bob", "ada", "dee"),
        ("ada", "bob", "cy"),
        ("dee", "ada", "bob"),
    ],
)
def test_first_place_in_a_chain_of_three_duels(withdrawn: str, disqualified: str, first: str) -> None:
    """The duels that a disqualified file won are void; those that a withdrawn file won, or any file lost, are not."""
    table = season_without([ADA, CY, BOB, DEE], withdrawn.split(), disqualified.split())
    assert table.rows[0].login == first and table.rows[0].champion
    assert table.records[-1].login == first


def test_who_beat_a_cheat_must_duel_the_one_who_has_first_place_back() -> None:
    events = [ADA, Event("bob", "b", 0.45, ("ada", "a", 0.9)), Event("dee", "d", 0.4, ("bob", "b", 0.9))]
    table = season_without(events, disqualified=["bob"])
    assert [(row.login, row.contends) for row in table.rows] == [("ada", False), ("dee", True)]
    assert table.rows[1].note == "looks faster; it last played bob, and its duel with ada is due"


def test_a_duel_with_the_next_in_line_counts_after_the_leader_withdrew() -> None:
    eve = Event("eve", "e", 0.4, duel=("ada", "a", 0.8))
    table = season_without([ADA, BOB, eve], withdrawn=["bob"])
    assert logins(table) == ["eve", "ada"]
    assert table.records[-1].gain == pytest.approx(0.2)
    default = Event("eve", "e", 0.4, duel=("cy", "c", 0.8))
    assert logins(season_without([ADA, CY, default], withdrawn=["ada"])) == ["eve", "cy"]


def test_first_place_is_won_from_a_withdrawn_authors_better_file_only() -> None:
    events = [ADA, Event("ada", "a2", 0.4), CY, Event("bob", "b", 0.39, duel=("ada", "a", 0.8))]
    assert season_without(events, withdrawn=["ada"]).rows[0].login == "cy"
    events.append(Event("bob", "b", 0.39, duel=("ada", "a2", 0.98)))
    assert season_without(events, withdrawn=["ada"]).rows[0].login == "bob"


def test_an_author_wins_first_place_back_from_a_file_that_is_withdrawn_later() -> None:
    """The winning file takes the row, though its score only ties with the author's first one."""
    table = season_without([ADA, BOB, Event("ada", "a2", 0.499, duel=("bob", "b", 0.98))], withdrawn=["bob"])
    assert [(row.login, row.digest) for row in table.rows] == [("ada", digest("a2"))]
    again = season_without([ADA, BOB, Event("ada", "a", 0.5, duel=("bob", "b", 0.98))], withdrawn=["bob"])
    assert [record.digest for record in again.records] == [digest("a")]


def test_a_file_that_lost_to_a_withdrawn_one_is_passed_over() -> None:
    fast = Event("ada", "a", 0.4)
    events = [fast, Event("bob", "b", 0.45, ("ada", "a", 0.95)), Event("ada", "a2", 0.44, ("bob", "b", 0.95))]
    assert season_without(events, withdrawn=["bob"]).rows[0].digest == digest("a2")


def test_a_withdrawn_file_that_is_judged_again_counts_as_before() -> None:
    judgements = ledger([ADA, CY, BOB, Event("ada", "a", 0.5)], board())
    removed = removals(judgements[:3], ["ada"], Action.WITHDRAW)
    assert removed
    now = Moderated.after(removed.values()).removed(judgements)
    assert not now and logins(standings(board(), judgements, now))[0] == "bob"


def test_a_provisional_file_wins_nothing_even_if_it_is_withdrawn() -> None:
    wild = Event("bob", "b", 0.4, duel=("ada", "a", 0.8), noise=0.6)
    events = [ADA, wild, Event("dee", "d", 0.49, duel=("bob", "b", 0.9))]
    assert season_without(events, withdrawn=["bob"]).rows[0].login == "ada"


def test_a_withdrawal_in_an_earlier_edition_changes_nothing_in_this_one() -> None:
    old = Event("ada", "a", 0.5, more={"edition": "1" * 64})
    table = season_without([old, CY, Event("bob", "b", 0.4, ("ada", "a", 0.8))], withdrawn=["ada"])
    assert table.rows[0].login == "cy" and not table.earlier_editions


def test_removed_judgements_are_not_counted_as_unranked() -> None:
    assert season_without([ADA, BOB], withdrawn=["ada"]).unranked == 0


def test_with_the_mean_other_files_do_not_weight_the_benchmarks_anew() -> None:
    """With weights of 1 to 4, ada's second file was no better than the first, and bob's duel with it for nothing."""
    events = [
        Event("ada", "a", (0.5, 0.5)),
        Event("ada", "a2", (0.3, 0.6)),
        Event("bob", "b", (0.29, 0.58), duel=("ada", "a2", 0.96)),
    ]
    slow = [Event(f"slow{number}", f"s{number}", 0.9, anchor_us=(50.0, 200.0)) for number in range(4)]
    table = season([*events, *slow], board(1024, 2048, ranking_by="mean"))
    assert [(row.login, row.digest) for row in table.rows[:2]] == [("bob", digest("b")), ("ada", digest("a2"))]
    assert table.nominal_us == pytest.approx((125, 125)), "the microseconds still follow the machine"


def random_ledger(noise: random.Random, on: Board) -> list[Event]:
    """Random judgements, with duels against the leader or, as if another had just taken its place, a former one."""
    events: list[Event] = []
    leaders: list[tuple[str, str]] = []
    for _ in range(noise.randint(4, 9)):
        event = random_event(noise, on, noise.choice("abcdef"), leaders)
        events.append(event)
        first = standings(on, ledger(events, on)).champion
        if first:
            file = next(one.file for one in events if digest(one.file) == first.digest)
            leaders.append((first.login, file))
    return events


def random_event(noise: random.Random, on: Board, login: str, leaders: list[tuple[str, str]]) -> Event:
    opponents = [one for one in [*leaders[-1:] * 4, *leaders] if one[0] != login]
    return Event(
        login,
        login + noise.choice("12"),
        tuple(noise.uniform(0.4, 0.5) for _ in on.benchmarks),
        (*noise.choice(opponents), noise.uniform(0.95, 1.01)) if opponents and noise.random() < 0.8 else None,
        noise=noise.choice([0.001, 0.02, 0.05, 0.2]),
        anchor_us=tuple(noise.uniform(50, 200) for _ in on.benchmarks),
    )


def first_of(table: Standings) -> tuple[str, str] | None:
    return (table.champion.login, table.champion.digest) if table.champion else None


@pytest.mark.parametrize("ranking_by", ["geom", "mean", "last"])
def test_in_any_ledger_no_removal_takes_first_place_from_another_file(ranking_by: str) -> None:
    """Except that a maintainer's decision voids the duels that the removed files won."""
    on, noise, changes = board(1024, 2048, ranking_by=ranking_by), random.Random(7), 0
    for _ in range(30):
        judgements = ledger(random_ledger(noise, on), on)
        table = standings(on, judgements)
        winners = {record.login for record in table.records if record.cause.duel and record.cause.duel.won}
        for login in {one.submission.login for one in judgements}:
            withdrawn = standings(on, judgements, removals(judgements, [login], Action.WITHDRAW))
            disqualified = standings(on, judgements, removals(judgements, [login], Action.DISQUALIFY))
            if first_of(table) and table.rows[0].login != login:
                assert first_of(withdrawn) == first_of(table), login
                assert first_of(disqualified) == first_of(table) or login in winners, login
            changes += first_of(withdrawn) != first_of(disqualified)
    assert changes > 5


@pytest.mark.parametrize("ranking_by", ["geom", "mean", "last"])
def test_in_any_ledger_a_strangers_judgements_change_no_record_and_no_first_place(ranking_by: str) -> None:
    on, noise = board(1024, 2048, ranking_by=ranking_by), random.Random(7)
    for _ in range(30):
        events = random_ledger(noise, on)
        before = standings(on, ledger(events, on))
        strangers = [replace(random_event(noise, on, "stranger", []), anchor_us=(20.0, 300.0)) for _ in range(5)]
        after = standings(on, ledger([*events, *strangers], on))
        assert [(one.login, one.digest) for one in after.records][: len(before.records)] == [
            (one.login, one.digest) for one in before.records
        ]
        assert first_of(after) == first_of(before) or not before.champion
        theirs = {row.login: row.score_us for row in after.rows}
        for one, other in combinations(before.rows, 2):
            assert beats(one.score_us, other.score_us) == beats(theirs[one.login], theirs[other.login])


def played(opponent: str, file: str, ratio: float, blocks: int, spread: float = 0.0, earlier: int = 0) -> Duel:
    """A duel of so many blocks, whose ratios are up to `spread` above and below `ratio`."""
    runs = [
        run(100 * ratio * (1 + spread * (2 * block / (blocks - 1) - 1))) for block in range(blocks) for _ in range(2)
    ]
    case = DuelCase(params={"size": 1024}, challenger=tuple(runs), champion=(run(100.0),) * 2 * blocks)
    found = duel_ratio((case,), "geom", earlier)
    won = is_won(found, blocks, earlier)
    return Duel(opponent=opponent, opponent_digest=digest(file), cases=(case,), ratio=found, won=won, earlier=earlier)


DRAWN = played("ada", "a", 0.995, 32)
"""A duel in which neither side was faster by 1 %."""


def dueled(file: str, duel: Duel) -> Event:
    return Event("bob", file, 0.45, more={"duel": duel})


@pytest.mark.parametrize(
    ("earlier", "duel", "is_first"),
    [
        ([], played("ada", "a", 0.95, 8), True),
        ([DRAWN], played("ada", "a", 0.95, 8), False),
        ([DRAWN], played("ada", "a", 0.95, 16), True),
        ([DRAWN], played("ada", "a", 0.95, 16, earlier=1), True),
        ([DRAWN, DRAWN, DRAWN], played("ada", "a", 0.95, 16), True),
        ([DRAWN], played("ada", "a", 0.975, 16, 0.04), True),
        ([DRAWN, DRAWN, DRAWN], played("ada", "a", 0.975, 16, 0.04), False),
        ([played("ada", "a", 0.995, 8)] * 3, played("ada", "a", 0.95, 8), True),
        ([played("ada", "a", 1.05, 16)] * 3, played("ada", "a", 0.95, 8), True),
        ([played("cy", "c", 0.995, 32)] * 3, played("ada", "a", 0.95, 8), True),
    ],
)
def test_a_duel_needs_the_confidence_of_its_place_in_the_ledger(
    earlier: list[Duel], duel: Duel, is_first: bool
) -> None:
    """Several duels that are requested at once do not know of each other's results."""
    assert duel.won
    events = [ADA, *[dueled(f"b{number}", one) for number, one in enumerate(earlier)], dueled("b", duel)]
    table = season(events)
    assert [row.login for row in table.rows] == (["bob", "ada"] if is_first else ["ada", "bob"])
    others = [replace(event, login="eve") for event in events[1:-1]]
    assert season([ADA, *others, events[-1]]).rows[0].login == "bob", "each author's duels count"


def test_a_duel_that_is_not_won_in_its_place_is_due_again() -> None:
    row = season([ADA, dueled("b", DRAWN), replace(dueled("b2", played("ada", "a", 0.95, 8)), ratios=0.4)]).rows[1]
    assert row.contends and row.note == "looks faster; its duel with ada is due"


def test_a_file_whose_duel_is_not_won_in_its_place_is_passed_over_when_its_authors_other_file_wins() -> None:
    events = [ADA, dueled("b", DRAWN), replace(dueled("b2", played("ada", "a", 0.95, 8)), ratios=0.4)]
    table = season([*events, dueled("b3", played("ada", "a", 0.95, 32))])
    assert [(row.login, row.digest) for row in table.rows] == [("bob", digest("b3")), ("ada", digest("a"))]


def test_the_standings_count_an_authors_duels_without_a_result_against_the_leader() -> None:
    quick, slower, short = played("ada", "a", 0.95, 8), played("ada", "a", 1.05, 16), played("ada", "a", 0.995, 8)
    events = [ADA, *(dueled("b", duel) for duel in (DRAWN, slower, short, played("cy", "c", 0.995, 32)))]
    assert (season(events).undecided_duels("Bob"), season(events).undecided_duels("eve")) == (1, 0)
    assert season([*events, dueled("b", quick)]).undecided_duels("bob") == 2, "its win was not enough"
    assert season([]).undecided_duels("bob") == 0
