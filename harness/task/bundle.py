"""The bundle: all that one judging needs, as one zip, from the hosted machine to the judge's.

    manifest.json                    format, version, the SHA-256 of every other member
    request.json                     which task, GPU and mode; whose file, from which commit
    submission.py                    the participant's file (submission.cu for `lang: cu`)
    champion.py  champion.json       the first place's file, and its times; only where a duel may be due
    tasks/<task>/...  tasks/...      the task as it is on `main`, with the shared files around it
    toolchain.json                   what the board's machines compile with, as `main` says
    harness.pyz                      the judge itself, as it is on `main`

`scripts/bot/evaluate/packing.py` writes one.  Members are read into memory; names, sizes and digests are compared.
Only a task's files are written to disk, in a folder of our own, under names of letters, digits and `_.+-`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import ConfigDict, Field, PositiveInt, ValidationError

from harness.records.errors import PullRankError, TaskError
from harness.records.fields import Digest, Login, Microseconds, Mode, Model, Name, Sha
from harness.records.stats import Interval
from harness.task import submission as submission_file
from harness.task.submission import Champion, Submission
from harness.task.task import Board, load_task
from harness.task.task_values import MAX_FILE_BYTES
from harness.task.toolchain import Toolchain

HARNESS = "harness.pyz"
TOOLCHAIN = "toolchain.json"
MAX_BYTES = 32 * 1024 * 1024
"""Of the zip, and of all its members together."""

_MAX_MEMBERS = 2000
_MAX_FACTS = 512 * 1024
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}"
TASK_FILE = re.compile(rf"tasks(/{_PART}){{1,8}}")
"""The members that make a task."""

_SIZES = {
    "manifest.json": _MAX_FACTS,
    "request.json": _MAX_FACTS,
    "champion.json": _MAX_FACTS,
    TOOLCHAIN: _MAX_FACTS,
    HARNESS: 4 * 1024 * 1024,
    **{f"{who}.{kind}": submission_file.MAX_BYTES for who in ("submission", "champion") for kind in ("py", "cu")},
}
_SETS = tuple(
    {"request.json", TOOLCHAIN, HARNESS, f"submission.{kind}", *champion}
    for kind in ("py", "cu")
    for champion in ((), ("champion.json", f"champion.{kind}"))
)
"""What a bundle holds beside its manifest and its task: nothing more, nothing less."""


_Facts = TypeVar("_Facts", bound=Model)


class BundleError(PullRankError):
    """A bundle is torn, edited, or of a format that this version does not read."""


class Order(Model):
    """What the judge reads of a request; the rest of it is none of its business."""

    model_config = ConfigDict(extra="ignore")

    format: Literal["pullrank-request"]
    version: Literal[1]
    id: Name
    task: Name
    gpu: Name
    mode: Mode
    login: Login
    user_id: PositiveInt
    pull_request: PositiveInt
    head_sha: Sha
    digest: Digest | None = None


class ChampionFacts(Model):
    """What stands in champion.json: a `Champion` but for its file."""

    login: Login
    user_id: PositiveInt | None = None
    digest: Digest
    score: Interval
    nominal_us: Annotated[tuple[Microseconds, ...], Field(min_length=1)]


class Manifest(Model):
    format: Literal["pullrank-bundle"] = "pullrank-bundle"
    version: Literal[1] = 1
    members: dict[str, Digest]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A bundle that was read and found whole.  `task_files` go by their path below `tasks/`."""

    order: Order
    submission: Submission
    champion: Champion | None
    task_files: Mapping[str, bytes]
    toolchain: Toolchain
    harness: bytes

    @contextlib.contextmanager
    def open_board(self) -> Iterator[Board]:
        """The board to judge on; its task's files exist until the block ends.

        Raises:
            TaskError: the task is at fault, or has no such board.
        """
        with tempfile.TemporaryDirectory(prefix="pullrank-task-") as folder:
            tree = Path(folder).resolve()
            lay_out(self.task_files, tree)
            task = load_task(tree / self.order.task)
            if task.submission_name != self.submission.name:
                raise TaskError(f"{task.name} wants a {task.submission_name}, not a {self.submission.name}")
            yield replace(task.board(self.order.gpu), toolchain=self.toolchain)


def read_bundle(content: bytes, digest: str | None = None) -> Bundle:
    """Read a bundle.  `digest` is what its SHA-256 must be, where the caller knows.

    Raises:
        BundleError: anything about it is not as it must be; the message says what.
    """
    if digest is not None and sha256(content) != digest:
        raise BundleError("the bundle is not the one that was made for this judging: its SHA-256 differs")
    members = read_members(content, _SIZES)
    _require_known(members)
    suffix = "cu" if "submission.cu" in members else "py"
    order = parse_facts(Order, "request.json", members)
    if order.digest not in (None, sha256(members[f"submission.{suffix}"])):
        raise BundleError(f"submission.{suffix} is not the file that was asked for: its SHA-256 differs")
    return Bundle(
        order=order,
        submission=Submission(
            login=order.login,
            source=members[f"submission.{suffix}"],
            name=f"submission.{suffix}",
            user_id=order.user_id,
            pull_request=order.pull_request,
            head_sha=order.head_sha,
        ),
        champion=_read_champion(members, suffix) if "champion.json" in members else None,
        task_files=task_files_of(members),
        toolchain=parse_facts(Toolchain, TOOLCHAIN, members),
        harness=members[HARNESS],
    )


def task_files_of(members: Mapping[str, bytes]) -> dict[str, bytes]:
    """The members that make tasks, by their path below `tasks/`."""
    return {name.removeprefix("tasks/"): data for name, data in members.items() if name.startswith("tasks/")}


def lay_out(task_files: Mapping[str, bytes], tree: Path) -> None:
    """Write the files of tasks, whose names are known to be harmless, into a folder of ours."""
    for name, content in task_files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def read_members(content: bytes, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """The members of a zip: the files of tasks, and those that `sizes` names, in bytes at most.

    Raises:
        BundleError: there are others, or too much of them; nothing but their list has been read then.
    """
    if len(content) > MAX_BYTES:
        raise BundleError(f"a bundle has at most {MAX_BYTES // 2**20} MiB")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            _require_modest(infos, sizes)
            return {info.filename: _read(archive, info) for info in infos}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise BundleError(f"not a bundle: {error}") from None


def _require_modest(infos: list[zipfile.ZipInfo], sizes: Mapping[str, int]) -> None:
    """Before anything is unpacked: so few members, each once, each of a known name and a small size."""
    names = [info.filename for info in infos]
    if len(names) > _MAX_MEMBERS or sum(info.file_size for info in infos) > MAX_BYTES:
        raise BundleError(f"a bundle has at most {_MAX_MEMBERS} members, of {MAX_BYTES // 2**20} MiB together")
    if len(set(names)) != len(names):
        raise BundleError("a member stands twice")
    for info in infos:
        if info.filename not in sizes and not TASK_FILE.fullmatch(info.filename):
            raise BundleError(f"an unknown member: {info.filename[:100]!r}")
        if info.file_size > sizes.get(info.filename, MAX_FILE_BYTES):
            raise BundleError(f"{info.filename} is too large")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        content = file.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise BundleError(f"{info.filename} is not of the size that the zip claims")
    return content


def _require_known(members: dict[str, bytes]) -> None:
    """Exactly the members that the manifest names, with the digests that it names, and one of the known sets."""
    if "manifest.json" not in members:
        raise BundleError("manifest.json is missing")
    named = parse_facts(Manifest, "manifest.json", members).members
    rest = {name: content for name, content in members.items() if name != "manifest.json"}
    if rest.keys() != named.keys():
        raise BundleError(f"the manifest and the members differ: {', '.join(sorted(rest.keys() ^ named.keys())[:5])}")
    for name, content in rest.items():
        if sha256(content) != named[name]:
            raise BundleError(f"{name} was changed: its SHA-256 is not the manifest's")
    fixed = {name for name in rest if not name.startswith("tasks/")}
    if fixed not in _SETS:
        raise BundleError(f"these members make no bundle: {', '.join(sorted(fixed)) or 'none'}")


def _read_champion(members: dict[str, bytes], suffix: str) -> Champion:
    facts = parse_facts(ChampionFacts, "champion.json", members)
    source = members[f"champion.{suffix}"]
    if sha256(source) != facts.digest:
        raise BundleError(f"champion.{suffix} is not the file that champion.json tells of")
    champion = Submission(login=facts.login, source=source, name=f"submission.{suffix}", user_id=facts.user_id)
    return Champion(submission=champion, score=facts.score, nominal_us=facts.nominal_us)


def parse_facts(model: type[_Facts], name: str, members: Mapping[str, bytes]) -> _Facts:
    try:
        return model.model_validate_json(members[name])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BundleError(f"{name}: {'.'.join(map(str, first['loc'])) or 'all of it'}: {first['msg']}") from None


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
