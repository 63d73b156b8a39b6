"""From nothing to a row and a message on Discord: for an AI agent that has only read AGENTS.md, and for a person who
knows `pullrank --help`.

    the agent    clone, tasks, init, test, submit, Ctrl-C, watch, board, mine     the lines of AGENTS.md, as processes
    the person   the same, at a terminal: each command from the output of the one before
    GitHub       intake, resolve, judge, report, publish, announce                the steps of the shipped workflows

Nothing is replaced: the bundle's judge judges in the sandbox, and `--site` reads the published site over HTTP.
"""

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from PIL import Image

from harness.records.judgement import CaseResult, Judgement
from harness.records.times import Timing
from harness.records.verdict import Verdict
from scripts.ledger.request import Request
from scripts.pages.publishing.serve import site_server, url_of
from tests.competition import ROOT, Scene, zipped
from tests.discord_server import Discord
from tests.github_server import Run
from tests.terminal import CTRL_C, Terminal

pytestmark = pytest.mark.walls

Json = dict[str, Any]

SHIPPED = (".github", "harness", "scripts", "site", "AGENTS.md", "requirements.lock")
AGENTS = (ROOT / "AGENTS.md").read_text()
LOOP = re.findall(r"^pullrank (.+?) +#", AGENTS, re.MULTILINE)
IDEA = "import torch\n\n\ndef custom_kernel(data):\n    return torch.add(data, 1)\n"


class Cup(Scene):
    """A competition with one quick task that its organiser has just published."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, discord: Discord) -> None:
        super().__init__(folder, monkeypatch)
        self.webhook = discord.add_webhook()
        self._ship(folder / "shipped")
        self.root, self.pages = folder / "checkout", folder / "pages"
        subprocess.run(["git", "clone", "--quiet", str(self.world.git.path), str(self.root)], check=True)

    def _ship(self, folder: Path) -> None:
        unwanted = shutil.ignore_patterns("__pycache__")
        for name in SHIPPED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            folder.mkdir(exist_ok=True)
            copy(ROOT / name, folder / name, **({"ignore": unwanted} if copy is shutil.copytree else {}))
        shutil.copytree(ROOT / "tests/tasks/tiny", folder / "tasks/tiny", ignore=unwanted)
        git, index = self.world.git, {"GIT_INDEX_FILE": str(folder.with_name("index"))}
        git.git("--work-tree", str(folder), "add", "--all", env=index)
        tree = git.git("write-tree", env=index).decode().strip()
        git.set_ref("refs/heads/main", git.commit_tree(tree, [], "A competition"))

    def publish(self, site: str) -> None:
        """Run the jobs of publish.yml; between them, the site goes to its address."""
        shutil.rmtree(self.pages, ignore_errors=True)
        assert self.step("publish", "--out", str(self.pages), workflow="publish.yml", job="build") == 0
        told = {"SITE": site, "DISCORD_WEBHOOK": self.webhook}
        assert self.step("announce", workflow="publish.yml", job="announce", **told) == 0

    def play(self) -> None:
        """Do what GitHub does for a new pull request, until it is judged."""
        self.intake()
        (run,) = self.waiting()
        self.evaluate(run, self.judged_in_the_bundle)

    def judged_in_the_bundle(self, request: Request, run: Run) -> bytes:
        """Judge the bundle as evaluate.yml does."""
        bundle, out = self.folder / f"bundle-{run.id}", self.folder / "judgement.json"
        call = [sys.executable, "-I", str(bundle / "harness.pyz"), "judge", str(bundle / "bundle.zip")]
        call += ["--digest", self.resolved[run.id]["digest"], "--out", str(out), "--run-url", self.run_url(run)]
        subprocess.run(call, check=True, capture_output=True)
        return zipped(as_on_a_quiet_machine(Judgement.from_json(out.read_bytes())).to_json().encode())


def as_on_a_quiet_machine(judgement: Judgement) -> Judgement:
    """The same judgement with all runs like the first: on a busy machine its row could be provisional."""

    def steady(case: CaseResult) -> CaseResult:
        if not (timing := case.timing):
            return case
        one, other = timing.submission[0], timing.anchor[0]
        rest = {name: getattr(timing, name) for name in ("overhead_us", "bound_us", "steady", "note", "gpu")}
        runs = (one,) * len(timing.submission), (other,) * len(timing.anchor)
        return case.model_copy(update={"timing": Timing.of(*runs, **rest)})

    return judgement.model_copy(update={"cases": tuple(map(steady, judgement.cases))})


class Agent:
    """An agent in its clone: it uses only commands of AGENTS.md."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        subprocess.run(["git", "clone", "--quiet", scene.server.git_url, str(folder)], check=True)
        for name in ("harness", "scripts"):  # the same files, with Python's compiled ones
            shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True)
        self.folder = folder
        self._call = [sys.executable, "-m", "scripts.cli"]
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PULLRANK_"))},
            "PYTHONPATH": str(folder),
            "GH_TOKEN": scene.world.personal_token(scene.alice).value,
            "GITHUB_API_URL": scene.server.api_url,  # in place of github.com
            "GITHUB_SERVER_URL": scene.server.url,
        }

    def say(self, line: str, *more: str, code: int = 0, **words: str) -> Any:
        """Run a line of AGENTS.md, with its capitals filled in; returns its output, parsed if JSON."""
        with self.start(line, *more, **words) as running:
            printed, said = running.communicate(timeout=120)
        assert running.returncode == code, said
        return json.loads(printed) if "--json" in line else printed

    def start(self, line: str, *more: str, **words: str) -> subprocess.Popen[str]:
        assert line in LOOP or f"`pullrank {line}`" in AGENTS, f"AGENTS.md does not say {line!r}"
        for name, value in words.items():
            line = line.replace(name, value)
        return subprocess.Popen(
            [*self._call, *line.split(), *more],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip


class Person(Agent):
    """A person at a terminal who types the commands that the output names."""

    def type(self, command: str) -> Terminal:
        name, *words = command.split()
        assert name == "pullrank"
        return Terminal([*self._call, *words], columns=80, folder=self.folder, environment=self._environment)

    def read(self, terminal: Terminal) -> str:
        """The whole output, without line breaks; the terminal's edge must cut no line."""
        assert terminal.end() == 0, terminal.text
        assert terminal.too_long == []
        return " ".join(terminal.text.split())

    def follow(self, said: str, name: str, **words: str) -> str:
        """The command of this name in the output, with its capitals filled in."""
        command = next(one for one in re.findall(r"`(pullrank [^`]+)`", said) if one.split()[1] == name)
        for capitals, value in words.items():
            command = command.replace(capitals, value)
        return command


def lines_of(stream: IO[str] | None) -> Iterator[Json]:
    assert stream
    return map(json.loads, stream)


@pytest.fixture
def cup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, discord: Discord) -> Iterator[Cup]:
    made = Cup(tmp_path, monkeypatch, discord)
    with made.server:
        yield made


@pytest.fixture
def site(cup: Cup) -> Iterator[str]:
    """The published site's address; its channel on Discord gets all news from now on."""
    cup.publish("http://127.0.0.1:9/")
    with site_server(cup.pages) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        pages = {"url": cup.world.api_url, "status": "built", "cname": None, "custom_404": True, "public": True}
        cup.world.settings["pages"] = pages | {"build_type": "workflow", "html_url": url_of(server)}
        yield url_of(server)
        server.shutdown()


def test_an_agent_gets_from_nothing_to_a_row_and_a_message(cup: Cup, site: str, discord: Discord) -> None:
    agent = Agent(cup, cup.folder / "agent")

    # Locally: a task, a folder, an idea, a test.
    (task,) = agent.say("tasks --json")
    assert task["name"] == "tiny" and task["gpus"] == ["CPU"]
    agent.say("init TASK", TASK=task["name"])
    agent.folder /= task["name"]
    assert {path.name for path in agent.folder.iterdir()} == {"submission.py", "AGENTS.md", "task"}
    file = agent.folder / "submission.py"
    directive = file.read_text().splitlines()[0]
    file.write_text(f"{directive}\n{IDEA}")
    assert agent.say("test submission.py --json")["verdict"] == "AC"

    # On GitHub: submitted, interrupted, and watched until it is judged.
    with agent.start("submit submission.py --json") as submitting:
        tested, submitted = (next(lines_of(submitting.stdout)) for _ in range(2))
        submitting.send_signal(signal.SIGINT)
        said = submitting.communicate(timeout=60)[1]
    assert (tested["event"], tested["verdict"]) == ("tested", "AC")
    assert submitted["event"] == "submitted" and submitting.returncode == 130
    assert f"the judging goes on; `pullrank watch {submitted['pull_request']}` shows it" in said
    with agent.start("watch --json", "--every", "0.2") as watching:
        cup.play()
        *_, board, end = lines_of(watching.stdout)
        assert watching.wait(60) == 0
    assert (board["state"], board["rank"], board["of"]) == ("accepted", 1, 1)
    (benchmark,) = (case for case in board["result"]["cases"] if case["kind"] == "benchmark")
    assert benchmark["time_us"] and benchmark["ratio"] and board["result"]["claim"] == "bounded"
    assert (
        end["exit_code"] == 0
        and {one["limit"]: one["used"] for one in end["quota"]}["ranked judgings in 24 hours"] == 1
    )
    assert end["site"] == site

    # The result: a judgement, a file on main, a page, a message.
    (judgement,) = cup.judgements()
    assert (judgement.verdict, judgement.sandbox.kind) == (Verdict.ACCEPTED, "bubblewrap")
    assert judgement.submission.digest == hashlib.sha256(file.read_bytes()).hexdigest()
    assert cup.world.git.read("main", "submissions/tiny/alice/submission.py") == file.read_bytes()
    assert cup.runs("publish.yml")
    cup.publish(site)
    shown = agent.say("board TASK --json --site URL", TASK="tiny", URL=site)
    (row,) = shown["rows"]
    assert (row["login"], row["rank"], row["digest"]) == ("alice", 1, judgement.submission.digest)
    (mine,) = agent.say("mine LOGIN --json --site URL", LOGIN="alice", URL=site)["rows"]
    assert mine["score_us"] == row["score_us"] and mine["of"] == 1 and mine["ahead"] is None
    page = f"{site}tiny/CPU/alice/{row['digest'][:12]}/"
    replayed = agent.say("verify PAGE --file submission.py --json", PAGE=page)
    assert replayed["judgement"] == judgement.checksum and replayed["verdicts"] == ["AC", "AC"]
    assert replayed["same"] and replayed["outputs"] == {"same bits": 3} and replayed["cases"][-1]["ratios"]
    (message,) = discord.messages
    embed = message.embed
    assert embed["title"] == "alice makes the first entry: Add one, CPU" and embed["url"] == f"{site}tiny/CPU/"
    with urllib.request.urlopen(embed["image"]["url"]) as picture:
        assert Image.open(io.BytesIO(picture.read())).size == (1200, 630)


def test_a_person_gets_from_help_to_a_row_and_a_message(cup: Cup, site: str, discord: Discord) -> None:
    person = Person(cup, cup.folder / "person")

    def go_on(said: str, name: str, **words: str) -> str:
        return person.read(person.type(person.follow(said, name, **words)))

    said = go_on(person.read(person.type("pullrank --help")), "tasks")
    task = said.split("Open ")[1].split()[0]
    said = go_on(said, "init", TASK=task)
    file = person.folder / task / "submission.py"
    file.write_text(f"{file.read_text().splitlines()[0]}\n{IDEA}")

    submitting = person.type(person.follow(said, "submit"))
    submitting.until("waiting for the bot")
    submitting.press(CTRL_C)
    assert submitting.end() == 130
    watching = person.type(person.follow(" ".join(submitting.text.split()), "watch") + " --every 0.2")
    cup.play()
    said = person.read(watching)
    assert "accepted Rank 1 of 1 with" in said

    cup.publish(site)
    said = go_on(said, "mine")
    assert "tiny / CPU 1 of 1" in said
    said = go_on(said, "board")
    assert re.search(r"Add one on CPU .* 1 alice ", said)
    (message,) = discord.messages
    assert message.embed["title"] == "alice makes the first entry: Add one, CPU"
