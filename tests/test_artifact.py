"""The judge's artifact is hostile input: forged fields and odd zips are refused."""

import io
import json
import random
import tracemalloc
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from harness.records.fields import Mode
from harness.records.judgement import Claim, Judgement, SandboxInfo, SubmissionInfo
from harness.records.verdict import Verdict
from harness.task.task import Board, Evaluator, Work
from scripts.bot.report.artifact import (
    MAX_ERROR,
    ArtifactError,
    read_artifact,
    why_below_the_floor,
    why_no_match,
)
from scripts.competition.settings import Gpu
from scripts.github.pulls import Job
from scripts.ledger.request import Request, make_id
from tests.competition import cases_of, digest_of, judgement_of, the_board, timing, zipped

HEAD = "a" * 40
DIGEST = digest_of(b"x")
URL = "https://github.com/acme/kernels/actions/runs/7"
BOARD = the_board()


def request(mode: Mode = Mode.RANKED, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "id": make_id(12, HEAD, "CPU", mode), "user_id": 7, "login": "alice", "pull_request": 12, "head_sha": HEAD,
        "blob_sha": "b" * 40, "task": "vectoradd", "gpu": "CPU", "mode": mode, "digest": DIGEST,
        "asked_at": datetime.now(UTC), "asked_by": 7,
    }  # fmt: skip
    return Request(**(fields | changes))


def job() -> Job:
    now = datetime.now(UTC)
    return Job(name="judge", started_at=now - timedelta(hours=2), completed_at=now)


def refusal(judgement: Judgement, asked: Request | None = None, gpu: Gpu | None = None, **changes: Any) -> str:
    facts: dict[str, Any] = {"harness_digest": judgement_of(request(), URL).harness.digest, "job": job()}
    facts |= {"run_url": URL, "board": BOARD} | changes
    return why_no_match(judgement, asked or request(), gpu=gpu or Gpu(runs_on="cpu"), **facts)


def forged(**changes: Any) -> Judgement:
    return judgement_of(request(), URL, **changes)


def of_submission(**changes: Any) -> Judgement:
    honest = forged().submission.model_dump()
    return forged(submission=SubmissionInfo(**(honest | changes)))


def test_an_honest_judgement_answers_its_request() -> None:
    for mode in (Mode.TEST, Mode.BENCHMARK, Mode.RANKED):
        asked = request(mode)
        assert refusal(judgement_of(asked, URL), asked) == ""
        assert refusal(judgement_of(asked, URL, wrong="no"), asked) == ""


NOW = datetime.now(UTC)
FORGED = [
    ("task", forged(task="matmul"), "its task"),
    ("GPU", forged(gpu="H100"), "its GPU"),
    ("mode", judgement_of(request(Mode.BENCHMARK), URL), "its mode"),
    ("login", of_submission(login="bob"), "its login"),
    ("login's case", of_submission(login="Alice"), "its login"),
    ("numeric id", of_submission(user_id=8), "its numeric id"),
    ("no numeric id", of_submission(user_id=None), "its numeric id"),
    ("pull request", of_submission(pull_request=13), "its pull request"),
    ("commit", of_submission(head_sha="c" * 40), "its commit"),
    ("no commit", of_submission(head_sha=None), "its commit"),
    ("file", of_submission(digest="d" * 64), "its file"),
    ("harness", forged(harness=forged().harness.model_copy(update={"digest": "0" * 64})), "its harness"),
    ("run", judgement_of(request(), "https://evil.example/"), "its run"),
    ("a test left out", forged(cases=tuple(c for n, c in enumerate(forged().cases) if n != 1)), "its cases"),
    ("a benchmark left out", forged(cases=forged().cases[:-1]), "its cases"),
    ("a test of its own", forged(cases=(*forged().cases, forged().cases[1])), "its cases"),
    ("easier benchmarks",
     forged(cases=(*forged().cases[:-1], forged().cases[-1].model_copy(update={"params": {"size": 1}}))), "its cases"),
    ("judged before the job", forged(started_at=NOW - timedelta(days=1)), "its start and end"),
    ("judged in the future", forged(finished_at=NOW + timedelta(days=1)), "its start and end"),
]  # fmt: skip


@pytest.mark.parametrize(("judgement", "reason"), [row[1:] for row in FORGED], ids=[row[0] for row in FORGED])
def test_a_forged_judgement_is_refused(judgement: Judgement, reason: str) -> None:
    assert reason in refusal(judgement)


def test_a_test_judgement_with_timed_cases_is_refused() -> None:
    asked = request(Mode.TEST)
    cases = tuple(cases_of(BOARD, Mode.RANKED, 0.5))
    assert "its cases" in refusal(judgement_of(asked, URL, cases=cases), asked)


CLAIMS = [
    ("CPU", Evaluator.REFEREE, "bubblewrap", Claim.BOUNDED),
    ("H100", Evaluator.REFEREE, "bubblewrap", Claim.BOUNDED),
    ("MI300X", Evaluator.REFEREE, "bubblewrap", Claim.INSIDE_TIMED),
    ("CPU", Evaluator.SCRIPT, "bubblewrap", Claim.SELF_TIMED),
    ("H100", Evaluator.SCRIPT, "bubblewrap", Claim.SELF_TIMED),
    ("CPU", Evaluator.REFEREE, "none", Claim.SELF_TIMED),
]


@pytest.mark.parametrize(("gpu", "evaluator", "sandbox", "honest"), CLAIMS)
def test_a_judgement_may_claim_no_more_than_our_judge_would(
    gpu: str, evaluator: Evaluator, sandbox: Literal["bubblewrap", "none"], honest: Claim
) -> None:
    board = replace(BOARD.task, gpus=("CPU", "H100", "MI300X"), evaluator=evaluator).board(gpu)
    asked = request(gpu=gpu, id=make_id(12, HEAD, gpu, Mode.RANKED))
    device = {"CPU": "CPU", "H100": "NVIDIA H100 80GB HBM3", "MI300X": "AMD Instinct MI300X"}[gpu]
    machine = judgement_of(asked, URL).machine.model_copy(update={"device": device})
    facts = {"sandbox": SandboxInfo(kind=sandbox, stop="signals"), "edition": "e" * 64, "machine": machine}
    taken = {
        claim for claim in Claim if not refusal(judgement_of(asked, URL, claim=claim, **facts), asked, board=board)
    }
    assert taken == set(CLAIM_ORDER[: CLAIM_ORDER.index(honest) + 1])


CLAIM_ORDER = [Claim.SELF_TIMED, Claim.INSIDE_TIMED, Claim.BOUNDED]


def test_a_device_other_than_the_configured_one_is_refused() -> None:
    assert "a device other than H100" in refusal(forged(), gpu=Gpu(runs_on="h", device=("H100",)))


def test_device_names_are_matched_by_whole_words() -> None:
    machine = forged().machine.model_copy(update={"device": "NVIDIA L40S"})
    assert "a device other than L4" in refusal(forged(machine=machine), gpu=Gpu(runs_on="h", device=("L4",)))
    assert refusal(forged(machine=machine), gpu=Gpu(runs_on="h", device=("nvidia l40s",))) == ""


@pytest.mark.parametrize(("device", "is_right"), [("4 x NVIDIA H200", True), ("4 x NVIDIA H200 NVL", False)])
def test_several_gpus_match_a_board_only_if_each_one_does(device: str, is_right: bool) -> None:
    machine = forged().machine.model_copy(update={"device": device})
    said = refusal(forged(machine=machine), gpu=Gpu(runs_on="h", device=("H200",)))
    assert ("a device other than H200" not in said) is is_right


def test_a_judging_error_is_not_accepted_as_an_answer() -> None:
    build = forged().cases[0].model_copy(update={"verdict": Verdict.JUDGING_ERROR})
    assert "judging error" in refusal(forged(cases=(build,), verdict=Verdict.JUDGING_ERROR))


def test_a_judgement_without_a_job_that_made_it_is_refused() -> None:
    assert "its start and end" in refusal(forged(), job=None)


# The zip.


def test_an_artifact_with_a_judgement_or_an_error_is_read() -> None:
    honest = forged()
    handed = read_artifact(zipped(honest.to_json()))
    assert handed.submission == honest.submission
    error = json.dumps({"format": "pullrank-error", "version": 1, "message": "a\nb\x1b[31m"})
    with pytest.raises(ArtifactError, match=r"^a b\\x1b\[31m$"):
        read_artifact(zipped(error, "error.json"))


def bomb() -> bytes:
    return zipped(b" " * (40 << 20))


def lzma() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("judgement.json", "{}")
    return made.getvalue()


HOSTILE = [
    ("nothing", b"", "not a valid zip"),
    ("no zip", b"PK" * 50, "not a valid zip"),
    ("empty", b"PK\5\6" + b"\0" * 18, "nothing else"),
    ("two members", zipped("{}", **{"error.json": b"{}"}), "nothing else"),
    ("twice the same name", zipped("{}", **{"judgement.jsom": b"{}"}).replace(b".jsom", b".json"), "nothing else"),
    ("zip slip", zipped("{}", "../judgement.json"), "nothing else"),
    ("another name", zipped("{}", "bundle.json"), "nothing else"),
    ("a folder", zipped("", "judgement.json/"), "nothing else"),
    ("bomb", bomb(), "larger than"),
    ("a long error", zipped(b" " * (MAX_ERROR + 1), "error.json"), "larger than"),
    ("greedy compression", lzma(), "compression"),
    ("torn", zipped(forged().to_json())[:-30], "not a valid zip"),
    ("no JSON", zipped("{"), "cannot be read"),
    ("not UTF-8", zipped(b"\xff\xfe{}"), "cannot be read"),
    ("deep", zipped("[" * 200_000), "cannot be read"),
    ("edited", zipped(forged().to_json().replace('"AC"', '"WA"', 1)), "checksum"),
    ("NaN", zipped(forged().to_json().replace("100.0", "NaN", 1)), "cannot be read"),
    ("infinite", zipped(forged().to_json().replace("100.0", "1e999", 1)), "cannot be read"),
    ("error without message", zipped('{"format": "pullrank-error", "version": 1}', "error.json"), "the expected format"),
    ("error that is none", zipped("7", "error.json"), "the expected format"),
    ("error with more", zipped('{"format": "pullrank-error", "version": 1, "message": "", "x": 1}', "error.json"),
     "the expected format"),
    ("error no JSON", zipped("[", "error.json"), "not JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "reason"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_hostile_artifact_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ArtifactError, match=reason):
        read_artifact(content)


def test_a_corrupted_artifact_raises_nothing_but_a_refusal() -> None:
    dice, said = random.Random(4), ""
    good = zipped('{"format": "pullrank-error", "version": 1, "message": "m"}', "error.json")
    for _ in range(3000):
        broken = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            broken[dice.randrange(len(broken))] = dice.randrange(256)
        try:
            read_artifact(bytes(broken))
        except ArtifactError as error:
            said += str(error)
    assert said and "\n" not in said


def test_a_member_is_unpacked_only_up_to_its_size_limit() -> None:
    packed = zipped(b"0" * (64 << 20), "error.json")
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError, match="is larger than"):
            read_artifact(packed)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


# The floor.


def floored(board: Board, bandwidth_gbs: float = 1000.0) -> str:
    gpu = Gpu(runs_on="h", bandwidth_gbs=bandwidth_gbs)
    return why_below_the_floor(forged(), board, gpu)


def test_a_time_below_the_hardware_floor_is_held_unless_possibly_cached() -> None:
    def working(size: str) -> Board:
        return replace(BOARD, task=replace(BOARD.task, work=Work(bytes=size)))

    assert timing(0.5).submission_us == 50.0
    assert "50.0 µs is below the hardware's floor of 1000000.0 µs" in floored(working("1000000000000"))
    assert floored(working("1000")) == ""
    # 50 µs and the bound of a microsecond, with floors of 51.2 and 50.8 µs.
    assert timing(0.5).bound_us == 1.0
    assert "the hardware's floor of 51.2 µs" in floored(working("512000000"), 10_000.0)
    assert floored(working("508000000"), 10_000.0) == ""
    # A hundred megabytes may fit into a cache, which is faster than the memory that the floor of 100 µs is for.
    assert floored(working("100000000")) == ""
    assert floored(replace(BOARD, task=replace(BOARD.task, work=None))) == ""


def test_no_cache_excuses_a_time_below_that_of_the_operations() -> None:
    board = replace(BOARD, task=replace(BOARD.task, work=Work(bytes="1000", flops="1000000000", dtype="float32")))
    # 50 µs, with floors of 100 and 10 µs.
    slow, fast = (Gpu(runs_on="h", bandwidth_gbs=1000.0, tflops={"float32": peak}) for peak in (10.0, 100.0))
    assert "50.0 µs is below the hardware's floor of 100.0 µs" in why_below_the_floor(forged(), board, slow)
    assert why_below_the_floor(forged(), board, fast) == ""
