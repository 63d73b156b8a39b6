"""A task names every GPU that it supports; a competition has only the boards that a machine judges, or has judged."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.task.task import Task, load_task
from scripts.announce.milestones import notices_of
from scripts.cli import run
from scripts.competition.settings import Gpu
from scripts.ledger.announced import Seen
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Action
from scripts.moderate.decide import find_judgements
from scripts.tasks.diff import find_changes
from tests.test_publish import TASK_YML, built, judged, ledger_of, page_text, season, task_folder

WIDE = TASK_YML.replace("[CPU, H100]", "[CPU, T4, L4, H100, MI300X]")
ADDRESS = "https://kernels.github.io/cup/"
ROOT = Path(__file__).parent.parent


def machines(*gpus: str) -> dict[str, Gpu]:
    return {gpu: Gpu(runs_on=gpu) for gpu in gpus}


def printed(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run([*words]) == code
    said = capsys.readouterr()
    return said.err if code else said.out


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(task_folder(tmp_path / "tasks", yml=WIDE))


@pytest.fixture
def repository(tmp_path: Path, task: Task) -> Path:
    """A repository with a machine for the CPU's boards, and a ledger from a time when it also had an H100."""
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/pullrank.yml").write_text("gpus: {CPU: {runs_on: ubuntu-24.04}}\n")
    ledger_of(tmp_path, [judged(task.board("CPU"), "ada", 1.5), judged(task.board("H100"), "grace", 1.5)])
    return tmp_path


def test_a_task_that_names_more_gpus_keeps_the_editions_of_its_boards(tmp_path: Path) -> None:
    few, many = (load_task(task_folder(tmp_path / name, yml=yml)) for name, yml in (("few", TASK_YML), ("many", WIDE)))
    assert [many.board(gpu).edition for gpu in few.gpus] == [board.edition for board in few.boards]
    own = WIDE + "per_gpu: {T4: {benchmarks: [{size: 64, seed: 1}]}}\n"
    small = load_task(task_folder(tmp_path / "small", yml=own))
    changed = [gpu for gpu in many.gpus if small.board(gpu).edition != many.board(gpu).edition]
    assert changed == ["T4"]


def test_a_new_machine_adds_a_board_and_resets_no_rows(tmp_path: Path, task: Task) -> None:
    judgements = season(task.board("CPU"))
    rows = []
    for folder, gpus in (("before", ("CPU",)), ("after", ("CPU", "L4"))):
        site, _ = built(tmp_path / folder, task, judgements, gpus=machines(*gpus))
        assert {path.name for path in (site / "vectoradd").iterdir()} == set(gpus)
        rows.append(json.loads((site / "vectoradd/CPU/board.json").read_text())["rows"])
    assert rows[0] == rows[1] and len(rows[0]) == 6


def test_the_site_shows_only_boards_that_a_machine_judges(tmp_path: Path, task: Task) -> None:
    site, report = built(tmp_path, task, season(task.board("CPU")), gpus=machines("CPU", "B200"), address=ADDRESS)
    assert [*report.lines] == []
    assert [path.name for path in (site / "vectoradd").iterdir()] == ["CPU"]
    index = json.loads((site / "index.json").read_text())
    assert [(board["gpu"], board["judged"]) for board in index["boards"]] == [("CPU", True)]
    own = (path for path in site.rglob("*") if "guides" not in path.parts)
    for path in (path for path in own if path.suffix in (".html", ".json", ".xml", ".csv", ".atom")):
        assert not any(f"vectoradd/{gpu}" in path.read_text() for gpu in ("T4", "L4", "H100", "MI300X")), path


def test_a_board_whose_machine_is_gone_stays_and_says_so(tmp_path: Path, task: Task) -> None:
    judgements = [*season(task.board("CPU")), judged(task.board("H100"), "grace", 1.5)]
    site, report = built(tmp_path, task, judgements, gpus=machines("CPU"), address=ADDRESS)
    assert report.rows == 7 and {path.name for path in (site / "vectoradd").iterdir()} == {"CPU", "H100"}
    gone, here = page_text(site, "vectoradd/H100"), page_text(site, "vectoradd/CPU")
    assert "No machine judges this board now. Existing results stay." in gone and "Open a pull request" not in gone
    assert "No machine judges" not in here and "Open a pull request" in here
    assert (site / "vectoradd/H100/grace").is_dir() and (site / "vectoradd/H100/og.png").is_file()
    index = json.loads((site / "index.json").read_text())
    assert {board["gpu"]: board["judged"] for board in index["boards"]} == {"CPU": True, "H100": False}
    assert "grace inactive" in page_text(site, ".")


@pytest.mark.parametrize(
    ("changes", "gpus", "rows"),
    [
        ({"deadline": datetime(2026, 11, 30, tzinfo=UTC)}, ("CPU",), 6),
        ({"deadline": datetime(2026, 11, 1, tzinfo=UTC)}, ("CPU",), 6),  # judged late, all of them
        ({"deadline": None}, (), 6),
        ({"deadline": None}, ("CPU",), 0),
        ({"deadline": datetime(2027, 3, 1, tzinfo=UTC)}, ("CPU",), 0),
        ({"deadline": datetime(2026, 11, 30, tzinfo=UTC), "title": "Other", "files": {}}, ("CPU",), 0),
    ],
    ids=["closed", "closed before", "no machine", "open", "still open", "changed"],
)
def test_a_newer_timing_method_empties_no_board_that_takes_no_entries(
    tmp_path: Path, task: Task, changes: dict[str, Any], gpus: Sequence[str], rows: int
) -> None:
    before = season(replace(replace(task, deadline=None).board("CPU"), method=1))
    site, report = built(tmp_path, replace(task, **changes), before, gpus=machines(*gpus), address=ADDRESS)
    assert report.rows == rows and {one.harness.method for one in before} == {1}
    assert (site / "vectoradd/CPU/ada").is_dir() == bool(rows)
    assert (site / "vectoradd/CPU/_editions").is_dir() != bool(rows)
    assert "The board’s page links to the standings of earlier editions." in (site / "404.html").read_text()


def test_a_row_of_a_closed_board_can_be_disqualified_after_a_newer_timing_method(repository: Path, task: Task) -> None:
    text = (task.folder / "task.yml").read_text()
    (task.folder / "task.yml").write_text(text.replace("deadline: 2027-03-01", "deadline: 2026-11-01"))
    row = judged(replace(load_task(task.folder).board("CPU"), method=1), "linus", 1.5)
    ledger = Ledger(repository / "ledger")
    ledger.append(row, "r9")
    (found,) = find_judgements(Action.DISQUALIFY, "vectoradd/CPU/linus", ledger, repository / "tasks")
    assert found.submission.login == "linus"


def test_a_newer_timing_method_resets_only_open_boards(task: Task) -> None:
    for deadline, resets in ((None, True), (datetime(2026, 11, 1, tzinfo=UTC), False)):
        tasks = {task.name: replace(task, deadline=deadline)}
        changes = find_changes(tasks, tasks, method=1)
        assert [one.gpu for one in changes] == [*task.gpus] * resets


def test_news_of_a_task_names_its_first_boards_regardless_of_machines(task: Task) -> None:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    seen = [
        Seen(task=task.name, gpu=gpu, edition=task.board(gpu).edition, at=at)
        for gpu, at in (("CPU", began), ("H100", began), ("L4", began + timedelta(days=9)))
    ]
    for gpus in (("CPU", "H100", "L4"), ("T4",)):
        new, more, *_ = notices_of(task, seen, gpus)
        assert (new.gpus, more.gpus) == (("CPU", "H100"), ("L4",))


def test_a_task_without_a_machine_gets_no_card_on_the_site(tmp_path: Path, task: Task) -> None:
    site, report = built(tmp_path, task, [], gpus=machines("B200"))
    assert report.rows == 0 and not (site / "vectoradd").exists()
    assert "There are no boards yet" in page_text(site, ".")


@pytest.mark.parametrize(
    ("words", "said", "unsaid"),
    [
        (["tasks"], ["CPU"], ["T4", "H100"]),
        (["task", "show", "vectoradd"], ["CPU", "No machine here judges T4, L4, H100, MI300X."], []),
        (["board", "vectoradd", "--gpu", "H100"], ["grace", "No machine judges this board now"], []),
        (["board", "vectoradd"], ["ada"], ["No machine"]),
        (["history", "vectoradd", "--gpu", "H100"], ["grace", "No machine judges this board now"], []),
        (["mine", "grace"], ["vectoradd / H100"], []),
    ],
)
def test_the_commands_show_the_boards_that_exist(
    repository: Path,
    capsys: pytest.CaptureFixture[str],
    words: Sequence[str],
    said: Sequence[str],
    unsaid: Sequence[str],
) -> None:
    ledger = ["--ledger", str(repository / "ledger")] if words[0] not in ("tasks", "task") else []
    text = printed(capsys, *words, *ledger, "--tasks", str(repository / "tasks"))
    assert all(one in text for one in said) and not any(one in text for one in unsaid), text


def test_a_site_built_by_hand_follows_the_settings(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def build(*words: str) -> tuple[str, set[str]]:
        places = ["--ledger", str(repository / "ledger"), "--tasks", str(repository / "tasks")]
        printed(capsys, "site", "build", *places, "--out", str(repository / "_site"), *words)
        boards = json.loads((repository / "_site/index.json").read_text())["boards"]
        return page_text(repository / "_site", "."), {board["gpu"] for board in boards}

    settings = repository / ".github/pullrank.yml"
    text = (
        "title: Fork Cup\ndescription: Kernels for all.\nbans: [{login: ada, reason: Caches.}]\n" + settings.read_text()
    )
    settings.write_text(text)
    page, gpus = build()
    assert "Fork Cup" in page and "Kernels for all." in page and gpus == {"CPU", "H100"}
    assert "Caches." in page_text(repository / "_site", "authors/ada")
    assert "My Cup" in build("--title", "My Cup")[0]
    build("--address", "https://kernels.example/cup", "--repository", "https://github.com/kernels/cup")
    assert "https://kernels.example/cup/vectoradd/CPU/" in (repository / "_site/sitemap.xml").read_text()
    assert 'href="/cup/assets/style.css"' in (repository / "_site/404.html").read_text()
    assert "https://github.com/kernels/cup/pull/" in (repository / "_site/vectoradd/CPU/index.html").read_text()
    other = settings.rename(repository / "other.yml")
    assert build()[1] == {"CPU", "T4", "L4", "H100", "MI300X"}
    assert build("--settings", str(other)) == (page, gpus)
    other.write_text("gpus: []\n")
    places = ["--ledger", str(repository / "ledger"), "--settings", str(other)]
    assert "other.yml:1: gpus" in printed(capsys, "site", "build", *places, code=2)


def test_a_board_with_neither_machine_nor_results_does_not_exist(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = ["--ledger", str(repository / "ledger"), "--tasks", str(repository / "tasks")]
    assert "Its boards: CPU, H100\n" in printed(capsys, "board", "vectoradd", "--gpu", "T4", *places, code=2)
    shown = json.loads(printed(capsys, "task", "show", "vectoradd", "--json", *places[2:]))
    assert shown["gpus"] == ["CPU"] and [one["gpu"] for one in shown["boards"] if one["judged"]] == ["CPU"]
    assert json.loads(printed(capsys, "board", "vectoradd", "--gpu", "H100", "--json", *places))["judged"] is False


@pytest.mark.parametrize("command", ["board", "history"])
def test_a_task_without_a_machine_has_no_board_to_show(
    repository: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (repository / ".github/pullrank.yml").write_text("gpus: {B200: {runs_on: b200}}\n")
    places = ["--ledger", str(repository / "none"), "--tasks", str(repository / "tasks")]
    (repository / "none").mkdir()
    assert "no machine here judges vectoradd" in printed(capsys, command, "vectoradd", *places, code=2)


def test_tasks_without_settings_have_all_the_boards_they_name(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / ".github/pullrank.yml").unlink()
    tasks = ["--tasks", str(repository / "tasks")]
    assert json.loads(printed(capsys, "tasks", "--json", *tasks))[0]["gpus"] == ["CPU", "T4", "L4", "H100", "MI300X"]
    text = printed(capsys, "task", "show", "vectoradd", *tasks)
    assert "CPU, T4, L4, H100, MI300X" in text and "No machine" not in text
    places = [*tasks, "--ledger", str(repository / "ledger")]
    assert "No ranked entries on vectoradd / T4" in printed(capsys, "board", "vectoradd", "--gpu", "T4", *places)


def test_task_diff_reports_only_boards_that_exist(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tmp_path_factory.mktemp("before")
    task_folder(before, yml=WIDE.replace("size: 4096", "size: 2048").replace(", MI300X", ""))
    words = ["task", "diff", str(before), "--tasks", str(repository / "tasks"), "--json"]
    assert [one["gpu"] for one in json.loads(printed(capsys, *words))] == ["CPU"]
    with_rows = json.loads(printed(capsys, *words, "--ledger", str(repository / "ledger")))
    assert [one["gpu"] for one in with_rows] == ["CPU", "H100"]


def test_a_ledger_lists_the_gpus_that_judged_a_task(repository: Path) -> None:
    (repository / "ledger/judgements/vectoradd/L4").mkdir()
    ledger = Ledger(repository / "ledger")
    assert ledger.gpus_of("vectoradd") == {"CPU", "H100"} and ledger.gpus_of("sort") == set()
