"""What all pages share: the competition's name, where its code lies, its guides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from markupsafe import Markup

from harness.records.judgement import Judgement
from harness.task.task import Board, Task
from scripts.competition.settings import Gpu
from scripts.pages.parts.code import render_guide
from scripts.standings.roofline import find_floors_us

GUIDES = ("participants", "judging", "organisers", "runner-hosts", "programs")
"""The order of the guides in the header, by whom most visitors are; any others come after these."""

Sources = Callable[[Judgement], str | None]
"""Gives the source text of a judged file, where it is known."""


@dataclass(frozen=True, kw_only=True)
class Guide:
    title: str
    path: str
    text: str
    body: Markup

    @property
    def facts(self) -> dict[str, str]:
        return {"title": self.title, "text": self.text}


@dataclass(frozen=True, kw_only=True)
class Site:
    """`repository` is its address on GitHub, `address` the site's own; either may be empty, where it is not known.

    `now` is when the site is built: a board whose deadline has come is closed, and nothing is later than that.

    `gpus` are the machines by the boards' names, with their peaks; None where nothing says which there are.

    `marks_unmerged`: `sources` knows all that was ever merged, and rows of other files are provisional.
    """

    title: str
    sources: Sources
    now: datetime
    description: str = ""
    notice: str = ""
    guides: tuple[Guide, ...] = ()
    repository: str = ""
    address: str = ""
    gpus: Mapping[str, Gpu] | None = None
    marks_unmerged: bool = False
    base_path: str = "/"

    def floors_us(self, board: Board) -> tuple[float, ...] | None:
        """What the hardware itself needs for each of a board's benchmarks, in microseconds; None if not known."""
        return find_floors_us(board, (self.gpus or {}).get(board.gpu))

    def judges(self, board: Board) -> bool:
        """Whether a machine judges a board now; what was judged before is shown all the same."""
        return self.gpus is None or board.gpu in self.gpus

    def is_closed(self, task: Task) -> bool:
        return task.deadline is not None and task.deadline <= self.now

    def takes_entries(self, board: Board) -> bool:
        """Whether a file that is sent now can be ranked."""
        return self.judges(board) and not self.is_closed(board.task)

    def is_provisional(self, judgement: Judgement) -> bool:
        return self.marks_unmerged and self.sources(judgement) is None


def read_guides(folder: Path) -> tuple[Guide, ...]:
    """A page for each Markdown file; its first heading is its title."""
    return tuple(
        Guide(
            title=next((line[2:] for line in text.splitlines() if line.startswith("# ")), path.stem),
            path=f"guides/{path.stem}/index.html",
            text=text,
            body=render_guide(text),
        )
        for path in sorted(folder.glob("*.md"), key=_guide_order)
        for text in [path.read_text("utf-8")]
    )


def _guide_order(path: Path) -> tuple[int, str]:
    return GUIDES.index(path.stem) if path.stem in GUIDES else len(GUIDES), path.stem
