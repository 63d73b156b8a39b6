"""`pullrank submit` and `watch` against a GitHub on loopback, with the bot's own steps in between."""

import codecs
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.gpu.gpu_nodes import find_gpus
from harness.task.submission import Submission
from harness.task.task import Baseline, load_task
from scripts.cli import run
from scripts.commands.submit import _is_accepted
from scripts.github import access
from scripts.github.access import connect
from scripts.github.credentials import AccessError
from scripts.github.gh import GitHub
from scripts.github.pages import pages_address
from scripts.github.pulls import PullRequest
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.moderation import Action, Moderation
from scripts.submit.follow import BoardNews, BoardProgress, PullStatus, look, read_result
from scripts.submit.live_table import Voice
from scripts.submit.prepare import PreparedSubmission, SubmitError, blob_sha, with_gpus
from tests.competition import FASTER, ROOT, SOURCE, Scene, of_its_board, path_of, two_boards
from tests.github_server import Failure, User, Way, shapes
from tests.terminal import CTRL_C, Terminal
from tests.test_bot_packages import BLOCKER

TASK = ROOT / "tasks" / "vectoradd"
QUICK = ["--task", "vectoradd", "--no-test", "--json", "--every", "0.1"]


class Desk:
    """A participant at a terminal."""

    def __init__(self, scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
        self.scene, self.world, self._capsys = scene, scene.world, capsys
        self.file = scene.folder / "kernel.py"
        self.file.write_bytes(SOURCE)
        self.be(scene.alice)
        values = {"GITHUB_API_URL": scene.server.api_url, "GITHUB_SERVER_URL": scene.server.url}
        for name, value in (values | {"GITHUB_REPOSITORY": scene.world.repository}).items():
            scene.patch.setenv(name, value)

    def be(self, user: User) -> None:
        self.scene.patch.setenv("GH_TOKEN", self.world.personal_token(user).value)

    def submit(self, *options: str, code: int = 0) -> list[dict[str, Any]]:
        """Submit the file without waiting; returns all lines except the last, which is kept in `end`."""
        told = self.call("submit", str(self.file), *QUICK, "--no-wait", *options, code=code)
        self.end = told.pop() if told else {}
        assert not self.end or (self.end["event"], self.end["exit_code"]) == ("end", code)
        return told

    def call(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """The JSON lines of a command; its stderr is kept in `said`."""
        self._capsys.readouterr()
        ended = run(list(words))
        printed = self._capsys.readouterr()
        self.said, self.printed = printed.err, printed.out
        assert ended == code, printed
        assert "Traceback" not in self.said
        return [json.loads(line) for line in printed.out.splitlines() if line.startswith("{")]

    @property
    def pulls(self) -> list[Any]:
        return list(self.world.pulls.values())


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    scene = Scene(tmp_path, monkeypatch)
    scene.world.commit({f"tasks/vectoradd/{path.relative_to(TASK)}": path.read_bytes() for path in files_of_the_task()})
    with scene.server:
        yield Desk(scene, capsys)


def files_of_the_task() -> list[Path]:
    return [path for path in TASK.rglob("*") if path.is_file() and "__pycache__" not in path.parts]


# From a file to a row.


def test_a_file_goes_through_a_fork_to_a_row_and_reports_each_step(desk: Desk) -> None:
    (sent,) = desk.submit()
    (pull,) = desk.pulls
    assert (sent["pull_request"], sent["opened"], sent["pushed"], sent["draft"]) == (pull.number, True, True, False)
    assert sent["repository"] == "alice/kernels" and sent["branch"] == "pullrank/alice/vectoradd"
    assert desk.world.git.files(pull.head_sha) == sorted([*desk.world.git.files("main"), path_of("alice")])
    assert desk.world.git.read(pull.head_sha, path_of("alice")) == SOURCE

    told: list[dict[str, Any]] = []
    watching = Thread(target=lambda: told.extend(desk.call("watch", "--json", "--every", "0.1")))
    watching.start()
    desk.scene.intake()
    (waiting,) = desk.scene.waiting()
    desk.scene.evaluate(waiting, desk.scene.honest())
    watching.join(30)
    assert not watching.is_alive()
    *boards, end = told
    assert {board["event"] for board in boards} == {"board"} and boards[-1]["state"] == "accepted"
    assert (boards[-1]["rank"], boards[-1]["of"], boards[-1]["gap"]) == (1, 1, 0.0)
    assert re.fullmatch(r"Rank 1 of 1 with \S+ µs ±\S+ %; first place\.", boards[-1]["place"])
    assert boards[-1]["result"]["verdict"] == "AC" and boards[-1]["result"]["cases"]
    assert (end["event"], end["exit_code"], end["boards"]) == ("end", 0, [without_event(boards[-1])])
    (ranked,) = [one for one in end["quota"] if one["limit"] == "ranked judgings in 24 hours"]
    assert (ranked["used"], ranked["left"]) == (1, ranked["allowed"] - 1) and ranked["next_at"]
    assert pull.merged_at
    assert desk.call("watch", "--json")[-1] == end


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (f"MISSING = {{'torch', 'numpy'}}\n{BLOCKER}", "torch is not in the lock"),
        ("from tests.other_system import show; show('darwin')", "judging needs Linux, and this is macOS: "),
        ("from tests.other_system import show; show('win32')", "judging needs Linux, and this is Windows: "),
    ],
    ids=["without torch", "macOS", "Windows"],
)
def test_a_file_is_submitted_untested_from_a_machine_that_cannot_judge(desk: Desk, machine: str, reason: str) -> None:
    program = f"{machine}\nfrom scripts.cli import main\nmain()"
    words = ["submit", str(desk.file), "--task", "vectoradd", "--json", "--no-wait"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout.splitlines()[0])
    assert first["event"] == "not tested" and reason in first["reason"]
    (pull,) = desk.pulls
    assert desk.world.git.read(pull.head_sha, path_of("alice")) == SOURCE


def test_watch_prints_a_line_for_each_change_and_a_table_on_a_terminal(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    desk.call("watch")
    assert re.search(r"^CPU, ranked: accepted: Rank 1 of 1 with .*; first place\.$", desk.printed, re.MULTILINE)
    assert "`pullrank mine alice --site" in desk.printed and "ranked judgings in 24 hours are left" in desk.printed
    desk.scene.patch.setenv("FORCE_COLOR", "1")
    desk.call("watch")
    table = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", desk.printed)
    assert re.search(r"^Board +Mode +State", table, re.MULTILINE)
    assert re.search(r"^CPU +ranked +accepted +Rank 1 of 1 with", table, re.MULTILINE)


@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_is_longer_than_the_terminal_at_any_stage(desk: Desk, columns: int) -> None:
    desk.submit()
    at = {"columns": columns, "folder": ROOT, "environment": os.environ}
    watching = Terminal([sys.executable, "-m", "scripts.cli", "watch", "--every", "0.1"], **at)
    watching.until("waiting for the bot")
    desk.scene.intake()
    watching.until("queued since")
    (run_,) = desk.scene.waiting()
    desk.scene.resolve(run_)
    watching.until("running")
    wrong = "output[3, 17] is 1.0312, expected 1.0000 (allowed 0.0011); 48 of 65536 differ"
    desk.scene.judge(run_, desk.scene.honest(wrong=wrong))
    desk.scene.report(run_)
    assert watching.end() == 1
    assert watching.too_long == []
    assert "output[3," in watching.text and "differ" in watching.text and "fix the file" in watching.text


def test_ctrl_c_while_waiting_keeps_the_judging_going_and_says_how_to_follow(desk: Desk) -> None:
    words = ["submit", str(desk.file), "--task", "vectoradd", "--no-test", "--every", "0.1"]
    at = {"columns": 80, "folder": ROOT, "environment": os.environ}
    handing_in = Terminal([sys.executable, "-m", "scripts.cli", *words], **at)
    handing_in.until("waiting for the bot")
    handing_in.press(CTRL_C)
    assert handing_in.end() == 130
    assert "the judging goes on; `pullrank watch 1` shows it" in handing_in.text
    assert "Traceback" not in handing_in.text and desk.pulls[0].state == "open"


def test_ctrl_c_while_submitting_warns_that_it_may_be_submitted_already(desk: Desk) -> None:
    desk.scene.server.fail("POST */pulls", Failure(way=Way.SILENCE, seconds=8, is_done=True))
    words = ["submit", str(desk.file), "--task", "vectoradd", "--no-test", "--every", "0.1"]
    at = {"columns": 120, "folder": ROOT, "environment": os.environ}
    handing_in = Terminal([sys.executable, "-m", "scripts.cli", *words], **at)
    until = time.monotonic() + 60
    while not desk.pulls:
        assert time.monotonic() < until, handing_in.text
        time.sleep(0.05)
    handing_in.press(CTRL_C)
    assert handing_in.end() == 130
    assert "it may have been submitted already; `pullrank watch` shows it" in handing_in.text
    assert "nothing is left running" not in handing_in.text


def without_event(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in facts.items() if key != "event"}


def test_a_new_file_updates_the_pull_request_and_an_unchanged_file_does_not(desk: Desk) -> None:
    desk.submit("--draft")
    (pull,) = desk.pulls
    first = pull.head_sha
    desk.file.write_bytes(FASTER)
    (sent,) = desk.submit("--draft")
    assert (sent["opened"], sent["pushed"], len(desk.pulls)) == (False, True, 1)
    assert pull.head_sha == sent["head_sha"] != first
    assert desk.world.git.parents(pull.head_sha) == [first]
    (again,) = desk.submit("--draft")
    assert again["pushed"] is False and pull.head_sha == sent["head_sha"]
    assert [event.payload["action"] for event in desk.scene.events if event.name == "pull_request_target"] == [
        "opened",
        "synchronize",
    ]


def test_submit_without_waiting_reports_the_quota_left_and_when_it_grows(desk: Desk) -> None:
    desk.submit()
    assert desk.end["boards"] == [] and {(one["used"], one["next_at"]) for one in desk.end["quota"]} == {(0, None)}
    desk.scene.intake()
    desk.submit()
    (ranked,) = [one for one in desk.end["quota"] if one["limit"] == "ranked judgings in 24 hours"]
    assert (ranked["used"], ranked["left"]) == (1, ranked["allowed"] - 1)
    asked = datetime.fromisoformat(ranked["next_at"]) - timedelta(days=1)
    assert abs(asked - datetime.now(UTC)) < timedelta(minutes=5)
    desk.call("submit", str(desk.file), *[word for word in QUICK if word != "--json"], "--no-wait")
    assert "`pullrank watch 1` follows it." in desk.printed and "judgings in 24 hours are left; the " in desk.printed


def test_a_private_competition_shows_its_quota_and_site_to_its_members(desk: Desk) -> None:
    desk.world.settings |= {"repository": {"private": True, "visibility": "private"}, "pages": None}
    desk.submit()
    assert desk.end["quota"], "the ledger was read with the token"
    assert desk.end["site"].startswith("http://pages.127.0.0.1:"), "guessed, as for an Enterprise server"
    site = {"url": desk.world.api_url, "status": None, "cname": None, "custom_404": False, "public": False}
    desk.world.settings["pages"] = site | {"html_url": "https://cup.example.com"}
    desk.submit()
    assert desk.end["site"] == "https://cup.example.com/"


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("https://github.com", "https://acme.github.io/Kernels/"),
        ("https://git.example.com", "https://pages.git.example.com/Acme/Kernels/"),
        ("http://git.example.com:8080", "http://pages.git.example.com:8080/Acme/Kernels/"),
    ],
)
def test_the_sites_address_follows_from_the_servers_address(server: str, address: str) -> None:
    assert pages_address("Acme/Kernels", server) == address


def test_submit_switches_a_pull_request_between_draft_and_ready(desk: Desk) -> None:
    desk.submit("--draft")
    (pull,) = desk.pulls
    assert pull.draft
    assert desk.submit()[0]["draft"] is False and not pull.draft
    assert desk.submit("--draft")[0]["draft"] is True and pull.draft


def test_submit_reports_a_draft_that_cannot_be_made_ready(desk: Desk) -> None:
    desk.submit("--draft")
    pull = desk.pulls[0]
    desk.world.settings["graphql_refuses"] = True
    desk.submit(code=2)
    assert "could not be marked as ready for review" in desk.said and pull.draft


def test_mine_uses_the_login_of_the_token(desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ledger").mkdir()
    assert run(["mine", "--ledger", str(tmp_path / "ledger")]) == 0
    assert "alice is not ranked on any board" in capsys.readouterr().out


def test_a_clone_without_a_ledger_points_to_the_published_site(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scripts.competition.repository.LEDGER", tmp_path / "ledger")
    monkeypatch.delenv("GITHUB_SERVER_URL")
    for words in (["mine"], ["board", "vectoradd"], ["history", "vectoradd"], ["compare", "ada", "grace"]):
        for form in ([], ["--json"]):
            assert run([*words, *form]) == 2
            printed = capsys.readouterr()
            assert not printed.out and printed.err.count("\n") == 1
            assert "--site https://acme.github.io/kernels/ reads the published site" in printed.err
    # Following its advice brings one.
    command = re.search("`(git fetch .*)`", printed.err)
    assert command
    desk.submit()
    desk.scene.intake()
    subprocess.run(["git", "clone", "--quiet", str(desk.world.git.path), str(tmp_path / "clone")], check=True)
    subprocess.run(command[1], shell=True, cwd=tmp_path / "clone", check=True)
    assert run(["board", "vectoradd", "--json"]) == 0 and (tmp_path / "ledger" / "requests").is_dir()


def test_submit_finds_a_pull_request_opened_by_hand(desk: Desk) -> None:
    desk.world.add_fork(desk.scene.alice)
    pull = desk.world.open_pull(desk.scene.alice, {path_of("alice"): SOURCE}, branch="my-idea")
    desk.file.write_bytes(FASTER)
    (sent,) = desk.submit()
    assert (sent["pull_request"], sent["branch"], sent["opened"]) == (pull.number, "my-idea", False)
    assert desk.world.git.read(pull.head_sha, path_of("alice")) == FASTER


def test_a_new_pull_request_restarts_its_branch_from_the_current_main(desk: Desk) -> None:
    desk.submit()
    desk.world.close(desk.pulls[0])
    desk.world.commit({"README.md": "Changed meanwhile."})
    desk.file.write_bytes(FASTER)
    (sent,) = desk.submit()
    assert sent["opened"] and sent["pull_request"] != desk.pulls[0].number
    assert desk.world.git.parents(sent["head_sha"]) == [desk.world.git.find_commit("main")]


def test_a_renamed_account_submits_to_the_folder_of_its_first_login(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    desk.world.close(desk.pulls[0])
    desk.scene.intake()
    desk.world.rename(desk.scene.alice, "alicia")
    desk.file.write_bytes(FASTER)
    (sent,) = desk.submit()
    assert sent["repository"] == "alicia/kernels" and path_of("alice") in desk.world.git.files(sent["head_sha"])
    desk.scene.intake()
    news = seen(desk, sent["pull_request"])
    assert [board.stage for board in news.boards] == [BoardProgress.QUEUED] and not news.refusal


def test_a_login_that_somebody_else_had_before_is_refused_before_anything_is_sent(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    desk.world.rename(desk.scene.alice, "alicia")
    desk.be(desk.world.add_user("alice"))
    desk.submit(code=2)
    assert "The folder 'alice' belongs to another account" in desk.said and len(desk.pulls) == 1


def test_a_draft_becomes_one_before_its_commit_arrives(desk: Desk) -> None:
    desk.submit()
    head = desk.pulls[0].head_sha
    desk.file.write_bytes(FASTER)
    desk.world.settings["no_drafts"] = True
    desk.submit("--draft", code=2)
    assert "has no draft pull requests" in desk.said
    assert desk.pulls[0].head_sha == head


def test_a_fork_is_refused_and_its_source_named(desk: Desk) -> None:
    source = shapes.repository(desk.world) | {"full_name": "acme/original"}
    desk.world.settings["repository"] = {"fork": True, "source": source}
    assert (
        f"{desk.world.repository} is a fork of acme/original, where the competition is: add --repo acme/original"
        in (refused(desk))
    )
    assert not desk.pulls


def test_no_time_between_requests_is_longer_than_an_hour_or_no_number(desk: Desk) -> None:
    for every in ("nan", "inf", "1e9", "0"):
        assert "--every" in refused(desk, "--every", every)
    assert not desk.pulls


def test_the_gpu_option_goes_before_a_files_byte_order_mark_and_names_a_board_once(desk: Desk) -> None:
    desk.file.write_bytes(codecs.BOM_UTF8 + SOURCE)
    (sent,) = desk.submit("--gpu", "CPU", "--gpu", "CPU")
    assert desk.world.git.read(sent["head_sha"], path_of("alice")) == b"#!PULLRANK gpus CPU\n" + SOURCE


@pytest.mark.parametrize("script", ["sleep 60", "printf '\\377'; exit 1", "\0"], ids=["waits", "fails", "no program"])
def test_a_program_that_gives_no_token_or_repository_is_as_good_as_none(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "WAIT_S", 0.5)
    program = tmp_path / "gh"
    program.write_text(script if script == "\0" else f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("GH_TOKEN", "GITHUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AccessError, match="no token: sign in"):
        access.require_token("x")


def test_gh_is_asked_for_the_token_of_the_competitions_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gh"
    program.write_text('#!/bin/sh\n[ "$4" = github.com ] || echo "token-of-${4:-another-server}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(AccessError, match="no token: sign in"):
        access.require_token("x")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://git.example.com")
    assert access.require_token("x") == "token-of-git.example.com"


def test_a_user_with_push_access_needs_no_fork(desk: Desk) -> None:
    desk.be(desk.world.owner)
    (sent,) = desk.submit()
    assert sent["repository"] == desk.world.repository and not desk.world.forks


def test_two_users_with_push_access_keep_separate_pull_requests(desk: Desk) -> None:
    desk.be(desk.world.owner)
    desk.submit()
    other = desk.world.add_user("maintainer", permission="write")
    desk.be(other)
    desk.submit()
    first, second = desk.pulls
    assert (first.author, second.author) == (desk.world.owner, other)
    assert desk.world.git.files(first.head_sha) != desk.world.git.files(second.head_sha)
    assert path_of(desk.world.owner.login) in desk.world.git.files(first.head_sha)


def test_watch_reports_a_judging_without_a_verdict_and_suggests_rerun(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    desk.world.add_comment(desk.pulls[0].number, desk.scene.alice, "/cancel")
    desk.scene.intake()
    *_, end = desk.call("watch", "--json", code=3)
    assert end["exit_code"] == 3 and end["boards"][0]["state"] == "ended"
    desk.call("watch", code=3)
    assert "`/rerun`" in desk.printed and "not judged on CPU" in desk.printed


def test_the_gpu_option_narrows_the_boards_by_a_line_in_the_file(desk: Desk) -> None:
    (sent,) = desk.submit("--gpu", "CPU")
    content = desk.world.git.read(sent["head_sha"], path_of("alice"))
    assert content == b"#!PULLRANK gpus CPU\n" + SOURCE


def test_a_wrong_answer_and_a_refusal_have_exit_codes_of_their_own(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest(wrong="output[3] is 1.5, expected 1"))
    *_, board, end = desk.call("watch", "1", "--json", code=1)
    assert (board["state"], board["result"]["message"]) == ("not accepted", "output[3] is 1.5, expected 1")
    assert end["exit_code"] == 1
    mallory = desk.world.add_user("mallory")
    pull = desk.world.open_pull(mallory, {path_of("alice"): SOURCE})
    desk.scene.intake()
    refused, end = desk.call("watch", str(pull.number), "--json", code=2)
    assert "your login is `mallory`" in refused["reason"] and end["boards"] == []


def test_a_line_that_a_submission_prints_is_not_its_place(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    printed = desk.scene.honest(wrong="output[3] is 1.5, expected 1", log="**Rank 1 of 9** with 1.000 ns; first place.")
    desk.scene.evaluate(desk.scene.waiting()[0], printed)
    *_, board, _ = desk.call("watch", "1", "--json", code=1)
    assert (board["place"], board["result"]["verdict"]) == ("", "WA")


def test_a_submission_shows_every_stage_from_queued_to_accepted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.submit()
    token = desk.world.personal_token(desk.scene.alice).value

    def stages() -> list[BoardProgress]:
        with connect(desk.world.repository, token) as github:
            return [board.stage for board in look(github, 1).boards]

    assert stages() == []
    desk.scene.intake()
    assert stages() == [BoardProgress.QUEUED]
    (waiting,) = desk.scene.waiting()
    desk.scene.resolve(waiting)
    assert stages() == [BoardProgress.RUNNING]
    desk.scene.judge(waiting, desk.scene.honest())
    desk.scene.report(waiting)
    assert stages() == [BoardProgress.ACCEPTED]


# Errors.


def refused(desk: Desk, *options: str) -> str:
    """A submission that opens no pull request; returns the message."""
    desk.submit(*options, code=2)
    assert not desk.pulls
    return desk.said


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (b"def kernel(data): return data\n", [], "custom_kernel"),
        (b"def custom_kernel(data):\n    return 1 +\n", [], "submission.py:2: SyntaxError"),
        (SOURCE, ["--gpu", "H10"], "There is no machine here for 'H10'. The boards of 'vectoradd' here: 'CPU'."),
        (b"#!POPCORN gpus CPU\n" + SOURCE, ["--gpu", "H100"], "the file's own directive says CPU"),
        (b"#!POPCORN leaderboard matmul\n" + SOURCE, [], "--task says 'vectoradd'"),
        (b"# \xe2\x80\xae\n" + SOURCE, [], "invisible character"),
        (b"#" * 300_000 + b"\n" + SOURCE, [], "256 KiB"),
        ((TASK / "template.py").read_bytes(), ["--repo", "acme/nothing"], "there is no repository acme/nothing"),
    ],
)  # fmt: skip
def test_submit_refuses_a_bad_submission_before_sending_anything(desk: Desk, source, options, message) -> None:
    desk.file.write_bytes(source)
    assert message in refused(desk, *options)
    assert not desk.world.forks and not [one for one in desk.scene.server.log if one.method != "GET"]


def test_a_baseline_is_submitted_as_it_is() -> None:
    """A directive would make another file of it, which takes a rank."""
    file = Submission(login="alice", source=SOURCE)
    task = load_task(TASK)
    assert with_gpus(file, ("H100",), task).source == b"#!PULLRANK gpus H100\n" + SOURCE
    task = replace(task, baselines=(Baseline(name="torch.add", path=TASK / "add.py", digest=file.digest),))
    assert with_gpus(file, (), task) is file
    with pytest.raises(SubmitError, match=r"--gpu H100 would change the file, .* baseline 'torch.add' only as it is"):
        with_gpus(file, ("H100",), task)


def test_a_file_that_fails_its_tests_here_is_not_submitted(desk: Desk, capsys) -> None:
    desk.file.write_bytes(b"def custom_kernel(data):\n    return data[0]\n")
    words = ["submit", str(desk.file), "--task", "vectoradd", "--sandbox", "none", "--json", "--no-wait"]
    tested, end = desk.call(*words, code=1)
    assert (tested["event"], tested["verdict"]) == ("tested", "WA") and tested["message"]
    assert (end["event"], end["exit_code"], end["boards"]) == ("end", 1, []) and end["quota"]
    assert not desk.pulls


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_a_file_for_a_gpu_is_submitted_untested_from_a_machine_without_one(capsys) -> None:
    file = Submission(login="alice", source=SOURCE)
    parcel = PreparedSubmission(task=load_task(TASK), login="alice", source=SOURCE, path="", gpus=("H100",))
    with Voice(as_json=True) as voice:
        assert _is_accepted(file, parcel, "none", voice, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["event"], told["gpu"]) == ("not tested", "H100") and "no GPU found on this machine" in told["reason"]


def test_a_file_is_submitted_untested_from_a_machine_without_temporary_files(monkeypatch, capsys) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    file = Submission(login="alice", source=SOURCE)
    parcel = PreparedSubmission(task=load_task(TASK), login="alice", source=SOURCE, path="", gpus=("CPU",))
    with Voice(as_json=True) as voice:
        assert _is_accepted(file, parcel, "none", voice, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["event"] == "not tested" and "No such file or directory: '/nowhere/" in told["reason"]


def test_submit_from_an_old_clone_suggests_git_pull(desk: Desk) -> None:
    desk.world.commit({"tasks/vectoradd/task.yml": "title: Changed\n"})
    desk.call("submit", str(desk.file), "--task", "vectoradd", "--json", code=2)
    assert "task.yml" in desk.said and "`git pull`" in desk.said and not desk.pulls


def test_a_refusal_caused_by_old_settings_suggests_git_pull(desk: Desk) -> None:
    assert "`git pull`" not in refused(desk, "--gpu", "H100")
    desk.world.commit({".github/pullrank.yml": "gpus: {CPU: {runs_on: x}, H100: {runs_on: y}}\n"})
    said = refused(desk, "--gpu", "H100")
    assert "H100" in said and ".github/pullrank.yml" in said and "`git pull`" in said


def test_submit_reports_a_task_that_the_competition_lacks(desk: Desk) -> None:
    desk.file.write_bytes(b"#!POPCORN leaderboard matmul\n" + SOURCE)
    desk.call("submit", str(desk.file), "--no-test", "--json", code=2)
    assert "the competition has no task matmul" in desk.said


def test_a_closed_task_takes_drafts_only(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.task.task.Task.is_open", lambda task, now: False)
    assert "With --draft it is tested" in refused(desk)
    assert desk.submit("--draft")[0]["draft"]


def test_submit_without_a_token_says_how_to_get_one(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GH_TOKEN")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "no token: sign in with `gh auth login`" in refused(desk)
    monkeypatch.setenv("GH_TOKEN", "ghp_wrong")
    assert "GitHub rejects this token" in refused(desk)


@pytest.mark.parametrize("is_told_by", ["--repo", "GITHUB_REPOSITORY"])
@pytest.mark.parametrize("name", ["not a repo", "kernels", "https://me:ghp_secret@github.com/acme/kernels.git"])
@pytest.mark.parametrize("words", [["watch", "1"], ["submit", "{file}", *QUICK], ["moderate", "list"], ["setup"]])
def test_an_invalid_repository_name_is_a_usage_error(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, is_told_by: str, name: str, words: list[str]
) -> None:
    monkeypatch.setenv("GITHUB_REPOSITORY", name)
    said_so = ["--repo", name] if is_told_by == "--repo" else []
    desk.call(*[word.format(file=desk.file) for word in words], *said_so, code=2)
    assert f"{is_told_by}: '" in desk.said and "write OWNER/NAME" in desk.said and "secret" not in desk.said
    assert ("did you mean acme/kernels?" in desk.said) == name.startswith("https")
    assert not desk.scene.server.log


@pytest.mark.parametrize(
    "words",
    [["moderate", "ban", "alice", "--reason", "x"], ["mine"], ["setup"], ["watch"]],
    ids=lambda words: words[0],
)
def test_a_token_that_github_rejects_is_a_usage_error_in_every_command(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "ledger").mkdir()
    monkeypatch.setattr("scripts.competition.repository.LEDGER", tmp_path / "ledger")
    monkeypatch.setenv("GH_TOKEN", "ghp_wrong")
    desk.call(*words, code=2)
    assert "GitHub rejects this token" in desk.said


def test_submit_names_the_alternatives_in_a_repository_without_drafts(desk: Desk) -> None:
    desk.world.settings["no_drafts"] = True
    said = refused(desk, "--draft")
    assert "has no draft pull requests" in said and "Leave out --draft" in said and "`/benchmark`" in said
    (sent,) = desk.submit()
    assert sent["opened"] and not desk.pulls[0].draft
    desk.submit("--draft", code=2)
    assert "has no draft pull requests" in desk.said


@pytest.mark.parametrize("request_", ["POST */git/blobs", "POST */git/refs", "POST */pulls"])
def test_submit_advises_against_repeating_a_request_that_github_finds_invalid(desk: Desk, request_: str) -> None:
    desk.scene.server.fail(request_, Failure(status=422))
    said = refused(desk)
    assert "will refuse it again" in said and "by hand" in said


@pytest.mark.parametrize("name", ["GH_TOKEN", "GITHUB_TOKEN"])
@pytest.mark.parametrize("token", ["ghp_secret\nx", "ghp_secret x", "ghp_secret€"])
@pytest.mark.parametrize("words", [["watch", "1"], ["submit", "{file}", *QUICK], ["moderate", "list"]])
def test_a_malformed_token_ends_the_command_and_is_never_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, name: str, token: str, words: list[str]
) -> None:
    monkeypatch.delenv("GH_TOKEN")
    monkeypatch.setenv(name, token)
    desk.call(*[word.format(file=desk.file) for word in words], code=2)
    assert "secret" not in desk.said + desk.printed
    assert f"the token in {name} has a space, a line break" in desk.said
    assert not desk.scene.server.log


@pytest.mark.parametrize("request_", ["POST */forks", "POST */git/blobs", "POST */git/refs", "POST */pulls"])
def test_submit_names_the_scope_that_a_token_lacks(desk: Desk, request_: str) -> None:
    desk.scene.server.fail(request_, Failure(status=403))
    said = refused(desk)
    assert "gh auth refresh --scopes repo,workflow" in said and "ghp_" not in said


def test_submit_says_how_to_fix_a_diverged_fork(desk: Desk) -> None:
    desk.world.add_fork(desk.scene.alice)
    own = desk.world.git.commit({"mine.txt": "x"}, parent=desk.world.git.find_commit("main"))
    desk.world.git.set_ref("refs/forks/alice/main", own)
    desk.world.commit({"README.md": "Changed meanwhile."})
    assert "Sync fork → Discard commits" in refused(desk)


WRITES = [
    "POST */forks",
    "POST */merge-upstream",
    "POST */git/blobs",
    "POST */git/trees",
    "POST */git/commits",
    "POST */git/refs",
    "POST */pulls",
]


@pytest.mark.parametrize(
    ("request_", "is_done"), [*((one, False) for one in WRITES[::2]), *((one, True) for one in WRITES[1::2])]
)
def test_a_dropped_connection_costs_one_message_and_the_next_try_continues(
    desk: Desk, request_: str, is_done: bool
) -> None:
    desk.scene.server.fail(request_, Failure(way=Way.RESET, is_done=is_done))
    desk.submit(code=3)
    assert "try again" in desk.said
    desk.submit()
    assert len(desk.pulls) == 1 and desk.world.git.read(desk.pulls[0].head_sha, path_of("alice")) == SOURCE


WAYS = {
    "500": Failure(status=500),
    "404": Failure(status=404),
    "422": Failure(status=422),
    "rate limit": Failure(way=Way.PRIMARY_LIMIT, seconds=3600),
    "drop": Failure(way=Way.RESET),
}
WAY_OUT = re.compile(r"[Tt]ry again|by hand|Discard commits|asks to wait|`gh auth|--repo|`pullrank ")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waits before a request is repeated, or for a fork."""
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr("scripts.ledger.branch.time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr("scripts.github.contribute.FORK_S", 0)
    monkeypatch.setattr("scripts.commands.submit.MAX_FAILURES", 2)


def fails(desk: Desk, way: str, nth: int, *words: str) -> None:
    """Run a command whose calls all fail from the nth on."""
    desk.scene.server.fail("*", WAYS[way], nth=nth, times=1000)
    code = 2 if way in ("404", "422") else 3
    told = desk.call(*words, code=code)
    desk.scene.server.failures.clear()
    said = [line for line in desk.said.splitlines() if not line.endswith("; trying again")]
    assert len(said) == 1 and WAY_OUT.search(said[0]), (nth, way, desk.said)
    assert not [one for one in told if one["event"] in ("submitted", "end")]


def is_git(entry: Any) -> bool:
    return bool(entry.path.startswith("/acme/kernels.git"))


def test_submit_reports_any_failed_call_once_and_the_next_run_recovers(desk: Desk, hasty: None) -> None:
    words = ["submit", str(desk.file), *QUICK, "--no-wait"]
    before = len(desk.scene.server.log)
    desk.call(*words)
    calls = [not is_git(entry) for entry in desk.scene.server.log[before:]].index(False)
    assert calls >= len(WRITES) + 6
    for nth in range(1, calls + 1):
        desk.be(desk.world.add_user(f"user{nth}"))
        for way in list(WAYS)[nth % 3 :: 3]:
            fails(desk, way, nth, *words)
            assert len(desk.pulls) == nth
        desk.call(*words)
        assert len(desk.pulls) == nth + 1
        assert desk.world.git.read(desk.pulls[-1].head_sha, path_of(f"user{nth}")) == SOURCE


def test_watch_reports_any_failed_call_once_and_the_next_run_continues(desk: Desk, hasty: None) -> None:
    desk.submit("--draft")
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    words = ["watch", "--json", "--every", "0.1"]
    before = len(desk.scene.server.log)
    desk.call(*words)
    rest = [is_git(entry) for entry in desk.scene.server.log[before:]].index(True)
    for nth in range(1, rest + 1):
        for way in WAYS.keys() - {"422"}:  # GitHub does not validate requests that only read
            fails(desk, way, nth, *words)
    desk.scene.server.fail("*", WAYS["500"], nth=rest + 1, times=1000)
    *_, end = desk.call(*words)
    assert end["exit_code"] == 0 and end["quota"] == [], "an unknown quota is no reason to fail"


def test_the_next_run_finds_a_pull_request_whose_creation_timed_out(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scripts.github.gh.GitHub", partial(GitHub, timeout_s=3))
    desk.scene.server.fail("POST */pulls", Failure(way=Way.SILENCE, seconds=6, is_done=True))
    desk.submit(code=3)
    assert "try again" in desk.said and len(desk.pulls) == 1
    (sent,) = desk.submit()
    assert (sent["pushed"], sent["opened"], len(desk.pulls)) == (False, False, 1)


def test_watch_survives_an_outage_and_reports_it_once(desk: Desk) -> None:
    desk.submit()
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    desk.scene.server.fail("POST /graphql/Comments/*", Failure(way=Way.HTML), times=2)
    told = desk.call("watch", "1", "--json", "--every", "0.1")
    assert told[-1]["exit_code"] == 0 and desk.said.count("trying again") == 1


def test_watch_names_the_next_command_when_there_is_nothing_to_watch(desk: Desk) -> None:
    desk.call("watch", code=2)
    assert "has no pull request" in desk.said and "`pullrank submit FILE`" in desk.said
    desk.call("watch", "77", code=2)
    assert "404" in desk.said


def test_watch_never_picks_or_follows_a_pull_request_without_a_submission(desk: Desk) -> None:
    other = desk.world.open_pull(desk.scene.alice, {"README.md": "Better."}, branch="docs")
    desk.call("watch", str(other.number), "--json", code=2)
    assert f"#{other.number} is not a submission" in desk.said and "`pullrank watch`" in desk.said
    desk.call("watch", "--json", code=2)
    assert "has no pull request with a submission" in desk.said and "`pullrank submit FILE`" in desk.said
    desk.submit("--draft")
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    for number, files in ((3, {"tasks/vectoradd/notes.md": "Mine."}), (4, {"README.md": "Best."})):
        desk.world.open_pull(desk.scene.alice, files, branch=f"patch-{number}")
    assert desk.call("watch", "--json")[-1]["boards"][0]["gpu"] == "CPU"
    desk.world.close(desk.pulls[1])
    assert desk.call("watch", "--json")[-1]["exit_code"] == 0, "the newest submission, although closed"


def test_a_file_in_a_wrong_place_is_followed_until_it_is_refused(desk: Desk) -> None:
    pull = desk.world.open_pull(desk.scene.alice, {"submissions/vectoradd/kernel.py": SOURCE})
    assert not seen(desk, pull.number).is_done
    desk.scene.intake()
    refusal, end = desk.call("watch", "--json", code=2)
    assert path_of("alice") in refusal["reason"] and end["exit_code"] == 2


def test_watch_reports_a_silent_bot_once_and_says_where_to_look(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.commands.submit.ANSWER_S", 0.2)
    desk.submit("--draft")
    before = len(desk.scene.server.requests("POST /graphql/Comments/*"))
    told: list[dict[str, Any]] = []
    watching = Thread(target=lambda: told.extend(desk.call("watch", "--json", "--every", "0.1")))
    watching.start()
    while len(desk.scene.server.requests("POST /graphql/Comments/*")) < before + 8:
        assert watching.is_alive()
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    watching.join(30)
    assert desk.said.count("the bot has not answered yet") == 1
    assert f"{desk.scene.server.url}/acme/kernels/actions/workflows/intake.yml shows" in desk.said
    assert told[-1]["exit_code"] == 0


def test_an_older_commits_refusal_does_not_count_for_the_new_one(desk: Desk) -> None:
    pull = desk.world.open_pull(
        desk.scene.alice, {path_of("alice"): b"def kernel(data): pass\n"}, branch="pullrank/alice/vectoradd"
    )
    desk.world.add_fork(desk.scene.alice)
    desk.scene.intake()
    assert "custom_kernel" in desk.scene.comment(pull.number)
    told: list[dict[str, Any]] = []
    words = ["submit", str(desk.file), *QUICK]
    handing_in = Thread(target=lambda: told.extend(desk.call(*words)))
    handing_in.start()
    while not any(event.payload.get("action") == "synchronize" for event in desk.scene.events):
        assert handing_in.is_alive()
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    handing_in.join(30)
    assert told[-1]["exit_code"] == 0, told


def seen(desk: Desk, number: int = 1) -> PullStatus:
    with connect(desk.world.repository, desk.world.personal_token(desk.scene.alice).value) as github:
        return look(github, number)


BAD = b"def kernel(data): pass\n"


def test_watch_reports_the_refusal_of_each_commit_despite_earlier_results(desk: Desk) -> None:
    pull = desk.scene.submit(desk.scene.alice, SOURCE)
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest(wrong="output[3] is 1.5"))
    for source in (BAD, BAD + b"# again\n"):
        desk.world.push(pull, {path_of("alice"): source})
        assert not seen(desk).is_done
        desk.scene.intake()
        news = seen(desk)
        assert news.is_done and news.exit_code == 2 and "custom_kernel" in news.refusal


def test_watch_still_reads_a_refusal_without_its_commit(desk: Desk) -> None:
    pull = desk.scene.submit(desk.scene.alice, BAD)
    (comment,) = desk.world.comments_on(pull.number)
    comment.body, count = re.subn(r'(pullrank:notice \{"tone":"WARNING")[^}]*', r"\1", comment.body)
    assert count == 1 and "custom_kernel" in seen(desk).refusal


def test_a_late_refusal_ends_watch_with_exit_code_2_and_the_reason(desk: Desk) -> None:
    desk.scene.submit(desk.scene.alice, SOURCE)
    with LedgerBranch(str(desk.world.git.path)) as branch:
        at = datetime.now(UTC).replace(microsecond=0)
        ban = Moderation(action=Action.BAN, id="m-1", user_id=desk.scene.alice.id, reason="copied", by=1, at=at)
        branch.ledger.append_fact(ban)
        branch.commit("ban")
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    board, refusal, end = desk.call("watch", "1", "--json", code=2)
    assert board["state"] == end["boards"][0]["state"] == "refused"
    assert refusal["event"] == "refused" and "copied" in refusal["reason"]
    desk.call("watch", "1", code=2)
    assert "/rerun" not in desk.printed


def test_watch_names_a_board_beyond_the_quota_and_exits_with_2(desk: Desk) -> None:
    two_boards(desk.scene)
    settings = desk.scene.root / ".github/pullrank.yml"
    settings.write_text(re.sub(r"ranked_per_day: \d+", "ranked_per_day: 1", settings.read_text()))
    desk.scene.intake()
    (run_,) = desk.scene.waiting()
    desk.scene.evaluate(run_, of_its_board(desk.scene))
    board, left, end = desk.call("watch", "1", "--json", code=2)
    (other,) = {"CPU", "H100"} - {board["gpu"]}
    assert board["state"] == "accepted" and end["exit_code"] == 2
    assert (left["event"], left["gpus"]) == ("left out", [other]) and f"`/rank gpu={other}`" in left["reason"]
    desk.call("watch", "1", code=2)
    assert f"Not judged on `{other}`" in desk.printed and "fix the file" not in desk.printed


def test_watch_promises_no_rank_if_nothing_was_ranked(desk: Desk) -> None:
    desk.submit()
    desk.scene.root = desk.scene.copy_of_main()
    with (desk.scene.root / "tasks" / "vectoradd" / "task.yml").open("a") as task:
        task.write("\ndeadline: 2026-01-01T00:00:00Z\n")
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    desk.call("watch", "1")
    assert "accepted, but not ranked" in desk.printed and "pullrank mine" not in desk.printed


def test_watch_names_only_the_boards_that_did_not_judge_a_file(desk: Desk) -> None:
    two_boards(desk.scene)
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], of_its_board(desk.scene))
    desk.world.add_comment(desk.pulls[0].number, desk.scene.alice, "/cancel")
    desk.scene.intake()
    *_, end = desk.call("watch", "1", "--json", code=3)
    assert {board["state"] for board in end["boards"]} == {"accepted", "ended"}
    (ended,) = (board["gpu"] for board in end["boards"] if board["state"] == "ended")
    desk.call("watch", "1", code=3)
    assert f"not judged on {ended}, and the bot does not try again" in desk.printed


def test_the_gap_to_first_place_is_a_number(desk: Desk) -> None:
    for author, source, ratio in ((desk.scene.alice, SOURCE, 0.5), (desk.world.add_user("bob"), FASTER, 0.9)):
        desk.scene.submit(author, source + author.login.encode().join((b"# ", b"\n")))
        desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest(ratio=ratio))
    (board,) = seen(desk, 2).boards
    assert board.rank == (2, 2) and board.gap == pytest.approx(0.8)
    assert replace(board, result={"standing": "?"}).gap is replace(board, result=None).gap is None


def test_watch_prints_its_last_line_without_settings_too(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.scene.submit(desk.scene.alice, SOURCE)
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    monkeypatch.setattr("scripts.submit.ending.ROOT", desk.scene.folder)
    end = desk.call("watch", "1", "--json")[-1]
    assert (end["event"], end["quota"]) == ("end", [])


def test_a_draft_that_becomes_ready_is_followed_until_it_is_ranked(desk: Desk) -> None:
    desk.submit("--draft")
    desk.scene.intake()
    desk.scene.evaluate(desk.scene.waiting()[0], desk.scene.honest())
    desk.call("watch", "1")
    assert "`pullrank submit FILE` without --draft" in desk.printed and "pullrank mine" not in desk.printed
    desk.submit()
    assert not seen(desk).is_done
    desk.scene.intake()
    assert [board.stage for board in seen(desk).boards] == [BoardProgress.QUEUED]


# Pure functions.


@pytest.mark.parametrize(
    ("stages", "changes", "code"),
    [
        ([BoardProgress.ACCEPTED, BoardProgress.ACCEPTED], {}, 0),
        ([BoardProgress.ACCEPTED, BoardProgress.REJECTED], {}, 1),
        ([BoardProgress.ACCEPTED, BoardProgress.ENDED], {}, 3),
        ([BoardProgress.ACCEPTED, BoardProgress.REFUSED], {}, 2),
        ([BoardProgress.ACCEPTED], {"left_out": ("H100",)}, 2),
        ([], {"refusal": "No."}, 2),
    ],
)
def test_the_exit_code_is_that_of_the_worst_board(
    stages: list[BoardProgress], changes: dict[str, Any], code: int
) -> None:
    boards = tuple(BoardNews(gpu="CPU", mode="ranked", stage=stage, summary="") for stage in stages)
    assert PullStatus(pull=cast(PullRequest, None), boards=boards, **changes).exit_code == code


def test_a_blobs_digest_matches_gits() -> None:
    assert blob_sha(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


@pytest.mark.parametrize(
    "text", ["", "no fence", "```json\n{\n```", "```json\n[1]\n```", "```json\n" + "[" * 100_000 + "\n```"]
)
def test_a_check_run_without_facts_has_no_result(text: str) -> None:
    assert read_result(text) is None


def test_the_result_of_a_check_run_is_read() -> None:
    assert read_result('Words.\n```json\n{"verdict": "AC"}\n```\n') == {"verdict": "AC"}
    assert re.fullmatch("[a-z ]+", BoardProgress.REJECTED)
