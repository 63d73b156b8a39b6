"""The code follows the tables of ARCHITECTURE.md: which room may import which, and where torch may be."""

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ZONES = ("harness", "scripts", "benchmarks")
MOST_FILES = 15
"""The most files in a folder."""
LOADS_THE_JUDGE = ("scripts/commands", "scripts/tasks", "scripts/doctor")


@dataclass(frozen=True)
class Room:
    path: str
    """A folder without its subfolders, or one file."""
    may_import_torch: bool = False
    is_shared: bool = False


@functools.cache
def rooms(zone: str) -> tuple[Room, ...]:
    """The rows of the zone's table, lowest room first."""
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `({zone}/[\w/.]+)` \|(.*)\|$", page, re.MULTILINE)
    return tuple(Room(path, "| torch" in rest, rest.rstrip().endswith("shared")) for path, rest in rows)


@dataclass(frozen=True)
class Import:
    file: str
    """The file with the import, such as `scripts/cli.py`."""
    target: str
    """Its imports: `harness/task/task.py` for ours, else a package's name."""
    line: int
    is_lazy: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line} imports {self.target}"


def files(zone: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in (ROOT / zone).rglob("*.py"))


@functools.cache
def imports(zone: str) -> tuple[Import, ...]:
    """All imports, even those for type checkers only."""
    found = (one for file in files(zone) for one in imports_of(file, ast.parse((ROOT / file).read_text("utf-8"))))
    return tuple(dict.fromkeys(found))


def imports_of(file: str, tree: ast.AST, *, is_lazy: bool = False) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(file, target_of(alias.name), node.lineno, is_lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: imports must be absolute"
            assert node.module
            for alias in node.names:
                yield Import(file, target_of(node.module, alias.name), node.lineno, is_lazy)
        else:
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports_of(file, node, is_lazy=is_lazy or is_function or is_for_types(node))


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def target_of(module: str, name: str = "") -> str:
    top = module.split(".")[0]
    if top not in ZONES:
        return top
    path = module.replace(".", "/")
    for file in (f"{path}/{name}.py", f"{path}.py", f"{path}/__init__.py"):
        if (ROOT / file).is_file():
            return file
    raise AssertionError(f"there is no module {module}")


def room_of(file: str) -> Room:
    found = [
        room for zone in ("harness", "scripts") for room in rooms(zone) if room.path in (file, str(Path(file).parent))
    ]
    assert found, f"{file} is in no room of ARCHITECTURE.md"
    return found[0]


def is_package(file: str) -> bool:
    """Files `__init__.py` hold docstrings, and the version."""
    return file.endswith("__init__.py")


def wrong(found: list[Import]) -> str:
    return "\n".join(map(str, found))


@pytest.mark.parametrize("zone", ["harness", "scripts"])
def test_every_file_has_a_room_and_every_room_exists(zone):
    for file in files(zone):
        assert is_package(file) or room_of(file)
    for room in rooms(zone):
        assert (ROOT / room.path).exists(), f"ARCHITECTURE.md names {room.path}"
    assert len(rooms(zone)) >= 10


@pytest.mark.parametrize("zone", ["harness", "scripts"])
def test_rooms_import_only_rooms_above_them_in_the_table(zone):
    height = {room: number for number, room in enumerate(rooms(zone))}
    upward = [
        found
        for found in imports(zone)
        if not is_package(found.file) and found.target.startswith(f"{zone}/") and not is_package(found.target)
        if height[room_of(found.target)] > height[room_of(found.file)]
    ]
    assert not upward, wrong(upward)


@pytest.mark.parametrize("zone", ZONES)
def test_no_folder_is_crowded(zone):
    folders = {Path(file).parent for file in files(zone)}
    counts = {
        folder: sum(not is_package(file) and Path(file).parent == folder for file in files(zone)) for folder in folders
    }
    assert max(counts.values()) <= MOST_FILES, {
        str(folder): count for folder, count in counts.items() if count > MOST_FILES
    }


def test_imports_contain_no_cycle():
    needs: dict[str, set[str]] = {file: set() for zone in ZONES for file in files(zone)}
    for zone in ZONES:
        for found in imports(zone):
            if found.target in needs and not is_package(found.target):
                needs[found.file].add(found.target)
    while free := {file for file, needed in needs.items() if not needed}:
        needs = {file: needed - free for file, needed in needs.items() if file not in free}
    assert not needs, f"in circles, or above one: {sorted(needs)}"


def test_no_two_classes_or_types_share_a_name():
    places: dict[str, list[str]] = {}
    for file in (file for zone in ZONES for file in files(zone)):
        for name in _types(ast.parse((ROOT / file).read_text("utf-8"))):
            places.setdefault(name.lstrip("_"), []).append(file)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def _types(module: ast.Module) -> Iterator[str]:
    """The names of its classes and of its aliases of types, such as `Login = Annotated[…]`."""
    for node in module.body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]) if re.fullmatch("_?[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*", name):
                yield name


def test_scripts_import_only_shared_rooms_except_where_they_call_the_judge():
    upward = [
        found
        for found in imports("scripts")
        if found.target.startswith("harness/") and not is_package(found.target)
        if not room_of(found.target).is_shared
        if not (found.is_lazy and found.file.startswith(LOADS_THE_JUDGE))
    ]
    assert not upward, wrong(upward)


def test_shared_rooms_import_only_each_other():
    outside = [
        found
        for found in imports("harness")
        if not is_package(found.file) and room_of(found.file).is_shared
        if found.target.startswith("harness/") and not is_package(found.target)
        if not room_of(found.target).is_shared
    ]
    assert not outside, wrong(outside)


def test_the_player_side_imports_no_other_code_of_ours():
    outside = [
        found
        for found in imports("harness")
        if found.file.startswith("harness/inside/") and found.target.startswith(ZONES)
        if not found.target.startswith("harness/inside/")
    ]
    assert not outside, wrong(outside)


def test_torch_is_imported_only_in_rooms_marked_for_it():
    torch = [
        found
        for zone in ("harness", "scripts")
        for found in imports(zone)
        if found.target in ("torch", "numpy", "triton")
        if not room_of(found.file).may_import_torch
    ]
    assert not torch, wrong(torch)


def test_the_harness_imports_neither_network_libraries_nor_scripts():
    forbidden = {"github", "jinja2", "discord_webhook", "requests", "click", "rich", "urllib", "http"}
    found = [one for one in imports("harness") if one.target in forbidden or one.target.startswith("scripts/")]
    assert not found, wrong(found)


def test_only_the_wire_imports_pygithub():
    found = [one for one in imports("scripts") if one.target == "github" and one.file != "scripts/github/wire.py"]
    assert not found, wrong(found)


def test_only_one_module_besides_the_wire_has_an_http_client():
    clients = re.compile(r"^ *(?:import|from) (?:urllib\.request|http\.client|requests|urllib3)\b", re.MULTILINE)
    found = {file for file in files("scripts") if clients.search((ROOT / file).read_text("utf-8"))}
    assert found == {"scripts/common/http_request.py", "scripts/github/wire.py"}


def test_importing_every_script_loads_neither_torch_nor_github():
    names = [
        file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for file in files("scripts")
        if file not in ("scripts/github/gh.py", "scripts/github/wire.py")
    ]
    code = f"import sys, {', '.join(names)}; print(sorted({{'torch', 'github'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"


def test_every_package_is_installed():
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        named = tomllib.load(file)["tool"]["setuptools"]["packages"]
    folders = {str(Path(file).parent).replace("/", ".") for zone in ("harness", "scripts") for file in files(zone)}
    assert set(named) == folders


def test_the_site_folder_contains_no_python():
    # With an `__init__.py` it could hide the standard library's `site`.
    assert not list((ROOT / "site").rglob("*.py"))
