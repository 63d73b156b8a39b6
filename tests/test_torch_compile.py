"""An honest file with torch.compile: the build compiles it for every shape, and each player reads it from the cache."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from harness.judge import judge
from harness.records.fields import Mode
from harness.records.verdict import Verdict
from harness.task import torch_compiler
from harness.task.submission import Submission
from harness.task.task import load_task

TINY = Path(__file__).parent / "tasks" / "tiny"
COMPILED = """
import torch
from torch._dynamo.utils import counters

@torch.compile
def add(data):
    return data + 1

def custom_kernel(data):
    output = add(data)
    print(sorted(counters["inductor"]))
    return output
"""


@pytest.mark.walls
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_no_player_after_the_build_compiles_anything() -> None:
    board = load_task(TINY).board("CPU")
    board = replace(board, tests=board.tests[:1], limits=replace(board.limits, compile_timeout_s=120))
    judgement = judge(board, Submission(login="sample", source=COMPILED.encode()), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert set(judgement.log.split("\n")) == {"['fxgraph_cache_hit']", ""}, "in the last run of a benchmark"


def test_the_check_of_the_compiler_is_left_to_torch_if_it_may_fail(tmp_path: Path) -> None:
    """With a g++ that lacks one of this CPU's vector instructions, and without any."""
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    for path in (tmp_path, tmp_path / "empty"):
        assert torch_compiler.environment(str(path)) == {"TORCH_WARM_POOL": "0"}
