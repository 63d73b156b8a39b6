"""Numbers as pages write them, and the text of the pages, for tests that compare it with constants of the code."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
WORDS = {
    1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 8: "eight", 9: "nine", 10: "ten", 15: "fifteen",
    16: "sixteen", 20: "twenty", 32: "thirty-two", 64: "sixty-four", 1 / 2: "half", 1 / 4: "a quarter",
    1 / 5: "a fifth",
}  # fmt: skip


def words(number: float) -> str:
    return WORDS.get(number, str(number))


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def text_of(file: str) -> str:
    """The text of a file of the repository, or of a page if the name has no ending, without line breaks."""
    path = ROOT / (file if "." in file else f"site/pages/{file}.md")
    return " ".join(path.read_text(encoding="utf-8").split())


def each_claim(claims: Mapping[str, Sequence[str]]) -> pytest.MarkDecorator:
    """Run a test for each `file` and each `claim` that it must hold."""
    pairs = [(file, claim) for file, parts in claims.items() for claim in parts]
    return pytest.mark.parametrize(("file", "claim"), pairs)
