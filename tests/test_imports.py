"""Who may import whom: the trust zones of the repository, read from the source itself.

`scripts` talks to GitHub and never needs torch; `harness` judges and never talks to anyone; a submission's
process sees neither.
"""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

TORCH_FREE = {
    "bundle", "counters", "errors", "examples", "faults", "fields", "formula", "judgement", "leftovers", "profile", "protocol", "provenance", "python_file", "replay", "stats", "submission", "task", "task_file", "task_folder",
    "task_values", "timing", "toolchain", "verdict", "yaml_file",
}  # fmt: skip
"""The half of the harness that hosted runners import."""

OPEN_TO_SCRIPTS = {
    "bundle", "counters", "errors", "examples", "faults", "fields", "formula", "judgement", "leftovers", "profile", "provenance", "python_file", "replay", "stats", "submission", "task", "task_file",
    "task_values", "timing", "toolchain", "verdict", "yaml_file",
}  # fmt: skip

INSIDE_FUNCTIONS = {
    # A command that judges on this machine loads the judge when it is called, not before.
    "scripts.commands.demo": {"judge", "sandbox"},
    "scripts.commands.duel": {"judge"},
    "scripts.commands.judge_file": {"judge"},
    "scripts.commands.verify": {"judge"},
    "scripts.tasks.check": {"devices.device", "probes", "rehearsal", "sandbox"},
    # What looks at the machine and at the judge's parts.
    "scripts.commands.doctor": {
        "cgroup",
        "devices.cpu",
        "freezer",
        "gpu_facts",
        "gpu_nodes",
        "machine",
        "protocol",
        "sandbox",
        "seat",
        "vendors",
    },
    "benchmarks.gpu": {"devices.device", "gpu_facts", "judge", "machine", "sandbox"},
    "benchmarks.languages": {"compile", "needs"},
    "benchmarks.gpu_times": {"devices.device", "judge"},
    "benchmarks.timing": {"clock", "duel", "judge", "machine", "reference", "referee"},
    "benchmarks.judge": {"clock", "devices.cpu", "judge", "reference", "referee", "sandbox"},
}

MAY_IMPORT_TORCH = {
    "checker",
    "devices.cpu",
    "devices.cuda",
    "digest",
    "inside",
    "player",
    "probes",
    "profiler",
    "reference",
    "referee",
    "unwritten",
    "values",
    "wrong_answers",
}
MAY_IMPORT_TORCH_IN_FUNCTIONS = {"machine", "zygote"}

PLAYER_SIDE = {"awake", "inside", "library", "player", "profiler", "protocol", "seccomp", "walls", "watch", "zygote"}
"""What runs beside a submission: it may see nothing else of ours."""

LAYERS = (
    {"awake", "errors", "verdict", "stats", "seccomp"},
    TORCH_FREE
    | {
        "alibi",
        "compile",
        "complaints",
        "devices.device",
        "amdgpu",
        "gpu_memory",
        "gpu_nodes",
        "inside",
        "nvml",
        "progress",
        "walls",
    },
    {"library", "profiler"},
    {
        "player",
        "values",
        "gpu_facts",
        "gpu_watch",
        "machine",
        "devices.cpu",
        "devices.cuda",
        "cgroup",
        "freezer",
        "memory",
        "health",
        "wrong_answers",
        "checker",
        "digest",
        "task_modules",
        "unwritten",
    },
    {"watch", "zygote"},
    {"bubblewrap", "clock", "enclosure", "needs", "popcorn", "probes", "reference", "sandbox", "seat", "vendors"},
    {"program", "referee"},
    {"script"},
    {"arena"},
    {"duel"},
    {"game"},
    {"judge"},
    {"rehearsal"},
    {"task_check"},
    {"__main__"},
)
"""From the bottom up; a module imports from its own layer and from below."""


@dataclass(frozen=True)
class Import:
    module: str
    """Who imports, as `scripts.cli`."""
    target: str
    """What, as `harness.task.task`."""
    line: int
    is_lazy: bool

    def __str__(self) -> str:
        return f"{self.module.replace('.', '/')}.py:{self.line} imports {self.target}"


@functools.cache
def modules(zone: str) -> dict[str, ast.Module]:
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / zone).rglob("*.py")}
    return {name.removesuffix(".__init__"): ast.parse(path.read_text()) for path, name in names.items()}


def imports_of(module: str, tree: ast.AST, *, is_lazy: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, node.lineno, is_lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute here"
            assert node.module
            for alias in node.names:
                deep = f"{node.module}.{alias.name}"
                is_module = (ROOT / deep.replace(".", "/")).with_suffix(".py").is_file()
                yield Import(module, deep if is_module else node.module, node.lineno, is_lazy)
        else:
            inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports_of(module, node, is_lazy=is_lazy or inside)


@functools.cache
def imports(zone: str) -> list[Import]:
    return list(dict.fromkeys(found for module, tree in modules(zone).items() for found in imports_of(module, tree)))


def ours(found: Import, zone: str) -> str | None:
    """`task` for an import of `harness.task.task`; None for what is not of the zone, or the zone's own package."""
    return found.target.removeprefix(f"{zone}.") if found.target.startswith(f"{zone}.") else None


def top(found: Import) -> str:
    return found.target.split(".")[0]


def test_scripts_import_only_the_half_of_the_harness_that_needs_no_torch():
    wrong = [
        found
        for found in imports("scripts")
        if (name := ours(found, "harness"))
        and name not in OPEN_TO_SCRIPTS
        and not (found.is_lazy and name in INSIDE_FUNCTIONS.get(found.module, ()))
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_scripts_never_import_torch():
    # But for a program of its own, in a process that a benchmark starts.
    wrong = [
        found
        for found in imports("scripts")
        if top(found) in ("torch", "numpy", "triton") and not (found.is_lazy and found.module == "benchmarks.peers")
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_only_the_wire_imports_pygithub():
    wrong = [found for found in imports("scripts") if top(found) == "github" and found.module != "scripts.github.wire"]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_harness_talks_to_nobody():
    forbidden = {"scripts", "github", "jinja2", "discord_webhook", "requests", "click", "rich", "urllib", "http"}
    wrong = [found for found in imports("harness") if top(found) in forbidden]
    assert not wrong, "\n".join(map(str, wrong))


def test_torch_is_imported_only_where_tensors_are_handled():
    wrong = [
        found
        for found in imports("harness")
        if top(found) == "torch"
        and (name := found.module.removeprefix("harness.")) not in MAY_IMPORT_TORCH
        and not (found.is_lazy and name in MAY_IMPORT_TORCH_IN_FUNCTIONS)
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_inside_the_harness_imports_go_downwards():
    level = {name: height for height, layer in reversed(list(enumerate(LAYERS))) for name in layer}
    unplaced = {module.removeprefix("harness.") for module in modules("harness")} - level.keys()
    assert unplaced <= {"harness", "devices"}, f"give these modules a place in LAYERS: {unplaced}"
    wrong = [
        found
        for found in imports("harness")
        if (name := ours(found, "harness")) and level[name] > level[found.module.removeprefix("harness.")]
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_no_two_modules_of_the_harness_need_each_other():
    needs: dict[str, set[str]] = {module: set() for module in modules("harness")}
    for found in imports("harness"):
        if ours(found, "harness"):
            needs[found.module].add(found.target)
    while free := {module for module, needed in needs.items() if not needed}:
        needs = {module: needed - free for module, needed in needs.items() if module not in free}
    assert not needs, f"in circles: {sorted(needs)}"


def test_the_players_side_imports_nothing_of_the_referees():
    wrong = [
        found
        for found in imports("harness")
        if found.module.removeprefix("harness.") in PLAYER_SIDE
        and (name := ours(found, "harness"))
        and name not in PLAYER_SIDE
    ]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize("module", sorted(TORCH_FREE))
def test_the_torch_free_half_needs_only_itself(module):
    assert (ROOT / "harness" / f"{module}.py").is_file()
    found = [found for found in imports("harness") if found.module == f"harness.{module}"]
    wrong = [one for one in found if (name := ours(one, "harness")) and name not in TORCH_FREE]
    assert not wrong, "\n".join(map(str, wrong))


def test_importing_every_script_loads_neither_torch_nor_github():
    names = [name for name in modules("scripts") if name not in ("scripts.github.gh", "scripts.github.wire")]
    code = f"import sys, {', '.join(names)}; print(sorted({{'torch', 'github'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_there_is_no_python_in_the_sites_folder():
    # With an __init__.py it could hide the standard library's `site`.
    assert not list((ROOT / "site").rglob("*.py"))
