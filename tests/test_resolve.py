"""The checks of a request before its file reaches a judge: tables of everything that may be wrong.

Then bundles, made from a GitHub on loopback and a ledger in a folder.
"""

import hashlib
import importlib.metadata
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from harness.records.errors import PullRankError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, HarnessInfo, Judgement, Machine, SandboxInfo, SubmissionInfo
from harness.records.times import Run, Timing
from harness.records.verdict import Verdict
from harness.task.bundle import Bundle, read_bundle
from harness.task.task import Baseline, Language, Task, load_task
from scripts.bot.admission.admission import Competition, Refused
from scripts.bot.admission.recheck import require_as_requested
from scripts.bot.evaluate.pyz import LIBRARIES, judge_lock
from scripts.bot.evaluate.resolve import Resolution, find_champion, minutes_for, resolve
from scripts.bot.report.places import LedgerBoards, PlaceKind
from scripts.bot.report.recording import next_attempt
from scripts.competition.settings import Ban, Gpu, Quotas, Settings, load_settings
from scripts.github.fork import Fork
from scripts.github.pulls import ACTIONS_BOT, BlobInfo, ChangedFile
from scripts.ledger.ledger import Ledger, RequestStatus
from scripts.ledger.moderation import Action, KnownAccount, Moderation
from scripts.ledger.request import Ending, EndState, Request, make_id
from tests.competition import duel_with
from tests.github_server import Failure, GitHubServer, Pull, User, World

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HEAD, BASE = "a" * 40, "c" * 40
SOURCE = b"def custom_kernel(data):\n    return data\n"


def blob_sha(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


BLOB = blob_sha(SOURCE)
PLAIN = BlobInfo(sha=BLOB, mode="100644", size=len(SOURCE))
PATH = "submissions/vectoradd/ada/submission.py"


def vectoradd(**changes: object) -> Task:
    return replace(load_task(ROOT / "tasks" / "vectoradd"), **changes)


def request(mode: Mode = Mode.RANKED, gpu: str = "CPU", **changes: object) -> Request:
    fields = {
        "id": make_id(12, HEAD, gpu, mode),
        "user_id": 5,
        "login": "ada",
        "pull_request": 12,
        "head_sha": HEAD,
        "blob_sha": BLOB,
        "task": "vectoradd",
        "gpu": gpu,
        "mode": mode,
        "digest": hashlib.sha256(SOURCE).hexdigest(),
        "asked_at": NOW,
        "asked_by": 5,
    }
    return Request(**(fields | changes))


def refusal(
    asked: Request | None = None,
    *,
    task: Task | None = None,
    files: tuple[ChangedFile, ...] = (ChangedFile(path=PATH, status="added"),),
    blob: BlobInfo | None = PLAIN,
    source: bytes = SOURCE,
    owner: KnownAccount | None = None,
    **settings: object,
) -> str:
    """Why a request is refused; empty if it is not."""
    gpus = {name: Gpu(runs_on=name) for name in ("CPU", "H999")}
    competition = Competition(settings=Settings(**{"gpus": gpus} | settings), accounts=(owner,) if owner else ())
    try:
        require_as_requested(
            asked or request(), task or vectoradd(), competition, files=files, blob=blob, source=source
        )
    except Refused as refused:
        return str(refused)
    return ""


def test_a_baseline_in_python_of_a_compiled_task_may_be_judged():
    baseline = Baseline(name="torch.add", path=Path("add.py"), digest=hashlib.sha256(SOURCE).hexdigest())
    task = replace(vectoradd(), lang=Language.CU, baselines=(baseline,))
    assert not refusal(task=task)
    assert "submission.cu` and nothing else" in refusal(task=replace(task, baselines=()))


def test_one_plain_file_in_its_authors_folder_may_be_judged():
    assert not refusal()
    assert not refusal(files=(ChangedFile(path=PATH, status="modified"),))
    assert not refusal(owner=KnownAccount(user_id=5, login="ada", first_seen=NOW))


def changed(*paths: str, status: str = "added", previous: str | None = None) -> tuple[ChangedFile, ...]:
    return tuple(ChangedFile(path=path, status=status, previous_path=previous) for path in paths)


def blob(**changes: object) -> BlobInfo:
    return replace(PLAIN, **changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        # Somebody else's file
        ({"owner": KnownAccount(user_id=4, login="ada", first_seen=NOW)}, "belongs to account 4"),
        ({"files": changed("submissions/vectoradd/bob/submission.py")}, "your login is `ada`"),
        ({"files": changed("submissions/vectoradd/Ada/submission.py")}, "your login is `ada`"),
        # Not exactly one file
        ({"files": ()}, f"must change `{PATH}` and nothing else"),
        ({"files": changed(PATH, "README.md")}, "exactly one file"),
        ({"files": changed(PATH, ".github/workflows/evaluate.yml")}, "exactly one file"),
        ({"files": changed(PATH, "submissions/matmul/ada/submission.py")}, "one file for one task"),
        # Not the requested file
        ({"files": changed(PATH, status="removed")}, f"must change `{PATH}` and nothing else"),
        ({"files": changed(PATH, status="renamed", previous="submissions/vectoradd/bob/submission.py")}, "This moves"),
        ({"files": changed("submissions/vectoradd/ada/conftest.py")}, "must be named"),
        ({"files": changed("submissions/vectoradd/ada/submission.cu")}, f"must change `{PATH}` and nothing else"),
        ({"files": changed("submissions/matmul/ada/submission.py")}, f"must change `{PATH}` and nothing else"),
        ({"files": changed("submissions/vectoradd/ada/../bob/submission.py")}, "is not the place for a submission"),
        ({"files": changed("tasks/vectoradd/reference.py")}, f"must change `{PATH}` and nothing else"),
        ({"files": changed("README.md")}, f"must change `{PATH}` and nothing else"),
        ({"blob": None}, "no longer exists"),
        ({"blob": blob(sha="d" * 40)}, "not the one that was requested"),
        # Not a plain file
        ({"blob": blob(mode="120000")}, "is a symbolic link"),
        ({"blob": blob(mode="100755")}, "is executable"),
        ({"blob": blob(mode="160000")}, "of mode `160000`. A submission must be a plain file."),
        ({"blob": blob(size=256 * 1024 + 1)}, "larger than 256 KiB"),
        ({"blob": blob(size=1025), "limits": Quotas(file_kib=1)}, "larger than 1 KiB"),
        # No such board
        ({"asked": request(gpu="H999")}, "no longer has a board `H999`"),
        ({"gpus": {"H100": Gpu(runs_on="H100")}}, "no longer a machine for `CPU`"),
        ({"bans": (Ban(user_id=5, reason="sold their seat"),)}, "of this account are not judged: `sold their seat`. Ask"),
        ({"task": vectoradd(deadline=NOW)}, "closed at 2026-11-20 12:00 UTC"),
    ],
)  # fmt: skip
def test_a_request_that_fails_a_check_is_refused(changes, reason):
    assert reason in refusal(**changes)


def test_a_request_made_in_time_is_judged_after_the_deadline():
    assert not refusal(task=vectoradd(deadline=NOW + timedelta(seconds=1)))


def test_a_retry_after_our_failure_is_not_late():
    soon = vectoradd(deadline=NOW + timedelta(seconds=1))
    failed, later = request(), NOW
    for _ in range(2):
        later += timedelta(hours=1)
        again = next_attempt(failed, [], later)
        assert again and again.asked_at == later
        assert not refusal(again, task=soon)
        failed = again
    asked_late = request(asked_at=NOW + timedelta(hours=1))
    assert "closed at" in refusal(asked_late, task=soon)


def test_a_file_can_still_be_tested_after_the_deadline():
    assert not refusal(request(mode=Mode.TEST), task=vectoradd(deadline=NOW))


def test_a_task_that_is_for_practice_now_is_not_called_closed():
    assert "is for practice only" in refusal(task=vectoradd(device_alias={"cuda": "cpu"}))


def test_hostile_words_in_a_refusal_are_harmless():
    # Workflow commands and Markdown: they need a line of their own, or a special character.
    hostile = "submissions/vectoradd/bob/\n::set-output name=wanted::true\n<script>.py"
    reason = refusal(files=changed(hostile))
    assert reason
    assert reason.isprintable()
    assert "<script>" not in re.sub("`.*?`", "", reason)


def test_readable_source_may_be_judged():
    for source in (
        b"",
        "\ufeffµ = 1  # µs × ±\n".encode(),
        "# 日本語, 葛\U000e0100, العربية, עברית, ⚠\ufe0f\n".encode(),
    ):
        assert not refusal(request(digest=None), source=source + SOURCE)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"x = 1\0\n", "binary"),
        (b"x = 1\ny = '\xff'\n", "submission.py:2: not UTF-8: byte 0xff"),
        ("x = 1\n# \u202e != b:\n".encode(), "Line 2 contains the invisible character U+202E"),
        ("x\u2066 = 1\n".encode(), "U+2066"),
        ("x\u200b = 1\n".encode(), "U+200B"),
        ("x\u200d = 1\n".encode(), "U+200D"),
        ("x = 1\n#\ufeff\n".encode(), "Line 2 contains the invisible character U+FEFF"),
        ("x\u00ad = 1\n".encode(), "U+00AD"),
        ("\u3164 = 1\n".encode(), "U+3164"),
        ("\u115f = 1\n".encode(), "U+115F"),
        ("x = 'a\U000e0041'\n".encode(), "U+E0041"),
    ],
)
def test_source_that_people_cannot_review_is_refused(source, reason):
    assert reason in refusal(request(digest=None), source=source + SOURCE)


def test_a_file_other_than_the_requested_one_is_refused():
    assert "not the one that was requested" in refusal(source=SOURCE + b"\n")


def test_a_job_has_enough_time_for_all_its_phases():
    board = vectoradd().board("CPU")
    limits = board.limits
    times = [
        minutes_for(board, Mode.TEST, dueled=False),
        minutes_for(board, Mode.RANKED, dueled=False),
        minutes_for(board, Mode.RANKED, dueled=True),
    ]
    assert times == sorted(set(times))
    assert times[0] * 60 > limits.compile_timeout_s + limits.test_timeout_s
    assert times[2] * 60 > 3 * limits.compile_timeout_s + limits.test_timeout_s + 2 * limits.ranked_timeout_s
    endless = replace(board, limits=replace(limits, ranked_timeout_s=86_400.0))
    assert minutes_for(endless, Mode.RANKED, dueled=False) < 360


def test_a_skipped_request_outputs_only_that_it_is_unwanted():
    assert Resolution(note="over").outputs == {"wanted": "false"}
    wanted = Resolution(note="go", digest="0" * 64, runs_on='"cpu"', minutes=9)
    assert wanted.outputs == {"wanted": "true", "digest": "0" * 64, "runs-on": '"cpu"', "minutes": "9"}


@dataclass
class _Seen:
    names: set[str] = field(default_factory=set)

    def need(self, name: str) -> None:
        if name not in self.names:
            self.names.add(name)
            for line in importlib.metadata.requires(name) or ():
                if "extra ==" not in line:
                    self.need(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower().replace("_", "-"))


def test_the_judges_lock_pins_every_library_that_harness_pyz_imports_by_hash():
    needed = _Seen()
    for name in ("numpy", "pydantic", "pyyaml"):
        needed.need(name)
    assert needed.names == set(LIBRARIES)
    lock = judge_lock()
    assert set(re.findall(r"^(\S+)==", lock, re.MULTILINE)) == set(LIBRARIES)
    assert all("--hash=sha256:" in block for block in re.split(r"^(?=\S)", lock, flags=re.MULTILINE) if block)


# With a GitHub.

THEIRS = b"def custom_kernel(data):\n    return data[0] + data[1]\n"
BENS = "submissions/vectoradd/ben/submission.py"


class Scene:
    """A repository, its ledger, and a pull request of ada's."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "github")
        self.server = GitHubServer(self.world)
        self.ledger = Ledger(folder / "ledger")
        self.ledger.path.mkdir()
        self.out = folder / "bundle"
        self.world.commit({"README.md": "A competition."})
        self.ada = self.world.add_user("ada")
        self.pull = self.open(self.ada, PATH, SOURCE)

    def open(self, author: User, path: str, source: bytes, **how: object) -> Pull:
        return self.world.open_pull(author, {path: source}, **how)

    def ask(self, mode: Mode = Mode.RANKED, source: bytes = SOURCE, **changes: object) -> Request:
        asked = request(
            mode,
            id=make_id(self.pull.number, self.pull.head_sha, "CPU", mode),
            user_id=self.ada.id,
            pull_request=self.pull.number,
            head_sha=self.pull.head_sha,
            blob_sha=blob_sha(source),
            digest=hashlib.sha256(source).hexdigest(),
            asked_by=self.ada.id,
            **changes,
        )
        self.ledger.append_request(asked)
        return asked

    def resolve(self, asked: Request) -> Resolution:
        with Fork(self.server.git_url) as fork:
            return resolve(asked.id, self.out, fork=fork, ledger=self.ledger, settings=SETTINGS, root=ROOT)

    def bundle(self, asked: Request) -> Bundle:
        resolution = self.resolve(asked)
        assert resolution.digest, resolution.note
        return read_bundle((self.out / "bundle.zip").read_bytes(), resolution.digest)

    def crown(self, login: str = "ben", *, from_pull: bool = True, source: bytes = THEIRS) -> Judgement:
        """Make somebody else first on the board."""
        user = self.world.add_user(login)
        pull = self.open(user, f"submissions/vectoradd/{login}/submission.py", source)
        head_sha = pull.head_sha if from_pull else "f" * 40
        judgement = first_place(login, user.id, pull.number, head_sha, source)
        self.ledger.append(judgement, "r1")
        return self.ledger.judgements().judgements[-1]


LATER = NOW + timedelta(hours=1)
SETTINGS = load_settings(ROOT / ".github" / "pullrank.yml")


def first_place(login: str, user_id: int, number: int, head_sha: str, source: bytes) -> Judgement:
    board = vectoradd().board("CPU")
    runs = tuple(Run(order=order, warmups_us=(), samples_us=(100.0,), seeds=(order,)) for order in range(6))
    timing = Timing.of(runs, runs, overhead_us=1.0, bound_us=1.0, steady=True, note="")
    good = {"verdict": Verdict.ACCEPTED, "seconds": 1.0}
    cases = [
        CaseResult(kind=CaseKind.BUILD, params={}, **good),
        *(CaseResult(kind=CaseKind.TEST, params=dict(case.params), **good) for case in board.tests),
        *(CaseResult(kind=CaseKind.BENCHMARK, params=dict(c.params), timing=timing, **good) for c in board.benchmarks),
    ]
    digest = hashlib.sha256(source).hexdigest()
    cpu = Machine(device="c", cpu="c", cores=2, memory_gib=8.0, os="L", python="3.11", torch="2", quiet=True)
    return Judgement(
        task="vectoradd",
        edition=board.edition,
        gpu="CPU",
        mode=Mode.RANKED,
        submission=SubmissionInfo(
            login=login, user_id=user_id, pull_request=number, head_sha=head_sha, digest=digest, lines=2
        ),
        verdict=Verdict.ACCEPTED,
        message="",
        cases=tuple(cases),
        claim=Claim.BOUNDED,
        machine=cpu,
        sandbox=SandboxInfo(kind="bubblewrap", stop="signals"),
        harness=HarnessInfo(version="0.1.0", method=1, digest="0" * 64),
        started_at=NOW,
        finished_at=NOW,
    )


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    with made.server:
        yield made


def test_a_bundle_holds_the_requested_blob(scene):
    asked = scene.ask()
    bundle = scene.bundle(asked)
    assert bundle.submission.source == SOURCE
    assert (bundle.submission.login, bundle.submission.user_id) == ("ada", scene.ada.id)
    assert bundle.submission.head_sha == scene.pull.head_sha
    assert (bundle.order.id, bundle.order.mode) == (asked.id, Mode.RANKED)
    assert bundle.champion is None
    with bundle.open_board() as board:
        assert board.edition == vectoradd().board("CPU").edition


def test_the_bundle_comes_with_the_files_that_run_it(scene):
    bundle = scene.bundle(scene.ask())
    assert {path.name for path in scene.out.iterdir()} == {"bundle.zip", "harness.pyz", "hosted.sh", "judge.lock"}
    assert (scene.out / "harness.pyz").read_bytes() == bundle.harness


def test_resolving_uses_only_git(scene):
    scene.crown()
    assert scene.resolve(scene.ask()).digest
    assert not scene.server.rest_requests()


@pytest.mark.parametrize("state", [EndState.SUPERSEDED, EndState.CANCELLED])
def test_an_ended_request_is_skipped_and_writes_nothing(scene, state):
    asked = scene.ask()
    scene.ledger.append_ending(asked, Ending(request=asked.id, state=state, at=NOW))
    resolution = scene.resolve(asked)
    assert not resolution.digest
    assert f"already ended: {state}" in resolution.note
    assert not scene.out.exists()


def test_a_request_missing_from_the_ledger_is_an_error(scene):
    with pytest.raises(PullRankError, match="no request"):
        scene.resolve(request())


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda s: s.world.push(s.pull, {PATH: "/etc/passwd"}, modes={PATH: "120000"}), "a symbolic link"),
        (lambda s: s.world.push(s.pull, {PATH: SOURCE}, modes={PATH: "100755"}), "is executable"),
        (lambda s: s.world.push(s.pull, {"conftest.py": b"import os"}), "exactly one file"),
        (lambda s: s.world.push(s.pull, {".github/workflows/evaluate.yml": b"on: push"}), "exactly one file"),
        (lambda s: s.ledger.append_account(KnownAccount(user_id=3, login="Ada", first_seen=NOW)), "belongs to"),
        (lambda s: s.ledger.append_fact(ban_of(s.ada)), "of this account are not judged: `copied`"),
    ],
)  # fmt: skip
def test_a_request_that_became_invalid_since_intake_is_refused(scene, harm: Callable[[Scene], object], message):
    harm(scene)
    source = b"/etc/passwd" if "link" in message else SOURCE
    resolution = scene.resolve(scene.ask(source=source))
    assert message in resolution.refusal and message in resolution.note
    assert resolution.outputs == {"wanted": "false", "refusal": resolution.refusal}
    assert not scene.out.exists()


def ban_of(user: User) -> Moderation:
    return Moderation(id="m1", action=Action.BAN, user_id=user.id, reason="copied", by=1, at=NOW)


def test_a_request_for_a_removed_task_is_refused(scene):
    asked = scene.ask(task="retired")
    assert scene.resolve(asked).refusal == "The task `retired` no longer exists."


def test_a_rematch_of_a_commit_that_is_gone_is_refused(scene):
    asked = request(
        id=make_id(scene.pull.number, "f" * 40, "CPU", Mode.RANKED), user_id=scene.ada.id, head_sha="f" * 40,
        pull_request=scene.pull.number, asked_by=ACTIONS_BOT.id,
    )  # fmt: skip
    scene.ledger.append_request(asked)
    assert scene.resolve(asked).refusal == "The commit `fffffff` is gone. Push again."


def test_a_git_failure_is_an_error_and_not_a_refusal(scene):
    asked = scene.ask()
    scene.server.failures.add("* */kernels.git/*", Failure(status=503), times=99)
    with pytest.raises(PullRankError):
        scene.resolve(asked)


def test_a_bundle_carries_the_champion_from_its_judged_commit(scene):
    judgement = scene.crown()
    champion = scene.bundle(scene.ask()).champion
    assert champion
    assert (champion.submission.login, champion.submission.source) == ("ben", THEIRS)
    assert champion.submission.user_id == judgement.submission.user_id
    assert champion.nominal_us == (100.0,) * len(judgement.benchmarks)
    assert champion.score.value == pytest.approx(100.0)


def test_a_champion_knows_how_many_duels_of_the_author_had_no_result(scene):
    scene.crown()
    mine = first_place("ada", scene.ada.id, scene.pull.number, scene.pull.head_sha, SOURCE)
    theirs = first_place("eve", 99, scene.pull.number, scene.pull.head_sha, SOURCE)
    even, slower = (duel_with("ben", THEIRS, ratio, earlier=1) for ratio in (1.0, 1.1))
    short, another = duel_with("ben", THEIRS, 1.0), duel_with("ben", b"# an earlier file", 1.0, earlier=1)
    old = mine.model_copy(update={"edition": "0" * 64})
    played = [(mine, even), (mine, slower), (mine, short), (mine, another), (mine, even), (theirs, even), (old, even)]
    for number, (judgement, duel) in enumerate(played):
        lost = judgement.model_copy(update={"duel": duel, "finished_at": NOW + timedelta(hours=number + 1)})
        scene.ledger.append(lost, f"r{number + 10}")
    champion = scene.bundle(scene.ask()).champion
    assert champion and (champion.submission.login, champion.earlier) == ("ben", 2)


def test_the_one_to_duel_is_whoever_beat_a_leader_that_withdrew(scene):
    first = scene.crown()
    scene.ledger.append(first_place("cy", 98, 98, "c" * 40, b"# c").model_copy(update={"finished_at": LATER}), "r2")
    eve = scene.world.add_user("eve")
    pull = scene.open(eve, "submissions/vectoradd/eve/submission.py", b"# e")
    won = {"duel": duel_with("ben", THEIRS, 0.9), "finished_at": LATER + timedelta(hours=1)}
    judgement = first_place("eve", eve.id, pull.number, pull.head_sha, b"# e").model_copy(update=won)
    scene.ledger.append(judgement, "r3")
    withdrawn = Moderation.about(
        first, Action.WITHDRAW, id="m1", reason="/withdraw", by=first.submission.user_id, at=NOW
    )
    scene.ledger.append_fact(withdrawn)
    champion = scene.bundle(scene.ask()).champion
    assert champion and champion.submission.login == "eve"
    table = LedgerBoards(scene.ledger, ROOT).of(vectoradd().board("CPU"))
    assert [row.login for row in table.rows] == ["eve", "cy"]


def test_a_champion_whose_commit_is_gone_gets_no_duel(scene):
    scene.crown(from_pull=False)
    assert scene.bundle(scene.ask()).champion is None


def test_only_a_ranked_judging_has_a_duel(scene):
    scene.crown()
    assert scene.bundle(scene.ask(Mode.BENCHMARK)).champion is None


@pytest.mark.parametrize(("login", "source"), [("ada", THEIRS), ("Ada", THEIRS), ("ben", SOURCE)])
def test_nobody_duels_themselves_or_the_same_file(scene, login, source):
    scene.crown(login, source=source)
    assert scene.bundle(scene.ask()).champion is None


def test_a_baseline_has_no_place_so_the_bot_neither_merges_nor_closes_it(scene):
    asked = scene.ask()
    judgement = first_place("ada", scene.ada.id, scene.pull.number, scene.pull.head_sha, SOURCE)
    ending = Ending(request=asked.id, state=EndState.JUDGED, verdict=Verdict.ACCEPTED, at=NOW)
    path = scene.ledger.append(judgement, asked.id)
    status = RequestStatus(request=asked, ending=ending)
    assert LedgerBoards(scene.ledger, ROOT).place(status) is PlaceKind.ROW
    path.write_text(judgement.model_copy(update={"baseline": "torch.add"}).to_json())
    assert LedgerBoards(scene.ledger, ROOT).place(status) is None


@pytest.mark.parametrize(
    ("deadline", "place"), [("2026-11-20T12:00:00Z", PlaceKind.ROW), ("2999-01-01T00:00:00Z", None)]
)
def test_a_newer_timing_method_takes_a_row_that_is_not_merged_yet_from_an_open_board_only(
    scene, tmp_path, deadline, place
):
    folder = tmp_path / "main/tasks/vectoradd"
    shutil.copytree(ROOT / "tasks/vectoradd", folder)
    (folder / "task.yml").write_text(f"{(folder / 'task.yml').read_text()}\ndeadline: {deadline}\n")
    asked, before = scene.ask(), replace(vectoradd().board("CPU"), method=1)
    judgement = first_place("ada", scene.ada.id, scene.pull.number, scene.pull.head_sha, SOURCE)
    harness = judgement.harness.model_copy(update={"method": 1})
    scene.ledger.append(judgement.model_copy(update={"edition": before.edition, "harness": harness}), asked.id)
    ending = Ending(request=asked.id, state=EndState.JUDGED, verdict=Verdict.ACCEPTED, at=NOW)
    boards = LedgerBoards(scene.ledger, tmp_path / "main")
    assert boards.place(RequestStatus(request=asked, ending=ending)) is place
    table = boards.find("vectoradd", "CPU")
    assert table and not table.rows, "no duel is due: it would be timed in the newer way"


def test_a_baseline_duels_nobody(scene):
    scene.crown()
    task = vectoradd()
    baseline = Baseline(name="torch.add", path=Path("add.py"), digest=hashlib.sha256(SOURCE).hexdigest())
    asked = scene.ask()
    with Fork(scene.server.git_url) as fork:
        judged = scene.ledger.judgements().judgements
        find = partial(
            find_champion, judgements=judged, ledger=scene.ledger, request=asked, source=SOURCE, fork=fork, root=ROOT
        )
        fork.changes(asked.head_sha)
        assert find(task.board("CPU")) is not None
        assert find(replace(task, baselines=(baseline,)).board("CPU")) is None


@pytest.mark.parametrize("action", [Action.DISQUALIFY, Action.HOLD])
def test_a_held_or_disqualified_champion_gets_no_duel(scene, action):
    judgement = scene.crown()
    decision = Moderation(id="m1", action=action, judgement=judgement.checksum, reason="copied", by=1, at=NOW)
    scene.ledger.append_fact(decision)
    assert scene.bundle(scene.ask()).champion is None


@pytest.mark.parametrize(("action", "word"), [(Action.DISQUALIFY, "disqualified"), (Action.HOLD, "held for review")])
def test_a_removed_file_is_not_ranked_again(scene, action, word):
    first = first_place("ada", scene.ada.id, scene.pull.number, scene.pull.head_sha, SOURCE)
    scene.ledger.append(first, "r1")
    (judgement,) = scene.ledger.judgements().judgements
    about = {"judgement": judgement.checksum, "whole_file": True}
    decision = Moderation(id="m1", action=action, **about, reason="Copied.", by=1, at=NOW)
    scene.ledger.append_fact(decision)
    refusal = scene.resolve(scene.ask()).refusal
    assert f"this file does not count on this board ({word}): `Copied.`" in refusal
    assert scene.resolve(scene.ask(Mode.BENCHMARK)).digest


def test_an_attempt_that_no_machine_took_is_not_a_failure():
    """GitHub ends it after a day.  A machine that is away for a week must not cost anybody the ranking."""

    def history(seconds: float, hours: int) -> list[RequestStatus]:
        at = NOW + timedelta(hours=hours)
        attempts = (request(id=make_id(12, HEAD, "CPU", Mode.RANKED, attempt)) for attempt in (1, 2, 3))
        ending = {"state": EndState.FAILED, "seconds": seconds, "at": at}
        return [RequestStatus(request=one, ending=Ending(request=one.id, **ending)) for one in attempts]

    def goes_on(statuses: list[RequestStatus]) -> bool:
        return next_attempt(statuses[-1].request, statuses, NOW) is not None

    assert goes_on(history(seconds=0, hours=24))
    assert not goes_on(history(seconds=5, hours=24)) and not goes_on(history(seconds=0, hours=1))
