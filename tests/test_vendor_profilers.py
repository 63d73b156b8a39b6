"""Vendors' profilers: stand-ins that follow the documentation of ncu and rocprofv3, in the real sandbox."""

import contextlib
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.gpu.device import REHEARSAL
from harness.gpu.vendor_profilers import MAX_TABLE, NCU, PARAMS, PROFILERS, ROCPROF, ProfilerOutput, why_refused
from harness.judge import judge
from harness.records.counters import MAX_KERNELS, MAX_REPORT, Counters, Kernel, LaunchFilter
from harness.records.errors import SubmissionError
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.profile import Profile
from harness.records.verdict import Verdict
from harness.task.submission import Submission
from harness.task.task import load_task
from scripts.boards.judgement_tables import show
from scripts.bot.comment.check_report import facts_as_text
from scripts.bot.comment.judgement_section import render
from scripts.bot.comment.markdown import NBSP
from scripts.bot.evaluate.resolve import minutes_for
from scripts.cli import run
from scripts.common.terminal import console
from scripts.doctor.finding import Availability
from scripts.doctor.machine import _profiler
from scripts.standings.profiles import limit_of
from tests.game_session import GameSession
from tests.test_profile import HOSTILE, made
from tests.test_request import request
from tests.vendor_profilers import NCU_TABLE, REFUSED, ROCPROF_TABLE, installed, put

BOARD = load_task(Path(__file__).parent / "tasks" / "tiny").board("CPU")
RIGHT = "import os, time\ndef custom_kernel(data):\n    return data + 1\n"
NVIDIA, AMD = replace(REHEARSAL, rehearses="nvidia"), replace(REHEARSAL, rehearses="amd")


@pytest.fixture
def found(monkeypatch):
    """Put a folder first in the PATH."""
    return lambda folder: monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def profiled(device, reports=None, source=RIGHT, **how):
    file = Submission(login="sample", source=source.encode(), name="submission.py")
    judgement = judge(BOARD, file, Mode.PROFILE, device=device, reports=reports, **how)
    Judgement.from_json(judgement.to_json())
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert all(case.profile.operations for case in judgement.profiles), "torch's own is there whatever becomes of it"
    return judgement


def counters_of(judgement):
    (case,) = judgement.profiles
    return case.profile.counters


class ProfiledPlayer:
    """One sandbox with one vendor's device for all tests; each test installs its own stand-in for the profiler."""

    def __init__(self, session, name, folder):
        self._session, self._name, self._folder = session, name, folder

    def counters(self, *how, program="", source=RIGHT, reports=None):
        """The result of the profiler that `put` installs with `how`, or of this program."""
        put(self._folder, self._name, *how)
        if program:
            (self._folder / self._name).write_text(program)
        with first_in_the_path(self._folder):
            return self.counters_here(source=source, reports=reports)

    def counters_here(self, source=RIGHT, reports=None):
        cases = self._session.play(source, reports)
        assert [case.message for case in cases if case.verdict is not Verdict.ACCEPTED] == []
        profiles = [case.profile for case in cases if case.profile]
        assert all(profile.operations for profile in profiles), "torch's own is there whatever becomes of it"
        (profile,) = profiles
        return profile.counters


@contextlib.contextmanager
def first_in_the_path(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        yield


@contextlib.contextmanager
def profiled_player(device, name):
    with installed(name) as folder, contextlib.ExitStack() as walls:
        with first_in_the_path(folder):
            session = walls.enter_context(GameSession(BOARD, Mode.PROFILE, device))
        yield ProfiledPlayer(session, name, folder)


@pytest.fixture(scope="module")
def nvidia():
    with profiled_player(NVIDIA, "ncu") as made:
        yield made


@pytest.fixture(scope="module")
def amd():
    with profiled_player(AMD, "rocprofv3") as made:
        yield made


# ---------------------------------------------------------------------- through the walls


@pytest.mark.walls
def test_ncu_profiles_a_player_and_its_report_is_kept(found, tmp_path):
    with installed("ncu", NCU_TABLE) as folder:
        found(folder)
        counters = counters_of(profiled(NVIDIA, tmp_path))
    kernel = "void gemm<float, 128>(float *, float *)"
    assert (counters.tool, counters.trouble, counters.kernels[0].name) == ("ncu", "", kernel)
    (report,) = tmp_path.iterdir()
    assert (report.name, report.read_text()) == ("profile-1.ncu-rep", "NVR\n" + NCU_TABLE)
    assert counters.report_bytes == report.stat().st_size


@pytest.mark.walls
def test_rocprofv3_profiles_a_player_and_its_table_is_the_report(amd, tmp_path):
    counters = amd.counters(ROCPROF_TABLE, reports=tmp_path)
    kernel = "gemm(float*, float const*)"
    assert (counters.tool, counters.trouble, counters.kernels[0].name) == ("rocprofv3", "", kernel)
    (report,) = tmp_path.iterdir()
    assert (report.name, report.read_text()) == ("profile-1.csv", ROCPROF_TABLE)
    assert counters.report_bytes == report.stat().st_size


def test_ncu_profiles_a_player_without_a_sandbox_too(found):
    with installed("ncu", NCU_TABLE) as folder:
        found(folder)
        chosen = LaunchFilter(kernel="^.*elementwise", skip=1, count=1)
        counters = counters_of(profiled(NVIDIA, sandbox="none", launches=chosen))
    assert [(one.name, one.launches, one.time_us) for one in counters.kernels] == [("elementwise(float *)", 1, 30.0)]
    assert counters.chosen == chosen
    assert not counters.report_bytes, "nobody asked for the report"


@pytest.mark.walls
@pytest.mark.skipif(bool(NCU.path), reason="ncu is here")
def test_a_missing_profiler_is_reported_and_torchs_table_remains(nvidia):
    counters = nvidia.counters_here()
    assert counters.kernels == ()
    assert counters.trouble.startswith("ncu is not on the judge's machine: install ")


@pytest.mark.walls
def test_a_missing_profiler_permission_is_reported_with_its_fix(nvidia, tmp_path):
    counters = nvidia.counters(None, REFUSED, 1, reports=tmp_path)
    assert "may not read the GPU's counters (ERR_NVGPUCTRPERM)" in counters.trouble
    assert "NVreg_RestrictProfilingToAdminUsers=0" in counters.trouble
    assert counters.kernels == () and list(tmp_path.iterdir()) == []


@pytest.mark.walls
def test_a_profiler_that_exits_without_starting_the_player_is_reported(nvidia):
    counters = nvidia.counters(program="#!/bin/sh\necho '==ERROR== option not known' >&2\nexit 3\n")
    assert "exit code 3" in counters.trouble and "after `==ERROR== option not known`" in counters.trouble


KILLER = """
import os, signal
def custom_kernel(data):
    with open(f"/proc/{os.getppid()}/cmdline") as line:
        if "ncu" in line.read():
            os.kill(os.getppid(), signal.SIGKILL)
    return data + 1
"""
FORGER = """
import atexit, glob, os
def forge():
    for folder in glob.glob("/tmp/profile-*"):
        with open(folder + "/profile_kernel_trace.csv", "w") as table:
            table.write(%r)
        os.kill(os.getppid(), 9)
atexit.register(forge)
def custom_kernel(data):
    return data + 1
"""
FORGED = 'Kind,Kernel_Name,Start_Timestamp,End_Timestamp\nKERNEL_DISPATCH,"@everyone | \x1b[31m",10,nan\nKERNEL_DISPATCH,"<b>",10,20\n'


@pytest.mark.walls
def test_a_submission_that_kills_the_profiler_loses_only_its_own_counters(nvidia):
    counters = nvidia.counters(NCU_TABLE, source=KILLER)
    assert counters.trouble and not counters.kernels


@pytest.mark.walls
def test_a_table_forged_by_a_submission_is_read_like_any_other(amd, tmp_path):
    counters = amd.counters(ROCPROF_TABLE, source=FORGER % FORGED, reports=tmp_path)
    assert [(kernel.name, kernel.time_us) for kernel in counters.kernels] == [("<b>", 0.01)]


# ---------------------------------------------------------------------- hostile text


def read(profiler, table, log="", why="why"):
    return profiler.counters_of(table.encode() if isinstance(table, str) else table, 7, log, why)


def test_launches_of_one_kernel_form_one_row_with_time_weighted_means():
    gemm, elementwise = read(NCU, NCU_TABLE).kernels
    assert gemm == Kernel(
        name="void gemm<float, 128>(float *, float *)", launches=1, time_us=1205.0, compute=0.8325, memory=0.415,
        occupancy=gemm.occupancy, registers=168, limiter="registers",
    )  # fmt: skip
    assert gemm.occupancy == pytest.approx(0.241)
    assert (elementwise.launches, elementwise.time_us, elementwise.limiter) == (2, 40.0, None)
    assert elementwise.memory == pytest.approx((0.91 * 10 + 0.81 * 30) / 40)
    assert elementwise.compute == pytest.approx(0.12), "from the only launch that has it"


@pytest.mark.parametrize(("unit", "time_us"), [("ns", 1.205), ("nsecond", 1.205), ("us", 1205), ("msecond", 1_205_000)])
def test_times_are_read_in_the_unit_that_the_table_names(unit, time_us):
    assert read(NCU, NCU_TABLE.replace('"us"', f'"{unit}"')).kernels[0].time_us == pytest.approx(time_us)


@pytest.mark.parametrize("profiler", [NCU, ROCPROF], ids=lambda one: one.name)
@pytest.mark.parametrize(
    "table",
    [b"", b"\0\xff\xfe", b"\n" * 100_000, b'"ID"\n', b'"ID"' + b',"x"' * 50_000, b'"' + b"x" * 200_000, b'Kind\n"\r\r'],
    ids=range(7),
)  # fmt: skip
def test_a_garbage_table_is_reported_without_a_crash(profiler, table):
    counters = read(profiler, table)
    assert counters.trouble and counters.kernels == ()


@pytest.mark.parametrize("profiler", [NCU, ROCPROF], ids=lambda one: one.name)
@pytest.mark.parametrize("columns", [20_000, 9_000])
def test_a_table_with_many_columns_and_rows_is_rejected_quickly(profiler, columns):
    began_s = time.process_time()
    counters = read(profiler, '"ID"' + ',"x"' * (columns - 1) + "\nx" * 20_000)
    assert counters.trouble and counters.kernels == ()
    assert time.process_time() - began_s < 5


def test_rows_of_a_wrong_length_or_beyond_ten_thousand_are_skipped():
    header = "Kind,Kernel_Name,Start_Timestamp,End_Timestamp\n"
    torn = "KERNEL_DISPATCH,torn,0\nKERNEL_DISPATCH,long,0,9,9\n"
    (kernel,) = read(ROCPROF, header + torn + "KERNEL_DISPATCH,mine,0,9\n" * 12_000).kernels
    assert (kernel.name, kernel.launches) == ("mine", 9_998)


def test_a_player_sees_only_the_tool_outside_the_tools_own_folder(found):
    with installed("ncu") as folder:
        found(folder)
        assert [place for place in NCU.shown if not place.startswith("/opt/")] == [str(folder / "ncu")]
        at_home = replace(NCU, places=(f"{folder.parent}/*/ncu".lstrip("/"),))
        assert str(folder) in at_home.shown


@pytest.mark.parametrize(
    "cell", ["nan", "inf", "-1", "1e999", "9" * 400, "0x10", "", "1.2.3", "١", "1e30", "=1+1", "9" * 26]
)  # fmt: skip
def test_an_implausible_counter_value_becomes_none(cell):
    table = NCU_TABLE.replace('"83.25"', f'"{cell}"').replace('"168"', f'"{cell}"')
    gemm = read(NCU, table).kernels[0]
    assert (gemm.compute, gemm.registers) == (None, None)
    assert "gemm" not in str(read(NCU, NCU_TABLE.replace('"1,205.00"', f'"{cell}"')).kernels), (
        "a launch without a time does not count"
    )


@pytest.mark.parametrize(
    ("log", "table", "trouble"),
    [
        ("==WARNING== No kernels were profiled.\n", "", "ncu found no kernels: the call launches none on the GPU"),
        ("==ERROR== first\nlast\n", "", "ncu reported no kernels: why"),
        ("", NCU_TABLE[:-4], "ncu reported no kernels: ncu wrote an invalid table"),
    ],
    ids=["none", "unknown", "torn"],
)
def test_a_table_without_kernels_is_reported_with_the_reason(log, table, trouble):
    counters = read(NCU, table, log)
    assert (counters.trouble, counters.kernels) == (trouble, ())


def test_excess_kernels_are_dropped_and_long_names_are_cut():
    rows = "".join(f'KERNEL_DISPATCH,"{number}{"x" * 900}",0,{number}\n' for number in range(500))
    kernels = read(ROCPROF, f"Kind,Kernel_Name,Start_Timestamp,End_Timestamp\n{rows}").kernels
    assert len(kernels) == MAX_KERNELS and len(kernels[0].name) == 200
    assert kernels[0].time_us == pytest.approx(0.499)


@pytest.mark.parametrize(
    ("sent", "opened"),
    [
        (b"[2, 3]\nabcde", (b"ab", b"cde")),
        (b"[2, 3]\nabcd", (b"", b"")),
        (b"[2, -3]\nab", (b"", b"")),
        (b"[" * 100_000, (b"", b"")),
        (f"[0, {MAX_REPORT + 1}]\n".encode(), (b"", b"")),
        (b"", (b"", b"")),
    ],
)  # fmt: skip
def test_a_parcel_that_contradicts_its_header_is_empty(sent, opened):
    parcel = ProfilerOutput()
    for start in range(0, len(sent), 7):
        parcel.feed(sent[start : start + 7])
    assert parcel.open() == opened


def test_an_endless_parcel_does_not_fill_memory():
    parcel = ProfilerOutput()
    for _ in range((MAX_TABLE + MAX_REPORT >> 20) + 8):
        parcel.feed(b"x" * (1 << 20))
    assert len(parcel._bytes) <= MAX_TABLE + MAX_REPORT + 100


# ---------------------------------------------------------------------- display


def told(counters, url="https://github.com/acme/kernels/actions/runs/7"):
    judgement = made()
    case = judgement.cases[-1]
    profile = Profile(call_us=1000.0, operations=(), counters=counters)
    cases = (*judgement.cases[:-1], case.model_copy(update={"profile": profile}))
    return judgement.model_copy(update={"cases": cases, "run_url": url})


def in_the_pull_request(judgement):
    from tests.test_report import BOARD as OTHER

    return render(judgement, OTHER).replace(NBSP, " ")


def on_the_terminal(judgement, path):
    with path.open("w") as said:
        stdout = console()
        stdout.file = said
        show(judgement, stdout)
    return path.read_text()


def test_the_comment_has_a_short_table_and_a_link_to_the_report(tmp_path):
    judgement = told(read(NCU, NCU_TABLE))
    text = in_the_pull_request(judgement)
    link = "[the run's artifacts](https://github.com/acme/kernels/actions/runs/7#artifacts)"
    assert (
        f"ncu on one more call; the full report is `profile-1.ncu-rep` in `reports`, among {link} (kept 7 days):"
        in text
    )
    assert "| Kernel | Launches | Time | Compute | Memory | Occupancy | Registers | Limited by |" in text
    assert "| 1 | 1.205 ms | 83.2 % | 41.5 % | 24.1 % | 168 | compute |" in text
    assert "| 2 | 40.00 µs | 12.0 % | 83.5 % | 82.0 % | 24 | memory |" in text
    shown = json.loads(facts_as_text(judgement, request()).removeprefix("```json\n").removesuffix("```\n"))
    assert shown["cases"][-1]["profile"]["counters"]["kernels"][0]["registers"] == 168
    assert "gemm<float, 128>" in on_the_terminal(judgement, tmp_path / "said")


def test_chosen_launches_are_named_in_the_comment_on_the_terminal_and_in_the_file(tmp_path):
    chosen = LaunchFilter(kernel="[ge]emm", skip=3)
    judgement = told(read(NCU.filtered(chosen), NCU_TABLE))
    assert "ncu on one more call, only the launches of `kernel=[ge]emm skip=3`;" in in_the_pull_request(judgement)
    shown = " ".join(on_the_terminal(judgement, tmp_path / "said").split())
    assert "ncu, only the launches of kernel=[ge]emm skip=3" in shown
    assert Judgement.model_validate_json(judgement.model_dump_json()) == judgement
    assert '"chosen"' not in told(read(NCU, NCU_TABLE)).model_dump_json()


def test_columns_without_values_are_left_out():
    text = in_the_pull_request(told(read(ROCPROF, ROCPROF_TABLE)))
    assert "| Kernel | Launches | Time | Registers |" in text


def test_kernel_names_and_profiler_errors_are_escaped(tmp_path):
    hostile = read(ROCPROF, f'Kind,Kernel_Name,Start_Timestamp,End_Timestamp\nKERNEL_DISPATCH,"{HOSTILE}",0,9\n')
    for counters in (hostile, read(NCU, "", why=HOSTILE)):
        judgement = told(counters, url="javascript:alert(1)")
        text = in_the_pull_request(judgement)
        line = next(line for line in text.splitlines() if "everyone" in line)
        assert re.search(r"(````+)[^`]*@everyone.*\1", line) and "\x1b" not in text
        assert "](javascript:alert" not in text
        assert "\x1b[31m" not in on_the_terminal(judgement, tmp_path / "said")
        assert "```" not in facts_as_text(judgement, request()).removeprefix("```json").removesuffix("```\n")


@pytest.mark.parametrize(
    ("compute", "memory", "occupancy", "limiter", "limit"),
    [
        (0.8, 0.4, 0.2, "registers", "compute"),
        (0.5, 0.9, None, None, "memory"),
        (0.3, 0.3, 0.2, "shared memory", "latency; few warps, limited by shared memory"),
        (0.3, 0.3, 0.9, "registers", "latency"),
        (None, 0.9, 0.9, "registers", ""),
    ],
)
def test_a_kernels_limit_follows_from_its_counters(compute, memory, occupancy, limiter, limit):
    shares = {"compute": compute, "memory": memory, "occupancy": occupancy}
    assert limit_of(Kernel(name="k", launches=1, time_us=1.0, limiter=limiter, **shares)) == limit


def test_counters_have_kernels_or_say_why_there_are_none():
    with pytest.raises(ValueError, match="or a reason"):
        Counters(tool="ncu")


def test_an_unusable_reports_folder_is_refused_before_judging(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "submission.py").write_text(RIGHT)
    file, place = str(tmp_path / "submission.py"), str(tmp_path / "file")
    assert run(["profile", file, "--task", "vectoradd", "--reports", place]) == 2
    assert "cannot create the folder" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--kernel", "gemm"], "choose launches on a GPU, and this is judged on CPU"),
        (["--launch-skip", "0"], "choose launches on a GPU, and this is judged on CPU"),
        (["--kernel", "ge(mm"], "not a regular expression: missing )"),
        (["--kernel", "a{99999999999}"], "not a regular expression"),
        (["--kernel", ""], "use 1 to 200 printable characters"),
        (["--kernel", "a\x1b[31m"], "use 1 to 200 printable characters"),
        (["--kernel", "a" * 201], "use 1 to 200 printable characters"),
        (["--launch-count", "51"], "51 is not in the range 1<=x<=50"),
        (["--launch-skip", "-1"], "-1 is not in the range"),
        (["--csv", "--json"], "--csv and --json: use one of them"),
    ],
)
def test_unusable_options_of_a_profile_are_refused_before_judging(words, message, tmp_path, capsys):
    (tmp_path / "submission.py").write_text(RIGHT)
    assert run(["profile", str(tmp_path / "submission.py"), "--task", "vectoradd", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_only_an_installed_ncu_can_choose_launches(monkeypatch):
    chosen = LaunchFilter(kernel="gemm", skip=2, count=3)
    with pytest.raises(SubmissionError, match=r"only NVIDIA's ncu .* profiler is rocprofv3"):
        ROCPROF.require_choice()
    assert ROCPROF.filtered(chosen) is ROCPROF  # a judge profiles all launches rather than none
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SubmissionError, match="ncu, which is not on this machine: install"):
        replace(NCU, places=()).require_choice()
    with installed("ncu") as folder:
        monkeypatch.setenv("PATH", str(folder))
        NCU.require_choice()
        ncu = NCU.filtered(chosen)
        options = ["--kernel-name", "regex:gemm", "--launch-skip", "2", "--launch-count", "3", "--set"]
        assert ncu.order["profiler"][1:8] == options
        assert NCU.order["profiler"][1:4] == ["--launch-count", "50", "--set"]
    trouble = "ncu found no kernels that match gemm and launches after the first 2"
    assert read(ncu, "", "==WARNING== No kernels were profiled.\n").trouble == trouble


def test_a_job_on_a_gpu_has_the_time_to_be_profiled_twice():
    gpu = replace(BOARD, gpu="H100", limits=replace(BOARD.limits, benchmark_timeout_s=600.0))
    minutes = minutes_for(gpu, Mode.PROFILE, dueled=False)
    assert minutes == minutes_for(replace(gpu, gpu="CPU"), Mode.PROFILE, dueled=False) + 10


# ---------------------------------------------------------------------- doctor


def test_the_doctor_checks_that_the_profiler_exists_and_may_read_counters(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setitem(PROFILERS, "amd", replace(ROCPROF, places=()))
    missing = _profiler("amd", tmp_path)
    assert missing.state is Availability.OPTIONAL and "rocprofiler-sdk" in missing.remedy
    with installed("ncu") as folder:
        monkeypatch.setenv("PATH", str(folder))
        assert _profiler("nvidia", tmp_path).state is Availability.OK
        (tmp_path / PARAMS).parent.mkdir(parents=True)
        (tmp_path / PARAMS).write_text('EnableMSI: 1\nRmProfilingAdminOnly: 1\nRegistryDwords: ""\n')
        refused = _profiler("nvidia", tmp_path)
    assert refused.state is Availability.LIMITED and "NVreg_RestrictProfilingToAdminUsers=0" in refused.remedy
    (tmp_path / PARAMS).write_text("RmProfilingAdminOnly: 0\n")
    assert why_refused("nvidia", tmp_path) == ""
