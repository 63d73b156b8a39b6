"""An honest file with torch.compile: the build compiles it for every shape, and each player reads it from the cache."""

import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge import judge
from harness.processes import freezer
from harness.records.fields import Mode
from harness.records.stats import Interval
from harness.records.verdict import Verdict
from harness.sandbox.torch_header import TorchHeader
from harness.task import torch_compiler
from harness.task.submission import Champion, Submission
from harness.task.task import load_task

TINY = Path(__file__).parent / "tasks" / "tiny"
BASELINES = sorted((Path(__file__).parent.parent / "tasks").glob("*/examples/accepted/compiled.py"))
HEADER = "torch/csrc/inductor/cpp_prefix.h"
PLAIN = "def custom_kernel(data):\n    return data + 1\n"
COMPILED = """
import os
import sys

import torch
from torch._dynamo.guards import profile_guard_manager
from torch._dynamo.utils import counters
from torch._inductor.cpp_builder import is_gcc
from torch._inductor.cpu_vec_isa import valid_vec_isa_list

known = set(sys.modules)
has_chosen = valid_vec_isa_list.cache_info().currsize == 1
profile_guard_manager(None, None, 1)

@torch.compile
def add(data):
    return data + 1

def custom_kernel(data):
    output = add(data)
    has_own_header = os.path.exists(os.environ["TORCHINDUCTOR_CACHE_DIR"] + "/headers")
    print(sorted(counters["inductor"]), is_gcc(), has_chosen, has_own_header)
    for name in sorted(set(sys.modules) - known):
        if name.startswith(("sympy", "torch")) and ".compile_tasks." not in name:
            print(name)
    return output
"""


@pytest.mark.walls
@pytest.mark.alone
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_no_player_after_the_build_compiles_anything() -> None:
    board = load_task(TINY).board("CPU")
    board = replace(board, tests=board.tests[:1], limits=replace(board.limits, compile_timeout_s=120))
    champion = Champion(
        submission=Submission(login="first", source=PLAIN.encode()),
        score=Interval(value=1, low=1, high=1),
        nominal_us=(1.0,) * len(board.benchmarks),
    )
    judgement = judge(board, Submission(login="sample", source=COMPILED.encode()), Mode.BENCHMARK, champion=champion)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    # torch's kernels have the options that we expect, at least on the CPUs whose options we know.
    has_own_header = not torch_compiler.header_options()
    expected = f"['fxgraph_cache_hit'] True True {has_own_header}"
    assert set(judgement.log.split("\n")) == {expected, ""}, "in the last run of a benchmark"


@pytest.mark.walls
@pytest.mark.usefixtures("shared_sandbox")
@pytest.mark.parametrize("file", BASELINES, ids=lambda file: file.parts[-4])
def test_what_a_baseline_compiles_is_right(file: Path) -> None:
    """Judged on a CPU and without the compiler, as the file itself names GPUs and needs Triton."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    source = "".join(line for line in lines if not line.startswith(("#!", "@torch.compile")))
    source = source.replace("torch.compile", "a compiler")  # its mention would start a sandbox with the compiler
    judgement = judge(
        load_task(file.parents[2]).board("CPU"), Submission(login="sample", source=source.encode()), Mode.TEST
    )
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_the_first_kernel_precompiles_the_header_for_the_others(tmp_path: Path) -> None:
    header, cache = tmp_path / "include" / HEADER, tmp_path / "cache"
    header.parent.mkdir(parents=True)
    header.write_text("#pragma once\ninline int one() { return 1; }\n")
    cache.mkdir()
    first, second = (_compile(tmp_path, f"int {name}() {{ return one(); }}") for name in ("first", "second"))
    assert (cache / "headers" / f"{HEADER}.gch").is_file()
    assert f"! {cache}/headers/{HEADER}.gch" in first, "the kernel that made it uses it"
    assert f"! {cache}/headers/{HEADER}.gch" in second
    assert [one.name for one in (tmp_path / "out").iterdir()] == ["kernel.so"]


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_kernels_use_the_header_that_the_judge_precompiles(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    umask = os.umask(0o077)
    try:
        judges = _precompile(tmp_path, "#pragma once\ninline int one() { return 1; }\n")
    finally:
        os.umask(umask)
    for file in ("options", f"{HEADER}.gch"):  # players read them as another user if the judge is root
        assert (judges / file).stat().st_mode & 0o004
    used = f"! {tmp_path}/tools/../headers/{HEADER}.gch"
    assert used in _compile(tmp_path, "int two() { return 2 * one(); }")
    assert not (tmp_path / "cache" / "headers").exists()
    (judges / "options").write_text("-O2 -fPIC\n")
    assert f"! {tmp_path}/cache/headers/{HEADER}.gch" in _compile(tmp_path, ""), "the kernel has other options"


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_a_kernel_precompiles_the_header_if_the_judge_cannot(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    judges = _precompile(tmp_path, "#error\n")
    assert sorted(one.name for one in judges.iterdir()) == ["header.h", "options"]
    (tmp_path / "include" / HEADER).write_text("#pragma once\n")
    assert f"! {tmp_path}/cache/headers/{HEADER}.gch" in _compile(tmp_path, "")


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_precompiling_ends_with_the_sandbox(tmp_path: Path) -> None:
    header = TorchHeader(tmp_path, ["-std=c++20"], torch_compiler.include_options())
    try:
        give_up = time.monotonic() + 30
        while len(_in_group_of(header)) < 3 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert len(_in_group_of(header)) >= 3, "sh, g++ and its compiler"
    finally:
        header.end()
    made = tmp_path / "header.gch"
    assert not made.exists() or made.stat().st_size < 1 << 20, "g++ writes over 100 MB when it is done"
    freezer.await_end(_in_group_of(header))


def _in_group_of(header: TorchHeader) -> list[int]:
    """The living processes that it has started."""
    found = []
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
        with contextlib.suppress(OSError):
            if os.getpgid(pid) == header.process.pid and not freezer.has_ended(pid):
                found.append(pid)
    return found


def _precompile(folder: Path, header: str) -> Path:
    """Precompile a header for kernels of `_compile`, as the judge does; returns the folder with the result."""
    place = folder / "include" / HEADER
    place.parent.mkdir(parents=True)
    place.write_text(header)
    (folder / "headers").mkdir()
    made = TorchHeader(folder / "headers", ["-H", "-O1", "-fPIC"], [f"-I{folder / 'include'}"])
    made.wait()
    made.end()
    return folder / "headers"


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="no shellcheck")
def test_the_script_passes_shellcheck() -> None:
    done = subprocess.run(
        ["shellcheck", "-"], input=torch_compiler.CXX_SCRIPT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_kernels_compile_without_a_precompiled_header(tmp_path: Path) -> None:
    """If torch's cache does not exist, and if precompiling fails."""
    header = tmp_path / "include" / HEADER
    header.parent.mkdir(parents=True)
    header.write_text("#ifndef MAIN\n#error only in a kernel\n#endif\n")
    assert "error" not in _compile(tmp_path, "", "no such folder"), "the cache does not exist"
    (tmp_path / "cache").mkdir()
    _compile(tmp_path, "", before="#define MAIN")
    assert not list((tmp_path / "cache").rglob("*.gch")), "nothing half-made is left"


def _compile(folder: Path, source: str, cache: str = "cache", *, before: str = "#define MAIN") -> str:
    """Compile a kernel as torch does; return which headers g++ read."""
    (folder / "out").mkdir(exist_ok=True)
    (folder / "tools").mkdir(exist_ok=True)
    script = torch_compiler.write_script(folder / "tools")
    kernel = folder / "kernel.cpp"
    kernel.write_text(f"{before}\n#include <{HEADER}>\n{source}\n")
    options = ["-O1", "-shared", "-fPIC", f"-I{folder / 'include'}", "-o", str(folder / "out" / "kernel.so"), "-lm"]
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(folder / cache)}
    done = subprocess.run([script, kernel, "-H", *options], capture_output=True, text=True, check=True, env=environment)
    return done.stderr


def test_the_check_of_the_compiler_is_left_to_torch_if_it_may_fail(tmp_path: Path) -> None:
    """With a g++ that lacks one of this CPU's vector instructions, and without any."""
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    for path in (tmp_path, tmp_path / "empty"):
        assert torch_compiler.environment(str(path), "cxx") == {"TORCH_WARM_POOL": "0"}
