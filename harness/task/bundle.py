"""The bundle: a zip with everything one judging needs, sent from a GitHub runner to the judge's machine.

    manifest.json                    format, version, SHA-256 of every other member
    request.json                     task, GPU, mode, author, commit
    submission.py                    the participant's file (submission.cu for `lang: cu`)
    champion.py  champion.json       the champion's file and times; only if a duel may be played
    tasks/<task>/...  tasks/...      the task from `main`, with the shared files around it
    toolchain.json                   the toolchain of the board's machines, from `main`
    harness.pyz                      the judge itself, from `main`

`scripts/bot/evaluate/packing.py` writes bundles.  Members are read into memory; names, sizes and digests are checked.
Only the task's files are written to disk, to a temporary folder, under names of letters, digits and `_.+-`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import ConfigDict, Field, PositiveInt, ValidationError

from harness.records.counters import LaunchFilter
from harness.records.errors import PullRankError, TaskError
from harness.records.fields import Digest, Login, Microseconds, Mode, Model, RecordName, Sha
from harness.records.stats import Interval
from harness.task import submission as submission_file
from harness.task.submission import Champion, Submission
from harness.task.task import Board, load_task
from harness.task.task_values import MAX_FILE_BYTES
from harness.task.toolchain import Toolchain

HARNESS = "harness.pyz"
TOOLCHAIN = "toolchain.json"
MAX_BYTES = 32 * 1024 * 1024
"""Size limit of the zip, and of all its members together."""

_MAX_MEMBERS = 2000
_MAX_FACTS = 512 * 1024
_PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}"
TASK_FILE = re.compile(rf"tasks(/{_PART}){{1,8}}")
"""Names of members that belong to tasks."""

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
"""The allowed sets of members besides the manifest and the task's files."""


NOT_A_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
"""Exceptions that Python raises for invalid zips."""
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Other methods of compression allocate as much memory as the zip demands."""

_Facts = TypeVar("_Facts", bound=Model)


class BundleError(PullRankError):
    """A bundle is truncated, edited, or in a format that this version does not read."""


class JudgingRequest(Model):
    """The fields of a request that the judge needs; it ignores the others."""

    model_config = ConfigDict(extra="ignore")

    format: Literal["pullrank-request"]
    version: Literal[1]
    id: RecordName
    task: RecordName
    gpu: RecordName
    mode: Mode
    login: Login
    user_id: PositiveInt
    pull_request: PositiveInt
    head_sha: Sha
    digest: Digest | None = None
    case: PositiveInt | None = None
    launches: LaunchFilter | None = None


class ChampionFacts(Model):
    """champion.json: a `Champion` without its file."""

    login: Login
    user_id: PositiveInt | None = None
    digest: Digest
    score: Interval
    nominal_us: Annotated[tuple[Microseconds, ...], Field(min_length=1)]
    earlier: Annotated[int, Field(ge=0, le=10**6)] = 0


class Manifest(Model):
    format: Literal["pullrank-bundle"] = "pullrank-bundle"
    version: Literal[1] = 1
    members: dict[str, Digest]


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A verified bundle.  `task_files` maps paths below `tasks/` to contents."""

    order: JudgingRequest
    submission: Submission
    champion: Champion | None
    task_files: Mapping[str, bytes]
    toolchain: Toolchain
    harness: bytes

    @contextlib.contextmanager
    def open_board(self) -> Iterator[Board]:
        """The board to judge on; its task's files exist until the block ends.

        Raises:
            TaskError: the task is invalid, or has no such board.
        """
        with tempfile.TemporaryDirectory(prefix="pullrank-task-") as folder:
            tree = Path(folder).resolve()
            lay_out(self.task_files, tree)
            task = replace(load_task(tree / self.order.task), shown=f"tasks/{self.order.task}")
            wanted = task.name_of(self.submission.digest)
            if wanted != self.submission.name:
                raise TaskError(f"{task.name} expects a {wanted}, not a {self.submission.name}")
            yield replace(task.board(self.order.gpu), toolchain=self.toolchain)


def read_bundle(content: bytes, digest: str | None = None) -> Bundle:
    """Read and verify a bundle.  `digest` is its expected SHA-256, if the caller knows it.

    Raises:
        BundleError: the bundle is invalid; the message says why.
    """
    if digest is not None and sha256(content) != digest:
        raise BundleError("this bundle was not made for this judging: its SHA-256 differs")
    members = read_members(content, _SIZES)
    _require_known(members)
    suffix = "cu" if "submission.cu" in members else "py"
    order = parse_facts(JudgingRequest, "request.json", members)
    if order.digest not in (None, sha256(members[f"submission.{suffix}"])):
        raise BundleError(f"submission.{suffix} is not the requested file: its SHA-256 differs")
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
    """The members that belong to tasks, by their path below `tasks/`."""
    return {name.removeprefix("tasks/"): data for name, data in members.items() if name.startswith("tasks/")}


def lay_out(files: Mapping[str, bytes], tree: Path) -> None:
    """Write files below `tree`, by path.  Foreign names must have been checked, as by `read_members`."""
    for name, content in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def read_members(content: bytes, sizes: Mapping[str, int]) -> dict[str, bytes]:
    """Read the members of a zip: task files, and the names in `sizes`, which maps them to maximum sizes in bytes.

    Raises:
        BundleError: there are unknown or too large members; only the zip's directory has been read by then.
    """
    if len(content) > MAX_BYTES:
        raise BundleError(f"the bundle is larger than {MAX_BYTES // 2**20} MiB")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            _require_modest(infos, sizes)
            return {info.filename: _read(archive, info) for info in infos}
    except NOT_A_ZIP as error:
        raise BundleError(f"not a bundle: {error}") from None


def _require_modest(infos: list[zipfile.ZipInfo], sizes: Mapping[str, int]) -> None:
    """Check the members' number, names, sizes and compression before anything is unpacked."""
    names = [info.filename for info in infos]
    if len(names) > _MAX_MEMBERS or sum(info.file_size for info in infos) > MAX_BYTES:
        raise BundleError(f"the bundle has more than {_MAX_MEMBERS} members, or {MAX_BYTES // 2**20} MiB unpacked")
    if len(set(names)) != len(names):
        raise BundleError("duplicate member")
    for info in infos:
        if info.filename not in sizes and not TASK_FILE.fullmatch(info.filename):
            raise BundleError(f"unknown member: {info.filename[:100]!r}")
        if info.compress_type not in COMPRESSIONS:
            raise BundleError(f"{info.filename} has an unknown compression method")
        if info.file_size > sizes.get(info.filename, MAX_FILE_BYTES):
            raise BundleError(f"{info.filename} is too large")


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as file:
        content = file.read(info.file_size + 1)
    if len(content) != info.file_size:
        raise BundleError(f"{info.filename} does not have the size that the zip declares")
    return content


def _require_known(members: dict[str, bytes]) -> None:
    """Check that members and digests match the manifest, and that the members form one of the allowed sets."""
    if "manifest.json" not in members:
        raise BundleError("manifest.json is missing")
    named = parse_facts(Manifest, "manifest.json", members).members
    rest = {name: content for name, content in members.items() if name != "manifest.json"}
    if rest.keys() != named.keys():
        raise BundleError(f"manifest and members differ: {', '.join(sorted(rest.keys() ^ named.keys())[:5])}")
    for name, content in rest.items():
        if sha256(content) != named[name]:
            raise BundleError(f"{name} was changed: its SHA-256 differs from the manifest's")
    fixed = {name for name in rest if not name.startswith("tasks/")}
    if fixed not in _SETS:
        raise BundleError(f"not a valid set of members: {', '.join(sorted(fixed)) or 'none'}")


def _read_champion(members: dict[str, bytes], suffix: str) -> Champion:
    facts = parse_facts(ChampionFacts, "champion.json", members)
    source = members[f"champion.{suffix}"]
    if sha256(source) != facts.digest:
        raise BundleError(f"champion.{suffix} is not the file that champion.json describes: its SHA-256 differs")
    champion = Submission(login=facts.login, source=source, name=f"submission.{suffix}", user_id=facts.user_id)
    return Champion(submission=champion, score=facts.score, nominal_us=facts.nominal_us, earlier=facts.earlier)


def parse_facts(model: type[_Facts], name: str, members: Mapping[str, bytes]) -> _Facts:
    try:
        return model.model_validate_json(members[name])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BundleError(f"{name}: {'.'.join(map(str, first['loc'])) or 'whole file'}: {first['msg']}") from None


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
