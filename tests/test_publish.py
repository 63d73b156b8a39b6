"""The site as files: every page, every link, and what hostile or missing data makes of them."""

import hashlib
import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from harness.errors import PullRankError, TaskError
from harness.judgement import (
    CaseKind,
    CaseResult,
    Claim,
    Duel,
    DuelCase,
    HarnessInfo,
    Judgement,
    Machine,
    Mode,
    Run,
    SandboxInfo,
    SubmissionInfo,
    Timing,
)
from harness.stats import Interval
from harness.task import Board, Task, load_task
from harness.verdict import Verdict
from scripts.filters import case_labels
from scripts.ledger import Ledger
from scripts.publish import SiteReport, build_site, read_guides

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
ANCHOR_US = (80.0, 410.0, 2600.0)
SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202egnp.\u2066\x1b[31m"

TASK_YML = """\
title: Vector addition
description: |
  Add two vectors of `float32`.

  # Shape

  | name | shape |
  |---|---|
  | a, b | (size,) |
gpus: [CPU, H100]
deadline: 2027-03-01T00:00:00Z
templates: {Python: template.py}
tests: [{size: 127, seed: 4242}]
benchmarks: [{size: 4096, seed: 2146}, {size: 65536, seed: 54352}, {size: 1048576, seed: 8}]
"""


def task_folder(parent: Path, name: str = "vectoradd", yml: str = TASK_YML) -> Path:
    files = {
        "task.yml": yml,
        "task.py": "input_t = tuple\n",
        "reference.py": "def check_implementation(data, output):\n    return '' if 1 < 2 else 'wrong'\n",
        "template.py": "def custom_kernel(data):\n    return data\n",
        "examples/accepted/plain.py": "def custom_kernel(data):\n    return data\n",
        "examples/wrong_answer/none.py": "def custom_kernel(data):\n    return None\n",
    }
    for path, text in files.items():
        (parent / name / path).parent.mkdir(parents=True, exist_ok=True)
        (parent / name / path).write_text(text)
    return parent / name


def runs(centre_us: float, noise: random.Random, side: int, count: int = 6) -> tuple[Run, ...]:
    def sample() -> float:
        return centre_us * (1 + abs(noise.gauss(0, 0.01))) * (40 if noise.random() < 0.01 else 1)

    return tuple(
        Run(
            order=2 * index + side,
            warmups_us=(centre_us * 2,),
            samples_us=tuple(sample() for _ in range(12)),
            seeds=tuple(range(13)),
        )
        for index in range(count)
    )


def judged(
    board: Board,
    login: str,
    speed: float,
    *,
    day: float = 0,
    source: str = "",
    sandbox: str = "bubblewrap",
    duel: Duel | None = None,
    message: str = "",
    machine: dict[str, Any] | None = None,
    note: str = "",
    steady: bool = True,
    **rest: Any,
) -> Judgement:
    """A ranked, accepted judgement of a file that is `speed` times as fast as the anchor."""
    digest = hashlib.sha256((source or f"{login} {speed}").encode()).hexdigest()
    noise = random.Random(f"{digest} {day}")
    at = START + timedelta(days=day)
    cases = [
        CaseResult(kind=CaseKind.BUILD, params={}, verdict=Verdict.ACCEPTED, seconds=1.2),
        *(
            CaseResult(
                kind=CaseKind.TEST, params=dict(case.params), verdict=Verdict.ACCEPTED, message=message, seconds=0.01
            )
            for case in board.tests
        ),
    ]
    for case, anchor_us in zip(board.benchmarks, ANCHOR_US, strict=False):
        timing = Timing.of(
            runs(anchor_us / speed, noise, 0), runs(anchor_us, noise, 1),
            overhead_us=0.4, bound_us=0.7, steady=steady, note=note,
        )  # fmt: skip
        params = dict(case.params)
        cases.append(
            CaseResult(kind=CaseKind.BENCHMARK, params=params, verdict=Verdict.ACCEPTED, seconds=2, timing=timing)
        )
    facts = {
        "device": "CPU", "cpu": "AMD EPYC 7763", "cores": 2, "memory_gib": 7.8, "os": "Linux 6.8",
        "python": "3.11.7", "torch": "2.13.0", "quiet": True,
    }  # fmt: skip
    fields: dict[str, Any] = {
        "task": board.task.name, "edition": board.edition, "gpu": board.gpu, "mode": Mode.RANKED,
        "submission": SubmissionInfo(login=login, digest=digest, lines=24, language="Triton", pull_request=7),
        "verdict": Verdict.ACCEPTED, "message": message, "cases": tuple(cases), "duel": duel, "claim": Claim.BOUNDED,
        "machine": Machine(**(facts | (machine or {}))),
        "sandbox": SandboxInfo(kind=sandbox, stop="signals"),
        "harness": HarnessInfo(version="0.1.0", method=1, digest="0" * 64),
        "started_at": at, "finished_at": at + timedelta(seconds=20),
    }  # fmt: skip
    return Judgement(**(fields | rest))


def duel_with(board: Board, champion: Judgement, ratio: float) -> Duel:
    noise = random.Random(f"{champion.submission.digest} {ratio}")
    return Duel(
        opponent=champion.submission.login,
        opponent_digest=champion.submission.digest,
        cases=tuple(
            DuelCase(
                params=dict(case.params),
                challenger=runs(us * ratio, noise, 0, 16),
                champion=runs(us, noise, 1, 16),
            )
            for case, us in zip(board.benchmarks, ANCHOR_US, strict=False)
        ),
        ratio=Interval(value=ratio, low=ratio * 0.99, high=ratio * 1.01),
        won=ratio < 0.98,
    )


def season(board: Board) -> list[Judgement]:
    """Five authors: a first entry, two duels won, one lost, a tie at the end."""
    ada = judged(board, "ada", 1.4, day=0)
    grace = judged(board, "grace", 2.1, day=6, duel=duel_with(board, ada, 0.66))
    edsger = judged(board, "edsger", 2.9, day=21, duel=duel_with(board, grace, 0.72))
    barbara = judged(board, "barbara", 2.97, day=30, duel=duel_with(board, edsger, 0.995))
    return [ada, judged(board, "linus", 0.5, day=2), grace, edsger, barbara, judged(board, "donald", 1.402, day=31)]


def ledger_of(folder: Path, judgements: list[Judgement]) -> Ledger:
    ledger = Ledger(folder / "ledger")
    for index, judgement in enumerate(judgements):
        ledger.append(judgement, f"r{index}")
    return ledger


def built(folder: Path, task: Task, judgements: list[Judgement], **rest: Any) -> tuple[Path, SiteReport]:
    rest = {"title": "Kernel Cup", "submissions": lambda _: "def custom_kernel(data):\n    return data\n"} | rest
    report = build_site([task], ledger_of(folder, judgements), folder / "_site", **rest)
    return folder / "_site", report


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(task_folder(tmp_path / "tasks"))


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data


def html_pages(site: Path) -> Iterator[tuple[Path, Tags]]:
    for path in sorted(site.rglob("*.html")):
        yield path, Tags(path.read_text("utf-8"))


def links(page: Tags) -> Iterator[str]:
    for _, attributes in page.tags:
        yield from (attributes[name] for name in ("href", "src") if name in attributes)


def page_text(site: Path, path: str) -> str:
    return " ".join(Tags((site / path / "index.html").read_text("utf-8")).text.split())


def test_every_relative_link_leads_to_a_file_and_every_fragment_to_an_id(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    ids = {path: {attributes.get("id") for _, attributes in page.tags} for path, page in html_pages(site)}
    for path, page in html_pages(site):
        if path.name == "404.html":
            continue
        for link in links(page):
            target, _, fragment = link.partition("#")
            found = (path.parent / target).resolve() if target else path
            assert found.is_file(), f"{path}: {link}"
            assert not fragment or fragment in ids[found], f"{path}: {link}"


def test_every_page_stands_where_it_should_with_its_json_beside_it(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    site, report = built(tmp_path, task, judgements)
    ada = judgements[0].submission.digest[:12]
    for path in ("index.json", "vectoradd/CPU/board.json", "vectoradd/H100/board.json", "authors/ada/author.json"):
        assert json.loads((site / path).read_text())
        assert (site / path).with_name("index.html").is_file()
    stored = site / "vectoradd/CPU/ada" / ada / "judgement.json"
    assert Judgement.from_json(stored.read_bytes()).submission.login == "ada"
    assert report.rows == 6
    assert report.pages == len(list(site.rglob("*.html")))
    assert not report.faults


def test_the_board_says_who_leads_who_is_tied_and_who_lost_a_duel(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    text = page_text(site, "vectoradd/CPU")
    assert "6 entries, ranked by the geometric mean of 3 benchmarks" in text
    assert "tied with ada" in text
    assert "duel" in text
    rows = json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]
    assert [row["login"] for row in rows] == ["edsger", "barbara", "grace", "ada", "donald", "linus"]


def test_a_former_first_keeps_its_page(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    old = judged(board, "ada", 1.2, day=0)
    site, _ = built(tmp_path, task, [old, judged(board, "ada", 2.4, day=1)])
    assert "A former first of Vector addition" in page_text(site, f"vectoradd/CPU/ada/{old.submission.digest[:12]}")


def test_pooled_judgements_all_lie_beside_their_page(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    twice = [judged(board, "ada", 1.5, day=day) for day in (0, 1)]
    site, _ = built(tmp_path, task, twice)
    folder = site / "vectoradd/CPU/ada" / twice[0].submission.digest[:12]
    stored = [Judgement.from_json((folder / name).read_bytes()) for name in ("judgement-1.json", "judgement.json")]
    assert [one.finished_at for one in stored] == [one.finished_at for one in twice]


def test_an_empty_ledger_gives_pages_that_say_how_to_begin(tmp_path: Path, task: Task) -> None:
    site, report = built(tmp_path, task, [])
    assert "No entries yet" in page_text(site, ".")
    assert "Nobody stands here yet" in page_text(site, "vectoradd/CPU")
    assert (report.pages, report.rows) == (len(list(site.rglob("*.html"))), 0)


def test_a_repository_without_tasks_has_a_landing_page(tmp_path: Path) -> None:
    build_site([], Ledger(tmp_path / "none"), tmp_path / "_site", submissions=lambda _: None, title="Kernel Cup")
    assert "There are no boards yet" in page_text(tmp_path / "_site", ".")


def test_a_task_without_a_description_has_a_page(tmp_path: Path) -> None:
    yml = re.sub(r"description.*?(?=gpus)", "", TASK_YML, flags=re.DOTALL)
    site, _ = built(tmp_path, load_task(task_folder(tmp_path / "tasks", yml=yml)), [])
    assert "This task has no statement" in page_text(site, "vectoradd/CPU")


HOSTILE = {
    "message": {"message": SCRIPT},
    "log": {"log": SCRIPT},
    "note": {"note": SCRIPT, "steady": False},
    "run_url": {"run_url": 'javascript:alert(1)//"><script>alert(1)</script>'},
    "machine": {"machine": dict.fromkeys(("device", "cpu", "os", "python", "torch", "driver", "note"), SCRIPT)},
    "sandbox": {"sandbox": "bubblewrap"} | {"harness": HarnessInfo(version=SCRIPT, method=1, digest="0" * 64)},
    "language": {"submission": SubmissionInfo(login="mallory", digest="ab" * 32, lines=1, language=SCRIPT)},
    "code": {},
}


@pytest.mark.parametrize("field", HOSTILE)
def test_hostile_text_is_inert_wherever_it_stands(tmp_path: Path, task: Task, field: str) -> None:
    judgement = judged(task.board("CPU"), "mallory", 1.5, **HOSTILE[field])
    code = f"x = 1  # {SCRIPT}\n"
    site, _ = built(tmp_path, task, [judgement], submissions=lambda _: code, notice=SCRIPT, title=SCRIPT)
    for path, page in html_pages(site):
        assert_inert(path, page)


def assert_inert(path: Path, page: Tags) -> None:
    assert not {tag for tag, _ in page.tags} & {"script", "img", "style", "iframe", "object", "form", "base"}, path
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], f"{path}: {tag}"
    assert not [link for link in links(page) if re.match(r"\s*(javascript|data|http)", link, re.IGNORECASE)], path
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page.text), path


def test_every_page_loads_from_itself_alone(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    for path, page in html_pages(site):
        policies = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert policies and policies[0].startswith("default-src 'self'"), path
        assert_inert(path, page)


def test_a_statement_may_not_bring_its_own_html(tmp_path: Path) -> None:
    yml = TASK_YML.replace("Add two", "<script>alert(1)</script> [x](javascript:alert(1)) Add two")
    site, _ = built(tmp_path, load_task(task_folder(tmp_path / "tasks", yml=yml)), [])
    for path, page in html_pages(site):
        assert_inert(path, page)


def test_the_heading_of_a_statement_stands_below_those_of_the_page(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    assert "<h3>Shape</h3>" in (site / "vectoradd/CPU/index.html").read_text()


def test_unwalled_rows_are_marked_and_only_there_when_allowed(tmp_path: Path, task: Task) -> None:
    judgements = [judged(task.board("CPU"), "ada", 1.5, sandbox="none")]
    site, report = built(tmp_path, task, judgements)
    assert report.rows == 0
    report = build_site(
        [task], Ledger(tmp_path / "ledger"), site, submissions=lambda _: None, title="Cup", allow_unwalled=True,
        notice="Demo: judged without walls",
    )  # fmt: skip
    assert report.rows == 1
    assert "unwalled" in page_text(site, "vectoradd/CPU")
    assert "Demo: judged without walls" in page_text(site, "authors/ada")


def test_a_torn_judgement_is_named_in_the_report_and_on_the_landing_page(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    ledger = ledger_of(tmp_path, judgements)
    torn = sorted((tmp_path / "ledger").rglob("*.json"))[0]
    torn.write_text(torn.read_text()[:-40])
    report = build_site([task], ledger, tmp_path / "_site", submissions=lambda _: None, title="Cup")
    assert [fault.path.name for fault in report.faults] == [torn.name]
    assert torn.name in page_text(tmp_path / "_site", ".")
    assert report.rows == len(judgements) - 1


def test_judgements_of_a_board_that_no_task_has_are_counted_aloud(tmp_path: Path, task: Task) -> None:
    site, report = built(tmp_path, task, [judged(task.board("CPU"), "ada", 1.5, task="gone", gpu="B200")])
    assert [str(fault.path) for fault in report.faults] == ["judgements/gone/B200"]
    assert "1 judgement is not shown" in page_text(site, ".")


def test_the_same_data_gives_the_same_bytes(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    (first, _), (second, _) = (built(tmp_path / name, task, judgements) for name in ("one", "two"))
    for path in first.rglob("*.*"):
        if path.is_file():
            assert path.read_bytes() == (second / path.relative_to(first)).read_bytes()


def test_a_rebuild_replaces_the_whole_site(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    (site / "stale.html").write_text("old")
    build_site([task], Ledger(tmp_path / "ledger"), site, submissions=lambda _: None, title="Cup")
    assert not (site / "stale.html").exists()
    assert not list(tmp_path.glob("._site-*"))


def test_a_build_that_fails_leaves_the_old_site_as_it_was(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    before = (site / "index.html").read_bytes()

    def lost(_: Judgement) -> str:
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        build_site([task], Ledger(tmp_path / "ledger"), site, submissions=lost, title="Cup")
    assert (site / "index.html").read_bytes() == before
    assert not list(tmp_path.glob("._site-*"))


def test_what_strikes_between_the_two_renames_leaves_the_old_site_in_place(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, _ = built(tmp_path, task, [])
    before = (site / "index.html").read_bytes()
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == "new":
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_site([task], Ledger(tmp_path / "ledger"), site, submissions=lambda _: None, title="Cup")
    assert (site / "index.html").read_bytes() == before
    assert not list(tmp_path.glob("._site-*"))


def test_a_folder_that_is_no_site_is_never_replaced(tmp_path: Path, task: Task) -> None:
    (tmp_path / "_site").mkdir()
    (tmp_path / "_site" / "thesis.tex").write_text("years of work")
    with pytest.raises(PullRankError, match="no PullRank site"):
        built(tmp_path, task, [])
    assert (tmp_path / "_site" / "thesis.tex").exists()


def test_a_task_may_not_take_a_folder_of_the_sites_own(tmp_path: Path) -> None:
    task = load_task(task_folder(tmp_path / "tasks", name="authors"))
    with pytest.raises(TaskError, match="rename the task"):
        built(tmp_path, task, [])


@pytest.mark.parametrize(
    ("base_path", "link"), [("/", "/index.html"), ("cup", "/cup/index.html"), ("/cup/", "/cup/index.html")]
)
def test_the_404_page_links_from_the_root_since_it_answers_at_any_depth(
    tmp_path: Path, task: Task, base_path: str, link: str
) -> None:
    site, _ = built(tmp_path, task, [], base_path=base_path)
    assert link in set(links(Tags((site / "404.html").read_text())))


def test_code_that_is_not_at_hand_is_named_by_its_digest(tmp_path: Path, task: Task) -> None:
    judgement = judged(task.board("CPU"), "ada", 1.5)
    site, _ = built(tmp_path, task, [judgement], submissions=lambda _: None)
    digest = judgement.submission.digest
    assert digest in page_text(site, f"vectoradd/CPU/ada/{digest[:12]}")


@pytest.mark.parametrize(
    ("cases", "labels"),
    [
        ([{"size": 1, "seed": 3}, {"size": 2, "seed": 4}], ["size: 1", "size: 2"]),
        ([{"n": 8, "size": 1, "seed": 3}, {"n": 8, "size": 2, "seed": 3}], ["size: 1", "size: 2"]),
        ([{"size": 1, "seed": 3}, {"size": 1, "seed": 4}], ["seed: 3", "seed: 4"]),
        ([{"size": 1, "seed": 3}], ["size: 1, seed: 3"]),
        ([{"size": 1}, {"size": 1}], ["size: 1", "size: 1"]),
        ([{"size": 1}, {}], ["size: 1", "no arguments"]),
        ([], []),
    ],
)
def test_a_case_is_named_by_what_tells_it_apart(cases: list[dict[str, Any]], labels: list[str]) -> None:
    assert case_labels(cases) == labels


def test_a_guide_is_named_by_its_first_heading(tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text("# The rules\n\nOne file. <script>\n\n## More\n\n[a](b-c.md#d) [e](f.md)\n")
    guide = read_guides(tmp_path)[0]
    assert (guide.title, guide.path) == ("The rules", "guides/rules/index.html")
    assert (
        "<h1>The rules</h1>" in guide.body and '<h2 id="more">More</h2>' in guide.body and "<script>" not in guide.body
    )
    assert 'href="../b-c/index.html#d"' in guide.body and 'href="../f/index.html"' in guide.body
