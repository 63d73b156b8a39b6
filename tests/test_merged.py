"""Files that were merged and later replaced: found in git, shown on the site, replayed by `verify`."""

import os
import re
import shlex
import subprocess
from functools import partial
from pathlib import Path

import pytest

from harness.judge import judge
from harness.records.fields import Mode
from harness.task.bundle import sha256
from harness.task.submission import Submission
from harness.task.task import Task, load_task
from scripts.cli import run
from scripts.commands import verify as verify_tools
from scripts.competition.merged import MergedFiles
from scripts.pages.parts.site import Site
from scripts.pages.publishing.publish import build_site
from tests.test_boards import Quiet, serving
from tests.test_publish import built, duel_with, judged, ledger_of, page_text, task_folder

A, B, C = (f"def custom_kernel(data):\n    return {number}\n" for number in (1, 2, 3))
TINY = Path(__file__).parent / "tasks" / "tiny"
PATH = "submissions/vectoradd/ada/submission.py"


class Repository:
    """A clone of a competition, whose `main` has the merged files."""

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
        """Merge as the bot does: in one commit."""
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


def test_a_replaced_file_keeps_its_code_and_diff_and_counts_as_merged(
    tmp_path: Path, task: Task, repository: Repository
) -> None:
    """B replaced A, since it is faster on one board; on the other, A keeps the row.  Grace's file was never merged."""
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
    site, _ = built(tmp_path, task, judgements, sources=merged.source_of, marks_unmerged=merged.is_whole)
    assert "not merged" not in page_text(site, "vectoradd/H100")
    assert page_text(site, "vectoradd/CPU").count("not merged") == 1
    assert "not merged yet" in page_of(site, "CPU", "grace", C)
    for gpu, login, source, is_shown in (("CPU", "ada", A, True), ("H100", "ada", A, True), ("H100", "ada", B, True),
                                         ("CPU", "grace", C, False)):  # fmt: skip
        page = page_of(site, gpu, login, source)
        assert ("not available" not in page) == is_shown and ("not merged yet" not in page) == is_shown
    assert diffs(site, "H100") == [f"ada/{sha256(B.encode())[:12]}/index.html#changes"] and diffs(site, "CPU") == []
    assert "Diff from previous record, the author’s other file" in page_of(site, "H100", "ada", B)


def test_a_record_without_an_available_predecessor_has_no_diff_link(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    judgements = [judged(board, "ada", 1.4, source=A), judged(board, "ada", 2.0, day=3, source=B)]
    known = judgements[1].submission.digest
    site, _ = built(
        tmp_path, task, judgements, sources=lambda one: B if one.submission.digest == known else None,
        repository="https://github.com/kernels/cup",
    )  # fmt: skip
    assert diffs(site, "CPU") == []
    assert 'kernels/cup/pull/7/files">pull request</a></td>' in (site / "vectoradd/CPU/index.html").read_text()


def test_a_file_is_found_only_in_the_history_of_its_authors_folder(repository: Repository) -> None:
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


def test_an_uncommitted_file_in_the_folder_is_found(repository: Repository) -> None:
    repository.merge(A)
    (repository.folder / PATH).write_text(B)
    assert found(MergedFiles(repository.folder), A, B) == [True, True]


def test_a_symbolic_link_in_the_history_is_not_a_file(repository: Repository) -> None:
    (repository.folder / PATH).parent.mkdir(parents=True)
    (repository.folder / PATH).symlink_to("elsewhere")
    repository.git("add", PATH)
    repository.git("commit", "--quiet", "--message", "A link")
    (repository.folder / PATH).unlink()
    assert found(MergedFiles(repository.folder), "elsewhere") == [False]


@pytest.mark.parametrize("kind", ["shallow clone", "plain folder"])
def test_an_incomplete_history_is_reported_once_and_present_files_are_found(
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
    assert capsys.readouterr().err.count("git history is incomplete") == 1


def test_an_unreadable_file_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / PATH).parent.mkdir(parents=True)
    (tmp_path / PATH).write_text(A)

    def refuse(path: Path) -> bytes:  # chmod would not stop root
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert found(MergedFiles(tmp_path), A) == [False]


def test_publishing_checks_out_the_whole_history_of_one_branch(tmp_path: Path, repository: Repository) -> None:
    """Like actions/checkout with a depth: one commit's history, and nothing of the ledger."""
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


def test_the_command_that_a_page_prints_replays_its_judgement(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The judged file is only in the history: its author has replaced it."""
    tiny, source = load_task(TINY), b"def custom_kernel(data):\n    return data + 1\n"
    path = "submissions/tiny/ada/submission.py"
    repository.merge(source.decode(), path)
    repository.merge(A, path)
    monkeypatch.setattr(verify_tools, "ROOT", repository.folder)
    here = judge(tiny.board("CPU"), Submission(login="ada", source=source), Mode.BENCHMARK, sandbox="none")
    ledger = ledger_of(tmp_path, [here.model_copy(update={"mode": Mode.RANKED})])
    with serving(partial(Quiet, directory=str(tmp_path / "served"))) as url:
        about = Site(sources=lambda _: None, title="Cup", address=url, now=here.finished_at)
        build_site([tiny], ledger, tmp_path / "served/cup", about, allow_unwalled=True)
        page = (tmp_path / f"served/cup/tiny/CPU/ada/{sha256(source)[:12]}/index.html").read_text()
        commands = re.findall(r">(pullrank [^<]+)<", page)
        assert [command.split()[1] for command in commands] == ["verify", "rank"]
        assert run([*shlex.split(commands[0])[1:], "--task-dir", str(TINY), "--sandbox", "none"]) == 0
    assert "The same verdicts, on the same inputs." in " ".join(capsys.readouterr().out.split())


def test_a_page_shows_the_duel_for_first_place_not_a_later_loss(tmp_path: Path, task: Task) -> None:
    board = task.board("CPU")
    ada = judged(board, "ada", 1.4, source=A)
    grace = judged(board, "grace", 2.1, day=1, source=B, duel=duel_with(board, ada, 0.66))
    edsger = judged(board, "edsger", 3.0, day=2, source=C, duel=duel_with(board, grace, 0.7))
    again = judged(board, "grace", 2.1, day=3, source=B, duel=duel_with(board, edsger, 1.4))
    site, _ = built(tmp_path, task, [ada, grace, edsger, again])
    page = page_of(site, "CPU", "grace", B)
    assert "The duel that won first place" in page and "Against ada, the leader at that time." in page
    site, _ = built(tmp_path / "never", task, [ada, edsger.model_copy(update={"duel": duel_with(board, ada, 1.2)})])
    assert "Duel with ada" in page_of(site, "CPU", "edsger", C)


def test_the_board_and_the_landing_page_name_the_command_that_submits(tmp_path: Path, task: Task) -> None:
    site, _ = built(tmp_path, task, [])
    assert "pullrank submit submission.py --task vectoradd" in page_text(site, "vectoradd/CPU")
    assert "pullrank submit FILE" in page_text(site, ".")
