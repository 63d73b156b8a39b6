"""Files that were merged and since replaced: found in git, shown on the site."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.bundle import sha256
from harness.task import Task, load_task
from scripts.cli import run
from scripts.merged import MergedFiles
from tests.test_publish import built, judged, ledger_of, page_text, task_folder

A, B, C = (f"def custom_kernel(data):\n    return {number}\n" for number in (1, 2, 3))
PATH = "submissions/vectoradd/ada/submission.py"


class Repository:
    """A clone of a competition, whose `main` is what was merged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str) -> str:
        identity = {f"GIT_{who}_{what}": "ada@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = os.environ | identity | {"GIT_CONFIG_GLOBAL": os.devnull}
        done = subprocess.run(["git", *arguments], cwd=self.folder, env=environment, capture_output=True, check=True)
        return done.stdout.decode()

    def merge(self, content: str, path: str = PATH) -> None:
        """As the bot merges: one commit."""
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(content)
        self.git("add", path)
        self.git("commit", "--quiet", "--message", path)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "cup")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(task_folder(tmp_path / "tasks"))


def found(merged: MergedFiles, *contents: str, login: str = "ada") -> list[bool]:
    files = [merged.find("vectoradd", login, sha256(content.encode())) for content in contents]
    assert all(file in (None, content.encode()) for file, content in zip(files, contents, strict=True))
    return [file is not None for file in files]


def page_of(site: Path, gpu: str, login: str, source: str) -> str:
    return (site / f"vectoradd/{gpu}/{login}/{sha256(source.encode())[:12]}/index.html").read_text()


def diffs(site: Path, gpu: str) -> list[str]:
    return re.findall(r'href="([^"]*#changes)"', (site / f"vectoradd/{gpu}/index.html").read_text())


def test_a_file_that_its_author_replaced_has_its_code_and_diff_and_is_not_provisional(
    tmp_path: Path, task: Task, repository: Repository
) -> None:
    """B replaced A, for it is faster on one board; on the other A stays the row.  Grace's file was never merged."""
    cpu, h100 = task.board("CPU"), task.board("H100")
    judgements = [
        judged(cpu, "ada", 2.0, source=A), judged(h100, "ada", 2.0, source=A),
        judged(cpu, "ada", 1.5, day=1, source=B), judged(h100, "ada", 3.0, day=1, source=B),
        judged(cpu, "grace", 1.2, day=2, source=C),
    ]  # fmt: skip
    repository.merge(A)
    repository.merge(B)
    merged = MergedFiles(repository.folder)
    assert merged.is_whole and merged.notes == ()
    site, _ = built(tmp_path, task, judgements, submissions=merged.source_of, marks_unmerged=merged.is_whole)
    assert "provisional" not in page_text(site, "vectoradd/H100")
    assert page_text(site, "vectoradd/CPU").count("provisional") == 1
    assert "not merged yet" in page_of(site, "CPU", "grace", C)
    for gpu, login, source, is_shown in (("CPU", "ada", A, True), ("H100", "ada", A, True), ("H100", "ada", B, True),
                                         ("CPU", "grace", C, False)):  # fmt: skip
        page = page_of(site, gpu, login, source)
        assert ("not at hand" not in page) == is_shown and ("not merged yet" not in page) == is_shown
    assert diffs(site, "H100") == [f"ada/{sha256(B.encode())[:12]}/index.html#changes"] and diffs(site, "CPU") == []
    assert "From the record before, ada’s" in page_of(site, "H100", "ada", B)


def test_a_record_whose_predecessor_is_not_at_hand_has_no_link_to_a_diff(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    judgements = [judged(board, "ada", 1.4, source=A), judged(board, "ada", 2.0, day=3, source=B)]
    known = judgements[1].submission.digest
    site, _ = built(
        tmp_path, task, judgements, submissions=lambda one: B if one.submission.digest == known else None,
        repository="https://github.com/kernels/cup",
    )  # fmt: skip
    assert diffs(site, "CPU") == []
    assert 'kernels/cup/pull/7/files">pull request</a></td>' in (site / "vectoradd/CPU/index.html").read_text()


def test_a_file_is_found_wherever_it_was_in_its_authors_folder_and_nowhere_else(repository: Repository) -> None:
    repository.merge(A)
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.merge(B)
    repository.git("checkout", "--quiet", "main")
    repository.merge(C, "submissions/vectoradd/grace/submission.py")
    assert found(MergedFiles(repository.folder), A, B, C) == [True, False, False]
    repository.git("merge", "--quiet", "--no-ff", "--no-edit", "topic")
    repository.git("rm", "--quiet", PATH)
    repository.git("commit", "--quiet", "--message", "Remove it")
    merged = MergedFiles(repository.folder)
    assert found(merged, A, B, C) == [True, True, False]
    assert found(merged, A, C, login="grace") == [False, True]


def test_a_file_that_lies_there_is_found_before_it_is_committed(repository: Repository) -> None:
    repository.merge(A)
    (repository.folder / PATH).write_text(B)
    assert found(MergedFiles(repository.folder), A, B) == [True, True]


def test_a_link_in_the_history_is_no_file(repository: Repository) -> None:
    (repository.folder / PATH).parent.mkdir(parents=True)
    (repository.folder / PATH).symlink_to("elsewhere")
    repository.git("add", PATH)
    repository.git("commit", "--quiet", "--message", "A link")
    (repository.folder / PATH).unlink()
    assert found(MergedFiles(repository.folder), "elsewhere") == [False]


@pytest.mark.parametrize("kind", ["shallow clone", "plain folder"])
def test_without_the_history_what_lies_there_is_found_and_that_is_said_once(
    tmp_path: Path, task: Task, repository: Repository, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.merge(A)
    repository.merge(B)
    there = tmp_path / "there"
    if kind == "shallow clone":
        repository.git("clone", "--quiet", "--depth=1", repository.folder.as_uri(), str(there))
    else:
        (there / PATH).parent.mkdir(parents=True)
        (there / PATH).write_text(B)
    merged = MergedFiles(there)
    assert found(merged, A, B) == [False, True] and not merged.is_whole
    ledger_of(tmp_path, [judged(task.board("CPU"), "ada", 2.0, source=A)])
    words = ["--ledger", tmp_path / "ledger", "--tasks", tmp_path / "tasks", "--submissions", there]
    assert run(["site", "build", *map(str, words), "--out", str(tmp_path / "_site")]) == 0
    assert capsys.readouterr().err.count("no whole git history") == 1


def test_the_depth_that_publishing_checks_out_is_the_whole_history_of_one_branch(
    tmp_path: Path, repository: Repository
) -> None:
    """As actions/checkout fetches with a depth: the one commit's history, and of the ledger nothing."""
    workflow = (Path(__file__).parent.parent / ".github/workflows/publish.yml").read_text()
    depth = re.search(r"fetch-depth: (\d+)", workflow)
    assert depth and depth[1] != "0"
    repository.merge(A)
    repository.merge(B)
    repository.git("checkout", "--quiet", "--orphan", "ledger")
    repository.git("commit", "--quiet", "--message", "The ledger")
    repository.git("checkout", "--quiet", "main")
    clone = Repository(tmp_path / "checkout")
    commit = repository.git("rev-parse", "main").strip()
    clone.git("remote", "add", "origin", repository.folder.as_uri())
    clone.git("fetch", "--quiet", "--no-tags", f"--depth={depth[1]}", "origin", f"+{commit}:refs/remotes/origin/main")
    clone.git("checkout", "--quiet", "-B", "main", "refs/remotes/origin/main")
    assert found(MergedFiles(clone.folder), A, B) == [True, True] and MergedFiles(clone.folder).is_whole
    assert "ledger" not in clone.git("for-each-ref")
