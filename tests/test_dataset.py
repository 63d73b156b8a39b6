"""`pullrank dataset`: which submissions it publishes, and that both files hold the same."""

import json
import re
import subprocess
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from scripts.cli import run
from scripts.competition.settings import SETTINGS, DataSet
from scripts.ledger.ledger import LedgerError
from scripts.ledger.moderation import Action, Moderation
from scripts.pages.parts.site import Site
from scripts.pages.publishing.dataset import DataSetReport, write_dataset
from scripts.pages.publishing.publish import build_site
from tests.season.season import END, Season, Size, make_season
from tests.test_results import parquet

ALLOWED = "\ndataset: {license: CC-BY-4.0, without: [mallory]}\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Season]:
    folder = tmp_path_factory.mktemp("season")
    season = make_season(folder, Size(tasks=2, gpus=2, authors=5, judgements=60), seed=3)
    for file in (folder / "tasks").glob("*/task.yml"):
        file.write_text(re.sub(r"(?m)^deadline: .*\n", "", file.read_text()))
    return folder, replace(season, tasks=tuple(replace(task, deadline=None) for task in season.tasks))


def write(season: Season, out: Path, *, now: datetime = END, without: tuple[str, ...] = ()) -> DataSetReport:
    settings = DataSet(license="CC-BY-4.0", without=without)
    return write_dataset(season.tasks, season.ledger, out, sources=season.source_of, settings=settings, now=now)


def lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "ranked.jsonl").read_text().splitlines()]


def competing(season: Season) -> list[Judgement]:
    """The accepted judgements without those of baselines, which the data set leaves out."""
    found = [one for one in season.ledger.judgements().judgements if one.verdict is Verdict.ACCEPTED]
    ranked = [one for one in found if not one.baseline]
    assert len(ranked) < len(found)
    return ranked


def test_each_ranked_judgement_has_a_line_with_its_code_and_times(made: tuple[Path, Season], tmp_path: Path) -> None:
    season = made[1]
    report = write(season, tmp_path)
    accepted = competing(season)
    assert report.rows == len(lines(tmp_path)) == len(accepted) and not report.left_out
    by_moment = {(one.finished_at, one.gpu, one.submission.digest): one for one in accepted}
    for line in lines(tmp_path):
        judgement = by_moment[datetime.fromisoformat(line["finished_at"]), line["gpu"], line["digest"]]
        assert line["code"] == season.source_of(judgement)
        assert line["software"] == judgement.machine.versions and line["license"] == "CC-BY-4.0"
        assert [case["params"] for case in line["cases"]] == [dict(case.params) for case in judgement.benchmarks]
        assert [case["time_us"] for case in line["cases"]] == [case.time_us for case in judgement.benchmarks]
        assert line["low_us"] <= line["score_us"] <= line["high_us"]


def test_parquet_has_the_same_rows_with_types(made: tuple[Path, Season], tmp_path: Path) -> None:
    write(made[1], tmp_path)
    types, rows = parquet(tmp_path, "ranked")
    assert types["score_us"] == "DOUBLE" and "TIMESTAMP" in types["finished_at"]
    for row, line in zip(rows, lines(tmp_path), strict=True):
        assert json.loads(row["cases"]) == line["cases"] and json.loads(row["software"]) == line["software"]
        same = ("task", "gpu", "edition", "login", "digest", "language", "score_us", "claim", "device", "code")
        assert all(row[name] == line[name] for name in same)


def test_open_tasks_unmerged_files_removed_results_and_chosen_authors_are_left_out(tmp_path: Path) -> None:
    season = make_season(tmp_path / "season", Size(tasks=2, gpus=2, authors=5, judgements=60), seed=3)
    accepted = competing(season)
    first, second = season.tasks
    season = replace(season, tasks=(replace(first, deadline=END), replace(second, deadline=None)))
    report = write(season, tmp_path, now=END - timedelta(seconds=1))
    assert {line["task"] for line in lines(tmp_path)} == {second.name}
    assert report.left_out == {"of tasks that are still open": sum(one.task == first.name for one in accepted)}
    assert sum(report.left_out.values()) + report.rows == len(accepted)

    login = accepted[0].submission.login
    theirs = [one for one in accepted if one.submission.login == login]
    report = write(season, tmp_path, without=(login.upper(),))
    assert report.left_out == {"of authors who are left out": len(theirs)}
    assert login not in {line["login"] for line in lines(tmp_path)}

    gone = season.sources.pop(accepted[0].submission.digest)
    same_file = [one for one in accepted if one.submission.digest == accepted[0].submission.digest]
    report = write(season, tmp_path)
    assert report.left_out == {"whose file was not merged": len(same_file)}
    assert gone not in {line["code"] for line in lines(tmp_path)}

    facts = {"judgement": accepted[-1].checksum, "reason": "It copies.", "by": 1, "at": END}
    season.ledger.append_fact(Moderation(id="one", action=Action.DISQUALIFY, **facts))
    write(season, tmp_path)
    assert accepted[-1].submission.digest not in {line["digest"] for line in lines(tmp_path)}, "not on any board"


def test_an_unreadable_decision_keeps_the_data_set_from_being_written(tmp_path: Path) -> None:
    season = make_season(tmp_path / "season", Size(tasks=1, gpus=1, authors=3, judgements=10), seed=3)
    (tmp_path / "season/ledger/moderation").mkdir()
    (tmp_path / "season/ledger/moderation/torn.json").write_text("{")
    with pytest.raises(LedgerError, match=r"nothing is written, as this decision cannot be read: .*torn\.json"):
        write(season, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_author_who_is_left_out_stays_so_under_an_older_login(tmp_path: Path) -> None:
    season = make_season(tmp_path / "season", Size(tasks=1, gpus=1, authors=3, judgements=20), seed=3)
    season = replace(season, tasks=tuple(replace(task, deadline=None) for task in season.tasks))
    *_, last = (one for one in season.ledger.judgements().judgements if one.verdict is Verdict.ACCEPTED)
    renamed = last.submission.model_copy(update={"login": "renamed-sample"})
    newest = last.model_copy(update={"submission": renamed, "finished_at": last.finished_at + timedelta(minutes=1)})
    season.ledger.append(newest, "renamed-1")
    write(season, tmp_path, without=("renamed-sample",))
    assert lines(tmp_path)
    assert {"renamed-sample", last.submission.login}.isdisjoint(line["login"] for line in lines(tmp_path))


def test_an_author_is_left_out_under_a_login_of_which_nothing_counts(tmp_path: Path) -> None:
    season = make_season(tmp_path / "season", Size(tasks=1, gpus=1, authors=3, judgements=20), seed=3)
    season = replace(season, tasks=tuple(replace(task, deadline=None) for task in season.tasks))
    last = competing(season)[-1]
    renamed = last.submission.model_copy(update={"login": "renamed-sample", "digest": "0" * 64})
    newest = last.model_copy(update={"submission": renamed, "finished_at": last.finished_at + timedelta(minutes=1)})
    season.ledger.append(newest, "renamed-1")
    facts = {"judgement": newest.checksum, "reason": "It copies.", "by": 1, "at": END}
    season.ledger.append_fact(Moderation(id="one", action=Action.DISQUALIFY, **facts))
    write(season, tmp_path, without=("renamed-sample",))
    assert lines(tmp_path) and last.submission.login not in {line["login"] for line in lines(tmp_path)}


def test_a_file_that_was_removed_from_a_board_stays_left_out_without_the_board(tmp_path: Path) -> None:
    season = make_season(tmp_path / "season", Size(tasks=1, gpus=2, authors=5, judgements=60), seed=3)
    (task,) = season.tasks
    accepted = competing(season)
    one = next(one for one in accepted if one.gpu == task.gpus[1])
    elsewhere = one.model_copy(update={"gpu": task.gpus[0], "finished_at": one.finished_at + timedelta(minutes=1)})
    season.ledger.append(elsewhere, "elsewhere-1")
    season = replace(season, tasks=(replace(task, gpus=task.gpus[:1], deadline=None),))
    write(season, tmp_path)
    assert one.submission.digest in {line["digest"] for line in lines(tmp_path)}
    facts = {"judgement": one.checksum, "reason": "It copies.", "by": 1, "at": END}
    season.ledger.append_fact(Moderation(id="one", action=Action.DISQUALIFY, **facts))
    write(season, tmp_path)
    assert one.submission.digest not in {line["digest"] for line in lines(tmp_path)}


def test_the_command_needs_the_licence_in_the_settings(
    made: tuple[Path, Season], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, season = made
    words = ["dataset", "--ledger", str(folder / "ledger"), "--tasks", str(folder / "tasks"), "--out", str(tmp_path)]
    assert run(words) == 2
    assert f"{SETTINGS} does not allow it: add `dataset: {{license: Apache-2.0}}`" in capsys.readouterr().err
    settings = folder / SETTINGS
    text = settings.read_text()
    settings.write_text(text + ALLOWED)
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    try:
        assert run([*words, "--json"]) == 0
    finally:
        settings.write_text(text)
    told = json.loads(capsys.readouterr().out)
    newest = {path.read_text() for path in (folder / "submissions").glob("*/*/submission.*")}
    assert told["rows"] == len(lines(tmp_path)) > 0
    assert {line["code"] for line in lines(tmp_path)} <= newest
    assert told["left_out"]["whose file was not merged"] > 0
    assert sum(told["left_out"].values()) + told["rows"] == write(season, tmp_path).rows


@pytest.mark.parametrize("named", ["", "CC-BY-4.0"])
def test_the_pages_of_boards_tell_authors_the_licence(made: tuple[Path, Season], tmp_path: Path, named: str) -> None:
    season = made[1]
    dataset = DataSet(license=named) if named else None
    settings = season.settings.model_copy(update={"dataset": dataset})
    build_site(season.tasks, season.ledger, tmp_path / "_site", Site.of(settings, sources=season.source_of, now=END))
    page = next((tmp_path / "_site").glob("*/H100/index.html")).read_text()
    told = re.findall(r"You submit under the licence (\S+): the code of ranked files", page)
    assert told == ([named] if named else [])
