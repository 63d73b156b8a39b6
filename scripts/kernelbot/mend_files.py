"""Complete an imported task from what its files and its set say, without running its code.

SET/TASK/submissions/*        examples/accepted/*       to be judged by `mend`
open("exact.cu"), #include    files:                    of a task with its own program
name and text of the set      set:                      a section of the boards on the site
imports of the examples       #!PULLRANK needs …
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import yaml

from scripts.kernelbot.convert import dump_task_yml, for_this_task, trimmed
from scripts.kernelbot.device_alias import without_cuda
from scripts.kernelbot.files import FoundTask, read_source
from scripts.kernelbot.kind import parse
from scripts.kernelbot.needs import with_needs

Files = dict[str, bytes]

_C_SUFFIXES = {".cu", ".cuh", ".hip", ".cpp", ".cc", ".c", ".h", ".hpp", ".inl"}
_C_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


def values_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The values of an imported task's task.yml."""
    return dict(yaml.safe_load(files["task.yml"]))


def with_values(files: Mapping[str, bytes], changes: dict[str, Any]) -> Files:
    """The same files with other values in task.yml; None removes a key."""
    return {**files, "task.yml": dump_task_yml(values_of(files) | changes)}


def with_submissions(found: FoundTask, files: Mapping[str, bytes]) -> Files:
    """Add what is in the task's folder `submissions` as accepted examples, unless an example has that name."""
    values = values_of(files)
    suffix = f".{values.get('lang', 'py')}"
    rewritten = without_cuda if values.get("device_alias") else bytes
    added = {
        name: rewritten(for_this_task(content, found.name))
        for path in sorted((found.folder / "submissions").glob(f"*{suffix}"))
        if (name := f"examples/accepted/{path.name}") not in files
        if (content := _read(found, f"submissions/{path.name}"))
    }
    return {**files, **added}


def with_files_it_reads(found: FoundTask, files: Mapping[str, bytes]) -> Files:
    """Add the C++ and CUDA files of the task's folder that its program names but `files` does not list."""
    listed: list[dict[str, str]] = list(values_of(files)["files"])
    contents = {entry["name"]: files.get(entry["name"], b"") for entry in listed}
    queue = list(contents)
    while queue:
        name = queue.pop()
        for named in _c_files_in(name, contents[name]):
            if named not in {*contents, *files} and (content := _read(found, named)):
                contents[named] = content
                listed.append({"name": named, "source": named})
                queue.append(named)
    new = {name: content for name, content in contents.items() if name not in files and content}
    return with_values({**files, **new}, {"files": listed}) if new else dict(files)


def with_set(found: FoundTask, files: Mapping[str, bytes]) -> Files:
    if not found.set:
        return dict(files)
    return with_values(files, {"set": {key: trimmed(text) for key, text in found.set.items()}})


def with_all_needs(files: Mapping[str, bytes]) -> Files:
    """Let every example declare what it needs."""
    return {
        name: with_needs(text, files) if name.startswith("examples/") and name.endswith(".py") else text
        for name, text in files.items()
    }


def _c_files_in(name: str, source: bytes) -> Iterator[str]:
    """The plain names of C++ and CUDA files in a program's source."""
    if name.endswith(".py"):
        constants = (node.value for node in ast.walk(parse(source)) if isinstance(node, ast.Constant))
        named = [value for value in constants if isinstance(value, str)]
    else:
        named = _INCLUDE.findall(source.decode("utf-8", "replace"))
    for one in named:
        is_plain = _C_FILE.fullmatch(one) and PurePosixPath(one).suffix in _C_SUFFIXES
        if is_plain and not one.startswith("submission."):
            yield one


def _read(found: FoundTask, source: str) -> bytes:
    """A file of the task's folder; nothing if it may not be read, or is not text."""
    try:
        _, content = read_source(found, source)
        content.decode()
    except ValueError:
        return b""
    return content
