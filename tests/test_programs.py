"""What the site gives to programs, on a lively season: it leads somewhere, and the guide tells all of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lively_site import build_lively_site
from tests.test_publish import Tags, assert_links_lead_somewhere, links

ADDRESS = "https://kernels.github.io/cup/"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_lively_site(tmp_path_factory.mktemp("site"), address=ADDRESS)


def json_files(site: Path) -> Iterator[tuple[Path, Any]]:
    for path in sorted(site.rglob("*.json")):
        yield path, json.loads(path.read_bytes())


def values(facts: Any, key: str) -> Iterator[Any]:
    """Whatever stands under a key, at any depth."""
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


def test_every_page_that_json_names_is_there(site: Path) -> None:
    named = {page for _, facts in json_files(site) for page in values(facts, "page")}
    assert len(named) > 50 and None in named
    assert [page for page in named if page and not (site / page).is_file()] == []


def test_a_file_without_a_page_leads_to_its_pull_request(site: Path) -> None:
    steps = [
        (path, step) for path, facts in json_files(site) if path.name == "author.json" for step in facts["history"]
    ]
    path, step = next((path, step) for path, step in steps if not step["page"] and step["pull_request"])
    page = Tags(path.with_name("index.html").read_text())
    assert f"https://github.com/kernels/cup/pull/{step['pull_request']}" in set(links(page))
