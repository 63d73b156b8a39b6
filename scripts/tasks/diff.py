"""`pullrank task diff`: how a change to tasks affects their boards, and whose rows it would reset.

    before: a commit, a folder of tasks, or a task's folder    ─┐
                                                                ├─▶ a BoardChange for each board that differs
    after: the tasks in this working tree                      ─┘      └─ the ledger's rows that would go

A new edition empties a board.  It depends on the facts of the task that are compared here, and on the harness's timing
method (`METHOD`) at that commit; a closed board keeps its method.  It does not depend on prose, deadlines, `work`,
templates, baselines, or any examples but the anchor.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from harness.records.errors import TaskError
from harness.task.faults import display
from harness.task.task import METHOD, Board, Task, load_task, load_tasks
from scripts.common.git_command import Git, GitError
from scripts.common.options import PATH, as_json_too
from scripts.common.terminal import cell, console, table
from scripts.competition.boards import find_machines, offered, shown
from scripts.competition.repository import require_ledger
from scripts.ledger.ledger import Ledger
from scripts.ledger.moderation import Moderated
from scripts.standings.standings import standings
from scripts.tasks.show import in_tasks

_METHOD = re.compile(rb"^METHOD = (\d+)$", re.MULTILINE)


class Effect(StrEnum):
    """What happens to a board."""

    NEW = "new"
    GONE = "gone"
    RESET = "starts anew"
    KEPT = "goes on"


@dataclass(frozen=True, kw_only=True)
class BoardChange:
    """A board that differs: what happens to it, why, and whose rows go."""

    task: str
    gpu: str
    effect: Effect
    because: tuple[str, ...]
    logins: tuple[str, ...] = ()


@click.command()
@click.argument("base", default="HEAD", metavar="[REV|PATH]")
@click.option("--ledger", type=PATH, help="Ledger folder: name the authors whose rows would go.")
@in_tasks
@as_json_too
def diff(base: str, ledger: Path | None, folder: Path, as_json: bool) -> None:
    """Show which boards would begin a new edition with a change to tasks, and why (default: since the last commit).

    Example: pullrank task diff main --ledger ledger
    """
    with _tasks_of(base, folder) as (before, method):
        after = load_tasks(folder)
        if (Path(base) / "task.yml").is_file():
            after = tuple(task for task in after if task.name in before)
        facts = require_ledger(ledger) if ledger else None
        changes = find_changes(_here(before.values(), folder, facts), _here(after, folder, facts), facts, method=method)
    if as_json:
        click.echo(json.dumps([asdict(change) for change in changes], indent=1))
    elif not changes:
        click.echo(f"No board changes against {base}.")
    else:
        _print(changes, with_rows=ledger is not None)


def _here(tasks: Iterable[Task], folder: Path, ledger: Ledger | None) -> dict[str, Task]:
    """Tasks by name, with the boards that this competition judges or has judged."""
    machines = find_machines(folder)
    return {task.name: shown(task, machines, ledger) if ledger else offered(task, machines) for task in tasks}


def find_changes(
    before: Mapping[str, Task], after: Mapping[str, Task], ledger: Ledger | None = None, *, method: int = METHOD
) -> list[BoardChange]:
    """Every board that is new, gone or changed.

    Args:
        method: the harness's way of timing before the change.
    """
    changes = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        for gpu in dict.fromkeys((*(old.gpus if old else ()), *(new.gpus if new else ()))):
            was = replace(old.board(gpu), method=method) if old and gpu in old.gpus else None
            now = new.board(gpu) if new and gpu in new.gpus else None
            if now and now.task.deadline and now.task.deadline <= datetime.now(UTC):
                now = replace(now, method=method)  # a closed board keeps it
            if change := _change(name, gpu, was, now, ledger):
                changes.append(change)
    return changes


def _change(name: str, gpu: str, was: Board | None, now: Board | None, ledger: Ledger | None) -> BoardChange | None:
    if was and now:
        decisive, other = tuple(_decisive(was, now)), tuple(_other(was.task, now.task))
        effect = Effect.RESET if decisive else Effect.KEPT
        because = decisive or other
        if not because:
            return None
    else:
        effect, because = (Effect.GONE if was else Effect.NEW), ()
    lost = was if was and effect in (Effect.RESET, Effect.GONE) else None
    return BoardChange(task=name, gpu=gpu, effect=effect, because=because, logins=_rows(lost, ledger))


def _rows(board: Board | None, ledger: Ledger | None) -> tuple[str, ...]:
    if not board or not ledger:
        return ()
    judgements = ledger.judgements(board.task.name, board.gpu, samples=False).judgements
    removed = Moderated.after(ledger.moderations()).removed(judgements)
    return tuple(row.login for row in standings(board, judgements, removed).rows)


def _decisive(was: Board, now: Board) -> Iterator[str]:
    """The facts of the edition that differ, down to a file or a limit."""
    old, new = was.edition_facts, now.edition_facts
    for key in old:
        if old[key] == new[key]:
            continue
        if isinstance(old[key], dict) and isinstance(new[key], dict):
            yield from _parts(key, old[key], new[key])
        else:
            yield _in_words(key, old[key], new[key])


def _parts(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for part in sorted(old.keys() | new.keys()):
        if part not in new:
            yield f"{part} is gone"
        elif part not in old:
            yield f"{part} is new"
        elif old[part] != new[part]:
            yield part if key == "files" else f"{part}: {old[part]} → {new[part]}"


def _in_words(key: str, old: Any, new: Any) -> str:
    if isinstance(old, list) and isinstance(new, list):
        gone, added = sum(one not in new for one in old), sum(one not in old for one in new)
        return f"{key}: {gone} gone, {added} new" if gone or added else f"{key}: reordered"
    return key if key == "anchor" else f"{key}: {old} → {new}"


def _other(was: Task, now: Task) -> Iterator[str]:
    """The changes that do not affect the edition."""
    old, new = _prose(was), _prose(now)
    yield from (name for name in old if old[name] != new[name])


def _prose(task: Task) -> dict[str, Any]:
    return {
        **{name: getattr(task, name) for name in ("title", "description", "deadline", "work")},
        "templates": {language: path.read_bytes() for language, path in task.templates.items()},
        "baselines": [(one.name, one.digest) for one in task.baselines],
        "examples": [(one.place, one.path.read_bytes()) for one in task.examples],
    }


# The tasks before the change.


@contextmanager
def _tasks_of(base: str, folder: Path) -> Iterator[tuple[dict[str, Task], int]]:
    """The tasks of a folder or a commit, by name, and its way of timing."""
    path = Path(base)
    if (path / "task.yml").is_file():
        task = load_task(path)
        yield {task.name: task}, METHOD
    elif path.is_dir():
        yield {task.name: task for task in load_tasks(path)}, METHOD
    else:
        with tempfile.TemporaryDirectory(prefix="pullrank-diff-") as workshop:
            tree, method = _check_out(base, folder.resolve(), Path(workshop))
            yield {task.name: task for task in load_tasks(tree)} if tree.is_dir() else {}, method


def _check_out(rev: str, folder: Path, workshop: Path) -> tuple[Path, int]:
    """Extract a commit's folder of tasks; return it with the way of timing of that commit's harness."""
    git = Git(folder, "")
    top = Path(git.run("rev-parse", "--show-toplevel").decode().strip())
    try:
        commit = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}").decode().strip()
    except GitError:
        raise TaskError(
            f"'{rev}' is neither a folder nor a commit of the repository around {display(folder)}"
        ) from None
    inside = folder.relative_to(top)
    if not git.run("ls-tree", commit, "--full-tree", "--", str(inside)).strip():
        return workshop / "none", METHOD
    # Run it at the top: elsewhere, git archives paths relative to the working directory.
    packed = Git(top, "").run("archive", "--format=tar", commit, "--", str(inside))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(workshop, filter="data")
    return workshop / inside, _method_at(top, commit)


def _method_at(top: Path, commit: str) -> int:
    """A commit's way of timing; today's if the repository has no harness."""
    try:
        found = _METHOD.search(Git(top, "").run("cat-file", "blob", f"{commit}:harness/task/task.py"))
    except GitError:
        return METHOD
    return int(found[1]) if found else METHOD


def _print(changes: list[BoardChange], *, with_rows: bool) -> None:
    made = table("", "Task", "Board", "Effect", "Because of", *(["Rows that go"] if with_rows else []))
    for one in changes:
        rows = [cell(", ".join(one.logins) or "none")] if with_rows else []
        made.add_row(one.task, one.gpu, one.effect, cell(", ".join(one.because)), *rows)
    console().print(made)
    resets = sum(one.effect is Effect.RESET for one in changes)
    click.echo(f"{resets} of {len(changes)} boards would begin a new edition; old rows stay visible under theirs.")
