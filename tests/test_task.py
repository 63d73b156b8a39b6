"""Reading tasks: the task from a good folder, and all messages for a bad one.

bad_tasks/<what is wrong>.yml     each faulty line has its expected message after `#!`
"""

import hashlib
import re
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import harness.task.task
from harness.records.errors import TaskError
from harness.records.verdict import Verdict
from harness.task.task import (
    Baseline,
    Board,
    Case,
    Evaluator,
    Language,
    Limits,
    Ranking,
    Task,
    Work,
    evaluate,
    load_task,
    load_tasks,
    task_schema,
)

BAD_TASKS = sorted((Path(__file__).parent / "bad_tasks").glob("*.yml"))
CASES = "tests: [{size: 127, seed: 4242}]\nbenchmarks: [{size: 4096, seed: 2146}]\n"
KERNEL = "def custom_kernel(data):\n    return data\n"


def task_folder(parent: Path, yml: str = CASES, *, name: str = "vectoradd", **files: str | bytes | None) -> Path:
    """A task's folder; `files` are added, or with None removed (`__` means `.`, `___` means `/`)."""
    contents: dict[str, Any] = {
        "task.yml": yml,
        "task.py": "input_t = tuple\n",
        "reference.py": "def check_implementation(data, output):\n    return ''\n",
        "template.py": KERNEL,
        "examples/accepted/plain.py": KERNEL,
        "examples/wrong_answer/zeros.py": KERNEL,
    }
    contents |= {file.replace("___", "/").replace("__", "."): content for file, content in files.items()}
    for file, content in contents.items():
        path = parent / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return parent / name


def load(parent: Path, yml: str = "", **files: str | bytes | None) -> Task:
    return load_task(task_folder(parent, CASES + yml, **files))


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(TaskError) as error:
        load_task(folder)
    return str(error.value).split("\n")


def expected_faults(text: str) -> list[tuple[int, str]]:
    return [
        (number, message.strip()) for number, line in enumerate(text.split("\n"), 1) for message in line.split("#!")[1:]
    ]


@pytest.mark.parametrize("path", BAD_TASKS, ids=lambda path: path.stem)
def test_every_fault_of_a_bad_task_is_named_with_its_line(path: Path, tmp_path: Path) -> None:
    text = path.read_text()
    expected = expected_faults(text)
    kernels = {f"examples___{verdict}___plain__cu": "\n" for verdict in ("accepted", "wrong_answer")}
    faults = faults_of(task_folder(tmp_path, text, adapter__py="\n", **kernels))
    found = [re.fullmatch(r".*/task\.yml:(\d+): (.*)", fault) for fault in faults]
    assert expected
    assert len(found) == len(expected), found
    for match, (line, message) in zip(found, expected, strict=True):
        assert match and int(match[1]) == line and message in match[2], (match, line, message)


def test_a_task_with_ten_faults_gets_all_ten_reported(tmp_path: Path) -> None:
    [path] = [path for path in BAD_TASKS if path.stem == "ten_faults"]
    faults = faults_of(task_folder(tmp_path, path.read_text()))
    assert len(faults) >= 10
    assert sum("did you mean" in fault for fault in faults) >= 5


def test_a_number_of_any_length_in_place_of_a_choice_is_a_fault(tmp_path: Path) -> None:
    (fault,) = faults_of(task_folder(tmp_path, f"{CASES}lang: 0x{'f' * 6000}\n"))
    assert fault.endswith("lang: must be one of py, cu, not a number of that size")


def test_a_task_may_leave_out_all_but_its_cases(tmp_path: Path) -> None:
    task = load(tmp_path)
    assert (task.name, task.title, task.description) == ("vectoradd", "Vectoradd", "")
    assert (task.lang, task.evaluator, task.ranking_by) == (Language.PY, Evaluator.REFEREE, Ranking.GEOM)
    assert (task.gpus, task.deadline, task.limits, task.work) == (("CPU",), None, Limits(), None)
    assert set(task.files) == {"task.py", "reference.py"}
    assert task.shared_files == {"task.py": b"input_t = tuple\n"}
    assert "check_implementation" in task.reference
    assert task.submission_name == "submission.py"
    assert task.templates == {"Python": task.folder / "template.py"}
    assert task.anchor == task.folder / "examples/accepted/plain.py"
    assert [example.verdict for example in task.examples] == [Verdict.ACCEPTED, Verdict.WRONG_ANSWER]
    assert [case.name for case in task.tests] == ["size: 127, seed: 4242"]


def test_every_key_of_a_task_is_read(tmp_path: Path) -> None:
    yml = """
title: "Sum: of vectors"
description: |
  Add.
lang: py
set: {title: Sums, about: Of *vectors*.}
gpus: [CPU, H100, RTX-4090]
deadline: 2027-03-01T00:00:00+01:00
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
  - {name: utils.py, source: ../common/utils.py}
  - {name: eval.py, source: ../common/utils.py}
evaluator: referee
config: {main: eval.py}
templates: {Python: template.py, Triton: ../common/utils.py}
anchor: examples/accepted/plain.py
baselines: {torch.add: examples/accepted/sum.py}
per_gpu:
  H100: {benchmarks: [{size: 1}, {size: 2}], case_timeout: 5}
  CPU:
    {tests: [{size: 3}], memory_gib: 0.5, test_timeout: 1, benchmark_timeout: 2, ranked_timeout: 3, compile_timeout: 4}
test_timeout: 1200
case_timeout: 7.5
memory_gib: 32
ranking_by: last
work: {bytes: "3 * size * 2", flops: 100, dtype: bfloat16}
multi_gpu: false
seed: 12
libraries: [cutlass]
"""
    task_folder(tmp_path, name="common", utils__py="def match(): ...\n")
    task = load(tmp_path, yml, examples___accepted___sum__py="pass\n")
    assert (task.title, task.description, task.ranking_by) == ("Sum: of vectors", "Add.\n", Ranking.LAST)
    digest = hashlib.sha256(b"pass\n").hexdigest()
    path = task.folder / "examples/accepted/sum.py"
    assert task.baselines == (Baseline(name="torch.add", path=path, digest=digest),)
    assert (task.baseline_name(digest), task.baseline_name("0" * 64)) == ("torch.add", "")
    assert task.deadline == datetime(2027, 2, 28, 23, tzinfo=UTC)
    assert task.set and (task.set.title, task.set.about) == ("Sums", "Of *vectors*.")
    assert set(task.files) == {"reference.py", "utils.py", "eval.py"}
    assert task.templates["Triton"] == tmp_path / "common/utils.py"
    assert task.work == Work(bytes="3 * size * 2", flops="100", dtype="bfloat16")
    assert [board.gpu for board in task.boards] == ["CPU", "H100", "RTX-4090"]
    cpu, h100, plain = task.boards
    assert [len(h100.benchmarks), len(h100.tests), len(cpu.tests), len(cpu.benchmarks)] == [2, 1, 1, 1]
    assert h100.limits == replace(plain.limits, case_timeout_s=5)
    assert plain.limits == Limits(test_timeout_s=1200, case_timeout_s=7.5, memory_gib=32)
    assert cpu.limits == Limits(
        test_timeout_s=1,
        benchmark_timeout_s=2,
        ranked_timeout_s=3,
        compile_timeout_s=4,
        case_timeout_s=7.5,
        memory_gib=0.5,
    )


def test_a_kernelbot_cuda_task_keeps_its_compiler_settings(tmp_path: Path) -> None:
    yml = """
lang: cu
gpus: [A100]
files:
  - {name: submission.cu, source: "@SUBMISSION@"}
  - {name: eval.cu, source: eval.cu}
  - {name: task.h, source: task.h}
config:
  sources: [eval.cu]
  include_dirs: [cutlass]
  defines: {TILE: 16, NDEBUG: ""}
  compile_flags: [-O3]
templates: {CUDA: template.cu}
"""
    task = load(tmp_path, yml, eval__cu="int main() {}\n", task__h="\n", template__cu="\n")
    assert (task.evaluator, task.submission_name, task.reference, task.anchor) == (
        Evaluator.SCRIPT, "submission.cu", "", None,
    )  # fmt: skip
    assert task.config and task.config.sources == ("eval.cu",) and task.config.defines == {"TILE": "16", "NDEBUG": ""}
    assert task.config.include_dirs == ("cutlass",) and task.config.compile_flags == ("-O3",)


def test_a_compiled_task_may_have_baselines_in_python(tmp_path: Path) -> None:
    library = "def custom_kernel(data): ...\n"
    task = load(
        tmp_path,
        "lang: cu\nevaluator: referee\nbaselines: {PyTorch: examples/accepted/library.py}\n",
        adapter__py="def bind(library): ...\n", examples___accepted___a__cu="\n", examples___wrong_answer___b__cu="\n",
        examples___accepted___library__py=library, examples___accepted___no_baseline__py=library + "\n",
    )  # fmt: skip
    assert [one.place for one in task.examples] == ["accepted/a.cu", "accepted/library.py", "wrong_answer/b.cu"]
    digests = [hashlib.sha256(source.encode()).hexdigest() for source in (library, library + "\n", "\n")]
    assert list(map(task.name_of, digests)) == ["submission.py", "submission.cu", "submission.cu"]
    assert task.name_of(None) == "submission.cu"


def test_the_anchor_of_a_compiled_task_is_compiled(tmp_path: Path) -> None:
    yml = f"{CASES}lang: cu\nevaluator: referee\nbaselines: {{PyTorch: examples/accepted/a_library.py}}\n"
    files = {
        "adapter__py": "def bind(library): ...\n",
        "examples___wrong_answer___b__cu": "\n",
        "examples___accepted___a_library__py": "def custom_kernel(data): ...\n",
    }
    (fault,) = faults_of(task_folder(tmp_path / "none", yml, **files))
    assert fault.endswith("examples/accepted: needs a file *.cu that must get AC")
    task = load_task(task_folder(tmp_path / "one", yml, **files, examples___accepted___b__cu="\n"))
    assert task.anchor == task.folder / "examples/accepted/b.cu"


def test_a_task_with_its_own_evaluator_needs_no_examples(tmp_path: Path) -> None:
    missing = {"examples___accepted___plain__py": None, "examples___wrong_answer___zeros__py": None}
    files = '[{name: submission.py, source: "@SUBMISSION@"}, {name: eval.py, source: eval.py}]'
    yml = f"evaluator: script\nconfig: {{main: eval.py}}\nfiles: {files}\n"
    task = load(tmp_path, yml, eval__py="print()\n", **missing)
    assert (task.examples, task.anchor, task.config and task.config.main) == ((), None, "eval.py")


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("127", 127),
        ("-1", -1),
        ("1e-3", 0.001),
        ("2.5E+4", 25000.0),
        (".5e1", 5.0),
        ("0.5", 0.5),
        ('"1e-3"', "1e-3"),
        ("float16", "float16"),
        ("true", True),
        ("[1, 2, -3]", (1, 2, -3)),
        ("[]", ()),
        ('"(64, 32)"', (64, 32)),
        ('"(64,)"', (64,)),
        ('"(64"', "(64"),
        ("0x10", 16),
        ("1_000", 1000),
    ],
)
def test_case_values_are_numbers_words_booleans_and_lists(written: str, read: object, tmp_path: Path) -> None:
    task = load_task(task_folder(tmp_path, f"tests: [{{size: {written}}}]\nbenchmarks: [{{}}]\n"))
    value = task.tests[0].params["size"]
    assert value == read and type(value) is type(read)


def test_a_case_may_have_no_arguments(tmp_path: Path) -> None:
    task = load_task(task_folder(tmp_path, "tests: [{}]\nbenchmarks: [{no: 1}]\n"))
    assert task.tests[0].name == "no arguments"
    assert task.benchmarks[0].params == {"no": 1}, "a key is text, even if YAML reads the word as something else"


@pytest.mark.parametrize(
    "deadline",
    ["2027-03-01T00:00:00", "2027-03-01", "soon", "2027-13-01T00:00:00Z", "12", "0001-01-01T00:00:00+05:00"],
)
def test_a_deadline_needs_a_zone(deadline: str, tmp_path: Path) -> None:
    [fault] = faults_of(task_folder(tmp_path, f"{CASES}deadline: {deadline}\n"))
    assert "task.yml:3: deadline: " in fault


@pytest.mark.parametrize("deadline", ["2027-03-01T02:00:00+02:00", "2027-03-01 00:00Z", '"2027-03-01T00:00:00Z"'])
def test_a_task_is_open_until_its_deadline(deadline: str, tmp_path: Path) -> None:
    task = load(tmp_path, f"deadline: {deadline}\n")
    end = datetime(2027, 3, 1, tzinfo=UTC)
    assert task.is_open((end - timedelta(seconds=1)).astimezone(timezone(timedelta(hours=9))))
    assert not task.is_open(end)
    assert replace(task, deadline=None).is_open(end)


def test_an_unknown_board_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    task = load(tmp_path, "gpus: [CPU, H100]\n")
    with pytest.raises(TaskError, match=r"vectoradd has no board 'h100'; did you mean 'H100'\? Its boards: CPU, H100"):
        task.board("h100")
    with pytest.raises(TaskError, match=r"no board 'B200'\. Its boards"):
        replace(task, gpus=("CPU",)).board("B200")


# Files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CASES.replace("\n", "\r\n"), "task.yml:1: has Windows line endings (CRLF); save it with LF, or run: sed"),
        (b"title: \xff\n", "task.yml:1: not UTF-8; save it as UTF-8"),
        ("tests: [{}]\ntitle: a\x07b\n", "task.yml:2: contains the control character '\\x07'"),
        (CASES + "description: " + "x" * 200_000, "task.yml:1: larger than 128 KiB"),
        ("tests: " + "[" * 100_000, "task.yml:1: nested more than 16 levels deep"),
        ("title: " + ":".join(["59"] * 999) + ".0", "task.yml:1: title: '59:59"),
        ("title: " + "9" * 5000, "task.yml:1: title: '999"),
        (
            "tests: [{size: 0x" + "f" * 10_000 + "}]\nbenchmarks: [{}]",
            "must fit into 64 bits, not a number of that size",
        ),
    ],
)
def test_hostile_and_foreign_yaml_gets_one_clear_message(content: str | bytes, message: str, tmp_path: Path) -> None:
    started = time.monotonic()
    faults = faults_of(task_folder(tmp_path, task__yml=content))
    assert [fault for fault in faults if message in fault], faults
    assert len(faults) <= 3
    assert time.monotonic() - started < 5


def test_windows_line_ends_hide_no_other_fault(tmp_path: Path) -> None:
    faults = faults_of(task_folder(tmp_path, (CASES + "tittle: x\n").replace("\n", "\r\n"), task__py="a = 1\r\n"))
    assert ["task.yml:1: has Windows" in faults[0], "task.yml:3: tittle" in faults[1]] == [True, True]
    assert "task.py: has Windows line endings" in faults[2]


def test_a_byte_order_mark_is_not_a_fault(tmp_path: Path) -> None:
    assert load_task(task_folder(tmp_path, "\ufeff" + CASES)).tests


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"reference__py": None, "refrence__py": ""}, "vectoradd: no file 'reference.py'; did you mean 'refrence.py'?"),
        ({"task__py": None}, "vectoradd: no file 'task.py'"),
        ({"task__py": b"\xff"}, "vectoradd/task.py: cannot be read as UTF-8 text"),
        ({"reference__py": "a = 1\ndef (:\n"}, "vectoradd/reference.py:2: not valid Python 3."),
        ({"task__py": "if 1:\n        a = 1\n\ta = 2\n"}, "task.py:3: not valid Python 3."),
        ({"utils__py": "# coding: klingon\n"}, ": unknown encoding: klingon"),
        ({"utils__py": "a = '\0'\n"}, "vectoradd/utils.py:1: not valid Python 3."),
        ({"utils__py": "a = " + "-" * 100_000 + "1\n"}, "utils.py: cannot be read as Python: "),
        ({"examples___accepted___plain__py": None}, "examples/accepted: needs a file *.py that must get AC"),
        ({"examples___wrong_answer___zeros__py": None}, "examples/wrong_answer: needs a file *.py that must get WA"),
        ({"examples___wrong-answer___x__py": ""}, "not the name of a verdict; did you mean 'wrong_answer'?"),
        ({"examples___judging_error___x__py": ""}, "examples/judging_error: not the name of a verdict"),
        ({"utils__py": "x" * (4 * 2**20 + 1)}, "'utils.py' is larger than 4 MiB"),
    ],
)
def test_a_folder_with_a_missing_or_invalid_file_is_reported(
    files: dict[str, Any], message: str, tmp_path: Path
) -> None:
    [fault] = faults_of(task_folder(tmp_path, **files))
    assert message in fault


def test_faults_of_the_folder_and_of_task_yml_are_reported_together(tmp_path: Path) -> None:
    faults = faults_of(task_folder(tmp_path, CASES + "ranking_by: best\n", name="Vector Add", reference__py=None))
    assert len(faults) == 3
    assert "ranking_by: must be one of geom, mean, last" in faults[0]
    assert "lower-case letters" in faults[1] and "no file 'reference.py'" in faults[2]


def test_a_task_may_not_have_the_name_of_a_folder_of_the_site(tmp_path: Path) -> None:
    [fault] = faults_of(task_folder(tmp_path, CASES, name="machines"))
    assert "'machines' is not a task name: the site has a folder of this name" in fault


def test_all_faults_of_a_folder_are_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("token = 1\n")
    yml = (
        CASES + "tittle: x\nranking_by: best\ntemplates: {Python: ../../secret.py}\nwork: {bytes: sise}\ngpus: [cpu]\n"
    )
    folder = task_folder(
        tmp_path / "tasks", yml, name="Vector Add",
        task__py=b"\xff", examples___accepted___plain__py=None, examples___correct___x__py="",
    )  # fmt: skip
    (folder / "reference.py").unlink()
    (folder / "reference.py").symlink_to("../../secret.py")
    faults = faults_of(folder)
    assert len(faults) == len(set(faults)) == 10
    for message in (
        "tittle: unknown key; did you mean 'title'?", "ranking_by: must be one of", "unknown GPU 'cpu'",
        "'../../secret.py' is outside", "sise", "lower-case letters", "'reference.py' is outside",
        "task.py: cannot be read as UTF-8 text", "examples/correct: not the name of a verdict",
        "examples/accepted: needs a file *.py that must get AC",
    ):  # fmt: skip
        assert any(message in fault for fault in faults), (message, faults)


def test_a_folder_or_a_link_to_nothing_in_a_files_place_is_named_as_such(tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "tasks", CASES)
    for name in ("task.py", "reference.py"):
        (folder / name).unlink()
    (folder / "task.py").mkdir()
    (folder / "reference.py").symlink_to("nowhere.py")
    task, reference = faults_of(folder)
    assert "'task.py' is not a file, but a folder or the like" in task
    assert "'reference.py' is a link to nowhere.py, which leads to no file" in reference


def test_a_link_may_not_lead_out_of_the_tasks_tree(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("token = 1\n")
    folder = task_folder(tmp_path / "tasks", CASES + "templates: {Python: inside.py, Triton: ../link.py}\n")
    (tmp_path / "tasks/link.py").symlink_to("../secret.py")
    (folder / "inside.py").symlink_to("template.py")
    (folder / "task.py").unlink()
    (folder / "task.py").symlink_to("../../secret.py")
    (folder / "examples/accepted/out.py").symlink_to(tmp_path / "secret.py")
    triton, example, task = faults_of(folder)
    assert "templates.Triton: '../link.py' is outside the tasks tree tasks/" in triton
    assert "'task.py' is outside" in task and "'examples/accepted/out.py' is outside" in example


def test_a_task_that_is_a_link_out_of_the_tree_is_refused(tmp_path: Path) -> None:
    task_folder(tmp_path / "elsewhere")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/vectoradd").symlink_to("../elsewhere/vectoradd")
    with pytest.raises(TaskError, match="is outside the tasks tree"):
        load_tasks(tmp_path / "tasks")


def test_a_missing_task_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    task_folder(tmp_path)
    with pytest.raises(TaskError, match="vectorad: no such folder; did you mean 'vectoradd'"):
        load_task(tmp_path / "vectorad")
    (tmp_path / "vectoradd/task.yml").rename(tmp_path / "vectoradd/task.yaml")
    with pytest.raises(TaskError, match=r"vectoradd: no file 'task.yml'; did you mean 'task.yaml'"):
        load_task(tmp_path / "vectoradd")


def test_messages_name_files_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task_folder(tmp_path / "tasks", "title: Vector addition\n")
    monkeypatch.chdir(tmp_path)
    assert faults_of(Path("tasks/vectoradd"))[0] == "tasks/vectoradd/task.yml:1: tests: required key is missing"
    monkeypatch.chdir(tmp_path / "tasks/vectoradd")
    assert faults_of(Path())[0] == "task.yml:1: tests: required key is missing"


def test_load_tasks_reads_a_tree_in_order_and_skips_other_folders(tmp_path: Path) -> None:
    task_folder(tmp_path, name="softmax")
    task_folder(tmp_path, name="matmul")
    (tmp_path / "notes").mkdir()
    assert [task.name for task in load_tasks(tmp_path)] == ["matmul", "softmax"]
    with pytest.raises(TaskError, match="nowhere: no such folder"):
        load_tasks(tmp_path / "nowhere")


def test_the_faults_of_all_tasks_in_a_tree_are_reported_together(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        task_folder(tmp_path, CASES + ("" if name == "b" else "ranking_by: best\n"), name=name)
    with pytest.raises(TaskError) as error:
        load_tasks(tmp_path)
    assert [Path(line.split(":")[0]).parent.name for line in str(error.value).split("\n")] == ["a", "c"]


def test_a_baseline_is_an_accepted_example_and_named_once(tmp_path: Path) -> None:
    yml = """
baselines:
  zeros: examples/wrong_answer/zeros.py
  Anchor: examples/accepted/z.py
  plain: examples/accepted/plain.py
  one: examples/accepted/z.py
  two: examples/accepted/z.py
"""
    folder = task_folder(tmp_path, CASES + yml, examples___accepted___z__py="pass\n")
    place = f"{folder / 'task.yml'}:"
    assert faults_of(folder) == [
        f"{place}5: baselines.zeros: must be one of the accepted examples, in examples/accepted/",
        f"{place}6: baselines.Anchor: is what the boards call the anchor; choose another name",
        f"{place}7: baselines.plain: is the anchor, whose time the boards show anyway; name another",
        f"{place}9: baselines.two: is the same file as 'one'; keep one of them",
    ]


def test_the_tasks_used_by_the_tests_load() -> None:
    assert load_tasks(Path(__file__).parent / "tasks")


# Editions


def edition(parent: Path, yml: str = "", gpu: str = "CPU", **files: str | bytes | None) -> str:
    return load(parent, yml, **files).board(gpu).edition


EDITION_CHANGES: dict[str, dict[str, Any]] = {
    "the reference": {"reference__py": "pass\n"},
    "a shared file": {"utils__py": "pass\n"},
    "the anchor": {"examples___accepted___plain__py": "pass\n"},
    "which example is the anchor": {
        "yml": "anchor: examples/accepted/z.py\n",
        "examples___accepted___z__py": "pass\n",
    },
    "a limit": {"yml": "case_timeout: 3\n"},
    "the ranking": {"yml": "ranking_by: mean\n"},
    "this board's cases": {"yml": "per_gpu: {CPU: {tests: [{size: 1}]}}\n"},
}
EDITION_STAYS: dict[str, dict[str, Any]] = {
    "prose": {"yml": "title: Sum\ndescription: Add.\n"},
    "the deadline": {"yml": "deadline: 2027-03-01T00:00:00Z\n"},
    "another board": {"yml": "gpus: [CPU, H100]\nper_gpu: {H100: {tests: [{size: 1}]}}\n"},
    "examples": {"examples___wrong_answer___ones__py": "pass\n", "template__py": "pass\n"},
    "work": {"yml": "work: {bytes: size}\n"},
    "baselines": {
        "yml": "baselines: {torch.add: examples/accepted/z.py}\n",
        "examples___accepted___z__py": "pass\n",
    },
    "a default that is written out": {"yml": "ranking_by: geom\ncase_timeout: 30\n"},
}


@pytest.mark.parametrize("change", EDITION_CHANGES)
def test_a_change_that_affects_results_changes_the_edition(change: str, tmp_path: Path) -> None:
    assert edition(tmp_path / "old") != edition(tmp_path / "new", **EDITION_CHANGES[change])


@pytest.mark.parametrize("change", EDITION_STAYS)
def test_a_change_that_affects_no_result_keeps_the_edition(change: str, tmp_path: Path) -> None:
    assert edition(tmp_path / "old") == edition(tmp_path / "new", **EDITION_STAYS[change])


def test_a_new_timing_method_changes_every_edition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = edition(tmp_path)
    assert re.fullmatch("[0-9a-f]{64}", old)
    monkeypatch.setattr(harness.task.task, "METHOD", 99)
    assert edition(tmp_path) != old


# Formulas


@pytest.mark.parametrize(
    ("formula", "value"),
    [
        ("3 * size * size * 2", 600.0),
        ("size // 3 + size % 3 - -1", 5.0),
        ("2 ** 3 / 4", 2.0),
        ("max(size, m) + min(1, 2)", 13.0),
        ("ceil(log2(size))", 4.0),
        (" size ", 10.0),
        ("causal * size", 10.0),
    ],
)
def test_a_formula_is_arithmetic_over_the_parameters(formula: str, value: float) -> None:
    assert evaluate(formula, {"size": 10, "m": 12, "causal": True}) == value


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("siz * 2", "no case has the parameter 'siz'; did you mean 'size'?"),
        ("mode * 2", "the parameter 'mode' is 'fast', not a number"),
        ("size *", "is not a formula"),
        ("(" * 400, "is not a formula"),
        ("size; 1", "is not a formula"),
        ("9 ** 9 ** 9 ** 9", "cannot be computed"),
        ("1 / (size - 10)", "cannot be computed"),
        ("size - 11", "finite and not negative"),
        ("log2(0 - 1)", "cannot be computed"),
        ("log2(1, 2, 3)", "cannot be computed"),
        ("min(size)", "cannot be computed"),
        ("1e308 * 10", "finite"),
        ("open('x')", "there is no function 'open'"),
        ("size.__class__", "is not arithmetic"),
        ("[size][0]", "is not arithmetic"),
        ("'a' * size", "is not arithmetic"),
        ("True", "is not arithmetic"),
        ("(lambda: 1)()", "is not arithmetic"),
        ("+".join(["1"] * 400), "longer than 500"),
    ],
)
def test_an_invalid_formula_is_refused_with_its_reason(formula: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        evaluate(formula, {"size": 10, "mode": "fast"})


# Other


def test_the_schema_describes_every_key_for_editors() -> None:
    schema = task_schema()
    sections = [schema, *(part for part in schema["$defs"].values() if "properties" in part)]
    described = [(name, key) for part in sections for name, key in part["properties"].items()]
    assert len(described) > 30
    assert not [name for name, key in described if len(key.get("description", "")) < 20]
    assert all(part["additionalProperties"] is False for part in sections)
    assert schema["required"] == ["tests", "benchmarks"]
    assert schema["$defs"]["Ranking"]["enum"] == ["geom", "mean", "last"]


def test_reading_tasks_needs_no_torch() -> None:
    code = "import sys, harness.task.task, harness.task.submission; print({'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_board_can_be_made_without_a_folder() -> None:
    task = Task(name="gemm", folder=Path("nowhere"))
    case = Case(kind=harness.task.task.CaseKind.TEST, params={"size": 1})
    board = Board(task=task, gpu="CPU", tests=(case,), benchmarks=(), limits=Limits(), ranking_by=Ranking.GEOM)
    assert len(board.edition) == 64
