"""One fact is one file: a small JSON text, written atomically, never overwritten, read as hostile text.

    Fact            base class of all facts but judgements: strict fields, a format, a version
    write_new       write a file atomically, only if it does not exist
    read_plain      a file's bytes, unless it is a link, a pipe, or too large
    find_files      all files below a folder of the ledger, in order; unreadable folders are faults
    read_facts      the facts in such files; a file that is no fact, or is misplaced, is a fault

A torn, edited or misplaced file becomes a `LedgerFault`, and the rest is read.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import ValidationError

from harness.records.errors import PullRankError
from harness.records.fields import Model
from scripts.common.text import plain, shorten

F = TypeVar("F", bound="Fact")

MAX_BYTES = 64 * 1024
"""Size limit of a fact; larger files are not read.  Judgements have their own limit."""
_LONGEST_REASON = 500


class LedgerError(PullRankError):
    """A fact cannot be added to the ledger, or the ledger cannot be reached."""


class FactExists(LedgerError):
    """A fact of that name already exists, and is not overwritten."""


class FactError(ValueError):
    """A file of the ledger is not a fact, or not the one that belongs there; the message says which."""


@dataclass(frozen=True, kw_only=True)
class LedgerFault:
    """A file that is not a valid fact, or an unreadable folder, and why; `path` is relative to the ledger."""

    path: Path
    reason: str

    @property
    def facts(self) -> dict[str, str]:
        """For logs, pages and scripts: each field as one escaped line, since file names are untrusted."""
        return {"path": _one_line(str(self.path)), "reason": shorten(_one_line(self.reason), _LONGEST_REASON)}

    def __str__(self) -> str:
        return ": ".join(self.facts.values())


def _one_line(text: str) -> str:
    return plain(text).replace("\n", r"\n").replace("\t", r"\t")


class Fact(Model):
    """A fact of the ledger.  Each kind has its own `format` and `version`, and reads no other."""

    format: str
    version: int

    @property
    def place(self) -> Path | None:
        """Its file in the ledger; None if the fact alone does not determine it."""
        return None

    def to_json(self) -> str:
        """The file's text: the same fact always gives the same bytes."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a fact from untrusted text.

        Raises:
            FactError: torn, too large, or of another format or version; the message says which.
        """
        if len(text) > MAX_BYTES:
            raise FactError(f"larger than {MAX_BYTES // 1024} KiB")
        try:
            fields = json.loads(text, object_pairs_hook=_refuse_duplicates)
        except (ValueError, RecursionError) as error:
            raise FactError(f"not JSON: {error}") from None
        _require_format(fields, cls.model_fields["format"].default, cls.model_fields["version"].default)
        try:
            # Strict JSON mode: "1" is not 1, but an array is a tuple and an ISO string a time.
            return cls.model_validate_json(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise FactError(f"{'.'.join(map(str, first['loc'])) or cls.__name__.lower()}: {first['msg']}") from None


def _require_format(fields: object, name: str, version: int) -> None:
    if not isinstance(fields, dict) or fields.get("format") != name:
        raise FactError(f"not a {name}")
    if fields.get("version") != version:
        raise FactError(f"format version {fields.get('version')!r}; this PullRank reads version {version}")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("duplicate key")
    return fields


def write_new(path: Path, content: bytes, *, workshop: Path) -> None:
    """Write a file atomically.  A partial file may remain only in the folder `workshop`.

    Raises:
        FactExists: the name is taken.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=workshop, prefix=".incoming-") as draft:
        draft.write(content)
        draft.flush()
        os.fsync(draft.fileno())
        Path(draft.name).chmod(0o644)
        try:
            # A link, not a rename: it fails if the name is taken.
            os.link(draft.name, path)
        except FileExistsError:
            raise FactExists(f"{path} exists already; a ledger's files are never overwritten") from None


def read_plain(file: Path, max_bytes: int) -> bytes:
    """The bytes of a plain file.

    Raises:
        FactError: not a plain file, too large, or unreadable.
    """
    try:
        facts = file.lstat()
        if not stat.S_ISREG(facts.st_mode):
            raise FactError("not a plain file")
        if facts.st_size > max_bytes:
            size = f"{max_bytes // 2**20} MiB" if max_bytes >= 2**20 else f"{max_bytes // 1024} KiB"
            raise FactError(f"larger than {size}")
        with open(file, "rb", buffering=0) as plain:
            return plain.read()
    except OSError as error:
        raise FactError(f"cannot be read: {error.strerror}") from None


def find_files(ledger: Path, folder: str, faults: list[LedgerFault]) -> Iterator[Path]:
    """All files below a folder of the ledger, in order, relative to the ledger; unreadable folders are faults."""
    top = ledger / folder

    def note(error: OSError) -> None:
        where = Path(error.filename)
        # Before the first fact the folder does not exist.
        if where != top or os.path.lexists(top):
            faults.append(LedgerFault(path=where.relative_to(ledger), reason=f"cannot be read: {error.strerror}"))

    for where, subfolders, files in os.walk(top, onerror=note):
        subfolders.sort()
        # A link to a folder is not followed, but listed so that it is reported.
        links = [name for name in subfolders if os.path.islink(os.path.join(where, name))]
        place = Path(where).relative_to(ledger)
        for name in sorted([*files, *links]):
            yield place / name


def read_facts(
    ledger: Path, paths: Iterable[Path], kind: type[F], faults: list[LedgerFault]
) -> Iterator[tuple[Path, F]]:
    """The facts in these files, each with its path; a file that is no fact, or is misplaced, is a fault."""
    for path in paths:
        try:
            fact = kind.from_json(read_plain(ledger / path, MAX_BYTES))
            if fact.place not in (None, path):
                raise FactError(f"its content belongs in {fact.place}")
        except FactError as error:
            faults.append(LedgerFault(path=path, reason=str(error)))
        else:
            yield path, fact
