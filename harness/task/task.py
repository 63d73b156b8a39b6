"""A task, its boards, cases and limits.

    load_task("tasks/gemm")  ->  Task ── board("H100") ──  Board ── tests, benchmarks: Case
      task.yml   task_file        files, templates,          limits
      folder     task_folder      examples, anchor           edition: SHA-256 of everything that affects results

One `TaskError` reports all faults of a task at once, one per line.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.records.errors import TaskError, did_you_mean
from harness.records.fields import CaseKind, Param
from harness.records.stats import DUEL_LOOKS
from harness.task.faults import Faults, display
from harness.task.formula import evaluate
from harness.task.task_file import (
    BoardFile,
    DeviceAlias,
    Evaluator,
    Language,
    Limits,
    Ranking,
    ScriptConfig,
    TaskFile,
    TaskSet,
    Work,
    read_task_file,
    task_schema,
)
from harness.task.task_folder import Baseline, Example, TaskFolder
from harness.task.task_values import find_file
from harness.task.toolchain import Toolchain

__all__ = [
    "METHOD",
    "Baseline",
    "Board",
    "Case",
    "Evaluator",
    "Example",
    "Language",
    "Limits",
    "Ranking",
    "Rules",
    "ScriptConfig",
    "Task",
    "Work",
    "evaluate",
    "load_task",
    "load_tasks",
    "task_schema",
    "why_no_name",
]

METHOD = 6
"""Increment this when the timing method changes.  It is part of every edition, so all boards begin a new one."""

_FOLDERS_OF_SITE = {"assets", "authors", "guides", "hacks", "machines"}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One set of arguments of `generate_input`."""

    kind: CaseKind
    params: Mapping[str, Param]

    @property
    def name(self) -> str:
        """`size: 127, seed: 4242`"""
        return ", ".join(f"{key}: {value}" for key, value in self.params.items()) or "no arguments"

    @property
    def public_seed(self) -> int | None:
        """The case's seed in task.yml, if any."""
        seed = self.params.get("seed")
        return seed if type(seed) is int and seed >= 0 else None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Cases and limits of a board."""

    tests: tuple[Case, ...]
    benchmarks: tuple[Case, ...]
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class Task:
    """A valid task, read from its folder."""

    name: str
    folder: Path
    shown: str = ""
    """How messages name the folder, if it is a copy: `tasks/gemm`.  Default: its path."""
    title: str = ""
    description: str = ""
    set: TaskSet | None = None
    lang: Language = Language.PY
    gpus: tuple[str, ...] = ("CPU",)
    deadline: datetime | None = None
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    sources: Mapping[str, Path] = field(default_factory=dict, repr=False)
    """Where each of `files` is; several tasks may share one."""
    evaluator: Evaluator = Evaluator.REFEREE
    config: ScriptConfig | None = None
    templates: Mapping[str, Path] = field(default_factory=dict)
    anchor: Path | None = None
    anchor_source: bytes = field(default=b"", repr=False)
    tests: tuple[Case, ...] = ()
    benchmarks: tuple[Case, ...] = ()
    per_gpu: Mapping[str, Rules] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    ranking_by: Ranking = Ranking.GEOM
    work: Work | None = None
    multi_gpu: bool = False
    device_alias: DeviceAlias = field(default_factory=dict)
    examples: tuple[Example, ...] = ()
    baselines: tuple[Baseline, ...] = ()

    @property
    def submission_name(self) -> str:
        return f"submission.{self.lang}"

    def name_of(self, digest: str | None) -> str:
        """The name that a file with this SHA-256 has as a submission.

        That is `submission_name`, but `submission.py` for a baseline in Python of a task with `lang: cu`.
        """
        path = next((one.path for one in self.baselines if one.digest == digest), None)
        return f"submission{path.suffix}" if path else self.submission_name

    @property
    def is_compiled(self) -> bool:
        """Whether the submission is compiled and then judged by the referee."""
        return self.lang is Language.CU and self.evaluator is Evaluator.REFEREE

    @property
    def reference(self) -> str:
        """Source of reference.py; "" if the task's own evaluator needs none."""
        return self.files.get("reference.py", b"").decode()

    @property
    def shared_files(self) -> dict[str, bytes]:
        """The files that players may see: all except the reference."""
        return {name: content for name, content in self.files.items() if name != "reference.py"}

    def baseline_name(self, digest: str) -> str:
        """The name of the baseline whose bytes have this SHA-256; empty for any other file."""
        return next((one.name for one in self.baselines if one.digest == digest), "")

    @property
    def boards(self) -> tuple[Board, ...]:
        return tuple(self.board(gpu) for gpu in self.gpus)

    def on(self, gpus: Collection[str]) -> Task:
        """The same task, restricted to the boards of these GPUs."""
        return replace(self, gpus=tuple(gpu for gpu in self.gpus if gpu in gpus))

    def board(self, gpu: str) -> Board:
        """The board of one GPU.  Raises TaskError: the task has no such board."""
        if gpu not in self.gpus:
            near = did_you_mean(gpu, self.gpus) or "."
            known = ", ".join(self.gpus) or "none (its GPUs have no machine)"
            raise TaskError(f"{self.name} has no board '{gpu}'{near} Its boards: {known}")
        rules = self.per_gpu.get(gpu) or Rules(tests=self.tests, benchmarks=self.benchmarks, limits=self.limits)
        return Board(task=self, gpu=gpu, ranking_by=self.ranking_by, **vars(rules))

    @property
    def is_refereed(self) -> bool:
        """Whether PullRank's referee judges it and bounds its times, rather than the task's own program."""
        return self.evaluator is Evaluator.REFEREE

    @property
    def ranks(self) -> bool:
        """Whether submissions can be ranked.  Not if `device_alias` rewrote the code, which is for trying it out."""
        return not self.device_alias

    def is_open(self, now: datetime) -> bool:
        """Whether a submission made at `now` can be ranked."""
        return self.ranks and (self.deadline is None or now < self.deadline)


@dataclass(frozen=True, kw_only=True)
class Board:
    """A leaderboard: one task on one GPU."""

    task: Task
    gpu: str
    tests: tuple[Case, ...]
    benchmarks: tuple[Case, ...]
    limits: Limits
    ranking_by: Ranking
    toolchain: Toolchain = field(default_factory=Toolchain)
    """Toolchain of its machines, from .github/pullrank.yml; not part of the edition."""
    method: int = field(default_factory=lambda: METHOD)
    """Timing method; set to another value only to look at past editions."""

    @property
    def world_size(self) -> int:
        """How many GPUs its machine must have."""
        cases = (*self.tests, *self.benchmarks) if self.task.multi_gpu else ()
        return max((int(str(case.params["world_size"])) for case in cases), default=1)

    @property
    def counting(self) -> tuple[Case, ...]:
        """The benchmarks that decide the score."""
        return self.benchmarks[-1:] if self.ranking_by is Ranking.LAST else self.benchmarks

    @property
    def duel_imports_s(self) -> float:
        """Seconds that all imports of one side of the shortest duel may take together: the usual limit for each."""
        return 2 * DUEL_LOOKS[0] * len(self.counting) * self.limits.import_s()

    def benchmarks_to_profile(self, number: int | None) -> tuple[Case, ...]:
        """The benchmarks that a profile runs: all, or the one with this number, from 1; empty if there is none."""
        return self.benchmarks if number is None else self.benchmarks[number - 1 : number]

    @property
    def edition_facts(self) -> dict[str, Any]:
        """Everything that affects results, by name; files are represented by their digests."""
        task = self.task
        return {
            "method": self.method,
            "evaluator": task.evaluator,
            "lang": task.lang,
            "config": task.config and task.config.model_dump(mode="json"),
            "multi_gpu": task.multi_gpu,
            "files": {name: _digest(content) for name, content in task.files.items()},
            "anchor": _digest(task.anchor_source),
            "tests": [dict(case.params) for case in self.tests],
            "benchmarks": [dict(case.params) for case in self.benchmarks],
            # Unset limits have no effect, and adding a new kind of limit must not change existing editions.
            "limits": {name: limit for name, limit in asdict(self.limits).items() if limit is not None},
            "ranking_by": self.ranking_by,
        }

    @cached_property
    def edition(self) -> str:
        """SHA-256 of everything that affects results, as 64 hex digits.  When it changes, the board is empty again."""
        return _digest(json.dumps(self.edition_facts, sort_keys=True).encode())


def load_task(folder: Path) -> Task:
    """Read a task's folder, whose name is the task's.  Runs none of its code.

    Raises:
        TaskError: the faults, one per line: `tasks/gemm/task.yml:12: ranking_by: must be …`.
    """
    # Resolve links in the path of the tree, but keep the task's name as given.
    folder = Path(os.path.abspath(folder))
    folder = folder.parent.resolve() / folder.name
    faults = Faults(folder / "task.yml")
    _require_place(folder)
    file, ill = read_task_file(folder, faults)
    task = _assemble(folder, file, ill, faults) if file else None
    if faults or not task:
        raise TaskError(str(faults))
    return task


def load_tasks(folder: Path) -> tuple[Task, ...]:
    """Load all tasks of a tree (its folders with a task.yml), sorted by name.

    Raises:
        TaskError: the faults of all tasks.
    """
    if not Path(folder).is_dir():
        raise TaskError(f"{display(Path(folder))}: no such folder")
    tasks, faults = [], []
    for path in sorted(Path(folder).glob("*/task.yml")):
        try:
            tasks.append(load_task(path.parent))
        except TaskError as error:
            faults.append(str(error))
    if faults:
        raise TaskError("\n".join(faults))
    return tuple(tasks)


def why_no_name(name: str) -> str:
    """Why no task can have this name; "" if one can."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name):
        rule = "use at most 64 lower-case letters, digits, _ and -, and begin with a letter or a digit"
        return f"'{name}' is not a task name: {rule}"
    if name in _FOLDERS_OF_SITE:
        return f"'{name}' is not a task name: the site has a folder of this name; choose another"
    return ""


def _require_place(folder: Path) -> None:
    if not folder.is_dir():
        near = did_you_mean(folder.name, (path.parent.name for path in folder.parent.glob("*/task.yml")))
        raise TaskError(f"{display(folder)}: no such folder{near}")
    try:
        find_file(folder, "task.yml")
    except ValueError as error:
        raise TaskError(f"{display(folder)}: {error}") from None


def _assemble(folder: Path, file: TaskFile, ill: set[str], faults: Faults) -> Task:
    """Build the task from file and folder; faults are added to `faults`."""
    if fault := why_no_name(folder.name):
        faults.add_elsewhere(folder, fault)
    around = TaskFolder(folder, file, ill, faults)
    around.check_keys()
    examples = around.find_examples()
    anchor = around.find_anchor(examples)
    return Task(
        name=folder.name,
        folder=folder,
        title=file.title or re.sub(r"[-_]+", " ", folder.name).strip().capitalize(),
        description=file.description,
        set=file.set,
        lang=file.lang,
        gpus=file.gpus,
        deadline=file.deadline,
        files=around.read_files(),
        sources={} if ill else around.sources,
        evaluator=around.evaluator,
        config=around.config,
        templates=around.find_templates(),
        anchor=anchor,
        anchor_source=around.read(anchor) if anchor else b"",
        **vars(_rules(file, BoardFile())),
        per_gpu={gpu: _rules(file, board) for gpu, board in file.per_gpu.items()},
        ranking_by=file.ranking_by,
        work=file.work,
        multi_gpu=file.multi_gpu,
        device_alias=file.device_alias,
        examples=examples,
        baselines=around.find_baselines(examples, anchor),
    )


def _rules(file: TaskFile, board: BoardFile) -> Rules:
    """The task's rules, overridden by those of one of its boards."""
    return Rules(
        tests=_cases(CaseKind.TEST, board.tests or file.tests),
        benchmarks=_cases(CaseKind.BENCHMARK, board.benchmarks or file.benchmarks),
        limits=Limits(**(file.limits | board.limits)),
    )


def _cases(kind: CaseKind, params: tuple[dict[str, Param], ...]) -> tuple[Case, ...]:
    return tuple(Case(kind=kind, params=one) for one in params)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
