"""The keys of task.yml: allowed values, meaning, and error messages.

    TaskFile            every key, with the description that editors show (the JSON Schema is made from it)
      SourceFile        files:     name and source
      ScriptConfig      config:    of tasks that bring their own evaluator, or are compiled
      Case values       tests:, benchmarks:
      BoardFile         per_gpu:   a board's own cases and limits
      Work              work:      formulas for the roofline

This module checks each key on its own.  `task_folder` checks whether keys are consistent with each other and with the
folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from harness.task.faults import Faults
from harness.task.task_values import (
    SUBMISSION,
    Cases,
    DeadlineField,
    Dtype,
    FileName,
    FilePath,
    Flag,
    GpuName,
    LineField,
    SourceField,
    TextOrNumber,
    distinct,
)
from harness.task.toolchain import CompilerFlag, LibraryField, Macro, MacroValue
from harness.task.yaml_file import read_yaml


class Ranking(StrEnum):
    """How to combine the times of all benchmarks into one score."""

    GEOM = "geom"
    MEAN = "mean"
    LAST = "last"


class Evaluator(StrEnum):
    """Who judges: PullRank's referee, or the task's own program."""

    REFEREE = "referee"
    SCRIPT = "script"


class Language(StrEnum):
    PY = "py"
    CU = "cu"


DeviceAlias = dict[Literal["cuda"], Literal["cpu"]]
"""Device that the task's files were written for, to the device that they were rewritten for."""


IMPORT_S = 10.0
"""Seconds that a fresh player's import may take in a benchmark, when all caches are filled.  They do not count toward
the benchmarks' time: otherwise a slow import would use up the time that both sides of a duel share."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Time and memory limits of a board."""

    test_timeout_s: float = 180.0
    benchmark_timeout_s: float = 180.0
    ranked_timeout_s: float = 180.0
    case_timeout_s: float = 30.0
    compile_timeout_s: float = 120.0
    memory_gib: float = 16.0
    gpu_memory_gib: float | None = None
    """Per GPU; None for everything except the referee's share."""

    @property
    def first_call_s(self) -> float:
        """The limit of a call that may compile, which can take a good part of the build's time."""
        return max(self.case_timeout_s, self.compile_timeout_s / 4)

    @property
    def building_call_s(self) -> float:
        """The limit of a call in the build."""
        return max(self.case_timeout_s, self.compile_timeout_s / 2)

    def import_s(self, patience: float = 1) -> float:
        """The limit of a fresh player's import after the build, `patience` times as long as usual."""
        return min(patience * IMPORT_S, self.compile_timeout_s)


def _limit(unit: str, what: str, default: float, most: float) -> Any:
    return Field(default=None, strict=True, gt=0, le=most, description=f"{unit} {what} Default: {default:g}.")


class Section(BaseModel):
    """A section of a hand-written file; unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class LimitKeys(Section):
    """Limits set by a task or one of its boards; omitted ones keep their defaults."""

    test_timeout: float | None = _limit("Seconds", "for all tests together.", Limits.test_timeout_s, 86_400)
    benchmark_timeout: float | None = _limit(
        "Seconds", "for all benchmarks together, in mode benchmark or profile.", Limits.benchmark_timeout_s, 86_400
    )
    ranked_timeout: float | None = _limit(
        "Seconds", "for all benchmarks together, in mode ranked.", Limits.ranked_timeout_s, 86_400
    )
    case_timeout: float | None = _limit(
        "Seconds", "for one call on one case; a call that may compile may take longer.", Limits.case_timeout_s, 86_400
    )
    compile_timeout: float | None = _limit(
        "Seconds", "to import and to build a submission.", Limits.compile_timeout_s, 86_400
    )
    memory_gib: float | None = _limit(
        "GiB", "of memory for a submission, at most three quarters of the machine's.", Limits.memory_gib, 65_536
    )
    gpu_memory_gib: float | None = Field(
        default=None, strict=True, gt=0, le=65_536,
        description="GiB of GPU memory for a submission. Default: everything except what the referee needs.",
    )  # fmt: skip

    @property
    def limits(self) -> dict[str, float]:
        """The limits set here, under the field names of `Limits`."""
        fields = {key if key.endswith("_gib") else f"{key}_s": getattr(self, key) for key in LimitKeys.model_fields}
        return {name: value for name, value in fields.items() if value is not None}


class SourceFile(Section):
    name: FileName = Field(description="Name under which the file is stored and imported.")
    source: SourceField = Field(
        description=f"Path relative to the task's folder; `../` may point elsewhere in the tasks tree. "
        f"{SUBMISSION} is the participant's file."
    )


class ScriptConfig(Section):
    main: FileName | None = Field(default=None, description="lang: py: the program to run, one of `files`.")
    sources: tuple[FileName, ...] = Field(
        default=(),
        description="lang: cu: which of `files` to compile; the others are headers. "
        "Default with evaluator: referee: submission.cu.",
    )
    include_dirs: tuple[LibraryField, ...] = Field(
        default=(),
        description="lang: cu: libraries whose headers are used, by their names in include_dirs of "
        ".github/pullrank.yml.",
    )
    defines: dict[Macro, MacroValue] = Field(
        default_factory=dict, description="lang: cu: macros to define; '' defines one without a value."
    )
    compile_flags: tuple[CompilerFlag, ...] = Field(
        default=(),
        description="lang: cu: additional compiler flags; tasks/README.md lists those allowed. "
        "Flags that only nvcc knows are not passed to g++.",
    )


class Work(Section):
    """The work that a case needs: formulas over its parameters, and the number format of its operations."""

    bytes: TextOrNumber | None = Field(
        default=None, description="Bytes that must be moved; a formula in a case's parameters: '3 * size * size * 2'."
    )
    flops: TextOrNumber | None = Field(
        default=None, description="Operations that must be done; a formula in a case's parameters: 'size * size'."
    )
    dtype: Dtype = Field(default="float32", description="Number format whose GPU peak `flops` is compared with.")


class TaskSet(Section):
    """A set of tasks, which the site lists together."""

    title: LineField = Field(description="Its name, a heading among the boards.")
    about: Annotated[str, Field(max_length=10_000)] = Field(
        default="", description="Text below the heading, in Markdown; one task of the set is enough."
    )


class BoardFile(LimitKeys):
    tests: Cases | None = Field(default=None, description="Tests of this board, instead of the task's.")
    benchmarks: Cases | None = Field(default=None, description="Benchmarks of this board, instead of the task's.")


class TaskFile(LimitKeys):
    """A PullRank task: what to compute, on which cases, within which limits."""

    title: LineField | None = Field(
        default=None, description="Display name of the task. Default: from the folder's name."
    )
    description: Annotated[str, Field(max_length=100_000)] = Field(
        default="", description="The statement, in Markdown: what to compute, shapes, tolerance, an example."
    )
    set: TaskSet | None = Field(
        default=None, description="The set of tasks that it belongs to; the site lists the tasks of one title together."
    )
    lang: Language = Field(
        default=Language.PY,
        description="py: submission.py; cu: submission.cu, compiled by nvcc, or by g++ for CPU.",
    )
    gpus: Annotated[tuple[GpuName, ...], AfterValidator(distinct)] = Field(
        default=("CPU",),
        min_length=1,
        description="Where the task can be judged: CPU, or GPUs by their names in .github/pullrank.yml. A competition "
        "has a board for each of them that it has a machine for.",
    )
    deadline: DeadlineField | None = Field(
        default=None, description="When the boards close, with a time zone: 2027-03-01T00:00:00Z. Default: never."
    )
    files: tuple[SourceFile, ...] = Field(
        default=(),
        max_length=64,
        description="Files of the task. Default: submission.py, task.py, reference.py, and utils.py if it exists; "
        "with lang: cu and evaluator: referee: submission.cu, task.py, reference.py, adapter.py, and utils.py, task.h, "
        "utils.h if they exist.",
    )
    evaluator: Evaluator | None = Field(
        default=None,
        description="referee: PullRank judges (default). script: the task's own program judges (default for lang: cu).",
    )
    config: ScriptConfig | None = Field(
        default=None, description="What to run or compile; only used with evaluator: script or lang: cu."
    )
    templates: dict[LineField, FilePath] = Field(
        default_factory=dict,
        description="Files to start from, by language: {Python: template.py}. Default: template.py, or with "
        "lang: cu template.cu, if it exists.",
    )
    anchor: FilePath | None = Field(
        default=None,
        description="The accepted example that is timed alongside every ranked submission. Default: the first.",
    )
    baselines: dict[LineField, FilePath] = Field(
        default_factory=dict,
        max_length=10,
        description="Accepted examples whose times the boards show without a rank, by name: {torch.sort: "
        "examples/accepted/library.py}. A maintainer submits exactly such a file. Tasks with lang: cu may have some in "
        "Python.",
    )
    tests: Cases = Field(description="Cases whose outputs are checked.")
    benchmarks: Cases = Field(description="Cases whose outputs are checked and that are timed.")
    per_gpu: dict[GpuName, BoardFile] = Field(
        default_factory=dict, description="Cases and limits of single boards, by the name of the GPU."
    )
    ranking_by: Ranking = Field(
        default=Ranking.GEOM, description="The score: geometric mean of all benchmarks, their mean, or the last alone."
    )
    work: Work | None = Field(default=None, description="Work that a case needs, to show % of the hardware's peak.")
    multi_gpu: Flag = Field(default=False, description="Uses several GPUs; every case then needs `world_size`.")
    device_alias: DeviceAlias = Field(
        default_factory=dict,
        description="Written by `task import --device-alias`: the task's files were rewritten from one device to "
        "another, to try it out. Such a task never ranks.",
    )
    seed: Annotated[int, Field(strict=True)] | None = Field(
        default=None, description="Accepted in KernelBot tasks, but not used: ranked seeds are drawn at random."
    )
    libraries: tuple[LineField, ...] = Field(default=(), description="Accepted in KernelBot tasks, but not used.")


class _Schema(GenerateJsonSchema):
    """A schema for hand-written files: no titles derived from names, and no null for optional keys."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic's own signature
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        inner = self.generate_inner(schema["schema"])
        return inner if schema.get("default") in (None, (), {}) else super().default_schema(schema)


def task_schema() -> dict[str, Any]:
    """The JSON Schema of task.yml, for completion in editors."""
    return schema_of(TaskFile, "PullRank task")


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The JSON Schema of a hand-written YAML file."""
    schema = model.model_json_schema(schema_generator=_Schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


def read_task_file(folder: Path, faults: Faults) -> tuple[TaskFile | None, set[str]]:
    """Read `task.yml`, adding its faults to `faults`.

    Returns the file without unknown or invalid keys, so that the rest can still be checked, and the names of the
    invalid keys, so that no further faults are derived from them.  The file is None if it cannot be parsed at all.
    """
    values = read_yaml(folder / "task.yml", faults)
    if values is None:
        return None, set()
    try:
        return TaskFile.model_validate(values, context=folder), set()
    except ValidationError as error:
        faults.add_all(error, TaskFile)
        ill = {key for details in error.errors() if (key := _key_at_fault(details, values))}
    rest = {key: value for key, value in values.items() if key not in ill}
    return TaskFile.model_validate({"tests": [{}], "benchmarks": [{}]} | rest, context=folder), ill


def _key_at_fault(details: ErrorDetails, values: dict[str, Any]) -> str | None:
    """The top-level key whose value is invalid; None for unknown keys, which are removed from `values`."""
    if details["type"] != "extra_forbidden":
        return str(details["loc"][0])
    section: Any = values
    for part in details["loc"][:-1]:
        section = section[part]
    del section[details["loc"][-1]]
    return None
