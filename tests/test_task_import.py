"""Importing tasks of KernelBot's layout: the resulting tasks, their judges, and refusals that write nothing.

kernelbot/first.yaml    a rewritten set: six problems that share files in the folder above
"""

import ast
import codecs
import json
import resource
import shutil
import stat
import time
import zipfile
from pathlib import Path

import pytest

from harness.task.faults import Faults
from harness.task.task import Evaluator, Language, Ranking, Task, load_task
from harness.task.yaml_file import read_yaml
from scripts.cli import run
from scripts.kernelbot.convert import dump_task_yml, for_this_task
from scripts.kernelbot.device_alias import cuda_lines, without_cuda
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.find_tasks import find_tasks, task_name
from scripts.kernelbot.kind import why_script
from scripts.kernelbot.needs import with_needs
from scripts.kernelbot.objects import class_returned

SETS = Path(__file__).parent / "kernelbot"
SCALE = SETS / "first" / "scale_py"
pytestmark = pytest.mark.usefixtures("shared_sandbox")
OLD = """\
import torch


def generate_input():
    return torch.randn(64)


def ref_kernel(data):
    return data.sort().values


def check_implementation(user_output, reference_output):
    return torch.equal(user_output, reference_output)
"""


def imported(out: Path, *arguments: str | Path) -> dict[str, Task]:
    assert run(["task", "import", *map(str, arguments), "--out", str(out)]) == 0
    return {path.parent.name: load_task(path.parent) for path in sorted(out.glob("*/task.yml"))}


def refused(capsys: pytest.CaptureFixture[str], out: Path, *arguments: str | Path) -> str:
    """The error of an import that must not write anything."""
    assert run(["task", "import", *map(str, arguments), "--out", str(out)]) == 2
    assert not list(out.glob("*/*")), "half-written files are left"
    return capsys.readouterr().err


def own_set(folder: Path) -> Path:
    """A copy of the sets, for damage."""
    shutil.copytree(SETS, folder / "problems")
    return folder / "problems"


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return path


# Results.


def test_a_set_becomes_tasks_with_its_boards_deadlines_and_shared_files(tmp_path, capsys):
    tasks = imported(tmp_path, SETS / "first.yaml")
    assert sorted(tasks) == ["cached", "replay", "rowmax", "scale_cu", "scale_v2", "twogpu"]
    scale = tasks["scale_v2"]
    assert scale.gpus == ("H100", "A100")
    assert f"{scale.deadline:%Y-%m-%d %H:%M %Z}" == "2027-05-01 06:30 UTC"
    assert f"{tasks['cached'].deadline:%Y-%m-%d}" == "2027-06-30"
    assert scale.files["utils.py"] == (SETS / "utils.py").read_bytes()
    assert list(scale.templates) == ["Python", "Triton"]
    assert [case.params["factor"] for case in scale.tests] == [3, -2]
    said = capsys.readouterr().out
    assert "copied from outside its folder: ../../utils.py" in said
    assert "6 imported" in said


def test_a_deadline_without_a_zone_is_in_utc_on_any_machine(monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "EST5")
        time.tzset()
        with find_tasks(SETS / "first.yaml") as found:
            deadlines = {one.name: one.deadline for one in found if isinstance(one, FoundTask)}
    time.tzset()
    assert deadlines["cached"] == "2027-06-30T00:00:00Z"


def test_import_distinguishes_referee_tasks_from_script_tasks(tmp_path, capsys):
    tasks = imported(tmp_path, SETS / "first.yaml")
    assert {name for name, task in tasks.items() if task.evaluator is Evaluator.REFEREE} == {"scale_v2", "rowmax"}
    said = capsys.readouterr().out
    for why in ("generate_input returns a Cache", "several GPUs", "times something other", "lang: cu"):
        assert why in said
    assert "eval.py" in tasks["cached"].files
    assert "eval.py" not in tasks["scale_v2"].files, "the referee judges it; its evaluator is unused"
    assert tasks["scale_cu"].lang is Language.CU
    assert tasks["scale_cu"].config and tasks["scale_cu"].config.sources == ("eval.cu", "submission.cu")


def test_cases_with_a_world_size_make_a_multi_gpu_task(tmp_path):
    folder = SETS / "own" / "allsum_py"
    spoken = own_set(tmp_path) / "own" / "allsum_py"
    text = (folder / "task.yml").read_text()
    (spoken / "task.yml").write_text(text.replace("multi_gpu: true\n", ""))
    task = imported(tmp_path / "tasks", spoken, "--gpu", "H100")["allsum_py"]
    assert (task.multi_gpu, task.board("H100").world_size) == (True, 3)


def test_the_last_benchmark_ranks_by_default_and_task_yml_says_so(tmp_path):
    tasks = imported(tmp_path, SETS / "first.yaml")
    assert tasks["rowmax"].ranking_by is Ranking.LAST
    assert "ranking_by: last\n" in (tmp_path / "rowmax" / "task.yml").read_text()
    assert tasks["scale_v2"].ranking_by is Ranking.GEOM


def test_tuples_and_lists_stay_what_they_are(tmp_path):
    tests = imported(tmp_path, SETS / "first.yaml")["rowmax"].tests
    assert [case.params["shape"] for case in tests] == [(4, 8), (33, 65)]


def test_solutions_become_examples_and_the_reference_fills_the_gaps(tmp_path):
    tasks = imported(tmp_path, SETS / "first.yaml")
    names = {name: [str(one.path.relative_to(task.folder)) for one in task.examples] for name, task in tasks.items()}
    assert names["scale_v2"] == ["examples/accepted/into_new_memory.py", "examples/wrong_answer/forgets_the_last.py"]
    assert names["rowmax"] == ["examples/accepted/reference.py", "examples/wrong_answer/zeros.py"]


def test_imported_directives_name_the_new_task_and_no_gpu(tmp_path):
    scale = imported(tmp_path, SETS / "first.yaml")["scale_v2"]
    for path in (*scale.templates.values(), *(one.path for one in scale.examples)):
        first, second, *_ = path.read_text().splitlines()
        assert first == "#!POPCORN leaderboard scale_v2"
        assert "gpus" not in second


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("#!POPCORN leaderboard\nimport torch\n", "#!POPCORN leaderboard scale\nimport torch\n"),
        ("#!POPCORN gpus\nimport torch\n", "import torch\n"),
        ("  #!PULLRANK leaderboard old\n\t#!PULLRANK gpu T4\nx\n", "  #!PULLRANK leaderboard scale\nx\n"),
        ("//!POPCORN leaderboard old one\r\n//!POPCORN gpus T4", "//!POPCORN leaderboard scale\r\n"),
        ("#!POPCORN leaderboards x\n#!POPCORN gpus-x\n", "#!POPCORN leaderboards x\n#!POPCORN gpus-x\n"),
    ],
)
def test_only_directives_are_rewritten_and_no_code_after_them(before, after):
    assert for_this_task(before.encode(), "scale") == after.encode()


def test_the_first_line_of_task_yml_names_the_schema(tmp_path):
    imported(tmp_path, SCALE, "--gpu", "H100")
    first = (tmp_path / "scale_py" / "task.yml").read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=../task.schema.json"
    assert json.loads((tmp_path / "task.schema.json").read_text())["title"] == "PullRank task"


def test_a_single_folder_takes_its_boards_from_the_command(tmp_path):
    (task,) = imported(tmp_path, SCALE, "--gpu", "H100", "--gpu", "B200", "--name", "twice").values()
    assert (task.name, task.gpus) == ("twice", ("H100", "B200"))


def test_a_zip_may_hold_its_task_at_the_top_or_in_a_folder(tmp_path):
    files = {"reference.py": OLD, "task.py": "", "task.yml": "tests: [{}]\nbenchmarks: [{}]\n"}
    flat = zipped(tmp_path / "Row Sort.zip", *files.items(), ("__MACOSX/task.yml", "x"))
    deep = zipped(tmp_path / "b.zip", *((f"sets/deep/{name}", text) for name, text in files.items()))
    assert list(imported(tmp_path / "a", flat)) == ["row-sort"]
    assert list(imported(tmp_path / "b", deep)) == ["deep"]


def test_an_old_reference_in_one_file_becomes_a_folder(tmp_path):
    old = tmp_path / "reference_code.py"
    old.write_text(OLD)
    (task,) = imported(tmp_path / "tasks", old, "--name", "sorting").values()
    assert task.gpus == ("CPU",)
    assert [dict(case.params) for case in (*task.tests, *task.benchmarks)] == [{}, {}]
    assert [one.path.parent.name for one in task.examples] == ["accepted", "wrong_answer"]


def test_imported_tasks_get_the_right_verdicts(tmp_path, capsys):
    assert run(["task", "import", str(SETS / "first.yaml"), "--out", str(tmp_path), "--device-alias", "cuda=cpu"]) == 0
    capsys.readouterr()
    paths = [str(tmp_path / name) for name in ("scale_v2", "rowmax")]
    assert run(["task", "check", *paths, "--sandbox", "none", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {(one["task"], one["got"]) for one in report["examples"]} == {
        ("scale_v2", "AC"), ("scale_v2", "WA"), ("rowmax", "AC"), ("rowmax", "WA"),
    }  # fmt: skip


def test_import_leaves_any_evaluator_behind_if_the_referee_judges(tmp_path, capsys):
    problems = own_set(tmp_path)
    (problems / "eval.py").rename(problems / "eval_better.py")
    task_yml = problems / "first" / "scale_py" / "task.yml"
    text = task_yml.read_text()
    assert "../../eval.py" in text
    task_yml.write_text(text.replace("../../eval.py", "../../eval_better.py"))
    imported(tmp_path / "tasks", problems / "first" / "scale_py", "--gpu", "H100")
    assert "copied from outside its folder: ../../utils.py\n" in capsys.readouterr().out


def test_import_drops_an_unknown_validation_section_and_says_so(tmp_path, capsys):
    problems = own_set(tmp_path)
    task_yml = problems / "first" / "scale_py" / "task.yml"
    trial = (
        "validation:\n  main: trial.py\n  files: [{name: trial.py, source: ../no/trial.py}]\n  settings: {steps: 3}\n"
    )
    task_yml.write_text(task_yml.read_text() + trial)
    (task,) = imported(tmp_path / "tasks", problems / "first" / "scale_py", "--gpu", "H100").values()
    assert "note: validation: dropped" in capsys.readouterr().out
    assert "validation" not in (task.folder / "task.yml").read_text()
    assert "trial.py" not in task.files


# Another device.


def test_a_task_rewritten_for_the_cpu_says_so_and_never_ranks(tmp_path, capsys):
    out = ["--out", str(tmp_path)]
    assert run(["task", "import", str(SCALE), *out, "--device-alias", "cuda=cpu"]) == 0
    task = load_task(tmp_path / "scale_py")
    assert (task.gpus, task.device_alias, task.ranks) == (("CPU",), {"cuda": "cpu"}, False)
    assert 'device="cpu"' in task.reference and "cuda" not in task.reference
    assert run(["tasks", "--tasks", str(tmp_path)]) == 0
    assert "unranked" in capsys.readouterr().out
    example = task.examples[0].path
    assert run(["rank", str(example), "--task-dir", str(task.folder), "--sandbox", "none"]) == 2
    assert "scale_py never ranks" in capsys.readouterr().err


def test_a_text_that_looks_like_a_number_stays_text(tmp_path):
    texts = ["1e3", "1e-3", "12E4", "010", "yes", "1:30"]
    (tmp_path / "task.yml").write_bytes(dump_task_yml({"tests": [{"mode": text} for text in texts]}))
    assert read_yaml(tmp_path / "task.yml", Faults(tmp_path / "task.yml")) == {
        "tests": [{"mode": text} for text in texts]
    }


def test_only_device_names_are_rewritten():
    source = b'x = torch.ones(3, device="cuda")  # \xc2\xb5 cuda\ny = a.b.cuda().to(\'cuda:0\')\nprint("cuda kernel")\n'
    assert without_cuda(source) == (
        b'x = torch.ones(3, device="cpu")  # \xc2\xb5 cuda\ny = a.b.cpu().to("cpu")\nprint("cuda kernel")\n'
    )
    assert without_cuda(b"not python: 'cuda'\n") == b"not python: 'cuda'\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x.cuda(non_blocking=True).half()", "x.cpu().half()"),
        ("x.cuda(0)", "x.cpu()"),
        ('x.cuda("cuda:1") + y.cuda()', "x.cpu() + y.cpu()"),
        ('x.to(f"cuda:{rank}")', 'x.to("cpu")'),
        ("(x\n .cuda(rank))", "(x\n .cpu())"),
    ],
)
def test_other_spellings_of_a_device_are_rewritten_too(before, after):
    assert without_cuda(before.encode()) == after.encode()
    assert cuda_lines(before.encode()) and not cuda_lines(after.encode())


@pytest.mark.parametrize(
    "line",
    [
        "from torch import cuda", "from torch.cuda import synchronize", "import torch.cuda as gpu", "torch.cuda.synchronize()",
        'x.to("cuda:" + rank)', 'x.to("cuda:%d" % rank)', 'x.to("cuda:{}".format(rank))', "x.to(f\"{'cuda'}:{rank}\")",
        "x.cuda(\nrank)",
    ],
)  # fmt: skip
def test_code_that_cannot_be_rewritten_stays_and_is_reported(line):
    source = f"a = 1\n{line}\n".encode()
    assert without_cuda(source) == source
    assert cuda_lines(source) == [2]


@pytest.mark.parametrize(
    "line",
    [
        "torch.cuda.is_available()", "torch.cuda.manual_seed_all(7)", "n = torch.cuda.device_count()", "x.view(torch.float8_e4m3fn)",
    ],
)  # fmt: skip
def test_code_that_is_harmless_without_a_gpu_is_not_reported(line):
    assert cuda_lines(line.encode()) == []


def test_four_bit_floats_are_reported_because_only_gpus_support_them():
    assert cuda_lines(b"a = 1\nx = a.view(torch.float4_e2m1fn_x2)\n") == [2]


def test_other_torch_calls_that_need_a_gpu_are_reported(tmp_path, capsys):
    assert cuda_lines(b'a = 1\nb = "cuda"\ntorch.cuda.synchronize()\n') == [2, 3]
    problems = own_set(tmp_path)
    reference = problems / "first" / "scale_py" / "reference.py"
    reference.write_text(reference.read_text() + "\n\ntorch.cuda.synchronize()\ntorch.cuda.empty_cache()\n")
    imported(tmp_path / "tasks", problems / "first" / "scale_py", "--device-alias", "cuda=cpu")
    assert "note: reference.py:21,22 still asks torch for a GPU" in capsys.readouterr().out


def test_import_notes_the_limits_of_a_device_alias(tmp_path, capsys):
    imported(tmp_path, SETS / "first.yaml", "--device-alias", "cuda=cpu")
    told = capsys.readouterr().out.split(str(tmp_path))
    notes = {part.split(":")[0].strip("/"): part for part in told}
    assert "note: --device-alias rewrites only Python: compiled code (lang: cu) still needs" in notes["scale_cu"]
    assert "note: --device-alias keeps the several ranks" in notes["twogpu"]
    assert "--device-alias" not in notes["rowmax"]


def test_an_evaluator_left_behind_does_not_require_a_gpu(tmp_path):
    folder = own_set(tmp_path) / "first" / "scale_py"
    reference = folder / "reference.py"
    reference.write_text(reference.read_text().replace('"cuda"', '"cpu"'))
    evaluator = folder.parent.parent / "eval.py"
    evaluator.write_text(evaluator.read_text() + "\ntorch.cuda.synchronize()\n")
    (task,) = imported(tmp_path / "tasks", folder).values()
    assert task.gpus == ("CPU",)


def test_the_failure_of_a_rewritten_task_mentions_the_rewrite(tmp_path, capsys):
    folder = own_set(tmp_path) / "first" / "scale_py"
    reference = folder / "reference.py"
    body = "def ref_kernel(data):\n    raise RuntimeError('no kernel for this device')\n\n\ndef former_kernel("
    reference.write_text(reference.read_text().replace("def ref_kernel(", body))
    imported(tmp_path / "tasks", folder, "--device-alias", "cuda=cpu")
    capsys.readouterr()
    assert run(["task", "check", str(tmp_path / "tasks" / "scale_py"), "--sandbox", "none"]) == 2
    assert "no kernel for this device; the task was rewritten from cuda to cpu, where torch" in capsys.readouterr().out


# Losses otherwise.


def test_files_with_a_byte_order_mark_are_imported_without_it(tmp_path):
    folder = own_set(tmp_path) / "first" / "rowmax_py"
    for path in folder.glob("*.py"):
        path.write_bytes(codecs.BOM_UTF8 + b'device = "cuda"\n' + path.read_bytes())
    task = imported(tmp_path / "tasks", folder, "--device-alias", "cuda=cpu")["rowmax_py"]
    for source in (*task.files.values(), *(one.path.read_bytes() for one in task.examples)):
        assert b'device = "cpu"\n' in source
        ast.parse(source)


def test_a_task_without_templates_uses_the_submission_next_to_it(tmp_path, capsys):
    folder = own_set(tmp_path) / "own" / "rowsum_py"
    text = (folder / "task.yml").read_text()
    (folder / "task.yml").write_text("".join(line for line in text.splitlines(True) if "template" not in line.lower()))
    (folder / "template.py").rename(folder / "submission.py")
    (task,) = imported(tmp_path / "tasks", folder, "--gpu", "CPU").values()
    assert {name: path.name for name, path in task.templates.items()} == {"Python": "template.py"}


def test_import_notes_that_a_past_task_is_closed(tmp_path, capsys):
    problems = own_set(tmp_path)
    (problems / "first.yaml").write_text(
        "deadline: 2025-06-30\nproblems: [{directory: first/scale_py, name: scale, gpus: [H100]}]\n"
    )
    imported(tmp_path / "tasks", problems / "first.yaml")
    assert "note: closed since 2025-06-30 00:00 UTC, so it ranks nothing" in capsys.readouterr().out


def test_the_check_warns_that_a_program_without_examples_is_untested(tmp_path, capsys):
    imported(tmp_path, SETS / "first" / "replay_py", "--gpu", "H100")
    capsys.readouterr()
    assert run(["task", "check", "--static", str(tmp_path / "replay_py")]) == 0
    assert "warning  replay_py: examples: there are none, so its program is untested" in capsys.readouterr().out


# Refusals.


def test_import_reports_each_bad_task_and_imports_the_others(tmp_path, capsys):
    problems = own_set(tmp_path)
    shutil.rmtree(problems / "first" / "cached_py")
    (problems / "first" / "rowmax_py" / "reference.py").unlink()
    (problems / "first" / "twogpu_py" / "task.yml").write_text("tests: [{size: \t1}]\n\tlang: py\n")
    assert run(["task", "import", str(problems / "first.yaml"), "--out", str(tmp_path / "tasks")]) == 2
    said = capsys.readouterr()
    assert "3 imported" in said.out
    assert "first.yaml:13: no task.yml in 'first/cached_py'" in said.err
    assert "rowmax_py/task.yml:4: files[2].source: no file 'reference.py'" in said.err
    assert "twogpu_py/task.yml:2: indented with a tab" in said.err
    assert sorted(path.name for path in (tmp_path / "tasks").glob("*/")) == ["replay", "scale_cu", "scale_v2"]


def test_templates_and_the_tasks_files_get_names_of_their_own(tmp_path):
    folder = own_set(tmp_path) / "first" / "scale_py"
    (folder / "helper.py").write_text("HELPER = 1\n")
    (folder / "second.py").write_text((folder / "template.py").read_text() + "# second\n")
    text = (folder / "task.yml").read_text().replace("files:\n", "files:\n  - {name: template.py, source: helper.py}\n")
    text = text.replace('Triton: "../scale_py/template.py"', 'C++: "template.py"\n  C--: "second.py"')
    (folder / "task.yml").write_text(text)
    (task,) = imported(tmp_path / "tasks", folder, "--gpu", "H100").values()
    assert task.files["template.py"] == b"HELPER = 1\n"
    names = {language: path.name for language, path in task.templates.items()}
    assert names == {"Python": "template_python.py", "C++": "template_c.py", "C--": "template_c_2.py"}
    assert task.templates["C--"].read_text().endswith("# second\n")


def test_functions_that_call_each_other_twice_are_read_once():
    calls = "".join(f"def f{n}():\n    return (f{n + 1}(), f{n + 1}())\n" for n in range(60))
    module = ast.parse(f"{calls}def f60():\n    return Cache()\nclass Cache:\n    pass\n")
    assert class_returned("f0", module, [module]) == "Cache"


def test_functions_that_all_call_each_other_are_read_in_time():
    calls = ", ".join(f"f{n}()" for n in range(14))
    module = ast.parse("".join(f"def f{n}():\n    return [{calls}]\n" for n in range(14)))
    assert class_returned("f0", module, [module]) == ""
    module = ast.parse(ast.unparse(module).replace("f13()]", "f13(), Cache()]") + "\nclass Cache:\n    pass\n")
    assert class_returned("f0", module, [module]) == "Cache"


def test_a_long_chain_of_functions_that_return_an_object_is_read_in_time():
    """Each names all others, so that each would be read again whenever another one turns out to return an object."""
    others = ", ".join(f"f{n}" for n in range(200))
    chain = "".join(f"def f{n}():\n    x = ({others})\n    return f{n - 1}()\n" for n in range(1, 200))
    module = ast.parse(f"class Cache:\n    pass\ndef f0():\n    return Cache()\n{chain}")
    began = time.process_time()
    class_returned("f199", module, [module])
    assert time.process_time() - began < 10


def test_functions_that_call_each_other_in_a_circle_hide_no_object():
    module = ast.parse(
        "def f(n):\n    return g(n) if n else Cache()\ndef g(n):\n    return f(n)\n"
        "def h(n):\n    unused = f(1)\n    return g(1)\nclass Cache:\n    pass\n"
    )
    assert class_returned("h", module, [module]) == "Cache"


def test_a_sum_of_two_thousand_terms_needs_what_it_imports():
    source = f"import triton\nx = {' + '.join(['1'] * 2000)}\ndef custom_kernel(data):\n    return data\n"
    assert b"#!PULLRANK needs triton" in with_needs(source.encode(), ())


SPOILED = {
    "a source outside": ({"task.yml": ("../../utils.py", "../../../outside.py")}, "is outside problems/, the only folder"),
    "a source that is no source": ({"task.yml": ("../../utils.py", "../../first.yaml")}, "is not a source file"),
    "an absolute source": ({"task.yml": ("../../utils.py", "/etc/passwd")}, "relative to the task's folder"),
    "a missing source": ({"task.yml": ("../../utils.py", "../../utls.py")}, "did you mean 'utils.py'?"),
    "a missing template": ({"task.yml": ('"template.py"\n', '"tmplate.py"\n')}, "did you mean 'template.py'?"),
    "an unknown key": ({"task.yml": ("test_timeout", "test_timout")}, ":20: test_timout: unknown key; did you mean"),
    "a float list": ({"task.yml": ('"factor": 3', '"factor": [1.5]')}, "tests[0].factor: must be a number, a word"),
    "a language that is a pattern": ({"task.yml": ('lang: "py"', 'lang: "**"')}, "lang: must be one of py, cu, not '**'"),
    "a wrong number": ({"task.yml": ("60", "soon")}, "test_timeout: must be a number, not 'soon'"),
    "a reference that is no Python": ({"reference.py": ("def ref_kernel(", "def ref_kernel((")}, "scale_py/reference.py:13: not valid Python 3."),
    "a file from above that is no Python": ({"../../utils.py": ("import", "import import")}, "utils.py:3: not valid Python 3."),
    "a file that stands twice": (
        {"task.yml": ('"name": "task.py"', '"name": "reference.py"')},
        "task.yml:5: files[3].name: 'reference.py' is listed twice",
    ),
    "Windows line ends": ({"reference.py": ("\n", "\r\n")}, "reference.py: has Windows line endings"),
    "Windows line ends in task.yml": ({"task.yml": ("\n", "\r\n")}, "task.yml:1: has Windows line endings"),
    "a file that is a folder": (
        {"task.yml": ('"name": "utils.py"', '"name": "examples"')}, "scale_py/examples/accepted: Not a directory",
    ),
    "no functions and no program": (
        {"reference.py": ("ref_kernel", "right_kernel"), "task.yml": ('config:\n  main: "eval.py"\n', "")},
        "the referee cannot judge it (its reference.py has no ref_kernel), and it has no program that does",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), SPOILED.values(), ids=SPOILED)
def test_a_broken_task_is_refused_and_nothing_is_written(changes, message, tmp_path, capsys):
    folder = own_set(tmp_path) / "first" / "scale_py"
    (tmp_path / "outside.py").write_text("")
    for name, (old, new) in changes.items():
        text = (folder / name).read_bytes().decode()
        assert old in text
        (folder / name).write_bytes(text.replace(old, new).encode())
    assert message in refused(capsys, tmp_path / "tasks", folder, "--gpu", "H100")


def test_circular_links_and_links_out_of_the_tree_are_refused(tmp_path, capsys):
    folder = own_set(tmp_path) / "first" / "scale_py"
    (folder / "task.py").unlink()
    (folder / "task.py").symlink_to("round.py")
    (folder / "round.py").symlink_to("task.py")
    said = refused(capsys, tmp_path / "tasks", folder, "--gpu", "H100")
    assert "files[1].source: 'task.py' is a link to round.py, which leads to no file" in said
    (folder / "task.py").unlink()
    (folder / "task.py").symlink_to("/etc/hostname")
    assert "'task.py' is outside problems/, the only folder" in refused(
        capsys, tmp_path / "tasks", folder, "--gpu", "H100"
    )


def test_gpu_code_without_a_named_gpu_is_refused_with_both_options(tmp_path, capsys):
    said = refused(capsys, tmp_path, SCALE)
    assert "reference.py:7 uses cuda" in said
    assert "--gpu H100" in said and "--device-alias cuda=cpu" in said
    assert "no GPU is given" in refused(capsys, tmp_path, SETS / "first" / "scale_cu")


def test_machine_specific_compiler_settings_are_refused_with_advice(tmp_path, capsys):
    folder = own_set(tmp_path) / "first" / "scale_cu"
    text = (folder / "task.yml").read_text()
    text = text.replace("include_dirs: []", 'include_dirs: ["/Kittens/include"]')
    text = text.replace('["-std=c++17"]', '["-std=c++17", "-arch=sm_90a", "-I/usr/local/cuda/include", "-lcuda"]')
    (folder / "task.yml").write_text(text)
    said = refused(capsys, tmp_path / "tasks", folder, "--gpu", "H100").splitlines()
    where = [line for line in said if "task.yml:" in line]
    assert [line.split(": ")[1] for line in where] == [
        "config.include_dirs[0]", "config.compile_flags[1]", "config.compile_flags[2]",
    ]  # fmt: skip
    assert "not '/Kittens/include'; .github/pullrank.yml has its path under each GPU" in where[0]
    assert "'-arch=sm_90a': the board sets the architecture, by `arch` of its GPU" in where[1]
    assert (
        "'-I/usr/local/cuda/include': the board sets the paths of libraries; list the libraries in include_dirs"
        in where[2]
    )


def test_import_leaves_an_existing_task_alone(tmp_path, capsys):
    imported(tmp_path, SCALE, "--gpu", "H100")
    (tmp_path / "scale_py" / "mine.txt").write_text("kept")
    assert run(["task", "import", str(SCALE), "--gpu", "H100", "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "scale_py" / "mine.txt").read_text() == "kept"
    assert not list(tmp_path.glob(".new-*"))


SETS_AT_FAULT = {
    "an unknown key": ("name: Set\nproblms: []\n", "problms: unknown key; did you mean 'problems'?"),
    "no problems": ("name: Set\nproblems: []\n", "problems: must not be empty"),
    "a bad deadline": ("deadline: soon\nproblems: [{directory: a, name: a}]\n", ":1: deadline: must be a day, such as"),
    "a deadline before all times": (
        "deadline: '0001-01-01 00:00+14:00'\nproblems: [{directory: a, name: a}]\n", ":1: deadline: must be a day, such as",
    ),
    "a folder with a null byte": ('problems: [{directory: "a\\0", name: a}]\n', "problems[0].directory"),
    "a folder outside": ("problems: [{directory: ../up, name: a}]\n", ":1: '../up' leads out of"),
    "a missing folder": ("problems: [{directory: scal_py, name: a}]\n", "no task.yml in 'scal_py'; did you mean 'scale_py'?"),
    "a folder that was renamed": ("problems: [{directory: one/scale_py, name: a}]\n", "; did you mean 'scale_py'?"),
    "itself": ("problems: [{directory: ., name: a}]\n", "no task.yml in '.'"),
    "no name for a task": ("problems: [{directory: scale_py, name: '?'}]\n", "is not a task name"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), SETS_AT_FAULT.values(), ids=SETS_AT_FAULT)
def test_a_faulty_set_is_refused(text, message, tmp_path, capsys):
    problems = own_set(tmp_path)
    (problems / "first" / "set.yaml").write_text(text)
    assert message in refused(capsys, tmp_path / "tasks", problems / "first" / "set.yaml", "--gpu", "H100")


def test_all_faults_of_a_set_are_reported_at_once(tmp_path, capsys):
    problems = own_set(tmp_path)
    (problems / "first" / "scale_py" / "reference.py").write_text("def (:\n")
    (problems / "set.yaml").write_text(
        "deadline: soon\nproblems:\n- {directory: first/scale_py, name: a}\n- {directory: first/scal_cu, name: b}\n"
        "- {directory: first/scale_cu, nmae: c}\n- {directory: first/cached_py, name: A}\n"
    )
    said = refused(capsys, tmp_path / "tasks", problems / "set.yaml", "--gpu", "H100")
    for fault in (
        "set.yaml:1: deadline: must be a day", "set.yaml:5: problems[2].nmae: unknown key; did you mean 'name'?",
        "set.yaml:4: no task.yml in 'first/scal_cu'; did you mean 'first/scale_cu'?",
        "scale_py/reference.py:1: not valid Python 3.", "set.yaml:6: its name appears twice in the set",
    ):  # fmt: skip
        assert said.count(fault) == 1, (fault, said)


def test_a_name_that_is_taken_hides_no_other_fault(tmp_path, capsys):
    out, folder = tmp_path / "tasks", own_set(tmp_path) / "first" / "scale_py"
    imported(out, folder, "--gpu", "H100")
    again = ["task", "import", str(folder), "--gpu", "H100", "--out", str(out)]
    (folder / "solutions" / "wrong" / "forgets_the_last.py").write_bytes(b"\xff")
    (folder / "solutions" / "correct" / "into_new_memory.py").write_bytes(b"\xff")
    assert run(again) == 2
    said = capsys.readouterr().err
    assert "scale_py exists already" in said and "into_new_memory.py: cannot be read as UTF-8" in said
    (folder / "reference.py").write_text("def (:\n")
    assert run(again) == 2
    said = capsys.readouterr().err
    assert "scale_py exists already" in said and "reference.py:1: not valid Python 3." in said
    assert sorted(path.name for path in out.iterdir()) == ["scale_py", "task.schema.json"]


def test_an_invalid_task_name_is_refused(tmp_path, capsys):
    said = refused(capsys, tmp_path / "tasks", SCALE, "--gpu", "H100", "--name", r"..\2")
    assert r"'..\2' is not a task name" in said


def test_a_duplicate_name_in_a_set_is_refused(tmp_path, capsys):
    problems = own_set(tmp_path)
    two = "problems: [{directory: first/scale_cu, name: A}, {directory: first/scale_cu, name: a}]\n"
    (problems / "set.yaml").write_text(two)
    assert run(["task", "import", str(problems / "set.yaml"), "--gpu", "H100", "--out", str(tmp_path / "tasks")]) == 2
    assert "its name appears twice in the set" in capsys.readouterr().err


def _link(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


ZIPS = {
    "a way out": ([("../task.yml", "")], "'../task.yml' leads out of the zip"),
    "an absolute path": ([("/task.yml", "")], "leads out of the zip"),
    "a drive": ([("C:\\task.yml", "")], "leads out of the zip"),
    "a link": ([(_link("task.yml"), "/etc/passwd")], "'task.yml' is a link"),
    "two tasks": ([("a/task.yml", ""), ("b/task.yml", "")], "2 tasks: 'a/task.yml', 'b/task.yml'; pack one"),
    "no task": ([("README.md", "")], "no task.yml"),
    "the same twice": ([("task.yml", ""), ("Task.yml", "")], "'Task.yml' appears twice"),
    "the same in other words": ([("task.yml", ""), ("./task.yml", "")], "'./task.yml' appears twice"),
    "no name": ([(".", ""), ("task.yml", "")], "'.' is not a valid name for a task's file"),
    "a long name": ([("ü" * 190, ""), ("task.yml", "")], "is not a valid name for a task's file"),
    "a file that is a folder": ([("x", ""), ("x/y", ""), ("task.yml", "")], "'x' is a file and a folder at once"),
    "a folder called task.yml": ([("t/task.yml", "tests: 1\n"), ("b/task.yml/x.py", "")], "/task.yml:1: tests:"),
    "too many files": ([(f"{n}.py", "") for n in range(1001)], "1001 files; at most 1000"),
    "a bomb": ([("task.yml", "tests: []\n"), ("zeros.py", "0" * (33 << 20))], "more than 32 MiB unpacked"),
}


def test_a_bomb_is_unpacked_no_further_than_to_its_limit(tmp_path, capsys):
    path = zipped(tmp_path / "task.zip", ("task.yml", "tests: []\n"), ("zeros.py", "0" * (64 << 20)))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40 << 20, limits[1]))  # Python gets an OSError, not the signal
    try:
        said = refused(capsys, tmp_path / "tasks", path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "more than 32 MiB unpacked" in said


@pytest.mark.parametrize(("members", "message"), ZIPS.values(), ids=ZIPS)
def test_a_hostile_zip_is_refused(members, message, tmp_path, capsys):
    said = refused(capsys, tmp_path / "tasks", zipped(tmp_path / "task.zip", *members))
    assert message in said
    assert str(tmp_path / "task.zip") in said
    assert "pullrank-import-" not in said, "the folder where it was unpacked"
    assert not (tmp_path / "task.yml").exists()


def test_all_faults_of_a_zip_are_reported_at_once(tmp_path, capsys):
    names = ("../a", "/etc/b", "C:\\c", "a\x07d", "first/task.yml", "second/task.yml", "e.py", "E.py")
    said = refused(
        capsys, tmp_path / "tasks", zipped(tmp_path / "t.zip", *((name, "") for name in names), (_link("f"), "a"))
    )
    faults = [line.partition("t.zip: ")[2] for line in said.splitlines()]
    assert faults == [
        "'../a' leads out of the zip",
        "'/etc/b' leads out of the zip",
        "'C:\\\\c' leads out of the zip",
        "'a\\x07d' is not a valid name for a task's file",
        "'E.py' appears twice",
        "'f' is a link; put the file itself into the zip",
        "2 tasks: 'first/task.yml', 'second/task.yml'; pack one, or unpack them and import each",
    ]


def test_windows_line_ends_in_a_zip_are_reported_without_a_sed_command(tmp_path, capsys):
    path = zipped(tmp_path / "mine.zip", ("t/task.yml", "lang: py\r\ntests: [{}]\r\n"), ("t/task.py", "a = 1\r\n"))
    said = refused(capsys, tmp_path / "tasks", path)
    assert f"{path}/t/task.yml:1: has Windows line endings (CRLF); save it with LF\n" in said
    assert "task.py: has Windows line endings" in said
    assert "sed" not in said


def test_all_faults_of_an_old_file_are_reported_at_once(tmp_path, capsys):
    (tmp_path / "old.py").write_text("def generate_input(size, *, seed):\n    return size\n")
    missing, arguments, name = refused(capsys, tmp_path / "tasks", tmp_path / "old.py").splitlines()
    assert "no ref_kernel, check_implementation; a task in a single file" in missing
    assert "generate_input needs size, but a single file lists no cases" in arguments
    assert "add --name NAME" in name


def test_a_torn_empty_or_altered_zip_is_refused(tmp_path, capsys):
    good = zipped(tmp_path / "good.zip", ("task.yml", "tests: []\n" * 100)).read_bytes()
    for name, content in {
        "torn": good[:60],
        "empty": b"",
        "changed": good.replace(b"task.yml", b"tesk.yml", 1),
    }.items():
        (tmp_path / f"{name}.zip").write_bytes(content)
        assert "not a readable zip" in refused(capsys, tmp_path / "tasks", tmp_path / f"{name}.zip")


def test_a_source_outside_of_a_zip_is_refused_under_the_zips_own_name(tmp_path, capsys):
    text = "files: [{name: a.py, source: ../a.py}]\ntests: [{}]\nbenchmarks: [{}]\n"
    said = refused(capsys, tmp_path / "tasks", zipped(tmp_path / "mine.zip", ("task.yml", text)))
    assert "'../a.py' is outside mine.zip/, the only folder" in said and "pullrank-import-" not in said


def test_faults_in_a_zip_are_reported_under_the_zips_own_name(tmp_path, capsys):
    path = zipped(tmp_path / "mine.zip", ("task.yml", "lang: px\n"))
    said = refused(capsys, tmp_path / "tasks", path)
    assert f"{path}/task.yml:1: lang: must be one of py, cu" in said
    assert "benchmarks: required key is missing" in said


OLD_AT_FAULT = {
    "no name": (OLD, [], "add --name NAME"),
    "no check": (OLD.replace("check_implementation", "check"), ["--name", "a"], "no check_implementation; a task in a single"),
    "arguments": (OLD.replace("generate_input()", "generate_input(size)"), ["--name", "a"], "needs size"),
    "no Python": ("a = 1\ndef (", ["--name", "a"], "reference_code.py:2: not valid Python 3."),
}  # fmt: skip


@pytest.mark.parametrize(("source", "more", "message"), OLD_AT_FAULT.values(), ids=OLD_AT_FAULT)
def test_an_incomplete_old_file_is_refused(source, more, message, tmp_path, capsys):
    (tmp_path / "reference_code.py").write_text(source)
    assert message in refused(capsys, tmp_path / "tasks", tmp_path / "reference_code.py", *more)


@pytest.mark.parametrize("ending", [".yaml", ".yml"])
def test_the_error_for_a_sets_folder_names_the_sets_file(ending, tmp_path, capsys):
    problems = own_set(tmp_path)
    file = (problems / "first.yaml").rename(problems / f"first{ending}")
    assert f"is it a set? Name its file: {file}" in refused(capsys, tmp_path / "tasks", problems / "first")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("scale_pi", "did you mean 'scale_py'?"),
        ("scale_cu/task.h", "a task is a folder, a zip"),
        (".", "no task.yml in it"),
        ("..", "is it a set? Name its file"),
    ],
)
def test_a_path_of_no_known_form_is_refused(path, message, tmp_path, capsys):
    assert message in refused(capsys, tmp_path / "tasks", SETS / "first" / path)


# Without running the task.

REFERENCE = b"def generate_input(): pass\ndef ref_kernel(data): pass\ncheck_implementation = match(ref_kernel)\n"
MODULE = b"class Net(Module): pass\n"


@pytest.mark.parametrize(
    ("reference", "more", "starters", "why"),
    [
        (REFERENCE, {}, [], ""),
        (REFERENCE.replace(b"ref_kernel", b"other"), {}, [], "no ref_kernel"),
        (REFERENCE.replace(b"tion = ", b"tion: T = "), {}, [], ""),
        (b"from base import *\n", {}, [], "no generate_input, ref_kernel, check_implementation"),
        (b"from base import generate_input, ref_kernel, check_implementation\n", {}, [], ""),
        (REFERENCE, {}, [b"def custom_kernel(data): pass\n"], ""),
        (REFERENCE, {}, [b"def cross_entropy(x, y): pass\n"], "no custom_kernel"),
        (REFERENCE, {}, [b"def inner(...) -> ...: ...\n\ndef custom_kernel(data): pass\n"], ""),
        (REFERENCE, {"evaluator": "script"}, [], "evaluator: script"),
        (REFERENCE, {"tests": [{"world_size": 4}]}, [], "several GPUs"),
        (MODULE + REFERENCE.replace(b"(): pass", b"():\n    net = Net(3).eval()\n    return net, 1", 1), {}, [], "a Net"),
        (MODULE + REFERENCE.replace(b"(): pass", b"(): return {'net': Net(3)}", 1), {}, [], "a Net"),
        (MODULE + REFERENCE.replace(b"(): pass", b"():\n    net = Net(3)\n    return net.weight", 1), {}, [], ""),
        (b"class Spec(TypedDict): pass\n" + REFERENCE.replace(b"(): pass", b"(): return Spec(a=1)", 1), {}, [], ""),
        (b"class Fixed:\n    pass\n" + REFERENCE.replace(b"(): pass", b"():\n    with Fixed():\n        return 1", 1), {}, [], ""),
    ],
)  # fmt: skip
def test_the_source_text_decides_whether_the_referee_can_judge(reference, more, starters, why):
    said = why_script({"lang": "py", **more}, {"reference.py": reference}, starters)
    assert why in said
    assert bool(said) == bool(why)


@pytest.mark.parametrize(
    ("evaluator", "is_refereed"),
    [
        (
            "def clone_data(data):\n    '''As they are: a tensor's marks are lost in a copy.'''\n    return data\n",
            False,
        ),
        ("def _deepcopy(x, device): return x\n", False),
        ("def clone_data(data): return [one.clone() for one in data]\n", True),
        ("def clone_data(data):\n    data = data.clone()\n    return data\n", True),
        ("def clone_data(data): return other\n", True),
        ("def same(data): return data\n", True),
    ],
)
def test_a_task_whose_evaluator_does_not_copy_inputs_keeps_that_evaluator(evaluator, is_refereed):
    files = {"reference.py": REFERENCE, "judge.py": evaluator.encode()}
    said = why_script({"lang": "py", "config": {"main": "judge.py"}}, files, [])
    assert ("does not copy inputs" in said) is not is_refereed


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("kv: KV = KV(); return kv", "KV"),
        ("kv, c = KV(), 1; return kv, c", "KV"),
        ("kv, c = KV(), 1; return c", ""),
        ("return [KV(i) for i in range(3)]", "KV"),
        ("return tuple(KV(i) for i in range(3))", "KV"),
        ("d = (x, KV()); return d", "KV"),
        ("d = {}; d['kv'] = KV(); return d", "KV"),
        ("d = []; d.append(KV()); e = d; return e, 1", "KV"),
        ("return make()", "KV"),
        ("kv, c = make(); return {'kv': kv}", "KV"),
        ("return again()", ""),
        ("return task.KV().to('cuda')", "KV"),
        ("return x, nn.Linear(3, 3)", "nn.Linear"),
        ("net = torch.nn.Linear(3, 3).half(); return net", "torch.nn.Linear"),
        ("return Conv2d(3, 3)", "Conv2d"),
        ("net = nn.Linear(3, 3); return net(x), net.weight, nn.Linear(3, 3)(x)", ""),
        ("return nn.Parameter(x), nn.functional.relu(x)", ""),
        ("return " + "x + " * 500 + "x", ""),
    ],
)
@pytest.mark.parametrize("function", ["generate_input", "ref_kernel"])
def test_the_source_text_reveals_custom_objects_in_inputs_and_outputs(function, body, made):
    helpers = b"from torch.nn import Conv2d\ndef make(): return KV(), 1\ndef again(): return again()\n"
    reference = helpers + REFERENCE.replace(f"def {function}".encode(), b"def left_out")
    reference += f"def {function}(x=None):\n    {body}\n".encode()
    said = why_script({"lang": "py"}, {"reference.py": reference, "task.py": b"class KV: pass\n"}, [])
    assert said == (f"{function} returns a {made}, which cannot be sent to another process" if made else "")


def test_reading_a_source_warns_of_none_of_its_oddities(recwarn):
    # From Python 3.12 on, users would see this warning.
    source = REFERENCE + b"PATTERN = '\\d'\n"
    assert why_script({"lang": "py"}, {"reference.py": source}, []) == ""
    assert not recwarn.list


def test_imported_names_become_valid_task_names():
    assert [task_name(text) for text in ("Grayscale v2", "a.b", "--x--", "ok_1")] == [
        "grayscale-v2",
        "a-b",
        "x",
        "ok_1",
    ]
