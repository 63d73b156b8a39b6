"""`pullrank init`, and AGENTS.md: what they say is true, and enough for an agent to get a file judged."""

import json
import re
import shlex
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.records.errors import SubmissionError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.times import Forfeit
from harness.records.verdict import Verdict
from harness.task.submission import Submission, read_submission
from harness.task.task import load_task
from scripts.bot.comment.check_report import facts_as_text
from scripts.cli import run
from scripts.commands.judge_file import _how_to_submit, find_task
from scripts.competition.settings import SETTINGS, load_settings
from scripts.submit.follow import BoardNews, BoardProgress, read_result
from tests.competition import ROOT, SOURCE, judgement_of, profiles_of, the_board

pytestmark = pytest.mark.usefixtures("shared_sandbox")
AGENTS = (ROOT / "AGENTS.md").read_text()


def test_an_init_folder_is_complete_and_its_submission_is_accepted(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["init", "vectoradd"]) == 0
    assert "pullrank test vectoradd/submission.py" in capsys.readouterr().out
    found = {path.relative_to("vectoradd").as_posix() for path in Path("vectoradd").rglob("*") if path.is_file()}
    assert {"submission.py", "AGENTS.md", "task/task.yml", "task/reference.py", "task/task.py"} <= found
    assert run(["test", "vectoradd/submission.py", "--sandbox", "none", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "AC"


def copy_of(task: str, folder: Path) -> Path:
    """A task of the competition with small cases, and on the CPU only one benchmark, for quick judgings."""
    copy = shutil.copytree(ROOT / "tasks" / task, folder / task, ignore=shutil.ignore_patterns("__pycache__"))
    path = copy / "task.yml"
    text = re.sub(r"size: \d\d+", "size: 16", path.read_text())
    path.write_text(text.replace("      - {size: 16, scale: 1.0, seed: 6256}\n", ""))
    return copy


def told(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """The commands that the last output names."""
    return [shlex.split(command)[1:] for command in re.findall(r"`(pullrank [^`]*)`", capsys.readouterr().out)]


def test_each_suggested_next_command_works_for_a_task_in_any_folder(tmp_path: Path, monkeypatch, capsys) -> None:
    """In a folder with a space in its name; `submit` is not suggested for a task outside the competition."""
    monkeypatch.setenv("COLUMNS", "300")  # the long name of a temporary folder would be split over two lines
    elsewhere = tmp_path / "my tasks"
    copy_of("vectoradd", elsewhere)
    unwalled = ["--sandbox", "none"]
    assert run(["tasks", "--tasks", str(elsewhere)]) == 0
    show, init = told(capsys)
    assert run([word.replace("TASK", "vectoradd") for word in show]) == 0
    assert f"pullrank task template '{elsewhere}/vectoradd'" in capsys.readouterr().out
    out = ["--out", str(tmp_path / "work")]
    assert run([*(word.replace("TASK", "vectoradd") for word in init), *out]) == 0
    (test,) = told(capsys)
    assert run([*test, *unwalled]) == 0
    (benchmark,) = told(capsys)
    assert benchmark[0] == "benchmark" and run(benchmark) == 0
    shown = capsys.readouterr().out
    assert "Speedup" in shown and "`pullrank" not in shown
    kernel = tmp_path / "kernel.py"
    assert run(["task", "template", "vectoradd", "--tasks", str(elsewhere), "--out", str(kernel)]) == 0
    assert kernel.is_file()
    assert told(capsys) == [["test", str(kernel), *test[2:]]], "the command that just worked"


def test_the_next_command_names_the_task_if_the_file_does_not(tmp_path: Path, capsys) -> None:
    kernel = tmp_path / "kernel.py"
    kernel.write_bytes(SOURCE)
    place = ["--task", "vectoradd", "--gpu", "CPU", "--sandbox", "none"]
    assert run(["test", str(kernel), *place]) == 0
    assert told(capsys) == [["benchmark", str(kernel), *place]]


def test_a_benchmark_of_a_competition_task_suggests_submitting_the_file(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, folder = tmp_path / "kernel.py", copy_of("vectoradd", tmp_path / "tasks")
    kernel.write_bytes(SOURCE)
    monkeypatch.setattr("scripts.competition.repository.TASKS", tmp_path / "tasks")
    assert run(["benchmark", str(kernel), "--task-dir", str(folder), "--gpu", "CPU", "--sandbox", "none"]) == 0
    assert told(capsys) == [["submit", str(kernel), "--task", "vectoradd", "--draft"]]


@pytest.mark.parametrize(
    ("mode", "source", "words"),
    [
        (Mode.BENCHMARK, SOURCE, ["--task", "vectoradd", "--draft"]),
        (Mode.BENCHMARK, b"#!POPCORN leaderboard vectoradd\n" + SOURCE, ["--draft"]),
        (Mode.RANKED, SOURCE, ["--task", "vectoradd"]),
        (Mode.RANKED, b"#!POPCORN leaderboard vectoradd\n" + SOURCE, []),
    ],
)
def test_the_suggested_submit_command_has_only_the_needed_options(mode: Mode, source: bytes, words: list[str]) -> None:
    file, task = Path("kernel.py"), load_task(ROOT / "tasks" / "vectoradd")
    said = _how_to_submit(mode, file, Submission(login="", source=source), task)
    assert shlex.split(said.partition("`")[2].partition("`")[0]) == ["pullrank", "submit", "kernel.py", *words]


@pytest.mark.parametrize("task", [path.parent.name for path in sorted(ROOT.glob("tasks/*/task.yml"))])
def test_init_creates_a_submission_that_names_its_task_for_every_task(task: str, tmp_path: Path) -> None:
    out = tmp_path / "work"
    assert run(["init", task, "--out", str(out)]) == 0
    (file,) = out.glob("submission.*")
    assert re.match(rf"(#|//)!POPCORN leaderboard {task}\n", file.read_text())


def test_the_examples_that_init_lays_out_are_of_their_task(tmp_path: Path) -> None:
    assert run(["init", "vectoradd", "--out", str(tmp_path / "work")]) == 0
    example = tmp_path / "work/task/examples/accepted/in_float32.py"
    task = find_task(example, read_submission(example), None, None)
    assert task.folder == ROOT / "tasks" / "vectoradd"


def test_a_file_in_an_unreadable_encoding_is_no_file_without_a_directive(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_bytes("#!POPCORN leaderboard vectoradd\n".encode("utf-16"))
    with pytest.raises(SubmissionError, match=r"its directives cannot be read: .*saved as UTF-16"):
        find_task(file, read_submission(file), None, None)


def test_init_overwrites_nothing_and_leaves_nothing_half_written(tmp_path: Path, capsys) -> None:
    (tmp_path / "mine").write_text("x")
    assert run(["init", "vectoradd", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert run(["init", "vectoradd", "--out", str(tmp_path / "new"), "--language", "Pyton"]) == 2
    assert "did you mean 'Python'" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("out", [".", "link"])
def test_init_fills_the_empty_working_directory_and_the_target_of_a_link(out: str, tmp_path: Path, monkeypatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "link").symlink_to(work)
    monkeypatch.chdir(work if out == "." else tmp_path)
    assert run(["init", "vectoradd", "--out", out]) == 0
    assert sorted(path.name for path in work.iterdir()) == ["AGENTS.md", "submission.py", "task"]


# AGENTS.md.


def table_under(heading: str) -> list[str]:
    """The first column of the table below these words."""
    text = AGENTS.partition(heading)[2]
    rows = re.findall(r"^\| (.+?) \|", text.partition("\n\n## ")[0], re.MULTILINE)
    return rows[1:]


def test_agents_md_names_every_verdict_exit_code_and_state() -> None:
    assert [verdict for verdict in Verdict if f"`{verdict.value}`" not in AGENTS] == []
    assert table_under("## Exit codes") == ["0", "1", "2", "3", "130", "141"]
    assert [stage for stage in BoardProgress if f"`{stage.value}`" not in AGENTS] == []
    board = BoardNews(gpu="CPU", mode="ranked", stage=BoardProgress.QUEUED, summary="")
    assert {"gpu", "mode", "state", "rank", "of", "gap", "place", "result"} <= board.facts.keys()


def judgement() -> tuple[Judgement, Any]:
    facts = {"task": "vectoradd", "gpu": "CPU", "mode": Mode.RANKED, "login": "ada", "user_id": 7, "digest": "0" * 64}
    request = SimpleNamespace(**facts, id="12-0a1b2c3d4e5f-CPU-ranked-1", pull_request=12, head_sha="0" * 40)
    return judgement_of(request, "https://github.com/run"), request  # type: ignore[arg-type]


def test_agents_md_names_every_key_of_a_check_runs_json() -> None:
    result = read_result(facts_as_text(*judgement()))
    assert result
    named = re.findall(r"`(\w+)`", " ".join(table_under("`result` is the JSON of the board's check run")))
    assert named == list(result)
    case = AGENTS.partition("| `cases`, `cases_in_all` |")[2].partition("\n")[0]
    profile = profiles_of(the_board())[-1].profile
    assert profile
    known = {key for one in result["cases"] for key in one} | {"profile", *profile.model_dump()}
    assert known <= set(re.findall(r"`(\w+)`", case))


def test_a_check_runs_json_has_a_duel_that_the_leaders_file_forfeited() -> None:
    judged, request = judgement()
    lost = Forfeit(opponent="bob", opponent_digest="1" * 64, verdict=Verdict.RUN_TIME_ERROR, message="It crashed.")
    result = read_result(facts_as_text(judged.model_copy(update={"forfeit": lost}), request))
    assert result and result["duel"] == {"opponent": "bob", "won": True}


def test_agents_md_names_the_shipped_quotas() -> None:
    limits = load_settings(ROOT / SETTINGS).limits
    words = " ".join(AGENTS.split())
    assert f"{limits.judgings_per_day} judgings, {limits.ranked_per_day} of them ranked" in words
    assert f"{limits.minutes_per_day} minutes" in words and f"{limits.pending} at once, {limits.file_kib} KiB" in words
