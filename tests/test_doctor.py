"""The doctor's findings: each has a remedy."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from harness.gpu.gpu_nodes import GpuNode
from harness.processes.freezer import find_cgroup
from harness.sandbox import sandbox
from harness.sandbox.works_here import find_faults
from scripts.cli import run
from scripts.doctor.finding import Availability
from scripts.doctor.machine import _browser, _compute_mode, _core_dumps, _freezer, _gpus, _memory, examine

ROOT = Path(__file__).parent.parent


def test_each_finding_that_is_not_good_says_what_to_do():
    findings = examine()
    assert {"Python", "torch", "sandbox", "freezer", "memory", "user", "cores", "g++", "ninja", "nvcc", "GPU"} <= {
        one.name for one in findings
    }
    assert [one.name for one in findings if one.state is not Availability.OK and not one.remedy] == []


def test_the_exit_code_and_findings_show_whether_this_machine_can_judge(capsys):
    code = run(["doctor", "--json"])
    states = {finding["name"]: finding["state"] for finding in json.loads(capsys.readouterr().out)}
    assert code == int("missing" in states.values())
    assert (states["sandbox"] == "missing") is bool(find_faults())
    group = find_cgroup()
    assert (states["freezer"] == "ok") is (group is not None)
    assert (states["memory"] == "ok") is (group is not None and group.limits_memory)
    if group:
        group.remove()


@pytest.mark.parametrize(("pattern", "state"), [("|/handler %p", Availability.LIMITED), ("core", Availability.OK)])
def test_a_crash_that_starts_a_program_of_the_machine_is_reported(pattern, state, monkeypatch, tmp_path):
    (tmp_path / "core_pattern").write_text(f"{pattern}\n")
    monkeypatch.setattr(sandbox, "_CORE_PATTERN", tmp_path / "core_pattern")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
    assert _core_dumps().state is state


def test_a_torch_that_cannot_be_imported_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libcublas.so.12: cannot open shared object file')\n")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"}
    command = [sys.executable, "-m", "scripts.cli", "doctor", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (torch,) = (one for one in json.loads(done.stdout) if one["name"] == "torch")
    assert torch["state"] == "missing"
    assert "cannot be imported: libcublas.so.12" in torch["detail"] and "install it again" in torch["remedy"]


@pytest.mark.parametrize(
    ("limited", "could_be", "state", "remedy"),
    [
        (True, True, Availability.OK, ""),
        (False, True, Availability.LIMITED, "systemd-run --user --scope -p Delegate=yes"),
        (False, False, Availability.LIMITED, "systemd.unified_cgroup_hierarchy=1"),
    ],
)
def test_the_remedy_for_a_missing_memory_limit_depends_on_the_kernel(limited, could_be, state, remedy):
    finding = _memory(limited=limited, could_be=could_be)
    assert finding.state is state
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Default", [(Availability.OK, "")]),
        (
            "Exclusive_Process",
            [(Availability.LIMITED, "nvidia-smi -c 0, as root: referee and player share the GPU")],
        ),
        ("Prohibited", [(Availability.LIMITED, "nvidia-smi -c 0, as root: referee and player share the GPU")]),
        ("", []),
    ],
)
def test_a_gpu_in_exclusive_mode_is_reported_as_limited(said, found, monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\ncase "$*" in *compute_mode*--id=GPU-1) echo {said};; *) exit 1;; esac\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    findings = _compute_mode(GpuNode(vendor="nvidia", node="/dev/nvidia0", id="GPU-1"))
    assert [(finding.state, finding.remedy) for finding in findings] == found


def test_a_mig_slice_does_not_count_as_a_whole_gpu(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5b36b802-0ab0-5f37-af2d-ac23f40ef62d")
    (finding,) = [finding for finding in _gpus() if finding.name == "GPU"]
    assert finding.state is Availability.LIMITED
    assert "give the judge a whole GPU" in finding.remedy


@pytest.mark.parametrize(("program", "state"), [("chromium", "ok"), ("google-chrome", "optional")])
def test_the_doctor_finds_the_browser_that_the_tests_use(program, state, monkeypatch, tmp_path):
    (tmp_path / program).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _browser().state == state


def test_the_doctor_explains_a_missing_freezer_and_how_to_get_one():
    finding = _freezer(None)
    assert finding.state is Availability.LIMITED
    assert "signals" in finding.detail
    assert "Delegate=yes" in finding.remedy


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_the_doctor_says_how_to_install_a_missing_bubblewrap(arguments, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["doctor", *arguments]) == 1
    said = capsys.readouterr().out
    assert "apt install bubblewrap" in said
    assert arguments or said.endswith("This machine cannot judge yet: sandbox.\n")
