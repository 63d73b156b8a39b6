"""The site: standings in, a folder of static pages out.

    index.html                              boards, latest records
    <task>/<gpu>/index.html                 one board: standings, cases, record history, the task
    <task>/<gpu>/<login>/<digest>/          one submission: its times, samples, code, judgements
    authors/<login>/                        one author's rows and records
    guides/<name>/                          each Markdown file of site/pages

Beside every page stands its JSON.  All links are relative, so the site works under any path and from a disk;
nothing is loaded from elsewhere.  `pages` is a pure function of the data; `build_site` writes what it yields
into a folder beside `out`, and swaps it in whole.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from harness.errors import PullRankError, TaskError
from harness.judgement import Judgement
from harness.stats import Interval
from harness.task import Board, Task
from scripts.charts import Best, Side, Staircase, Strip, staircase, strip
from scripts.filters import (
    SITE,
    author_path,
    board_path,
    case_labels,
    claims,
    count,
    environment,
    render_code,
    render_guide,
    render_markdown,
    stylesheet,
    submission_path,
)
from scripts.ledger import Ledger, LedgerContents, LedgerFault
from scripts.moderation import Moderated
from scripts.standings import CaseTime, Record, Row, Standings, case_times, standings
from scripts.text import format_us

FORMAT = "pullrank-site"
RESERVED = frozenset({"assets", "authors", "guides"})
"""Folders of the site's own: no task may bear their names."""

LATEST_RECORDS = 20

Sources = Callable[[Judgement], str | None]
"""Gives the source text of a judged file, where it is known."""


@dataclass(frozen=True, kw_only=True)
class SiteReport:
    pages: int
    rows: int
    faults: tuple[LedgerFault, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Guide:
    title: str
    path: str
    body: Markup


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A submission that has a page: it stands on its board, or was first there once."""

    standings: Standings
    login: str
    digest: str
    score_us: Interval
    cases: tuple[CaseTime, ...]
    judgements: tuple[Judgement, ...]
    row: Row | None


@dataclass(frozen=True, kw_only=True)
class Author:
    """One person over all boards; records newest first."""

    login: str
    rows: list[tuple[Standings, Row]] = field(default_factory=list)
    records: list[tuple[Standings, Record]] = field(default_factory=list)

    @property
    def firsts(self) -> int:
        return sum(row.rank == 1 for _, row in self.rows)


@dataclass(frozen=True, kw_only=True)
class Site:
    """All that the pages show."""

    title: str
    notice: str
    boards: tuple[Standings, ...]
    guides: tuple[Guide, ...]
    faults: tuple[LedgerFault, ...]
    as_of: datetime | None
    sources: Sources
    base_path: str


def build_site(
    tasks: Sequence[Task],
    ledger: Ledger,
    out: Path,
    *,
    submissions: Sources,
    title: str,
    notice: str = "",
    allow_unwalled: bool = False,
    base_path: str = "/",
) -> SiteReport:
    """Write the whole site to `out`, or leave what was there.

    Args:
        base_path: where the site will be served; only 404.html, which answers at any depth, needs to know.

    Raises:
        TaskError: a task bears the name of one of the site's own folders.
        PullRankError: `out` holds something that is not such a site.
    """
    started = time.perf_counter()
    contents = _shown(ledger)
    site = Site(
        title=title,
        notice=notice,
        boards=_boards(tasks, contents, allow_unwalled),
        guides=read_guides(SITE / "pages"),
        faults=(*contents.faults, *_strays(tasks, contents)),
        as_of=max((judgement.finished_at for judgement in contents.judgements), default=None),
        sources=submissions,
        base_path=f"/{base_path.strip('/')}/".replace("//", "/"),
    )
    written = 0
    with _swapped_in(out) as folder:
        shutil.copytree(SITE / "assets", folder / "assets")
        _write(folder / "assets" / "style.css", stylesheet())
        for path, text in pages(site):
            _write(folder / path, text)
            written += path.endswith(".html")
    rows = sum(len(board.rows) for board in site.boards)
    return SiteReport(pages=written, rows=rows, faults=site.faults, seconds=time.perf_counter() - started)


def pages(site: Site) -> Iterator[tuple[str, str]]:
    """Every file of the site but its assets: path and text."""
    env = environment()
    yield from _landing(env, site)
    for board in site.boards:
        yield from _board(env, site, board)
        for entry in _entries(board):
            yield from _submission(env, site, entry)
    for author in _authors(site.boards):
        yield from _author(env, site, author)
    for guide in site.guides:
        yield _page(env, "guide.html", guide.path, site=site, guide=guide)
    yield "404.html", env.get_template("404.html").render(root=site.base_path, site=site)


# What there is to show.


def _shown(ledger: Ledger) -> LedgerContents:
    """The judgements but for those that maintainers have disqualified or hold back."""
    contents, now = ledger.judgements(), Moderated.after(ledger.moderations())
    hidden = {*now.disqualified, *now.held}
    return replace(contents, judgements=tuple(one for one in contents.judgements if one.checksum not in hidden))


def _boards(tasks: Sequence[Task], contents: LedgerContents, allow_unwalled: bool) -> tuple[Standings, ...]:
    judged: defaultdict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for judgement in contents.judgements:
        judged[judgement.task, judgement.gpu].append(judgement)
    for task in tasks:
        if task.name in RESERVED:
            raise TaskError(f"{task.folder}: the site keeps a folder named '{task.name}' of its own; rename the task")
    return tuple(
        standings(board, judged[board.task.name, board.gpu], allow_unwalled=allow_unwalled)
        for task in tasks
        for board in task.boards
    )


def _strays(tasks: Sequence[Task], contents: LedgerContents) -> Iterator[LedgerFault]:
    """Judgements of boards that no task has: kept in the ledger, shown nowhere, so said here."""
    known = {(board.task.name, board.gpu) for task in tasks for board in task.boards}
    strays = [(one.task, one.gpu) for one in contents.judgements if (one.task, one.gpu) not in known]
    for task, gpu in sorted(set(strays)):
        found = count(strays.count((task, gpu)), "judgement is", "judgements are")
        yield LedgerFault(path=Path("judgements") / task / gpu, reason=f"no task has this board; {found} not shown")


def read_guides(folder: Path) -> tuple[Guide, ...]:
    """A page for each Markdown file; its first heading is its title."""
    return tuple(
        Guide(
            title=next((line[2:] for line in text.splitlines() if line.startswith("# ")), path.stem),
            path=f"guides/{path.stem}/index.html",
            body=render_guide(text),
        )
        for path in sorted(folder.glob("*.md"))
        for text in [path.read_text("utf-8")]
    )


def _entries(board: Standings) -> list[Entry]:
    standing = {
        (row.login, row.digest): Entry(
            standings=board,
            login=row.login,
            digest=row.digest,
            score_us=row.score_us,
            cases=row.cases,
            judgements=row.judgements,
            row=row,
        )
        for row in board.rows
    }
    former = {
        (record.login, record.digest): Entry(
            standings=board,
            login=record.login,
            digest=record.digest,
            score_us=record.score_us,
            cases=case_times([record.judgement], board.nominal_us),
            judgements=(record.judgement,),
            row=None,
        )
        for record in board.records
    }
    return list((former | standing).values())


def _authors(boards: Sequence[Standings]) -> list[Author]:
    """Everybody who stands somewhere, or once was first; a login is the same in any case."""
    found: dict[str, Author] = {}
    for board in boards:
        for row in board.rows:
            found.setdefault(row.login.lower(), Author(login=row.login)).rows.append((board, row))
        for record in board.records:
            found.setdefault(record.login.lower(), Author(login=record.login)).records.append((board, record))
    for author in found.values():
        author.records.sort(key=lambda pair: pair[1].at, reverse=True)
    return [found[key] for key in sorted(found)]


# The pages, and the JSON beside each.


def _page(env: Environment, template: str, path: str, **context: Any) -> tuple[str, str]:
    return path, env.get_template(template).render(root="../" * path.count("/"), **context)


def _landing(env: Environment, site: Site) -> Iterator[tuple[str, str]]:
    found = [(board, record) for board in site.boards for record in board.records]
    latest = sorted(found, key=lambda pair: pair[1].at, reverse=True)[:LATEST_RECORDS]
    lively_first = sorted(site.boards, key=lambda board: not board.rows)
    yield _page(env, "index.html", "index.html", site=site, boards=lively_first, records=latest)
    facts = {
        "format": FORMAT,
        "version": 1,
        "title": site.title,
        "as_of": site.as_of and site.as_of.isoformat(),
        "boards": [_board_summary(board) for board in site.boards],
        "records": [_record_facts(board.board, record) for board, record in latest],
        "faults": [{"path": str(fault.path), "reason": fault.reason} for fault in site.faults],
    }
    yield "index.json", _json(facts)


def _board(env: Environment, site: Site, table: Standings) -> Iterator[tuple[str, str]]:
    board, task = table.board, table.board.task
    path = board_path(board)
    sizes = [row.band for row in table.rows]
    yield _page(
        env,
        "board.html",
        path,
        site=site,
        standings=table,
        claims=claims(table),
        tied={band for band in sizes if sizes.count(band) > 1},
        labels=case_labels([case.params for case in board.benchmarks]),
        bests=_bests(table),
        broad=_staircase(table, width=1080, height=260),
        narrow=_staircase(table, width=340, height=220),
        statement=render_markdown(task.description),
        reference=render_code(task.reference, "reference.py") if task.reference else None,
        files=[*_templates(task), *_shared(task)],
    )
    facts = _board_summary(table) | {
        "edition": board.edition,
        "earlier_editions": table.earlier_editions,
        "nominal_us": table.nominal_us,
        "unranked": table.unranked,
        "benchmarks": [dict(case.params) for case in board.benchmarks],
        "rows": [_row_facts(board, row) for row in table.rows],
        "records": [_record_facts(board, record) for record in table.records],
    }
    yield board_path(board, "board.json"), _json(facts)


def _submission(env: Environment, site: Site, entry: Entry) -> Iterator[tuple[str, str]]:
    board = entry.standings.board
    newest = entry.judgements[-1]
    path = submission_path(board, entry.login, entry.digest)
    source = site.sources(newest)
    yield _page(
        env,
        "submission.html",
        path,
        site=site,
        entry=entry,
        labels=case_labels([case.params for case in entry.cases]),
        bests=_bests(entry.standings),
        samples=_sample_charts(newest),
        unsteady=[case.timing.note for case in newest.benchmarks if case.timing and not case.timing.steady]
        + [case.told.note for case in newest.benchmarks if case.told and case.told.note],
        duels=_duel_charts(newest),
        code=None if source is None else render_code(source, board.task.submission_name, anchors=True),
    )
    for index, judgement in enumerate(entry.judgements, start=1):
        name = "judgement.json" if judgement is newest else f"judgement-{index}.json"
        yield submission_path(board, entry.login, entry.digest, name), judgement.to_json()


def _author(env: Environment, site: Site, author: Author) -> Iterator[tuple[str, str]]:
    yield _page(env, "author.html", author_path(author.login), site=site, author=author)
    facts = {
        "login": author.login,
        "rows": [_row_facts(table.board, row) for table, row in author.rows],
        "records": [_record_facts(table.board, record) for table, record in author.records],
    }
    yield author_path(author.login, "author.json"), _json(facts)


def _bests(table: Standings) -> list[float]:
    """The best standing time of each benchmark."""
    columns = zip(*(row.cases for row in table.rows), strict=False)
    return [min(case.time_us.value for case in column) for column in columns]


@dataclass(frozen=True, kw_only=True)
class File:
    title: str
    hint: str
    code: Markup


def _templates(task: Task) -> Iterator[File]:
    for language, path in task.templates.items():
        text = path.read_text("utf-8", "replace")
        yield File(title="Template", hint=f"to start from, in {language}", code=render_code(text, path.name))


def _shared(task: Task) -> Iterator[File]:
    for name, content in task.shared_files.items():
        text = content.decode("utf-8", "replace")
        yield File(title=name, hint="lies beside your file when it runs", code=render_code(text, name))


# Charts.


def _staircase(table: Standings, *, width: int, height: int) -> Staircase | None:
    if not table.records:
        return None
    bests = [
        Best(
            at=record.at,
            us=record.score_us.value,
            label=f"{record.login}: {format_us(record.score_us.value)}, {record.at:%Y-%m-%d}",
            href=f"{record.login}/{record.digest[:12]}/index.html",
        )
        for record in table.records
    ]
    until = max((row.judgements[-1].finished_at for row in table.rows), default=bests[-1].at)
    return staircase("Best time over the season", bests, until, width=width, height=height)


def _sample_charts(judgement: Judgement) -> list[Strip]:
    timings = [case.timing for case in judgement.benchmarks if case.timing]
    titles = case_labels([case.params for case in judgement.benchmarks if case.timing])
    return [
        strip(
            title,
            [
                Side(label="this file", runs=timing.submission, interval=timing.ratio.scaled(timing.anchor_us)),
                Side(label="anchor", runs=timing.anchor),
            ],
        )
        for title, timing in zip(titles, timings, strict=True)
    ]


def _duel_charts(judgement: Judgement) -> list[Strip]:
    duel = judgement.duel
    if not duel:
        return []
    return [
        strip(
            title,
            [
                Side(label=judgement.submission.login, runs=case.challenger),
                Side(label=f"{duel.opponent}, then first", runs=case.champion),
            ],
            one_axis=True,
        )
        for title, case in zip(case_labels([case.params for case in duel.cases]), duel.cases, strict=True)
    ]


# JSON.


def _json(facts: dict[str, Any]) -> str:
    return json.dumps(facts, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def _board_summary(table: Standings) -> dict[str, Any]:
    board, first = table.board, next(iter(table.rows), None)
    return {
        "task": board.task.name,
        "title": board.task.title,
        "gpu": board.gpu,
        "page": board_path(board),
        "deadline": board.task.deadline and board.task.deadline.isoformat(),
        "ranking_by": board.ranking_by,
        "entries": len(table.rows),
        "first": first and {"login": first.login, "score_us": first.score_us.model_dump()},
    }


def _row_facts(board: Board, row: Row) -> dict[str, Any]:
    return {
        "task": board.task.name,
        "gpu": board.gpu,
        **row.facts,
        "page": submission_path(board, row.login, row.digest),
        "cases": [
            {
                "params": dict(case.params),
                "time_us": case.time_us.model_dump(),
                "ratio": case.ratio and case.ratio.model_dump(),
            }
            for case in row.cases
        ],
    }


def _record_facts(board: Board, record: Record) -> dict[str, Any]:
    return {
        "task": board.task.name,
        "gpu": board.gpu,
        "at": record.at.isoformat(),
        "login": record.login,
        "score_us": record.score_us.model_dump(),
        "gain": record.gain,
        "digest": record.digest,
        "page": submission_path(board, record.login, record.digest),
    }


# The disk.


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode("utf-8", "replace"))


@contextmanager
def _swapped_in(out: Path) -> Iterator[Path]:
    """A new folder that takes the place of `out` when the block succeeds, and vanishes when it fails."""
    if out.exists() and not _is_ours(out):
        raise PullRankError(f"{out} holds files that are no PullRank site; remove them, or choose another folder")
    out.parent.mkdir(parents=True, exist_ok=True)
    workshop = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    try:
        new = workshop / "new"
        new.mkdir()
        yield new
        _swap(new, out, workshop / "old")
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _swap(new: Path, out: Path, old: Path) -> None:
    try:
        if out.exists():
            out.rename(old)
        new.rename(out)
    except BaseException:
        # Whatever struck, Ctrl-C too: a site stands at `out`, the new one or the old.
        if old.exists() and not out.exists():
            old.rename(out)
        raise


def _is_ours(out: Path) -> bool:
    """Whether `out` may be replaced: an empty folder, or a site that we built."""
    if not out.is_dir():
        return False
    if not any(out.iterdir()):
        return True
    try:
        return bool(json.loads((out / "index.json").read_bytes())["format"] == FORMAT)
    except (OSError, ValueError, KeyError, TypeError):
        return False
