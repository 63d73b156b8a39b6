"""git reads the changes of a pull request from a hostile fork: what it fetches, and what never runs."""

import hashlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from scripts.common.git_command import GitError
from scripts.github.fork import MAX_CHANGES, Fork
from scripts.github.pulls import BlobInfo, ChangedFile
from tests.github_server import Failure, GitHubServer, Pull, Way, World

PATH = "submissions/vectoradd/alice/submission.py"
SOURCE = b"def custom_kernel(data):\n    return data\n"


class Stage:
    """A repository, alice's pull request, and our reader of her fork."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "github")
        self.server = GitHubServer(self.world)
        self.world.commit({"README.md": "Hello\n" * 20, "submissions/vectoradd/bob/submission.py": SOURCE + b"# Bob\n"})
        self.pull = self.world.open_pull(self.world.add_user("alice"), {PATH: SOURCE})

    def push(self, files: Mapping[str, bytes | str | None], **how: object) -> str:
        return self.world.push(self.pull, files, **how)  # type: ignore[arg-type]

    def changes(self, pull: Pull | None = None) -> set[ChangedFile]:
        with Fork(self.server.git_url) as fork:
            return set(fork.changes((pull or self.pull).head_sha))

    def read(self, path: str = PATH, max_bytes: int = 1000) -> tuple[BlobInfo | None, bytes]:
        with Fork(self.server.git_url) as fork:
            return fork.read(self.pull.head_sha, path, max_bytes)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    with made.server:
        yield made


def blob_sha(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


ADDED = ChangedFile(path=PATH, status="added")


# The changes.


def test_one_added_file_is_listed_and_read(stage: Stage) -> None:
    with Fork(stage.server.git_url) as fork:
        assert fork.changes(stage.pull.head_sha) == (ADDED,)
        found, content = fork.read(stage.pull.head_sha, PATH, 1000)
    assert content == SOURCE
    assert found == BlobInfo(sha=blob_sha(SOURCE), mode="100644", size=len(SOURCE))
    assert not stage.server.rest_requests()


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [("MOST_MEMORY", 64 << 20, "git diff-tree failed"), ("MOST_OUTPUT", 1 << 20, "more than 1 MiB of output")],
)
def test_a_few_trees_that_name_very_many_files_are_refused(
    limit: str, most: int, message: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = 6 if limit == "MOST_MEMORY" else 5
    kind, sha = b"100644", stage.world.git.add_blob(b"x")
    for _ in range(levels):
        tree = b"".join(b"%s %d\0%s" % (kind, number, bytes.fromhex(sha)) for number in range(10))
        kind, sha = b"40000", stage.world.git.add_tree(tree)
    stage.pull.head_sha = stage.world.git.commit_tree(sha, [stage.pull.head_sha], "Many")
    stage.world.git.set_ref(f"refs/pull/{stage.pull.number}/head", stage.pull.head_sha)
    monkeypatch.setattr(f"scripts.common.git_command.{limit}", most)
    with pytest.raises(GitError, match=message):
        stage.changes()


def test_changes_are_listed_with_their_status(stage: Stage) -> None:
    bobs = "submissions/vectoradd/bob/submission.py"
    stage.push({"README.md": None, "HELLO.md": "Hello\n" * 20, bobs: "import os\n", "new": b"\0"})
    assert stage.changes() == {
        ADDED,
        ChangedFile(path="HELLO.md", status="renamed", previous_path="README.md"),
        ChangedFile(path=bobs, status="modified"),
        ChangedFile(path="new", status="added"),
    }


def test_a_moved_and_edited_file_counts_as_two_changes(stage: Stage) -> None:
    stage.push({"README.md": None, "HELLO.md": "Hello\n" * 19})
    assert stage.changes() == {
        ADDED,
        ChangedFile(path="README.md", status="removed"),
        ChangedFile(path="HELLO.md", status="added"),
    }


def test_later_commits_on_main_are_not_changes_of_the_fork(stage: Stage) -> None:
    stage.world.commit({"README.md": "Meanwhile\n", "submissions/vectoradd/carol/submission.py": "x\n"})
    assert stage.changes() == {ADDED}


def test_a_merge_commit_leaves_a_pull_requests_changes_as_they_were(stage: Stage) -> None:
    git, head = stage.world.git, stage.pull.head_sha
    tip = stage.world.commit({"README.md": "Meanwhile\n"})
    tree = git.merge_trees(tip, head)
    assert tree
    git.set_ref("refs/heads/main", git.commit_tree(tree, [tip, head], "Merge pull request #1"))
    stage.world.commit({"submissions/vectoradd/carol/submission.py": "x\n"})
    assert stage.changes() == {ADDED}


def test_a_head_that_main_was_moved_to_has_no_changes(stage: Stage) -> None:
    stage.world.git.set_ref("refs/heads/main", stage.pull.head_sha)
    assert stage.changes() == set()


def test_commits_merged_from_main_are_not_changes_of_the_fork(stage: Stage) -> None:
    git = stage.world.git
    tip = stage.world.commit({"README.md": "Meanwhile\n"})
    tree = git.merge_trees(tip, stage.pull.head_sha)
    assert tree
    stage.pull.head_sha = git.commit_tree(tree, [stage.pull.head_sha, tip], "Merge")
    assert stage.changes() == {ADDED}


def test_a_branch_is_outdated_in_a_folder_that_main_has_changed_since(stage: Stage) -> None:
    def is_outdated(folder: str) -> bool:
        with Fork(stage.server.git_url) as fork:
            return fork.is_outdated(stage.pull.head_sha, folder)

    assert not is_outdated(".github/workflows")
    stage.world.commit({".github/workflows/intake.yml": "on: push", "README.md": "Meanwhile\n"})
    assert is_outdated(".github/workflows") and not is_outdated("submissions/vectoradd/bob")
    stage.world.update_branch(stage.pull)
    assert not is_outdated(".github/workflows")


def test_undoing_a_commit_of_main_counts_as_a_change(stage: Stage) -> None:
    """After a merge and a revert, the fork's tree equals the first commit, and merging it would undo another commit."""
    git = stage.world.git
    tip = stage.world.commit({"README.md": "Meanwhile\n"})
    tree = git.find_tree(stage.pull.head_sha)
    assert tree
    stage.pull.head_sha = git.commit_tree(tree, [stage.pull.head_sha, tip], "Merge, but not really")
    assert stage.changes() == {ADDED, ChangedFile(path="README.md", status="modified")}


def test_an_unrelated_history_counts_every_file_as_added(stage: Stage) -> None:
    stage.pull.head_sha = stage.world.git.commit({PATH: SOURCE, "README.md": "Mine\n"}, parent=None)
    assert stage.changes() == {ADDED, ChangedFile(path="README.md", status="added")}


def test_a_very_long_list_of_changes_is_cut_off(stage: Stage) -> None:
    stage.push({f"file{number}": b"" for number in range(MAX_CHANGES + 10)})
    assert len(stage.changes()) == MAX_CHANGES


@pytest.mark.parametrize("path", ["nothing.py", "no/such/folder.py", "README.md/x", "submissions", "link/bob/submission.py"])  # fmt: skip
def test_a_missing_path_a_folder_or_a_linked_path_is_not_found(stage: Stage, path: str) -> None:
    stage.push({"link": "submissions/vectoradd"}, modes={"link": "120000"})
    assert stage.read(path) == (None, b"")


@pytest.mark.parametrize("mode", ["100755", "120000"])
def test_links_and_executables_are_listed_but_not_read(stage: Stage, mode: str) -> None:
    stage.push({PATH: b"/etc/passwd"}, modes={PATH: mode})
    found, content = stage.read()
    assert found and (found.mode, found.is_plain, content) == (mode, False, b"")


@pytest.mark.parametrize("content", [b"", b"x" * 1000, bytes(range(256)), "ünïcödé\n".encode()])
def test_a_file_is_read_byte_for_byte(stage: Stage, content: bytes) -> None:
    stage.push({PATH: content})
    found, read = stage.read()
    assert found and (read, found.size, found.sha) == (content, len(content), blob_sha(content))


def test_a_commit_that_is_gone_is_an_error(stage: Stage) -> None:
    with Fork(stage.server.git_url) as fork, pytest.raises(GitError, match="git fetch failed"):
        fork.changes("f" * 40)


# What is never fetched.


def test_a_file_that_is_too_large_never_leaves_the_server(stage: Stage) -> None:
    huge = bytes(range(256)) * 8000
    stage.push({PATH: huge})
    with Fork(stage.server.git_url) as fork:
        found, content = fork.read(stage.pull.head_sha, PATH, len(huge) - 1)
        assert found and (found.size, content) == (len(huge), b"")
        assert blob_sha(huge) not in objects_in(fork._folder)
        assert fork.read(stage.pull.head_sha, PATH, len(huge))[1] == huge


def test_a_server_without_partial_clones_gives_the_same_answers(stage: Stage) -> None:
    stage.world.git.git("config", "uploadpack.allowFilter", "false")
    assert stage.changes() == {ADDED}
    assert stage.read()[1] == SOURCE
    found, content = stage.read(max_bytes=len(SOURCE) - 1)
    assert found and (found.size, content) == (len(SOURCE), b"")


def test_the_contents_of_other_files_in_the_fork_are_not_fetched(stage: Stage) -> None:
    others = {f"junk/{number}": f"{number}" for number in range(50)}
    stage.push(others)
    with Fork(stage.server.git_url) as fork:
        fork.changes(stage.pull.head_sha)
        assert fork.read(stage.pull.head_sha, PATH, 1000)[1] == SOURCE
        fetched = objects_in(fork._folder)
    assert blob_sha(SOURCE) in fetched
    assert not {blob_sha(content.encode()) for content in others.values()} & fetched


def test_before_a_merge_the_fork_is_fetched_twice(stage: Stage) -> None:
    with Fork(stage.server.git_url) as fork:
        assert fork.changes(stage.pull.head_sha, before_merge=True) == (ADDED,)
        assert not fork.would_blend(stage.pull.head_sha, PATH)
    assert len(stage.server.requests("GET */info/refs")) == 2


def objects_in(folder: Path) -> set[str]:
    found = [path for path in folder.iterdir() if (path / "objects").is_dir()]
    assert found
    listing = ["git", "-c", "protocol.allow=never", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]
    return {
        line for store in found for line in subprocess.check_output(listing, cwd=store, text=True).splitlines() if line
    }


# What never runs.


def test_nothing_in_a_fork_configures_or_starts_anything(stage: Stage, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    script = f"#!/bin/sh\ntouch {trap}\n"
    stage.push(
        {
            ".gitattributes": "* filter=evil diff=evil merge=evil\n",
            ".gitconfig": f'[core]\n\tfsmonitor = "{script}"\n',
            ".gitmodules": f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c "touch {trap}"\n\tupdate = !touch {trap}\n',
            "hooks/post-checkout": script,
            "HEAD": "ref: refs/heads/evil\n",
            "config": f'[core]\n\tsshCommand = touch {trap}\n\thooksPath = "."\n',
        },
        modes={"hooks/post-checkout": "100755"},
    )
    assert len(stage.changes()) == 7
    assert stage.read()[1] == SOURCE
    assert not trap.exists()


def test_an_odd_path_is_treated_as_plain_text(stage: Stage) -> None:
    evil = ["-rf", "a\nb", "::set-output", "$(reboot)", "submissions/vectoradd/alice/\ttab", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")]  # fmt: skip
    stage.push(dict.fromkeys(evil, b"x"))
    assert {change.path for change in stage.changes()} == {PATH, *evil}


# Failures on the way.


@pytest.mark.parametrize("failure", [Failure(status=500), Failure(way=Way.RESET)], ids=["500", "reset"])
@pytest.mark.parametrize("nth", range(1, 10))
def test_reading_a_fork_survives_one_network_failure(stage: Stage, failure: Failure, nth: int) -> None:
    stage.server.fail("* */kernels.git/*", failure, nth=nth)
    with Fork(stage.server.git_url) as fork:
        assert fork.changes(stage.pull.head_sha) == (ADDED,)
        assert fork.read(stage.pull.head_sha, PATH, 1000)[1] == SOURCE


def test_a_lasting_network_failure_is_an_error(stage: Stage) -> None:
    stage.server.fail("* */kernels.git/*", Failure(status=500), times=100)
    with Fork(stage.server.git_url) as fork, pytest.raises(GitError):
        fork.changes(stage.pull.head_sha)


def test_the_fetched_files_are_deleted_when_the_block_ends(stage: Stage) -> None:
    with Fork(stage.server.git_url) as fork:
        fork.changes(stage.pull.head_sha)
        folder = fork._folder
        assert folder.is_dir()
    assert not folder.exists()
