"""Write a request's bundle: the hosted side of `harness/task/bundle.py`.

    request, file, champion, task, harness ─► pack ─► one zip; the same contents make the same bytes

A bundle includes the files outside the task's folder that its task.yml names, at the same relative paths, so that the
judge loads what is on `main`.  `pack` checks this before a bundle leaves.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

from harness.records.errors import TaskError
from harness.task.bundle import HARNESS, TASK_FILE, TOOLCHAIN, Bundle, ChampionFacts, Manifest, read_bundle, sha256
from harness.task.faults import Faults
from harness.task.submission import Champion
from harness.task.task import Task
from harness.task.task_file import read_task_file
from harness.task.task_values import MAX_FILE_BYTES
from harness.task.toolchain import Toolchain


def pack(
    request: bytes, task: Task, submission: bytes, champion: Champion | None, harness: bytes, toolchain: Toolchain
) -> bytes:
    """A bundle's bytes.

    Args:
        request: the request as JSON.
        harness: the output of `scripts/bot/evaluate/pyz.py`.
        toolchain: what the board's machines compile with.

    Raises:
        TaskError: some of the task's files cannot be packed.
        BundleError: the bundle would be too large, or the request is malformed.
    """
    name = task.name_of(sha256(submission))
    members = {"request.json": request, name: submission, HARNESS: harness}
    members[TOOLCHAIN] = toolchain.model_dump_json(indent=1).encode()
    if champion:
        theirs = f"champion.{task.lang}"
        members |= {"champion.json": _champion_facts(champion), theirs: champion.submission.source}
    members |= {f"tasks/{name}": content for name, content in task_files(task).items()}
    manifest = Manifest(members={name: sha256(content) for name, content in members.items()})
    packed = zip_of({"manifest.json": manifest.model_dump_json(indent=1).encode(), **members})
    _require_same_edition(task, read_bundle(packed))
    return packed


def zip_of(members: Mapping[str, bytes]) -> bytes:
    """A zip whose bytes depend only on its members: no timestamps, no users."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)  # dated 1980-01-01
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
    return made.getvalue()


def _champion_facts(champion: Champion) -> bytes:
    facts = ChampionFacts(
        login=champion.submission.login,
        user_id=champion.submission.user_id,
        digest=champion.submission.digest,
        score=champion.score,
        nominal_us=champion.nominal_us,
        earlier=champion.earlier,
    )
    return facts.model_dump_json(indent=1).encode()


def task_files(task: Task) -> dict[str, bytes]:
    """The files of the task's folder, and those that its task.yml names outside, by path below the folder of tasks."""
    tree = task.folder.parent
    inside = [
        path
        for path in sorted(task.folder.rglob("*"))
        # A link may lead anywhere.  Files that the task names were already checked to be in the tree.
        if path.is_file() and path.resolve().is_relative_to(tree) and path.stat().st_size <= MAX_FILE_BYTES
    ]
    paths = {path.relative_to(tree).as_posix(): path for path in [*inside, *_named_files(task)]}
    return {
        name: path.read_bytes()
        for name, path in sorted(paths.items())
        if TASK_FILE.fullmatch(f"tasks/{name}") and "__pycache__" not in name
    }


def _named_files(task: Task) -> list[Path]:
    file, _ = read_task_file(task.folder, Faults(task.folder / "task.yml"))
    assert file, "the task was loaded before"
    sources = [entry.source for entry in file.files if entry.source]
    return [*sources, *file.templates.values(), *([file.anchor] if file.anchor else [])]


def _require_same_edition(task: Task, bundle: Bundle) -> None:
    """Raise TaskError unless the judge will load the same edition of the task as is on `main`."""
    with bundle.open_board() as board:
        if board.edition != task.board(bundle.order.gpu).edition:
            raise TaskError(
                f"{task.name}: some of its files cannot be packed; use only letters, digits and _.+- in file names"
            )
