"""All rows of all boards as tables, read back by a reader that shares nothing with the writer."""

import csv
import json
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.task import Task, load_task
from scripts.ledger.ledger import Ledger
from scripts.pages.publish import build_site
from scripts.settings import Gpu
from tests.actions.node import HERE, find_node
from tests.test_publish import NOW, built, judged, season, task_folder

needs_reader = pytest.mark.skipif(
    not (find_node() and (HERE / "node_modules/hyparquet").is_dir()), reason="hyparquet is not installed: make setup"
)
TYPES = {
    "task": "STRING", "gpu": "STRING", "rank": "INT64", "login": "STRING", "score_us": "DOUBLE", "low_us": "DOUBLE",
    "high_us": "DOUBLE", "gap": "DOUBLE", "limit": "DOUBLE", "language": "STRING", "lines": "INT64",
    "first_at": "TIMESTAMP", "digest": "STRING", "band": "INT64", "claim": "STRING", "unwalled": "BOOLEAN",
    "provisional": "BOOLEAN", "pull_request": "INT64", "note": "STRING",
}  # fmt: skip
CASE_TYPES = {
    "task": "STRING", "gpu": "STRING", "login": "STRING", "case": "INT64", "params": "STRING", "time_us": "DOUBLE",
    "low_us": "DOUBLE", "high_us": "DOUBLE", "ratio": "DOUBLE",
}  # fmt: skip


@pytest.fixture
def task(tmp_path: Path) -> Task:
    yml = (
        'title: Addition\ngpus: [CPU, H100]\nwork: {bytes: "12 * size", dtype: float32}\n'
        "tests: [{size: 127, seed: 4242}]\nbenchmarks: [{size: 4096, seed: 2146}]\n"
    )
    return load_task(task_folder(tmp_path / "tasks", yml=yml))


def parquet(site: Path, name: str = "results") -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Types by column, and rows."""
    command = [find_node(), HERE / "parquet.mjs", site / f"{name}.parquet"]
    read = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return dict(read["columns"]), read["rows"]


@needs_reader
def test_the_parquet_file_holds_what_the_boards_hold_with_types(tmp_path: Path, task: Task) -> None:
    judgements = [*season(task.board("CPU")), judged(task.board("H100"), "ada", 1.5, day=3)]
    gpus = {"CPU": Gpu(runs_on="ubuntu-24.04", bandwidth_gbs=40, tflops={"float32": 1})}
    merged = {one.submission.digest for one in judgements if one.submission.login != "grace"}
    site, _ = built(
        tmp_path, task, judgements, gpus=gpus, marks_unmerged=True,
        submissions=lambda one: "x = 1\n" if one.submission.digest in merged else None,
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
        for name in ("band", "claim", "unwalled", "provisional", "pull_request", "note"):
            assert read[name] == row[name], name
    assert {row["login"] for row in rows if row["provisional"]} == {"grace"}
    assert [row["note"] for row in rows if row["note"]] == ["looks faster, but lost its duel with edsger"]
    assert len({row["band"] for row in rows}) < len(boards[0])  # Two are tied.


@needs_reader
def test_cases_are_a_table_of_their_own_in_csv_and_parquet(tmp_path: Path) -> None:
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


@needs_reader
def test_the_csv_of_all_boards_says_the_same(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [*season(task.board("CPU")), judged(task.board("H100"), "ada", 1.5, day=3)])
    _, rows = parquet(site)
    told = list(csv.DictReader((site / "results.csv").read_text().splitlines()))
    assert [list(row) for row in told] == [list(TYPES)] * len(rows)
    assert [(one["gpu"], one["login"], float(one["score_us"])) for one in told] == [
        (row["gpu"], row["login"], row["score_us"]) for row in rows
    ]
    assert {one["provisional"] for one in told} == {"false"} and {one["pull_request"] for one in told} == {"7"}


@needs_reader
def test_a_site_without_rows_has_tables_without_rows(tmp_path: Path) -> None:
    build_site(
        [], Ledger(tmp_path / "none"), tmp_path / "_site", submissions=lambda _: None, title="Kernel Cup", now=NOW
    )
    assert parquet(tmp_path / "_site") == (TYPES, [])
    assert (tmp_path / "_site/results.csv").read_text().splitlines() == [",".join(TYPES)]
    assert parquet(tmp_path / "_site", "cases") == (CASE_TYPES, [])
    assert (tmp_path / "_site/cases.csv").read_text().splitlines() == [",".join(CASE_TYPES)]
