"""The site as files: all pages and links, also from hostile or incomplete data."""

import contextlib
import csv
import hashlib
import html
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import unified_diff
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest
from jinja2 import UndefinedError
from markupsafe import Markup
from PIL import Image

from harness.records.errors import PullRankError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.stats import Interval
from harness.records.times import Duel, DuelCase, Run, Timing
from harness.records.verdict import Verdict
from harness.task.task import Board, Task, load_task, why_no_name
from harness.task.task_file import Ranking
from scripts.cli import run
from scripts.common.text import format_error, format_us, plain
from scripts.competition.settings import Gpu
from scripts.ledger.description import CommitDescription
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action, Moderation
from scripts.pages import submission
from scripts.pages.author import LATEST_STEPS
from scripts.pages.feeds import feed_of_all
from scripts.pages.parts.code import render_code, render_diff, render_guide
from scripts.pages.parts.paths import author_path, raw_url
from scripts.pages.parts.render import environment
from scripts.pages.parts.site import Site, read_guides
from scripts.pages.parts.words import Unit, case_labels, day, duel_sentence, first_sentence, heat, sentence
from scripts.pages.parts.write import swapped_in, write_file
from scripts.pages.publishing import pool
from scripts.pages.publishing.pool import processes_for, spread
from scripts.pages.publishing.publish import SiteReport, build_site

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
NOW = START + timedelta(days=40)
ANCHOR_US = (80.0, 410.0, 2600.0)
SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202egnp.\u2066\x1b[31m"

TORCH_SUM = "import torch\n\n\ndef custom_kernel(data):\n    return torch.add(*data)\n"
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


def runs(centre_us: float, noise: random.Random, side: int, count: int = 6, unsteady: float = 0.0) -> tuple[Run, ...]:
    """Runs of one side; `unsteady` is the difference between the first and the last time, in logarithms."""

    def sample(index: int) -> float:
        middle_us = centre_us * math.exp(unsteady * (2 * index / (count - 1) - 1) / 2)
        return middle_us * (1 + abs(noise.gauss(0, 0.01))) * (40 if noise.random() < 0.01 else 1)

    return tuple(
        Run(
            order=2 * index + side,
            warmups_us=(centre_us * 2,),
            samples_us=tuple(sample(index) for _ in range(12)),
            seeds=tuple(range(13)),
        )
        for index in range(count)
    )


def judged(
    board: Board,
    login: str,
    speed: float | tuple[float, float, float],
    *,
    day: float = 0,
    source: str = "",
    sandbox: str = "bubblewrap",
    duel: Duel | None = None,
    message: str = "",
    machine: dict[str, Any] | None = None,
    note: str = "",
    steady: bool = True,
    unsteady: float = 0.0,
    **rest: Any,
) -> Judgement:
    """A ranked, accepted judgement of a file that is `speed` times as fast as the anchor, overall or by case."""
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
    speeds = speed if isinstance(speed, tuple) else (speed,) * 3
    for case, anchor_us, times in zip(board.benchmarks, ANCHOR_US, speeds, strict=False):
        timing = Timing.of(
            runs(anchor_us / times, noise, 0, unsteady=unsteady), runs(anchor_us, noise, 1),
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
    """Five authors: a first entry, two won duels, a lost one, a tie at the end."""
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
    allow_unwalled = rest.pop("allow_unwalled", False)
    rest = {
        "title": "Kernel Cup",
        "sources": lambda _: "def custom_kernel(data):\n    return data\n",
        "now": NOW,
    } | rest
    ledger = ledger_of(folder, judgements)
    report = build_site([task], ledger, folder / "_site", Site(**rest), allow_unwalled=allow_unwalled)
    return folder / "_site", report


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(task_folder(tmp_path / "tasks"))


@pytest.fixture(scope="module")
def seasons_site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SiteReport]:
    """The site of `season`, for tests that only read it, and the report of its build."""
    folder = tmp_path_factory.mktemp("season")
    task = load_task(task_folder(folder / "tasks"))
    return built(folder, task, season(task.board("CPU")))


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and all its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    @cached_property
    def text(self) -> str:
        return "".join(self._texts)


def html_pages(site: Path) -> Iterator[tuple[Path, Tags]]:
    for path in sorted(site.rglob("*.html")):
        yield path, Tags(path.read_text("utf-8"))


def links(page: Tags) -> Iterator[str]:
    for _, attributes in page.tags:
        yield from (attributes[name] for name in ("href", "src") if name in attributes)


def page_text(site: Path, path: str) -> str:
    return " ".join(Tags((site / path / "index.html").read_text("utf-8")).text.split())


def assert_links_lead_somewhere(site: Path) -> None:
    pages = {str(path): page for path, page in html_pages(site)}
    ids = {path: {attributes.get("id") for _, attributes in page.tags} for path, page in pages.items()}
    files = {str(path) for path in site.rglob("*") if path.is_file()}
    assert ids.keys() <= files
    for path, page in pages.items():
        if path.endswith("/404.html"):
            continue
        for link in set(links(page)):
            if link.startswith("https://"):
                continue
            target, _, fragment = link.partition("#")
            found = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            assert found in files, f"{path}: {link}"
            assert not fragment or fragment in ids[found], f"{path}: {link}"


def test_every_relative_link_leads_to_an_existing_file_and_id(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    assert_links_lead_somewhere(site)


def test_every_page_has_its_json_beside_it(seasons_site: tuple[Path, SiteReport]) -> None:
    site, report = seasons_site
    ada = next((site / "vectoradd/CPU/ada").iterdir()).name
    boards = ("vectoradd/CPU/board.json", "vectoradd/H100/board.json")
    for path in ("index.json", *boards, "authors/ada/author.json", "guides/judging/guide.json"):
        assert json.loads((site / path).read_text())
        assert (site / path).with_name("index.html").is_file()
    stored = site / "vectoradd/CPU/ada" / ada / "judgement.json"
    assert Judgement.from_json(stored.read_bytes()).submission.login == "ada"
    assert report.rows == 6
    assert report.pages == len(list(site.rglob("*.html")))
    assert not report.faults


def test_the_board_shows_the_leader_ties_and_lost_duels(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    text = page_text(site, "vectoradd/CPU")
    assert "6 entries, ranked by the geometric mean of 3 benchmarks" in text
    assert "tied with ada" in text
    assert "duel" in text
    rows = json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]
    assert [row["login"] for row in rows] == ["edsger", "barbara", "grace", "ada", "donald", "linus"]


def test_a_lost_duel_shows_its_speedup_and_what_first_place_needs(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    takes = "speedup 1.005×, ±1.0 %; first place needs a gain of at least 1 %, and more than the noise"
    assert f"looks faster, but lost its duel with edsger: {takes}" in page_text(site, "vectoradd/CPU")
    barbara = next((site / "vectoradd/CPU/barbara").iterdir()).name
    text = page_text(site, f"vectoradd/CPU/barbara/{barbara}")
    assert "Lost: speedup 1.005×, ±1.0 %, over 8 interleaved blocks; first place needs a gain of at least 1 %" in text


@pytest.mark.parametrize(("ratio", "said"), [(0.72, "Won: speedup 1.39×"), (1.2, "Lost: 20.0 % slower")])
def test_a_won_duel_or_a_slower_challenger_gets_no_reason(task: Task, ratio: float, said: str) -> None:
    board = task.board("CPU")
    sentence = duel_sentence(duel_with(board, judged(board, "ada", 1.4), ratio))
    assert sentence == f"{said}, ±1.0 %, over 8 interleaved blocks."


def test_the_page_of_a_duel_that_was_won_too_late_does_not_claim_first_place(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ada = judged(board, "ada", 1.4)
    first = judged(board, "bob", 2.0, day=2, duel=duel_with(board, ada, 0.72))
    late = judged(board, "carol", 1.9, day=3, duel=duel_with(board, ada, 0.75))
    site, _ = built(tmp_path, task, [ada, first, late])
    pages = [f"vectoradd/CPU/{one.submission.login}/{one.submission.digest[:12]}" for one in (first, late)]
    texts = [page_text(site, page) for page in pages]
    assert ["did not take first place" in text for text in texts] == [False, True]
    assert all("Won: speedup" in text for text in texts)


def test_a_record_of_a_file_that_was_their_best_before_saved_no_time(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ada = judged(board, "ada", 1.2)
    best = judged(board, "bob", 2.4, day=1)
    won = judged(board, "bob", 2.0, day=2, duel=duel_with(board, ada, 0.6))
    site, _ = built(tmp_path, task, [ada, best, won])
    steps = json.loads((site / "authors/bob/author.json").read_text())["history"][::-1]
    assert [step["digest"] for step in steps] == [one.submission.digest for one in (best, won, best)]
    assert [step["before_us"] for step in steps] == [None, *[steps[0]["score_us"]] * 2]
    assert [step["record"] for step in steps] == [False, True, True] and not any(step["gain"] for step in steps)
    assert "→" not in (site / "authors/bob/index.html").read_text()


def test_an_author_without_a_first_place_still_has_a_history(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    slow, fast = judged(board, "linus", 0.5, day=2), judged(board, "linus", 1.0, day=9)
    site, _ = built(tmp_path, task, [judged(board, "ada", 1.4), slow, judged(board, "linus", 0.4, day=5), fast])
    facts = json.loads((site / "authors/linus/author.json").read_text())
    first, second = facts["history"][::-1]
    assert (first["before_us"], first["gain"], first["digest"]) == (None, None, slow.submission.digest)
    assert (second["before_us"], second["digest"]) == (first["score_us"], fast.submission.digest)
    assert second["gain"] == pytest.approx(0.5, abs=0.01)
    assert not facts["records"] and not any(step["record"] for step in facts["history"])
    assert (site / second["page"]).is_file()
    text = page_text(site, "authors/linus")
    assert f"{format_us(first['score_us'])} → " in text and "first entry" in text


def test_a_record_set_by_an_older_file_is_a_separate_history_step(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ada, bob = judged(board, "ada", 1.4), judged(board, "bob", 1.5, source="bob", day=1)
    again = judged(board, "bob", 1.5, source="bob", day=2, duel=duel_with(board, ada, 0.9))
    site, _ = built(tmp_path, task, [ada, bob, again])
    steps = json.loads((site / "authors/bob/author.json").read_text())["history"]
    assert [step["record"] for step in steps] == [True, False]
    assert len({step["digest"] for step in steps}) == 1


def test_a_long_history_shows_its_latest_steps_and_folds_the_rest(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ever_faster = [judged(board, "ada", 1.1**index, day=index) for index in range(LATEST_STEPS + 3)]
    site, _ = built(tmp_path, task, ever_faster)
    page = (site / "authors/ada/index.html").read_text()
    shown, _, folded = page.partition("<details>")
    assert shown.partition('id="history-title"')[2].count("<tr>") == LATEST_STEPS + 1
    assert folded.count("<tr>") == 4 and "3 steps" in folded
    assert page.count(">record<") == LATEST_STEPS + 2  # The board's first entry beat nobody.
    assert f"Records{LATEST_STEPS + 2} " in page_text(site, "authors/ada")
    assert f"Records{LATEST_STEPS + 2} " in page_text(site, ".") and "in 22 records." in page_text(
        site, "vectoradd/CPU"
    )


def test_a_former_first_place_keeps_its_page(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    old = judged(board, "ada", 1.2, day=0)
    site, _ = built(tmp_path, task, [old, judged(board, "ada", 2.4, day=1)])
    assert "Former first place on Vector addition" in page_text(site, f"vectoradd/CPU/ada/{old.submission.digest[:12]}")


def test_the_page_of_a_former_first_place_pools_what_its_time_then_did(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ada = judged(board, "ada", 1.2)
    # Bob's first file takes first place when its second judging wins the duel; his next file replaces it.
    then = [
        judged(board, "bob", 2.0, day=day, duel=duel, claim=claim)
        for day, duel, claim in ((1, None, Claim.INSIDE_TIMED), (2, duel_with(board, ada, 0.6), Claim.BOUNDED))
    ]
    site, _ = built(tmp_path, task, [ada, *then, judged(board, "bob", 2.4, day=3), judged(board, "bob", 2.0, day=4)])
    folder = site / "vectoradd/CPU/bob" / then[0].submission.digest[:12]
    facts = json.loads((folder / "submission.json").read_text())
    assert (facts["rank"], facts["band"], facts["judgements"], facts["claim"]) == (None, None, 2, "inside-timed")
    assert facts["score_us"] == facts["record"]["score_us"] and facts["first_at"] == facts["record"]["at"]
    times = [case["time_us"]["value"] for case in facts["cases"]]
    assert math.prod(times) ** (1 / 3) == pytest.approx(facts["score_us"]["value"], rel=1e-9)
    assert len({*folder.glob("judgement*.json")}) == 2
    assert "pooled over 2 judgements" in (folder / "index.html").read_text()


def test_a_former_first_place_became_first_when_another_file_won_its_duel(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ada = judged(board, "ada", 1.2)
    older = judged(board, "bob", 2.4, day=1)
    won = judged(board, "bob", 2.0, day=2, duel=duel_with(board, ada, 0.6))
    site, _ = built(tmp_path, task, [ada, older, won, judged(board, "bob", 2.9, day=3)])
    path = f"vectoradd/CPU/bob/{older.submission.digest[:12]}/submission.json"
    facts = json.loads((site / path).read_text())
    assert facts["first_at"] == facts["record"]["at"] == won.finished_at.isoformat()


def test_the_site_copies_judgements_of_top_rows_and_latest_records_only(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "JUDGEMENTS_BESIDE", 2)
    judgements = season(task.board("CPU"))
    site, _ = built(tmp_path, task, judgements, repository="https://github.com/kernels/cup")
    beside = {path.parent.parent.name for path in site.glob("vectoradd/CPU/*/*/judgement.json")}
    assert beside == {"edsger", "barbara", "grace"}  # Ada's record is third from the end.
    folders = {path.parent.parent.name: path.parent for path in site.glob("vectoradd/CPU/*/*/submission.json")}
    assert set(folders) == {one.submission.login for one in judgements}
    facts = {login: json.loads((folder / "submission.json").read_text()) for login, folder in folders.items()}
    raw = "https://raw.githubusercontent.com/kernels/cup/ledger"
    (stored,) = (tmp_path / "ledger").glob("judgements/vectoradd/CPU/linus/*.json")
    in_ledger = f"{raw}/{stored.relative_to(tmp_path / 'ledger').as_posix()}"
    assert facts["linus"]["judgement"] == in_ledger and facts["grace"]["judgement"] == "judgement.json"
    page = Tags((folders["linus"] / "index.html").read_text())
    assert {"https://github.com/kernels/cup/tree/ledger/judgements/vectoradd/CPU/linus", in_ledger} <= set(links(page))
    assert f"pullrank verify {in_ledger} " in page.text.replace("\n", " ")


def test_a_page_off_github_links_only_the_judgements_beside_it(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "JUDGEMENTS_BESIDE", 1)
    judgements = season(task.board("CPU"))
    site, _ = built(tmp_path, task, judgements, address="https://kernels.dev/cup")
    folder = site / "vectoradd/CPU/linus" / judgements[1].submission.digest[:12]
    assert json.loads((folder / "submission.json").read_text())["judgement"] is None
    text = Tags((folder / "index.html").read_text()).text
    assert "pullrank rank" in text and "pullrank verify" not in text and "in the ledger" in text
    first = f"vectoradd/CPU/edsger/{judgements[3].submission.digest[:12]}"
    assert f"pullrank verify https://kernels.dev/cup/{first}/judgement.json" in page_text(site, first)


def test_the_address_of_an_authors_page_ignores_the_case_of_the_login() -> None:
    assert author_path("Ada") == author_path("ada") == "authors/ada/index.html"


def test_ledger_links_point_to_the_raw_host_of_the_repository() -> None:
    place = Path("judgements/vectoradd/CPU/ada/7-0123456789ab-r1.json")
    assert raw_url("https://github.com/kernels/cup", place) == (
        f"https://raw.githubusercontent.com/kernels/cup/ledger/{place}"
    )
    assert raw_url("https://github.acme.org/kernels/cup", place) == (
        f"https://raw.github.acme.org/kernels/cup/ledger/{place}"
    )
    assert raw_url("", place) == ""


@pytest.fixture
def with_baseline(tmp_path: Path) -> Task:
    folder = task_folder(tmp_path / "tasks", yml=TASK_YML + "baselines: {torch.add: examples/accepted/sum.py}\n")
    (folder / "examples/accepted/sum.py").write_text(TORCH_SUM)
    return load_task(folder)


def test_a_board_shows_a_baseline_below_its_rows_without_a_rank(tmp_path: Path, with_baseline: Task) -> None:
    board = with_baseline.board("CPU")
    baseline = judged(board, "maintainer", 4.0, source=TORCH_SUM, baseline="torch.add")
    submission = baseline.submission.model_copy(update={"pull_request": 31})
    baseline = baseline.model_copy(update={"submission": submission})
    judgements = [baseline, judged(board, "ada", 2.0, day=1), judged(board, "bob", 1.6, day=2)]
    site, report = built(tmp_path, with_baseline, judgements, repository="https://github.com/kernels/cup")
    assert (report.rows, (site / "authors/maintainer").exists()) == (2, False)
    page = (site / "vectoradd/CPU/index.html").read_text()
    standings, heat = re.findall(r"<tfoot>.*?</tfoot>", page, re.DOTALL)
    first, second = re.findall(r"<tr>.*?</tr>", standings, re.DOTALL)
    assert "torch.add" in first and "<code>sum.py</code>, not ranked" in first and "±" in first
    assert re.search("\u2212(49|50|51)\\.\\d\u00a0%", first)
    assert 'href="https://github.com/kernels/cup/pull/31">31<' in first
    assert "Anchor" in second and heat.count("<small>") == 2 * len(board.benchmarks)
    assert html.escape(TORCH_SUM.strip().splitlines()[-1].strip()) in Tags(page).text
    facts = json.loads((site / "vectoradd/CPU/board.json").read_text())
    assert [row["login"] for row in facts["rows"]] == ["ada", "bob"]
    (shown,) = facts["baselines"]
    assert (shown["name"], shown["digest"], shown["judgements"]) == ("torch.add", baseline.submission.digest, 1)
    assert len(shown["cases"]) == len(board.benchmarks) and shown["score_us"]["value"] < facts["anchor_us"] / 3


def test_a_board_with_a_baseline_and_no_rows_names_its_time(tmp_path: Path, with_baseline: Task) -> None:
    site, _ = built(
        tmp_path,
        with_baseline,
        [judged(with_baseline.board("CPU"), "ada", 4.0, source=TORCH_SUM, baseline="torch.add")],
    )
    text = page_text(site, "vectoradd/CPU")
    assert "No entries yet." in text and re.search(r"torch\.add, not ranked: [\d.,]+ µs ±", text.replace("\u00a0", " "))


def test_a_page_has_all_its_pooled_judgements_beside_it(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    twice = [judged(board, "ada", 1.5, day=day) for day in (0, 1)]
    site, _ = built(tmp_path, task, twice)
    folder = site / "vectoradd/CPU/ada" / twice[0].submission.digest[:12]
    stored = [Judgement.from_json((folder / name).read_bytes()) for name in ("judgement-1.json", "judgement.json")]
    assert [one.finished_at for one in stored] == [one.finished_at for one in twice]


def test_an_empty_ledger_gives_pages_that_say_how_to_begin(tmp_path: Path, task: Task) -> None:
    site, report = built(tmp_path, task, [])
    assert "every first place is free" in page_text(site, ".")
    assert "No entries yet. The first accepted, ranked entry takes first place" in page_text(site, "vectoradd/CPU")
    assert (report.pages, report.rows) == (len(list(site.rglob("*.html"))), 0)
    assert [*report.lines] == ["odd: the ledger has no judgements; all boards are empty"]


def test_a_repository_without_tasks_has_a_landing_page(tmp_path: Path) -> None:
    site = tmp_path / "_site"
    build_site([], Ledger(tmp_path / "none"), site, Site(sources=lambda _: None, title="Kernel Cup", now=NOW))
    assert "There are no boards yet" in page_text(tmp_path / "_site", ".")


def test_a_judgement_of_ten_thousand_cases_gets_a_short_page_and_note(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    one = judged(board, "ada", 1.5)
    build, test, *benchmarks = one.cases
    wordy = test.model_copy(update={"message": "x" * 20_000})
    site, report = built(
        tmp_path, task, [one.model_copy(update={"cases": (build, *[test] * 9_000, *[wordy] * 996, *benchmarks)})]
    )
    path = site / "vectoradd/CPU/ada" / one.submission.digest[:12] / "index.html"
    assert "10,000 cases, each with its verdict" in Tags(path.read_text()).text
    assert "9,800 more cases are in the judgement" in Tags(path.read_text()).text and path.stat().st_size < 100_000
    assert report.rows == 1 and "ada's judgement has 10,000 cases" in report.notes[0]


def test_a_judgement_from_the_future_counts_and_is_named_in_the_report(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    site, report = built(tmp_path, task, judgements, now=START + timedelta(days=31))
    (line,) = report.lines
    assert line.startswith("odd: vectoradd on CPU: donald's judgement is from the future (2026-12-03 09:00 UTC)")
    assert report.rows == 6 and "donald" in page_text(site, "vectoradd/CPU")


def test_a_judgement_a_century_ahead_changes_no_other_date_on_the_site(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    entries = season(board)
    zoe = judged(board, "zoe", 4.0, day=36500, duel=duel_with(board, entries[3], 0.72))
    site, report = built(tmp_path, task, [*entries, zoe], address="https://kernels.dev/")
    assert len([*report.lines]) == 1 and "zoe" in report.notes[0]
    for page in (".", "vectoradd/CPU", "machines"):
        assert page_text(site, page).count("As of 12 Dec 2026") == 1
    text = page_text(site, "vectoradd/CPU")
    assert "Closes 1 Mar 2027" in text and "Start from the template" in text
    path = site / "vectoradd/CPU/zoe" / zoe.submission.digest[:12] / "judgement.json"
    assert json.loads(path.read_text())["finished_at"].startswith("2126-")
    assert Judgement.from_json(path.read_bytes()).submission == zoe.submission, "its checksum is that in the ledger"
    path.unlink()
    texts = [path for path in site.rglob("*") if path.suffix in (".html", ".json", ".atom", ".csv", ".xml")]
    assert len(texts) > 30 and not [path for path in texts if re.search("2126-|[a-z] 2126", path.read_text("utf-8"))]
    feed = ElementTree.parse(site / "records.atom").getroot()
    assert feed.findtext("{*}updated") == "2026-12-12T09:00:00+00:00"
    drawn = re.findall(r'<circle class="step" cx="([0-9.]+)"', (site / "vectoradd/CPU/index.html").read_text())
    assert [float(x) for x in drawn[:4]] == pytest.approx([62, 62 + 970 * 6 / 40, 62 + 970 * 21 / 40, 1032], abs=0.1)
    with Image.open(site / "vectoradd/CPU/og.png") as picture:
        grey = picture.convert("L")
    heights = [next(y for y in range(385, 570) if grey.getpixel((x, y)) > 100) for x in (150, 400, 900)]
    assert heights == sorted(set(heights)), "each record's picture shows its time"


def test_an_earlier_edition_never_shows_a_date_in_the_future(tmp_path: Path, task: Task) -> None:
    old = judged(task.board("CPU"), "ada", 1.5, day=36500, edition="0" * 64)
    site, _ = built(tmp_path, task, [old])
    page = "vectoradd/CPU/_editions/000000000000"
    assert "from 12 Dec 2026 to 12 Dec 2026" in page_text(site, page)
    until = (site / "vectoradd/CPU/index.html").read_text().partition("The standings until ")[2]
    assert until.startswith('<time class="day" datetime="2026-12-12T09:00:00+00:00"')


DEADLINE = datetime(2027, 3, 1, tzinfo=UTC)


@pytest.mark.parametrize("late", [timedelta(seconds=-1), timedelta(0), timedelta(days=30)])
def test_a_board_closes_at_its_deadline(tmp_path: Path, task: Task, late: timedelta) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")), now=DEADLINE + late)
    is_closed = late >= timedelta(0)
    for path in (".", "vectoradd/CPU", "vectoradd/H100"):
        assert ("Closed on 1 Mar 2027" in page_text(site, path)) == is_closed
        assert ("Closes 1 Mar 2027" in page_text(site, path)) == (not is_closed)
    entered, empty = page_text(site, "vectoradd/CPU"), page_text(site, "vectoradd/H100")
    assert ("Start from the template" in entered) == (not is_closed)
    assert ("are tested, but not ranked" in entered) == is_closed
    assert ("takes first place" in empty) == ("No entries yet" in empty) == (not is_closed)
    assert ("takes first place" in page_text(site, ".")) == (not is_closed)


def test_boards_without_entries_share_a_line(tmp_path: Path) -> None:
    gpus = ["CPU", "T4", "A100", "H100", "B200"]
    folder = task_folder(tmp_path / "tasks", "vectoradd", re.sub("gpus: .*", f"gpus: [{', '.join(gpus)}]", TASK_YML))
    task = load_task(folder)
    for entered in (["H100"], ["H100", "CPU"], ["H100", "CPU", "B200"]):
        ledger = [judged(task.board(gpu), "ada", 1.5) for gpu in entered]
        site, _ = built(tmp_path / str(len(entered)), task, ledger)
        shown, bare = page_text(site, "."), [gpu for gpu in gpus if gpu not in entered]
        assert (f"No entries yet on {', '.join(bare)}. The first accepted one takes first place." in shown) == (
            len(bare) > 2
        )
        assert shown.count("takes first place") == (1 if len(bare) > 2 else len(bare))
        assert all(f'href="vectoradd/{gpu}/' in (site / "index.html").read_text() for gpu in gpus)


def test_open_tasks_come_before_closed_ones_and_ones_without_a_machine(tmp_path: Path) -> None:
    tasks = {
        name: load_task(task_folder(tmp_path / "tasks", name, TASK_YML.replace("Vector addition", name) + rest))
        for name, rest in (("closed", ""), ("idle", ""), ("open", ""))
    }
    tasks["idle"] = replace(tasks["idle"], gpus=("H100",), deadline=None)
    tasks["open"] = replace(tasks["open"], deadline=None)
    ledger = ledger_of(tmp_path, [judged(task.boards[0], "ada", 1.5) for task in tasks.values()])
    build_site(
        [*tasks.values()],
        ledger,
        tmp_path / "_site",
        Site(title="Cup", sources=lambda _: None, gpus=PEAKS, now=DEADLINE),
    )
    page = (tmp_path / "_site/index.html").read_text()
    assert re.findall(r'<li class="card( closed)?">\s*<header>\s*<h3>(\w+)', page) == [
        ("", "open"), (" closed", "closed"), (" closed", "idle"),
    ]  # fmt: skip


@pytest.mark.parametrize("entered", [True, False])
def test_the_tasks_of_a_set_are_listed_together_below_its_title_and_text(tmp_path: Path, *, entered: bool) -> None:
    about = "set: {title: First steps, about: 'Short <b>ones</b>, *by hand*.'}\n"
    sets = {"alone": "", "reduce": about, "scan": "set: {title: Scans}\n", "sum": "set: {title: First steps}\n"}
    tasks = [
        load_task(task_folder(tmp_path / "tasks", name, TASK_YML.replace("Vector addition", name) + rest))
        for name, rest in sets.items()
    ]
    ledger = ledger_of(tmp_path, [judged(task.boards[0], "ada", 1.5) for task in tasks if entered])
    build_site(tasks, ledger, tmp_path / "_site", Site(title="Cup", sources=lambda _: None, gpus=PEAKS, now=NOW))
    page = (tmp_path / "_site/index.html").read_text().partition("Latest records")[0]
    heads = re.findall(r"<h3>(?:<a [^>]*>)?([\w ]+)<", page.partition('id="boards"')[2])
    assert heads[:6] == ["alone", "First steps", "reduce", "sum", "Scans", "scan"]
    assert "<p>Short &lt;b&gt;ones&lt;/b&gt;, <em>by hand</em>.</p>" in page
    boards = json.loads((tmp_path / "_site/index.json").read_text())["boards"]
    assert {board["task"]: board["set"] for board in boards} == {
        "alone": None, "reduce": "First steps", "scan": "Scans", "sum": "First steps",
    }  # fmt: skip


def test_tasks_in_no_set_have_a_heading_below_a_set(tmp_path: Path) -> None:
    sets = {"scan": "set: {title: Scans}\n", "sum": ""}
    tasks = [
        load_task(task_folder(tmp_path / "tasks", name, TASK_YML.replace("Vector addition", name) + rest))
        for name, rest in sets.items()
    ]
    build_site(
        tasks,
        ledger_of(tmp_path, []),
        tmp_path / "_site",
        Site(title="Cup", sources=lambda _: None, gpus=PEAKS, now=NOW),
    )
    page = (tmp_path / "_site/index.html").read_text().partition('id="boards"')[2]
    assert re.findall(r"<h3>(?:<a [^>]*>)?([\w ]+)<", page)[:4] == ["Scans", "scan", "Other tasks", "sum"]


@pytest.mark.parametrize("gpu", ["index.html", "B200.rev_2-", "x" * 64, "CON", "cpu"])
def test_a_gpu_with_an_odd_name_gets_a_report_line_not_a_folder(tmp_path: Path, task: Task, gpu: str) -> None:
    site, report = built(tmp_path, task, [judged(task.board("CPU"), "ada", 1.5, gpu=gpu)])
    assert [*report.lines] == [
        f"left out: judgements/vectoradd/{gpu}: no task has this board; 1 judgement is not shown"
    ]
    assert sorted(path.name for path in (site / "vectoradd").iterdir()) == ["CPU", "H100"]


def test_a_board_with_an_odd_name_has_pages(tmp_path: Path) -> None:
    yml = TASK_YML.replace("[CPU, H100]", "[index.html, A-1.b_2]")
    task = load_task(task_folder(tmp_path / "tasks", yml=yml))
    site, report = built(tmp_path, task, season(task.board("index.html")))
    assert report.rows == 6 and "6 entries" in page_text(site, "vectoradd/index.html")


def test_an_author_whose_file_is_missing_keeps_their_row_and_pages(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    site, report = built(
        tmp_path, task, judgements, repository="https://github.com/kernels/cup",
        sources=lambda one: None if one.submission.login == "grace" else "x = 1\n",
    )  # fmt: skip
    grace = judgements[2].submission.digest
    assert "grace" in page_text(site, "vectoradd/CPU") and "2" in page_text(site, "authors/grace")
    assert grace in page_text(site, f"vectoradd/CPU/grace/{grace[:12]}")
    assert [*report.lines] == [
        "odd: vectoradd on CPU: the file is missing for 1 row (grace); deleted, not merged or not readable?"
    ]


def test_a_task_without_a_description_has_a_page(tmp_path: Path) -> None:
    yml = re.sub(r"description.*?(?=gpus)", "", TASK_YML, flags=re.DOTALL)
    task = load_task(task_folder(tmp_path / "tasks", yml=yml))
    site, report = built(tmp_path, task, [judged(task.board("CPU"), "ada", 1.5)])
    assert "This task has no statement" in page_text(site, "vectoradd/CPU")
    assert [*report.lines] == ["odd: vectoradd has no description; its pages show only the reference"]


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
def test_hostile_text_is_inert_on_every_page(tmp_path: Path, task: Task, field: str) -> None:
    judgement = judged(task.board("CPU"), "mallory", 1.5, **HOSTILE[field])
    code = f"x = 1  # {SCRIPT}\n"
    site, _ = built(tmp_path, task, [judgement], sources=lambda _: code, notice=SCRIPT, title=SCRIPT)
    for path, page in html_pages(site):
        assert_inert(path, page)


@pytest.mark.parametrize(("days", "is_linked"), [(89, True), (91, False)])
def test_the_site_links_the_log_of_a_run_while_github_keeps_it(
    tmp_path: Path, task: Task, days: int, is_linked: bool
) -> None:
    url = "https://github.com/acme/kernels/actions/runs/7"
    judgement = judged(task.board("CPU"), "ada", 1.5, run_url=url)
    site, _ = built(tmp_path, task, [judgement], now=judgement.finished_at + timedelta(days=days))
    assert (url in [link for _, page in html_pages(site) for link in links(page)]) == is_linked


GUIDES_LINKS = {
    link for file in Path("site/pages").glob("*.md") for link in re.findall(r"\]\((https://[^)]+)\)", file.read_text())
}


def assert_inert(path: Path, page: Tags) -> None:
    assert not {tag for tag, _ in page.tags} & {"img", "style", "iframe", "object", "form", "base"}, path
    assert {a.get("src", "").rpartition("/")[2] for tag, a in page.tags if tag == "script"} <= {
        "theme.js",
        "site.js",
        "compare.js",
    }, path
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], f"{path}: {tag}"
    foreign = {link for link in links(page) if re.match(r"\s*(javascript|data|http)", link, re.IGNORECASE)}
    assert foreign <= GUIDES_LINKS, path
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x1b]", page.text), path


def test_every_page_loads_resources_only_from_its_own_site(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    for path, page in html_pages(site):
        policies = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert policies and policies[0].startswith("default-src 'self'"), path
        assert_inert(path, page)


def test_co_authors_and_a_note_are_text_on_board_and_page(tmp_path: Path, task: Task) -> None:
    one, head = judged(task.board("CPU"), "ada", 1.5), "a" * 40
    one = one.model_copy(update={"submission": one.submission.model_copy(update={"head_sha": head})})
    note = f"Tiles by 64. {SCRIPT} https://evil.example"
    Ledger(tmp_path / "ledger").append_fact(
        CommitDescription(task=task.name, pull_request=7, head_sha=head, co_authors=("grace", "ben"), note=note, at=NOW)
    )
    site, report = built(tmp_path, task, [one])
    path = f"vectoradd/CPU/ada/{one.submission.digest[:12]}"
    page = Tags((site / path / "index.html").read_text("utf-8"))
    assert_inert(site / path, page)
    assert "Co-authors, as named by ada: grace, ben." in page_text(site, path)
    assert "The author’s note" in page.text and "Tiles by 64. <script>alert(1)</script>" in page.text
    assert not [link for link in links(page) if "evil" in link]
    assert "with grace, ben" in page_text(site, "vectoradd/CPU")
    facts = json.loads((site / path / "submission.json").read_text())
    assert (facts["co_authors"], facts["author_note"]) == (["grace", "ben"], note)
    (row,) = json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]
    assert row["co_authors"] == ["grace", "ben"]
    assert not (site / "authors/grace").exists() and report.faults == ()


def test_a_statement_cannot_add_its_own_html(tmp_path: Path) -> None:
    yml = TASK_YML.replace("Add two", "<script>alert(1)</script> [x](javascript:alert(1)) Add two")
    site, _ = built(tmp_path, load_task(task_folder(tmp_path / "tasks", yml=yml)), [])
    for path, page in html_pages(site):
        assert_inert(path, page)


def test_headings_in_a_statement_rank_below_those_of_the_page(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    assert "<h3>Shape</h3>" in (site / "vectoradd/CPU/index.html").read_text()


def test_a_statements_table_has_column_heads_and_right_aligned_numbers(tmp_path: Path) -> None:
    yml = TASK_YML.replace("|---|---|", "|---|--:|")
    site, _ = built(tmp_path, load_task(task_folder(tmp_path / "tasks", yml=yml)), [])
    page = (site / "vectoradd/CPU/index.html").read_text()
    assert '<th scope="col">name</th>' in page and '<th scope="col" class="num">shape</th>' in page
    assert '<td class="num">(size,)</td>' in page
    assert_inert(site, Tags(page))


@pytest.mark.parametrize(("first", "heads"), [("", ["row"]), ("name", [])])
def test_a_first_column_without_a_head_heads_its_rows(first: str, heads: list[str]) -> None:
    html = str(render_guide(f"| {first} | shape |\n|---|---|\n| a, b | (size,) |\n"))
    assert re.findall('<th scope="(row)">a, b</th>', html) == heads
    assert html.count("</th>") == html.count("<th ") and html.count("</td>") == html.count("<td>")


def test_rows_without_a_sandbox_appear_marked_and_only_when_allowed(tmp_path: Path, task: Task) -> None:
    judgements = [judged(task.board("CPU"), "ada", 1.5, sandbox="none")]
    site, report = built(tmp_path, task, judgements)
    assert report.rows == 0
    assert "1 judgement of this board does not rank: not accepted, judged without" in page_text(site, "vectoradd/CPU")
    report = build_site(
        [task],
        Ledger(tmp_path / "ledger"),
        site,
        Site(sources=lambda _: None, title="Cup", now=NOW, notice="Demo: judged without walls"),
        allow_unwalled=True,
    )
    assert report.rows == 1
    assert "no sandbox" in page_text(site, "vectoradd/CPU")
    landing = page_text(site, ".")
    assert "judged without a sandbox" in landing and "Self-timed" not in landing
    assert "Demo: judged without walls" in page_text(site, "authors/ada")


def test_the_report_and_the_landing_page_name_a_torn_judgement(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    ledger = ledger_of(tmp_path, judgements)
    torn = sorted((tmp_path / "ledger").rglob("*.json"))[0]
    torn.write_text(torn.read_text()[:-40])
    report = build_site([task], ledger, tmp_path / "_site", Site(sources=lambda _: None, title="Cup", now=NOW))
    assert [fault.path.name for fault in report.faults] == [torn.name]
    assert torn.name in page_text(tmp_path / "_site", ".")
    assert report.rows == len(judgements) - 1


def test_the_report_starts_with_unreadable_decisions_and_accounts(
    tmp_path: Path, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    one = judged(task.board("CPU"), "ada", 1.5)
    out = Moderation(id="x", action=Action.DISQUALIFY, judgement="0" * 64, reason="Caches its answers.", by=1, at=START)
    for folder, content in (("moderation", out.to_json()[:-9]), ("accounts", "[]")):
        (tmp_path / "ledger" / folder).mkdir(parents=True)
        (tmp_path / "ledger" / folder / "2026-11-02-x.json").write_text(content)
    site, report = built(tmp_path, task, [one])
    first, second = report.lines
    assert first.startswith("left out: moderation/2026-11-02-x.json: this decision has no effect: not JSON")
    assert "accounts/2026-11-02-x.json: not a pull" in second
    assert "this decision has no effect" in page_text(site, ".") and "ada" in page_text(site, "vectoradd/CPU")
    for command in (["board", "vectoradd", "--tasks", str(tmp_path / "tasks")], ["moderate", "list"]):
        assert run([*command, "--ledger", str(tmp_path / "ledger")]) == 0
        assert first in capsys.readouterr().err


def test_the_report_escapes_a_hostile_file_name_on_one_line(tmp_path: Path, task: Task) -> None:
    folder = tmp_path / "ledger/judgements/vectoradd/CPU/ada"
    folder.mkdir(parents=True)
    (folder / os.fsdecode(b"\xff\n::error::\t\x1b[31m.json")).write_text("{}")
    site, report = built(tmp_path, task, [])
    (line,) = report.lines
    assert line.startswith(r"left out: judgements/vectoradd/CPU/ada/\udcff\n::error::\t\x1b[31m.json: not a PullRank")
    assert r"\udcff\n::error::" in page_text(site, ".")
    (fault,) = json.loads((site / "index.json").read_text())["faults"]
    assert fault["path"].isprintable() and fault["path"] in line and fault in report.facts["faults"]


def test_the_report_counts_judgements_of_a_board_without_a_task(tmp_path: Path, task: Task) -> None:
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
    build_site([task], Ledger(tmp_path / "ledger"), site, Site(sources=lambda _: None, title="Cup", now=NOW))
    assert not (site / "stale.html").exists()
    assert not list(tmp_path.glob("._site.*"))


def test_a_build_that_fails_leaves_the_old_site_as_it_was(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    before = (site / "index.html").read_bytes()

    def lost(_: Judgement) -> str:
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        build_site([task], Ledger(tmp_path / "ledger"), site, Site(sources=lost, title="Cup", now=NOW))
    assert (site / "index.html").read_bytes() == before
    assert not list(tmp_path.glob("._site.*"))


def test_an_interrupt_between_the_two_renames_leaves_the_old_site_in_place(
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
        build_site([task], Ledger(tmp_path / "ledger"), site, Site(sources=lambda _: None, title="Cup", now=NOW))
    assert (site / "index.html").read_bytes() == before
    assert not list(tmp_path.glob("._site.*"))


def fail_to_build(out: Path) -> None:
    with swapped_in(out) as new:
        (new / "index.html").symlink_to("/dev/full")
        write_file(new / "index.html", "x")


def test_a_build_cleans_up_after_a_killed_one_and_restores_its_site(
    tmp_path: Path,
) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from scripts.pages.parts.write import swapped_in\n"
        "with swapped_in(Path(sys.argv[1])) as new:\n"
        "    (new / 'index.html').touch(); new.rename(new.parent / 'old'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "_site")], check=False)
    (left,) = tmp_path.iterdir()
    with pytest.raises(PullRankError, match="there is no site there yet"):
        fail_to_build(tmp_path / "_site")
    assert left.exists(), "another process may have just made such a folder, and not locked it yet"
    os.utime(left, (1e9, 1e9))
    with pytest.raises(PullRankError, match="the old site is unchanged"):
        fail_to_build(tmp_path / "_site")
    assert [path.name for path in tmp_path.rglob("*")] == ["_site", "index.html"]


def test_a_build_does_not_remove_a_folder_that_no_build_made(tmp_path: Path) -> None:
    notes = tmp_path / "._site.build-notes"
    notes.mkdir()
    (notes / "precious.txt").touch()
    os.utime(notes, (1e9, 1e9))
    with swapped_in(tmp_path / "_site"):
        pass
    assert (notes / "precious.txt").exists()


def test_an_unmovable_site_stays_and_the_error_suggests_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with swapped_in(tmp_path / "_site") as new:
        write_file(new / "index.json", '{"format": "pullrank-site"}')

    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(1, "Operation not permitted", str(path), None, str(target))

    monkeypatch.setattr(Path, "rename", refuse)
    said = "Operation not permitted; the old site is unchanged; free space or fix the permissions there, or choose"
    with pytest.raises(PullRankError, match=said), swapped_in(tmp_path / "_site"):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["_site", "index.json"]
    (tmp_path / "file").touch()
    with pytest.raises(PullRankError, match="there is no site there yet"), swapped_in(tmp_path / "file/_site"):
        pass


def test_two_builds_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    with swapped_in(tmp_path / "_site") as one:
        os.utime(one.parent, (1e9, 1e9))
        with swapped_in(tmp_path / "_site") as other:
            write_file(other / "index.json", '{"format": "pullrank-site"}')
        write_file(one / "index.html", "the later one")
    assert [path.name for path in tmp_path.rglob("*")] == ["_site", "index.html"]


def test_a_build_into_a_link_replaces_the_target_and_keeps_the_link(tmp_path: Path, task: Task) -> None:
    (tmp_path / "_site").symlink_to("published/site")
    for _ in range(2):
        build_site([task], Ledger(tmp_path), tmp_path / "_site", Site(sources=lambda _: None, title="Cup", now=NOW))
    assert (tmp_path / "_site").is_symlink() and (tmp_path / "published/site/index.html").exists()
    assert [path.name for path in (tmp_path / "published").iterdir()] == ["site"]


def test_a_build_refuses_a_folder_it_cannot_replace_and_suggests_a_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        pytest.raises(PullRankError, match=r"^\. will be replaced, but it is the current folder; change"),
        swapped_in(Path()),
    ):
        pass
    monkeypatch.setattr(os.path, "ismount", lambda path: str(path) == str(tmp_path / "_site"))
    with pytest.raises(PullRankError, match="choose a folder in it: _site/site"), swapped_in(Path("_site")):
        pass


def test_a_full_disk_is_reported_and_the_old_site_stays(tmp_path: Path) -> None:
    with swapped_in(tmp_path / "_site") as new:
        write_file(new / "index.json", '{"format": "pullrank-site"}')
    with pytest.raises(PullRankError) as caught:
        fail_to_build(tmp_path / "_site")
    assert str(caught.value) == (
        f"{tmp_path / '_site'}: the new site cannot be written: No space left on device; "
        "the old site is unchanged; free space or fix the permissions there, or choose another folder"
    )
    assert [path.name for path in tmp_path.rglob("*")] == ["_site", "index.json"]


def test_an_unreadable_ledger_leaves_the_old_site_in_place(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    scandir = os.scandir

    def refuse(path: Any) -> Any:  # chmod would not stop root
        if Path(path).name == "judgements":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PullRankError, match=r"ledger/judgements: cannot be read: Permission denied"):
        built(tmp_path, task, [])
    assert "barbara" in page_text(site, "vectoradd/CPU")


def test_a_build_never_replaces_a_folder_that_is_not_a_site(tmp_path: Path, task: Task) -> None:
    (tmp_path / "_site").mkdir()
    (tmp_path / "_site" / "thesis.tex").write_text("years of work")
    with pytest.raises(PullRankError, match="no PullRank site"):
        built(tmp_path, task, [])
    assert (tmp_path / "_site" / "thesis.tex").exists()


def test_no_task_can_have_the_name_of_a_folder_of_the_site(seasons_site: tuple[Path, SiteReport]) -> None:
    folders = {path.name for path in seasons_site[0].iterdir() if path.is_dir()}
    ours = {"hacks"} | {name for name in folders if not (Path(__file__).parent.parent / "tasks" / name).is_dir()}
    assert {"assets", "authors", "guides", "machines"} <= ours
    assert all("the site has a folder of this name" in why_no_name(name) for name in ours)


@pytest.mark.parametrize(
    ("path", "link"),
    [("", "/index.html"), ("/", "/index.html"), ("/cup", "/cup/index.html"), ("/cup/", "/cup/index.html")],
)
def test_the_404_page_links_from_the_root(tmp_path: Path, task: Task, path: str, link: str) -> None:
    site, _ = built(tmp_path, task, [], address=f"https://kernels.dev{path}")
    assert link in set(links(Tags((site / "404.html").read_text())))


def test_a_page_without_its_code_shows_the_digest(tmp_path: Path, task: Task) -> None:
    judgement = judged(task.board("CPU"), "ada", 1.5)
    site, _ = built(tmp_path, task, [judgement], sources=lambda _: None)
    digest = judgement.submission.digest
    assert digest in page_text(site, f"vectoradd/CPU/ada/{digest[:12]}")


@pytest.mark.parametrize(
    ("cases", "texts"),
    [
        ([{"size": 1, "seed": 3}, {"size": 2, "seed": 4}], ["size 1", "size 2"]),
        ([{"n": 8, "size": 1, "seed": 3}, {"n": 8, "size": 2, "seed": 3}], ["size 1", "size 2"]),
        ([{"size": 1, "seed": 3}, {"size": 1, "seed": 4}], ["seed 3", "seed 4"]),
        ([{"size": 1, "seed": 3}], ["size 1"]),
        ([{"seed": 3}], ["seed 3"]),
        ([{"size": 1}, {"size": 1}], ["size 1", "size 1"]),
        ([{"size": 1}, {}], ["size 1", "no arguments"]),
        ([{"size": 2**24, "hot": 0.0}, {"size": 2**26, "hot": 0.9}], ["size 2²⁴, hot 0.0", "size 2²⁶, hot 0.9"]),
        ([{"size": 8}, {"size": 4096}, {"size": 2**20}], ["size 8", "size 2¹²", "size 2²⁰"]),
        ([{"size": 4096}, {"size": 65536}], ["size 4096", "size 65 536"]),
        ([{"size": 2**20}, {"size": -(2**20)}], ["size 1 048 576", "size -1 048 576"]),
        ([{"size": 2**20}, {"size": 100_000_007}], ["size 1 048 576", "size 100 000 007"]),
        ([{"wide": True}, {"wide": False}], ["wide True", "wide False"]),
        ([], []),
    ],
)
def test_a_case_is_named_by_the_parameters_that_distinguish_it(cases: list[dict[str, Any]], texts: list[str]) -> None:
    assert [" ".join(label.text.split()) for label in case_labels(cases)] == texts


def test_a_lone_distinguishing_parameter_heads_the_column_and_keeps_exact_values(
    seasons_site: tuple[Path, SiteReport],
) -> None:
    assert [(one.head, one.cell, one.exact) for one in case_labels([{"n": 2**20, "m": 1}, {"n": 2**24, "m": 1}])] == [
        ("n", "2²⁰", "n: 1048576"), ("n", "2²⁴", "n: 16777216"),
    ]  # fmt: skip
    several = case_labels([{"n": 1, "m": 1}, {"n": 2, "m": 2}])
    assert {(one.head, one.cell == one.text) for one in several} == {("Case", True)}
    site, _ = seasons_site
    linus = next((site / "vectoradd/CPU/linus").glob("*/index.html")).read_text()
    assert '<th scope="col">size</th>' in linus and '<th scope="row" title="size: 1048576">2²⁰</th>' in linus
    assert 'title="size: 1048576"' in (site / "vectoradd/CPU/index.html").read_text()


@pytest.mark.parametrize(("speeds", "said"), [((4, 4, 4), True), ((4000, 4, 4), False)])
def test_a_map_of_cases_names_a_shared_unit_once(
    tmp_path: Path, task: Task, speeds: tuple[float, float, float], said: bool
) -> None:
    board = task.board("CPU")
    site, _ = built(tmp_path, task, [judged(board, "ada", 2.0), judged(board, "linus", speeds)])
    text = page_text(site, "vectoradd/CPU")
    assert ("Each benchmark’s time in µs, and" in text) is said is not ("size 2²⁰, µs" in text)


def test_a_guide_is_named_by_its_first_heading(tmp_path: Path) -> None:
    (tmp_path / "rules.md").write_text("# The rules\n\nOne file. <script>\n\n## More\n\n[a](b-c.md#d) [e](f.md)\n")
    guide = read_guides(tmp_path)[0]
    assert (guide.title, guide.path) == ("The rules", "guides/rules/index.html")
    assert (
        "<h1>The rules</h1>" in guide.body and '<h2 id="more">More</h2>' in guide.body and "<script>" not in guide.body
    )
    assert guide.facts == {"title": "The rules", "text": (tmp_path / "rules.md").read_text()}
    assert 'href="../b-c/index.html#d"' in guide.body and 'href="../f/index.html"' in guide.body


def test_a_guide_lists_its_sections_if_there_are_three_or_more(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    for guide in read_guides(Path("site/pages")):
        page = (site / guide.path).read_text()
        listed = re.findall(r'<li><a href="#([^"]+)">', page.partition("<article")[0])
        written = re.findall(r'<h2 id="([^"]+)">', guide.body)
        assert listed == (written if len(written) > 2 else []), guide.path


def test_a_guide_colours_code_and_gives_all_but_output_a_copy_button() -> None:
    fence = '```{}\npullrank test "a"  # <b>\n```\n'
    for language in ("bash", "unknown", "", 'bash"><script>'):
        html = render_guide(fence.format(language))
        assert "<script" not in html and "<b>" not in html
        assert '<div class="copyable"><button class="copy js-only" type="button">Copy</button>' in html
        assert Tags(str(html)).text.strip() == 'Copypullrank test "a"  # <b>'
    assert "<button" not in render_guide(fence.format("text"))
    # The argument `test` is not highlighted as the shell's builtin.
    assert 'pullrank test <i class="s">&quot;a&quot;</i>  <i class="c"># &lt;b&gt;</i>' in render_guide(
        fence.format("bash")
    )


@pytest.mark.parametrize("language", ["python", "cuda", "yaml", "json", "markdown"])
def test_code_of_every_language_in_the_guides_keeps_every_character(language: str) -> None:
    source = 'a: "b"  # <c>\n- {d: 1}\n\n\tint *e = f(&g);\n@h\n'
    assert Tags(str(render_guide(f"```{language}\n{source}```\n"))).text == f"Copy{source}\n"


def test_the_header_lists_participants_first_and_custom_guides_last(tmp_path: Path, task: Task) -> None:
    for name in ("runner-hosts", "judging", "a-rule", "participants", "organisers"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n")
    order = ["participants", "judging", "organisers", "runner-hosts", "a-rule"]
    assert [guide.title for guide in read_guides(tmp_path)] == order
    site, _ = built(tmp_path, task, season(task.board("CPU")))
    landing = (site / "index.html").read_text()
    assert landing.index("#boards") < landing.index(">Take part</a>") < landing.index(">How judging works</a>")
    assert '<a href="#part">Take part</a>' in landing and 'id="part"' in landing


def test_the_header_links_only_the_first_page_of_a_guide(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    assert ">How judging works</a>" in (landing := (site / "index.html").read_text())
    assert ">Judging on a GPU</a>" not in landing
    page = (site / "guides/judging-gpu/index.html").read_text()
    assert 'aria-current="page">Judging on a GPU</a>' in page and ">What a time is worth</a>" in page
    assert ">Discord</a>" not in page


PEAKS = {"CPU": Gpu(runs_on="ubuntu-24.04", bandwidth_gbs=40, tflops={"float32": 1})}
WORK = TASK_YML + 'work: {bytes: "12 * size", flops: "size", dtype: float32}\n'


def test_a_board_with_known_peaks_shows_each_rows_share_of_the_limit(tmp_path: Path) -> None:
    task = load_task(task_folder(tmp_path / "tasks", yml=WORK))
    site, _ = built(tmp_path, task, season(task.board("CPU")), gpus=PEAKS)
    first = json.loads((site / "index.json").read_text())["boards"][0]["first"]
    floors_us = [12 * size / 40e3 for size in (4096, 65536, 1048576)]
    floor_us = math.prod(floors_us) ** (1 / 3)
    assert first["limit"] == pytest.approx(floor_us / first["score_us"]["value"])
    assert f"{first['limit']:.0%}".replace("%", " %") in page_text(site, "vectoradd/CPU")
    for row in json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]:
        for case, floor_us in zip(row["cases"], floors_us, strict=True):
            size, time_us = case["params"]["size"], case["time_us"]["value"]
            rates = {"bandwidth_gbs": 12 * size / time_us / 1e3, "tflops": size / time_us / 1e6}
            assert case["throughput"] == pytest.approx(rates | {"limit": floor_us / time_us, "dtype": "float32"})
    site, _ = built(tmp_path / "unknown", task, season(task.board("CPU")))
    assert "Of limit" not in page_text(site, "vectoradd/CPU")


def test_a_row_is_marked_not_merged_where_merges_are_known(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    merged = {one.submission.digest for one in judgements if one.submission.login != "grace"}
    site, _ = built(
        tmp_path, task, judgements, marks_unmerged=True,
        sources=lambda one: "x = 1\n" if one.submission.digest in merged else None,
    )  # fmt: skip
    assert page_text(site, "vectoradd/CPU").count("not merged") == 1
    assert "not merged yet" in page_text(site, f"vectoradd/CPU/grace/{judgements[2].submission.digest[:12]}")
    site, _ = built(tmp_path / "b", task, judgements, sources=lambda _: None)
    assert "not merged" not in page_text(site, "vectoradd/CPU")


def with_a_provisional_row(board: Board) -> list[Judgement]:
    """A season where an unsteady time looks faster than first place."""
    return [*season(board), judged(board, "hedy", 4.0, day=32, unsteady=1.6)]


def test_a_provisional_row_comes_last_and_is_marked_and_explained(tmp_path: Path, task: Task) -> None:
    judgements = with_a_provisional_row(task.board("CPU"))
    site, _ = built(tmp_path, task, judgements)
    rows = json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]
    assert [row["login"] for row in rows if row["provisional"]] == [rows[-1]["login"]] == ["hedy"]
    assert rows[-1]["gap"] < 0 and rows[-1]["note"].startswith("provisional: its 95 % interval is ±")
    text = page_text(site, "vectoradd/CPU")
    assert "Provisional: the 95 % interval of the time is wider than ±10 %. Such rows come last" in text
    assert "The judge measures them again when the machine is idle." in text
    page = (site / "vectoradd/CPU/index.html").read_text().replace("\u00a0", " ")
    error = format_error(Interval.model_validate(rows[-1]["score_us"]))
    why = (
        f"The 95 % interval of this time is {error}. The judge measures it again when the machine is idle. "
        "Until then it cannot take first place."
    )
    assert page.count(f'<span class="tag" title="{why}">provisional</span>') == 1
    assert why in page_text(site, f"vectoradd/CPU/hedy/{judgements[-1].submission.digest[:12]}")
    shown = page.partition('id="heat"')[2]
    heat = re.finditer(r'<tr data-login="(\w+)".*?</tr>', shown, re.DOTALL)
    best = {row[1] for row in heat if 'class="num best"' in row[0]}
    assert "hedy" in shown and best and "hedy" not in best
    author = json.loads((site / "authors/hedy/author.json").read_text())
    assert author["medals"] == {"first": 0, "second": 0, "third": 0} and not author["history"]


def test_a_provisional_row_that_was_judged_four_times_waits_for_its_author(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    wild = [judged(board, "hedy", 2.0, unsteady=4.0, day=day) for day in range(1, 5)]
    site, _ = built(tmp_path, task, [judged(board, "ada", 1.0), *wild])
    assert (json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"][1])["judgements"] == 4
    text = page_text(site, "vectoradd/CPU")
    assert "Provisional: the 95 % interval" in text and "measures them again" not in text


def test_a_board_of_only_provisional_rows_has_a_first_row_without_record(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    one, other = judged(board, "hedy", 4.0, unsteady=1.6), judged(board, "ada", 2.0, unsteady=1.6, day=1)
    site, _ = built(tmp_path, task, [one, other], address="https://cup.example/")
    facts = json.loads((site / "vectoradd/CPU/board.json").read_text())
    assert facts["first"]["login"] == "hedy" and facts["first"]["provisional"]
    assert not facts["records"] and not any(row["champion"] for row in facts["rows"])
    text = page_text(site, "vectoradd/CPU")
    assert "No record yet: all times are provisional." in text and "hedy provisional" in text
    assert "The first time that is not provisional takes first place." in text and "come last" not in text
    assert "provisional" in json.loads((site / "vectoradd/CPU/badge.json").read_text())["message"]
    assert "the first time that is not provisional takes first place" in page_text(site, "")
    assert_links_lead_somewhere(site)


def test_a_submission_page_describes_its_place_in_separate_sentences(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    donald = next((site / "vectoradd/CPU/donald").iterdir()).name
    assert "5th of 6 on Vector addition, CPU. Tied with ada." in page_text(site, f"vectoradd/CPU/donald/{donald}")


def test_a_page_distinguishes_samples_from_the_times_that_rank(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    linus = next((site / "vectoradd/CPU/linus").iterdir()).name
    text = page_text(site, f"vectoradd/CPU/linus/{linus}")
    assert "this file, as measured" in text and "The anchor corrects the times in the table above" in text


def test_a_submission_page_shows_its_largest_loss_to_first_place(
    seasons_site: tuple[Path, SiteReport],
) -> None:
    site, _ = seasons_site
    grace = next((site / "vectoradd/CPU/grace").iterdir()).name
    text = page_text(site, f"vectoradd/CPU/grace/{grace}")
    rows = {row["login"]: row for row in json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"]}
    ratios = [
        ours["time_us"]["value"] / theirs["time_us"]["value"]
        for ours, theirs in zip(rows["grace"]["cases"], rows["edsger"]["cases"], strict=True)
    ]
    worst = f"{max(ratios) - 1:.1%}".replace("%", " %")
    size = ("2¹²", "2¹⁶", "2²⁰")[ratios.index(max(ratios))]
    assert f"Largest loss at size {size}: {worst} slower than edsger’s" in text


@pytest.mark.parametrize(
    ("ranking_by", "said"),
    [
        ("geom", r"Largest loss at size 2¹²: 2\.\d× as long as ada’s\."),
        ("mean", r"Largest loss at size 2¹⁶: 13\d\.\d µs, 6\d\.\d % slower than ada’s\."),
        ("last", r"Only the last benchmark ranks here: size 2²⁰: 5\.\d % slower than ada’s\."),
    ],
)
def test_the_largest_loss_follows_the_boards_own_ranking(tmp_path: Path, ranking_by: str, said: str) -> None:
    board = load_task(task_folder(tmp_path / "tasks", yml=f"{TASK_YML}ranking_by: {ranking_by}\n")).board("CPU")
    linus = judged(board, "linus", (0.9, 1.2, 1.9), day=1)
    site, _ = built(tmp_path, board.task, [judged(board, "ada", 2.0), linus])
    assert re.search(said, page_text(site, f"vectoradd/CPU/linus/{linus.submission.digest[:12]}"))


def test_a_board_ranked_by_the_last_benchmark_shows_no_loss_on_others(tmp_path: Path) -> None:
    board = load_task(task_folder(tmp_path / "tasks", yml=f"{TASK_YML}ranking_by: last\n")).board("CPU")
    linus = judged(board, "linus", (0.9, 1.2, 2.5), day=1)
    site, _ = built(tmp_path, board.task, [judged(board, "ada", 2.0), linus])
    page = site / "vectoradd/CPU/linus" / linus.submission.digest[:12] / "index.html"
    assert "Not slower than ada’s on the last benchmark, the only one that ranks here." in " ".join(
        Tags(page.read_text()).text.split()
    )
    assert "<b>2." not in page.read_text()


def test_a_record_shows_its_diffs_from_the_previous_one_and_first_place(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    files = {one.submission.digest: f"# by {one.submission.login}\nx = 1\n" for one in judgements}
    site, _ = built(
        tmp_path, task, judgements, sources=lambda one: files[one.submission.digest],
        repository="https://github.com/kernels/cup/",
    )  # fmt: skip
    grace = next((site / "vectoradd/CPU/grace").iterdir()).name
    text = page_text(site, f"vectoradd/CPU/grace/{grace}")
    assert "Diff from previous record, ada’s" in text and "-# by ada +# by grace x = 1" in text
    assert "Diff to first place, edsger’s" in text and "-# by grace +# by edsger x = 1" in text
    board = set(links(Tags((site / "vectoradd/CPU/index.html").read_text())))
    assert "https://github.com/kernels/cup/pull/7/files" in board
    assert f"grace/{grace}/index.html#changes" in board


def test_a_page_compares_its_row_with_first_place_and_its_predecessor(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site

    def heads(login: str) -> str:
        folder = next((site / "vectoradd/CPU" / login).iterdir())
        page = (folder / "index.html").read_text()
        head = page[page.index('<table class="against">') : page.index("Best on board")]
        return " ".join(Tags(head.replace("</th>", " | ")).text.split())

    first = "size | Time | edsger, first place |"
    assert heads("linus") == f"{first} donald, next row ahead |"
    assert heads("grace") == f"{first} ada, previous record |"
    assert heads("edsger") == "size | Time | barbara, second place | grace, previous record |"
    assert heads("barbara") == first  # The next one to beat is the first.


def test_a_machine_that_slows_down_shows_its_drift(tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    board = task.board("CPU")
    before = [judged(board, f"a{day}", 1.5, day=day, machine={"clock_mhz": 1980.0}) for day in range(15)]
    monkeypatch.setitem(globals(), "ANCHOR_US", tuple(1.3 * us for us in ANCHOR_US))
    held_back = {"clock_mhz": 1500.0, "quiet": False}
    after = [judged(board, f"b{day}", 1.5, day=day, machine=held_back) for day in range(15, 20)]
    site, _ = built(tmp_path, task, [*before, *after])
    (found,) = json.loads((site / "machines/machines.json").read_text())["machines"]
    assert found["judgings"] == 20 and found["device"] == "CPU"
    assert found["drift"] == pytest.approx(0.3, abs=0.02)
    assert found["slow"] == found["busy"] == found["held_back"] == 0.25
    assert f"Drift{found['drift']:+.1%}".replace("%", " %") in page_text(site, "machines")


def test_a_boards_page_shows_the_newest_software_of_each_machine_that_judged_it(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    judgements = [
        judged(board, "ada", 1.5, day=1, machine={"cpu": "Slow", "software": {"Triton": "3.6.0"}}),
        judged(board, "ada", 1.4, day=2, machine={"cpu": "Slow", "software": {"Triton": "3.7.0"}}),
        judged(board, "bob", 1.3, day=1, machine={"cpu": "Fast", "software": {"Triton": "3.5.1"}}),
    ]
    site, _ = built(tmp_path, task, judgements)
    text = page_text(site, "vectoradd/CPU")
    assert "Software of the judge 2 machines" in text and "pullrank doctor --board CPU" in text
    assert re.findall(r"(Slow|Fast), 2 cores.*?Triton (\S+?),? ", text) == [("Fast", "3.5.1"), ("Slow", "3.7.0")]


def test_a_machine_whose_clock_is_wrong_is_listed_once(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    site, _ = built(tmp_path, task, [judged(board, login, 1.5, day=36500) for login in ("ada", "bob")])
    assert "Software of the judge 1 machine " in page_text(site, "vectoradd/CPU")


def test_a_board_that_no_machine_judges_has_no_duel_due_and_no_contested_leader(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    judgements = [judged(board, "ada", 1.5, day=1), judged(board, "bob", 2.0, day=2)]
    machines = {gpu: peaks for gpu, peaks in PEAKS.items() if gpu != "CPU"}
    for gpus, is_due in ((PEAKS, True), (machines, False)):
        site, _ = built(tmp_path / str(is_due), task, judgements, gpus=gpus)
        text = page_text(site, "vectoradd/CPU")
        assert ("its duel with ada is due" in text) == ("contested" in text) == is_due
        assert ("its duel with ada was never played" in text) is not is_due


def test_the_pages_of_a_task_that_is_for_practice_only_promise_no_rank(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, replace(task, device_alias={"cuda": "cpu"}), [])
    board, home = page_text(site, "vectoradd/CPU"), page_text(site, ".")
    assert "For practice only: the task’s code was rewritten" in board and "For practice only" in home
    for text in (board, home):
        assert not re.search("takes first place|takes it|Open now|No machine judges", text)


def test_an_author_with_an_old_or_a_managed_login_has_pages(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    site, _ = built(tmp_path, task, [judged(board, "-jerry-", 1.5), judged(board, "grace_acme", 1.2)])
    assert "grace_acme" in page_text(site, "authors/grace_acme") and "-jerry-" in page_text(site, "authors/-jerry-")
    assert_links_lead_somewhere(site)


def test_the_machines_page_exists_before_any_judging(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    assert "No machine has judged" in page_text(site, "machines")


def test_of_two_records_of_one_file_only_the_latest_has_the_diff_that_its_page_shows(
    tmp_path: Path, task: Task
) -> None:
    board = task.board("CPU")
    ada = judged(board, "ada", 1.4)
    bob = judged(board, "bob", 2.0, day=1, duel=duel_with(board, ada, 0.7))
    cy = judged(board, "cy", 2.05, day=2, duel=duel_with(board, bob, 0.97))
    again = judged(board, "bob", 2.0, day=3, duel=duel_with(board, cy, 0.97))
    site, _ = built(tmp_path, task, [ada, bob, cy, again])
    path = f"vectoradd/CPU/bob/{bob.submission.digest[:12]}/index.html"
    records = json.loads((site / "vectoradd/CPU/board.json").read_text())["records"]
    assert [record["login"] for record in records] == ["ada", "bob", "cy", "bob"]
    assert [records[1]["diff"], records[3]["diff"]] == [None, f"{path}#changes"]
    assert "Diff from previous record, cy’s" in Tags((site / path).read_text()).text


def test_a_diff_is_omitted_only_if_too_many_lines_differ() -> None:
    lines = [str(number) for number in range(5000)]
    assert render_diff("x\n" * 10, "\n".join(lines)) is None
    assert render_diff("\n".join(lines), "\n".join(lines)) == ""
    changed = "\n".join([*lines[:4000], "x", *lines[4001:]])
    shown = Tags(str(render_diff("\n".join(lines), changed))).text.splitlines()
    assert shown == [
        "@@ -3998,7 +3998,7 @@", " 3997", " 3998", " 3999", "-4000", "+x", " 4001", " 4002", " 4003",
    ]  # fmt: skip
    for shorter, longer in (("x\n" * 10, "x\n" * 12), ("", "x\n"), ("a\nb\n", "a\n")):
        for old, new in ((shorter, longer), (longer, shorter)):
            whole = [*unified_diff(old.splitlines(), new.splitlines(), lineterm="")][2:]
            assert Tags(str(render_diff(old, new))).text.splitlines() == whole


@pytest.mark.parametrize(
    ("source", "first", "is_exact"),
    [
        ("\ufeffx = 1\n", "x = 1", True),
        ("x = '\\u202e ü'\n", "x = '\\u202e ü'", True),
        ("x = 1\f\n", "x = 1\\x0c", False),
        ("x = 1\r\ny = 2\r\n", "x = 1", False),
    ],
)
def test_a_page_notes_when_its_code_is_not_the_exact_file(
    tmp_path: Path, task: Task, source: str, first: str, *, is_exact: bool
) -> None:
    site, _ = built(tmp_path, task, [judged(task.board("CPU"), "ada", 1.0)], sources=lambda _: source)
    page = next((site / "vectoradd/CPU/ada").glob("*/index.html")).read_text()
    line = re.search('id="L1">(.*)</span>', page)
    assert line
    assert Tags(line[1]).text == first
    assert ("Invisible characters are escaped" not in page) is is_exact


def test_coloured_code_keeps_every_character_and_escapes_tags_in_the_file() -> None:
    source = '#!POPCORN x\ns = """a\n  <b>&"""\ndef f(x):\n\treturn f"{x!r}" + "</i>"\n\n@d\nclass A: pass'
    html = str(render_code(source, "submission.py", anchors=True))
    page = Tags(html)
    assert page.text == source + "\n"
    assert {tag for tag, _ in page.tags} == {"span", "i"}
    assert [a["id"] for tag, a in page.tags if tag == "span"] == [f"L{n}" for n in range(1, 9)]


@pytest.mark.parametrize("name", ["submission.py", "submission.cu"])
def test_a_tag_in_code_outside_strings_is_escaped(name: str) -> None:
    html = str(render_code("x = a <script> b & c\n", name))
    assert "<script" not in html and "&lt;" in html and "&amp;" in html
    assert Tags(html).text == "x = a <script> b & c\n"


@pytest.mark.parametrize("name", ["submission.py", "submission.cu"])
@pytest.mark.parametrize("gap", ["\n" * 100, " \n" * 50, "\t" * 100])
def test_code_with_a_gap_that_makes_lexers_slow_has_no_colours(name: str, gap: str) -> None:
    source = f"return{gap}0\n"
    html = str(render_code(source, name))
    assert "<i" not in html and Tags(html).text == source
    assert "<i" in render_code(f"return{gap[1:]}0\n", name)


def test_a_page_of_blank_lines_is_not_many_times_as_large_as_the_file() -> None:
    source = "\n" * (256 * 1024 - 1) + "x\n"
    html = str(render_code(source, "submission.py", anchors=True))
    assert len(html) < 4 * len(source) and Tags(html).text == source


def test_a_comment_in_an_unfinished_last_line_is_coloured() -> None:
    assert '<i class="c">//////</i></span>' in render_code("x = 1;\n//////", "submission.cu")
    assert render_code("", "submission.cu") == ""


def test_times_in_a_column_share_a_unit_giving_the_best_four_digits() -> None:
    assert [Unit.fitting(9.8765)(us) for us in (9.8765, 98.765, 9876.5)] == ["9.877", "98.765", "9,876.500"]
    assert (Unit.fitting(1234.5).name, Unit.fitting(1234.5)(1234.5)) == ("ms", "1.234")
    assert [(Unit.fitting(us).name, Unit.fitting(us)(us)) for us in (999.96, 9.9996)] == [
        ("ms", "1.000"),
        ("µs", "10.00"),
    ]
    assert (Unit.fitting(0.04).name, Unit.fitting(0.04)(0.04)) == ("ns", "40.00")


def test_a_time_far_below_its_column_never_reads_as_zero() -> None:
    found = [Unit.fitting(best)(us) for best, us in ((412.3, 0.01), (412.3, 1e-8), (9.876, 0.0123), (1e-8, 1e-8))]
    assert found == ["0.01", "1e-08", "0.012", "1e-05"]


@pytest.mark.parametrize(
    ("ours_us", "ranking_by", "kinds"),
    [
        ([10.5, 114, 104], Ranking.GEOM, ["", "heat3 worst", ""]),
        ([22, 260, 280], Ranking.GEOM, ["", "", "heat1 worst"]),
        ([20, 130, 130], Ranking.GEOM, ["heat3 worst", "", ""]),
        ([20, 130, 131], Ranking.MEAN, ["", "heat2", "heat2 worst"]),
        ([20, 130, 130], Ranking.LAST, ["", "", ""]),
        ([9, 100.4, 120], Ranking.GEOM, ["faster", "", "heat3 worst"]),
        ([10.05, 100, 100.9], Ranking.GEOM, ["", "", ""]),
    ],
)
def test_a_case_is_marked_by_its_cost_relative_to_other_cases(
    ours_us: list[float], ranking_by: Ranking, kinds: list[str]
) -> None:
    assert heat(ours_us, [10, 100, 100], ranking_by) == kinds


def test_the_ledger_groups_its_files_by_board_without_reading_them(tmp_path: Path, task: Task) -> None:
    ledger = ledger_of(tmp_path, [judged(task.board(gpu), "ada", 1.5) for gpu in ("H100", "CPU")])
    found = [(place, len(paths)) for place, paths in ledger.files_by_board([])]
    assert found == [(("vectoradd", "CPU"), 1), (("vectoradd", "H100"), 1)]


forks_beside_threads = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
"""The test runner may have threads, but they hold no lock that matters here."""


def test_a_build_does_not_fork_for_small_sites_or_beside_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert (processes_for(10), processes_for(10_000)) == (1, min(os.cpu_count() or 1, 8))
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert processes_for(10_000) == 1


@forks_beside_threads
def test_a_build_with_many_processes_makes_the_same_site_as_one(tmp_path: Path, task: Task) -> None:
    boards = [task.board("CPU"), task.board("H100")]
    judgements = [one for board in boards for one in season(board)] + [judged(boards[0], "ada", 1.5, task="gone")]
    built(tmp_path / "one", task, judgements)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool, "WORTH_FORKING", 1)
        patch.setattr(os, "cpu_count", lambda: 3)
        patch.setattr(threading, "active_count", lambda: 1)
        _, report = built(tmp_path / "many", task, judgements)
    found = [
        {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in (tmp_path / name / "_site").rglob("*.*")}
        for name in ("one", "many")
    ]
    assert found[0] == found[1] and report.rows == 12 and len(report.faults) == 1


@forks_beside_threads
def test_a_process_that_is_killed_ends_the_build_with_one_message(tmp_path: Path, task: Task) -> None:
    def killed(_: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(PullRankError, match="too little memory"):
        list(spread(killed, [1, 2], processes=2))


def test_worker_processes_end_when_the_build_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys, time; from pathlib import Path; from scripts.pages.publishing.pool import spread\n"
        "def work(name): (Path(sys.argv[1]) / str(os.getpid())).touch(); time.sleep(60)\n"
        "list(spread(work, [1, 2], processes=2))"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as build:
        ends_at = time.monotonic() + 30
        while len(begun := [int(path.name) for path in tmp_path.iterdir()]) < 2:
            assert time.monotonic() < ends_at
            time.sleep(0.02)
        build.kill()
    while any(map(is_running, begun)):
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


@forks_beside_threads
def test_the_largest_item_starts_first_and_results_keep_their_order(tmp_path: Path) -> None:
    def noted(item: int) -> int:
        with (tmp_path / "begun").open("a") as file:
            file.write(f"{item}\n")
        time.sleep(0.05)
        return 10 * item

    assert list(spread(noted, [1, 3, 2, 3], processes=2, size=lambda item: item)) == [10, 30, 20, 30]
    begun = (tmp_path / "begun").read_text().split()
    assert begun[:2] == ["3", "3"] and sorted(begun[2:]) == ["1", "2"]


@pytest.mark.parametrize(
    "value",
    ["2 < 3 & 'a' > \"b\"", "412.3 µs ±0.4 %", "−3.1 %", "a\u202eb", "\x1b[31m", "\xad", 0.5, None, Verdict.ACCEPTED],
)
def test_a_template_cleans_and_escapes_every_value(value: object) -> None:
    shown = environment().from_string("{{ value }}").render(value=value)
    assert shown == html.escape(plain(str(value))).replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


def test_a_template_keeps_our_html_and_fails_on_a_missing_value() -> None:
    assert environment().from_string("{{ value }}").render(value=Markup("<b>µ</b>")) == "<b>µ</b>"
    with pytest.raises(UndefinedError):
        environment().from_string("{{ value }}").render()


def test_an_earlier_edition_keeps_a_page_with_its_standings(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    then = [
        judged(board, login, speed, day=day, edition="e" * 64)
        for day, (login, speed) in enumerate([("ada", 2), ("bob", 3)])
    ]
    site, report = built(tmp_path, task, [*then, judged(board, "ada", 1.5, day=9)])
    assert report.rows == 1
    assert f"_editions/{'e' * 12}/index.html" in set(links(Tags((site / "vectoradd/CPU/index.html").read_text())))
    text = page_text(site, f"vectoradd/CPU/_editions/{'e' * 12}")
    assert "Vector addition on CPU until 3 Nov 2026 ·" in text
    assert "2 entries on CPU from 2 Nov 2026 to 3 Nov 2026" in text
    facts = json.loads((site / f"vectoradd/CPU/_editions/{'e' * 12}/edition.json").read_text())
    assert [row["login"] for row in facts["rows"]] == ["ada", "bob"]  # Bob looks faster, but never had a duel.
    assert facts["edition"] == "e" * 64


def test_an_earlier_edition_shows_ties_and_duels_never_held_and_links_authors(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    speeds = {"ada": 2.0, "bob": 3.0, "cy": 1.001, "dan": 1.0}
    then = [judged(board, login, speed, day=day, edition="e" * 64) for day, (login, speed) in enumerate(speeds.items())]
    site, _ = built(tmp_path, task, [*then, judged(board, "ada", 1.5, day=9)])
    path = f"vectoradd/CPU/_editions/{'e' * 12}/index.html"
    text = page_text(site, path.removesuffix("/index.html"))
    assert "looks faster; its duel with ada was never played" in text and "is due" not in text
    assert "tied with cy" in text
    page = Tags((site / path).read_text())
    rows = [attributes["class"].split() for tag, attributes in page.tags if tag == "tr" and "class" in attributes]
    assert rows == [["champion"], ["unproven", "ends"], ["tied"], ["tied", "ends"]]
    assert (
        "A dotted bar marks a row that looks faster than first place but has not won the duel." in text
        and "tied with ada" not in text
    )
    assert {f"../../../../authors/{login}/index.html" for login in speeds} <= set(links(page))
    assert "4 4 Vector addition CPU" in page_text(site, "authors/dan")
    assert f"../../{path}" in set(links(Tags((site / "authors/dan/index.html").read_text())))
    (former,) = json.loads((site / "authors/bob/author.json").read_text())["earlier_editions"]
    assert (former["rank"], former["of"], former["edition"], former["page"]) == (2, 4, "e" * 64, path)


def test_an_authors_page_shows_ties_and_lost_duels(
    seasons_site: tuple[Path, SiteReport],
) -> None:
    site, _ = seasons_site
    assert "tied with ada" in page_text(site, "authors/donald")
    assert "looks faster, but lost its duel with edsger" in page_text(site, "authors/barbara")


def test_an_earlier_edition_without_ranked_rows_is_only_counted(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    site, _ = built(tmp_path, task, [judged(board, "ada", 1.5, edition="e" * 64, sandbox="none")])
    assert "1 earlier edition is in the ledger" in page_text(site, "vectoradd/CPU")
    assert not (site / "vectoradd/CPU/_editions").exists()


def test_a_site_with_an_address_has_csv_badges_feeds_and_a_sitemap(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    site, report = built(tmp_path, task, judgements, address="https://kernels.github.io/cup")
    table = list(csv.DictReader((site / "vectoradd/CPU/board.csv").read_text().splitlines()))
    assert [row["login"] for row in table] == ["edsger", "barbara", "grace", "ada", "donald", "linus"]
    badge = json.loads((site / "vectoradd/CPU/badge.json").read_text())
    assert badge["schemaVersion"] == 1 and badge["message"].startswith("edsger ") and badge["label"] == "vectoradd CPU"
    assert json.loads((site / "vectoradd/H100/badge.json").read_text())["message"] == "no entries"
    atom = "{http://www.w3.org/2005/Atom}"
    for path in ("records.atom", "vectoradd/CPU/records.atom"):
        entries = ElementTree.parse(site / path).getroot().findall(f"{atom}entry")
        assert [entry.findtext(f"{atom}author/{atom}name") for entry in entries] == ["edsger", "grace", "ada"]
        for link in (entry.find(f"{atom}link") for entry in entries):
            assert link is not None
            assert (site / link.attrib["href"].removeprefix("https://kernels.github.io/cup/")).is_file()
    assert not list(ElementTree.parse(site / "vectoradd/H100/records.atom").getroot().iter(f"{atom}entry"))
    locations = [one.text or "" for one in ElementTree.parse(site / "sitemap.xml").getroot().iter() if one.text]
    assert len(locations) == report.pages - 1  # not 404.html
    assert all((site / one.removeprefix("https://kernels.github.io/cup/")).is_file() for one in locations)


def test_a_board_has_a_preview_picture_of_its_leader(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    address = "https://kernels.github.io/cup/"
    site, _ = built(tmp_path, task, season(board), address=address, title=SCRIPT)
    tags = Tags((site / "vectoradd/CPU/index.html").read_text()).tags
    found = {a["property"]: a["content"] for tag, a in tags if tag == "meta" and "property" in a}
    assert found["og:image"] == f"{address}vectoradd/CPU/og.png" and "edsger leads" in found["og:description"]
    pictures = {}
    for gpu, picture in ((gpu, site / "vectoradd" / gpu / "og.png") for gpu in ("CPU", "H100")):
        with Image.open(picture) as image:
            assert image.size == (1200, 630) and picture.stat().st_size < 60_000
            pictures[gpu] = image.convert("RGB").tobytes()
    assert pictures["CPU"] != pictures["H100"]  # The H100's board has no entries.


def test_a_feed_holds_the_latest_records_newest_first() -> None:
    board = SimpleNamespace(task=SimpleNamespace(title="Sort"), gpu="CPU")
    marks = [
        SimpleNamespace(
            board=board, at=START + timedelta(days=day), login=f"ada{day}", gain=None, over="", page="sort/",
            score_us=Interval(value=1.0, low=1.0, high=1.0),
        )
        for day in range(60)
    ]  # fmt: skip
    site = SimpleNamespace(address="https://cup.example/", title="Cup")
    ((_, feed),) = feed_of_all(cast(Site, site), cast(Any, [SimpleNamespace(marks=marks)]))
    assert re.findall(r"<name>(\w+)</name>", feed) == [f"ada{day}" for day in range(59, 9, -1)]


def test_a_site_without_an_address_has_no_feed_picture_or_sitemap(seasons_site: tuple[Path, SiteReport]) -> None:
    site, _ = seasons_site
    assert not list(site.rglob("*.atom")) and not list(site.rglob("og.png")) and not (site / "sitemap.xml").exists()


def test_a_language_that_looks_like_a_formula_is_text_in_a_spreadsheet(tmp_path: Path, task: Task) -> None:
    info = SubmissionInfo(login="mallory", digest="ab" * 32, lines=1, language='=HYPERLINK("http://evil")\x1b')
    site, _ = built(tmp_path, task, [judged(task.board("CPU"), "mallory", 1.5, submission=info)])
    row = next(csv.DictReader((site / "vectoradd/CPU/board.csv").read_text().splitlines()))
    assert row["language"] == '\'=HYPERLINK("http://evil")\\x1b'


def reign(board: Board, second: float) -> list[Judgement]:
    """Ada is first, Cy's speed is `second`, Bob wins the duel with Ada, and becomes faster."""
    ada = judged(board, "ada", 1.4)
    won = judged(board, "bob", 2.5, day=5, duel=duel_with(board, ada, 0.56))
    return [ada, judged(board, "cy", second, day=1), won, judged(board, "bob", 2.8, day=9)]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("# Sum\n\nSum x, e.g. of `floats`. Then more.\n\nMuch more.", "Sum x, e.g. of floats."),
        ("| a | b |\n|---|---|\n\nSort [keys](x.md)!", "Sort keys!"),
        ("```python\nx = 1.\n```", ""),
        ("", ""),
    ],
)
def test_a_statement_is_summarised_by_its_first_sentence(statement: str, said: str) -> None:
    assert first_sentence(statement) == said


@pytest.mark.parametrize(
    ("reason", "said"),
    [("caches", "Caches."), ("Caches.", "Caches."), ("Stop it!", "Stop it!"), ("why?", "Why?"), ("", "")],
)
def test_a_reason_is_a_sentence_with_one_mark_at_its_end(reason: str, said: str) -> None:
    assert sentence(reason) == said


@pytest.mark.parametrize(
    ("second", "said", "on_the_landing_page"),
    [
        (2.0, r"Gap to cy\+40\.\d % ", "cy +40 %"),
        (1.2, r"Gap to ada\+10\d % ", "ada +10"),
        (2.801, "Tied withcy", "cy tied"),
        (4.0, r"cy looks faster1\.4\d× duel due", "bob contested , cy looks faster , ada "),
    ],
)
def test_the_board_shows_the_leaders_gap_and_start_date(
    tmp_path: Path, task: Task, second: float, said: str, on_the_landing_page: str
) -> None:
    board = task.board("CPU")
    site, _ = built(tmp_path, task, reign(board, second))
    text, since = page_text(site, "vectoradd/CPU"), page_text(site, ".")
    assert re.search(said, text), text
    since_when = day(START + timedelta(days=5))  # Not since Bob became faster.
    assert f"Firstbob {'contested ' if second == 4.0 else ''}since {since_when}" in text
    assert on_the_landing_page.replace(" ,", ",") in since.replace(" ,", ","), since


def test_the_page_of_first_place_shows_second_place_and_the_winning_duel(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    *_, won, now = reign(board, 2.0)
    site, _ = built(tmp_path, task, reign(board, 2.0))
    text = page_text(site, f"vectoradd/CPU/bob/{now.submission.digest[:12]}")
    assert f"First since {day(won.finished_at)}, after another file won a duel against ada." in text
    assert "Compared with second place Not slower than cy’s on any benchmark." in text and "Gap to cy+40" in text
    assert "Diff to second place, cy’s" in text and "Diff from previous record, the author’s other file" in text
    page = Tags((site / f"vectoradd/CPU/bob/{now.submission.digest[:12]}/index.html").read_text())
    assert f"../../../../vectoradd/CPU/bob/{won.submission.digest[:12]}/index.html#duel" in set(links(page))
    assert "Next to beat" not in text
    cy = next((site / "vectoradd/CPU/cy").iterdir()).name
    assert "Next to beat: bob’s, 1st, with a speedup of 1.40× over this file. How to submit." in page_text(
        site, f"vectoradd/CPU/cy/{cy}"
    )
    waiting, _ = built(
        tmp_path / "waiting", task, reign(board, 4.0)
    )  # Cy looks faster, so has no place that others could beat.
    ada = next((waiting / "vectoradd/CPU/ada").iterdir()).name
    assert "Next to beat: bob’s, 1st, with a speedup of 2.00× over this file" in page_text(
        waiting, f"vectoradd/CPU/ada/{ada}"
    )
    page = Tags((waiting / "vectoradd/CPU/index.html").read_text())
    rows = [attributes.get("class", "").split() for tag, attributes in page.tags if "data-login" in attributes]
    assert rows[:3] == [["champion"], ["unproven", "ends"], ["ends"]]
    former = page_text(site, f"vectoradd/CPU/bob/{won.submission.digest[:12]}")
    assert "bob is 1st now, with another file." in former and "slower than the author’s other file." in former
    site, _ = built(tmp_path / "at once", task, [*reign(board, 2.0)[:3]])
    text = page_text(site, f"vectoradd/CPU/bob/{won.submission.digest[:12]}")
    assert "after winning a duel against ada." in text and "The duel that won first place" in text


def test_the_landing_page_without_entries_says_so_once_and_how_to_begin(tmp_path: Path, task: Task) -> None:
    later = replace(
        task, name="later", title="Later", description="# Later\nSum *all* of `x`. And more.", deadline=None
    )
    over = replace(task, name="over", title="Over", description="", deadline=NOW)
    site = tmp_path / "_site"
    tasks, none = [replace(task, deadline=None), later, over], Ledger(tmp_path / "none")
    build_site(tasks, none, site, Site(sources=lambda _: None, title="Kernel Cup", now=NOW))
    text, page = page_text(site, "."), (site / "index.html").read_text()
    assert text.count("takes it") == text.count("every first place is free") == 1 and "No entries" not in text
    assert text.index("Pick a board") < text.index("Boards Vector addition")
    assert "Later Sum all of x. CPU, H100 · No deadline" in text and "Closed without an entry: Over." in text
    assert page.count('id="part"') == 1 and '<a class="plain" href="later/CPU/index.html">Later</a>' in page
    build_site([over], none, site, Site(sources=lambda _: None, title="Kernel Cup", now=NOW))
    text = page_text(site, ".")
    assert "Nobody has entered, and no board takes entries now." in text and "There are no boards yet" not in text


def test_a_task_that_closed_with_entries_keeps_its_card(tmp_path: Path, task: Task) -> None:
    ended, over = replace(task, deadline=NOW), replace(task, name="over", title="Over", deadline=NOW)
    ledger = ledger_of(tmp_path, reign(task.board("CPU"), 2.0)[:1])
    build_site([ended, over], ledger, tmp_path / "_site", Site(sources=lambda _: None, title="Kernel Cup", now=NOW))
    text = page_text(tmp_path / "_site", ".")
    assert "Vector addition 1 entry · Closed on" in text and "Closed without an entry: Over." in text
