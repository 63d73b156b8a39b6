"""The ledger's branch, on real repositories: nothing is lost or rewritten, and the token never leaks.

Writers are threads, each with its own clone: they share only the repository that they push to.
"""

import base64
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.records.fields import Mode
from scripts.common.git_command import GitError
from scripts.ledger import branch as ledger_branch
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import LedgerError
from scripts.ledger.names import everything, requests_of, under
from scripts.ledger.request import Ending, EndState, Request, make_id

START = datetime(2026, 11, 2, tzinfo=UTC)
GIT = shutil.which("git") or "git"
TOKEN = "ghs_AnExampleOfATokenThatNobodyMustSee"  # a made-up one
BASIC = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()


def asked(pull_request: int, *, minute: int = 0) -> Request:
    sha = f"{pull_request:040x}"[::-1]
    return Request(
        id=make_id(pull_request, sha, "CPU", Mode.RANKED), user_id=7, login="ada", pull_request=pull_request,
        head_sha=sha, blob_sha="b" * 40, task="vectoradd", gpu="CPU", mode=Mode.RANKED,
        asked_at=START + timedelta(minutes=minute), asked_by=7,
    )  # fmt: skip


def git(repository: Path, *arguments: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        input=stdin, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A repository like GitHub's: bare, with a main branch, and able to filter fetches."""
    repository = tmp_path / "competition.git"
    git(tmp_path, "init", "--quiet", "--bare", str(repository))
    git(repository, "config", "uploadpack.allowFilter", "true")
    tree = git(repository, "mktree", stdin="").strip()
    git(repository, "update-ref", "refs/heads/main", git(repository, "commit-tree", tree, "-m", "main").strip())
    return repository


@pytest.fixture(autouse=True)
def no_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Working copies are made in a folder of the test, and none is left."""
    clones = tmp_path / "clones"
    clones.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(clones))
    monkeypatch.setattr(ledger_branch, "LONGEST_WAIT_S", 0.3)
    yield
    assert not list(clones.iterdir())


def url(repository: Path) -> str:
    return f"file://{repository}"


def files(repository: Path, revision: str = "ledger") -> set[str]:
    return set(git(repository, "ls-tree", "-r", "--name-only", revision).split()) - {"README.md"}


def add(repository: Path, *requests: Request, **rest: Any) -> tuple[Path, ...]:
    with LedgerBranch(url(repository), **rest) as branch:
        for request in requests:
            branch.ledger.append_request(request)
        return branch.commit("Add")


def commit_by_hand(repository: Path, name: str, mode: str, content: bytes) -> None:
    """Add a file to the branch, without our code."""
    blob = subprocess.run(
        ["git", "-C", str(repository), "hash-object", "-w", "--stdin"], input=content, check=True, capture_output=True
    ).stdout.decode().strip()  # fmt: skip
    environment = os.environ | {"GIT_INDEX_FILE": str(repository / "by-hand")}
    for command in (["read-tree", "ledger"], ["update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}"]):
        subprocess.run(["git", "-C", str(repository), *command], check=True, env=environment)
    tree = subprocess.run(
        ["git", "-C", str(repository), "write-tree"], check=True, env=environment, capture_output=True, text=True
    ).stdout.strip()  # fmt: skip
    commit = git(repository, "commit-tree", tree, "-p", "ledger", "-m", "by hand").strip()
    git(repository, "update-ref", "refs/heads/ledger", commit)


# One writer.


def test_the_first_commit_creates_a_branch_without_shared_history(bare: Path) -> None:
    with LedgerBranch(url(bare)) as branch:
        assert not branch.ledger.requests().facts
        assert branch.commit("Begin") == ()
        assert branch.ledger.append_request(asked(1))
        assert branch.commit("Ask for 1 on CPU") == (asked(1).place,)
        assert branch.ledger.append_request(asked(2))
        assert branch.commit("Ask for 2 on CPU") == (asked(2).place,)
    assert git(bare, "log", "--format=%s|%an", "ledger").splitlines() == [
        "Ask for 2 on CPU|github-actions[bot]", "Ask for 1 on CPU|github-actions[bot]", "Begin|github-actions[bot]",
    ]  # fmt: skip
    assert git(bare, "rev-list", "--count", "main").strip() == "1"
    assert subprocess.run(["git", "-C", bare, "merge-base", "main", "ledger"], check=False).returncode == 1


def test_the_next_clone_reads_the_pushed_requests(bare: Path) -> None:
    add(bare, asked(1), asked(2))
    with LedgerBranch(url(bare)) as branch:
        assert [status.request for status in branch.ledger.requests()] == [asked(1), asked(2)]


def test_the_ledger_makes_no_commit_without_new_facts(bare: Path) -> None:
    add(bare, asked(1))
    tip = git(bare, "rev-parse", "ledger")
    assert add(bare) == ()
    assert add(bare, asked(1)) == ()
    assert git(bare, "rev-parse", "ledger") == tip


def test_a_commit_only_adds_facts_and_never_changes_existing_ones(bare: Path) -> None:
    add(bare, asked(1))
    with LedgerBranch(url(bare)) as branch:
        folder = branch.ledger.path
        (folder / asked(1).place).write_text("changed")
        (folder / "README.md").unlink()
        (folder / "notes.txt").write_text("not a fact")
        (folder / "requests/link").symlink_to("/etc/passwd")
        branch.ledger.append_request(asked(2))
        assert branch.commit("Add") == (asked(2).place,)
        assert (folder / asked(1).place).read_text() == asked(1).to_json()
    assert files(bare) == {str(asked(1).place), str(asked(2).place)}
    assert git(bare, "show", f"ledger:{asked(1).place}") == asked(1).to_json()


def test_a_commit_message_is_never_read_as_an_option(bare: Path) -> None:
    with LedgerBranch(url(bare)) as branch:
        branch.commit("--amend `id` $(id)\n\n-m 🚀")
    assert git(bare, "log", "-1", "--format=%B", "ledger").strip() == "--amend `id` $(id)\n\n-m 🚀"


# Many writers.


def test_the_loser_of_a_push_race_retries_and_loses_nothing(bare: Path) -> None:
    add(bare)
    with LedgerBranch(url(bare)) as first, LedgerBranch(url(bare)) as second:
        first.ledger.append_request(asked(1))
        second.ledger.append_request(asked(2))
        assert first.commit("first") == (asked(1).place,)
        assert second.commit("second") == (asked(2).place,)
        assert [status.request for status in second.ledger.requests()] == [asked(1), asked(2)]
    assert files(bare) == {str(asked(1).place), str(asked(2).place)}


def test_two_writers_that_start_the_branch_at_once_share_it(bare: Path) -> None:
    with LedgerBranch(url(bare)) as first, LedgerBranch(url(bare)) as second:
        first.ledger.append_request(asked(1))
        second.ledger.append_request(asked(2))
        first.commit("first")
        second.commit("second")
    assert files(bare) == {str(asked(1).place), str(asked(2).place)}
    assert git(bare, "rev-list", "--max-parents=0", "--count", "ledger").strip() == "1"


def test_the_first_of_two_conflicting_endings_wins_for_both_writers(bare: Path) -> None:
    add(bare, asked(1))
    endings = [
        Ending(request=asked(1).id, state=state, at=START) for state in (EndState.CANCELLED, EndState.SUPERSEDED)
    ]
    with LedgerBranch(url(bare)) as first, LedgerBranch(url(bare)) as second:
        assert first.ledger.append_ending(asked(1), endings[0])
        assert second.ledger.append_ending(asked(1), endings[1])
        second.ledger.append_request(asked(2))
        assert first.commit("first") == (asked(1).place_of_ending,)
        assert second.commit("second") == (asked(2).place,)
        assert [status.ending for status in second.ledger.requests()] == [endings[0], None]
    with LedgerBranch(url(bare)) as third:
        assert [status.ending for status in third.ledger.requests()] == [endings[0], None]


def test_only_the_first_of_two_writers_commits_the_same_fact(bare: Path) -> None:
    """Two writers handle the same event at once: only one of them may start a judging."""
    add(bare)
    with LedgerBranch(url(bare)) as first, LedgerBranch(url(bare)) as second:
        for branch in (first, second):
            branch.ledger.append_request(asked(1))
        assert first.commit("same") == (asked(1).place,)
        assert second.commit("same") == ()
        assert [status.request for status in second.ledger.requests()] == [asked(1)]
    assert git(bare, "rev-list", "--count", "ledger").strip() == "2"


def test_a_writer_decides_again_if_a_lost_race_changed_its_facts(bare: Path) -> None:
    add(bare)
    found: list[int] = []
    with LedgerBranch(url(bare), wanted=requests_of(asked(1).user_id)) as branch:

        def ask_if_nobody_has() -> str:
            found.append(len(branch.ledger.requests().facts))
            if not found[-1]:
                branch.ledger.append_request(asked(2))
            return f"decided {len(found)} times"

        add(bare, asked(1))
        assert branch.commit(ask_if_nobody_has(), ask_if_nobody_has) == ()
        assert [status.request for status in branch.ledger.requests()] == [asked(1)]
    assert found == [0, 1]
    assert files(bare) == {str(asked(1).place)}


def test_a_writer_does_not_decide_again_for_facts_it_did_not_read(bare: Path) -> None:
    add(bare)
    with LedgerBranch(url(bare), wanted=under("moderation")) as branch:
        branch.ledger.append_request(asked(2))
        add(bare, asked(1))
        assert branch.commit("second", lambda: pytest.fail("decided again")) == (asked(2).place,)
    assert files(bare) == {str(asked(1).place), str(asked(2).place)}


def test_twenty_concurrent_writers_lose_nothing_and_rewrite_nothing(bare: Path) -> None:
    add(bare, asked(1000))
    tips = [git(bare, "rev-parse", "ledger").strip()]
    start = threading.Barrier(20)

    def write(number: int) -> tuple[Path, ...]:
        with LedgerBranch(url(bare), wanted=under("accounts") if number % 2 else everything) as branch:
            for pull_request in (number, number + 100):
                branch.ledger.append_request(asked(pull_request))
            start.wait()
            return branch.commit(f"writer {number}")

    with ThreadPoolExecutor(20) as writers:
        written = list(writers.map(write, range(1, 21)))
    expected = [asked(number).place for writer in range(1, 21) for number in (writer, writer + 100)]
    assert sorted(path for paths in written for path in paths) == sorted(expected)
    assert files(bare) == {str(asked(1000).place), *map(str, expected)}
    # A linear history; each commit only adds.
    history = git(bare, "log", "--format=", "--name-status", f"{tips[0]}..ledger").split("\n")
    assert {line[:1] for line in history if line} == {"A"}
    assert git(bare, "rev-list", "--merges", "--count", "ledger").strip() == "0"
    assert git(bare, "rev-list", "--count", f"{tips[0]}..ledger").strip() == "20"
    assert not git(bare, "fsck", "--strict", "--no-dangling")


def test_processes_that_write_at_once_lose_nothing(bare: Path, tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom scripts.ledger.branch import LedgerBranch\n"
        "from scripts.ledger.request import Request\n"
        "with LedgerBranch(sys.argv[1]) as branch:\n"
        "    branch.ledger.append_request(Request.from_json(sys.argv[2]))\n"
        "    print(*branch.commit('Add'))\n"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path / "clones")}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, url(bare), asked(number).to_json()],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parent.parent,
        )
        for number in range(1, 5)
    ]
    said = [writer.communicate(timeout=60)[0].strip() for writer in writers]
    assert said == [str(asked(number).place) for number in range(1, 5)]
    assert files(bare) == set(said)


# What is read.


def test_a_clone_is_shallow_and_holds_only_the_requested_contents(bare: Path) -> None:
    add(bare, asked(1))
    add(bare, asked(2, minute=24 * 60))
    with LedgerBranch(url(bare), wanted=under("requests/2026-11-03", "accounts")) as branch:
        assert [status.request for status in branch.ledger.requests()] == [asked(2, minute=24 * 60)]
        assert not (branch.ledger.path / "requests/2026-11-02").exists()
        assert git(branch.ledger.path, "rev-list", "--count", "origin/ledger").strip() == "1"
        missing = git(branch.ledger.path, "rev-list", "--objects", "--missing=print", "origin/ledger")
        unread = git(bare, "rev-parse", f"ledger:{asked(1).place}").strip()
        assert f"?{unread}" in missing.split()
        branch.ledger.append_request(asked(3))
        assert branch.commit("Add") == (asked(3).place,)
        # Nor did the commit need the content of others.
        assert (
            f"?{unread}" in git(branch.ledger.path, "rev-list", "--objects", "--missing=print", "origin/ledger").split()
        )
    assert files(bare) == {str(request.place) for request in (asked(1), asked(2, minute=24 * 60), asked(3))}


def test_a_folder_that_was_left_out_can_be_read_later(bare: Path) -> None:
    add(bare, asked(1))
    add(bare, asked(2, minute=24 * 60))
    with LedgerBranch(url(bare), wanted=under("requests/2026-11-03")) as branch:
        branch.check_out(under("requests/2026-11-02"))
        assert [status.request for status in branch.ledger.requests()] == [asked(1), asked(2, minute=24 * 60)]
        assert not branch.commit("Nothing new")


def test_the_ledger_works_on_a_server_without_partial_clones(bare: Path) -> None:
    git(bare, "config", "uploadpack.allowFilter", "false")
    add(bare, asked(1))
    assert add(bare, asked(2)) == (asked(2).place,)


HOSTILE: dict[str, tuple[str, str, bytes]] = {
    "a link to a secret": ("requests/2026-11-02/7-9-a.json", "120000", b"/etc/passwd"),
    "a link in place of a folder": ("requests/2026-11-05", "120000", b"/etc"),
    "a huge file": ("requests/2026-11-02/7-9-a.json", "100644", b"x" * 4_000_000),
    "a program": ("requests/2026-11-02/7-9-a.json", "100755", b"#!/bin/sh\ntouch /tmp/hurt\n"),
    "an odd name": ("requests/2026-11-02/--force \x1b[31m\n.json", "100644", b"{}"),
}


@pytest.mark.parametrize(("name", "mode", "content"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_on_the_branch_is_only_reported_as_a_fault(
    bare: Path, name: str, mode: str, content: bytes
) -> None:
    add(bare, asked(1))
    commit_by_hand(bare, name, mode, content)
    with LedgerBranch(url(bare)) as branch:
        found = branch.ledger.requests()
        assert [status.request for status in found] == [asked(1)]
        assert [str(fault.path) for fault in found.faults] == [name]
        assert not any(path.is_symlink() for path in branch.ledger.path.rglob("requests/**/*"))
        branch.ledger.append_request(asked(2))
        assert branch.commit("Add") == (asked(2).place,)


def test_git_attributes_and_submodules_of_the_branch_have_no_effect(bare: Path) -> None:
    add(bare, asked(1))
    commit_by_hand(bare, ".gitattributes", "100644", b"* text eol=crlf ident working-tree-encoding=UTF-16 filter=x\n")
    commit_by_hand(bare, ".gitmodules", "100644", b'[submodule "x"]\n\tpath = x\n\turl = ext::touch /tmp/hurt\n')
    with LedgerBranch(url(bare)) as branch:
        assert (branch.ledger.path / asked(1).place).read_text() == asked(1).to_json()
        branch.ledger.append_request(asked(2))
        branch.commit("Add")
    assert git(bare, "show", f"ledger:{asked(2).place}") == asked(2).to_json()


def test_a_users_git_configuration_has_no_effect(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    hook = home / "hooks/pre-push"
    hook.write_text(f"#!/bin/sh\ntouch {home}/ran\nexit 1\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {home}/hooks\n\tautocrlf = true\n[commit]\n\tgpgSign = true\n[init]\n\ttemplateDir = {home}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "somebody")
    assert add(bare, asked(1)) == (asked(1).place,)
    assert not (home / "ran").exists()
    assert git_log_author(bare) == "github-actions[bot]"


def git_log_author(bare: Path) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "--git-dir", str(bare), "log", "-1", "--format=%an", "ledger"]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=clean).stdout.strip()


# Errors.


def hook(bare: Path, name: str, script: str) -> None:
    path = bare / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_refused_push_is_reported_without_retry_and_loses_nothing(bare: Path) -> None:
    add(bare)
    hook(bare, "pre-receive", "echo 'the branch is protected \033[31m@everyone' >&2; echo x >> tries; exit 1")
    with LedgerBranch(url(bare)) as branch:
        branch.ledger.append_request(asked(1))
        with pytest.raises(LedgerError, match=r"pre-receive hook declined(.|\n)*pullrank setup --check") as error:
            branch.commit("Add")
        assert "\033" not in str(error.value)
        assert (bare / "tries").read_text() == "x\n"
        (bare / "hooks/pre-receive").unlink()
        assert branch.commit("Add") == (asked(1).place,)


def test_a_push_that_github_takes_for_a_leaked_secret_names_push_protection(bare: Path) -> None:
    add(bare)
    lines = ["error: GH013: Repository rule violations found for refs/heads/ledger.", "- GITHUB PUSH PROTECTION"]
    lines += ["Resolve the following violations before pushing again", "- Push cannot contain secrets"]
    said = "".join(f"echo '{line}' >&2; " for line in lines + ["x" * 80] * 8)
    hook(bare, "pre-receive", f"{said}exit 1")
    with LedgerBranch(url(bare)) as branch:
        branch.ledger.append_request(asked(1))
        with pytest.raises(LedgerError, match="push protection takes a participant's text") as error:
            branch.commit("Add")
    assert ".github/secret_scanning.yml" in str(error.value) and "setup --check" not in str(error.value)


def test_a_push_is_retried_while_the_branch_is_locked(bare: Path) -> None:
    add(bare)
    (bare / "refs/heads/ledger.lock").touch()
    hook(bare, "post-update", "true")
    threading.Timer(0.5, (bare / "refs/heads/ledger.lock").unlink).start()
    assert add(bare, asked(1)) == (asked(1).place,)


def test_a_writer_gives_up_after_losing_every_push_race(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(bare)
    monkeypatch.setattr(ledger_branch, "MAX_ATTEMPTS", 3)
    # Before every push, somebody else pushes.
    hook(bare, "update", 'git update-ref "$1" "$(git commit-tree "$2^{tree}" -p "$2" -m faster)"')
    monkeypatch.setenv("GIT_COMMITTER_NAME", "x")
    with LedgerBranch(url(bare)) as branch:
        branch.ledger.append_request(asked(1))
        with pytest.raises(LedgerError, match="others pushed to 'ledger' first in 3 attempts; nothing is lost"):
            branch.commit("Add")
    assert files(bare) == set()


def test_a_writer_that_gives_up_says_why_its_pushes_fail(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(bare)
    monkeypatch.setattr(ledger_branch, "MAX_ATTEMPTS", 3)
    hook(bare, "pre-receive", "kill -9 $PPID")
    with LedgerBranch(url(bare)) as branch:
        branch.ledger.append_request(asked(1))
        with pytest.raises(LedgerError, match=r"could not be pushed in 3 attempts; .*: git push failed: .*hung up"):
            branch.commit("Add")
        (bare / "hooks/pre-receive").unlink()
        assert branch.commit("Add") == (asked(1).place,)


def test_a_missing_repository_is_reported(tmp_path: Path) -> None:
    with pytest.raises(GitError, match=r"git fetch failed: .*does not appear to be a git repository"):
        add(tmp_path / "none.git")


def test_a_corrupted_working_copy_is_an_error_and_leaves_the_branch_intact(bare: Path) -> None:
    add(bare, asked(1))
    with LedgerBranch(url(bare)) as branch:
        branch.ledger.append_request(asked(2))
        for pack in (branch.ledger.path / ".git/objects").rglob("*.pack"):
            pack.chmod(0o644)
            os.truncate(pack, 20)
        with pytest.raises(GitError, match="git "):
            branch.commit("Add")
    assert files(bare) == {str(asked(1).place)}
    assert add(bare, asked(2)) == (asked(2).place,)


def test_an_error_in_the_block_leaves_the_branch_as_it_was(bare: Path) -> None:
    add(bare, asked(1))
    with pytest.raises(LedgerError, match="is not for request"), LedgerBranch(url(bare)) as branch:  # noqa: PT012
        branch.ledger.append_request(asked(2))
        branch.ledger.append_ending(asked(2), Ending(request="r1", state=EndState.CANCELLED, at=START))
    assert files(bare) == {str(asked(1).place)}


# The token.


@pytest.fixture
def spy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `git` that records its arguments, and all files of the working copy before and after the real git runs."""
    seen = tmp_path / "seen"
    seen.mkdir()
    wrapper = tmp_path / "bin/git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> {seen}/arguments\n{GIT} "$@"\nresult=$?\n'
        f'cat "$PWD/.git/config" >> {seen}/config 2>/dev/null\n'
        f'grep -raF -e {TOKEN} -e {BASIC} "$PWD" >> {seen}/files 2>/dev/null\nexit $result\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    return seen


def serve(bare: Path, headers: list[str], *, lost: list[str] | None = None) -> Iterator[str]:
    """Serve git over HTTP, like GitHub: without a token, it asks for a password.

    For each service in `lost`, one answer is lost after the request took effect.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(self.headers.get("Authorization", ""))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != f"Basic {BASIC}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="GitHub"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            environment = os.environ | {
                "GIT_PROJECT_ROOT": str(bare.parent), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "bot",
                "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            }  # fmt: skip
            answer = subprocess.run(
                [GIT, "http-backend"], input=body, env=environment, check=True, capture_output=True
            ).stdout
            if lost and self.command == "POST" and path.endswith(lost[-1]):
                lost.pop()
                answer = b"Status: 502 Bad Gateway\r\n\r\n"
            head, _, content = answer.partition(b"\r\n\r\n")
            fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(fields.pop("Status", "200").split()[0]))
            for name, value in fields.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{bare.name}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def over_http(bare: Path) -> Iterator[tuple[str, list[str]]]:
    headers: list[str] = []
    yield from ((address, headers) for address in serve(bare, headers))


def test_the_token_authenticates_but_appears_in_no_argument_or_file(
    over_http: tuple[str, list[str]], spy: Path
) -> None:
    address, headers = over_http
    with LedgerBranch(address, token=TOKEN) as branch:
        branch.ledger.append_request(asked(1))
        assert branch.commit("Add") == (asked(1).place,)
    with LedgerBranch(address, token=TOKEN) as branch:
        assert [status.request for status in branch.ledger.requests()] == [asked(1)]
    assert set(headers) == {f"Basic {BASIC}"}
    arguments, config = (spy / "arguments").read_text(), (spy / "config").read_text()
    assert "push" in arguments and "promisor" in config  # the spy worked
    for text in (arguments, config, (spy / "files").read_text()):
        assert TOKEN not in text and BASIC not in text


@pytest.mark.parametrize("service", ["git-receive-pack", "git-upload-pack"])
def test_a_lost_answer_neither_loses_nor_doubles_a_commit(bare: Path, service: str) -> None:
    add(bare)
    git(bare, "config", "http.receivepack", "true")
    lost = [service]
    for address in serve(bare, [], lost=lost):
        with LedgerBranch(address, token=TOKEN) as branch:
            branch.ledger.append_request(asked(1))
            assert branch.commit("Add") == (asked(1).place,)
    assert not lost
    assert git(bare, "log", "--format=%s", "ledger").split() == ["Add", "Add"]


@pytest.mark.parametrize("token", [None, "ghs_expired"])
def test_a_failed_authentication_is_reported_without_the_token(
    over_http: tuple[str, list[str]], token: str | None
) -> None:
    address, headers = over_http
    with pytest.raises(GitError, match=r"Authentication failed|could not read Username") as error:
        LedgerBranch(address, token=token).__enter__()
    assert "ghs_" not in str(error.value) and len(headers) <= 2


def test_a_token_echoed_by_the_server_is_masked(bare: Path) -> None:
    add(bare)
    hook(bare, "pre-receive", f"echo 'you said {TOKEN} and {BASIC}' >&2; exit 1")
    for address in serve(bare, []):
        with LedgerBranch(address, token=TOKEN) as branch:
            git(bare, "config", "http.receivepack", "true")
            branch.ledger.append_request(asked(1))
            with pytest.raises(LedgerError, match=r"you said \*\*\* and \*\*\*") as error:
                branch.commit("Add")
            assert TOKEN not in str(error.value) and BASIC not in str(error.value)


@pytest.mark.parametrize("address", ["http://github.com/o/r.git", "git://github.com/o/r.git", "file:///tmp/r.git"])
def test_the_token_is_sent_over_https_only(address: str) -> None:
    with pytest.raises(GitError, match="over https only"):
        LedgerBranch(address, token=TOKEN).__enter__()


@pytest.mark.parametrize(
    "address", [f"https://x-access-token:{TOKEN}@github.com/o/r.git", f"https://{TOKEN}@github.com/o/r"]
)
def test_a_token_in_the_url_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(LedgerError, match="must not hold") as error:
        LedgerBranch(address)
    assert TOKEN not in str(error.value)
