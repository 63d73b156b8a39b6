"""A competition for tests: a GitHub on loopback, a ledger on a real branch, and the steps of the shipped workflows.

scene.world.open_pull(…)        ─▶  notes an event
scene.intake()                  ─▶  `pullrank ci intake` for each noted event, as in intake.yml
scene.evaluate(request, make)   ─▶  resolve, the judgement that `make` builds, report, as in evaluate.yml
scene.reconcile()               ─▶  `pullrank ci reconcile`
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.records.counters import Counters, Kernel, LaunchFilter
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.profile import CpuCounters, Operation, Profile
from harness.records.provenance import harness_digest
from harness.records.stats import DUEL_LOOKS, fewest_blocks
from harness.records.times import Duel, DuelCase, Run, Timing, duel_ratio
from harness.records.verdict import Verdict
from harness.task.task import Board, load_task
from scripts import cli
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.request import Request
from tests.github_server import Event, GitHubServer, Pull, User, World, shapes
from tests.github_server import Run as WorkflowRun
from tests.github_server.settings_api import SITE

ROOT = Path(__file__).parent.parent
SOURCE = b"def custom_kernel(data):\n    return data[0] + data[1]\n"
FASTER = b"def custom_kernel(data):\n    a, b = data\n    return a + b\n"
OWN = b"""
def custom_kernel(data):
    a, b, out = data
    for start in range(0, a.numel(), 4096):
        stop = min(start + 4096, a.numel())
        left = a.view(-1)[start:stop]
        right = b.view(-1)[start:stop]
        out.view(-1)[start:stop] = left.float() + right.float() * 1.0
        if start > 10 and stop < 99 and left.numel() != right.numel():
            raise ValueError("sizes differ", start, stop)
    return out
"""
COPIED = OWN.replace(b"left", b"mine").replace(b"start", b"i").replace(b"    a, b", b"    # my own\n    a, b")
"""A file long enough to count as somebody's own, and a copy of it."""
Make = Callable[[Request, WorkflowRun], Judgement | bytes | None]


@cache
def jobs_of(workflow: str) -> dict[str, Any]:
    """A shipped workflow's jobs."""
    jobs: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows" / workflow).read_text())["jobs"]
    return jobs


def path_of(login: str) -> str:
    return f"submissions/vectoradd/{login}/submission.py"


def the_board(root: Path = ROOT) -> Board:
    return _shipped_board() if root == ROOT else load_task(root / "tasks" / "vectoradd").board("CPU")


@cache
def _shipped_board() -> Board:
    return load_task(ROOT / "tasks" / "vectoradd").board("CPU")


def timing(ratio: float, spread: float = 0.0) -> Timing:
    """Six pairs, with ratios up to `spread` above and below `ratio`, in logarithms."""
    anchor, own = (
        tuple(
            Run(order=n, warmups_us=(), samples_us=(us * math.exp(wide * (n - 2.5) / 2.5),), seeds=(n,))
            for n in range(6)
        )
        for us, wide in ((100.0, 0.0), (100 * ratio, spread))
    )
    return Timing.of(own, anchor, overhead_us=1.0, bound_us=1.0, steady=True, note="")


def cases_of(board: Board, mode: Mode, ratio: float, wrong: str = "", spread: float = 0.0) -> list[CaseResult]:
    good: dict[str, Any] = {"verdict": Verdict.ACCEPTED, "seconds": 1.0}
    cases = [CaseResult(kind=CaseKind.BUILD, params={}, **good)]
    cases += [CaseResult(kind=CaseKind.TEST, params=dict(case.params), **good) for case in board.tests]
    if wrong:
        cases[-1] = cases[-1].model_copy(update={"verdict": Verdict.WRONG_ANSWER, "message": wrong})
    elif mode is not Mode.TEST:
        cases += [
            CaseResult(kind=CaseKind.BENCHMARK, params=dict(case.params), timing=timing(ratio, spread), **good)
            for case in board.benchmarks
        ]
    return cases


def profiles_of(board: Board) -> tuple[CaseResult, ...]:
    """An honest judge's judgement of a profile on a GPU."""
    kernel = Kernel(name="add", launches=1, time_us=9.0, compute=0.1, memory=0.9, occupancy=0.8, registers=32)
    chosen = LaunchFilter(kernel="add", skip=1, count=2)
    counters = Counters(tool="ncu", kernels=(kernel,), report_bytes=259, chosen=chosen)
    operation = Operation(name="aten::add", on_device=False, calls=1, own_us=80.0)
    cpu = CpuCounters(
        cpu_us=95.0, page_faults=2, context_switches=1, cycles=300, instructions=500, cache_misses=7, branch_misses=3
    )
    profile = Profile(call_us=90.0, operations=(operation,), counters=counters, cpu=cpu)
    good: dict[str, Any] = {"verdict": Verdict.ACCEPTED, "seconds": 1.0, "profile": profile}
    profiles = (CaseResult(kind=CaseKind.PROFILE, params=dict(case.params), **good) for case in board.benchmarks)
    return (*cases_of(board, Mode.TEST, 0.5), *profiles)


def judgement_of(
    request: Request, run_url: str, *, ratio: float = 0.5, wrong: str = "", spread: float = 0.0, **changes: Any
) -> Judgement:
    """An honest judge's judgement for a request."""
    now = datetime.now(UTC)
    fields: dict[str, Any] = {
        "task": request.task, "edition": the_board().edition, "gpu": request.gpu, "mode": request.mode,
        "submission": SubmissionInfo(
            login=request.login, user_id=request.user_id, pull_request=request.pull_request,
            head_sha=request.head_sha, digest=request.digest or "", lines=2,
        ),
        "verdict": Verdict.WRONG_ANSWER if wrong else Verdict.ACCEPTED, "message": wrong,
        "cases": tuple(cases_of(the_board(), request.mode, ratio, wrong, spread)), "claim": Claim.BOUNDED,
        "machine": Machine(
            device="CPU", cpu="c", cores=2, memory_gib=8.0, os="L", python="3", torch="2", software={"Triton": "3.7.1"},
            quiet=True,
        ),
        "sandbox": SandboxInfo(kind="bubblewrap", stop="signals"),
        "harness": HarnessInfo(version="0.1.0", method=1, digest=harness_digest()),
        "started_at": now, "finished_at": now, "run_url": run_url,
    }  # fmt: skip
    return Judgement(**(fields | changes))


def duel_with(opponent: str, source: bytes, ratio: float, earlier: int = 0) -> Duel:
    """A duel of as few blocks as can be won: below 1, the challenger was faster."""
    blocks = next(look for look in DUEL_LOOKS if look >= fewest_blocks(earlier))
    challenger, champion = (
        tuple(Run(order=n, warmups_us=(), samples_us=(us,), seeds=(n,)) for n in range(2 * blocks))
        for us in (100 * ratio, 100.0)
    )
    board = the_board()
    cases = tuple(
        DuelCase(params=dict(case.params), challenger=challenger, champion=champion) for case in board.benchmarks
    )
    found, won = duel_ratio(cases, board.ranking_by, earlier), ratio < 1
    return Duel(
        opponent=opponent, opponent_digest=digest_of(source), cases=cases, ratio=found, won=won, earlier=earlier
    )


def zipped(content: bytes | str, name: str = "judgement.json", **more: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
        for other, what in more.items():
            archive.writestr(other, what)
    return made.getvalue()


class Scene:
    """A repository with the shipped workflows, and steps that run in it as GitHub would run them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, *, default_branch: str = "main") -> None:
        self.folder, self.patch = folder, monkeypatch
        self.root = ROOT
        self.world = World(folder / "github", default_branch=default_branch)
        self.world.settings["pages"] = dict(SITE)
        self.server = GitHubServer(self.world)
        files = {str(path.relative_to(ROOT)): path.read_bytes() for path in (ROOT / ".github/workflows").iterdir()}
        self.world.commit({"README.md": "A competition.", **files})
        self.resolved: dict[int, dict[str, str]] = {}
        """The outputs of each run's first job."""
        self.events: list[Event] = []
        self.world.listeners.append(self.events.append)
        self.alice = self.world.add_user("alice")

    # People

    def submit(self, author: User, source: bytes, **how: Any) -> Pull:
        """A pull request that intake has seen."""
        pull = self.world.open_pull(author, {path_of(author.login): source}, **how)
        self.intake()
        return pull

    # Steps

    def step(self, *arguments: str, workflow: str, job: str, **environment: str) -> int:
        """Run a step of a workflow through `pullrank ci`."""
        self.enter(workflow, job, **environment)
        return self.call("ci", *arguments)

    def enter(self, workflow: str, job: str, **environment: str) -> None:
        """The environment of a job, with a token that has only its permissions."""
        permissions = jobs_of(workflow)[job]["permissions"]
        (self.folder / "outputs").write_text("")
        (self.folder / "dispatch.json").write_text(json.dumps({"repository": shapes.repository(self.world)}))
        values = {
            "GITHUB_TOKEN": self.world.workflow_token(permissions).value,
            "GITHUB_REPOSITORY": self.world.repository,
            "GITHUB_API_URL": self.server.api_url,
            "GITHUB_SERVER_URL": self.server.url,
            "GITHUB_OUTPUT": str(self.folder / "outputs"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary"),
            "GITHUB_EVENT_PATH": str(self.folder / "dispatch.json"),
            "GITHUB_REF_NAME": self.world.default_branch,
            "PULLRANK_TRACEBACK": "1",
        }
        for name, value in (values | environment).items():
            self.patch.setenv(name, value)
        self.patch.setattr("scripts.bot.workflow.ROOT", self.root)

    def call(self, *arguments: str) -> int:
        return cli.run(list(arguments))

    def intake(self) -> None:
        """Run intake for the events so far."""
        noted = [event for event in self.events if event.name in ("pull_request_target", "issue_comment")]
        self.events.clear()
        for event in noted:
            self.hear(event)

    def hear(self, event: Event) -> int:
        payload = self.folder / "event.json"
        payload.write_text(json.dumps(event.payload))
        heard = {"GITHUB_EVENT_NAME": event.name, "GITHUB_EVENT_PATH": str(payload)}
        return self.step("intake", workflow="intake.yml", job="intake", **heard)

    def resolve(self, run: WorkflowRun) -> int:
        out = str(self.folder / f"bundle-{run.id}")
        asked = {"REQUEST": run.inputs["request"], "GITHUB_RUN_ID": str(run.id)}
        self.world.finish_job(self.world.start_job(run, "resolve"), "success")
        ended = self.step("resolve", "--out", out, workflow="evaluate.yml", job="resolve", **asked)
        self.resolved[run.id] = self.outputs()
        return ended

    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.folder / "outputs").read_text().splitlines())

    def judge(self, run: WorkflowRun, make: Make) -> None:
        """The judge's job: an artifact with what `make` builds, or a crash."""
        job = self.world.start_job(run, "judge", "bench-1")
        made = make(self.request(run.inputs["request"]), run)
        self.world.finish_job(job, "success" if made else "failure")
        if made:
            content = made if isinstance(made, bytes) else zipped(made.to_json())
            self.world.add_artifact(run, "judgement", content)

    def report(self, run: WorkflowRun) -> int:
        job = next((job for job in run.jobs if job.name == "judge"), None)
        result = job.conclusion if job and job.conclusion else "skipped"
        asked = {"REQUEST": run.inputs["request"], "JUDGE": result, "GITHUB_RUN_ID": str(run.id)}
        uploaded = next((one for one in reversed(run.artifacts) if one.name == "judgement"), None)
        told = {
            "CHECK": self.resolved.get(run.id, {}).get("check", ""),
            "ARTIFACT": str(uploaded.id) if uploaded else "",
            "DIGEST": uploaded.digest if uploaded else "",
            "REFUSAL": self.resolved.get(run.id, {}).get("refusal", ""),
        }
        return self.step("report", workflow="evaluate.yml", job="report", **asked, **told)

    def evaluate(self, run: WorkflowRun, make: Make, *, report: bool = True) -> None:
        """A whole run of evaluate.yml."""
        assert self.resolve(run) == 0
        is_wanted = self.outputs()["wanted"] == "true"
        if is_wanted:
            self.judge(run, make)
        if report and (is_wanted or self.outputs().get("refusal")):
            assert self.report(run) == 0
        self.world.finish_run(run, "success")

    def honest(self, **how: Any) -> Make:
        return lambda request, run: judgement_of(request, self.run_url(run), **how)

    def run_url(self, run: WorkflowRun) -> str:
        return f"{self.server.url}/{self.world.repository}/actions/runs/{run.id}"

    def reconcile(self, *, after: timedelta = timedelta()) -> int:
        """Reconcile, as if this much time had passed."""
        if after:
            self.pass_time(after)
        return self.step("reconcile", workflow="reconcile.yml", job="reconcile")

    def pass_time(self, time: timedelta) -> None:
        """Move the reconciler's clock forward: everything until now is older by this much."""
        from scripts.bot.reconcile import reconcile

        real = datetime.now

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return real(tz) + time

        self.patch.setattr(reconcile, "datetime", Clock)

    # The result

    def runs(self, workflow: str = "evaluate.yml") -> list[WorkflowRun]:
        return [run for run in self.world.runs.values() if run.workflow == workflow]

    def waiting(self) -> list[WorkflowRun]:
        return [run for run in self.runs() if run.status != "completed"]

    def ledger(self) -> dict[str, RequestStatus]:
        return {status.request.id: status for status in self.copy_of_ledger().requests()}

    def copy_of_ledger(self) -> Ledger:
        """The ledger on GitHub now."""
        folder = Path(tempfile.mkdtemp(dir=self.folder, prefix="ledger-"))
        for path, content in self.world.git.contents("ledger").items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        return Ledger(folder)

    def judgements(self) -> tuple[Judgement, ...]:
        return self.copy_of_ledger().judgements().judgements

    def request(self, request_id: str) -> Request:
        return self.ledger()[request_id].request

    def comment(self, number: int) -> str:
        """The bot's one comment on the pull request."""
        ours = [one.body for one in self.world.comments_on(number) if one.author is self.world.bot]
        assert len(ours) == 1, ours
        return ours[0]

    def checks(self) -> list[str]:
        return [f"{one.name}: {one.conclusion or one.status}" for one in self.world.checks.values()]

    def copy_of_main(self) -> Path:
        """A checkout of our own to change."""
        root = self.folder / "main"
        for name in ("tasks", "harness", ".github"):
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "requirements.lock", root)
        return root


def digest_of(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


# A competition that judges on two kinds of machine.


def two_boards(scene: Scene) -> Pull:
    """A pull request of alice's that asks for both boards."""
    scene.root = scene.copy_of_main()
    settings = scene.root / ".github/pullrank.yml"
    settings.write_text(
        settings.read_text().replace("\ngpus:\n", "\ngpus:\n  H100:\n    runs_on: h100\n    device: CPU\n")
    )
    return scene.world.open_pull(scene.alice, {path_of("alice"): SOURCE})


def of_its_board(scene: Scene) -> Make:
    def make(request: Request, run: WorkflowRun) -> object:
        board = the_board().task.board(request.gpu)
        # Slow enough to be possible: the bot holds back times below a GPU's floor.
        cases = tuple(cases_of(board, request.mode, 500.0))
        claim = Claim.INSIDE_TIMED if request.gpu == "MI300X" else Claim.BOUNDED
        return judgement_of(request, scene.run_url(run), edition=board.edition, cases=cases, claim=claim)

    return make  # type: ignore[return-value]
