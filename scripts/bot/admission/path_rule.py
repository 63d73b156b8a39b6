"""Classify a pull request by the paths of its changed files alone.  Pure; every path is hostile text.

submissions/<task>/<login>/submission.py   SubmissionPath: exactly this file, added or modified, in its author's folder
the same file, removed                     RemovedSubmission: its author withdraws
tasks/…                                    TaskChange: loaded now, run if a maintainer allows it
anything else                              Contribution: left to people
any other change in submissions/           Misplaced, with the way out
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.records.fields import LOGIN
from scripts.common.text import inline
from scripts.github.pulls import ChangedFile

FOLDER = "submissions"
FILE_NAMES = ("submission.py", "submission.cu")
MAX_LISTED = 5
"""A message names this many paths, and then how many more there are."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OURS = frozenset({f"{FOLDER}/README.md", f"{FOLDER}/.gitkeep"})
"""Files below `submissions/` that belong to the repository."""

_CHANGES = frozenset({"added", "modified", "changed", "copied"})


@dataclass(frozen=True, kw_only=True)
class SubmissionPath:
    """A submission in its place: `submissions/<task>/<login>/<name>`."""

    task: str
    login: str
    name: str

    @property
    def path(self) -> str:
        return entry_path(self.task, self.login, self.name)


@dataclass(frozen=True, kw_only=True)
class RemovedSubmission:
    """The author removes their submission, `path`, and nothing else."""

    task: str
    path: str


@dataclass(frozen=True, kw_only=True)
class TaskChange:
    """Changed folders of `tasks/`, perhaps beside other files."""

    tasks: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """Neither a submission nor a task: intake does not comment on it."""


@dataclass(frozen=True, kw_only=True)
class Misplaced:
    """Meant to be a submission, but not in its place; `reason` is Markdown for its author."""

    reason: str


Change = SubmissionPath | RemovedSubmission | TaskChange | Contribution | Misplaced


def entry_path(task: str, login: str, name: str = FILE_NAMES[0]) -> str:
    return f"{FOLDER}/{task}/{login}/{name}"


def classify(files: Sequence[ChangedFile], login: str) -> Change:
    """The kind of a pull request, by the files that it changes.

    Args:
        login: the owner of the folder that it may change.
    """
    inside = [file for file in files if _touches_submissions(file)]
    outside = [file for file in files if file not in inside]
    if inside and outside:
        return _mixed(outside, login)
    if len(inside) > 1:
        return _several(inside)
    if inside:
        return _entry(inside[0], login)
    if stray := next((file for file in outside if _is_stray(file.path)), None):
        return _wrong_path(stray.path, login)
    return _other(outside)


def _touches_submissions(file: ChangedFile) -> bool:
    return any(path.startswith(f"{FOLDER}/") and path not in _OURS for path in (file.path, file.previous_path or ""))


def _other(files: Sequence[ChangedFile]) -> TaskChange | Contribution:
    paths = {path for file in files for path in (file.path, file.previous_path) if path}
    tasks = {parts[1] for parts in (path.split("/") for path in paths) if parts[0] == "tasks" and len(parts) > 2}
    return TaskChange(tasks=tuple(sorted(tasks))) if tasks else Contribution()


# Submissions and their faults.


def _entry(file: ChangedFile, login: str) -> SubmissionPath | RemovedSubmission | Misplaced:
    if file.status == "removed":
        return _removal(file.path, login)
    if file.status == "renamed":
        return Misplaced(
            reason=f"This moves {inline(file.previous_path or '')} to {inline(file.path)}. "
            "Add or change your submission in its own place, and leave other files where they are."
        )
    parts = file.path.split("/")
    if file.status not in _CHANGES or len(parts) != 4 or not _NAME.fullmatch(parts[1]):
        return _wrong_path(file.path, login)
    _, task, owner, name = parts
    if owner != login:
        return _foreign(file.path, task, owner, login)
    if name not in FILE_NAMES:
        wanted = FILE_NAMES[name.endswith((".cu", ".cuh"))]
        return Misplaced(
            reason=f"The file is named {inline(name)}, but a submission must be named `{wanted}`. "
            f"Rename it to `{entry_path(task, login, wanted)}`."
        )
    return SubmissionPath(task=task, login=login, name=name)


def _removal(path: str, login: str) -> RemovedSubmission | Misplaced:
    match path.split("/"):
        case [_, task, owner, name] if owner == login and name in FILE_NAMES and _NAME.fullmatch(task):
            return RemovedSubmission(task=task, path=path)
    return Misplaced(
        reason=f"This removes {inline(path)}, which is not your submission. You can remove only your own, to withdraw "
        "its results. Close this pull request."
    )


def _wrong_path(path: str, login: str) -> Misplaced:
    named = [part for part in path.split("/")[1:-1] if _NAME.fullmatch(part) and part.lower() != login.lower()]
    wanted = entry_path(named[0] if named else "<task>", login, FILE_NAMES[path.endswith(".cu")])
    return Misplaced(
        reason=f"{inline(path)} is not the place for a submission. Put it at `{wanted}`: "
        "one folder for the task, one for your login, no others."
    )


def _foreign(path: str, task: str, owner: str, login: str) -> Misplaced:
    if owner.lower() == login.lower():
        hint = " (upper and lower case matter)"
    else:
        hint = "" if re.fullmatch(LOGIN, owner) else ", and the folder's name must be its author's login"
    return Misplaced(
        reason=f"You changed {inline(path)}, but your login is `{login}`{hint}. "
        f"Put the file under `{FOLDER}/{task}/{login}/`."
    )


def _several(files: Sequence[ChangedFile]) -> Misplaced:
    return Misplaced(
        reason=f"This changes {len(files)} files under `{FOLDER}/`: {_listed(files)}. A pull request must contain one "
        "file for one task. Keep one here, and open another pull request from another branch for each of the others."
    )


def _mixed(outside: Sequence[ChangedFile], login: str) -> Misplaced:
    return Misplaced(
        reason=f"Besides your submission, this changes {_listed(outside)}. A submission is exactly one file, "
        f"`{entry_path('<task>', login)}`. Remove the rest from this branch; it can be a separate pull request."
    )


def _is_stray(path: str) -> bool:
    """Whether the path looks like a submission in the wrong folder."""
    parts = path.split("/")
    if path in _OURS or parts[0] in ("tasks", "tests", "harness", "scripts", "benchmarks", "site"):
        return False
    return parts[-1] in FILE_NAMES or parts[0].lower() in ("submission", FOLDER)


def _listed(files: Sequence[ChangedFile]) -> str:
    shown = [inline(file.path, 120) for file in files[:MAX_LISTED]]
    if len(files) > MAX_LISTED:
        shown.append(f"{len(files) - MAX_LISTED} more")
    return ", ".join(shown[:-1]) + (" and " if len(shown) > 1 else "") + shown[-1]
