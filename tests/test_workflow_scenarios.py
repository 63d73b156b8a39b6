"""Competitions through the shipped workflows: somebody acts, the workflows run, and the test checks the result.

A stand-in writes an honest judge's artifact at once, instead of judging.
"""

import atexit
import io
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness import __version__
from harness.records.fields import Mode
from harness.records.judgement import Claim, HarnessInfo, Judgement
from harness.records.provenance import harness_digest
from harness.records.verdict import Verdict
from harness.task.task import load_task
from scripts.ledger.branch import LedgerBranch
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.request import Ending, EndState, Request, make_id
from scripts.setup.app import PERMISSIONS, SECRET, VARIABLE
from scripts.setup.wanted import MAIN_RULESET
from tests.actions import Expressions, Hub, Play, StepFailed, WarmPython, shell
from tests.actions.node import find_node
from tests.competition import (
    COPIED,
    FASTER,
    OWN,
    ROOT,
    SOURCE,
    cases_of,
    digest_of,
    duel_with,
    judgement_of,
    path_of,
    profiles_of,
    the_board,
)
from tests.github_server import Event, Failure, GitHubServer, Pull, User, World
from tests.github_server import Run as WorkflowRun
from tests.github_server.git import GitRepository
from tests.github_server.settings_api import SITE
from tests.github_server.world import Budget

pytestmark = [
    pytest.mark.judges_nothing,
    pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup"),
]

SHIPPED = (".github", "harness", "scripts", "site", "submissions", "requirements.lock", "pyproject.toml")
BUILD = ("AGENTS.md", "LICENSE", "README.md", "setup.py")
"""What a wheel needs beside the shipped files."""
JUDGE = "python3 -I bundle/harness.pyz judge"
SOON = timedelta(minutes=10)

Make = Callable[[Request, WorkflowRun], Judgement | bytes | None]


@cache
def _shipped(tasks: str) -> GitRepository:
    """All shipped files, with these tasks, in one commit."""
    folder = Path(tempfile.mkdtemp(prefix="shipped-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    git = GitRepository(folder / "shipped.git")
    with_index = {"GIT_INDEX_FILE": str(folder / "index")}
    git.git("--work-tree", str(ROOT), "add", "--all", "--", *SHIPPED, tasks, env=with_index)
    tree = git.git("write-tree", env=with_index).decode().strip()
    git.set_ref("refs/heads/main", git.commit_tree(tree, [], "What ships"))
    return git


class Contest:
    """The shipped repository on a GitHub that runs its workflows, and the results."""

    def __init__(
        self,
        folder: Path,
        expressions: Expressions,
        warm: WarmPython,
        machines: Path,
        default_branch: str = "main",
        tasks: str = "tasks/vectoradd",
    ) -> None:
        self.world = World(folder / "github", default_branch=default_branch)
        self.world.settings["pages"] = dict(SITE)
        self.server = GitHubServer(self.world)
        # The one would run all tests, including this one; the other takes seconds.
        self.world.disabled_workflows |= {"ci.yml", "wheel.yml"}
        self._ship(tasks)
        self.hub = Hub(self.server, expressions, warm, folder, machines)
        self.hub.may_fail.add("judge")  # A wrong answer fails the job.
        self.alice = self.world.add_user("alice")
        self.judges(self.honest())

    def _ship(self, tasks: str) -> None:
        git, shipped = self.world.git, _shipped(tasks)
        git.share_objects(shipped)
        tree = shipped.find_tree("main")
        assert tree
        git.set_ref(f"refs/heads/{self.world.default_branch}", git.commit_tree(tree, [], "What ships"))
        self.harness = HarnessInfo(version="0.1.0", method=1, digest=harness_digest())

    # What people and judges do.

    def open(self, source: bytes = SOURCE, author: User | None = None, **how: Any) -> Pull:
        """Open a pull request, and run everything that follows."""
        author = author or self.alice
        pull = self.world.open_pull(author, {path_of(author.login): source}, **how)
        self.hub.settle()
        return pull

    def lose_events(self) -> None:
        self.hub.heard.clear()

    def reconcile(self, *, after: timedelta = SOON) -> None:
        self.hub.pass_time(after)
        self.hub.schedule("reconcile.yml")
        self.hub.settle()

    def judges(self, make: Make) -> None:
        """Set the result of the judge's step from now on: None is a crash, bytes are a forgery."""

        def step(play: Play) -> None:
            with zipfile.ZipFile(play.workspace / "bundle/bundle.zip") as bundle:
                request = Request.from_json(bundle.read("request.json"))
            made = make(request, play.live.run)
            if made is None:
                raise StepFailed("Segmentation fault")
            out = play.workspace / "judged/judgement.json"
            out.parent.mkdir()
            out.write_bytes(made if isinstance(made, bytes) else made.to_json().encode())
            if isinstance(made, Judgement) and made.verdict is not Verdict.ACCEPTED:
                raise StepFailed(f"{made.verdict}")

        self.hub.instead[JUDGE] = step

    def honest(self, **how: Any) -> Callable[[Request, WorkflowRun], Judgement]:
        def make(request: Request, run: WorkflowRun) -> Judgement:
            now = self.world.clock()
            url = f"{self.server.url}/{self.world.repository}/actions/runs/{run.id}"
            facts: dict[str, Any] = {"started_at": now, "finished_at": now, "harness": self.harness} | how
            return judgement_of(request, url, **facts)

        return make

    def enter(self, author: User, source: bytes, ratio: float) -> None:
        """Add somebody's entry to the ledger, from a pull request that is closed by now."""
        pull, run = (
            self.world.open_pull(author, {path_of(author.login): source}),
            self.world.start_run("evaluate.yml", ""),
        )
        blob = self.world.git.git("rev-parse", f"{pull.head_sha}:{path_of(author.login)}").decode().strip()
        request = Request(
            id=make_id(pull.number, pull.head_sha, "CPU", Mode.RANKED), user_id=author.id, login=author.login,
            pull_request=pull.number, head_sha=pull.head_sha, blob_sha=blob, task="vectoradd", gpu="CPU",
            mode=Mode.RANKED, digest=digest_of(source), asked_at=self.world.clock(), asked_by=author.id,
        )  # fmt: skip
        ending = Ending(request=request.id, state=EndState.JUDGED, verdict=Verdict.ACCEPTED, at=request.asked_at)
        with LedgerBranch(str(self.world.git.path)) as branch:
            branch.ledger.append_request(request)
            branch.ledger.append(self.honest(ratio=ratio)(request, run), request.id)
            branch.ledger.append_ending(request, ending)
            branch.commit(f"{author.login}: accepted")
        self.world.finish_run(run, "success")
        self.world.close(pull)

    # The results.

    def ledger(self) -> list[RequestStatus]:
        with LedgerBranch(self.server.git_url) as branch:
            return list(branch.ledger.requests())

    def endings(self) -> list[EndState | None]:
        return [one.ending.state if one.ending else None for one in self.ledger()]

    def judgements(self) -> tuple[Judgement, ...]:
        with LedgerBranch(self.server.git_url) as branch:
            return branch.ledger.judgements().judgements

    def comment(self, number: int) -> str:
        """The bot's one comment."""
        (ours,) = [one for one in self.world.comments_on(number) if one.author is self.world.bot]
        return ours.body

    def checks(self) -> list[str]:
        return [f"{one.name}: {one.conclusion or one.status}" for one in self.world.checks.values()]

    def merged(self, login: str = "alice") -> bytes | None:
        return self.world.git.read(self.world.default_branch, path_of(login))

    def rows(self, board: str = "vectoradd/CPU") -> list[str]:
        """The logins on the published board."""
        page = (self.hub.pages / board / "index.html").read_text()
        logins = [row["login"] for row in json.loads((self.hub.pages / board / "board.json").read_text())["rows"]]
        assert all(login in page for login in logins)
        return logins

    def results(self, workflow: str) -> list[str]:
        return [f"{played.job}: {played.result}" for played in self.hub.played if played.workflow == workflow]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("machines")


@pytest.fixture
def contest(tmp_path: Path, expressions: Expressions, warm: WarmPython, machines: Path) -> Iterator[Contest]:
    made = Contest(tmp_path, expressions, warm, machines)
    with made.server:
        yield made


PUBLISHED = ["build: success", "deploy: success", "announce: success"]
GREEN = ["resolve: success", "judge: success", "report: success"]
CANCELLED = ["resolve: success", "judge: cancelled", "report: success"]
RED = ["resolve: success", "judge: failure", "report: success"]


# From a pull request to a row.


def test_a_pull_request_ends_with_a_row_on_the_site(contest: Contest) -> None:
    pull = contest.open()
    assert contest.results("intake.yml") == ["intake: success"]
    assert contest.results("evaluate.yml") == GREEN
    assert contest.results("publish.yml") == PUBLISHED
    (status,) = contest.ledger()
    assert status.ending and status.ending.verdict is Verdict.ACCEPTED and len(contest.judgements()) == 1
    assert "accepted (AC), rank 1 of 1" in contest.comment(pull.number)
    assert contest.checks() == ["PullRank / CPU: success"]
    assert pull.merged_at and contest.merged() == SOURCE
    assert contest.rows() == ["alice"]
    noted = (contest.hub.stand_ins / "noted").read_text().splitlines()
    installs = [line for line in noted if "pip install" in line]
    assert len(installs) == 7 and all("--require-hashes" in line or "torch==" in line for line in installs)
    contest.reconcile()
    assert contest.results("evaluate.yml") == GREEN and len(contest.world.comments_on(pull.number)) == 1


def test_the_site_is_published_on_each_push_and_daily_with_all_tasks(
    tmp_path: Path, expressions: Expressions, warm: WarmPython, machines: Path
) -> None:
    contest = Contest(tmp_path, expressions, warm, machines, tasks="tasks")
    with contest.server:
        contest.world.commit({"README.md": "Welcome."})
        contest.hub.settle()
        contest.hub.schedule("publish.yml")
        contest.hub.settle()
    assert contest.results("publish.yml") == PUBLISHED * 2
    assert contest.rows() == [] and contest.rows("softmax/CPU") == []


def _open_own(contest: Contest, branch: str) -> Pull:
    """A pull request of Dependabot's, from a branch of the repository itself."""
    world, robot = contest.world, contest.world.add_user("dependabot[bot]", kind="Bot")
    world.git.set_ref(f"refs/heads/{branch}", world.git.find_commit("main") or "")
    head = world.commit({"requirements.lock": "newer"}, branch=branch)
    pull = world.add_pull(robot, head, title="Bump", body="", draft=False, branch=branch)
    pull.head_repo_id = world.repository_id
    contest.hub.settle()
    return pull


def test_a_maintainer_runs_the_tests_on_a_branch_of_the_repository_before_the_merge(contest: Contest) -> None:
    contest.world.disabled_workflows.clear()
    contest.hub.instead[".ci/run"] = lambda play: None
    contest.hub.instead["sudo sysctl"] = lambda play: None
    pull = _open_own(contest, "dependabot/pip/packages")
    assert not contest.results("ci.yml") and not contest.world.comments_on(pull.number)
    contest.world.add_comment(pull.number, contest.world.owner, "/ci")
    contest.hub.settle()
    (tested,) = contest.hub.find("ci.yml", "test")
    assert tested.result == "success" and tested.token and tested.token.scopes == {"contents": "read"}
    (run,) = [run for run in contest.world.runs.values() if run.workflow == "ci.yml"]
    assert (run.head_branch, run.head_sha) == (pull.head_ref, pull.head_sha)


def test_the_tests_never_run_on_a_forks_code(contest: Contest) -> None:
    contest.world.disabled_workflows.clear()
    pull = contest.open()
    contest.world.add_comment(pull.number, contest.world.owner, "/ci")
    contest.world.add_comment(pull.number, contest.alice, "/ci")
    contest.hub.settle()
    assert not contest.results("ci.yml")
    replies = [one.body for one in contest.world.comments_on(pull.number) if "pullrank answer" in one.body]
    assert len(replies) == 2 and "a fork's code" in replies[0] and "needs write access" in replies[1]


def test_the_data_set_is_released_if_the_settings_allow_it_and_there_is_one(contest: Contest) -> None:
    released: list[tuple[dict[str, str], str]] = []

    def release(play: Play) -> None:
        assert play.token and play.token.scopes == {"contents": "write"}
        assert sorted(path.name for path in play.workspace.iterdir()) == ["dataset"], (
            "the job must not have the repository's code"
        )
        released.append((play.environments[-1], (play.workspace / "dataset/ranked.jsonl").read_text()))

    contest.hub.instead["gh release create"] = release
    settings = (ROOT / ".github/pullrank.yml").read_text()
    for allowed in (False, True):
        if allowed:
            contest.world.commit({".github/pullrank.yml": f"{settings}\ndataset: {{license: CC-BY-4.0}}\n"})
        contest.hub.schedule("dataset.yml")
        contest.hub.settle()
        assert contest.results("dataset.yml") == ["write: success", "release: skipped"] * (1 + allowed)
    contest.open()
    contest.hub.schedule("dataset.yml")
    contest.hub.settle()
    assert contest.results("dataset.yml")[-2:] == ["write: success", "release: success"]
    ((environment, lines),) = released
    (line,) = map(json.loads, lines.splitlines())
    assert (line["login"], line["code"], line["license"]) == ("alice", SOURCE.decode(), "CC-BY-4.0")
    assert environment["GH_REPO"] == "acme/kernels" and environment["GH_TOKEN"]


def test_a_push_to_main_releases_a_wheel_with_the_tasks(contest: Contest) -> None:
    released: list[tuple[str, bytes]] = []

    def upload(play: Play) -> None:
        assert play.token and play.token.scopes == {"contents": "write"}
        (wheel,) = [path for path in play.workspace.rglob("*") if path.is_file()]
        released.append((str(wheel.relative_to(play.workspace)), wheel.read_bytes()))

    contest.world.disabled_workflows.remove("wheel.yml")
    contest.hub.instead |= {"gh release view": lambda play: None, "gh release edit": lambda play: None}
    contest.hub.instead["gh release upload wheel"] = upload
    contest.world.commit({"tasks/vectoradd/NEW.md": "new"} | {name: (ROOT / name).read_text() for name in BUILD})
    contest.hub.settle()
    assert contest.results("wheel.yml") == ["build: success", "release: success"]
    ((name, content),) = released
    assert name == f"wheel/pullrank-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        assert wheel.read("pullrank_competition/tasks/vectoradd/NEW.md") == b"new"
        assert wheel.read("harness/judge.py") == (ROOT / "harness/judge.py").read_bytes()


@pytest.mark.parametrize("site", [None, SITE | {"build_type": "legacy"}], ids=["no site", "a site from a branch"])
def test_a_push_before_setup_ends_green_and_says_how_to_get_a_site(
    contest: Contest, site: dict[str, Any] | None
) -> None:
    contest.world.settings["pages"] = site
    contest.world.commit({"README.md": "Fresh from the template."})
    contest.hub.settle()
    assert contest.results("publish.yml") == ["build: success", "deploy: skipped", "announce: skipped"]
    (built,) = contest.hub.find("publish.yml", "build")
    (line,) = built.summary.splitlines()
    assert "GitHub Pages is" in line and "pullrank setup" in line
    # After setup.
    contest.world.settings["pages"] = dict(SITE)
    contest.world.commit({"README.md": "Welcome."})
    contest.hub.settle()
    assert contest.results("publish.yml")[3:] == PUBLISHED


def test_a_site_with_a_domain_of_its_own_names_itself_by_it(contest: Contest) -> None:
    contest.world.settings["pages"] = SITE | {"html_url": "https://kernels.example.org/"}
    contest.world.commit({"README.md": "Welcome."})
    contest.hub.settle()
    assert contest.results("publish.yml") == PUBLISHED
    assert 'href="/index.html"' in (contest.hub.pages / "404.html").read_text()
    assert "https://kernels.example.org/" in (contest.hub.pages / "sitemap.xml").read_text()


def test_the_site_is_deployed_even_if_github_hides_its_settings(contest: Contest) -> None:
    contest.server.fail("GET */pages", Failure(status=403), times=99)
    contest.world.commit({"README.md": "Welcome."})
    contest.hub.settle()
    assert contest.results("publish.yml") == PUBLISHED


def test_the_default_branch_may_have_another_name(
    tmp_path: Path, expressions: Expressions, warm: WarmPython, machines: Path
) -> None:
    contest = Contest(tmp_path, expressions, warm, machines, default_branch="trunk")
    with contest.server:
        assert contest.open().merged_at
        contest.reconcile()
    assert contest.merged() == SOURCE and contest.rows() == ["alice"]


def test_only_a_faster_file_is_merged_and_moves_the_row(contest: Contest) -> None:
    contest.open()
    contest.judges(contest.honest(ratio=0.5))
    equal = contest.open(FASTER + b"# as fast\n")
    contest.judges(contest.honest(ratio=0.8))
    worse = contest.open(FASTER + b"# slower\n")
    assert [pull.state for pull in (equal, worse)] == ["open", "open"] and contest.merged() == SOURCE
    assert all("keeps your row" in contest.comment(pull.number) for pull in (equal, worse))
    contest.judges(contest.honest(ratio=0.3))
    better = contest.open(FASTER)
    assert better.merged_at and contest.merged() == FASTER and contest.rows() == ["alice"]


def test_a_wrong_answer_is_reported_and_makes_no_row(contest: Contest) -> None:
    contest.judges(contest.honest(wrong="line 2: output[3] is 1, expected 2"))
    pull = contest.open()
    assert contest.results("evaluate.yml") == RED
    assert "output[3] is 1, expected 2" in contest.comment(pull.number)
    assert contest.checks() == ["PullRank / CPU: failure"]
    assert pull.state == "open" and contest.merged() is None and not contest.results("publish.yml")


def test_a_held_first_place_gets_a_review_aid_and_no_other_right_is_needed(contest: Contest) -> None:
    contest.judges(contest.honest(claim=Claim.SELF_TIMED))
    pull = contest.open()
    assert contest.results("evaluate.yml") == GREEN and contest.results("review.yml") == ["review: success"]
    assert contest.checks() == ["PullRank / CPU: success", "PullRank review / CPU: neutral"]
    assert contest.rows() == [] and not pull.merged_at


def test_a_draft_is_only_benchmarked_until_it_is_ready_and_then_ranked(contest: Contest) -> None:
    pull = contest.open(draft=True)
    assert "benchmark only" in contest.comment(pull.number) and contest.judgements() == ()
    contest.world.mark_ready(pull)
    contest.hub.settle()
    assert pull.merged_at and contest.rows() == ["alice"]


def test_the_comment_on_a_profile_says_where_its_report_is(contest: Contest) -> None:
    pull = contest.open(draft=True)
    honest = contest.honest(cases=profiles_of(the_board()))
    contest.judges(honest)
    step = contest.hub.instead[JUDGE]

    def counting(play: Play) -> None:
        step(play)
        (play.workspace / "reports").mkdir()
        (play.workspace / "reports/profile-1.ncu-rep").write_bytes(b"NVR" + bytes(range(256)))

    contest.hub.instead[JUDGE] = counting
    contest.world.add_comment(pull.number, contest.alice, "/profile")
    contest.hub.settle()
    assert contest.results("evaluate.yml")[-len(GREEN) :] == GREEN
    run = next(run for run in contest.world.runs.values() if "reports" in {one.name for one in run.artifacts})
    assert {one.name for one in run.artifacts} == {"bundle", "judgement", "reports"}
    page = f"{contest.server.url}/{contest.world.repository}/actions/runs/{run.id}"
    assert f"the full report is `profile-1.ncu-rep` in `reports`, among `{page}` (kept 7 days)" in contest.comment(
        pull.number
    )
    assert contest.judgements() == (), "a profile does not go into the ledger"


def test_leftover_reports_of_another_run_are_not_uploaded_without_a_judging(
    contest: Contest,
) -> None:
    def stopped(play: Play) -> None:
        (play.workspace / "reports").mkdir()
        (play.workspace / "reports/profile-1.ncu-rep").write_bytes(b"another participant's")
        raise StepFailed("no network")

    contest.hub.instead["bash bundle/hosted.sh"] = stopped
    contest.open()
    assert "judge: failure" in contest.results("evaluate.yml")
    assert "reports" not in {one.name for run in contest.world.runs.values() for one in run.artifacts}


def test_a_banned_account_is_refused_before_judging(contest: Contest) -> None:
    def ban(event: Event) -> None:
        if event.name == "workflow_dispatch":
            with LedgerBranch(str(contest.world.git.path)) as branch:
                fields = {"id": "m1", "action": Action.BAN, "user_id": contest.alice.id, "reason": "copied", "by": 1}
                branch.ledger.append_fact(Moderation(at=contest.world.clock(), **fields))
                branch.commit("banned")

    contest.world.listeners.append(ban)
    pull = contest.open()
    assert contest.results("evaluate.yml") == ["resolve: success", "judge: skipped", *GREEN[2:]]
    assert contest.endings() == [EndState.REFUSED] and contest.judgements() == ()
    assert "**Not judged.** Pull requests of this account are not judged: `copied`." in contest.comment(pull.number)


def test_two_challengers_at_once_both_get_their_rows(contest: Contest) -> None:
    bob = contest.world.add_user("bob")
    pulls = [
        contest.world.open_pull(author, {path_of(author.login): source})
        for author, source in ((contest.alice, SOURCE), (bob, FASTER + b"# of bob\n"))
    ]
    contest.hub.settle()
    # Compare each job of one with the same job of the other.
    assert [entry.split(":")[0] for entry in contest.results("evaluate.yml")][:4] == [
        "resolve",
        "resolve",
        "judge",
        "judge",
    ]
    assert all(pull.merged_at for pull in pulls) and sorted(contest.rows()) == ["alice", "bob"]


def test_simultaneous_pull_requests_all_get_their_rows(contest: Contest, request: pytest.FixtureRequest) -> None:
    """`--pulls 50` takes some minutes."""
    logins = [f"user{number}" for number in range(request.config.getoption("--pulls"))]
    pulls = [
        contest.world.open_pull(contest.world.add_user(login), {path_of(login): SOURCE + f"# of {login}\n".encode()})
        for login in logins
    ]
    contest.hub.settle(at_once=8)
    contest.reconcile()
    assert sorted(one.request.login for one in contest.ledger()) == sorted(logins)
    assert set(contest.endings()) == {EndState.JUDGED}
    assert all(pull.merged_at for pull in pulls)
    assert sorted(contest.rows()) == sorted(logins)
    assert all("accepted (AC)" in contest.comment(pull.number) for pull in pulls)


def test_more_than_an_hours_budget_of_pull_requests_waits_and_loses_none(
    contest: Contest,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`--pulls 200` uses the real budget of a thousand requests an hour; it takes six minutes."""
    monkeypatch.setattr(shell, "TIMEOUT_S", 15 * 60)  # the reconciler's own limit
    count = request.config.getoption("--pulls")
    budget = contest.world.budgets.setdefault(contest.world.bot.id, Budget(0))
    budget.limit = max(30, 5 * count)
    contest.hub.may_fail |= {"intake", "resolve", "report", "reconcile", "announce"}
    logins = [f"user{number}" for number in range(count)]
    pulls = [
        contest.world.open_pull(contest.world.add_user(login), {path_of(login): SOURCE + f"# of {login}\n".encode()})
        for login in logins
    ]
    contest.hub.settle(at_once=2)
    merged = [sum(pull.merged_at is not None for pull in pulls)]
    while merged[-1] < count and len(merged) < 8 * 4:
        contest.reconcile(after=timedelta(minutes=15))
        merged.append(sum(pull.merged_at is not None for pull in pulls))
    contest.reconcile(after=timedelta(hours=1))  # the site follows
    said = "".join(played.log for played in contest.hub.played if played.result == "failure")
    assert "GitHub's rate limit is reached; try again later" in said
    assert merged[0] < count == merged[-1]
    assert sorted(contest.rows()) == sorted(logins)
    assert all("accepted (AC)" in contest.comment(pull.number) for pull in pulls)
    with capsys.disabled():
        sys.stdout.write(f"\n{count} pull requests, {budget.limit} requests an hour; merged, each quarter: {merged}\n")


# Interruptions.


def test_a_push_while_judging_cancels_and_judges_the_newer_file(contest: Contest) -> None:
    honest, pushed = contest.honest(), list[str]()

    def push_meanwhile(request: Request, run: WorkflowRun) -> Judgement:
        if not pushed:
            pushed.append(contest.world.push(pull, {path_of("alice"): FASTER}))
            contest.hub.settle()
        return honest(request, run)

    contest.judges(push_meanwhile)
    pull = contest.world.open_pull(contest.alice, {path_of("alice"): SOURCE})
    contest.hub.settle()
    assert contest.results("evaluate.yml") == [*CANCELLED, *GREEN]
    assert sorted(filter(None, contest.endings())) == [EndState.JUDGED, EndState.SUPERSEDED]
    assert pull.merged_at and contest.merged() == FASTER and len(contest.judgements()) == 1
    assert "rank 1 of 1" in contest.comment(pull.number)


def test_a_push_between_judging_and_merge_is_not_merged_unjudged(contest: Contest) -> None:
    honest = contest.honest()

    def push_unheard(request: Request, run: WorkflowRun) -> Judgement:
        contest.judges(honest)
        contest.world.push(pull, {path_of("alice"): FASTER})
        contest.lose_events()
        return honest(request, run)

    contest.judges(push_unheard)
    pull = contest.world.open_pull(contest.alice, {path_of("alice"): SOURCE})
    contest.hub.settle()
    assert pull.state == "open" and contest.merged() is None and contest.rows() == ["alice"]
    contest.reconcile()
    assert [one.submission.head_sha for one in contest.judgements()][-1] == pull.head_sha


def test_the_bot_refuses_a_copied_draft_and_merges_the_original(contest: Contest) -> None:
    draft = contest.open(OWN, draft=True)
    contest.world.close(draft)
    contest.hub.settle()
    contest.hub.pass_time(SOON)
    copy = contest.open(COPIED, contest.world.add_user("mallory"))
    assert f"this is the file that `alice` submitted for `vectoradd` in #{draft.number}" in contest.comment(copy.number)
    contest.world.reopen(draft)
    contest.world.mark_ready(draft)
    contest.hub.settle()
    assert draft.merged_at and not copy.merged_at and contest.rows() == ["alice"]


def test_a_copied_original_with_a_lost_event_is_merged_too(contest: Contest) -> None:
    original = contest.world.open_pull(contest.alice, {path_of("alice"): OWN})
    contest.lose_events()
    contest.hub.pass_time(timedelta(minutes=1))
    assert contest.open(COPIED, contest.world.add_user("mallory")).merged_at
    contest.reconcile()
    assert original.merged_at and sorted(contest.rows()) == ["alice", "mallory"]


def test_a_fork_behind_new_workflows_gets_its_row_and_is_merged_once_it_is_updated(contest: Contest) -> None:
    honest = contest.honest()

    def change_workflows(request: Request, run: WorkflowRun) -> Judgement:
        before = contest.world.git.read("main", ".github/workflows/check.yml")
        contest.world.commit({".github/workflows/check.yml": (before or b"") + b"# Newer.\n"})
        return honest(request, run)

    contest.judges(change_workflows)
    pull = contest.open()
    assert contest.results("evaluate.yml") == GREEN and not pull.merged_at and contest.rows() == ["alice"]
    assert "Press *Update branch* below" in contest.comment(pull.number)
    contest.reconcile()
    assert set(contest.results("reconcile.yml")) == {"reconcile: success"}
    contest.judges(honest)
    contest.world.update_branch(pull)
    contest.hub.settle()
    assert pull.merged_at and contest.merged() == SOURCE
    assert "Press *Update branch* below" not in contest.comment(pull.number)


def test_an_app_bot_uses_its_own_name_and_merges_forks_behind_new_workflows(contest: Contest) -> None:
    app = contest.world.add_app("kernels-bot", PERMISSIONS)
    stored = {"variables": {VARIABLE: app.client_id}, "secrets": {SECRET: app.private_key}}
    contest.world.settings["environments"] = {"bot": stored}
    honest = contest.honest()

    def change_workflows(request: Request, run: WorkflowRun) -> Judgement:
        contest.world.commit({".github/workflows/check.yml": b"# Newer.\n"})
        return honest(request, run)

    contest.judges(change_workflows)
    contest.world.disabled_workflows.add("check.yml")
    pull = contest.open()
    assert contest.results("evaluate.yml") == GREEN and contest.rows() == ["alice"]
    assert pull.merged_at and pull.merged_by and pull.merged_by.login == "kernels-bot[bot]"
    assert {comment.author.login for comment in contest.world.comments_on(pull.number) if comment.author} == {
        "kernels-bot[bot]"
    }
    assert {check.app.login for check in contest.world.checks.values()} == {"kernels-bot[bot]"}
    contest.reconcile()
    assert set(contest.results("reconcile.yml")) == {"reconcile: success"}
    asked = {entry.login for entry in contest.server.rest_requests() if not entry.path.endswith("/pages")}
    assert asked == {"kernels-bot[bot]"}  # `publish` needs no App to ask for the site


def test_a_revoked_key_fails_the_run_and_the_reconciler_catches_up(contest: Contest) -> None:
    app = contest.world.add_app("kernels-bot", PERMISSIONS)
    bot = {"variables": {VARIABLE: "Iv23liOther"}, "secrets": {SECRET: app.private_key}}
    contest.world.settings["environments"] = {"bot": bot}
    contest.hub.may_fail.add("intake")
    contest.open()
    assert contest.results("intake.yml") == ["intake: failure"] and not contest.results("evaluate.yml")
    contest.world.settings["environments"] = {}
    contest.reconcile()
    assert contest.rows() == ["alice"]


def test_deleted_runs_cause_no_new_judging_but_the_next_push_is_judged(contest: Contest) -> None:
    waits = contest.world.add_user("bob")
    contest.judges(contest.honest(wrong="no"))
    pull = contest.open(author=waits)
    contest.judges(contest.honest())
    contest.open()
    before = (len(contest.ledger()), contest.comment(pull.number))
    contest.reconcile(after=timedelta(days=91))
    contest.hub.schedule("publish.yml")
    contest.hub.settle()
    assert contest.world.runs and all(run.workflow != "evaluate.yml" for run in contest.world.runs.values())
    assert not contest.world.checks
    assert (len(contest.ledger()), contest.comment(pull.number)) == before and contest.rows() == ["alice"]
    contest.world.push(pull, {path_of("bob"): FASTER})
    contest.hub.settle()
    assert pull.merged_at and sorted(contest.rows()) == ["alice", "bob"]


def test_the_bot_merges_under_setups_ruleset_but_not_against_code_owners(contest: Contest) -> None:
    contest.world.settings["rulesets"] = {1: MAIN_RULESET}
    pull = contest.open()
    assert pull.merged_at
    contest.world.commit({".github/CODEOWNERS": b"* @acme\n"})
    contest.lose_events()
    held = contest.open(FASTER, contest.world.add_user("bob"))
    assert contest.results("evaluate.yml")[-len(GREEN) :] == GREEN
    assert not held.merged_at and sorted(contest.rows()) == ["alice", "bob"]
    assert "code owner" in contest.comment(held.number)
    contest.world.commit({".github/CODEOWNERS": b"* @acme\nsubmissions/\n"})
    contest.lose_events()
    contest.reconcile()
    assert held.merged_at


def test_a_run_that_is_not_listed_yet_is_not_started_again(contest: Contest) -> None:
    contest.world.listed_after = timedelta(minutes=2)
    honest = contest.honest()

    def reconcile_meanwhile(request: Request, run: WorkflowRun) -> Judgement:
        contest.reconcile(after=timedelta(seconds=30))
        return honest(request, run)

    contest.judges(reconcile_meanwhile)
    contest.open()
    assert set(contest.results("reconcile.yml")) == {"reconcile: success"}
    assert contest.rows() == ["alice"] and contest.results("evaluate.yml") == GREEN


def test_a_merge_that_fails_leaves_the_row_published(contest: Contest) -> None:
    contest.server.fail("PUT */merge", Failure(status=403), times=9)
    contest.hub.may_fail.add("report")
    assert not contest.open().merged_at and contest.rows() == ["alice"]
    assert contest.results("evaluate.yml")[-1:] == ["report: failure"]


def test_an_author_cancels_a_running_judging_at_once(contest: Contest) -> None:
    honest = contest.honest()

    def cancel_meanwhile(request: Request, run: WorkflowRun) -> Judgement:
        contest.world.add_comment(pull.number, contest.alice, "/cancel")
        contest.hub.settle()
        return honest(request, run)

    contest.judges(cancel_meanwhile)
    pull = contest.world.open_pull(contest.alice, {path_of("alice"): SOURCE})
    contest.hub.settle()
    assert contest.results("evaluate.yml") == CANCELLED
    assert contest.endings() == [EndState.CANCELLED] and contest.judgements() == () and not pull.merged_at
    assert contest.checks() == ["PullRank / CPU: cancelled"]


def test_a_submission_is_judged_again_if_its_task_changes_meanwhile(contest: Contest, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tasks", tmp_path / "tasks")
    reference = tmp_path / "tasks/vectoradd/reference.py"
    reference.write_text(reference.read_text() + "\n# Changed.\n")
    edition = load_task(reference.parent).board("CPU").edition
    honest = contest.honest()

    def change_meanwhile(request: Request, run: WorkflowRun) -> Judgement:
        contest.world.commit({"tasks/vectoradd/reference.py": reference.read_bytes()})
        contest.judges(contest.honest(edition=edition))
        return honest(request, run)

    contest.judges(change_meanwhile)
    pull = contest.open()
    assert contest.results("evaluate.yml") == GREEN + GREEN
    assert [one.edition for one in contest.judgements()] == [edition] and pull.merged_at


def test_the_reconciler_makes_up_for_a_lost_event_once(contest: Contest) -> None:
    pull = contest.world.open_pull(contest.alice, {path_of("alice"): SOURCE})
    contest.lose_events()
    contest.hub.settle()
    assert not contest.world.comments_on(pull.number)
    contest.reconcile()
    assert pull.merged_at and contest.rows() == ["alice"]
    contest.reconcile()
    assert contest.results("evaluate.yml") == GREEN


def test_an_event_that_comes_twice_changes_nothing(contest: Contest) -> None:
    pull = contest.open()
    before = contest.comment(pull.number), contest.endings()
    contest.hub.heard.append(next(event for event in contest.world.events if event.name == "pull_request_target"))
    contest.hub.settle()
    assert contest.results("intake.yml") == ["intake: success"] * 2
    assert (contest.comment(pull.number), contest.endings()) == before and len(
        contest.world.comments_on(pull.number)
    ) == 1


@pytest.mark.parametrize("nth", [1, 3, 8], ids=["of intake", "of resolve", "of report"])
def test_the_reconciler_recovers_from_a_call_that_keeps_failing(contest: Contest, nth: int) -> None:
    """test_failures.py has every call in turn; here the workflows' own jobs run."""
    contest.hub.may_fail |= {"intake", "resolve", "report"}
    contest.server.fail("* /repos/*", Failure(status=500), nth=nth, times=6)
    pull = contest.open()
    assert any(played.result == "failure" for played in contest.hub.played)
    contest.server.failures.clear()
    for _ in range(3):
        contest.reconcile()
    assert pull.merged_at and contest.rows() == ["alice"]
    assert "accepted (AC), rank 1 of 1" in contest.comment(pull.number) and len(contest.judgements()) == 1
    assert contest.checks() == ["PullRank / CPU: success"]


def test_a_crashed_judge_runs_three_times_and_ends_as_our_fault(contest: Contest) -> None:
    contest.judges(lambda request, run: None)
    pull = contest.open()
    assert contest.results("evaluate.yml") == RED * 2 + RED and contest.endings() == [EndState.FAILED] * 3
    assert "failed on our side" in contest.comment(pull.number) and contest.checks() == ["PullRank / CPU: neutral"]
    contest.judges(contest.honest())
    contest.world.add_comment(pull.number, contest.alice, "/rerun")
    contest.hub.settle()
    assert pull.merged_at and contest.rows() == ["alice"]


def test_a_forged_judgement_is_refused_and_the_file_judged_again(contest: Contest) -> None:
    honest = contest.honest()
    others_head = {"head_sha": "a" * 40}

    def forge(request: Request, run: WorkflowRun) -> Judgement:
        contest.judges(forge_bytes)
        made = honest(request, run)
        return made.model_copy(update={"submission": made.submission.model_copy(update=others_head)})

    def forge_bytes(request: Request, run: WorkflowRun) -> bytes:
        contest.judges(honest)
        return b'{"format": "pullrank-judgement", "verdict": "AC"}'

    contest.judges(forge)
    pull = contest.open()
    assert sorted(filter(None, contest.endings())) == [EndState.FAILED, EndState.FAILED, EndState.JUDGED]
    assert [one.submission.head_sha for one in contest.judgements()] == [pull.head_sha] and pull.merged_at


# Slow jobs.


def test_a_deadline_during_judging_affects_only_later_pushes(contest: Contest) -> None:
    task = (ROOT / "tasks/vectoradd/task.yml").read_text()
    deadline = contest.world.clock() + timedelta(minutes=5)
    contest.world.commit({"tasks/vectoradd/task.yml": f"deadline: {deadline:%Y-%m-%dT%H:%M:%SZ}\n{task}"})
    contest.lose_events()

    def judge_late(request: Request, run: WorkflowRun) -> Judgement:
        if request.mode is Mode.RANKED:
            contest.hub.pass_time(SOON)
        return contest.honest(wrong="output[3] is 1, expected 2")(request, run)

    contest.judges(judge_late)
    pull = contest.open()
    assert contest.endings() == [EndState.JUDGED] and len(contest.judgements()) == 1
    contest.world.push(pull, {path_of("alice"): FASTER})
    contest.hub.settle()
    assert [one.request.mode for one in contest.ledger()] == [Mode.RANKED, Mode.TEST]
    assert "This is tested but not ranked." in contest.comment(pull.number) and len(contest.judgements()) == 1


def test_a_due_duel_is_held_and_wins_first_place(contest: Contest) -> None:
    """Two simultaneous first entries had no duel; the earlier one has first place until then."""
    bob = contest.world.add_user("bob")
    for author, source, ratio in ((contest.alice, SOURCE, 0.5), (bob, FASTER, 0.4)):
        contest.enter(author, source, ratio)
    contest.lose_events()

    def duel(request: Request, run: WorkflowRun) -> Judgement:
        assert (request.login, request.is_rematch) == ("bob", True)
        return contest.honest(ratio=0.4, duel=duel_with("alice", SOURCE, 0.8))(request, run)

    contest.judges(duel)
    contest.reconcile()
    assert contest.results("evaluate.yml") == GREEN and contest.rows() == ["bob", "alice"]


def test_an_offline_machine_delays_only_its_own_board(contest: Contest) -> None:
    settings = (ROOT / ".github/pullrank.yml").read_text()
    h100 = "\ngpus:\n  H100:\n    runs_on: [self-hosted, h100]\n    device: CPU\n"
    contest.world.commit({".github/pullrank.yml": settings.replace("\ngpus:\n", h100)})
    contest.lose_events()
    contest.hub.away.add("h100")

    def judge(request: Request, run: WorkflowRun) -> Judgement:
        board = the_board().task.board(request.gpu)
        wrong = "" if request.gpu == "CPU" else "output[3] is 1, expected 2"
        cases = tuple(cases_of(board, request.mode, 0.5, wrong))
        claim = Claim.BOUNDED if request.gpu == "CPU" else Claim.INSIDE_TIMED
        return contest.honest(edition=board.edition, cases=cases, wrong=wrong, claim=claim)(request, run)

    contest.judges(judge)
    pull = contest.open()
    assert contest.rows() == ["alice"] and not pull.merged_at
    assert "queued since" in contest.comment(pull.number)
    contest.reconcile(after=timedelta(hours=2))
    assert pull.merged_at and "queued since" in contest.comment(pull.number)
    contest.hub.away.clear()
    contest.hub.settle()
    assert "queued since" not in contest.comment(pull.number) and set(contest.endings()) == {EndState.JUDGED}
    assert contest.checks() == ["PullRank / CPU: success", "PullRank / H100: failure"]


# Permissions.


def test_a_strangers_command_starts_nothing(contest: Contest) -> None:
    pull = contest.open(draft=True)
    before = contest.results("evaluate.yml")
    mallory = contest.world.add_user("mallory")
    for author, text in ((mallory, "/rank"), (mallory, "/cancel"), (contest.alice, "Nice work!")):
        contest.world.add_comment(pull.number, author, text)
    contest.hub.settle()
    # It does not even get a machine; neither does a comment that is no command.
    assert contest.results("intake.yml") == ["intake: success"] + ["intake: skipped"] * 3
    assert contest.results("evaluate.yml") == before and contest.endings() == [EndState.JUDGED]


def test_the_bot_obeys_other_users_only_with_write_access(contest: Contest) -> None:
    merged, pull = contest.open(author=contest.world.add_user("carol")), contest.open(draft=True)
    assert merged.author and merged.merged_at
    boss = contest.world.add_user("boss", permission="write")
    before = len(contest.results("evaluate.yml"))
    for author, runs in ((merged.author, 0), (boss, 1)):
        contest.world.add_comment(pull.number, author, "/benchmark")
        contest.hub.settle()
        assert contest.results("intake.yml")[-1] == "intake: success"
        assert len(contest.results("evaluate.yml")) == before + runs * len(GREEN)


def test_a_variable_switches_the_bot_off_and_the_reconciler_catches_up_later(contest: Contest) -> None:
    contest.world.variables["PULLRANK"] = "off"
    pull = contest.open()
    contest.world.add_comment(pull.number, contest.alice, "/rank")
    contest.reconcile()
    assert contest.results("intake.yml") == ["intake: skipped"] * 2
    assert contest.results("reconcile.yml") == ["reconcile: skipped"] and not contest.results("evaluate.yml")
    contest.world.variables.clear()
    contest.reconcile()
    assert pull.merged_at and contest.rows() == ["alice"]


def test_a_renamed_account_keeps_its_folder_from_the_names_next_owner(contest: Contest) -> None:
    contest.open()
    contest.world.rename(contest.alice, "alicia")
    contest.judges(contest.honest(ratio=0.3))
    other = contest.open(FASTER, contest.world.add_user("alice"))
    assert other.state == "open" and contest.results("evaluate.yml") == GREEN
    ours = contest.world.open_pull(contest.alice, {path_of("alice"): FASTER})
    contest.hub.settle()
    assert ours.merged_at and contest.rows() == ["alice"]


def test_no_text_of_a_participant_reaches_a_shell_or_an_output(contest: Contest, tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    evil = f"`touch {pwned}` $(touch {pwned}) '; touch {pwned}; ' \"; touch {pwned} #"
    lines = f"{evil}\n::set-output name=wanted::true\n::error::{evil}\nwanted=true"
    branch = f"$(touch${{IFS}}{pwned})"
    good = contest.world.open_pull(contest.alice, {path_of("alice"): SOURCE}, title=lines, body=lines, branch=branch)
    names = {f"submissions/vectoradd/alice/{name}": SOURCE for name in (f"$(touch {pwned}).py", "a\n::error::b.py")}
    bad = contest.world.open_pull(contest.alice, names, title=lines, branch=branch)
    contest.hub.settle()
    contest.world.add_comment(bad.number, contest.alice, f"/test {evil}")
    contest.hub.settle()
    assert good.merged_at and bad.state == "open" and contest.results("evaluate.yml") == GREEN
    assert not pwned.exists()
    for played in contest.hub.played:
        assert not [line for line in played.log.splitlines() if line.startswith("::")]
        texts = {name for env in played.environments for name, value in env.items() if "touch" in value}
        assert texts <= {"GITHUB_HEAD_REF"}, played


def test_the_judge_sees_no_token_and_other_jobs_only_their_own(contest: Contest) -> None:
    seen: list[Path] = []
    honest_step = contest.hub.instead[JUDGE]

    def look_around(play: Play) -> None:
        seen.extend(path for path in play.home.parent.rglob("*") if path.is_file())
        assert not [path for path in seen if b"ghs_" in path.read_bytes()]
        honest_step(play)

    contest.hub.instead[JUDGE] = look_around
    contest.open()
    (judge,) = contest.hub.find("evaluate.yml", "judge")
    assert judge.token and judge.token.scopes == {} and judge.token.used == 0
    assert not [env for env in judge.environments if "ghs_" in str(env)]
    assert {"bundle.zip", "harness.pyz", "hosted.sh", "judge.lock"} <= {path.name for path in seen}
    assert not [path for path in seen if ".git" in path.parts]
    # No other job has more than its own token, or makes a request that it does not allow.
    for played in [one for one in contest.hub.played if one.result != "skipped"]:
        tokens = {value for env in played.environments for value in env.values() if value.startswith("ghs_")}
        assert played.token and tokens <= {played.token.value}
    assert not [entry for entry in contest.server.log if entry.status in (401, 403)]


def test_a_job_without_a_needed_permission_fails(contest: Contest) -> None:
    path = ".github/workflows/evaluate.yml"
    shipped = (ROOT / path).read_text()
    assert "contents: write" in shipped
    contest.world.commit({path: shipped.replace("contents: write", "contents: read")})
    contest.lose_events()
    with pytest.raises(AssertionError, match=r"evaluate\.yml / report: failure(.|\n)*403"):
        contest.open()
    assert contest.judgements() == () and contest.merged() is None
