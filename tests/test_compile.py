"""Compiled submissions: the compiler's command, the messages when it fails, and whole judgings.

tests/tasks/axpy         host code: compiled by g++ and judged, if there is a g++
tests/tasks/axpy_cuda    device code: compiled and loaded if there is nvcc, which needs no GPU
"""

import ctypes
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.gpu.device import REHEARSAL
from harness.inside.library import load_kernel
from harness.judge import JudgeSession, judge, open_context
from harness.records.errors import JudgeError, SubmissionError, TaskError
from harness.records.fields import Mode
from harness.records.judgement import CaseResult
from harness.records.verdict import Verdict
from harness.rules import examine
from harness.rules.context import Context
from harness.task.compile import explain, ran_out_of_memory, recipe_of
from harness.task.submission import Submission, read_submission
from harness.task.task import Baseline, Board, Example, Limits, ScriptConfig, load_task
from harness.task.toolchain import Toolchain, host_flags
from scripts.cli import run

TASKS = Path(__file__).parent / "tasks"
AXPY = load_task(TASKS / "axpy")
CPU = AXPY.board("CPU")
CUDA = load_task(TASKS / "axpy_cuda")
HOPPER = Toolchain(arch="sm_90a", include_dirs={"cutlass": "/usr/include"})
H100 = replace(CUDA.board("H100"), toolchain=HOPPER)

BUILD = 'extern "C" void axpy(float a, const float *x, float *y, long size)'
RIGHT = f"{BUILD} {{ for (long i = 0; i < size; ++i) y[i] += a * x[i]; }}\n"

needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="g++ is not on this machine")


def has_nvcc() -> bool:
    try:
        return bool(recipe_of(H100))
    except JudgeError:
        return False


needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="nvcc is not on this machine")


def with_config(board: Board, **config: object) -> Board:
    made = ScriptConfig(**({"sources": ("submission.cu",)} | config))
    return replace(board, task=replace(board.task, config=made))


def submission(source: str) -> Submission:
    return Submission(login="ada", source=source.encode(), name="submission.cu")


@pytest.fixture(scope="module")
def session() -> Iterator[JudgeSession]:
    """One sandbox for all files of the host's compiler."""
    with JudgeSession(CPU) as made:
        yield made


@pytest.fixture(scope="module")
def impatient() -> Iterator[JudgeSession]:
    """The same with little time and memory for the compiler."""
    with JudgeSession(replace(CPU, limits=replace(CPU.limits, compile_timeout_s=8, memory_gib=1))) as made:
        yield made


@pytest.fixture(scope="module")
def hopper() -> Iterator[Context]:
    """One sandbox for all files of nvcc."""
    with open_context(replace(H100, limits=Limits()), Mode.TEST, "bubblewrap", device=REHEARSAL) as context:
        yield context


def build(context: Context, path: Path) -> tuple[CaseResult, str]:
    """Build a file without a call; the verdict and the output."""
    entry = context.entry(str(path.stem), read_submission(path, login="ada"))
    return examine.build(context, entry, []), context.logs.get(entry.name, "")


# The command


@needs_gxx
def test_the_host_compiler_makes_a_library_for_a_cpu_board() -> None:
    recipe = recipe_of(CPU)
    assert Path(recipe.command[0]).name == "g++"
    assert {"-shared", "-fPIC", "-Wl,--no-undefined", "-DAXPY_UNROLL=4", "-ffp-contract=off"} <= {*recipe.command}
    assert "--use_fast_math" not in recipe.command, "only nvcc has it"
    assert "-o" not in recipe.command and recipe.shown == ()


@needs_nvcc
def test_nvcc_compiles_for_the_architecture_of_a_gpu_board() -> None:
    recipe = recipe_of(
        with_config(H100, include_dirs=("cutlass",), compile_flags=("-lcublas",), defines={"NDEBUG": ""})
    )
    assert Path(recipe.command[0]).name == "nvcc"
    assert {"-arch=sm_90a", "-I/usr/include", "-DNDEBUG", "-Xcompiler=-fPIC"} <= {*recipe.command}
    assert recipe.command.index("-lcublas") > recipe.command.index("submission.cu"), "it would not be linked"


@needs_gxx
def test_a_program_is_compiled_by_the_same_recipe() -> None:
    recipe = recipe_of(with_config(CPU, sources=("eval.cu", "submission.cu")), shared=False)
    assert not {"-shared", "-fPIC"} & {*recipe.command}
    assert recipe.command.index("submission.cu") == recipe.command.index("eval.cu") + 1


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("-O3", ("-O3",)),
        ("-Xcompiler=-fopenmp,-mavx2", ("-fopenmp", "-mavx2")),
        ("--compiler-options=-Wall", ("-Wall",)),
        ("--maxrregcount=64", ()),
        ("-Xptxas=-v", ()),
        ("-lgomp", ("-lgomp",)),
    ],
)
def test_the_host_compiler_gets_only_its_own_flags(flag: str, told: tuple[str, ...]) -> None:
    assert host_flags(flag) == told


@needs_nvcc
def test_a_library_without_a_configured_path_is_a_task_fault() -> None:
    with pytest.raises(
        TaskError, match=r"the path of cutlas is not configured for the board H100; did you mean 'cutlass'\?"
    ):
        recipe_of(with_config(H100, include_dirs=("cutlas",)))


@needs_nvcc
def test_a_board_without_an_architecture_cannot_compile() -> None:
    with pytest.raises(JudgeError, match=r"`arch` to compile for: add one, such as sm_90a, to gpus\.H100"):
        recipe_of(replace(H100, toolchain=Toolchain()))


@needs_nvcc
def test_nvcc_is_not_asked_to_compile_for_amd():
    with pytest.raises(JudgeError, match="nvcc cannot compile for gfx942"):
        recipe_of(replace(H100, toolchain=Toolchain(arch="gfx942")))


def test_a_missing_include_folder_is_the_machines_fault() -> None:
    away = Toolchain(include_dirs={"cutlass": "/opt/no/such/folder"})
    with pytest.raises(JudgeError, match="cutlass is not at /opt/no/such/folder on this machine"):
        recipe_of(with_config(replace(CPU, toolchain=away), include_dirs=("cutlass",)))


def test_an_include_folder_that_links_outside_usr_and_opt_is_refused() -> None:
    # Debian has such a link: /usr/lib/ssl/certs leads to /etc/ssl/certs.
    folders = (path for path in map(Path, ("/usr/lib/ssl/certs", "/usr/tmp")) if path.is_dir())
    outside = next((path for path in folders if not path.resolve().is_relative_to("/usr")), None)
    if not outside:
        pytest.skip("no folder below /usr leads out of it on this machine")
    toolchain = Toolchain(include_dirs={"certs": str(outside)})
    with pytest.raises(JudgeError, match=r"outside /usr and /opt"):
        recipe_of(with_config(replace(CPU, toolchain=toolchain), include_dirs=("certs",)))


# Messages


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("submission.cu:5:40: error: 'z' was not declared in this scope\n    5 | z\n      | ^\n",
         "submission.cu:5: 'z' was not declared in this scope"),
        ('submission.cu(6): error: identifier "z" is undefined\n', 'submission.cu:6: identifier "z" is undefined'),
        ('submission.cu(6): error #20: identifier "z" is undefined\n', 'submission.cu:6: identifier "z" is undefined'),
        ("submission.cu:2:10: fatal error: no.h: No such file or directory\ncompilation terminated.\n",
         "submission.cu:2: no.h: No such file or directory"),
        ("task.h:3:1: error: a\nsubmission.cu:9:1: error: b\nsubmission.cu:9:1: error: b\n",
         "submission.cu:9: b\ntask.h:3: a"),
        ("/usr/include/c++/12/bits/x.h: In instantiation of 'f':\nsubmission.cu:11:14:   required from here\n"
         "/usr/include/c++/12/bits/x.h:45:23: error: no match for 'operator<'\n/usr/include/y.h:9:1: error: another\n",
         "submission.cu:11: no match for 'operator<' (/usr/include/c++/12/bits/x.h:45)"),
        ("submission.cu:11:14:   required from here\n/usr/include/x.h:45:23: warning: unused\n"
         "/usr/include/y.h:9:1: error: another\n", "/usr/include/y.h:9:1: error: another"),
        ("/usr/bin/ld: /tmp/c.o: in function `axpy':\nsubmission.cu:(.text+0x1e): undefined reference to `twice(float)'\n"
         "collect2: error: ld returned 1 exit status\n", "undefined reference to twice(float)"),
        ("ptxas /tmp/t.ptx, line 30; error   : Not a name of any known instruction: 'bogus'\n",
         "ptxas /tmp/t.ptx, line 30; error   : Not a name of any known instruction: 'bogus'"),
        ("cc1plus: all warnings being treated as something\n", "cc1plus: all warnings being treated as something"),
        ("", "the compiler exited with code 1 and printed nothing"),
    ],
)  # fmt: skip
def test_the_lines_at_fault_are_named(output: str, message: str) -> None:
    assert explain(1, output) == message


def test_text_quoted_by_a_compiler_is_made_harmless() -> None:
    assert explain(1, "submission.cu:1:2: error: #error \x1b[31m\u202eowned\x07\n") == (
        "submission.cu:1: #error  [31m owned "
    )
    long = explain(1, "".join(f"submission.cu:{n}:1: error: {'x' * 500}\n" for n in range(1, 100)))
    assert long.endswith("… and 91 more") and len(long) < 3000


def test_a_forged_file_path_is_not_taken_for_a_location() -> None:
    assert explain(1, "../../etc/passwd:1:1: error: x\n") == "../../etc/passwd:1:1: error: x"


def test_a_compiler_that_ran_out_of_memory_is_recognized() -> None:
    assert ran_out_of_memory("cc1plus: out of memory allocating 65536 bytes after a total of 1 bytes\n")
    assert not ran_out_of_memory("submission.cu:1:1: error: expected unqualified-id\n")


def test_a_missing_function_is_named() -> None:
    class Adapter:
        @staticmethod
        def bind(library: ctypes.CDLL) -> object:
            return library.no_such_function

    with pytest.raises(
        AttributeError,
        match=r'no function no_such_function; define it with the types in task.h, and with extern "C" before it',
    ):
        load_kernel(Adapter, "libc.so.6")


# Judged for real


@pytest.mark.walls
@needs_gxx
@pytest.mark.parametrize("example", AXPY.examples, ids=lambda example: f"{example.verdict.folder}/{example.path.stem}")
def test_examples_of_a_compiled_task_get_the_verdicts_of_their_folders(example: Example, session: JudgeSession) -> None:
    judgement = session.judge(read_submission(example.path, login="ada"), Mode.TEST)
    assert judgement.verdict is example.verdict, judgement.message


@pytest.mark.walls
@needs_gxx
def test_a_compiled_submission_is_timed_beside_a_compiled_anchor(session: JudgeSession) -> None:
    judgement = session.judge(submission(RIGHT), Mode.BENCHMARK)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    [benchmark] = judgement.benchmarks
    assert benchmark.timing and benchmark.timing.anchor_us > 0
    assert judgement.submission.language == "C++"


@pytest.mark.walls
@needs_gxx
def test_a_compile_error_starts_with_the_line_at_fault_and_logs_everything(session: JudgeSession) -> None:
    judgement = session.judge(submission(f"{BUILD} {{\n  y[0] = z;\n}}\n"), Mode.TEST)
    assert judgement.verdict is Verdict.COMPILE_ERROR
    assert judgement.message == "submission.cu:2: 'z' was not declared in this scope"
    assert "y[0] = z;" in judgement.log


@pytest.mark.walls
@needs_gxx
def test_output_printed_before_a_crash_is_kept(session: JudgeSession) -> None:
    judgement = session.judge(
        submission(f'#include <cstdio>\n#include <cstdlib>\n{BUILD} {{ printf("so far\\n"); abort(); }}\n'), Mode.TEST
    )
    assert judgement.verdict is Verdict.RUN_TIME_ERROR
    assert "so far" in judgement.log


@pytest.mark.walls
@needs_gxx
def test_a_library_cannot_replace_itself_after_compilation(session: JudgeSession) -> None:
    """A library that replaces itself while the build tries it changes nothing for later players."""
    replaces = """
#include <cstdio>
#include <cstdlib>
__attribute__((constructor)) static void replace() {
    if (FILE *file = fopen("/cache/build/submission.so", "w")) { fputs("replaced", file); fclose(file); }
    puts("tried");
}
"""
    judgement = session.judge(submission(replaces + RIGHT), Mode.TEST)
    assert judgement.verdict is Verdict.ACCEPTED, judgement.message
    assert "tried" in judgement.log


@pytest.mark.walls
@needs_gxx
@pytest.mark.parametrize(
    ("source", "verdicts"),
    [
        # Each instantiates two more: no compiler finishes this.
        ("template <int N, int M> struct T { static constexpr long v = T<N - 1, 2 * M>::v + T<N - 1, 2 * M + 1>::v; };\n"
         "template <int M> struct T<0, M> { static constexpr long v = M; };\nlong w = T<25, 1>::v;\n",
         {Verdict.TIME_LIMIT_EXCEEDED, Verdict.MEMORY_LIMIT_EXCEEDED}),
        # A gigabyte of initialised data.
        ("char data[1l << 30] = {1};\n", {Verdict.COMPILE_ERROR, Verdict.MEMORY_LIMIT_EXCEEDED, Verdict.TIME_LIMIT_EXCEEDED}),
        ('#include "/dev/zero"\n', {Verdict.COMPILE_ERROR, Verdict.MEMORY_LIMIT_EXCEEDED, Verdict.TIME_LIMIT_EXCEEDED}),
        ('#define A(x) x x x x x x x x\n'
         'A(A(A(A(A(_Pragma("message \\"over and over, and nobody reads it\\""))))))\n', {Verdict.COMPILE_ERROR}),
        ('#include "submission.cu"\n', {Verdict.COMPILE_ERROR}),
        ('#include "reference.py"\n', {Verdict.COMPILE_ERROR}),
    ],
    ids=["templates", "data", "an endless file", "endless words", "itself", "the reference"],
)  # fmt: skip
def test_source_that_overwhelms_the_compiler_is_the_submissions_fault(
    source: str, verdicts: set[Verdict], impatient: JudgeSession
) -> None:
    judgement = impatient.judge(submission(source + RIGHT), Mode.TEST)
    assert judgement.verdict in verdicts, judgement.message


@pytest.mark.walls
@needs_gxx
def test_a_baseline_in_python_is_judged_beside_compiled_files() -> None:
    code = "def custom_kernel(data):\n    a, x, y = data\n    y.add_(x, alpha=a)\n    return y\n"
    library = Submission(login="ada", source=code.encode())
    baseline = Baseline(name="PyTorch", path=Path("library.py"), digest=library.digest)
    judgement = judge(replace(CPU, task=replace(AXPY, baselines=(baseline,))), library, Mode.BENCHMARK)
    assert (judgement.verdict, judgement.baseline) == (Verdict.ACCEPTED, "PyTorch"), judgement.message
    assert all(case.timing and case.timing.ratio for case in judgement.benchmarks), "compared with the anchor in C++"


def test_a_file_of_another_language_is_refused() -> None:
    python = Submission(login="ada", source=b"def custom_kernel(data): ...\n")
    with pytest.raises(SubmissionError, match=r"axpy expects a submission\.cu, not a submission\.py"):
        judge(CPU, python, Mode.TEST)


# Device code


@pytest.mark.walls
@needs_nvcc
def test_a_new_task_for_a_gpu_has_a_template_that_compiles(tmp_path: Path) -> None:
    assert run(["task", "new", "square", "--lang", "cu", "--gpu", "H100", "--tasks", str(tmp_path)]) == 0
    board = replace(load_task(tmp_path / "square").board("H100"), toolchain=HOPPER)
    with open_context(board, Mode.TEST, "bubblewrap", device=REHEARSAL) as context:
        built, _ = build(context, tmp_path / "square" / "template.cu")
    assert built.verdict is Verdict.ACCEPTED, built.message


@pytest.mark.walls
@needs_nvcc
@pytest.mark.parametrize("example", CUDA.examples, ids=lambda example: f"{example.verdict.folder}/{example.path.stem}")
def test_device_code_is_compiled_and_loaded_without_a_gpu(example: Example, hopper: Context) -> None:
    built, printed = build(hopper, example.path)
    if example.verdict is Verdict.COMPILE_ERROR:
        assert (built.verdict, built.message) == (example.verdict, 'submission.cu:6: identifier "z" is undefined')
    else:
        assert built.verdict is Verdict.ACCEPTED, built.message
        assert "for 'sm_90a'" in printed, "the task asks ptxas for this line"
