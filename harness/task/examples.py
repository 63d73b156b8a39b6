"""The border of `/check`: a stranger's tasks go in as one zip, and lines come out for their references and examples.

    tasks.zip    check.json                {"format": "pullrank-check", "version": 1, "tasks": ["gemm"]}
                 tasks/gemm/...  tasks/... as in a bundle
    a line       {"kind": "probes", "task": "gemm", "found": [{"where": "all tests", "message": "accepts None", …}], …}
    a line       {"kind": "example", "task": "gemm", "example": "wrong_answer/half.py", "got": "WA", "message": "…", …}

The lines come from behind walls that a task's own code shares with the referee: whoever reads them reads hostile text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from harness.records.errors import PullRankError
from harness.records.fields import Model, Name
from harness.records.verdict import Verdict
from harness.task.bundle import BundleError, lay_out, parse_facts, read_members, sha256, task_files_of

__all__ = [
    "GPU", "MAX_BYTES", "MAX_FOUND", "CheckOrder", "ExampleResult", "Flaw", "ProbesResult", "Result", "ResultsError",
    "lay_out", "read_results", "read_tasks",
]  # fmt: skip

GPU = "CPU"
"""The board on which examples are judged: what every machine of GitHub's has."""
MAX_BYTES = 4 * 1024 * 1024
"""Of all lines together."""
MAX_MESSAGE = 1000
MAX_FOUND = 100
"""Of what the probes of one task find, so much is told."""

_SIZES = {"check.json": 64 * 1024}


class ResultsError(PullRankError):
    """The lines are none of ours."""


class CheckOrder(Model):
    format: Literal["pullrank-check"] = "pullrank-check"
    version: Literal[1] = 1
    tasks: Annotated[tuple[Name, ...], Field(min_length=1)]


Message = Annotated[str, StringConstraints(max_length=MAX_MESSAGE)]


class _Line(Model):
    task: Name
    seconds: float = Field(ge=0, lt=1e6)

    def to_line(self) -> bytes:
        return self.model_dump_json().encode() + b"\n"


class ExampleResult(_Line):
    """What one example came to; `example` is its path below the task's `examples/`.

    `got` is None where it was skipped, for the reason in `message`.
    """

    kind: Literal["example"] = "example"
    example: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")]
    got: Verdict | None
    message: Message = ""


class Flaw(Model):
    """What is wrong with a task's reference or cases, or may be."""

    where: Message
    message: Message
    is_fault: bool


class ProbesResult(_Line):
    """What the probes of one task's reference found."""

    kind: Literal["probes"] = "probes"
    found: Annotated[tuple[Flaw, ...], Field(max_length=MAX_FOUND)] = ()


Result = ExampleResult | ProbesResult
_RESULT: TypeAdapter[Result] = TypeAdapter(Annotated[Result, Field(discriminator="kind")])


def read_tasks(content: bytes, digest: str | None = None) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The names of the tasks to check, and all their files by path below `tasks/`.

    Raises:
        BundleError: anything about the zip is not as it must be.
    """
    if digest is not None and sha256(content) != digest:
        raise BundleError("the tasks are not those that were packed for this check: the zip's SHA-256 differs")
    members = read_members(content, _SIZES)
    if "check.json" not in members:
        raise BundleError("check.json is missing")
    return parse_facts(CheckOrder, "check.json", members).tasks, task_files_of(members)


def read_results(content: bytes) -> tuple[Result, ...]:
    """The results in some lines.

    Raises:
        ResultsError: they are too long, or one of them is no result.
    """
    if len(content) > MAX_BYTES:
        raise ResultsError(f"the results are larger than {MAX_BYTES // 2**20} MiB")
    try:
        return tuple(_RESULT.validate_json(line) for line in content.splitlines())
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
        raise ResultsError(f"a line of the results is no result ({where[:100] or 'not JSON'})") from None
