"""The setting `runs_on`, the runners of a GPU, in the forms of a workflow's `runs-on`.

ubuntu-24.04                              one label
[self-hosted, linux, h100]                a runner with all of these labels
{group: gpu-machines, labels: [h100]}     a runner of an organisation's group
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from harness.records.errors import did_you_mean
from harness.task.faults import quote
from harness.task.task_values import distinct

MAX_LABELS = 16

_LABEL = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
_GROUP = r"[A-Za-z0-9][A-Za-z0-9_. -]{0,99}"
_GROUP_KEYS = ("group", "labels")


@dataclass(frozen=True, kw_only=True)
class RunnerGroup:
    """A group of an organisation's runners, and the labels that a runner must have."""

    group: str
    labels: tuple[str, ...] = ()


def to_json(target: str | tuple[str, ...] | RunnerGroup) -> str:
    """For `runs-on: ${{ fromJSON(…) }}` of a workflow."""
    if isinstance(target, RunnerGroup):
        return json.dumps({key: value for key, value in asdict(target).items() if value})
    return json.dumps(target)


def _read(value: object) -> str | tuple[str, ...] | RunnerGroup:
    match value:
        case str():
            return _label(value)
        case list():
            return _labels(value)
        case dict():
            return _group(value)
    raise ValueError(f"must be a runner's label, a list of labels, or {{group: NAME}}, not {quote(value)}")


def _group(value: Mapping[str, object]) -> RunnerGroup:
    if unknown := [key for key in value if key not in _GROUP_KEYS]:
        raise ValueError(f"unknown key '{unknown[0]}'{did_you_mean(unknown[0], _GROUP_KEYS)}")
    if "group" not in value:
        raise ValueError("missing key 'group'; write labels without a group as a list: [LABEL, LABEL]")
    labels = _labels(value["labels"]) if "labels" in value else ()
    return RunnerGroup(group=_word(value["group"], _GROUP, "the name of a group of runners"), labels=labels)


def _labels(values: object) -> tuple[str, ...]:
    if not isinstance(values, list) or not 0 < len(values) <= MAX_LABELS:
        raise ValueError(f"must be a list of one to {MAX_LABELS} runner labels, not {quote(values)}")
    return distinct(tuple(map(_label, values)))


def _label(value: object) -> str:
    return _word(value, _LABEL, "a runner's label, of letters, digits and _.- only")


def _word(value: object, pattern: str, what: str) -> str:
    if not isinstance(value, str) or not re.fullmatch(pattern, value):
        raise ValueError(f"must be {what}, not {quote(value)}")
    return value


_LABELS_SCHEMA: dict[str, Any] = {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MAX_LABELS}
_GROUP_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"group": {"type": "string"}, "labels": _LABELS_SCHEMA},
    "required": ["group"],
    "additionalProperties": False,
}

RunsOn = Annotated[
    str | tuple[str, ...] | RunnerGroup,
    PlainValidator(_read),
    WithJsonSchema({"anyOf": [{"type": "string"}, _LABELS_SCHEMA, _GROUP_SCHEMA]}),
]
