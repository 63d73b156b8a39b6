"""Check a task's folder: that its files exist, that its keys are consistent, and which examples it has.

    tasks/gemm/
      task.yml                      read by `task_file`, key by key
      task.py  reference.py  …      `files`: read here, whole
      template.py                   `templates`
      examples/<verdict>/*.py       the folder's name is the verdict that each must get

No code is run.  Faults are collected; keys that are already invalid cause no further faults.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.records.errors import did_you_mean
from harness.records.verdict import Verdict
from harness.task.faults import Faults, Loc
from harness.task.formula import evaluate
from harness.task.python_file import require_python
from harness.task.task_file import Evaluator, Language, ScriptConfig, TaskFile
from harness.task.task_values import find_file
from harness.task.yaml_file import windows_line_ends

VERDICTS = {verdict.folder: verdict for verdict in Verdict if verdict is not Verdict.JUDGING_ERROR}
"""Verdicts by the names of their example folders."""
MAX_GPUS = 64
"""GPUs per machine."""

_REFERENCE = ("reference.py", "generate_input and check_implementation")
_ADAPTER = ("adapter.py", "bind(library), which makes custom_kernel from the compiled library")


@dataclass(frozen=True, kw_only=True)
class Example:
    """A submission that belongs to the task, and the verdict it must get."""

    path: Path
    verdict: Verdict

    @property
    def place(self) -> str:
        """`accepted/fast.py`"""
        return f"{self.verdict.folder}/{self.path.name}"


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An accepted example, such as a library's function, that the boards show with its time but do not rank.

    `digest` is its SHA-256: any submission of these bytes is the baseline.
    """

    name: str
    path: Path
    digest: str


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_GPUS


class TaskFolder:
    """A task's folder, read according to its task.yml."""

    def __init__(self, folder: Path, file: TaskFile, ill: set[str], faults: Faults) -> None:
        self.folder = folder
        self.file = file
        self.ill = ill
        self.faults = faults
        self.evaluator = file.evaluator or (Evaluator.SCRIPT if file.lang is Language.CU else Evaluator.REFEREE)
        self.submission_name = f"submission.{file.lang}"

    @property
    def is_script(self) -> bool:
        return self.evaluator is Evaluator.SCRIPT

    @property
    def is_refereed(self) -> bool:
        """Whether the referee judges it; False if the keys that decide this are invalid."""
        return not self.is_script and not self.ill & {"evaluator", "lang"}

    @property
    def is_compiled(self) -> bool:
        """Whether the submission is compiled and then judged by the referee."""
        return self.is_refereed and self.file.lang is Language.CU

    @property
    def config(self) -> ScriptConfig | None:
        """What is run or compiled; None if `config` is not used."""
        if self.is_script:
            return self.file.config
        if not self.is_compiled:
            return None
        config = self.file.config or ScriptConfig()
        return config.model_copy(update={"sources": config.sources or (self.submission_name,)})

    def check_keys(self) -> None:
        """Check that the keys are consistent with each other."""
        self._check_evaluator()
        self._check_boards()
        self._check_work()

    def read(self, path: Path) -> bytes:
        """Read a file that is part of the edition: UTF-8 text with LF line ends, so it is equal on every machine."""
        try:
            content = path.read_bytes()
            content.decode()
        except (OSError, UnicodeDecodeError) as error:
            self.faults.add_elsewhere(path, f"cannot be read as UTF-8 text: {error}")
            return b""
        if b"\r\n" in content:
            self.faults.add_elsewhere(path, windows_line_ends(path))
        return content

    @cached_property
    def sources(self) -> dict[str, Path]:
        """Name and path of every file needed for judging, except the submission."""
        return dict(self._listed_files() if self.file.files else self._default_files())

    def read_files(self) -> dict[str, bytes]:
        """Name and content of each of `sources`."""
        if self.ill & {"files", "lang"}:
            return {}
        files = {name: self._read_source(name, path) for name, path in self.sources.items()}
        if self.file.files:
            self._require_files(files)
        self._check_config(files)
        return files

    def _read_source(self, name: str, path: Path) -> bytes:
        content = self.read(path)
        if name.endswith(".py"):
            require_python(path, content, self.faults)
        return content

    def _require_files(self, files: dict[str, bytes]) -> None:
        required = [*([_REFERENCE] if self.is_refereed else []), *([_ADAPTER] if self.is_compiled else [])]
        missing = [f"{name} is missing; it defines {role}" for name, role in required if name not in files]
        if missing:
            self.faults.add(("files",), ". ".join(missing))

    def find_templates(self) -> dict[str, Path]:
        name = f"template.{self.file.lang}"
        if self.file.templates or not (self.folder / name).exists():
            return self.file.templates
        path = self._find(name)
        return {"CUDA" if self.file.lang is Language.CU else "Python": path} if path else {}

    def find_examples(self) -> tuple[Example, ...]:
        """All examples, in the order of `Verdict`: accepted ones first."""
        for folder in sorted(self.folder.glob("examples/[!._]*/")):
            if folder.name not in VERDICTS:
                near = did_you_mean(folder.name, VERDICTS) or f"; use one of {', '.join(VERDICTS)}"
                self.faults.add_elsewhere(folder, f"not the name of a verdict{near}")
        examples = tuple(
            Example(path=path, verdict=verdict)
            for name, verdict in VERDICTS.items()
            for example in sorted(self.folder.glob(f"examples/{name}/*.*"))
            if self._is_in_its_language(example) or self._is_library(example)
            if (path := self._find(example.relative_to(self.folder).as_posix()))
        )
        for verdict in (Verdict.ACCEPTED, Verdict.WRONG_ANSWER):
            own = (example.verdict for example in examples if self._is_in_its_language(example.path))
            if self.is_refereed and verdict not in own:
                place = self.folder / "examples" / verdict.folder
                self.faults.add_elsewhere(place, f"needs a file *.{self.file.lang} that must get {verdict}")
        return examples

    def _is_in_its_language(self, example: Path) -> bool:
        return example.suffix == f".{self.file.lang}"

    def _is_library(self, example: Path) -> bool:
        """Whether it is a baseline in Python, which calls a library, of a task whose submissions are compiled."""
        return self.is_compiled and example.suffix == ".py" and example in self.file.baselines.values()

    def find_anchor(self, examples: tuple[Example, ...]) -> Path | None:
        """The accepted example named in `anchor`, or the first one in the task's language.

        Tasks with their own evaluator need no anchor.
        """
        accepted = [example.path for example in examples if example.verdict is Verdict.ACCEPTED]
        anchor = self.file.anchor
        if anchor and anchor not in accepted:
            self.faults.add(("anchor",), "must be one of the accepted examples, in examples/accepted/")
        return anchor or (None if self.is_script else next(filter(self._is_in_its_language, accepted), None))

    def find_baselines(self, examples: tuple[Example, ...], anchor: Path | None) -> tuple[Baseline, ...]:
        """The accepted examples that the boards show without a rank, in the order of task.yml."""
        accepted = {example.path for example in examples if example.verdict is Verdict.ACCEPTED}
        found: dict[str, Baseline] = {}
        for name, path in self.file.baselines.items():
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if path in accepted else ""
            if name.casefold() == "anchor":
                self.faults.add(("baselines", name), "is what the boards call the anchor; choose another name")
            elif not digest:
                self.faults.add(("baselines", name), "must be one of the accepted examples, in examples/accepted/")
            elif path == anchor:
                self.faults.add(("baselines", name), "is the anchor, whose time the boards show anyway; name another")
            elif digest in found:
                self.faults.add(("baselines", name), f"is the same file as '{found[digest].name}'; keep one of them")
            else:
                found[digest] = Baseline(name=name, path=path, digest=digest)
        return tuple(found.values())

    def _check_evaluator(self) -> None:
        if self.file.multi_gpu and self.is_refereed:
            self.faults.add(("multi_gpu",), "requires evaluator: script")
        for loc, params in self._cases() if self.file.multi_gpu and self.is_script else ():
            if "world_size" not in params:
                self.faults.add(loc, "world_size is missing; multi_gpu requires it in every case")
            elif not _is_count(params["world_size"]):
                self.faults.add((*loc, "world_size"), f"must be the number of GPUs, from 1 to {MAX_GPUS}")

    def _check_boards(self) -> None:
        for gpu in self.file.per_gpu:
            if gpu not in self.file.gpus and "gpus" not in self.ill:
                known = ", ".join(self.file.gpus)
                near = did_you_mean(gpu, self.file.gpus)
                self.faults.add(("per_gpu", gpu), f"not a board of this task (gpus: {known}){near}")

    def _check_work(self) -> None:
        formulas = {"bytes": self.file.work.bytes, "flops": self.file.work.flops} if self.file.work else {}
        for (key, formula), (_, params) in ((item, case) for item in formulas.items() for case in self._cases()):
            try:
                evaluate(formula or "0", params)
            except ValueError as error:
                self.faults.add(("work", key), str(error))

    def _check_config(self, files: dict[str, bytes]) -> None:
        if not (self.is_script or self.is_compiled) or self.ill & {"config", "evaluator"}:
            return
        config = self.config or ScriptConfig()
        main = () if config.main is None else (config.main,)
        if self.is_compiled and main:
            self.faults.add(("config", "main"), "not used with evaluator: referee; remove it")
        if self.is_compiled and self.submission_name not in config.sources:
            self.faults.add(("config", "sources"), f"must contain {self.submission_name}")
        key, programs = ("sources", config.sources) if self.file.lang is Language.CU else ("main", main)
        if not programs:
            self.faults.add(("config", key), "required key is missing: evaluator: script needs a program to run")
        # `sources` may name the submission, which exists only during judging.
        known = {*files, self.submission_name} if self.file.lang is Language.CU else files
        for name in programs:
            if name not in known:
                self.faults.add(("config", key), f"'{name}' is not one of the files{did_you_mean(name, files)}")

    def _cases(self) -> Iterator[tuple[Loc, dict[str, Any]]]:
        """Every case of every board, with its place in the file."""
        sections = [((), self.file), *((("per_gpu", gpu), board) for gpu, board in self.file.per_gpu.items())]
        for loc, section in sections:
            for key in ("tests", "benchmarks"):
                if key not in self.ill:
                    for index, params in enumerate(getattr(section, key) or ()):
                        yield (*loc, key, index), params

    def _listed_files(self) -> Iterator[tuple[str, Path]]:
        names: set[str] = set()
        for index, entry in enumerate(self.file.files):
            if entry.name in names:
                self.faults.add(("files", index, "name"), f"'{entry.name}' appears twice")
            elif entry.source:
                yield entry.name, entry.source
            elif entry.name != self.submission_name:
                self.faults.add(("files", index, "name"), f"the submission must be called {self.submission_name}")
            names.add(entry.name)
        if all(entry.source for entry in self.file.files):
            self.faults.add(("files",), f"must contain {{name: {self.submission_name}, source: '@SUBMISSION@'}}")

    def _default_files(self) -> Iterator[tuple[str, Path]]:
        if self.file.lang is Language.CU and not self.is_compiled:
            self.faults.add(("files",), "required key is missing: lang: cu with evaluator: script has no default files")
            return
        required = ("task.py", "reference.py", *(["adapter.py"] if self.is_compiled else []))
        optional = ("utils.py", *(["task.h", "utils.h"] if self.is_compiled else []))
        for name in (*required, *(name for name in optional if (self.folder / name).exists())):
            if path := self._find(name):
                yield name, path

    def _find(self, source: str) -> Path | None:
        try:
            return find_file(self.folder, source)
        except ValueError as error:
            self.faults.add_elsewhere(self.folder, str(error))
            return None
