"""`/check`: tasks of a fork are packed as data and run only in the sandbox, and their output is hostile text.

First tables of plans and results; then the shipped steps against a GitHub on loopback, with a real judge.
"""

import io
import json
import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from harness.records.verdict import Verdict
from harness.task.bundle import BundleError
from harness.task.examples import (
    GPU,
    MAX_BYTES,
    MAX_FOUND,
    ExampleResult,
    Flaw,
    ProbesResult,
    Result,
    ResultsError,
    read_results,
    read_tasks,
)
from harness.task.task import load_task
from scripts.bot.admission.task_tree import TaskTree
from scripts.bot.check.changed_tasks import MAX_EXAMPLES, TaskPlan, make_plans, pack_tasks
from scripts.bot.check.findings import MARKER, MAX_CHARS, CheckResult, MachineAnswer, find, read_answer
from scripts.bot.ci import _require_asked
from scripts.bot.evaluate.packing import zip_of
from scripts.bot.evaluate.pyz import build_pyz
from scripts.bot.workflow import CiError
from scripts.cli import run
from scripts.github.checks import CheckState
from scripts.github.pulls import ChangedFile
from tests.actions import Expressions, WarmPython
from tests.actions.node import find_node
from tests.competition import ROOT, Scene, digest_of, zipped
from tests.github_server import Pull, Run
from tests.test_workflow_scenarios import GREEN, JUDGE, Contest

TINY = ROOT / "tests/tasks/tiny"
HEAD = "a" * 40
RUN_URL = "https://github.com/acme/kernels/actions/runs/7"
HOSTILE = "</td> @everyone <!-- pullrank tasks --> ![x](http://e.vil/) | a | `b`\n::error::c\u202e\x1b[31m ``` #1"


def files_of(name: str = "tiny", **changes: str | None) -> dict[str, str]:
    """tests/tasks/tiny under another name; a change of None removes a file."""
    files = {
        str(path.relative_to(TINY)): path.read_text() for path in TINY.rglob("*") if path.suffix in (".py", ".yml")
    }
    files = {path: text.replace("#!POPCORN leaderboard tiny\n", "") for path, text in files.items()}
    new = {
        path.replace("__", "/").replace("_yml", ".yml").replace("_py", ".py"): text for path, text in changes.items()
    }
    return {f"tasks/{name}/{path}": text for path, text in (files | new).items() if text is not None}


def tree_of(folder: Path, *groups: Mapping[str, str]) -> TaskTree:
    for path, text in (pair for group in groups for pair in group.items()):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return TaskTree(root=folder)


def changed(*paths: str, status: str = "modified") -> tuple[ChangedFile, ...]:
    return tuple(ChangedFile(path=path, status=status) for path in paths)


# Plans.


def test_a_touched_task_is_run_with_all_its_examples(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, files_of("tiny"), files_of("other"))
    (plan,) = make_plans(tree, changed("tasks/tiny/reference.py", "README.md"))
    assert plan.is_run and plan.name == "tiny"
    assert plan.examples == (
        ("accepted/plain.py", Verdict.ACCEPTED),
        ("wrong_answer/identity.py", Verdict.WRONG_ANSWER),
    )


def test_a_change_to_a_shared_file_touches_every_task_that_names_it(tmp_path: Path) -> None:
    named = "files:\n  - {name: submission.py, source: '@SUBMISSION@'}\n  - {name: task.py, source: task.py}\n"
    named += "  - {name: reference.py, source: reference.py}\n  - {name: utils.py, source: ../utils.py}\n"
    user = files_of("user", task_yml=files_of()["tasks/tiny/task.yml"] + named)
    tree = tree_of(tmp_path, user, files_of("other"), {"tasks/utils.py": "x = 1\n"})
    plans = make_plans(tree, changed("tasks/utils.py"))
    assert [plan.name for plan in plans] == ["user"]
    assert "utils.py" in read_tasks(pack_tasks(tree, plans))[1]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"task_yml": "gpus: [CPU\n"}, "task.yml"),
        ({"reference_py": None}, "reference.py"),
        ({"examples__wrong_answer__identity_py": None}, "needs a file"),
    ],
)
def test_a_task_that_does_not_load_is_reported_and_not_run(tmp_path: Path, changes: dict[str, str], word: str) -> None:
    (plan,) = make_plans(tree_of(tmp_path, files_of(**changes)), changed("tasks/tiny/task.py"))
    assert not plan.is_run and word in plan.faults and str(tmp_path) not in plan.faults


def test_a_broken_task_outside_the_change_is_reported_too(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, files_of("tiny"), files_of("broken", task_yml="x"))
    assert [(plan.name, plan.is_run) for plan in make_plans(tree, changed("tasks/tiny/task.py"))] == [
        ("broken", False), ("tiny", True),
    ]  # fmt: skip


def test_a_task_without_a_cpu_board_is_read_but_not_run(tmp_path: Path) -> None:
    text = files_of()["tasks/tiny/task.yml"].replace("[CPU]", "[H100]")
    (plan,) = make_plans(tree_of(tmp_path, files_of(task_yml=text)), changed("tasks/tiny/task.py"))
    assert not plan.is_run and "has no board CPU" in plan.note and plan.examples


def test_a_removed_task_is_reported_as_removed(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, files_of("other"))
    (plan,) = make_plans(tree, changed("tasks/tiny/task.yml", "tasks/tiny/task.py", status="removed"))
    assert not plan.is_run and "is removed" in plan.note


def test_a_tree_with_a_forbidden_file_fails_as_a_whole(tmp_path: Path) -> None:
    tree = TaskTree(root=tmp_path, faults=("tasks/x: must be a plain file; its mode is 120000",))
    (plan,) = make_plans(tree, changed("tasks/x"))
    assert "120000" in plan.faults and not plan.is_run


def test_a_task_with_too_many_examples_is_not_run(tmp_path: Path) -> None:
    many = {f"tasks/tiny/examples/accepted/x{n}.py": "def custom_kernel(data): ...\n" for n in range(MAX_EXAMPLES)}
    (plan,) = make_plans(tree_of(tmp_path, files_of(), many), changed("tasks/tiny/task.py"))
    assert not plan.is_run and f"{MAX_EXAMPLES + 2} examples" in plan.note


def test_the_packed_zip_contains_the_task_and_nothing_else(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, files_of("tiny"), files_of("other"), {"tasks/README.md": "x"})
    names, files = read_tasks(pack_tasks(tree, make_plans(tree, changed("tasks/tiny/task.py"))))
    assert names == ("tiny",)
    assert {f"tasks/{path}" for path in files} == files_of("tiny").keys()


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"check.json": b"{}"},
        {"check.json": b'{"format": "pullrank-check", "version": 1, "tasks": []}'},
        {"check.json": b'{"format": "pullrank-check", "version": 1, "tasks": ["../x"]}'},
        {"check.json": b'{"format": "pullrank-check", "version": 1, "tasks": ["a"]}', "tasks/../x": b""},
        {"check.json": b'{"format": "pullrank-check", "version": 1, "tasks": ["a"]}', "harness.pyz": b""},
    ],
)
def test_a_zip_that_is_not_a_package_of_tasks_is_refused(members: dict[str, bytes]) -> None:
    with pytest.raises(BundleError):
        read_tasks(zip_of(members))


def test_a_zip_with_another_digest_is_refused(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, files_of())
    packed = pack_tasks(tree, make_plans(tree, changed("tasks/tiny/task.py")))
    assert read_tasks(packed, digest_of(packed))
    with pytest.raises(BundleError, match="SHA-256"):
        read_tasks(packed, "0" * 64)


@pytest.mark.parametrize("number", ["0", "12; rm", "-1", "٣", "1" * 30])
def test_a_pull_request_must_be_a_number(number: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULL_REQUEST", number)
    monkeypatch.setenv("HEAD_SHA", HEAD)
    with pytest.raises(CiError):
        _require_asked()


@pytest.mark.parametrize("sha", ["main", HEAD + "a", HEAD[1:], HEAD.upper()])
def test_a_commit_must_be_a_full_hash(sha: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PULL_REQUEST", "12")
    monkeypatch.setenv("HEAD_SHA", sha)
    with pytest.raises(CiError):
        _require_asked()


# Results.

PLAN = TaskPlan(
    name="tiny", examples=(("accepted/plain.py", Verdict.ACCEPTED), ("wrong_answer/identity.py", Verdict.WRONG_ANSWER))
)


def result(example: str, got: Verdict | None, message: str = "", task: str = "tiny") -> ExampleResult:
    return ExampleResult(task=task, example=example, got=got, message=message, seconds=1.0)


def probes(*messages: str, task: str = "tiny", is_fault: bool = True) -> ProbesResult:
    found = tuple(Flaw(where="all tests", message=message, is_fault=is_fault) for message in messages)
    return ProbesResult(task=task, found=found, seconds=1.0)


RIGHT = (result("accepted/plain.py", Verdict.ACCEPTED), result("wrong_answer/identity.py", Verdict.WRONG_ANSWER, "x"))
FIT = probes()
SKIPPED = result("accepted/plain.py", None, "needs jax: not installed on this machine")


def outcome(
    *plans: TaskPlan, results: tuple[Result, ...] = RIGHT, probed: tuple[Result, ...] = (FIT,), trouble: str = ""
) -> CheckResult:
    answer = MachineAnswer(results=(*probed, *results), trouble=trouble)
    return CheckResult(head_sha=HEAD, plans=plans or (PLAN,), answer=answer, run_url=RUN_URL)


@pytest.mark.parametrize(
    ("found", "state", "word"),
    [
        (outcome(), CheckState.SUCCESS, "2 of 2 examples"),
        (outcome(results=RIGHT[:1]), CheckState.NEUTRAL, "1 of 2 examples"),
        (outcome(results=()), CheckState.NEUTRAL, "0 of 2 examples"),
        (outcome(results=(result("accepted/plain.py", Verdict.WRONG_ANSWER), RIGHT[1])), CheckState.FAILURE, "1 of 2"),
        (outcome(results=(result("accepted/plain.py", Verdict.JUDGING_ERROR), RIGHT[1])), CheckState.NEUTRAL, "1 of 2"),
        (outcome(PLAN, TaskPlan(name="b", faults="b/task.yml: no")), CheckState.FAILURE, "1 did not load; 2 of 2"),
        (outcome(PLAN, TaskPlan(name="b", note="has no board", examples=PLAN.examples)), CheckState.NEUTRAL, "2 of 2"),
        (outcome(PLAN, TaskPlan(name="b", note="is removed")), CheckState.SUCCESS, "2 of 2"),
        (outcome(TaskPlan(name="b", note="is removed"), results=()), CheckState.NEUTRAL, "nothing was run"),
        (
            outcome(results=(SKIPPED, RIGHT[1])),
            CheckState.NEUTRAL,
            "1 of 1 examples got the verdict of their folder; 1 skipped",
        ),
        (outcome(probed=()), CheckState.NEUTRAL, "2 of 2"),
        (outcome(probed=(probes(task="other"),)), CheckState.NEUTRAL, "2 of 2"),
        (
            outcome(probed=(probes("accepts None"),)),
            CheckState.FAILURE,
            "2 of 2 examples got the verdict of their folder; the probes found 1 fault",
        ),
        (outcome(probed=(probes("too slow", is_fault=False),)), CheckState.SUCCESS, "2 of 2"),
        (outcome(probed=(FIT, probes("accepts None"))), CheckState.SUCCESS, "2 of 2"),
    ],
)
def test_the_check_run_state_and_title_follow_from_the_results(
    found: CheckResult, state: CheckState, word: str
) -> None:
    assert found.state is state and word in found.title


def test_findings_of_the_probes_are_listed_faults_first() -> None:
    many = (*(f"slow {n}" for n in range(3)),)
    warnings, faults = probes(*many, is_fault=False).found, probes("accepts None", "accepts zeros").found
    found = outcome(probed=(ProbesResult(task="tiny", found=warnings + faults, seconds=1.0),))
    told = [line for line in found.comment().splitlines() if line.startswith("- ")]
    assert told[:2] == ["- **fault** `all tests`: `accepts None`", "- **fault** `all tests`: `accepts zeros`"]
    assert told[2:] == [f"- warning `all tests`: `{message}`" for message in many]
    assert [(note.path, note.message) for note in found.check().annotations] == [
        ("tasks/tiny/task.yml", "all tests: accepts None"), ("tasks/tiny/task.yml", "all tests: accepts zeros"),
    ]  # fmt: skip
    assert "The probes passed: its reference rejects" in outcome().comment()
    body = outcome(probed=()).comment()
    assert "Its reference was not probed." in body and "**Incomplete:**" in body


def test_a_skipped_example_says_why_and_is_not_a_fault() -> None:
    body = outcome(results=(SKIPPED, RIGHT[1])).comment()
    assert "| `accepted/plain.py` | AC | **skipped** | `needs jax: not installed on this machine` |" in body
    assert "**Incomplete:**" not in body


def test_only_the_first_result_of_each_requested_example_counts() -> None:
    strays = (result("accepted/plain.py", Verdict.WRONG_ANSWER), result("accepted/other.py", Verdict.WRONG_ANSWER))
    strays += (result("accepted/plain.py", Verdict.WRONG_ANSWER, task="other"),)
    assert [one.got for one in find(PLAN, MachineAnswer(results=(*RIGHT, *strays)))] == [
        Verdict.ACCEPTED,
        Verdict.WRONG_ANSWER,
    ]
    assert find(TaskPlan(name="tiny", faults="x", examples=PLAN.examples), MachineAnswer(results=RIGHT)) == ()


LINE = RIGHT[0].to_line()


@pytest.mark.parametrize(
    "content",
    [
        LINE[:-3],
        b"null\n",
        b"[" * 100_000,
        LINE + b"Traceback\n",
        LINE.replace(b'"AC"', b'"OK"'),
        LINE.replace(b"1.0", b"NaN"),
        LINE.replace(b"1.0", b"-1.0"),
        LINE.replace(b"accepted/plain.py", b"../../x.py"),
        LINE.replace(b'"tiny"', b'"tiny","more":1'),
        LINE.replace(b'""', json.dumps("x" * 2000).encode()),
        b"\xff\xfe\n",
        LINE * (MAX_BYTES // len(LINE) + 1),
        LINE.replace(b'"kind":"example",', b""),
        LINE.replace(b'"example"', b'"probes"', 1),
        FIT.to_line().replace(b"[]", b'[{"where": "x", "message": "y"}]'),
        probes("x").to_line().replace(b"}]", b"}" + b',{"where":"x","message":"y","is_fault":true}' * MAX_FOUND + b"]"),
    ],
)
def test_malformed_result_lines_are_refused(content: bytes) -> None:
    with pytest.raises(ResultsError):
        read_results(content)


@pytest.mark.parametrize(
    ("artifact", "word"),
    [
        (b"no zip", "zip"),
        (zipped(LINE, "judgement.json"), "must hold checked.jsonl or error.json"),
        (zipped(LINE, "checked.jsonl", more=b""), "must hold checked.jsonl or error.json"),
        (zipped(b"x\n", "checked.jsonl"), "not JSON"),
        (zipped('{"format": "pullrank-error", "version": 1, "message": "no walls"}', "error.json"), "no walls"),
        (zipped("{}", "error.json"), "the expected format"),
    ],
)
def test_an_artifact_without_a_valid_answer_is_reported_as_trouble(artifact: bytes, word: str) -> None:
    answer = read_answer(artifact)
    assert not answer.results and word in answer.trouble


def test_hostile_text_is_inert_in_the_comment_and_check_run() -> None:
    loud = tuple(result(example, Verdict.RUN_TIME_ERROR, HOSTILE) for example, _ in PLAN.examples)
    plans = (PLAN, TaskPlan(name="b", faults=HOSTILE))
    flaw = Flaw(where=HOSTILE, message=HOSTILE, is_fault=True)
    probed = (ProbesResult(task="tiny", found=(flaw,), seconds=1.0),)
    found = outcome(*plans, results=loud, probed=probed, trouble=HOSTILE)
    body, check = found.comment(), found.check()
    assert body.startswith(MARKER) and body.count("<!--") == 1
    assert "\x1b" not in body and "\u202e" not in body and "\n::error" not in body.replace(fenced(body), "")
    rows = [line for line in body.splitlines() if line.startswith("| `")]
    assert len(rows) == 2 and all(row.count("|") == 5 for row in rows)
    assert outside_of_code(body).count("@everyone") == 0 and "](http://e.vil" not in outside_of_code(body)
    assert check.text.startswith("```text\n{") and check.text.count("```") == 2
    facts = json.loads(check.text.removeprefix("```text\n").removesuffix("\n```"))
    assert [one["got"] for one in facts["examples"]] == ["RTE", "RTE"]
    assert [one["found"][0]["is_fault"] for one in facts["probes"]] == [True]
    examples = [f"tasks/tiny/examples/{name}" for name, _ in PLAN.examples]
    assert [note.path for note in check.annotations] == [*examples, "tasks/tiny/task.yml"]


def fenced(body: str) -> str:
    """The code block in a text; its fence has at least four backticks."""
    start = body.index("````")
    return body[start : body.rindex("````")]


def outside_of_code(body: str) -> str:
    """The text outside of code blocks, as Markdown defines them."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(body)
    inner = [child for token in tokens for child in token.children or ()]
    kinds = ("text", "html_inline", "image", "link_open")
    said = [f"{child.content} {child.attrs}" for child in inner if child.type in kinds]
    return "\n".join([*said, *(token.content for token in tokens if token.type == "html_block")])


def test_a_comment_is_never_longer_than_github_allows() -> None:
    examples = tuple((f"accepted/{'x' * 90}{n}.py", Verdict.ACCEPTED) for n in range(MAX_EXAMPLES))
    plans = [TaskPlan(name=f"t{n}", examples=examples) for n in range(4)]
    loud = tuple(result(name, Verdict.WRONG_ANSWER, "`" * 900, plan.name) for plan in plans for name, _ in examples)
    body = outcome(*plans, TaskPlan(name="z", faults="z/task.yml: no"), results=loud).comment()
    assert len(body) < MAX_CHARS + 1000 and "do not fit here" in body
    assert "A task's code could fake these results" in body and "z/task.yml: no" in body
    assert "more, of which 0 as expected" in outcome(plans[0], results=loud).comment()


# The shipped steps.


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    made = Scene(tmp_path, monkeypatch)
    with made.server:
        yield made


def ask(scene: Scene, files: Mapping[str, str]) -> tuple[Pull, Run]:
    """Open a pull request that changes tasks, and comment `/check` as a maintainer."""
    pull = scene.world.open_pull(scene.alice, files)
    scene.intake()
    scene.world.add_comment(pull.number, scene.world.owner, "/check")
    scene.intake()
    return pull, scene.runs("check.yml")[-1]


def asked(run: Run, **more: str) -> dict[str, str]:
    inputs = {"PULL_REQUEST": run.inputs["pull_request"], "HEAD_SHA": run.inputs["head_sha"]}
    return inputs | {"GITHUB_RUN_ID": str(run.id)} | more


def prepare(scene: Scene, run: Run) -> dict[str, str]:
    out = str(scene.folder / f"bundle-{run.id}")
    assert scene.step("prepare-check", "--out", out, workflow="check.yml", job="prepare", **asked(run)) == 0
    return scene.outputs()


def report(scene: Scene, run: Run, content: bytes | None) -> None:
    if content is not None:
        scene.world.add_artifact(run, "checked", content)
    ended = "success" if content else "failure"
    assert scene.step("report-check", workflow="check.yml", job="report", **asked(run, CHECK=ended)) == 0


def comments(scene: Scene, pull: Pull) -> list[str]:
    return [one.body for one in scene.world.comments_on(pull.number) if one.body.startswith(MARKER)]


def run_check(bundle: Path, digest: str, *arguments: str, **environment: str) -> tuple[int, Path]:
    """Run the job `check` as in check.yml; its exit code, and the folder with its result."""
    out = bundle.parent / f"{bundle.name}-checked"
    command = [sys.executable, "-I", bundle / "harness.pyz", "check", bundle, "--digest", digest]
    command += ["--out", out / "checked.jsonl", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
    assert not done.stdout, done.stdout
    assert all(line.startswith("judge: ") for line in done.stderr.splitlines()), done.stderr
    return done.returncode, out


def zipped_folder(folder: Path) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    return made.getvalue()


@pytest.mark.walls
def test_a_changed_task_is_judged_in_the_sandbox_and_reported(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    outputs = prepare(scene, run)
    assert outputs["wanted"] == outputs["runs"] == "true"
    assert scene.checks() == ["PullRank / tasks: in_progress"]
    code, out = run_check(scene.folder / f"bundle-{run.id}", outputs["digest"])
    assert code == 0 and [path.name for path in out.iterdir()] == ["checked.jsonl"]
    report(scene, run, zipped_folder(out))
    (body,) = comments(scene, pull)
    assert "2 of 2 examples got the verdict of their folder" in body
    assert "| `wrong_answer/identity.py` | WA | WA |  |" in body
    assert scene.checks() == ["PullRank / tasks: success"]


def test_a_second_check_edits_the_first_ones_comment_and_has_its_own_check_run(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    report(scene, run, None)
    assert "without a result" in comments(scene, pull)[0]
    lines = b"".join(one.to_line() for one in (FIT, *RIGHT))
    report(scene, run, zipped(lines, "checked.jsonl"))
    (body,) = comments(scene, pull)
    assert "2 of 2 examples" in body and "without a result" not in body
    assert scene.checks() == ["PullRank / tasks: neutral", "PullRank / tasks: success"]
    report(scene, run, zipped(lines, "checked.jsonl"))
    assert len(scene.checks()) == 2, "the same result again needs no check run"


def test_a_check_makes_few_requests(scene: Scene) -> None:
    _, run = ask(scene, files_of("tiny"))
    scene.server.log.clear()
    prepare(scene, run)
    report(scene, run, zipped(LINE, "checked.jsonl"))
    assert len(scene.server.rest_requests()) <= 10, scene.server.counts()


def test_a_check_reads_all_files_of_the_tasks_by_one_process(scene: Scene) -> None:
    noted, wrapper = scene.folder / "noted", scene.folder / "wrapped/git"
    wrapper.parent.mkdir()
    wrapper.write_text(f'#!/bin/sh\necho "$1" >> {noted}\nexec {shutil.which("git")} "$@"\n')
    wrapper.chmod(0o755)
    _, run = ask(scene, files_of("one") | files_of("other"))
    scene.patch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    assert prepare(scene, run)["wanted"] == "true"
    assert noted.read_text().split().count("cat-file") == 2  # the sizes, and the contents


def test_a_push_after_the_check_request_is_not_run(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    scene.world.push(pull, {"tasks/tiny/reference.py": "import os\n"})
    assert prepare(scene, run) == {"wanted": "false", "runs": "false", "digest": ""}
    assert not (scene.folder / f"bundle-{run.id}").exists() and not scene.checks()


def test_a_task_that_cannot_run_is_reported_without_using_a_machine(scene: Scene) -> None:
    files = files_of("tiny", task_yml=files_of()["tasks/tiny/task.yml"].replace("[CPU]", "[H100]"))
    pull, run = ask(scene, files)
    outputs = prepare(scene, run)
    assert (outputs["wanted"], outputs["runs"], outputs["digest"]) == ("true", "false", "")
    assert scene.step("report-check", workflow="check.yml", job="report", **asked(run, CHECK="skipped")) == 0
    assert "It has no board CPU" in comments(scene, pull)[0]
    assert scene.checks() == ["PullRank / tasks: neutral"]


def test_a_symlink_in_the_tree_fails_the_whole_check(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    head = scene.world.push(pull, {"tasks/tiny/link.py": "/etc/passwd"}, modes={"tasks/tiny/link.py": "120000"})
    run.inputs["head_sha"] = head
    assert prepare(scene, run)["runs"] == "false"
    report(scene, run, zipped(LINE, "checked.jsonl"))
    assert "tasks/tiny/link.py: must be a plain file; its mode is 120000" in comments(scene, pull)[0]
    assert scene.checks() == ["PullRank / tasks: failure"]


def test_a_file_that_is_too_large_is_never_fetched(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    run.inputs["head_sha"] = scene.world.push(pull, {"tasks/tiny/huge.txt": "x" * (5 << 20)})
    assert prepare(scene, run)["runs"] == "false"
    report(scene, run, None)
    assert "tasks/tiny/huge.txt: larger than 4096 KiB" in comments(scene, pull)[0]


def test_a_run_cancelled_for_a_newer_one_posts_nothing(scene: Scene) -> None:
    pull, first = ask(scene, files_of("tiny"))
    scene.world.add_comment(pull.number, scene.world.owner, "/check")
    scene.intake()
    assert len(scene.runs("check.yml")) == 2
    assert scene.step("report-check", workflow="check.yml", job="report", **asked(first, CHECK="cancelled")) == 0
    assert not comments(scene, pull) and not scene.checks()


def test_a_comment_that_quotes_our_marker_is_not_taken_for_ours(scene: Scene) -> None:
    pull, run = ask(scene, files_of("tiny"))
    quoting = scene.world.add_comment(pull.number, scene.world.bot, f"You wrote `{MARKER}`.")
    report(scene, run, zipped(LINE, "checked.jsonl"))
    assert quoting.body.startswith("You wrote") and len(comments(scene, pull)) == 1


@pytest.mark.walls
@pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup")
def test_a_check_through_the_shipped_workflows_ends_with_a_comment(
    tmp_path: Path, expressions: Expressions, warm: WarmPython
) -> None:
    contest = Contest(tmp_path, expressions, warm, tmp_path / "machines")
    with contest.server:
        pull = contest.world.open_pull(contest.alice, files_of("tiny"))
        contest.hub.settle()
        contest.world.add_comment(pull.number, contest.world.owner, "/check")
        contest.hub.settle()
    assert contest.results("check.yml") == ["prepare: success", "check: success", "report: success"]
    assert contest.checks() == ["PullRank / tasks: success"]
    (said,) = [one.body for one in contest.world.comments_on(pull.number) if one.body.startswith(MARKER)]
    assert "2 of 2 examples got the verdict of their folder" in said
    (machine,) = contest.hub.find("check.yml", "check")
    assert machine.token and not machine.token.scopes
    told = [environment.values() for environment in machine.environments]
    assert told and not any(machine.token.value in values for values in told)


@pytest.mark.walls
@pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup")
def test_the_shipped_workflows_judge_with_the_judge_in_the_bundle(
    tmp_path: Path, expressions: Expressions, warm: WarmPython
) -> None:
    contest = Contest(tmp_path, expressions, warm, tmp_path / "machines")
    with contest.server:
        contest.world.commit(files_of("tiny"), message="A task that takes seconds")
        contest.lose_events()
        del contest.hub.instead[JUDGE]
        source = next((TINY / "examples/accepted").glob("*.py")).read_bytes()
        contest.world.open_pull(contest.alice, {"submissions/tiny/alice/submission.py": source})
        contest.hub.settle()
        (judgement,) = contest.judgements()
    assert contest.results("evaluate.yml") == GREEN
    assert (judgement.task, judgement.verdict, judgement.sandbox.kind) == ("tiny", Verdict.ACCEPTED, "bubblewrap")
    assert contest.rows("tiny/CPU") == ["alice"]


# The sandbox.

SPY = """
import json, os, socket, sys
from pathlib import Path

def attempt(what):
    try:
        return what()
    except BaseException as error:
        return type(error).__name__

def connect(address):
    with socket.create_connection(address, timeout=2):
        return "connected"

SEEN = {{
    "uid": os.getuid(),
    "environment": sorted(os.environ),
    "canary": attempt(lambda: Path({canary!r}).write_text("found")),
    "repository": attempt(lambda: sorted(os.listdir({root!r}))),
    "home": attempt(lambda: os.listdir({home!r})),
    "etc": sorted(os.listdir("/etc")),
    "shown": attempt(lambda: Path(sys.argv[0]).write_text("x")),
    "server": attempt(lambda: connect(("127.0.0.1", {port}))),
    "cloud": attempt(lambda: connect(("169.254.169.254", 80))),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "sudo": attempt(lambda: os.setuid(0)),
}}
Path("/tmp/seen").write_text(json.dumps(SEEN))
"""

CHECK = """
def check_implementation(data, output):
    return False, json.dumps(SEEN)
"""


def spying(canary: Path, port: int) -> dict[str, str]:
    """A task whose reference looks around, and reports what it saw as the reason for a wrong answer."""
    reference = files_of()["tasks/tiny/reference.py"].partition("def check_implementation")[0]
    spy = SPY.format(canary=str(canary), root=str(ROOT), home=str(Path.home()), port=port)
    return files_of("spy", reference_py=reference + spy + CHECK)


def packed(tmp_path: Path, files: Mapping[str, str], name: str) -> tuple[Path, str]:
    """A bundle like that of `prepare`, and its digest."""
    tree = tree_of(tmp_path / "head", files)
    tasks = pack_tasks(tree, make_plans(tree, changed(f"tasks/{name}/task.yml")))
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "tasks.zip").write_bytes(tasks)
    (bundle / "harness.pyz").write_bytes(build_pyz())
    return bundle, digest_of(tasks)


@pytest.mark.walls
def test_a_tasks_own_code_finds_nothing_in_the_sandbox(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        bundle, digest = packed(tmp_path, spying(canary, listening.getsockname()[1]), "spy")
        code, out = run_check(bundle, digest, GITHUB_TOKEN="ghs_secret", ACTIONS_RUNTIME_TOKEN="secret")
    assert code == 0
    results = read_results((out / "checked.jsonl").read_bytes())
    said = next(one.message for one in results if isinstance(one, ExampleResult))
    seen = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert not canary.exists() and seen["canary"] in ("FileNotFoundError", "PermissionError")
    assert not {"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "PULLRANK_TRACEBACK"} & set(seen["environment"])
    assert seen["repository"] in ("FileNotFoundError", [".venv"])
    assert set(seen["etc"]) <= {"ld.so.cache", "alternatives"}
    assert seen["home"] == "FileNotFoundError" or Path(sys.base_prefix).is_relative_to(Path.home())
    assert (seen["server"], seen["cloud"]) == ("ConnectionRefusedError", "OSError")
    assert seen["shown"] == "OSError" and seen["sudo"] == "OSError" and seen["uid"] != 0
    assert seen["processes"] < 20


@pytest.mark.walls
@pytest.mark.parametrize("name", ["rowsum", "rowsum_cu"])
def test_a_task_with_its_own_program_is_judged_in_both_sandboxes(tmp_path: Path, name: str) -> None:
    assert run(["task", "import", str(ROOT / "tests/kernelbot/own.yaml"), "--out", str(tmp_path / "made")]) == 0
    folder = tmp_path / "made" / name
    whole = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    chosen = ("examples/accepted/by_", "examples/wrong_answer/", "examples/run_time_error/crashes")
    files = {
        f"tasks/{name}/{path}": text
        for path, text in whole.items()
        if not path.startswith("examples/") or path.startswith(chosen)
    }
    code, out = run_check(*packed(tmp_path, files, name))
    assert code == 0
    results = read_results((out / "checked.jsonl").read_bytes())
    got = {Path(one.example).parent.name: one.got for one in results if isinstance(one, ExampleResult)}
    assert got == {"accepted": "AC", "wrong_answer": "WA", "run_time_error": "RTE"}


FORGERY = """
import os

for descriptor in range(3, 40):
    try:
        if os.readlink(f"/proc/self/fd/{{descriptor}}").startswith("pipe:"):
            os.write(descriptor, {lines!r})
    except OSError:
        pass
print("::set-output name=x::y")
"""


def forged(tmp_path: Path, lines: bytes) -> MachineAnswer:
    """The result of tiny if its reference writes extra lines wherever it can."""
    reference = files_of()["tasks/tiny/reference.py"] + FORGERY.format(lines=lines)
    bundle, digest = packed(tmp_path, files_of("tiny", reference_py=reference), "tiny")
    return read_answer(zipped_folder(run_check(bundle, digest)[1]))


@pytest.mark.walls
def test_results_forged_by_a_tasks_code_affect_no_other_task(tmp_path: Path) -> None:
    strays = (
        result("accepted/plain.py", Verdict.WRONG_ANSWER, task="vectoradd"),
        result("accepted/x.py", Verdict.ACCEPTED),
        probes("accepts None", task="vectoradd"),
    )
    answer = forged(tmp_path, b"".join(one.to_line() for one in strays))
    assert not answer.trouble and set(strays) <= set(answer.results)
    assert [one.got for one in find(PLAN, answer)] == [Verdict.ACCEPTED, Verdict.WRONG_ANSWER]
    assert outcome(results=answer.results, probed=()).comment() == outcome().comment()


@pytest.mark.walls
def test_the_sandboxed_probes_find_a_check_that_accepts_everything(tmp_path: Path) -> None:
    reference = files_of()["tasks/tiny/reference.py"].partition("def check_implementation")[0]
    loose = reference + "def check_implementation(data, output):\n    return True, ''\n"
    files = files_of("tiny", reference_py=loose)
    files["tasks/tiny/examples/accepted/by_jax.py"] = "#!PULLRANK needs no_such_package\ndef custom_kernel(data): ...\n"
    bundle, digest = packed(tmp_path, files, "tiny")
    answer = read_answer(zipped_folder(run_check(bundle, digest)[1]))
    (plan,) = make_plans(tree_of(tmp_path / "head", files), changed("tasks/tiny/task.yml"))
    found = outcome(plan, results=answer.results, probed=())
    assert [one.got for one in found.findings] == [None, Verdict.ACCEPTED, Verdict.ACCEPTED]
    assert found.state is CheckState.FAILURE and found.title.startswith("1 of 2 examples")
    body = found.comment()
    assert "- **fault** `all tests`: `accepts only zeros`" in body
    assert "**skipped** | `needs no_such_package: not installed on this machine`" in body


@pytest.mark.walls
def test_garbage_written_by_a_tasks_code_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    answer = forged(tmp_path, b"::error::x\n")
    assert not answer.results and "invalid line" in answer.trouble


@pytest.mark.walls
def test_a_task_that_never_ends_is_stopped(tmp_path: Path) -> None:
    endless = files_of()["tasks/tiny/reference.py"] + "\nwhile True:\n    pass\n"
    bundle, digest = packed(tmp_path, files_of("tiny", reference_py=endless), "tiny")
    code, out = run_check(bundle, digest, "--minutes", "0.2")
    assert code == 3 and "took longer than 12 s" in (out / "error.json").read_text()


def test_tasks_with_another_digest_are_not_unpacked(tmp_path: Path) -> None:
    bundle, _ = packed(tmp_path, files_of("tiny"), "tiny")
    code, out = run_check(bundle, "0" * 64)
    assert code == 2 and "SHA-256" in (out / "error.json").read_text()


def test_vectoradd_has_the_board_that_checks_use() -> None:
    assert GPU in load_task(ROOT / "tasks/vectoradd").gpus
