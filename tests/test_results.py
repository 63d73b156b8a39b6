"""All rows of all boards as tables, read back by an independent reader."""

import csv
import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.records.fields import CaseKind
from harness.records.judgement import CaseResult, Judgement
from harness.records.verdict import Verdict
from harness.task.task import Task, load_task
from scripts.competition.settings import Gpu
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action, Moderation
from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from tests.actions.node import HERE, find_node
from tests.test_publish import NOW, built, judged, ledger_of, season, task_folder

needs_reader = pytest.mark.skipif(
    not (find_node() and (HERE / "node_modules/hyparquet").is_dir()), reason="hyparquet is not installed: make setup"
)
TYPES = {
    "task": "STRING", "gpu": "STRING", "rank": "INT64", "login": "STRING", "score_us": "DOUBLE", "low_us": "DOUBLE",
    "high_us": "DOUBLE", "gap": "DOUBLE", "limit": "DOUBLE", "language": "STRING", "lines": "INT64",
    "first_at": "TIMESTAMP", "digest": "STRING", "band": "INT64", "claim": "STRING", "unwalled": "BOOLEAN",
    "provisional": "BOOLEAN", "unmerged": "BOOLEAN", "pull_request": "INT64", "note": "STRING",
}  # fmt: skip
CASE_TYPES = {
    "task": "STRING", "gpu": "STRING", "login": "STRING", "case": "INT64", "params": "STRING", "time_us": "DOUBLE",
    "low_us": "DOUBLE", "high_us": "DOUBLE", "ratio": "DOUBLE",
}  # fmt: skip
RECORD_TYPES = {
    "task": "STRING", "gpu": "STRING", "edition": "STRING", "at": "TIMESTAMP", "login": "STRING", "score_us": "DOUBLE",
    "low_us": "DOUBLE", "high_us": "DOUBLE", "gain": "DOUBLE", "over": "STRING", "by_duel": "BOOLEAN",
    "language": "STRING", "digest": "STRING", "pull_request": "INT64",
}  # fmt: skip
JUDGEMENT_TYPES = {
    "task": "STRING", "gpu": "STRING", "edition": "STRING", "finished_at": "TIMESTAMP", "login": "STRING",
    "verdict": "STRING", "counts": "BOOLEAN", "taken_out": "STRING", "score_us": "DOUBLE", "low_us": "DOUBLE",
    "high_us": "DOUBLE", "language": "STRING", "lines": "INT64", "claim": "STRING", "digest": "STRING",
    "pull_request": "INT64", "path": "STRING",
}  # fmt: skip


@pytest.fixture
def task(tmp_path: Path) -> Task:
    yml = (
        'title: Addition\ngpus: [CPU, H100]\nwork: {bytes: "12 * size", dtype: float32}\n'
        "tests: [{size: 127, seed: 4242}]\nbenchmarks: [{size: 4096, seed: 2146}]\n"
    )
    return load_task(task_folder(tmp_path / "tasks", yml=yml))


def parquet(site: Path, name: str = "results") -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The types of the columns, and the rows."""
    command = [find_node(), HERE / "parquet.mjs", site / f"{name}.parquet"]
    read = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return dict(read["columns"]), read["rows"]


@needs_reader
def test_the_parquet_file_holds_typed_rows_of_all_boards(tmp_path: Path, task: Task) -> None:
    judgements = [*season(task.board("CPU")), judged(task.board("H100"), "ada", 1.5, day=3)]
    gpus = {"CPU": Gpu(runs_on="ubuntu-24.04", bandwidth_gbs=40, tflops={"float32": 1})}
    merged = {one.submission.digest for one in judgements if one.submission.login != "grace"}
    site, _ = built(
        tmp_path, task, judgements, gpus=gpus, marks_unmerged=True,
        sources=lambda one: "x = 1\n" if one.submission.digest in merged else None,
    )  # fmt: skip
    types, rows = parquet(site)
    assert types == TYPES
    boards = [json.loads((site / f"vectoradd/{gpu}/board.json").read_text())["rows"] for gpu in ("CPU", "H100")]
    assert [(row["task"], row["gpu"], row["rank"], row["login"], row["digest"]) for row in rows] == [
        (row["task"], row["gpu"], row["rank"], row["login"], row["digest"]) for board in boards for row in board
    ]
    for read, row in zip(rows, boards[0] + boards[1], strict=True):
        assert (read["score_us"], read["low_us"], read["high_us"]) == tuple(row["score_us"].values())
        assert (read["gap"], read["lines"], read["language"]) == (row["gap"], row["lines"], row["language"])
        assert datetime.fromisoformat(read["first_at"]) == datetime.fromisoformat(row["first_at"])
        assert (read["limit"] is None) == (row["gpu"] == "H100")
        for name in ("band", "claim", "unwalled", "provisional", "unmerged", "pull_request", "note"):
            assert read[name] == row[name], name
    assert {row["login"] for row in rows if row["unmerged"]} == {"grace"}
    assert [row["note"] for row in rows if row["note"]] == ["looks faster, but lost its duel with edsger"]
    assert len({row["band"] for row in rows}) < len(boards[0])  # Two rows are tied.


@needs_reader
def test_cases_have_their_own_table_in_csv_and_parquet(tmp_path: Path) -> None:
    task = load_task(task_folder(tmp_path / "tasks"))
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    types, rows = parquet(site, "cases")
    assert types == CASE_TYPES
    board = json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]
    assert [
        (row["login"], row["case"], row["time_us"], row["low_us"], row["high_us"], row["ratio"]) for row in rows
    ] == [
        (row["login"], number, *case["time_us"].values(), case["ratio"]["value"])
        for row in board
        for number, case in enumerate(row["cases"], start=1)
    ]
    assert [json.loads(row["params"]) for row in rows[:3]] == [{"size": 4096}, {"size": 65536}, {"size": 1048576}]
    told = list(csv.DictReader((site / "cases.csv").read_text().splitlines()))
    assert [list(row) for row in told] == [list(CASE_TYPES)] * len(rows)
    assert [(one["login"], one["params"], float(one["time_us"])) for one in told] == [
        (row["login"], row["params"], row["time_us"]) for row in rows
    ]


def csv_rows(site: Path, name: str) -> list[dict[str, str]]:
    return list(csv.DictReader((site / f"{name}.csv").read_text().splitlines()))


@needs_reader
def test_every_ranked_judgement_is_a_row_with_its_time_and_ledger_path(tmp_path: Path) -> None:
    task = load_task(task_folder(tmp_path / "tasks"))
    board = task.board("CPU")
    twice = [judged(board, "ada", 1.4, source="one", day=day) for day in (0, 1)]
    better = judged(board, "ada", 2.8, source="two", day=2)
    none = CaseResult(kind=CaseKind.BUILD, params={}, verdict=Verdict.WRONG_ANSWER, seconds=0.1)
    wrong = judged(board, "bob", 1.0, day=3, verdict=none.verdict, cases=(none,))
    old = [judged(board, "cy", 1.2, day=-9, edition="e" * 64), judged(board, "di", 1.1, day=-8, edition="e" * 64)]
    gone = judged(board, "eve", 9.0, day=4)
    ledger = ledger_of(tmp_path, [*twice, better, wrong, *old, gone])
    held = next(one for one in ledger.judgements().judgements if one.submission.login == "eve")
    ledger.append_fact(
        Moderation(id="m1", action=Action.HOLD, judgement=held.checksum, reason="too fast", by=7, at=NOW)
    )
    build_site([task], ledger, tmp_path / "_site", Site(sources=lambda _: None, title="Kernel Cup", now=NOW))
    types, rows = parquet(tmp_path / "_site", "judgements")
    assert types == JUDGEMENT_TYPES
    assert [(row["login"], row["verdict"], row["counts"], row["taken_out"], bool(row["score_us"])) for row in rows] == [
        ("cy", "AC", False, None, True), ("di", "AC", False, None, True),
        ("ada", "AC", True, None, True), ("ada", "AC", True, None, True), ("ada", "AC", True, None, True),
        ("bob", "WA", False, None, False), ("eve", "AC", False, "hold", False),
    ]  # fmt: skip
    first, second, third = rows[2:5]
    assert first["score_us"] != second["score_us"] and first["digest"] == second["digest"] != third["digest"]
    assert third["score_us"] == json.loads((tmp_path / "_site/vectoradd/CPU/board.json").read_text())["rows"][0][
        "score_us"
    ]["value"]  # fmt: skip
    for row in rows:
        stored = Judgement.from_json((tmp_path / "ledger" / row["path"]).read_bytes())
        assert stored.submission.digest == row["digest"] and stored.edition == row["edition"]
        assert stored.finished_at == datetime.fromisoformat(row["finished_at"])
    told = csv_rows(tmp_path / "_site", "judgements")
    assert [list(row) for row in told] == [list(JUDGEMENT_TYPES)] * len(rows)
    assert [(one["path"], one["score_us"]) for one in told] == [
        (row["path"], "" if row["score_us"] is None else repr(row["score_us"])) for row in rows
    ]


@needs_reader
def test_the_records_table_includes_those_of_earlier_editions(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    site, _ = built(tmp_path, task, [*season(board), judged(board, "cy", 1.2, day=-9, edition="e" * 64)])
    types, rows = parquet(site, "records")
    assert types == RECORD_TYPES
    assert [(row["login"], row["over"], row["by_duel"], row["edition"] == board.edition) for row in rows] == [
        ("cy", None, False, False), ("ada", None, False, True), ("grace", "ada", True, True),
        ("edsger", "grace", True, True),
    ]  # fmt: skip
    assert [row["gain"] for row in rows] == [None, None, pytest.approx(0.34), pytest.approx(0.28)]
    told = csv_rows(site, "records")
    assert [list(row) for row in told] == [list(RECORD_TYPES)] * len(rows)
    assert [(one["digest"], one["by_duel"]) for one in told] == [
        (row["digest"], str(row["by_duel"]).lower()) for row in rows
    ]


@needs_reader
def test_the_csv_of_all_boards_matches_the_parquet_file(tmp_path: Path, task: Task) -> None:
    late = judged(task.board("H100"), "ada", 1.5, day=3 + 0.125 / 86400)
    site, _ = built(tmp_path, task, [*season(task.board("CPU")), late])
    _, rows = parquet(site)
    told = list(csv.DictReader((site / "results.csv").read_text().splitlines()))
    assert [list(row) for row in told] == [list(TYPES)] * len(rows)
    assert [(one["gpu"], one["login"], float(one["score_us"])) for one in told] == [
        (row["gpu"], row["login"], row["score_us"]) for row in rows
    ]
    first_ats = [datetime.fromisoformat(one["first_at"]) for one in told]
    assert first_ats == [datetime.fromisoformat(row["first_at"]) for row in rows] and late.finished_at in first_ats
    assert {len(one["first_at"]) for one in told} == {len("2026-11-02T09:00:00.000000+00:00")}, "one format for all"
    assert {one["unmerged"] for one in told} == {"false"} and {one["pull_request"] for one in told} == {"7"}


@needs_reader
def test_a_site_without_rows_has_tables_without_rows(tmp_path: Path) -> None:
    build_site(
        [], Ledger(tmp_path / "none"), tmp_path / "_site", Site(sources=lambda _: None, title="Kernel Cup", now=NOW)
    )
    tables = {"results": TYPES, "cases": CASE_TYPES, "records": RECORD_TYPES, "judgements": JUDGEMENT_TYPES}
    for name, types in tables.items():
        assert parquet(tmp_path / "_site", name) == (types, [])
        assert (tmp_path / f"_site/{name}.csv").read_text().splitlines() == [",".join(types)]
