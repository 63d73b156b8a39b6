"""Input and output of `/check`: untrusted tasks in a zip, and result lines for their references and examples.

    tasks.zip    check.json                {"format": "pullrank-check", "version": 1, "tasks": ["gemm"]}
                 tasks/gemm/...  tasks/... as in a bundle
    a line       {"kind": "probes", "task": "gemm", "found": [{"where": "all tests", "message": "accepts None", …}], …}
    a line       {"kind": "example", "task": "gemm", "example": "wrong_answer/half.py", "got": "WA", "message": "…", …}

The task's own code runs in the same sandbox as the referee that writes the lines, so the lines are untrusted text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from harness.records.errors import PullRankError
from harness.records.fields import Model, RecordName
from harness.records.verdict import Verdict
from harness.task.bundle import BundleError, parse_facts, read_members, sha256, task_files_of

GPU = "CPU"
"""The board on which examples are judged; every GitHub runner has a CPU."""
MAX_BYTES = 4 * 1024 * 1024
"""Size limit of all lines together."""
MAX_MESSAGE = 1000
MAX_FOUND = 100
"""Maximum number of flaws reported per task."""

_SIZES = {"check.json": 64 * 1024}


class ResultsError(PullRankError):
    """The result lines are invalid."""


class CheckOrder(Model):
    format: Literal["pullrank-check"] = "pullrank-check"
    version: Literal[1] = 1
    tasks: Annotated[tuple[RecordName, ...], Field(min_length=1)]


ShortMessage = Annotated[str, StringConstraints(max_length=MAX_MESSAGE)]


class _ReportLine(Model):
    task: RecordName
    seconds: float = Field(ge=0, lt=1e6)

    def to_line(self) -> bytes:
        return self.model_dump_json().encode() + b"\n"


class ExampleResult(_ReportLine):
    """Result of one example; `example` is its path below the task's `examples/`.

    `got` is None if it was skipped; `message` says why.
    """

    kind: Literal["example"] = "example"
    example: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")]
    got: Verdict | None
    message: ShortMessage = ""


class Flaw(Model):
    """A certain (`is_fault`) or possible problem of a task's reference or cases."""

    where: ShortMessage
    message: ShortMessage
    is_fault: bool


class ProbesResult(_ReportLine):
    """Problems that the probes found in one task's reference."""

    kind: Literal["probes"] = "probes"
    found: Annotated[tuple[Flaw, ...], Field(max_length=MAX_FOUND)] = ()


Result = ExampleResult | ProbesResult
_RESULT: TypeAdapter[Result] = TypeAdapter(Annotated[Result, Field(discriminator="kind")])


def read_tasks(content: bytes, digest: str | None = None) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The names of the tasks to check, and all their files by path below `tasks/`.

    Raises:
        BundleError: the zip is invalid.
    """
    if digest is not None and sha256(content) != digest:
        raise BundleError("these tasks were not packed for this check: the zip's SHA-256 differs")
    members = read_members(content, _SIZES)
    if "check.json" not in members:
        raise BundleError("check.json is missing")
    return parse_facts(CheckOrder, "check.json", members).tasks, task_files_of(members)


def read_results(content: bytes) -> tuple[Result, ...]:
    """Parse result lines.  Raises ResultsError: they are too large, or one of them is invalid."""
    if len(content) > MAX_BYTES:
        raise ResultsError(f"the results are larger than {MAX_BYTES // 2**20} MiB")
    try:
        return tuple(_RESULT.validate_json(line) for line in content.splitlines())
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
        raise ResultsError(f"invalid line in the results ({where[:100] or 'not JSON'})") from None
