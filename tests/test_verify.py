"""`pullrank verify`: replays the same file on the same inputs, and reports what is the same and what is not."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.gpu.gpu_nodes import find_gpus
from harness.judge import judge
from harness.records.fields import Mode
from harness.records.judgement import MAX_BYTES, Judgement
from harness.records.replay import Replay
from harness.records.verdict import Verdict
from harness.referee.digest import digest
from harness.referee.sampling import SAMPLES, WARMUPS
from harness.task.submission import Submission
from harness.task.task import Board, load_task
from scripts.cli import run
from scripts.common.http_request import RequestLimits
from scripts.verify.compare import Comparison
from tests.test_boards import hostile, serving

TINY = Path(__file__).parent / "tasks" / "tiny"
GOOD = b"def custom_kernel(data):\n    return data + 1\n"


def the_board() -> Board:
    return load_task(TINY).board("CPU")


def judged_file(source: bytes, mode: Mode = Mode.BENCHMARK, **how: Any) -> Judgement:
    return judge(the_board(), Submission(login="ada", source=source), mode, sandbox="none", **how)


@pytest.fixture(scope="module")
def judged() -> Judgement:
    found = judged_file(GOOD)
    assert found.verdict is Verdict.ACCEPTED
    return found


def verify(judgement: Judgement, folder: Path, *options: str, source: bytes = GOOD, code: int = 0) -> None:
    (folder / "judgement.json").write_text(judgement.to_json())
    (folder / "kernel.py").write_bytes(source)
    words = ["--file", str(folder / "kernel.py"), "--task-dir", str(TINY), "--sandbox", "none", *options]
    assert run(["verify", str(folder / "judgement.json"), *words]) == code


def test_a_replay_uses_the_same_seeds_and_never_ranks(judged: Judgement) -> None:
    again = judged_file(GOOD, replay=Replay(judged))
    assert [case.seed for case in again.tests] == [case.seed for case in judged.tests]
    assert [case.digests for case in again.cases] == [case.digests for case in judged.cases]
    assert [case.kind for case in judged.cases if case.digests] == ["test", "test", "benchmark"]
    assert all(case.seed is not None for case in again.tests)
    for then, now in zip(judged.benchmarks, again.benchmarks, strict=True):
        assert then.timing and now.timing
        for side in ("submission", "anchor"):
            before, after = getattr(then.timing, side), getattr(now.timing, side)
            common = min(len(before), len(after))
            assert [one.seeds for one in after[:common]] == [one.seeds for one in before[:common]] and common >= 6
    with pytest.raises(ValueError, match="cannot be ranked"):
        judged_file(GOOD, Mode.RANKED, replay=Replay(judged))


@pytest.mark.parametrize("seeds", [1, 100])
def test_a_replay_of_runs_with_other_numbers_of_calls_has_as_many_as_any_run(judged: Judgement, seeds: int) -> None:
    build, *tests, benchmark = judged.cases
    assert benchmark.timing
    runs = [
        tuple(
            run.model_copy(update={"warmups_us": (), "samples_us": (1.0,) * seeds, "seeds": tuple(range(seeds))})
            for run in side
        )
        for side in (benchmark.timing.submission, benchmark.timing.anchor)
    ]
    timing = benchmark.timing.model_copy(update={"submission": runs[0], "anchor": runs[1]})
    cases = (build, *tests, benchmark.model_copy(update={"timing": timing}))
    again = judged_file(GOOD, replay=Replay(judged.model_copy(update={"cases": cases})))
    (now,) = again.benchmarks
    assert now.timing
    assert {len(run.seeds) for run in (*now.timing.submission, *now.timing.anchor)} == {WARMUPS + SAMPLES}
    assert all(
        run.seeds[: min(seeds, WARMUPS + SAMPLES)] == tuple(range(min(seeds, WARMUPS + SAMPLES)))
        for run in now.timing.submission[:6]
    )


def test_verify_finds_the_same_verdicts_and_shows_the_judged_ratios(judged, tmp_path, capsys) -> None:
    verify(judged, tmp_path, "--json")
    facts = json.loads(capsys.readouterr().out)
    assert facts["same"] and facts["verdicts"] == ["AC", "AC"] and facts["machine"] == {}
    assert facts["outputs"] == {"same bits": 3} and [case["outputs"] for case in facts["cases"]] == ["same bits"] * 3
    assert [case["ratios"][0] for case in facts["cases"] if case["ratios"]] == [
        case.timing.ratio.model_dump() for case in judged.benchmarks if case.timing
    ]


def test_outputs_that_round_differently_count_as_close_and_still_pass(tmp_path, capsys) -> None:
    wobbly = judged_file(WOBBLY, Mode.TEST)
    assert wobbly.verdict is Verdict.ACCEPTED
    verify(wobbly, tmp_path, "--json", source=WOBBLY)
    facts = json.loads(capsys.readouterr().out)
    assert facts["same"] and facts["cases"][1]["outputs"] == "close"


WOBBLY = b"""\
import os
import torch

def custom_kernel(data):
    up = torch.tensor(list(os.urandom(data.numel()))) % 2 == 0
    return torch.nextafter(data + 1, torch.where(up, 9.0, -9.0))
"""


def with_digests_of(judged: Judgement, **changes: str | None) -> Judgement:
    """As if it had been judged with other inputs or outputs; with `none`, before digests existed."""
    cases = [
        case.model_copy(update={"digests": None if "none" in changes else case.digests.model_copy(update=changes)})
        if case.digests
        else case
        for case in judged.cases
    ]
    return judged.model_copy(update={"cases": tuple(cases)})


def test_the_comparison_says_whether_inputs_and_outputs_match(judged: Judgement) -> None:
    def said(then: Judgement) -> tuple[bool, str]:
        found = Comparison(then, judged)
        return found.is_same, found.sentence

    assert said(judged) == (True, "The same verdicts, on the same inputs. The same outputs, bit for bit.")
    is_same, sentence = said(with_digests_of(judged, outputs="0" * 64))
    assert is_same and "In 3 of 3 accepted cases the output has other bits, within the task's tolerance" in sentence
    is_same, sentence = said(with_digests_of(judged, none=None))
    assert is_same and "can't be compared: the judgement predates their digests" in sentence
    is_same, sentence = said(with_digests_of(judged, inputs="0" * 64))
    assert not is_same and "No replay: in 3 of 3 accepted cases the task drew other inputs" in sentence


def test_the_comparison_counts_cases_with_another_verdict_if_that_of_all_is_the_same(judged: Judgement) -> None:
    def wrong_in(number: int) -> Judgement:
        test = judged.tests[number].model_copy(update={"verdict": Verdict.WRONG_ANSWER, "digests": None})
        cases = tuple(test if case == judged.tests[number] else case for case in judged.cases)
        return judged.model_copy(update={"verdict": Verdict.WRONG_ANSWER, "cases": cases})

    found = Comparison(wrong_in(0), wrong_in(1))
    assert not found.is_same and found.sentence == "Not the same: 2 of 3 cases got another verdict here, or none."


def test_a_judgement_without_digests_is_written_back_unchanged(judged: Judgement) -> None:
    old = with_digests_of(judged, none=None).to_json()
    assert "digests" not in old and Judgement.from_json(old).to_json() == old


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (torch.arange(6).reshape(2, 3), torch.arange(6).reshape(3, 2).clone().reshape(2, 3), True),
        (torch.arange(6).reshape(2, 3).t().contiguous(), torch.arange(6).reshape(2, 3).t(), True),
        (torch.zeros(6), torch.zeros(2, 3), False),
        (torch.zeros(2), torch.zeros(2, dtype=torch.int32), False),
        (torch.zeros(2), -torch.zeros(2), False),
        (torch.full((2,), math.nan), torch.full((2,), math.nan), True),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j]), True),
        (torch.zeros(0), torch.zeros(0, 1), False),
        ((1, 2), [1, 2], False),
        ([1, [2]], [[1], 2], False),
        ("12", 12, False),
        ({"a": 1, "b": 2.0}, {"a": 1, "b": 2.0}, True),
        ({"a": 1}, {"a": True}, False),
        (torch.zeros(2, dtype=torch.bfloat16), torch.zeros(2, dtype=torch.bfloat16), True),
    ],
)
def test_a_digest_covers_structure_dtypes_shapes_and_bits(one: Any, other: Any, is_same: bool) -> None:
    assert (digest(one) == digest(other)) == is_same


def test_verify_names_a_different_machine_and_exits_1_for_a_different_verdict(judged, tmp_path, capsys) -> None:
    machine = judged.machine.model_copy(update={"cpu": "Abacus\x1b[2J", "cores": 77})
    verdict = {"verdict": Verdict.WRONG_ANSWER, "message": "it was wrong"}
    wrong = judged.tests[0].model_copy(update=verdict | {"digests": None})
    rest = tuple(case for case in judged.cases if case is not judged.tests[0] and case not in judged.benchmarks)
    changes = {
        "mode": Mode.TEST,
        "machine": machine,
        "cases": (*rest[:1], wrong, *rest[1:]),
        **verdict,
    }
    verify(judged.model_copy(update=changes), tmp_path, code=1)
    shown = capsys.readouterr().out
    assert "Not the same: WA as judged, AC here" in shown and "cores: 77" in shown
    assert "Abacus\\x1b[2J" in shown and "\x1b[2J" not in shown


def test_a_replay_with_a_judging_error_exits_with_3(judged: Judgement) -> None:
    failed = judged.model_copy(update={"verdict": Verdict.JUDGING_ERROR})
    assert Comparison(judged, judged).exit_code == 0 and Comparison(failed, judged).exit_code == 1
    assert Comparison(judged, failed).exit_code == Comparison(failed, failed).exit_code == 3


def test_verify_says_why_a_judgement_cannot_be_replayed(judged, tmp_path, capsys) -> None:
    def said(judgement: Judgement = judged, source: bytes = GOOD) -> str:
        verify(judgement, tmp_path, source=source, code=2)
        return capsys.readouterr().err

    assert "is not the judged file" in said(source=GOOD + b"#\n")
    assert "it was judged at edition 0000" in said(judged.model_copy(update={"edition": "0" * 64}))
    before = replace(load_task(TINY).board(judged.gpu), method=1)
    older = {"edition": before.edition, "harness": judged.harness.model_copy(update={"method": 1})}
    assert "its times were taken with timing method 1" in said(judged.model_copy(update=older))
    (tmp_path / "judgement.json").write_text("{")
    assert run(["verify", str(tmp_path / "judgement.json"), "--task-dir", str(TINY)]) == 2
    assert "judgement.json: " in capsys.readouterr().err
    assert run(["verify", str(tmp_path / "nothing.json")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_a_replay_for_a_gpu_is_refused_without_one_with_the_way_out(judged, tmp_path, capsys) -> None:
    task = shutil.copytree(TINY, tmp_path / "tiny")
    (task / "task.yml").write_text((task / "task.yml").read_text().replace("gpus: [CPU]", "gpus: [CPU, H100]"))
    on_gpu = judged.model_copy(update={"gpu": "H100", "edition": load_task(task).board("H100").edition})
    (tmp_path / "judgement.json").write_text(on_gpu.to_json())
    (tmp_path / "kernel.py").write_bytes(GOOD)
    words = ["--file", str(tmp_path / "kernel.py"), "--task-dir", str(task), "--sandbox", "none"]
    assert run(["verify", str(tmp_path / "judgement.json"), *words]) == 2
    assert "no GPU found on this machine" in (said := capsys.readouterr().err)
    assert said.endswith("; replay it on a machine for H100\n")


# From a published site.


def said_of(address: str, capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    assert run(["verify", address, "--task-dir", str(TINY)]) == code
    said = capsys.readouterr().err
    assert "Traceback" not in said and "internal error" not in said
    return said


@pytest.mark.parametrize("page", ["", "/", "/index.html", "/judgement.json"])
def test_verify_reads_a_judgement_at_its_pages_address(judged, tmp_path, capsys, page) -> None:
    """Up to the check of the file: the judgement shows that another one was judged."""
    (tmp_path / "kernel.py").write_bytes(GOOD + b"#\n")
    words = ["--file", str(tmp_path / "kernel.py"), "--task-dir", str(TINY)]
    with serving(at("/cup/tiny/CPU/ada/judgement.json", judged.to_json().encode())) as url:
        assert run(["verify", f"{url}/tiny/CPU/ada{page}", *words]) == 2
    assert f"is not the judged file ({judged.submission.digest[:12]})" in capsys.readouterr().err


def at(path: str, content: bytes) -> type[Any]:
    class Handler(hostile(content)):  # type: ignore[misc]
        def do_GET(self) -> None:
            if self.path == path:
                super().do_GET()
            else:
                self.send_error(404)

    return Handler


@pytest.mark.parametrize(
    ("content", "status", "headers", "message", "code"),
    [
        (b"<html>", 200, (), "not JSON", 2),
        (b"[" * 100_000, 200, (), "not JSON", 2),
        (b"{}", 200, (), "judgement.json: ", 2),
        (b" " * (MAX_BYTES + 1), 200, (), f"the answer is larger than {MAX_BYTES:,} bytes", 3),
        (b"", 404, (), "not found", 2),
        (b"", 403, (), "answers 403\n", 2),
        (b"", 503, (), "answers 503; try again later", 3),
        (b"", 302, (("Location", "https://127.0.0.1:9/x"),), "redirects to another host, 127.0.0.1:9", 2),
        (b"", 302, (("Location", "ftp://127.0.0.1/x"),), "redirects away from https", 2),
        (b"{", 200, (("Content-Length", "99"),), "the answer was cut off", 3),
        (b"{", 200, (("Content-Length", "many"),), "cannot be read", 3),
    ],
)
def test_a_hostile_sites_answer_causes_one_error_message(capsys, content, status, headers, message, code) -> None:
    with serving(hostile(content, status, headers)) as url:
        assert message in said_of(f"{url}/judgement.json", capsys, code)


def test_verify_gives_up_on_a_site_that_answers_too_slowly(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scripts.boards.web.JUDGEMENT_LIMITS", RequestLimits(max_bytes=9, timeout_s=9, longest_s=0))
    with serving(hostile(b"{}")) as url:
        assert "the answer took over" in said_of(f"{url}/judgement.json", capsys, 3)


@pytest.mark.parametrize(
    "address",
    ["http://acme.github.io/cup/judgement.json", "ftp://127.0.0.1/x", "file:///etc/passwd", "https://a:b@acme.github.io/",
     "https://", "https://[x", "https://acme.github.io:port/", "http://127.0.0.1.acme.org/"],
)  # fmt: skip
def test_an_address_that_is_not_safe_is_refused(address: str, capsys) -> None:
    assert "must be an address that begins with https://" in said_of(address, capsys)
