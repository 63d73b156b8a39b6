"""The border of `/check`: a stranger's tasks go in as one zip, and a line comes out for each of their examples.

    tasks.zip    check.json                {"format": "pullrank-check", "version": 1, "tasks": ["gemm"]}
                 tasks/gemm/...  tasks/... as in a bundle
    a line       {"task": "gemm", "example": "wrong_answer/half.py", "got": "WA", "message": "...", "seconds": 3.1}

The lines come from behind walls that a task's own code shares with the referee: whoever reads them reads hostile text.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, ValidationError

from harness.bundle import BundleError, lay_out, parse_facts, read_members, sha256, task_files_of
from harness.errors import PullRankError
from harness.judgement import Model, Name
from harness.verdict import Verdict

__all__ = ["GPU", "MAX_BYTES", "CheckOrder", "ExampleResult", "ResultsError", "lay_out", "read_results", "read_tasks"]

GPU = "CPU"
"""The board on which examples are judged: what every machine of GitHub's has."""
MAX_BYTES = 4 * 1024 * 1024
"""Of all lines together."""
MAX_MESSAGE = 1000

_SIZES = {"check.json": 64 * 1024}


class ResultsError(PullRankError):
    """The lines are none of ours."""


class CheckOrder(Model):
    format: Literal["pullrank-check"] = "pullrank-check"
    version: Literal[1] = 1
    tasks: Annotated[tuple[Name, ...], Field(min_length=1)]


class ExampleResult(Model):
    """What one example came to; `example` is its path below the task's `examples/`."""

    task: Name
    example: Annotated[str, StringConstraints(pattern=r"^[a-z_]{1,40}/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}$")]
    got: Verdict
    message: Annotated[str, StringConstraints(max_length=MAX_MESSAGE)] = ""
    seconds: float = Field(ge=0, lt=1e6)

    def to_line(self) -> bytes:
        return self.model_dump_json().encode() + b"\n"


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


def read_results(content: bytes) -> tuple[ExampleResult, ...]:
    """The results in some lines.

    Raises:
        ResultsError: they are too long, or one of them is no result.
    """
    if len(content) > MAX_BYTES:
        raise ResultsError(f"the results are larger than {MAX_BYTES // 2**20} MiB")
    try:
        return tuple(ExampleResult.model_validate_json(line) for line in content.splitlines())
    except ValidationError as error:
        where = ".".join(map(str, error.errors(include_url=False, include_input=False)[0]["loc"]))
        raise ResultsError(f"a line of the results is no result ({where[:100] or 'not JSON'})") from None
