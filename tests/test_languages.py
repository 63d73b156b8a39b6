"""The guide's examples for GPU boards: each compiles if its compiler is here, and is judged if that is possible.

on a CPU       PyTorch, Triton by its interpreter, JAX: judged in the sandbox
by nvcc        CUDA C++, alone or within Python: compiled, which needs no GPU
simulated      Numba's kernel, by its own simulator
elsewhere      `make check-gpu`, on a machine with a GPU
"""

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.check_gpu.probe import CheckOptions, MissingError
from benchmarks.check_gpu.stages.languages import CUDA_TASK, LIBRARIES, arch_of, guides_examples, probes
from harness.gpu.device import REHEARSAL
from harness.judge import JudgeSession, open_context
from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from harness.rules.examine import build
from harness.sandbox.sandbox import PlayerFiles, Sandbox
from harness.task.compile import recipe_of
from harness.task.submission import read_directives
from harness.task.task import load_task
from harness.task_check.judge_examples import judge_examples

ROOT = Path(__file__).parent.parent
EXAMPLES = {example.name: example for example in guides_examples()}
PYTHON = [example for example in EXAMPLES.values() if not example.is_compiled]
COMPILED = [example for example in EXAMPLES.values() if example.is_compiled]
ON_A_CPU = [example for example in EXAMPLES.values() if not example.needs_gpu]
needs_nvcc = pytest.mark.skipif(not shutil.which("nvcc"), reason="nvcc is not on this machine")


def test_the_guide_has_an_example_for_each_language():
    assert list(EXAMPLES) == [
        "PyTorch",
        "Triton",
        "JAX",
        "CUDA C++ by load_inline",
        "A torch extension",
        "CuPy",
        "Numba",
        "CuTe DSL",
        "CUDA C++ in a file of its own",
        "cuBLAS",
        "CUTLASS",
        "ThunderKittens",
    ]
    assert [example.name for example in ON_A_CPU] == ["PyTorch", "Triton", "JAX"]


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_each_example_is_a_valid_submission_to_its_task(example):
    directives = read_directives(example.submission.text, example.submission.name)
    assert directives.leaderboard == ("axpy_cuda" if example.is_compiled else "vectoradd")
    assert not example.submission.find_fault(needs_kernel=True)


@pytest.mark.parametrize("example", PYTHON, ids=lambda example: example.name)
def test_an_example_declares_every_package_that_it_imports(example):
    tree = ast.parse(example.submission.text)
    modules = [
        node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    imported = {module.split(".")[0] for module in modules} - {"torch"}
    needs = read_directives(example.submission.text, example.submission.name).needs
    assert imported <= set(needs)
    if "load_inline" in example.submission.text:
        assert needs == ("nvcc", "g++", "ninja")


@pytest.fixture(scope="module")
def session():
    """One sandbox for all files that are judged on a CPU."""
    with JudgeSession(load_task(ROOT / "tasks" / "vectoradd").board("CPU")) as made:
        yield made


@pytest.mark.walls
@pytest.mark.parametrize("example", ON_A_CPU, ids=lambda example: example.name)
def test_each_example_for_a_cpu_is_accepted_there(example, session):
    if reason := example.why_skipped():
        pytest.skip(reason)
    judgement = session.judge(example.submission, Mode.TEST)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


JITTED = """
import os
import jax

jax.jit(lambda a: jax.numpy.tanh(a) @ a)(jax.numpy.ones((8, 8))).block_until_ready()
print(len(os.listdir("/cache/jax")), flush=True)
"""


@pytest.mark.walls
@pytest.mark.skipif(not importlib.util.find_spec("jax"), reason="jax is not on this machine")
def test_jax_does_not_compile_again_after_the_build():
    entry = PlayerFiles(name="test", files={"submission.py": JITTED + "custom_kernel = print\n"})
    kept = []
    with Sandbox("bubblewrap", memory_gib=4) as sandbox:
        for building in (True, False, False):
            with sandbox.start_player(entry, building=building) as player:
                player.send({"do": "load"})
                player.answer(time.monotonic() + 60, "It took too long.")
            kept.append(int(player.log))
    assert kept[0] > 0 and len(set(kept)) == 1


@pytest.mark.walls
@pytest.mark.parametrize("example", COMPILED, ids=lambda example: example.name)
def test_a_cuda_example_is_compiled_for_a_gpu(example):
    if reason := example.why_skipped():
        pytest.skip(reason)
    board = example.board("sm_90a")
    with open_context(board, Mode.TEST, "bubblewrap", device=REHEARSAL) as context:
        built = build(context, context.entry("submission", example.submission), [])
    assert built.verdict is Verdict.ACCEPTED, built.message


@needs_nvcc
@pytest.mark.parametrize("name", ["CUDA C++ by load_inline", "A torch extension"])
def test_a_cuda_kernel_inside_python_is_compiled_for_a_gpu(name, tmp_path):
    # Without torch's headers for CUDA, since its build for CPUs lacks some: the stream and the tensor are left out.
    sources = re.findall(r'"""(.*?)"""', EXAMPLES[name].submission.text, re.DOTALL)
    source = next(source for source in sources if "__global__" in source)
    kernel = re.search(r"__global__.*?^}", source, re.DOTALL | re.MULTILINE)
    launch = re.search(r"add<<<.*?;", source, re.DOTALL)
    assert kernel and launch
    tensor = "struct Tensor { void *at; void *data_ptr() { return at; } };"
    stream = "c10::cuda::getCurrentCUDAStream()"
    assert stream in launch[0]
    arguments = "Tensor a, Tensor b" if "data_ptr" in launch[0] else "void *a, const void *b"
    body = f"void launch({arguments}, int64_t count, cudaStream_t stream) {{ {launch[0].replace(stream, 'stream')} }}"
    path = tmp_path / "kernel.cu"
    path.write_text(f"#include <cstdint>\n#include <cuda_fp16.h>\n{tensor}\n{kernel[0]}\n{body}\n")
    done = subprocess.run(
        ["nvcc", "-std=c++20", "-arch=sm_90a", "-c", str(path), "-o", str(tmp_path / "kernel.o")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.walls
@pytest.mark.skipif(not (shutil.which("g++") and shutil.which("ninja")), reason="g++ or ninja is not on this machine")
def test_the_extensions_operator_is_compiled_and_called_with_a_cpu_kernel(session):
    """Everything except the kernel: torch's headers, the operator's registration, and the call from Python."""
    text = EXAMPLES["A torch extension"].submission.text
    sum_on_the_host = """
#include <c10/util/Half.h>
void launch_add(void *a, const void *b, int64_t count) {
    for (int64_t i = 0; i < count; ++i) static_cast<c10::Half *>(a)[i] += static_cast<const c10::Half *>(b)[i];
}
"""
    kernel = re.search(r'KERNEL = """(.*?)"""', text, re.DOTALL)
    assert kernel
    text = text.replace(kernel[1], sum_on_the_host).replace("OPERATOR, KERNEL, is", "[OPERATOR, KERNEL], is")
    example = EXAMPLES["A torch extension"].submission
    judgement = session.judge(type(example)(login="guide", source=text.encode()), Mode.TEST)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message


def test_numbas_kernel_is_right_in_its_simulator(tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "submission.py").write_bytes(EXAMPLES["Numba"].submission.source)
    code = """
import numpy, submission
a, b = numpy.arange(300, dtype=numpy.float16), numpy.ones(300, dtype=numpy.float16)
submission.add[2, 256](a, b)
assert (a == numpy.arange(300) + 1).all()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_librarys_path_flags_and_macros_reach_the_compiler(tmp_path):
    config = EXAMPLES["ThunderKittens"].board("sm_90a").task.config
    assert config.include_dirs == ("thunderkittens",)
    assert config.defines == {"AXPY_BLOCK": "256", "KITTENS_HOPPER": ""}
    assert "-lcuda" in config.compile_flags
    assert "-lcublas" in EXAMPLES["cuBLAS"].board("sm_90a").task.config.compile_flags
    assert {library.header for library in LIBRARIES} == {
        library.header for example in COMPILED for library in example.libraries
    }


@needs_nvcc
def test_the_plain_cuda_example_needs_only_nvcc():
    plain = EXAMPLES["CUDA C++ in a file of its own"]
    assert plain.why_skipped() == "" and not plain.libraries
    assert "-arch=sm_100a" in recipe_of(plain.board("sm_100a")).command


def test_the_devices_name_determines_nvccs_architecture():
    assert arch_of("NVIDIA H200") == arch_of("NVIDIA H100 80GB HBM3") == "sm_90a"
    assert arch_of("Abacus 9000") is None


@pytest.mark.walls
def test_check_gpu_judges_the_examples_and_names_what_one_lacks(tmp_path, monkeypatch):
    rehearsal = CheckOptions(rehearse=True, scratch=str(tmp_path))
    examples = {probe.name: probe for probe in probes(rehearsal)}
    assert examples["PyTorch"].run(rehearsal).words == "AC"
    monkeypatch.setattr("harness.task_check.needs._is_here", lambda need: need != "jax")
    with pytest.raises(MissingError, match="needs jax: not installed on this machine"):
        examples["JAX"].run(rehearsal)


def test_an_example_with_a_directive_for_other_boards_is_skipped(tmp_path):
    shutil.copytree(ROOT / "tests" / "tasks" / "tiny", tmp_path / "tiny", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path / "tiny" / "examples" / "accepted" / "wants_a_gpu.py"
    path.write_text("#!POPCORN gpus H100 A100\ndef custom_kernel(data):\n    return data.cuda()\n")
    done = {
        one.example.path.name: one for one in judge_examples(load_task(tmp_path / "tiny").board("CPU"), sandbox="none")
    }
    assert (done["wants_a_gpu.py"].got, done["wants_a_gpu.py"].message) == (None, "for H100 and A100 only")
    judgement = done["plain.py"].judgement
    assert isinstance(judgement, Judgement) and judgement.verdict is Verdict.ACCEPTED


def test_the_guide_names_the_task_of_the_compiled_examples():
    assert CUDA_TASK.relative_to(ROOT).as_posix() in (ROOT / "site/pages/participants-cuda.md").read_text()
