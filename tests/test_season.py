"""A made-up season: valid judgements, everything that a leaderboard can hold, the same from the same seed."""

import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.lighthouse import season_site
from benchmarks.paint import telling_pages
from harness.records.errors import PullRankError
from harness.records.verdict import Verdict
from scripts.ledger.moderation import Moderated
from scripts.pages.publishing.load import boards_of, ranked
from tests.season.__main__ import main
from tests.season.season import END, Season, Size, make_season

SMALL = Size(tasks=8, gpus=5, authors=30, judgements=400)


@pytest.fixture(scope="module")
def season(tmp_path_factory: pytest.TempPathFactory) -> Season:
    return make_season(tmp_path_factory.mktemp("season") / "one", SMALL)


def test_every_file_in_the_seasons_ledger_is_a_readable_judgement(season: Season) -> None:
    contents = season.ledger.judgements()
    assert not contents.faults
    assert 300 < len(contents.judgements) < 500
    assert {one.verdict for one in contents.judgements} == {Verdict.ACCEPTED, Verdict.WRONG_ANSWER}


def test_unsteady_judgements_come_only_from_busy_machines(season: Season) -> None:
    judgements = season.ledger.judgements().judgements
    unsteady = [one for one in judgements if any(case.timing and not case.timing.steady for case in one.benchmarks)]
    assert unsteady and not any(one.machine.quiet for one in unsteady)


def test_the_season_has_every_judged_file_by_its_digest(season: Season) -> None:
    for judgement in season.ledger.judgements().judgements:
        source = season.source_of(judgement)
        assert source and hashlib.sha256(source.encode()).hexdigest() == judgement.submission.digest


def test_the_season_has_ties_duels_editions_records_and_an_empty_board(season: Season) -> None:
    files = boards_of(season.tasks, season.ledger, [])
    boards = [
        ranked(one, season.ledger, Moderated(), judges=lambda _: True, allow_unwalled=False, now=END).table
        for one in files
    ]
    rows = [row for board in boards for row in board.rows]
    assert len(boards) == 40 and any(not board.rows for board in boards)
    assert any(len({row.band for row in board.rows}) < len(board.rows) for board in boards)
    assert any(board.earlier_editions for board in boards) and any(board.unranked for board in boards)
    duels = [one.duel for row in rows for one in row.judgements if one.duel]
    assert {duel.won for duel in duels} == {True, False}
    assert sum(len(board.records) for board in boards) > len(boards)
    assert any(task.deadline is None for task in season.tasks)


def test_an_earlier_edition_has_its_own_duels(tmp_path: Path) -> None:
    made = make_season(tmp_path / "one", Size(tasks=2, gpus=1, authors=40, judgements=200))
    (board,) = made.tasks[1].boards
    earlier = [
        one for one in made.ledger.judgements(board.task.name).judgements if one.edition != board.edition and one.duel
    ]
    assert any(one.duel and one.duel.won for one in earlier)
    judged_then = {one.submission.digest for one in made.ledger.judgements().judgements if one.edition != board.edition}
    assert {one.duel.opponent_digest for one in earlier if one.duel} <= judged_then


def test_only_the_same_seed_makes_the_same_bytes(season: Season, tmp_path: Path) -> None:
    size = Size(tasks=2, gpus=2, authors=8, judgements=12)
    found = []
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        make_season(tmp_path / name, size, seed)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        found.append({path.relative_to(tmp_path / name): path.read_bytes() for path in files})
    assert found[0] == found[1] != found[2]


def test_the_season_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(PullRankError, match="not empty"):
        make_season(tmp_path, SMALL)


def test_the_season_command_builds_its_site(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    ran = CliRunner().invoke(main, [str(folder), "--judgements", "60", "--authors", "8"])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.startswith(f"{folder / '_site'}: ")
    assert (folder / "_site" / "matmul" / "H100" / "index.html").is_file()


def test_lighthouse_without_a_site_gets_the_seasons_own(tmp_path: Path) -> None:
    site = season_site(tmp_path / "one", "--judgements", "60", "--authors", "8")
    pages = telling_pages(site)
    assert list(pages) == ["landing", "board", "submission"]
    assert all((site / page).is_file() for page in pages.values())
