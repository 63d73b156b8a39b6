"""`pullrank task import --mend` completes a task: what it proposes, leaves out, and never touches."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.gpu.gpu_nodes import find_gpus
from harness.task.task import Task, load_task
from harness.task.task_file import TaskSet
from scripts.cli import run
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.mend import diff_of, wrapped_reference
from scripts.kernelbot.mend_files import with_all_needs, with_files_it_reads
from scripts.kernelbot.needs import declared_needs, with_needs

SETS = Path(__file__).parent / "kernelbot"
TASK_YML = """\
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: task.py, source: task.py}
  - {name: reference.py, source: reference.py}
tests: [{size: 16, seed: 1}, {size: 1000, seed: 2}]
benchmarks: [{size: 3000, seed: 3}]
"""
REFERENCE = """\
import torch


def generate_input(size, seed):
    torch.manual_seed(seed)
    return torch.randn(size)


def ref_kernel(data):
    return data / 2


def check_implementation(data, output):
    right = (output - ref_kernel(data)).abs() <= 1e-6
    return bool(right.all()), "not the half"
"""
OLDEST = """\
def check_implementation(output, reference_output):
    return bool(((output - reference_output).abs() <= 1e-6).all())
"""
RIGHT = "def custom_kernel(data):\n    return data * 0.5\n"


def kernelbot_task(folder: Path, **files: str) -> Path:
    """A task whose check compares only numbers; `files` are further files, by path with __ for /."""
    given = {"task.yml": TASK_YML, "task.py": "", "reference.py": REFERENCE}
    for name, text in (given | {f"{name.replace('__', '/')}.py": text for name, text in files.items()}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def imported(out: Path, *arguments: str | Path) -> dict[str, Task]:
    assert run(["task", "import", *map(str, arguments), "--out", str(out)]) == 0
    return {path.parent.name: load_task(path.parent) for path in sorted(out.glob("*/task.yml"))}


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# By running the task.


def test_a_mended_task_rejects_wrong_forms_and_has_an_anchor_that_is_right(tmp_path, capsys):
    source = kernelbot_task(
        tmp_path / "set" / "half",
        solutions__correct__a_third="def custom_kernel(data):\n    return data / 3\n",
        solutions__correct__b_needs_a_package=f"import no_such_package\n\n{RIGHT}",
        submissions__times=RIGHT,
    )  # fmt: skip
    before = contents(source)
    task = imported(tmp_path / "tasks", source, "--mend", "--sandbox", "none")["half"]
    said = capsys.readouterr().out
    assert contents(source) == before, "the source has changed"
    assert "check above accepts an extra dimension, the dtype float64" in task.reference
    assert task.anchor == task.folder / "examples" / "accepted" / "times.py"
    assert "note: examples/accepted/a_third.py: left out: WA: " in said
    assert "note: it passes its own check" in said
    for line in ("--- half/examples/accepted/a_third.py", "+++ /dev/null", "+#!PULLRANK needs no_such_package"):
        assert line in said.splitlines()
    assert "+anchor: examples/accepted/times.py" in said


def test_a_submission_is_rewritten_for_the_device_alias_too(tmp_path, capsys):
    kernel = "import torch\n\n\ndef custom_kernel(data):\n    return data * torch.full((1,), 0.5, device='cuda')\n"
    source = kernelbot_task(tmp_path / "set" / "half", submissions__times=kernel)
    options = ("--mend", "--sandbox", "none", "--device-alias", "cuda=cpu")
    task = imported(tmp_path / "tasks", source, *options)["half"]
    assert task.anchor == task.folder / "examples" / "accepted" / "times.py"
    assert "times.py: left out" not in capsys.readouterr().out and b'device="cpu"' in task.anchor_source


def test_a_check_is_not_wrapped_if_an_accepted_example_would_be_wrong_then(tmp_path, capsys):
    """Even if the example fails on this machine for another reason."""
    kept = "    if data.numel() > 1000:\n        raise ValueError('too long')\n    return data[None] * 0.5\n"
    source = kernelbot_task(tmp_path / "set" / "half", solutions__correct__kept=f"def custom_kernel(data):\n{kept}")
    task = imported(tmp_path / "tasks", source, "--mend", "--sandbox", "none")["half"]
    assert "not wrapped, as examples/accepted/kept.py would be wrong then" in capsys.readouterr().out
    assert "mismatch" not in task.reference


@pytest.mark.parametrize("is_oldest", [False, True])
def test_a_wrapped_check_rejects_what_the_check_alone_accepts(is_oldest):
    reference = REFERENCE.partition("def check")[0] + OLDEST if is_oldest else REFERENCE

    def rejects(source: bytes, output: torch.Tensor) -> bool:
        names: dict[str, Any] = {}
        exec(source, names)
        arguments = (output, names["ref_kernel"](data)) if is_oldest else (data, output)
        answer = names["check_implementation"](*arguments)
        return not (answer[0] if isinstance(answer, tuple) else answer)

    data = torch.arange(6.0).reshape(2, 3)
    wrapped = wrapped_reference(reference.encode(), "another form")
    for output in ((data / 2).double(), (data / 2)[None]):
        assert not rejects(reference.encode(), output)
        assert rejects(wrapped, output)
    assert not rejects(wrapped, data / 2)
    assert rejects(wrapped, data / 3)


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_a_task_for_an_absent_gpu_is_tried_as_a_copy_for_the_cpu(tmp_path, capsys):
    folder = shutil.copytree(SETS, tmp_path / "problems") / "first" / "rowmax_py"
    crashing = folder / "solutions" / "correct" / "a_crashes.py"
    crashing.parent.mkdir(parents=True)
    crashing.write_text("import torch\n\n\ndef custom_kernel(data):\n    torch.cuda.synchronize()\n    return data\n")
    task = imported(tmp_path / "tasks", folder, "--gpu", "A100", "--mend", "--sandbox", "none")["rowmax_py"]
    said = capsys.readouterr().out
    assert (task.gpus, task.device_alias) == (("A100",), {})
    assert ".cuda()" in task.reference, "the copy was written"
    assert "note: tried as a copy for the CPU" in said
    assert "examples/accepted/a_crashes.py: not its folder's verdict here: RTE: " in said
    assert [one.path.name for one in task.examples] == ["a_crashes.py", "reference.py", "zeros.py"]
    assert task.anchor and task.anchor.name == "reference.py"


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_no_verdict_is_given_for_a_program_that_needs_an_absent_gpu(tmp_path, capsys):
    imported(tmp_path, SETS / "own" / "rowsum_py", "--gpu", "H100", "--mend", "--sandbox", "none")
    assert "note: not tried: only a machine with its GPUs can judge it" in capsys.readouterr().out
    assert run(["task", "check", str(tmp_path / "rowsum_py"), "--sandbox", "none", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["examples"] == []
    assert [one["message"].partition(":")[0] for one in report["remarks"]] == ["not judged here"]


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
@pytest.mark.parametrize("needs_gpu", ["eval.py", "examples/accepted/by_sum.py"])
def test_no_example_is_blamed_if_the_program_needs_a_gpu_on_the_board_cpu(tmp_path, capsys, needs_gpu):
    imported(tmp_path, SETS / "own" / "rowsum_py", "--gpu", "CPU")
    for path in (tmp_path / "rowsum_py" / "examples").rglob("*.py"):
        if path.name != "by_sum.py":
            path.unlink()
    file = tmp_path / "rowsum_py" / needs_gpu
    file.write_text("import torch\n\ntorch.zeros(1, device='cuda')\n" + file.read_text())
    capsys.readouterr()
    is_program = needs_gpu == "eval.py"
    assert run(["task", "check", str(tmp_path / "rowsum_py"), "--sandbox", "none", "--json"]) == (
        3 if is_program else 1
    )
    report = json.loads(capsys.readouterr().out)
    why = [one["message"] for one in report["remarks"] if one["is_unjudged"]]
    if is_program:
        assert len(why) == 1 and re.match(
            r"not judged here: the task's program needs a GPU: (Torch not|Found no)", why[0]
        )
        assert report["examples"] == []
    else:
        assert (why, [one["got"] for one in report["examples"]]) == ([], ["CE"])


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_the_check_of_a_mended_set_says_once_for_each_task_that_this_machine_has_no_gpu(tmp_path, capsys):
    tasks = imported(tmp_path, SETS / "first.yaml", "--mend", "--sandbox", "none")
    capsys.readouterr()
    assert run(["task", "check", *(str(task.folder) for task in tasks.values()), "--sandbox", "none"]) == 3
    said = capsys.readouterr().out.splitlines()
    unjudged = [line.split()[1] for line in said if ": not judged here: no GPU found" in line]
    assert unjudged == [f"{name}:" for name in tasks]
    assert not any(line.startswith("fault") for line in said)


def test_the_anchor_is_the_reference_itself_if_nothing_is_right_on_this_machine(tmp_path, capsys):
    reference = REFERENCE.replace("return data / 2", "raise RuntimeError('only on a GPU')")
    source = kernelbot_task(tmp_path / "set" / "half", solutions__correct__a_in_triton=f"import triton\n\n{RIGHT}")
    (source / "reference.py").write_text(reference)
    task = imported(tmp_path / "tasks", source, "--mend", "--sandbox", "none")["half"]
    assert task.anchor == task.folder / "examples" / "accepted" / "reference.py"
    assert "its anchor is the reference itself, although it was not right here" in capsys.readouterr().out


def test_the_reference_stays_the_anchor_if_only_an_example_with_needs_is_right(tmp_path, capsys):
    as_example = "'custom_kernel' in globals() and len(data) == 16"  # only in a test, so that it can be the anchor
    reference = REFERENCE.replace("return data / 2", f"return data / (3 if {as_example} else 2)")
    right = f"#!PULLRANK needs numpy\n{RIGHT}"
    source = kernelbot_task(tmp_path / "set" / "half", solutions__correct__a_with_needs=right)
    (source / "reference.py").write_text(reference)
    task = imported(tmp_path / "tasks", source, "--mend", "--sandbox", "none")["half"]
    assert task.anchor == task.folder / "examples" / "accepted" / "reference.py"
    assert [one.path.name for one in task.examples if one.path.parent.name == "accepted"] == [
        "a_with_needs.py", "reference.py",
    ]  # fmt: skip
    assert "reference.py: not its folder's verdict here: WA: not the half" in capsys.readouterr().out


def test_a_task_whose_name_is_taken_is_refused_before_its_code_runs(tmp_path, capsys):
    source = kernelbot_task(tmp_path / "set" / "half")
    imported(tmp_path / "tasks", source)
    (source / "reference.py").write_text(f"open({str(tmp_path / 'was_run')!r}, 'w')\n{REFERENCE}")
    again = ["task", "import", str(source), "--out", str(tmp_path / "tasks"), "--mend", "--sandbox", "none"]
    assert run(again) == 2
    assert "half exists already" in capsys.readouterr().err
    assert not (tmp_path / "was_run").exists()


# By reading its text.


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("import torch, numpy as np\nfrom task import x\nimport os.path\n", None),
        ("import triton.language as tl\nimport triton\n", ("triton",)),
        ("def f():\n    from cupy import ndarray\n    import cutlass\n", ("cupy", "cutlass")),
        ("try:\n    import triton\nexcept ImportError:\n    triton = None\n", None),
        ("from torch.utils.cpp_extension import load_inline\nload_inline('a', cpp_sources='')\n", ("g++", "ninja")),
        ("import torch\ntorch.x.load_inline('a', cuda_sources='__global__')\n", ("nvcc", "ninja")),
        ("load_inline('a', '#include <hip/hip_runtime.h>\\n__global__')\n", ("hipcc", "ninja")),
        ("#!PULLRANK needs numba\nimport numba, triton\n", ("numba",)),
        ("import triton.(\n", None),
    ],
)
def test_the_imports_of_an_example_become_its_needs(source, needs):
    assert declared_needs(with_needs(source.encode(), ["task.py"])) == needs


def test_needs_follow_the_other_directives_of_examples_and_of_nothing_else():
    example = b"#!POPCORN leaderboard a\n# By hand.\nimport triton\n"
    files = with_all_needs({"examples/accepted/a.py": example, "template.py": example})
    assert files["examples/accepted/a.py"] == example.replace(b"# By", b"#!PULLRANK needs triton\n# By")
    assert files["template.py"] == example


def test_cuda_files_that_a_program_names_are_copied_along(tmp_path):
    folder = tmp_path / "set" / "own"
    folder.mkdir(parents=True)
    (folder / "exact.cu").write_text('#include "exact.cuh"\n#include "../up.cuh"\n#include <cuda.h>\n')
    (folder / "exact.cuh").write_text("// exact\n")
    (folder / "submission.cu").write_text("// not a file of the task\n")
    (folder / "linked.cu").symlink_to("/etc/hostname")
    names = '"exact.cu", "linked.cu", "missing.cu", "submission.cu", "/etc/passwd", "../../up.cpp"'
    listed = b"files:\n- {name: submission.py, source: '@SUBMISSION@'}\n- {name: eval.py, source: eval.py}\n"
    files = {"task.yml": listed, "eval.py": f"for name in ({names}): open(name)\n".encode()}
    found = FoundTask(name="own", folder=folder, root=tmp_path / "set")
    added = with_files_it_reads(found, files)
    assert added.keys() - files.keys() == {"exact.cu", "exact.cuh"}
    assert b"- {name: exact.cu, source: exact.cu}\n- {name: exact.cuh, source: exact.cuh}" in added["task.yml"]
    assert with_files_it_reads(found, added) == added


def test_a_diff_shows_no_control_characters():
    lines = list(diff_of("a", {"x.py": b"one\n"}, {"x.py": b"one\n\x1b[2Jtwo\n"}))
    assert lines == ["--- a/x.py", "+++ a/x.py", "@@ -1 +1,2 @@", " one", "+\\x1b[2Jtwo"]


# Options and hints.


def test_a_prefix_and_a_deadline_apply_to_every_task_of_a_set(tmp_path):
    tasks = imported(tmp_path, SETS / "first.yaml", "--prefix", "one-", "--deadline", "2100-03-01 12:00")
    assert sorted(tasks) == [f"one-{name}" for name in ("cached", "replay", "rowmax", "scale_cu", "scale_v2", "twogpu")]
    assert {f"{task.deadline:%Y-%m-%d %H:%M}" for task in tasks.values()} == {"2100-03-01 12:00"}
    example = tasks["one-scale_v2"].examples[0].path
    assert example.read_text().startswith("#!POPCORN leaderboard one-scale_v2\n")


def test_an_import_refuses_a_deadline_in_the_past(tmp_path, capsys):
    arguments = ["task", "import", str(SETS / "first.yaml"), "--out", str(tmp_path), "--deadline", "2020-01-01"]
    assert run(arguments) == 2
    assert "--deadline 2020-01-01 00:00 UTC is in the past" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_task_without_gpus_is_told_those_of_its_set(tmp_path, capsys):
    problems = shutil.copytree(SETS, tmp_path / "problems")
    text = (problems / "first.yaml").read_text().replace("[H100, A100]", "[MI300X, B200]").replace("H100", "B200")
    (problems / "first.yaml").write_text(text)
    assert run(["task", "import", str(problems / "first" / "scale_py"), "--out", str(tmp_path / "tasks")]) == 2
    assert "name one: --gpu MI300X --gpu B200. To try" in capsys.readouterr().err
    (problems / "first.yaml").write_text(text.replace("    gpus: [MI300X, B200]\n", ""))
    assert run(["task", "import", str(problems / "first.yaml"), "--out", str(tmp_path / "tasks")]) == 2
    assert "name one: --gpu B200. To try" in capsys.readouterr().err


@pytest.mark.skipif(bool(find_gpus()), reason="this machine has a GPU")
def test_a_mended_task_names_its_set(tmp_path):
    (folder := tmp_path / "problems").mkdir()
    shutil.copytree(SETS / "first" / "replay_py", folder / "replay_py")
    shutil.copytree(SETS / "first" / "scale_py", folder / "scale_py")
    shutil.copy(SETS / "utils.py", tmp_path / "utils.py")
    (tmp_path / "set.yaml").write_text(
        "name: Loops\ndescription: Short ones.\nproblems: [{directory: problems/replay_py, name: a, gpus: [L4]}]\n"
    )
    text = (folder / "replay_py" / "task.yml").read_text() + "description: Replay it.\n"
    (folder / "replay_py" / "task.yml").write_text(text)
    task = imported(tmp_path / "tasks", tmp_path / "set.yaml", "--mend", "--sandbox", "none")["a"]
    assert task.set == TaskSet(title="Loops", about="Short ones.")
