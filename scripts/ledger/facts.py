"""One fact, one file: a small JSON text, written whole or not at all, never written over, read as hostile text.

    Fact            base of what the ledger keeps beside judgements: strict fields, a format, a version
    write_new       a file that appears whole, and only where there was none
    read_plain      a file's bytes, unless it is a link, a pipe, or too large
    find_files      whatever lies under a folder of the ledger, in order; what cannot be read is named
    read_facts      those of them that hold a fact where it belongs; the others are named

A ledger is made of these.  What is torn, edited or out of place becomes a `LedgerFault`, and the rest is read.
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
"""Of a fact; larger files are refused unread.  Judgements have a limit of their own."""
_LONGEST_REASON = 500


class LedgerError(PullRankError):
    """A fact cannot be added to the ledger, or the ledger cannot be reached."""


class FactExists(LedgerError):
    """There is a fact of that name already, and it stands."""


class FactError(ValueError):
    """A file of the ledger holds no fact, or not the one that belongs there; the message says which."""


@dataclass(frozen=True, kw_only=True)
class LedgerFault:
    """A file that is no fact, or a folder that cannot be read, and why; `path` is relative to the ledger."""

    path: Path
    reason: str

    @property
    def facts(self) -> dict[str, str]:
        """For logs, pages and scripts: each in one line of harmless text, whatever somebody has called a file."""
        return {"path": _one_line(str(self.path)), "reason": shorten(_one_line(self.reason), _LONGEST_REASON)}

    def __str__(self) -> str:
        return ": ".join(self.facts.values())


def _one_line(text: str) -> str:
    return plain(text).replace("\n", r"\n").replace("\t", r"\t")


class Fact(Model):
    """What the ledger keeps.  Each kind names its own `format` and `version`, and reads no other."""

    format: str
    version: int

    @property
    def place(self) -> Path | None:
        """Its file in the ledger; None where that does not follow from the fact alone."""
        return None

    def to_json(self) -> str:
        """The file's text: the same fact is always the same bytes."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a fact as the hostile text that it is.

        Raises:
            FactError: torn, too large, or not of this format and version; the message says which.
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
        raise ValueError("a key stands twice")
    return fields


def write_new(path: Path, content: bytes, *, workshop: Path) -> None:
    """Write a file that appears whole or not at all.  Half of one may only ever lie in the workshop.

    Raises:
        FactExists: there is something of that name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=workshop, prefix=".incoming-") as draft:
        draft.write(content)
        draft.flush()
        os.fsync(draft.fileno())
        os.fchmod(draft.fileno(), 0o644)
        try:
            # A link, not a rename: it fails where the name is taken.
            os.link(draft.name, path)
        except FileExistsError:
            raise FactExists(f"{path} exists already; a ledger's files are never written over") from None


def read_plain(file: Path, max_bytes: int) -> bytes:
    """The bytes of a plain file, or a FactError that says why they are not read."""
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
    """Whatever lies under a folder of the ledger, in order, relative to the ledger; unreadable folders are faults."""
    top = ledger / folder

    def note(error: OSError) -> None:
        where = Path(error.filename)
        # Before the first fact there is nothing to read.
        if where != top or os.path.lexists(top):
            faults.append(LedgerFault(path=where.relative_to(ledger), reason=f"cannot be read: {error.strerror}"))

    for where, subfolders, files in os.walk(top, onerror=note):
        subfolders.sort()
        # A link to a folder is not followed, and must not vanish silently.
        links = [name for name in subfolders if os.path.islink(os.path.join(where, name))]
        place = Path(where).relative_to(ledger)
        for name in sorted([*files, *links]):
            yield place / name


def read_facts(
    ledger: Path, paths: Iterable[Path], kind: type[F], faults: list[LedgerFault]
) -> Iterator[tuple[Path, F]]:
    """The facts in files of the ledger, each with its path; what is none, or lies in another's place, is a fault."""
    for path in paths:
        try:
            fact = kind.from_json(read_plain(ledger / path, MAX_BYTES))
            if fact.place not in (None, path):
                raise FactError(f"its contents belong into {fact.place}")
        except FactError as error:
            faults.append(LedgerFault(path=path, reason=str(error)))
        else:
            yield path, fact
