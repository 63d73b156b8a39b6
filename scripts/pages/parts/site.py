"""Facts that all pages share: the competition's title, its repository, its guides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from harness.records.judgement import Judgement
from harness.task.task import Board, Task
from scripts.competition.repository import TITLE
from scripts.competition.settings import Ban, Gpu, Settings
from scripts.ledger.description import Descriptions
from scripts.pages.parts.code import render_guide, sections_of
from scripts.standings.roofline import Roofline

RUNS_LIVE = timedelta(days=90)
"""GitHub deletes the runs of public repositories, with their logs, after this time."""

GUIDES: tuple[tuple[str, ...], ...] = (
    (
        "participants",
        "participants-first",
        "participants-results",
        "participants-commands",
        "participants-languages",
        "participants-gpu",
        "participants-cuda",
    ),
    ("judging", "judging-times", "judging-gpu", "judging-amd", "judging-programs"),
    (
        "organisers",
        "organisers-boards",
        "organisers-tasks",
        "organisers-tasks-walk",
        "organisers-tasks-programs",
        "organisers-moderation",
        "organisers-discord",
        "organisers-app",
        "organisers-update",
        "organisers-stuck",
    ),
    ("runner-hosts", "runner-hosts-upkeep", "gpu-check"),
    ("programs", "programs-json"),
)
"""The guides by their number of readers, each with its pages in reading order.  Any other pages come last."""

_FIRST_PAGES = {page: pages[0] for pages in GUIDES for page in pages}
"""Each page's first page, in the order of `GUIDES`."""

ReadSource = Callable[[Judgement], str | None]
"""Returns the source text of a judged file, or None."""


@dataclass(frozen=True, kw_only=True)
class Guide:
    """One page of a guide.

    `first` is the path of the guide's first page, which the header links; `sections` are titles by their anchors.
    """

    title: str
    path: str
    first: str
    text: str
    body: Markup
    sections: Mapping[str, str]

    @property
    def is_first(self) -> bool:
        return self.path == self.first

    @property
    def facts(self) -> dict[str, str]:
        return {"title": self.title, "text": self.text}


@dataclass(frozen=True, kw_only=True)
class Site:
    """The site's facts.

    `repository` is the URL on GitHub, for links to pull requests and files: `https://github.com/kernels/cup`.
    `address` is the site's own, for feeds and the sitemap: `https://kernels.github.io/cup/`.  Either may be empty.

    `now` is the time of the build: boards whose deadline has passed are closed, and no date on the site is later.

    `description` is what the competition is about, in Markdown.

    `data_license` is the licence under which the competition publishes submissions as a data set; empty if it does not.

    `gpus` are the machines by the boards' names, with their peaks; None if the machines are unknown.

    `bans` are those of the settings, in addition to those of the ledger.

    `descriptions` are what authors say about their commits.

    `marks_unmerged`: `sources` knows every file that was ever merged, so rows of other files are unmerged.
    """

    title: str
    sources: ReadSource
    now: datetime
    description: str = ""
    notice: str = ""
    data_license: str = ""
    guides: tuple[Guide, ...] = ()
    repository: str = ""
    address: str = ""
    gpus: Mapping[str, Gpu] | None = None
    bans: tuple[Ban, ...] = ()
    descriptions: Descriptions = field(default_factory=dict)
    marks_unmerged: bool = False

    @classmethod
    def of(cls, settings: Settings | None, title: str | None = None, **facts: Any) -> Site:
        """The site of a competition with these settings, if it has any; `title` overrides theirs."""
        if not settings:
            return cls(title=title or TITLE, **facts)
        return cls(
            title=title or settings.title,
            description=settings.description,
            data_license=settings.dataset.license if settings.dataset else "",
            gpus=settings.gpus,
            bans=settings.bans,
            **facts,
        )

    @property
    def base_path(self) -> str:
        """The path at which it is served; only 404.html, which is shown at any depth, needs it."""
        return urlsplit(self.address).path or "/"

    def roofline(self, board: Board) -> Roofline:
        return Roofline(work=board.task.work, gpu=(self.gpus or {}).get(board.gpu))

    def judges(self, board: Board) -> bool:
        """Whether a machine judges the board now; its existing rows are shown in any case."""
        return self.gpus is None or board.gpu in self.gpus

    def is_closed(self, task: Task) -> bool:
        return task.deadline is not None and task.deadline <= self.now

    def takes_entries(self, board: Board) -> bool:
        """Whether the board is judged and still open, and its task ranks."""
        return self.judges(board) and board.task.is_open(self.now)

    def find_run(self, judgement: Judgement) -> str:
        """The page of the run that judged; empty once GitHub has deleted it, or without an https address."""
        url = judgement.run_url or ""
        return url if url.startswith("https://") and self.now - judgement.finished_at < RUNS_LIVE else ""

    def is_unmerged(self, judgement: Judgement) -> bool:
        return self.marks_unmerged and self.sources(judgement) is None


def read_guides(folder: Path) -> tuple[Guide, ...]:
    """A page for each Markdown file; its first heading is the title."""
    return tuple(
        Guide(
            title=next((line[2:] for line in text.splitlines() if line.startswith("# ")), path.stem),
            path=f"guides/{path.stem}/index.html",
            first=f"guides/{_FIRST_PAGES.get(path.stem, path.stem)}/index.html",
            text=text,
            body=render_guide(text),
            sections=sections_of(text),
        )
        for path in sorted(folder.glob("*.md"), key=_guide_order)
        for text in [path.read_text("utf-8")]
    )


def _guide_order(path: Path) -> tuple[int, str]:
    pages = list(_FIRST_PAGES)
    return pages.index(path.stem) if path.stem in pages else len(pages), path.stem
