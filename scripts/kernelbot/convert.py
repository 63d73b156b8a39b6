"""Convert a task in KernelBot's layout to the files of a PullRank task, without running its code.

    KernelBot                                  PullRank, all in one folder
      keys                                       task.yml    with explicit ranking_by, gpus and evaluator
      files, templates                           one name each; files from outside are copied into the folder
      eval.py                                    only if the referee cannot judge the task (`kind`)
      solutions                                  examples/accepted/*, examples/wrong_answer/*

A task that the referee judges needs an accepted and a wrong example.  If it has none, its own reference becomes the
first, and zeros in the shapes of its answer the second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from harness.records.errors import TaskError
from harness.task.task_values import SUBMISSION
from harness.task.yaml_file import EXPONENT
from scripts.kernelbot.device_alias import cuda_lines, without_cuda
from scripts.kernelbot.files import FoundTask, Parts, read_parts
from scripts.kernelbot.kind import spans_gpus, why_script
from scripts.tasks.writing import SCHEMA_LINE

_ORDER = ("title", "description", "lang", "gpus", "deadline", "files", "evaluator", "config", "templates", "anchor")
ACCEPTED_REFERENCE = "examples/accepted/reference.py"

_LEADERBOARD = re.compile(rb"^([ \t]*(?:#|//)!(?:POPCORN|PULLRANK)[ \t]+leaderboard)(?!\S)[^\r\n]*", re.MULTILINE)
_GPUS = re.compile(rb"^[ \t]*(?:#|//)!(?:POPCORN|PULLRANK)[ \t]+gpus?(?!\S).*\n?", re.MULTILINE)

_REFERENCE = '''

def custom_kernel(data):
    """The reference itself: the anchor, until somebody writes a better one."""
    return ref_kernel(data)
'''
_ZEROS = '''

def custom_kernel(data):
    """The right shapes, filled with zeros."""
    return _zeros(ref_kernel(data))


def _zeros(answer):
    if isinstance(answer, dict):
        return {key: _zeros(item) for key, item in answer.items()}
    if isinstance(answer, (tuple, list)):
        return type(answer)(map(_zeros, answer))
    return answer.new_zeros(answer.shape) if hasattr(answer, "new_zeros") else None
'''


@dataclass(frozen=True, kw_only=True)
class Converted:
    """The files of the new task, and notes about them."""

    files: dict[str, bytes]
    why_script: str = ""
    from_outside: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def convert(found: FoundTask, *, alias: bool = False) -> Converted:
    """Convert a KernelBot task.

    Args:
        alias: rewrite its code from cuda to cpu; such a task never ranks.

    Raises:
        TaskError: the faults that prevent the conversion, one per line.
    """
    parts = read_parts(found)
    why = why_script(parts.keys, parts.files, [text for name, text in parts.starters.items() if name.endswith(".py")])
    if why and parts.lang == "py" and parts.main not in parts.files:
        raise TaskError(f"{found.place}: the referee cannot judge it ({why}), and it has no program that does")
    files = dict(parts.files) if why else {name: text for name, text in parts.files.items() if name != parts.main}
    gpus = ("CPU",) if alias else _gpus(found, parts, files)
    starters = {**({} if why else _missing_examples(parts)), **parts.starters}
    starters = {name: for_this_task(text, found.name) for name, text in starters.items()}
    everything = {name: without_cuda(text) if alias else text for name, text in (files | starters).items()}
    return Converted(
        files={"task.yml": _task_yml(found, parts, list(files), gpus, why, alias), **everything},
        why_script=why,
        from_outside=tuple(source for name, source in parts.from_outside.items() if name in everything),
        notes=(*parts.left_out, *(_left_for_gpus(parts, everything) if alias else ())),
    )


def _gpus(found: FoundTask, parts: Parts, files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The set's boards, else the task's own; CPU only if no file names a GPU."""
    if gpus := found.gpus or tuple(parts.keys.get("gpus", ())):
        return gpus
    named = " ".join(f"--gpu {gpu}" for gpu in found.gpus_of_set or ("H100",))
    if parts.lang == "cu":
        raise TaskError(f"{found.place}: no GPU is given; name one: {named}")
    if at_fault := [f"{name}:{lines[0]}" for name, text in files.items() if (lines := cuda_lines(text))]:
        raise TaskError(
            f"{found.place}: {', '.join(at_fault)} uses cuda, but no GPU is given; "
            f"name one: {named}. To try the task without a GPU: --device-alias cuda=cpu"
        )
    return ("CPU",)


def _missing_examples(parts: Parts) -> dict[str, bytes]:
    made = {
        ACCEPTED_REFERENCE: accepted_reference(parts.files["reference.py"]),
        "examples/wrong_answer/zeros.py": _example(parts.files["reference.py"], _ZEROS),
    }
    folders = {str(PurePosixPath(name).parent) for name in parts.starters}
    return {name: text for name, text in made.items() if str(PurePosixPath(name).parent) not in folders}


def accepted_reference(reference: bytes) -> bytes:
    """An example that returns the reference's own answer."""
    return _example(reference, _REFERENCE)


def _example(reference: bytes, kernel: str) -> bytes:
    return b"#!POPCORN leaderboard here\n" + reference.rstrip(b"\n") + b"\n" + kernel.encode()


def for_this_task(source: bytes, name: str) -> bytes:
    """Make the directives name this task and all of its boards."""
    return _LEADERBOARD.sub(lambda found: found[1] + b" " + name.encode(), _GPUS.sub(b"", source))


def _left_for_gpus(parts: Parts, files: Mapping[str, bytes]) -> Iterator[str]:
    """Notes about code that still needs a GPU after the rewrite."""
    if parts.lang == "cu":
        yield "--device-alias rewrites only Python: compiled code (lang: cu) still needs a GPU and may fail"
    if spans_gpus(parts.keys):
        yield "--device-alias keeps the several ranks, which may fail without a backend for their GPUs"
    for name, text in files.items():
        if name.endswith(".py") and (lines := cuda_lines(text)):
            yield f"{name}:{','.join(map(str, lines))} still asks torch for a GPU and may fail"


def _task_yml(found: FoundTask, parts: Parts, files: list[str], gpus: tuple[str, ...], why: str, alias: bool) -> bytes:
    own = {key: value for key, value in parts.keys.items() if key not in ("config", "evaluator")}
    listed = [{"name": f"submission.{parts.lang}", "source": SUBMISSION}]
    values = own | {
        "gpus": list(gpus),
        "deadline": found.deadline or own.get("deadline"),
        "description": trimmed(own.get("description")),
        "files": [*listed, *({"name": name, "source": name} for name in files)],
        "evaluator": "script" if why else None,
        "config": parts.keys.get("config") if why else None,
        "templates": parts.templates,
        "multi_gpu": own.get("multi_gpu", spans_gpus(own) or None),
        # Always explicit: the default is `last` in KernelBot and `geom` here.
        "ranking_by": own.get("ranking_by", "last"),
        "device_alias": {"cuda": "cpu"} if alias else None,
    }
    return dump_task_yml(values)


def dump_task_yml(values: Mapping[str, Any]) -> bytes:
    """The text of an imported task's task.yml; keys without a value are left out."""
    ordered = {key: values[key] for key in dict.fromkeys((*_ORDER, *values)) if values.get(key) not in (None, {})}
    text = yaml.dump(ordered, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)
    return f"{SCHEMA_LINE}# Imported by `pullrank task import`.\n{text}".encode()


def trimmed(text: str | None) -> str | None:
    """Remove trailing spaces, which would keep YAML from writing the text as a block."""
    lines = [line.rstrip() for line in text.strip().splitlines()] if text else []
    return "\n".join(lines) + "\n" * (len(lines) > 1) or None


class _Dumper(yaml.SafeDumper):
    """Writes long texts as blocks and uses no anchors."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quoted = "'" if EXPONENT.fullmatch(text) else None  # PyYAML writes 1e3 plainly, and a task.yml reads a number
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else quoted)


_Dumper.add_representer(str, _text)
