"""Find KernelBot tasks in the forms in which users have them.

    problems/pmpp/vectoradd/         a task's folder
    problems/pmpp.yaml               a set: folders, with their boards and deadlines
    vectoradd.zip                    one task, packed
    reference_code.py                the oldest form: a task in one file, without cases

Each form becomes folders to convert (`convert`), or faults that say why not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from harness.records.errors import TaskError, did_you_mean
from harness.task.faults import Faults, display, quote
from harness.task.python_file import require_python
from harness.task.task_file import Section
from harness.task.task_values import GpuName
from harness.task.yaml_file import read_yaml
from scripts.common.text import plain, shorten
from scripts.kernelbot.files import FoundTask, read_parts
from scripts.kernelbot.kind import FUNCTIONS, names_of, required_arguments
from scripts.kernelbot.zip_file import unpack

_OLD_TASK = b"""\
from typing import Any

input_t = Any
output_t = Any
"""
_OLD_TASK_YML = b"""\
ranking_by: last
tests: [{}]
benchmarks: [{}]
"""


def _deadline(value: object) -> str:
    """A deadline, in UTC: `2025-06-30` or `2025-06-30 20:00`; "" is none."""
    if value in ("", None):
        return ""
    text = value.isoformat() if isinstance(value, date) else value
    # KernelBot accepts hours with one digit.
    text = re.sub(r" (\d):", r" 0\1:", text) if isinstance(text, str) else ""
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"must be a day, such as 2027-03-01, or '2027-03-01 20:00', not {quote(value)}") from None
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


class _Problem(Section):
    directory: Annotated[str, Field(min_length=1, pattern=r"^[^\x00]*$")]
    name: Annotated[str, Field(min_length=1)]
    deadline: Annotated[str, BeforeValidator(_deadline)] = ""
    gpus: tuple[GpuName, ...] = ()


class _Set(Section):
    name: str = ""
    description: str = ""
    deadline: Annotated[str, BeforeValidator(_deadline)] = ""
    problems: tuple[_Problem, ...] = Field(min_length=1)

    def key(self, path: Path) -> dict[str, str]:
        """The key `set` of its tasks; a set without a name has that of its file."""
        title = shorten(" ".join(plain(self.name).split()) or path.stem, 200)
        about = shorten(self.description.strip(), 10_000)
        return {"title": title} | ({"about": about} if about else {})


@contextmanager
def find_tasks(path: Path, name: str | None = None) -> Iterator[list[FoundTask]]:
    """The tasks at a path.  Unpacked files are deleted when the block ends.

    Args:
        name: the task's new name.  Default: its folder's name, or the name in its set.

    Raises:
        TaskError: the path has none of the known forms.
    """
    with TemporaryDirectory(prefix="pullrank-import-") as workshop:
        yield list(_find(path, name, Path(workshop)))


def _find(path: Path, name: str | None, workshop: Path) -> Iterator[FoundTask]:
    if path.is_dir():
        yield _folder(path, name)
    elif not path.exists():
        near = did_you_mean(path.name, (other.name for other in path.parent.glob("*")))
        raise TaskError(f"{path}: no such file or folder{near}")
    elif path.suffix in (".yml", ".yaml"):
        yield from _set(path, name)
    elif path.suffix == ".zip":
        yield _zip(path, name, workshop)
    elif path.suffix == ".py":
        yield _single_file(path, name, workshop)
    else:
        raise TaskError(f"{path}: a task is a folder, a zip, a set's .yaml, or an old reference_code.py")


def _folder(folder: Path, name: str | None) -> FoundTask:
    if not (folder / "task.yml").is_file():
        # KernelBot's sets are next to their folders: problems/pmpp.yaml and problems/pmpp/.
        beside = [folder.with_name(folder.name + ending) for ending in (".yaml", ".yml") if folder.name]
        sets = [*filter(Path.is_file, beside), *sorted(folder.glob("*.y*ml"))]
        hint = f"; is it a set? Name its file: {sets[0]}" if sets else ""
        raise TaskError(f"{display(folder)}: no task.yml in it{hint}")
    folder = folder.resolve()
    # KernelBot's tasks are in problems/<set>/<task>, and share files in the folders above.
    root = folder.parent.parent
    return FoundTask(
        name=name or task_name(folder.name), folder=folder, root=root, gpus_of_set=_gpus_of_set(folder, root)
    )


def _gpus_of_set(folder: Path, root: Path) -> tuple[str, ...]:
    """The GPUs of the first set beside or above a task's folder that lists it."""
    for path in (*sorted(root.glob("*.y*ml")), *sorted(folder.parent.glob("*.y*ml"))):
        problems = _sound_problems(read_yaml(path, Faults(path)) or {}).values()
        if any((path.parent / problem.directory).resolve() == folder for problem in problems):
            return _gpus_of(problems)
    return ()


def _gpus_of(problems: Iterable[_Problem]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(gpu for problem in problems for gpu in problem.gpus))


def task_name(text: str) -> str:
    """A valid task name: `Grayscale v2` becomes `grayscale-v2`."""
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_") or text


def _set(path: Path, name: str | None) -> Iterator[FoundTask]:
    if name:
        raise TaskError(f"{path}: --name is for a single task; a set names its own tasks")
    faults = Faults(path)
    values = read_yaml(path, faults)
    whole = faults.validate(_Set, values)
    problems = dict(enumerate(whole.problems)) if whole else _sound_problems(values or {})
    found = list(_problems(path, problems, whole or _Set.model_construct(), faults))
    if faults or not whole:
        raise TaskError("\n".join((str(faults), *_faults_of(found))))
    yield from found


def _sound_problems(values: dict[str, Any]) -> dict[int, _Problem]:
    """The valid problems of a faulty set, by their numbers."""
    entries = values.get("problems")
    problems = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else ()):
        with suppress(ValidationError):
            problems[number] = _Problem.model_validate(entry)
    return problems


def _problems(path: Path, problems: dict[int, _Problem], whole: _Set, faults: Faults) -> Iterator[FoundTask]:
    root = path.parent.resolve()
    gpus_of_set = _gpus_of(problems.values())
    names: set[str] = set()
    for number, problem in problems.items():
        name, folder = task_name(problem.name), (root / problem.directory).resolve()
        reasons = ["its name appears twice in the set"] if name in names else []
        if not folder.is_relative_to(root):
            reasons.append(f"'{problem.directory}' leads out of {root.name}/")
        elif not (folder / "task.yml").is_file():
            near = did_you_mean(problem.directory, _folders_below(root))
            reasons.append(f"no task.yml in '{problem.directory}'{near}")
        names.add(name)
        place = f"{display(path)}:{faults.lines['problems', number]}"
        fault = "\n".join(f"{place}: {reason}" for reason in reasons)
        yield FoundTask(
            name=name,
            folder=folder,
            root=root,
            gpus=problem.gpus,
            gpus_of_set=gpus_of_set,
            set=whole.key(path),
            deadline=problem.deadline or whole.deadline,
            fault=fault,
        )


def _faults_of(found: Iterable[FoundTask]) -> Iterator[str]:
    """The faults of the tasks in a set that is not imported."""
    for one in found:
        try:
            if one.fault:
                yield one.fault
            else:
                read_parts(one)
        except TaskError as error:
            yield str(error)


def _folders_below(root: Path) -> Iterator[str]:
    """The task folders, by the paths that a set file next to them uses."""
    for pattern in ("*/task.yml", "*/*/task.yml"):
        yield from (file.parent.relative_to(root).as_posix() for file in sorted(root.glob(pattern)))


def _zip(path: Path, name: str | None, workshop: Path) -> FoundTask:
    root = workshop / path.name  # messages show its name
    root.mkdir()
    unpack(path, root)
    (folder,) = (file.parent for file in root.rglob("task.yml") if file.is_file())  # skips folders named task.yml
    own = path.stem if folder == root else folder.name
    return FoundTask(name=name or task_name(own), folder=folder, root=root, shown=str(path))


def _single_file(path: Path, name: str | None, workshop: Path) -> FoundTask:
    """A reference without a task.yml: one test and one benchmark, each a call of generate_input without arguments."""
    source, beside = path.read_bytes(), path.parent / "task.py"
    types = beside.read_bytes() if beside.is_file() else _OLD_TASK
    faults = Faults(path)
    require_python(path, source, faults)
    for fault in () if faults else _faults_of_single_file(source):
        faults.add_elsewhere(path, fault)
    require_python(beside, types, faults)
    if not name:
        faults.add_elsewhere(path, "a single file has no task name; add --name NAME")
    if faults or not name:
        raise TaskError(str(faults))
    (workshop / "task.yml").write_bytes(_OLD_TASK_YML)
    (workshop / "reference.py").write_bytes(source)
    (workshop / "task.py").write_bytes(types)
    return FoundTask(name=name, folder=workshop, root=workshop, shown=str(path))


def _faults_of_single_file(source: bytes) -> Iterator[str]:
    if missing := [function for function in FUNCTIONS if function not in names_of(source)]:
        yield f"no {', '.join(missing)}; a task in a single file must define {', '.join(FUNCTIONS)}"
    if required := [word for word in required_arguments(source, "generate_input") if word != "seed"]:
        yield (
            f"generate_input needs {', '.join(required)}, but a single file lists no cases; "
            "make a folder with a task.yml that lists tests and benchmarks"
        )
