"""The demo: its submissions, and a small real competition from beginning to end."""

import contextlib
import json
import re
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from harness.records.verdict import Verdict
from harness.task.task import load_task, load_tasks
from scripts.cli import run
from scripts.commands.demo import ENTRIES, DemoCompetition, DemoEntry, tasks_of

TINY = Path(__file__).parent / "tasks" / "tiny"


def test_the_cast_is_a_dozen_entries_of_six_fictional_authors_on_four_tasks():
    assert 11 <= len(ENTRIES) <= 15
    assert len({entry.login for entry in ENTRIES}) == 6
    assert all(entry.login.endswith("-sample") for entry in ENTRIES)
    assert len({entry.task for entry in ENTRIES}) == 4


def test_the_entries_are_task_examples_and_cover_the_main_verdicts(tmp_path):
    tasks = tasks_of(ENTRIES, tmp_path)
    examples = {name: {example.path: example.verdict for example in task.examples} for name, task in tasks.items()}
    verdicts = [examples[one.task][tasks[one.task].folder / "examples" / one.example] for one in ENTRIES]
    assert {Verdict.ACCEPTED, Verdict.WRONG_ANSWER, Verdict.RUN_TIME_ERROR, Verdict.TIME_LIMIT_EXCEEDED} <= set(
        verdicts
    )


def test_the_cast_includes_a_resubmission_and_a_challenge():
    places = [(entry.login, entry.task) for entry in ENTRIES]
    assert len(set(places)) < len(places)
    accepted = [entry.task for entry in ENTRIES if entry.example.startswith("accepted/")]
    assert len(set(accepted)) < len(accepted)


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A finished competition whose third entry cannot be judged, and its output."""
    tiny = load_task(TINY)
    tasks = {"tiny": tiny, "lost": replace(tiny, name="lost", anchor=None)}
    entries = [
        DemoEntry(login="ada-sample", task="tiny", example="accepted/plain.py"),
        DemoEntry(login="ben-sample", task="tiny", example="wrong_answer/identity.py"),
        DemoEntry(login="cleo-sample", task="lost", example="accepted/plain.py"),
        DemoEntry(login="ben-sample", task="tiny", example="accepted/plain.py"),
    ]
    held = DemoCompetition(tmp_path_factory.mktemp("demo"), tasks, faults="no bubblewrap here")
    with contextlib.redirect_stdout(StringIO()) as said:
        assert held.hold(entries) == 2, "the exit code of the error that prevented one judging"
    del tasks["lost"]
    return held, said.getvalue()


@pytest.fixture
def competition(held, tmp_path):
    """A copy of the same competition for each test."""
    first, _ = held
    shutil.copytree(first.folder, tmp_path / "demo")
    again = DemoCompetition(tmp_path / "demo", first.tasks, faults=first.faults)
    again._files.update(first._files)
    return again


def test_every_entry_is_judged_and_kept_in_the_ledger(competition):
    contents = competition.ledger.judgements()
    assert contents.faults == ()
    assert [(one.submission.login, one.verdict) for one in contents.judgements] == [
        ("ada-sample", Verdict.ACCEPTED),
        ("ben-sample", Verdict.WRONG_ANSWER),
        ("ben-sample", Verdict.ACCEPTED),
    ]


def test_accepted_entries_get_rows_and_ties_go_to_the_earlier(competition):
    rows = competition.standings(competition.tasks["tiny"].board("CPU")).rows
    assert sorted(row.login for row in rows) == ["ada-sample", "ben-sample"]
    # These times are real: on a busy machine they may be provisional, and then the lower time is first.
    assert rows[0].login == "ada-sample" or any(row.provisional for row in rows)


def test_the_site_calls_itself_a_demo_and_marks_rows_without_a_sandbox(competition):
    site, report = competition.build_site()
    assert [*report.lines] == []
    page = (site / "tiny" / "CPU" / "index.html").read_text()
    assert "the authors are fictional" in page
    assert "no bubblewrap here" in page
    assert page.count(">no sandbox<") == 2


def comments(said):
    """The comments of each pull request, by its number."""
    _, *parts = re.split(r"^.*#(\d) ", said, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_a_pull_request_comment_shows_its_verdict_and_rank(held):
    told = comments(held[1])
    assert "accepted (AC)" in told["1"] and "of 1" in told["1"]
    assert "accepted (AC)" in told["4"] and "of 2" in told["4"]


def test_an_error_in_one_entry_is_reported_and_the_others_are_judged(held):
    told = comments(held[1])
    assert "wrong answer (WA)" in told["2"]
    assert "judging error (JE): lost has no anchor" in told["3"]


def test_the_demo_places_files_as_a_repository_does(competition):
    path = competition.folder / "submissions" / "tiny" / "ada-sample" / "submission.py"
    assert path.read_bytes() == (TINY / "examples" / "accepted" / "plain.py").read_bytes()


@pytest.mark.walls
def test_other_commands_read_what_the_demo_keeps(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("scripts.commands.demo.ENTRIES", ENTRIES[1:2])
    assert run(["demo", "--no-serve", "--out", str(tmp_path / "demo")]) == 0
    task, *others = load_tasks(tmp_path / "demo" / "tasks")
    assert (task.name, task.gpus, len(task.board("CPU").benchmarks), others) == ("vectoradd", ("CPU",), 1, [])
    ledger = ["--ledger", str(tmp_path / "demo" / "ledger"), "--json"]
    capsys.readouterr()
    assert run(["board", "vectoradd", *ledger]) == 0
    assert [row["login"] for row in json.loads(capsys.readouterr().out)["rows"]] == ["ada-sample"]
    assert run(["site", "build", *ledger, "--out", str(tmp_path / "site")]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1
    (page,) = (tmp_path / "site" / "vectoradd" / "CPU" / "ada-sample").glob("*/index.html")
    assert "custom_kernel" in page.read_text(), "the code is in the demo's submissions"
