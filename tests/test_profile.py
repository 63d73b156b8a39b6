"""Profiles: what torch's profiler shows of a call in the sandbox, its display, and forged ones."""

import csv
import json
import os
import re
import shutil
import struct
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from harness.gpu.device import REHEARSAL
from harness.inside.profiled_call import profile_call
from harness.inside.protocol import Profiled, ProtocolError, read_answer
from harness.judge import judge
from harness.processes.cpu_meter import open_event, read_event
from harness.records.counters import Counters, Kernel
from harness.records.errors import TaskError
from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Judgement
from harness.records.profile import MAX_OPERATIONS, CpuCounters, Operation, Profile
from harness.records.verdict import Verdict, overall
from harness.task.submission import Submission
from harness.task.task import Evaluator, load_task
from scripts.boards.judgement_tables import show
from scripts.bot.comment.check_report import facts_as_text
from scripts.bot.comment.judgement_section import MAX_CSV, render
from scripts.bot.comment.markdown import NBSP
from scripts.bot.comment.markers import MAX_CHARS
from scripts.bot.report.artifact import _are_cases_of
from scripts.cli import run
from scripts.common.terminal import console
from scripts.standings.profiles import cpu_sentences, machine_in_words, parts_of, to_csv
from tests.game_session import GameSession
from tests.test_request import request

TINY = Path(__file__).parent / "tasks" / "tiny"
BOARD = load_task(TINY).board("CPU")

SORTED = "import torch\ndef custom_kernel(data):\n    data.sort()\n    return data + 1\n"
LIAR = """
import sys, types
fake = types.ModuleType("harness.inside.profiled_call")
def profile_call(kernel, data, device):
    return kernel(data), {"call_us": %s, "operations": %s}
fake.profile_call = profile_call
sys.modules["harness.inside.profiled_call"] = fake
def custom_kernel(data):
    return data + 1
"""
SHY = """
import torch
def custom_kernel(data):
    return data if torch.autograd._profiler_enabled() else data + 1
"""
HOSTILE = "@everyone | ``` </details> [x](javascript:1)\x1b[31m"


def profiled(source, **how):
    file = Submission(login="sample", source=source.encode(), name="submission.py")
    judgement = judge(BOARD, file, Mode.PROFILE, **how)
    assert Judgement.from_json(judgement.to_json()) == judgement.model_copy(
        update={"checksum": json.loads(judgement.to_json())["checksum"]}
    )
    return judgement


@pytest.mark.walls
@pytest.mark.parametrize("device", [None, REHEARSAL], ids=["cpu", "staged"])
def test_a_profile_lists_the_operations_of_every_benchmark(device):
    judgement = profiled(SORTED, device=device)
    assert (judgement.verdict, judgement.is_rankable, judgement.benchmarks) == (Verdict.ACCEPTED, False, ())
    assert [case.params for case in judgement.profiles] == [dict(case.params) for case in BOARD.benchmarks]
    for case in judgement.profiles:
        names = [one.name for one in case.profile.operations if one.own_us]
        assert {"aten::sort", "aten::add"} <= set(names)
        assert 0 <= case.profile.elsewhere_us < case.profile.call_us
    assert judgement.log == ""
    assert _are_cases_of(judgement, BOARD) and not _are_cases_of(judgement, BOARD, 2)


@pytest.mark.walls
def test_a_profile_of_many_operations_sums_the_shortest_ones():
    names = [
        "abs",
        "acos",
        "asin",
        "atan",
        "ceil",
        "cos",
        "cosh",
        "digamma",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "i0",
        "lgamma",
        "log",
        "log10",
        "log1p",
        "log2",
        "neg",
        "reciprocal",
        "round",
        "rsqrt",
        "sigmoid",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
    ]
    _, profile = profile_call(lambda ones: [getattr(torch, name)(ones) for name in names], torch.ones(9), "cpu")
    *longest, (name, on_device, calls, own_us) = sorted(profile["operations"], key=lambda row: "others" in row[0])
    others = int(name.removesuffix(" others"))
    assert len(longest) == MAX_OPERATIONS - 2 and len(longest) + others >= len(names)
    assert calls >= others and not on_device and own_us >= others * 0.001


def test_one_benchmark_can_be_profiled_by_its_number(tmp_path, capsys):
    task = shutil.copytree(TINY, tmp_path / "tiny")
    yml = task / "task.yml"
    yml.write_text(
        yml.read_text().replace("{size: 1000, seed: 13}", "{size: 1000, seed: 13}\n  - {size: 500, seed: 14}")
    )
    (tmp_path / "submission.py").write_text("def custom_kernel(data):\n    return data + 1\n")
    words = ["profile", str(tmp_path / "submission.py"), "--task-dir", str(task), "--json", "--case"]
    assert run([*words, "2"]) == 0
    profiles = [case for case in json.loads(capsys.readouterr().out)["cases"] if case["kind"] == "profile"]
    assert [case["params"]["size"] for case in profiles] == [500]
    assert run([*words, "3"]) == 2
    assert "--case 3: tiny has 2 benchmarks on CPU; name 1 to 2" in capsys.readouterr().err


@pytest.fixture(scope="module")
def session():
    with GameSession(BOARD, Mode.PROFILE) as made:
        yield made


@pytest.mark.walls
def test_an_answer_wrong_only_under_the_profiler_is_still_wrong(session):
    cases = session.play(SHY)
    assert overall(case.verdict for case in cases) is Verdict.WRONG_ANSWER
    assert cases[-1].kind is CaseKind.PROFILE and not any(case.profile for case in cases)


@pytest.mark.walls
@pytest.mark.parametrize(
    ("call_us", "rows", "verdict"),
    [
        ("0", "[['x', False, 1, 1e11]] * 99", Verdict.ACCEPTED),
        ("float('nan')", "[]", Verdict.SECURITY_VIOLATION),
        ("1.0", "[['x', False, 0, 1.0]]", Verdict.SECURITY_VIOLATION),
    ],
)
def test_a_forged_profile_is_accepted_only_if_its_numbers_are_possible(call_us, rows, verdict, session):
    cases = session.play(LIAR % (call_us, rows))
    assert overall(case.verdict for case in cases) is verdict, cases[-1].message


@pytest.mark.parametrize(
    "row", [["x", 0, 1, 1.0], ["x", False, True, 1.0], ["x", False, -1, 1.0], ["x", False, 1, -1.0], [1, False, 1, 1.0], ["x"], "x"]
)  # fmt: skip
def test_a_malformed_operation_in_a_profile_is_refused(row):
    packet = {"is": "profiled", "call_us": 1.0, "operations": [row]}
    with pytest.raises(ProtocolError):
        read_answer(json.dumps(packet).encode())
    assert read_answer(json.dumps(packet | {"operations": []}).encode()) == Profiled(1.0, ())


def test_a_task_with_its_own_program_cannot_be_profiled():
    told = replace(BOARD, task=replace(BOARD.task, evaluator=Evaluator.SCRIPT))
    file = Submission(login="sample", source=SORTED.encode(), name="submission.py")
    with pytest.raises(TaskError, match="cannot be profiled"):
        judge(told, file, Mode.PROFILE)


# ---------------------------------------------------------------------- display


def made(*operations, call_us=1000.0):
    from tests.test_report import built, judged, right_tests_but

    profile = Profile(call_us=call_us, operations=operations)
    case = CaseResult(
        kind=CaseKind.PROFILE, params={"size": 1024}, verdict=Verdict.ACCEPTED, seconds=1, profile=profile
    )
    return judged("ada", built(), *right_tests_but(), case, mode=Mode.PROFILE)


def operation(name, own_us, *, on_device=False, calls=1):
    return Operation(name=name, on_device=on_device, calls=calls, own_us=own_us)


def test_a_profile_lists_the_longest_operations_first_and_unseen_time_last():
    operations = [operation(f"aten::op{number}", 100.0 / 2**number) for number in range(12)]
    parts = parts_of(Profile(call_us=400.0, operations=(*operations, operation("gemm", 300.0, on_device=True))), most=3)
    assert [(part.name, part.where) for part in parts] == [
        ("gemm", "device"), ("aten::op0", "host"), ("aten::op1", "host"), ("aten::op2", "host"),
        ("the others", "host"), ("outside of torch, or waiting", "host"),
    ]  # fmt: skip
    host = sum(part.own_us for part in parts if part.where == "host")
    assert host == pytest.approx(400.0)
    assert parts[0].share == pytest.approx(0.75)


def test_the_comment_shows_a_profile_as_a_table_despite_hostile_names(tmp_path):
    from tests.test_report import BOARD as OTHER

    judgement = made(operation("aten::mm", 900.0, calls=3), operation(HOSTILE, 50.0))
    text = render(judgement, OTHER).replace(NBSP, " ")
    assert "accepted (AC), profile only" in text
    assert "`size: 1024`, one call of 1.000 ms:" in text
    assert "| `aten::mm` | host | 3 | 900.0 µs | 90.0 % |" in text
    assert "| outside of torch, or waiting | host |  | 50.00 µs | 5.0 % |" in text.replace("`", "")
    row = next(line for line in text.splitlines() if "everyone" in line)
    assert len(re.findall(r"(?<!\\)\|", row.replace(r"\|", ""))) == 6
    assert "\x1b" not in text
    assert to_csv(judgement).strip() in text
    facts = json.loads(facts_as_text(judgement, request()).removeprefix("```json\n").removesuffix("```\n"))
    shown = next(case["profile"] for case in facts["cases"] if case["kind"] == "profile")
    assert (shown["call_us"], shown["elsewhere_us"], shown["operations"][0]["calls"]) == (1000.0, 50.0, 3)
    assert "```" not in json.dumps(facts)
    with (tmp_path / "said").open("w") as said:
        stdout = console()
        stdout.file = said
        show(judgement, stdout)
    said = (tmp_path / "said").read_text()
    assert "aten::mm" in said and "\x1b[31m" not in said
    assert f"Profiled on {machine_in_words(judgement.machine)}." in said


def test_a_profile_as_csv_has_a_row_for_each_operation_and_kernel():
    kernel = Kernel(name="gemm<float>", launches=2, time_us=30.5, compute=0.9, memory=0.25, registers=64)
    judgement = made(*(operation(f"aten::op{number}", 40.0) for number in range(12)), operation("=1+1\x1b[31m", 20.0))
    case = judgement.cases[-1]
    counted = case.profile.model_copy(update={"counters": Counters(tool="ncu", kernels=(kernel,))})
    profiled = case.model_copy(update={"profile": counted})
    told = to_csv(judgement.model_copy(update={"cases": (*judgement.cases[:-1], profiled)}))
    rows = [*csv.DictReader(told.splitlines())]
    assert {row["machine"] for row in rows} == {machine_in_words(judgement.machine)}
    assert {row["case"] for row in rows} == {"size: 1024"}
    assert [row["profiler"] for row in rows] == ["torch"] * 14 + ["ncu"]
    assert (rows[0]["name"], rows[0]["where"], rows[0]["calls"], rows[0]["share"]) == ("aten::op0", "host", "1", "0.04")
    assert rows[12]["name"] == "'=1+1\\x1b[31m", "neither a formula nor an escape sequence"
    assert (rows[13]["calls"], rows[13]["time_us"]) == ("", "500")
    ncu = {name: rows[14][name] for name in ("name", "calls", "time_us", "compute", "occupancy", "limited_by")}
    assert list(ncu.values()) == ["gemm<float>", "2", "30.5", "0.9", "", "compute"]


def test_a_long_profile_fits_into_a_comment_and_says_how_much_of_its_csv_it_leaves_out():
    from tests.test_report import BOARD as OTHER

    judgement = made(*(operation(HOSTILE.replace("\n", " ") * 3 + str(n), 1.0) for n in range(MAX_OPERATIONS)))
    many = judgement.model_copy(update={"cases": (*judgement.cases[:-1], *(judgement.cases[-1],) * 20)})
    text = render(many, OTHER)
    assert len(text) < MAX_CHARS
    told, left_out = to_csv(many).splitlines(), int(re.search(r"as CSV, (\d+) rows left out", text)[1])
    assert f"\n{told[0]}\n" in text and f"\n{told[-left_out - 1]}\n```" in text
    assert 8_000 < sum(len(row) + 1 for row in told[:-left_out]) <= MAX_CSV


def test_a_profile_is_valid_only_in_profile_mode_and_its_case():
    fields = json.loads(made(operation("aten::mm", 1.0)).model_dump_json())
    with pytest.raises(ValueError, match="only mode profile may have profiles"):
        Judgement.model_validate_json(json.dumps(fields | {"mode": "test"}))
    with pytest.raises(ValueError, match="needs a profile"):
        Judgement.model_validate_json(json.dumps(fields | {"cases": fields["cases"][:-1]}))
    fields["cases"][1]["profile"] = fields["cases"][-1]["profile"]
    with pytest.raises(ValueError, match="no other case may have one"):
        Judgement.model_validate_json(json.dumps(fields))


# The CPU's counters.


GREEDY = """
import mmap, time
kept = []
def custom_kernel(data):
    memory = mmap.mmap(-1, 8 << 20)
    memory.madvise(15)  # MADV_NOHUGEPAGE
    for at in range(0, len(memory), 4096):
        memory[at] = 1
    kept.append(memory)
    for _ in range(3):
        time.sleep(0.001)
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    return data + 1
"""


@pytest.mark.walls
def test_a_profile_counts_what_a_call_costs_the_cpu(tmp_path):
    judgement = profiled(GREEDY)
    (case,) = judgement.profiles
    cpu = case.profile.cpu
    assert 50_000 < cpu.cpu_us < 2_000_000
    assert 2048 <= cpu.page_faults < 100_000, "8 MiB of new memory, in pages of 4 KiB"
    assert cpu.context_switches >= 3
    text = render(judgement, BOARD).replace(NBSP, " ")
    assert re.search(r"One more call, without a profiler: [\d.]+ ms of CPU time, [\d,]+ page faults, \d+ context", text)
    rows = list(csv.DictReader(to_csv(judgement).splitlines()))
    shown = {row["name"]: row["calls"] for row in rows if row["profiler"] == "cpu"}
    assert (shown["cpu_time"], shown["page_faults"]) == ("", str(cpu.page_faults))
    assert shown["context_switches"] == str(cpu.context_switches)


def test_the_processors_counters_are_in_the_sentence_if_there_are_any():
    bare = CpuCounters(cpu_us=1200.0, page_faults=1, context_switches=0)
    assert cpu_sentences(bare) == (
        "One more call, without a profiler: 1.200 ms of CPU time, 1 page fault, 0 context switches."
    )
    full = bare.model_copy(update={"cycles": 2000, "instructions": 5000, "cache_misses": 1234, "branch_misses": 1})
    assert cpu_sentences(full).endswith(
        " In user mode: 2.50 instructions per cycle, 1,234 cache misses, 1 branch miss."
    )


def test_an_event_of_the_kernel_is_counted_in_threads_that_begin_later():
    """The kernel's own events use the same call as the processor's, which few virtual machines have."""
    task_clock = (1, 1)
    if not (descriptors := open_event(task_clock, [os.getpid()])):
        pytest.skip("this kernel lets nobody count events")
    began = time.process_time_ns()
    thread = threading.Thread(target=lambda: sum(range(5_000_000)))
    thread.start()
    thread.join()
    counted, used = read_event(descriptors), time.process_time_ns() - began
    for one in descriptors:
        os.close(one)
    assert 0.5 * used < counted < 2 * used
    assert (open_event((99, 99), [os.getpid()]), read_event([])) == ([], None)


def test_an_event_that_the_processor_had_no_counter_for_is_unknown():
    readers = []
    for value, wanted_ns, counted_ns in ((5, 100, 50), (0, 0, 0), (0, 100, 0)):
        reader, writer = os.pipe()
        os.write(writer, struct.pack("QQQ", value, wanted_ns, counted_ns))
        os.close(writer)
        readers.append(reader)
    assert (read_event(readers[:2]), read_event(readers[2:])) == (10, None)
    for reader in readers:
        os.close(reader)
