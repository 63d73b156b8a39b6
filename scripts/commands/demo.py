"""`pullrank demo`: a whole competition in a scratch folder, without GitHub and without a GPU.

the tasks' examples ─► the pull requests of six fictional logins
  each: judge ─► ledger ─► standings ─► the comment that the pull request would get
then: the boards, the site, and a server on loopback that shows it
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml
from rich.markdown import Markdown
from rich.rule import Rule

from harness.records.errors import PullRankError, TaskError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.system import require_linux
from harness.records.verdict import Verdict
from harness.task.faults import Faults
from harness.task.submission import Champion, Submission
from harness.task.task import Board, Task, load_task
from harness.task.yaml_file import read_yaml
from scripts.boards.board_facts import facts_of
from scripts.boards.tables import standings_table
from scripts.bot.comment.judgement_section import render
from scripts.commands.site import serve_until_interrupted
from scripts.common.options import PATH
from scripts.common.terminal import Display, console, stdout_to_stderr
from scripts.competition.repository import TASKS, require_clone
from scripts.ledger.ledger import Ledger
from scripts.standings.standings import Standings, standings

if TYPE_CHECKING:
    from scripts.pages.publishing.publish import SiteReport

NOTICE = (
    "A demo: the authors are fictional, the entries are the tasks' own examples, and only the first benchmark of each "
    "task is played."
)
UNWALLED = "Judged without a sandbox: for your own code only."


@dataclass(frozen=True, kw_only=True)
class DemoEntry:
    """One pull request of the demo.  `guess_s` is its approximate duration on two cores."""

    login: str
    task: str
    example: str
    guess_s: float = 3

    @property
    def name(self) -> str:
        return f"{self.login}, {self.task}, {self.example}"


ENTRIES = (
    DemoEntry(login="ben-sample", task="vectoradd", example="wrong_answer/forgets_the_tail.py"),
    DemoEntry(login="ada-sample", task="vectoradd", example="accepted/in_float32.py", guess_s=11),
    DemoEntry(login="ben-sample", task="vectoradd", example="compile_error/missing_module.py"),
    DemoEntry(login="cleo-sample", task="vectoradd", example="accepted/in_place.py", guess_s=20),
    DemoEntry(login="dan-sample", task="matmul", example="accepted/slices.py", guess_s=11),
    DemoEntry(login="fay-sample", task="matmul", example="wrong_answer/half_precision_sum.py"),
    DemoEntry(login="eve-sample", task="softmax", example="accepted/textbook.py", guess_s=11),
    DemoEntry(login="dan-sample", task="softmax", example="wrong_answer/one_maximum_for_all.py"),
    DemoEntry(login="dan-sample", task="softmax", example="accepted/fused.py", guess_s=8),  # a baseline: no duel
    DemoEntry(login="fay-sample", task="prefixsum", example="run_time_error/null_pointer.py"),
    DemoEntry(
        login="eve-sample", task="prefixsum", example="time_limit_exceeded/waits_for_its_predecessor.py", guess_s=12
    ),
    DemoEntry(login="fay-sample", task="prefixsum", example="accepted/three_steps.py", guess_s=11),
)

BENCHMARKS = {
    "vectoradd": {"size": 1024},
    "matmul": {"m": 128, "n": 128},
    "softmax": {"rows": 256},
    "prefixsum": {"size": 1 << 18},
}
"""Parameters that make a task's first benchmark small."""


@click.command()
@click.option("--serve/--no-serve", default=True, help="Serve the site until Ctrl-C. Default: --serve.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: any free port.")
@click.option("--out", type=PATH, help="Keep ledger, tasks, submissions and site in this new folder.")
def demo(serve: bool, port: int, out: Path | None) -> int:
    """Run a whole competition on this machine and show its leaderboard.

    Judges a dozen entries of six fictional authors in about a minute. Needs no GPU and no GitHub.

    Example: pullrank demo --no-serve --out demo
    """
    require_linux()
    from harness.shared_sandbox import share_sandbox
    from scripts.pages.publishing.serve import require_port

    require_clone("demo")
    if serve:
        require_port(port)  # before a minute of work
    with _scratch_folder(out) as folder:
        competition = DemoCompetition(folder, tasks_of(ENTRIES, folder / "tasks"), faults=_wall_faults())
        with share_sandbox():
            exit_code = competition.hold(ENTRIES)
        competition.show_boards()
        site, report = competition.build_site()
        for line in report.lines:
            click.echo(line, err=True)
        if serve:
            click.echo(f"The site: {report.pages} pages in {site}")
            serve_until_interrupted(site, port)
        elif out:
            click.echo(f"The site: {report.pages} pages in {site}\nServe it: pullrank site serve {site}")
        else:
            click.echo(
                f"The site had {report.pages} pages and was deleted: keep it with --out FOLDER, or look at it with "
                "--serve."
            )
    return exit_code


@contextlib.contextmanager
def _scratch_folder(out: Path | None) -> Iterator[Path]:
    if out is None:
        with tempfile.TemporaryDirectory(prefix="pullrank-demo-") as scratch:
            yield Path(scratch)
        return
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise PullRankError(f"--out {out}: it must be a new or empty folder")
    out.mkdir(parents=True, exist_ok=True)
    yield out


def _wall_faults() -> str:
    """Why the sandbox does not work on this machine, and how to fix that; empty if it works."""
    from harness.sandbox.works_here import find_faults

    faults = "; ".join(find_faults())
    if faults:
        click.echo(f"{UNWALLED} {faults}\n", err=True)
    return faults


def tasks_of(entries: Sequence[DemoEntry], folder: Path) -> dict[str, Task]:
    """The tasks, copied to `folder` in a short edition: the CPU board, one benchmark, tight time limits.

    Their memory limits are equal, so that one sandbox serves them all.

    Raises:
        TaskError: a competition has deleted one of them.
    """
    names = tuple(dict.fromkeys(entry.task for entry in entries))
    missing = [name for name in names if not (TASKS / name / "task.yml").is_file()]
    if missing:
        raise TaskError(
            f"the demo judges tasks of the template, and this clone lacks {', '.join(missing)}: run it in a clone of "
            "the template"
        )
    tasks = {}
    for name in names:
        shutil.copytree(TASKS / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        path = folder / name / "task.yml"
        facts = read_yaml(path, Faults(path)) or {}
        facts.pop("deadline", None)  # a competition closes tasks that it does not use
        rules = facts["per_gpu"]["CPU"] | {"case_timeout": 1, "compile_timeout": 12, "memory_gib": 4}
        rules["benchmarks"] = [rules["benchmarks"][0] | BENCHMARKS[name]]
        path.write_text(yaml.safe_dump(facts | {"gpus": ["CPU"], "per_gpu": {"CPU": rules}}, sort_keys=False), "utf-8")
        tasks[name] = load_task(folder / name)
    return tasks


class DemoCompetition:
    """A competition in a folder: its ledger and its files.

    `faults` says why the sandbox does not work; if it is empty, everything is judged in the sandbox.
    """

    def __init__(self, folder: Path, tasks: dict[str, Task], *, faults: str = "") -> None:
        self.folder = folder
        self.tasks = tasks
        self.faults = faults
        self.ledger = Ledger(folder / "ledger")
        self._files: dict[str, Submission] = {}  # by digest
        self._stdout = console()

    @property
    def is_sandboxed(self) -> bool:
        return not self.faults

    def hold(self, entries: Sequence[DemoEntry]) -> int:
        """Judge all entries in turn, and print the comment that each pull request would get.

        Returns the exit code: 0, or that of the worst error that kept an entry from being judged.
        """
        exit_code = 0
        with Display(console(stderr=True), [entry.guess_s for entry in entries]) as display:
            for number, entry in enumerate(entries, start=1):
                display.begin(entry.name)
                try:
                    comment = self.judge(entry, number, display)
                except PullRankError as error:
                    comment = f"{Verdict.JUDGING_ERROR.label} ({Verdict.JUDGING_ERROR}): {error}"
                    exit_code = max(exit_code, error.exit_code)
                display.clear()
                self._stdout.print(Rule(f"#{number} {entry.name}", align="left"))
                is_terminal = self._stdout.is_terminal
                self._stdout.print(Markdown(comment) if is_terminal else comment, soft_wrap=not is_terminal)
        return exit_code

    def judge(self, entry: DemoEntry, number: int, display: Display) -> str:
        """Judge one entry, add it to the ledger, and return the comment."""
        from harness.judge import judge

        submission = self._submit(entry, number)
        board = self.tasks[entry.task].board("CPU")
        champion = self._champion_for(board, submission)
        with stdout_to_stderr():
            judgement = judge(
                board,
                submission,
                Mode.RANKED,
                sandbox="bubblewrap" if self.is_sandboxed else "none",
                champion=champion,
                on_progress=display.show,
            )
        self.ledger.append(judgement, f"demo-{number:02}")
        return render(judgement, board, self.standings(board))

    def _submit(self, entry: DemoEntry, number: int) -> Submission:
        source = (self.tasks[entry.task].folder / "examples" / entry.example).read_bytes()
        folder = self.folder / "submissions" / entry.task / entry.login
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "submission.py").write_bytes(source)
        head = hashlib.sha1(source, usedforsecurity=False).hexdigest()
        submission = Submission(
            login=entry.login, source=source, name="submission.py", pull_request=number, head_sha=head
        )
        self._files[submission.digest] = submission
        return submission

    def _champion_for(self, board: Board, submission: Submission) -> Champion | None:
        """The champion that an author has to beat; None without one, if it is theirs, or if the file takes no rank."""
        ranked = self.standings(board)
        first = ranked.champion
        if not first or first.login == submission.login or board.task.baseline_name(submission.digest):
            return None
        return Champion(submission=self._files[first.digest], score=first.score_us, nominal_us=ranked.nominal_us)

    def standings(self, board: Board) -> Standings:
        judged = self.ledger.judgements(board.task.name, board.gpu).judgements
        return standings(board, judged, allow_unwalled=not self.is_sandboxed)

    def show_boards(self) -> None:
        self._stdout.print(Rule("The boards"))
        for task in self.tasks.values():
            self._stdout.print(standings_table(facts_of(self.standings(task.board("CPU")))), "")

    def build_site(self) -> tuple[Path, SiteReport]:
        """Build the site; return its folder and the report."""
        from scripts.pages.parts.site import Site
        from scripts.pages.publishing.publish import build_site

        out = self.folder / "_site"
        site = Site(
            sources=self._source_of,
            title="PullRank demo",
            now=datetime.now(UTC),
            notice=NOTICE if self.is_sandboxed else f"{NOTICE} {UNWALLED} {self.faults}",
        )
        tasks = list(self.tasks.values())
        return out, build_site(tasks, self.ledger, out, site, allow_unwalled=not self.is_sandboxed)

    def _source_of(self, judgement: Judgement) -> str | None:
        file = self._files.get(judgement.submission.digest)
        return file.text if file else None
