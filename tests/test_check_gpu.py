"""`make check-gpu`, rehearsed: what it finds where all is well, and that it says so where something is not."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.gpu import CHECKS, GpuCheck, main
from scripts.cli import run

pytestmark = pytest.mark.walls


def test_a_rehearsal_judges_for_real_and_prints_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--rehearse", "--only", "wrong"], main) == 0
    shown = capsys.readouterr().out
    assert "| a wrong sum | WA | WA |" in shown


def test_a_check_with_an_unexpected_verdict_is_named_and_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = next(check for check in CHECKS if check.verdict == "WA")
    lax = GpuCheck(name=wrong.name, source=wrong.source, needs_gpu=False)  # as if a wrong sum were to be accepted
    monkeypatch.setattr("benchmarks.gpu.CHECKS", (lax,))
    assert run(["--rehearse", "--only", wrong.name], main) == 1
    assert "UNEXPECTED: output" in capsys.readouterr().out


def test_a_profile_without_vendor_counters_is_reported_as_unexpected(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = next(check for check in CHECKS if check.is_profiled)
    monkeypatch.setattr("benchmarks.gpu.CHECKS", (replace(asked, needs_gpu=False),))
    assert run(["--rehearse", "--only", asked.name], main) == 1
    assert "UNEXPECTED: no vendor's profiler was used" in capsys.readouterr().out


def test_the_json_output_has_the_machine_and_the_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--rehearse", "--only", "raises", "--json"], main) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["machine"]["device"] and made["seen"][0]["verdict"] == "RTE"


def test_every_check_is_a_valid_python_program() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS) > 12
    for check in CHECKS:
        compile(check.source, check.name, "exec")


def test_a_check_that_cannot_run_here_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--rehearse", "--only", "side stream"], main) == 2
    assert "no check that can run here" in capsys.readouterr().err


def test_the_makefile_has_a_check_gpu_target() -> None:
    assert "check-gpu: $(READY)  ## " in Path("Makefile").read_text()
