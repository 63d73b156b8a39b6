"""Types of values in task.yml: names, files of the task, times, arguments of cases.

Each type checks its value, and its error message says in one sentence how to write it.
"""

from __future__ import annotations

import math
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from harness.records.errors import did_you_mean
from harness.records.fields import Param
from harness.task.faults import quote

SUBMISSION = "@SUBMISSION@"
"""Placeholder for the participant's file in a task's `files`."""

MAX_FILE_BYTES = 4 * 1024 * 1024

_TUPLE = re.compile(r"\(\s*(-?\d{1,18}\s*(,\s*-?\d{1,18}\s*)*,?\s*)?\)")


def find_file(folder: Path, source: str, tree: Path | None = None) -> Path:
    """Resolve a file named by a task, in its folder or elsewhere in the tasks tree around it.

    Args:
        tree: the only folder that files may come from.  Default: the tasks tree, the folder's parent.

    Raises:
        ValueError: it is outside the tree (by `..` or a link), missing, too large, or not a regular file.
    """
    if Path(source).is_absolute() or "\\" in source or not source.isprintable():
        raise ValueError(f"{source!r} must be a path relative to the task's folder, with /")
    where = f"the tasks tree {folder.parent.name}/; copy the file into it"
    if tree:
        where = f"{tree.name}/, the only folder that files may come from"
    tree = tree or folder.parent
    try:
        path = Path(os.path.realpath(folder / source))  # resolve() raises if links form a circle, before Python 3.13
        if not path.is_relative_to(tree):
            raise ValueError(f"'{source}' is outside {where}")
        if path.exists() and not path.is_file():
            raise ValueError(f"'{source}' is not a file, but a folder or the like")
        if not path.exists() and (folder / source).is_symlink():
            raise ValueError(f"'{source}' is a link to {os.readlink(folder / source)}, which leads to no file")
        if not path.exists():
            near = did_you_mean(path.name, (other.name for other in path.parent.glob("*") if other.is_file()))
            raise ValueError(f"no file '{source}'{near}")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError(f"'{source}' is larger than {MAX_FILE_BYTES // 2**20} MiB")
    except OSError as error:
        raise ValueError(f"'{source}' cannot be opened: {error}") from None
    return path


def _path(value: object, info: ValidationInfo) -> Path:
    assert isinstance(info.context, Path), "the task's folder is the context of its validation"
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be the path of a file, not {quote(value)}")
    return find_file(info.context, value)


def _source(value: object, info: ValidationInfo) -> Path | None:
    return None if value == SUBMISSION else _path(value, info)


def _gpu(name: str) -> str:
    if name.upper() == "CPU" and name != "CPU":
        raise ValueError(f"unknown GPU '{name}'; did you mean 'CPU'?")
    return name


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    for index, name in enumerate(names):
        if name.casefold() in (earlier.casefold() for earlier in names[:index]):
            raise ValueError(f"'{name}' appears twice")
    return names


def _deadline(value: object) -> datetime:
    with suppress(ValueError, OverflowError):
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(time, datetime) and time.tzinfo is not None:
            return time.astimezone(UTC)
    raise ValueError(f"must be a time with a time zone, such as 2027-03-01T00:00:00Z, not {quote(value)}")


def _case_value(value: object) -> Param:
    match value:
        case bool():
            return value
        case int() if abs(value) < 2**63:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if _TUPLE.fullmatch(value):  # KernelBot's case files write tuples like this
            return tuple(int(number) for number in re.findall(r"-?\d+", value))
        case str() if len(value) <= 200 and value.isprintable() and ";" not in value:
            return value
        case int():
            raise ValueError(f"must fit into 64 bits, not {quote(value)}")
        case str():
            raise ValueError(f"must be a short word without ';' or line breaks, not {quote(value)}")
        case list() if all(type(item) is int and abs(item) < 2**63 for item in value):
            return tuple(value)
    raise ValueError(f"must be a number, a word, true, false or a list of whole numbers, not {quote(value)}")


def _no_part_of_a_tuple(name: str) -> str:
    """YAML reads `{size: (1, 2)}` as two keys, `size` and `2)`."""
    if re.fullmatch(r"-?\d+|.*\)", name):
        raise ValueError("must be the name of an argument; inside { }, write a tuple as [1, 2] or '(1, 2)'")
    return name


def _text_or_number(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


@dataclass(frozen=True)
class Like:
    """Text that matches a pattern; `words` describes the pattern in messages."""

    pattern: str
    words: str

    def check(self, text: str) -> str:
        if not re.fullmatch(self.pattern, text):
            raise ValueError(f"must be {self.words}, not {quote(text)}")
        return text

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(schema) | {"pattern": f"^(?:{self.pattern})$"}


LineField = Annotated[str, Like(r"[^\x00-\x1f\x7f]{1,200}", "one line of text, of at most 200 characters")]
GpuName = Annotated[
    str, Like(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "a name of letters, digits and _.- only"), AfterValidator(_gpu)
]
FileName = Annotated[
    str, Like(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", "a plain file name of letters, digits and _.- only")
]
ParamName = Annotated[
    str,
    Like(r"[A-Za-z][A-Za-z0-9_]{0,63}", "the name of an argument of generate_input: letters, digits and _ only"),
    BeforeValidator(_no_part_of_a_tuple),
]
FilePath = Annotated[Path, BeforeValidator(_path), WithJsonSchema({"type": "string"})]
SourceField = Annotated[Path | None, BeforeValidator(_source), WithJsonSchema({"type": "string"})]
DeadlineField = Annotated[datetime, BeforeValidator(_deadline)]
TextOrNumber = Annotated[
    str,
    BeforeValidator(_text_or_number),
    Field(max_length=500),
    WithJsonSchema({"type": ["string", "number"]}),
]
Dtype = Literal[
    "float64", "float32", "tf32", "float16", "bfloat16", "float8", "float4", "int32", "int16", "int8", "int4"
]
Flag = Annotated[bool, Field(strict=True)]
CaseValue = Annotated[
    Any,
    PlainValidator(_case_value),
    WithJsonSchema({"type": ["integer", "number", "string", "boolean", "array"], "items": {"type": "integer"}}),
]
CaseParams = Annotated[
    dict[ParamName, CaseValue],
    Field(description="Arguments of generate_input, by name. Ranked judgings replace `seed` by a secret one."),
]
Cases = Annotated[tuple[CaseParams, ...], Field(min_length=1, max_length=1000)]
