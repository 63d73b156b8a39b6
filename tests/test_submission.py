"""Reading submissions: directives, author, task, and faults that make a file impossible to judge."""

import hashlib
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from harness.records.errors import SubmissionError
from harness.task.submission import MAX_BYTES, Directives, Submission, read_directives, read_submission, task_of

KERNEL = "def custom_kernel(data):\n    return data\n"


def submission(source: str | bytes, name: str = "submission.py") -> Submission:
    return Submission(login="alice", source=source.encode() if isinstance(source, str) else source, name=name)


def write(path: Path, text: str = KERNEL) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "leaderboard", "gpus"),
    [
        ("", None, ()),
        (KERNEL, None, ()),
        ("#!POPCORN leaderboard vectoradd\n", "vectoradd", ()),
        ("#!POPCORN leaderboard amd-fp8_mm.v2\n#!POPCORN gpus H100 A100\n", "amd-fp8_mm.v2", ("H100", "A100")),
        ("#!POPCORN gpu RTX-4090", None, ("RTX-4090",)),
        ("//!POPCORN gpus H100\n//!PULLRANK leaderboard gemm\n", "gemm", ("H100",)),
        ("#!/usr/bin/env python\n# Mine.\n  #!PULLRANK   leaderboard   gemm  \r\nimport torch\n", "gemm", ()),
        ("\ufeff#!POPCORN leaderboard gemm\n", "gemm", ()),
        ("import torch\n#!POPCORN leaderboard gemm\n", None, ()),
        ("# Mine.\n\n#!POPCORN leaderboard gemm\n", None, ()),
        ('"""\n#!POPCORN leaderboard gemm\n"""\n', None, ()),
        ("#!POPCORNS leaderboard gemm\n# !POPCORN leaderboard gemm\n", None, ()),
    ],
)
def test_directives_are_read_only_from_the_first_block_of_comments(
    text: str, leaderboard: str | None, gpus: tuple[str]
) -> None:
    assert read_directives(text) == Directives(leaderboard=leaderboard, gpus=gpus)


def test_a_file_says_which_packages_and_programs_it_needs() -> None:
    assert read_directives("#!PULLRANK needs g++ ninja numba\n").needs == ("g++", "ninja", "numba")
    for text, message in (("needs", "'needs' needs a name"), ("needs a/b", "'a/b' is not a name")):
        with pytest.raises(SubmissionError, match=message):
            read_directives(f"#!PULLRANK {text}\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!POPCORN leaderbord gemm", "submission.py:1: unknown directive 'leaderbord'; did you mean 'leaderboard'?"),
        ("#\n#!POPCORN profile", "submission.py:2: unknown directive 'profile'; write leaderboard, gpus or needs"),
        ("#!POPCORN", "submission.py:1: unknown directive ''; write leaderboard, gpus or needs"),
        ("#!POPCORN leaderboard", "submission.py:1: 'leaderboard' needs a name"),
        ("//!PULLRANK gpu", "submission.py:1: 'gpu' needs a name"),
        ("#!POPCORN leaderboard a b", "submission.py:1: 'leaderboard' takes one name, not 2"),
        ("#!POPCORN leaderboard a\n#!PULLRANK leaderboard a", "submission.py:2: duplicate directive 'leaderboard'"),
        ("#!POPCORN gpus A\n#!POPCORN gpu B", "submission.py:2: duplicate directive 'gpus'"),
        ("#!POPCORN gpus H100 H100", "submission.py:1: 'H100' appears twice"),
        ("#!POPCORN gpus H100, A100", "submission.py:1: 'H100,' is not a name; names are separated by spaces"),
        ("#!POPCORN leaderboard ../x", "submission.py:1: '../x' is not a name"),
    ],
)
def test_a_wrong_directive_is_reported_with_its_line(text: str, message: str) -> None:
    with pytest.raises(SubmissionError) as error:
        read_directives(text)
    assert str(error.value).startswith(message)
    assert submission(f"{text}\n{KERNEL}").fault == str(error.value)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"", "submission.py is empty. Start from the task's template."),
        (b" \n\t\n", "submission.py is empty."),
        (b"x" * (MAX_BYTES + 1), "submission.py is larger than 256 KiB"),
        (b"\x7fELF\0\0", "submission.py is binary, not source code."),
        (b"# ok\n\n# caf\xe9\n", "submission.py:3: not UTF-8: byte 0xe9. Save it as UTF-8."),
        ("def custom_kernel(data):\n    return data +\n", "submission.py:2: SyntaxError: invalid syntax"),
        ("def custom_kernel(data):\nreturn data\n", "submission.py:2: IndentationError: expected an indented block"),
        ("if 1:\n\tx = 1\n        y = 2\n", "submission.py:3: TabError"),
        (
            f"# Mine.\n//!POPCORN leaderboard gemm\n{KERNEL}",
            "submission.py:2: a comment in Python begins with #, not with //; write #!POPCORN leaderboard gemm",
        ),
        (f"// Mine.\n{KERNEL}", "submission.py:1: SyntaxError: invalid syntax"),
        ("import torch\n", "submission.py does not define custom_kernel(data)."),
        (
            "import torch\n\ncustom_kernel = 5\n",
            "submission.py:3: custom_kernel is not a function; define custom_kernel",
        ),
        ("custom_kernel = [abs]\n", "submission.py:1: custom_kernel is not a function; define custom_kernel(data)."),
        ("# custom_kernel\ny = custom_kernel(1)\n", "submission.py does not define custom_kernel(data)."),
        ('"""My custom_kernel."""\n', "submission.py does not define custom_kernel(data)."),
        ("def custom_kernal(data): ...\n", "submission.py does not define custom_kernel(data); rename custom_kernal."),
        ("# coding: utf-7\n" + KERNEL, "submission.py:1: declares the encoding utf-7. Only UTF-8 is allowed."),
        ("# coding: klingon\n" + KERNEL, "submission.py:1: SyntaxError: unknown encoding"),
        ("-" * 200_000 + "1", "submission.py is nested too deeply for Python to parse."),
        ("a" + ".b" * 120_000, "submission.py is nested too deeply for Python to parse."),
        ("x = " + "9" * 200_000, "submission.py:1: SyntaxError: "),
    ],
)
def test_a_file_that_cannot_be_judged_says_why(source: str | bytes, message: str) -> None:
    started = time.monotonic()
    assert (submission(source).fault or "").startswith(message)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize(
    "source",
    [
        KERNEL,
        "\ufeff" + KERNEL,
        KERNEL.replace("\n", "\r\n"),
        "# coding: utf-8\n" + KERNEL,
        "async def custom_kernel(data): ...\n",
        "custom_kernel = lambda data: data\n",
        "import torch\ncustom_kernel = torch.compile(abs)\n",
        "from task import kernel as custom_kernel\n",
        "from utils import *\n",
        "try:\n    import triton\nexcept ImportError:\n    def custom_kernel(data): ...\n",
        "for custom_kernel in [abs]: ...\n",
        "custom_kernel = None\nfor custom_kernel in [abs]: ...\n",
        "custom_kernel = None\nfrom task import *\n",
        'custom_kernel = None\nglobals()["custom_kernel"] = abs\n',
        'globals()["custom_kernel"] = abs\n',
        'exec("def custom_kernel(data): return data")\n',
        '"\\d"\n' + KERNEL,
    ],
)
def test_a_file_that_may_define_the_kernel_has_no_fault(source: str) -> None:
    assert submission(source).fault is None


def test_a_cuda_file_is_left_to_its_compiler() -> None:
    assert submission("//!POPCORN gpus H100\n__global__ void f() {}\n", "submission.cu").fault is None
    assert submission("//!POPCORN gpus\n", "submission.cu").fault == "submission.cu:1: 'gpus' needs a name"
    assert submission("\0", "submission.cu").fault == "submission.cu is binary, not source code."


def test_a_submission_knows_its_digest_lines_and_language() -> None:
    one = submission("import triton\n" + KERNEL)
    assert (one.lines, one.language, len(one.digest)) == (3, "Triton", 64)
    assert one.digest == submission("import triton\n" + KERNEL).digest != submission(KERNEL).digest
    assert [submission(text).lines for text in ("", "a", "a\n", "a\nb")] == [0, 1, 1, 2]
    assert submission("__global__ void f();", "submission.cu").language == "CUDA C++"
    assert submission(b"\xff").text == "\ufffd"


def test_the_folder_names_the_author(tmp_path: Path) -> None:
    path = write(tmp_path / "submissions/gemm/alice/submission.py")
    assert read_submission(path).login == "alice"
    assert read_submission(path, login="bob").login == "bob"
    assert read_submission(write(tmp_path / "mine.py")) == Submission(login="local", source=KERNEL.encode())
    assert read_submission(write(tmp_path / "mine.cu")).name == "submission.cu"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("kernal.py", "kernal.py: no such file; did you mean 'kernel.py'?"),
        ("nowhere/kernel.py", "kernel.py: no such file"),
        ("gemm/alice", "is a folder; give the path of the file: "),
        ("gemm", "gemm is a folder; give the path of the file"),
        ("notes.txt", "notes.txt: a submission must be a .py file"),
        ("submissions/gemm/al.ice/submission.py", "'al.ice' is not a GitHub login"),
        ("pipe.py", "pipe.py is not a plain file"),
        ("link.py", "link.py is a link to gone.py, which leads to no file"),
    ],
)
def test_a_path_without_a_submission_file_is_refused(name: str, message: str, tmp_path: Path) -> None:
    for path in ("kernel.py", "gemm/alice/submission.py", "notes.txt", "submissions/gemm/al.ice/submission.py"):
        write(tmp_path / path)
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to("gone.py")
    with pytest.raises(SubmissionError) as error:
        read_submission(tmp_path / name)
    assert message in str(error.value)


def test_an_oversized_file_is_hashed_whole_but_kept_only_in_part(tmp_path: Path) -> None:
    path = tmp_path / "huge.py"
    content = b"0123456\n" * 2**20 + b"end"
    path.write_bytes(content)
    tracemalloc.start()
    one = read_submission(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MAX_BYTES
    assert len(one.source) == MAX_BYTES + 1
    assert (one.digest, one.lines) == (hashlib.sha256(content).hexdigest(), 2**20 + 1)
    assert one.fault and "larger than 256 KiB" in one.fault


BOARD = "#!POPCORN leaderboard {}\n"


@pytest.mark.parametrize(
    ("path", "text", "task"),
    [
        ("submissions/gemm/alice/submission.py", "", "gemm"),
        ("submissions/gemm/alice/submission.py", BOARD.format("gemm"), "gemm"),
        ("tasks/gemm/examples/accepted/fast.py", "", "gemm"),
        ("tasks/gemm/template.py", "", None),
        ("fast.py", BOARD.format("gemm"), "gemm"),
        ("fast.py", "", None),
        ("submissions/gemm/alice/submission.py", "#!POPCORN leaderbord gemm\n", "gemm"),
    ],
)
def test_a_submissions_folder_or_directive_names_its_task(
    path: str, text: str, task: str | None, tmp_path: Path
) -> None:
    assert task_of(tmp_path / path, submission(text + KERNEL)) == task


def test_a_relative_path_inside_the_folder_still_finds_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "submissions/gemm/alice/submission.py")
    monkeypatch.chdir(path.parent)
    assert task_of(Path("submission.py"), read_submission(Path("submission.py"))) == "gemm"


def test_the_folder_and_the_directive_must_agree(tmp_path: Path) -> None:
    path = tmp_path / "submissions/gemm/alice/submission.py"
    with pytest.raises(SubmissionError, match="'gemm', but its directive says 'leaderboard softmax'"):
        task_of(path, submission(BOARD.format("softmax") + KERNEL))


def test_a_wrong_directive_outside_a_submissions_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=r"submission\.py:1: unknown directive"):
        task_of(tmp_path / "fast.py", submission("#!POPCORN leaderbord gemm\n"))
