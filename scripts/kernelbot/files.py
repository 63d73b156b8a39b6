"""Read a task in KernelBot's layout: its keys, and every file that it names, in or outside of its folder.

    task.yml                          keys, validated with their lines
    files:      {name, source}        sources may lead up: ../utils.py, ../../other/eval.py
    templates:  {language: source}
    solutions/{correct,wrong}/*       and examples/<verdict>/*

Only source files below one root are read, so that a stranger's task cannot name ../../.ssh/id_rsa.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field

from harness.records.errors import TaskError
from harness.task.faults import Faults, Loc, display
from harness.task.python_file import require_python
from harness.task.task_file import Section, TaskFile
from harness.task.task_values import SUBMISSION, FileName, LineField, find_file
from harness.task.yaml_file import read_yaml, windows_line_ends

_SUFFIXES = {".py", ".cu", ".cuh", ".hip", ".cpp", ".cc", ".c", ".h", ".hpp", ".inl", ".txt", ".md", ".json"}
_NOT_JUDGED = {
    "validation": "dropped; PullRank does not run a task's second check of the fastest submission",
}
"""KernelBot's keys that have no meaning here; a task is complete without them."""
_EXAMPLES = {"solutions/correct": "accepted", "solutions/wrong": "wrong_answer"}


@dataclass(frozen=True, kw_only=True)
class FoundTask:
    """A task to import.  Files outside `root` are refused.

    `shown` is the name of the root in messages, if the root is a temporary folder.  `fault` says why the task cannot be
    imported.
    """

    name: str
    folder: Path
    root: Path
    gpus: tuple[str, ...] = ()
    gpus_of_set: tuple[str, ...] = ()
    """The GPUs that its set names anywhere: a hint for a task without GPUs."""
    set: Mapping[str, str] = field(default_factory=dict)
    """The key `set` of its task.yml; empty if it is in no set."""
    deadline: str = ""
    shown: str = ""
    fault: str = ""

    @property
    def place(self) -> str:
        return display(self.folder / "task.yml")


@dataclass(frozen=True, kw_only=True)
class Parts:
    """A task's contents: its keys without those that list files, and its files by their new names."""

    keys: dict[str, Any]
    files: dict[str, bytes]
    templates: dict[str, str]
    """Language → file name."""
    starters: dict[str, bytes]
    """Templates and examples."""
    from_outside: dict[str, str]
    """File name → its source, for files outside the task's folder."""
    left_out: tuple[str, ...]
    """Keys that are dropped, each with the reason."""

    @property
    def lang(self) -> str:
        return str(self.keys.get("lang", "py"))

    @property
    def main(self) -> str | None:
        """The task's own Python program that judges, if it has one."""
        config = self.keys.get("config")
        return config.get("main") if isinstance(config, dict) else None


class _ImportedFile(Section):
    name: FileName
    source: Annotated[str, Field(min_length=1)]


class _ImportedFiles(Section):
    """The keys that `TaskFile` would refuse: they may name files outside the folder."""

    files: tuple[_ImportedFile, ...] = Field(default=(), max_length=64)
    templates: dict[LineField, str] = Field(default_factory=dict)


def read_parts(found: FoundTask) -> Parts:
    """Read a task.  Raises TaskError: the faults of its keys and files, one per line."""
    faults = Faults(found.folder / "task.yml", is_packed=bool(found.shown))
    keys = read_yaml(found.folder / "task.yml", faults)
    parts = _TaskReader(found, faults).read(keys) if keys else None
    if faults or not parts:
        raise TaskError(str(faults))
    return parts


class _TaskReader:
    def __init__(self, found: FoundTask, faults: Faults) -> None:
        self.found = found
        self.faults = faults
        self.outside: dict[str, str] = {}

    def read(self, keys: dict[str, Any]) -> Parts:
        lang = "cu" if keys.get("lang") == "cu" else "py"  # any other is a fault, and may be no part of a file's name
        left_out = tuple(key for key in keys if key in _NOT_JUDGED)
        rest = {key: value for key, value in keys.items() if key not in (*left_out, *_ImportedFiles.model_fields)}
        listed = {key: value for key, value in keys.items() if key in _ImportedFiles.model_fields}
        self.faults.validate(TaskFile, rest, context=self.found.folder)
        sources = self.faults.validate(_ImportedFiles, listed) or _ImportedFiles()
        files = self._files(sources)
        named = sources.templates or self._own_starter(lang)
        templates, starters = self._templates(named, files)
        starters |= self._examples(f".{lang}")
        return Parts(
            keys=rest,
            files=files,
            templates=templates,
            starters=starters,
            from_outside=self.outside,
            left_out=tuple(f"{key}: {_NOT_JUDGED[key]}" for key in left_out),
        )

    def _files(self, sources: _ImportedFiles) -> dict[str, bytes]:
        if sources.files:
            return self._listed_files(sources.files)
        names = [name for name in ("task.py", "reference.py", "utils.py") if (self.found.folder / name).is_file()]
        return {name: self._read_program(name, name, ()) for name in names}

    def _listed_files(self, entries: Sequence[_ImportedFile]) -> dict[str, bytes]:
        files: dict[str, bytes] = {}
        for number, entry in enumerate(entries):
            if entry.name in files:
                self.faults.add(("files", number, "name"), f"'{entry.name}' is listed twice")
            elif entry.source != SUBMISSION:
                files[entry.name] = self._read_program(entry.name, entry.source, ("files", number, "source"))
        return files

    def _own_starter(self, lang: str) -> dict[str, str]:
        """The template next to task.yml, for a task that lists none."""
        name, language = f"submission.{lang}", "CUDA" if lang == "cu" else "Python"
        return {language: name} if (self.found.folder / name).is_file() else {}

    def _templates(self, sources: Mapping[str, str], taken: Collection[str]) -> tuple[dict[str, str], dict[str, bytes]]:
        """The templates' names by language, and their texts by name; `taken` are the names of the task's own files."""
        names: dict[str, str] = {}
        texts: dict[str, bytes] = {}
        for language, source in sources.items():
            word = "_".join(re.findall(r"[a-z0-9]+", language.lower())) or "other"
            suffix = PurePosixPath(source).suffix
            ends = chain([f"_{word}" if names else "", f"_{word}"], (f"_{word}_{number}" for number in count(2)))
            free = (f"template{end}{suffix}" for end in ends)
            names[language] = next(name for name in free if name not in texts and name not in taken)
            texts[names[language]] = self._read(names[language], source, ("templates", language))
        return names, texts

    def _examples(self, suffix: str) -> dict[str, bytes]:
        folder = self.found.folder
        ours = {f"examples/{path.name}": path.name for path in sorted(folder.glob("examples/[!._]*/"))}
        found: dict[str, bytes] = {}
        for where, verdict in (_EXAMPLES | ours).items():
            for path in sorted((folder / where).glob(f"*{suffix}")):
                name, source = f"examples/{verdict}/{path.name}", f"{where}/{path.name}"
                if name in found:
                    self.faults.add((), f"{source}: another example is called {name}, too; rename one of them")
                found[name] = self._read(name, source, ())
        return found

    def _read_program(self, name: str, source: str, place: Loc) -> bytes:
        """Read a program of the task, which must be valid Python; templates and examples need not be."""
        content = self._read(name, source, place)
        if name.endswith(".py") and content:
            require_python((self.found.folder / source).resolve(), content, self.faults)
        return content

    def _read(self, name: str, source: str, place: Loc) -> bytes:
        try:
            path, content = read_source(self.found, source)
        except ValueError as error:
            self.faults.add(place, str(error))
            return b""
        if b"\r\n" in content:
            self.faults.add_elsewhere(path, windows_line_ends(path, is_packed=self.faults.is_packed))
        if not path.is_relative_to(self.found.folder.resolve()):
            self.outside[name] = source
        return content


def read_source(found: FoundTask, source: str) -> tuple[Path, bytes]:
    """The source file that a task names, and its content.

    A byte order mark is left out: no line can go before it, and it shifts columns.

    Raises:
        ValueError: as for `find_file`, or it is no source file, or cannot be read.
    """
    root = found.root.resolve()
    path = find_file(found.folder, source, root)
    if path.suffix not in _SUFFIXES or any(part.startswith(".") for part in path.relative_to(root).parts):
        raise ValueError(f"'{source}' is not a source file")
    try:
        return path, path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except OSError as error:
        raise ValueError(f"'{source}' cannot be opened: {error}") from None
