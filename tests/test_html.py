"""Every kind of page is valid HTML, by an independent validator."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.actions.node import HERE, find_node
from tests.lively_site import lively_site, one_of_each

VALIDATOR = HERE / "node_modules/html-validate/bin/html-validate.mjs"
RULES = Path(__file__).parent / "html-validate.json"
pytestmark = pytest.mark.skipif(
    not (find_node() and VALIDATOR.is_file()), reason="html-validate is not installed: make setup"
)


def faults(paths: list[Path]) -> list[str]:
    """The validator's messages about pages, a line each."""
    command = [find_node(), VALIDATOR, "--config", RULES, "--formatter", "text", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == bool(done.stdout), done.stderr
    return done.stdout.splitlines()


def test_every_kind_of_page_is_valid_html(tmp_path_factory: pytest.TempPathFactory) -> None:
    site = lively_site(tmp_path_factory)
    pages = {*one_of_each(site).values(), *(str(path.relative_to(site)) for path in site.glob("guides/*/index.html"))}
    found = faults([site / path for path in sorted(pages)])
    assert not found, "\n".join(found)


def test_no_two_pages_of_a_task_share_a_title(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Tabs, histories and screen readers name a page by its title."""
    pages = list((lively_site(tmp_path_factory) / "matmul").rglob("index.html"))
    titles = {re.search(r"<title>.*</title>", page.read_text())[0] for page in pages}
    assert len(pages) > 10 and len(titles) == len(pages)


def test_the_validator_finds_what_is_wrong_with_a_page(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text(
        '<!doctype html><html lang="en"><head><title>x</title></head><body><p><div></div></p></body></html>'
    )
    assert [re.search(r"\[(.*)\]", fault)[1] for fault in faults([page])] == ["no-implicit-close", "close-order"]
