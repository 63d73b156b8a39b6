"""An honest file with torch.compile: the build compiles it for every shape, and each player reads it from the cache."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge import judge
from harness.records.fields import Mode
from harness.records.stats import Interval
from harness.records.verdict import Verdict
from harness.task import torch_compiler
from harness.task.submission import Champion, Submission
from harness.task.task import load_task

TINY = Path(__file__).parent / "tasks" / "tiny"
HEADER = "torch/csrc/inductor/cpp_prefix.h"
PLAIN = "def custom_kernel(data):\n    return data + 1\n"
COMPILED = """
import sys

import torch
from torch._dynamo.utils import counters
from torch._inductor.cpp_builder import is_gcc

known = set(sys.modules)

@torch.compile
def add(data):
    return data + 1

def custom_kernel(data):
    output = add(data)
    print(sorted(counters["inductor"]), is_gcc())
    for name in sorted(set(sys.modules) - known):
        if name.startswith(("sympy", "torch")) and ".compile_tasks." not in name:
            print(name)
    return output
"""


@pytest.mark.walls
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
    assert set(judgement.log.split("\n")) == {"['fxgraph_cache_hit'] True", ""}, "in the last run of a benchmark"


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
    script = folder / torch_compiler.CXX
    script.write_text(torch_compiler.CXX_SCRIPT)
    script.chmod(0o755)
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
