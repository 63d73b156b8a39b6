"""The site's data for programs: every link works, and the guide explains every field."""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from harness.records import judgement
from scripts.common.text import format_us
from scripts.pages.parts import render
from scripts.pages.parts.render import SITE
from scripts.pages.parts.words import case_labels
from tests.lively_site import ADDRESS, lively_site
from tests.test_publish import Tags, assert_links_lead_somewhere, links


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lively_site(tmp_path_factory)


def json_files(site: Path) -> Iterator[tuple[Path, Any]]:
    for path in sorted(site.rglob("*.json")):
        yield path, json.loads(path.read_bytes())


def values(facts: Any, key: str) -> Iterator[Any]:
    """All values of a key, at any depth."""
    if isinstance(facts, list):
        for one in facts:
            yield from values(one, key)
    elif isinstance(facts, dict):
        if key in facts:
            yield facts[key]
        for one in facts.values():
            yield from values(one, key)


def test_every_link_of_a_lively_season_leads_somewhere(site: Path) -> None:
    assert_links_lead_somewhere(site)


def test_every_page_named_in_json_exists(site: Path) -> None:
    named = {page for _, facts in json_files(site) for page in values(facts, "page")}
    assert len(named) > 50 and None in named
    assert [page for page in named if page and not (site / page).is_file()] == []


def test_a_file_without_a_page_links_to_its_pull_request(site: Path) -> None:
    steps = [
        (path, step) for path, facts in json_files(site) if path.name == "author.json" for step in facts["history"]
    ]
    path, step = next((path, step) for path, step in steps if not step["page"] and step["pull_request"])
    page = Tags(path.with_name("index.html").read_text())
    assert f"https://github.com/kernels/cup/pull/{step['pull_request']}" in set(links(page))


GUIDE = "\n".join((SITE / "pages" / f"{name}.md").read_text() for name in ("programs", "programs-json"))
HOLES = {
    "TASK": "[^/]+", "GPU": "[^/]+", "LOGIN": "[^/]+", "NAME": "[^/]+", "DIGEST": "[0-9a-f]{12}",
    "EDITION": "[0-9a-f]{12}", "judgement": "judgement(-[0-9]+)?",
}  # fmt: skip


def section(title: str) -> str:
    """The guide's text below a heading."""
    found = re.search(rf"^(#+) {re.escape(title)}\n(.*?)(?=^##|\Z)", GUIDE, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[2]


def told(title: str) -> set[str]:
    """The names in the table below a heading."""
    cells = re.findall(r"^\| ([^|]*`[^|]*) \|", section(title), re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def told_files() -> Iterator[str]:
    """The paths in the guide's tables of files, each below the folder in the line above its table."""
    for folder, table in re.findall(r"(?:`([A-Za-z_/]+/)`)?[^`]*?:\n\n((?:\|.*\n)+)", section("The files")):
        for names in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE):
            yield from (folder + name for name in re.findall(r"`([^`]+)`", names))


def keys_of(site: Path, name: str, *way: str) -> set[str]:
    """The keys in all files of a name, or in their objects at a path: `*` is every member of a list."""
    found = [facts for path, facts in json_files(site) if path.name == name]
    for step in way:
        found = [one for facts in found for one in (facts if step == "*" else [facts[step]]) if one is not None]
    assert found, (name, way)
    return {key for facts in found for key in facts}


def test_the_guide_names_every_kind_of_file_and_no_other(site: Path) -> None:
    kinds = {name: re.sub("|".join(HOLES), lambda hole: HOLES[hole[0]], name) for name in told_files()}
    built = [path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()]
    data = [path for path in built if not path.endswith(".html") and not path.startswith("assets/")]
    assert [name for name, kind in kinds.items() if not any(re.fullmatch(kind, path) for path in data)] == []
    assert [path for path in data if not any(re.fullmatch(kind, path) for kind in kinds.values())] == []


def test_the_guide_explains_every_field_of_every_file_and_no_other(site: Path) -> None:
    every, row = {"format", "version"}, told("A row")
    board = told("A board")
    assert keys_of(site, "index.json", "boards", "*") == board
    assert keys_of(site, "board.json") == told("board.json") | board | every
    assert keys_of(site, "submission.json") == row | told("submission.json") | every
    for name in ("index.json", "rows.json", "edition.json", "author.json", "guide.json"):
        assert keys_of(site, name) == told(name) | every, name
    for name, rows in (("board.json", row), ("author.json", row), ("edition.json", row | {"judgement"})):
        assert keys_of(site, name, "rows", "*") == rows
    for name in ("index.json", "board.json", "edition.json", "author.json"):
        assert keys_of(site, name, "records", "*") == told("A record")
    assert keys_of(site, "submission.json", "record") == told("A record")
    assert keys_of(site, "board.json", "taken_out", "*") == told("Taken out")
    assert keys_of(site, "author.json", "history", "*") == told("An improvement")
    assert keys_of(site, "machines.json") == {"machines"} | every
    assert keys_of(site, "machines.json", "machines", "*") == told("machines.json")
    inner = [
        ("index.json", "totals"), ("index.json", "guides", "*"), ("author.json", "medals"),
        ("author.json", "earlier_editions", "*"), ("board.json", "first"), ("board.json", "rows", "*", "cases", "*"),
        ("machines.json", "machines", "*", "readings", "*"), ("rows.json", "rows", "*"), ("rows.json", "records", "*"),
    ]  # fmt: skip
    for name, *way in inner:
        assert all(f"`{key}`" in GUIDE for key in keys_of(site, name, *way)), (name, way)


def test_every_json_file_except_the_badge_names_its_format_and_version(site: Path) -> None:
    for path, facts in json_files(site):
        if path.name == "badge.json":
            assert set(facts) == {"schemaVersion", "label", "message", "color"}
        else:
            kind = {"index": "site"}.get(path.stem, re.sub(r"-\d+$", "", path.stem))
            version = judgement.VERSION if kind == "judgement" else render.VERSION
            assert (facts["format"], facts["version"]) == (f"pullrank-{kind}", version), path


@pytest.mark.parametrize("table", ["results", "cases", "records", "judgements"])
def test_the_guide_explains_every_column_and_no_other(site: Path, table: str) -> None:
    head = (site / f"{table}.csv").read_text().partition("\n")[0].split(",")
    assert set(head) == told(table)
    if table == "results":
        for board in site.glob("*/*/board.csv"):
            assert board.read_text().partition("\n")[0].split(",") == head[2:]


def test_a_former_first_place_has_the_same_fields_as_a_row(site: Path) -> None:
    facts = [facts for path, facts in json_files(site) if path.name == "submission.json"]
    former = [one for one in facts if one["rank"] is None]
    assert former and {tuple(one) for one in facts} == {tuple(former[0])}
    for one in former:
        assert one["record"]["page"] == one["page"] and one["gap"] > 0 and one["pull_request"] and one["language"]


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """The Hodges-Lehmann estimate and its exact interval, as in the guide, without our own code."""
    logs = [math.log(ratio) for ratio in ratios]
    means = sorted((a + b) / 2 for index, a in enumerate(logs) for b in logs[index:])
    ways = [1]  # the number of sets of ranks with each sum
    for rank in range(1, len(logs) + 1):
        ways = [a + b for a, b in zip(ways + [0] * rank, [0] * rank + ways, strict=True)]
    below = [sum(ways[: total + 1]) / 2 ** len(logs) for total in range(len(ways))]
    skip = max((total for total, share in enumerate(below) if share <= 0.025), default=0)
    return math.exp(median(means)), math.exp(means[skip]), math.exp(means[-1 - skip])


def case_ratio(cases: list[dict[str, Any]]) -> tuple[float, float, float]:
    """A benchmark's ratio, pooled over several judgements of method 1."""
    pairs = [
        pair for case in cases for pair in zip(case["timing"]["submission"], case["timing"]["anchor"], strict=True)
    ]
    assert not any("estimator" in run for pair in pairs for run in pair) and len(pairs) <= 64
    return interval([median(ours["samples_us"]) / median(theirs["samples_us"]) for ours, theirs in pairs])


def test_every_row_and_former_first_place_follows_from_its_judgements_as_the_guide_says(site: Path) -> None:
    boards = {(facts["task"], facts["gpu"]): facts for path, facts in json_files(site) if path.name == "board.json"}
    pooled = set()
    for path, row in ((path, facts) for path, facts in json_files(site) if path.name == "submission.json"):
        board = boards[row["task"], row["gpu"]]
        judged = [json.loads(one.read_bytes())["cases"] for one in path.parent.glob("judgement*.json")]
        assert board["ranking_by"] == "geom" and len(judged) == row["judgements"] <= 20
        benchmarks = [[case for case in one if case["kind"] == "benchmark"] for one in judged]
        ratios = [*map(case_ratio, zip(*benchmarks, strict=True))]
        times = [[us * one for one in ratio] for ratio, us in zip(ratios, board["nominal_us"], strict=True)]
        for case, ratio, time_us in zip(row["cases"], ratios, times, strict=True):
            assert [*case["ratio"].values()] == pytest.approx(ratio) and [*case["time_us"].values()] == pytest.approx(
                time_us
            )
        logs = [[math.log(us) for us in time_us] for time_us in times]
        score, n = sum(value for value, *_ in logs) / len(logs), len(logs)
        down, up = (math.hypot(*(one[end] - one[0] for one in logs)) / n for end in (1, 2))
        expected = [math.exp(score), math.exp(score - down), math.exp(score + up)]
        assert [*row["score_us"].values()] == pytest.approx(expected), path
        pooled.add((row["rank"] is None, row["judgements"] > 1))
    assert pooled >= {(False, False), (False, True), (True, False)}


def test_the_index_has_all_totals_and_every_author_with_a_page(site: Path) -> None:
    index = json.loads((site / "index.json").read_text())
    boards = [facts for path, facts in json_files(site) if path.name == "board.json"]
    assert index["totals"] == {
        "boards": len(boards),
        "authors": len({row["login"].lower() for board in boards for row in board["rows"]}),
        "entries": sum(len(board["rows"]) for board in boards),
        "records": sum(bool(record["over"]) for board in boards for record in board["records"]),
    }
    assert {login.lower() for login in index["authors"]} == {path.name for path in (site / "authors").iterdir()}


def test_an_earlier_edition_shows_cases_and_records_and_links_its_judgements(site: Path) -> None:
    path = next(site.glob("softmax/H100/_editions/*/edition.json"))
    facts, page = json.loads(path.read_text()), Tags(path.with_name("index.html").read_text())
    assert facts["records"] and len(facts["rows"][0]["cases"]) == len(facts["benchmarks"])
    text = " ".join(page.text.split())
    assert all(" ".join(label.text.split()) in text for label in case_labels(facts["benchmarks"]))
    for row in facts["rows"]:
        assert row["judgement"].startswith("https://raw.githubusercontent.com/kernels/cup/ledger/judgements/softmax/")
        assert {row["judgement"], f"https://github.com/kernels/cup/pull/{row['pull_request']}"} <= set(links(page))
        assert all(format_us(case["time_us"]["value"]) in text for case in row["cases"])
    history = text.partition("Record history")[2]
    assert all(format_us(one["score_us"]["value"]) in history for one in facts["records"])
    assert "https://github.com/kernels/cup/tree/ledger/judgements/softmax/H100" in set(links(page))


def test_a_board_shows_its_badge_code_if_the_site_knows_its_address(site: Path) -> None:
    text = Tags((site / "matmul/H100/index.html").read_text()).text
    badge = "https://img.shields.io/endpoint?url=https%3A//kernels.github.io/cup/matmul/H100/badge.json"
    assert f"({badge})]({ADDRESS}matmul/H100/index.html)" in text
