"""One participant's file: read and parsed, never run.

    submissions/<task>/<login>/submission.py          the path names task and author
    tasks/<task>/examples/<verdict>/<file>.py         examples are submissions, too
    #!POPCORN leaderboard <task>                      directives, in the first block of comments
    #!POPCORN gpus H100 A100                          (in a .cu file `//!POPCORN`; also PULLRANK for POPCORN)
    #!PULLRANK needs numba                            packages and programs that not every judge has

A file that cannot be judged has a `fault`, and the judge returns CE with that message.  A `SubmissionError` is raised
only if there is nothing to judge: the file is missing, or its task is unknown.
"""

from __future__ import annotations

import ast
import codecs
import hashlib
import io
import os
import re
import sys
import tokenize
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from harness.records.errors import SubmissionError, did_you_mean
from harness.records.fields import LOGIN
from harness.records.stats import Interval
from harness.task.faults import display
from harness.task.python_file import parse_python

MAX_BYTES = 256 * 1024
ENTRY_POINT = "custom_kernel"

_DIRECTIVE = re.compile(r"(?:#|//)!(?:POPCORN|PULLRANK)(?!\w)(.*)")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
_KEYS = {"leaderboard": "leaderboard", "gpus": "gpus", "gpu": "gpus", "needs": "needs"}


@dataclass(frozen=True, kw_only=True)
class Directives:
    """The directives of a file.  Without `gpus`, it is judged on every board of its task.

    `needs` lists Python packages and programs that not every judge has; see `harness.task_check.needs`.
    """

    leaderboard: str | None = None
    gpus: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileFingerprint:
    """Digest and line count of a file that is too large to keep in memory."""

    digest: str
    lines: int


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A file and its author.  `user_id`, `pull_request` and `head_sha` are None outside GitHub.

    If the file is too large, `source` is only its beginning, and `whole` describes all of it.
    """

    login: str
    source: bytes
    name: str = "submission.py"
    user_id: int | None = None
    pull_request: int | None = None
    head_sha: str | None = None
    whole: FileFingerprint | None = None

    @property
    def digest(self) -> str:
        return self.whole.digest if self.whole else hashlib.sha256(self.source).hexdigest()

    @property
    def is_compiled(self) -> bool:
        return not self.name.endswith(".py")

    @property
    def text(self) -> str:
        return self.source.decode("utf-8-sig", "replace")

    @property
    def lines(self) -> int:
        if self.whole:
            return self.whole.lines
        return self.source.count(b"\n") + (not self.source.endswith(b"\n") and bool(self.source))

    @property
    def language(self) -> str:
        return language_of(self.text, Path(self.name).suffix)

    @cached_property
    def fault(self) -> str | None:
        """Why the file cannot be judged, with what its author can do about it; None if it can."""
        return self.find_fault(needs_kernel=True)

    def find_fault(self, *, needs_kernel: bool) -> str | None:
        """As `fault`.  `needs_kernel`: require `custom_kernel`, which a task's own program may not need."""
        try:
            _require_text(self)
            read_directives(self.text, self.name)
            if self.name.endswith(".py"):
                tree = _parse(self)
                if needs_kernel:
                    _require_kernel(self, tree)
        except SubmissionError as error:
            return str(error)
        return None


@dataclass(frozen=True, kw_only=True)
class Champion:
    """The leader of a board; a submission that could take first place duels it.

    `nominal_us` are the anchor's times on this board, one per benchmark; `score` is in microseconds, too.  `earlier`
    counts the duels that the challenger's author has played against this file without a result.
    """

    submission: Submission
    score: Interval
    nominal_us: tuple[float, ...]
    earlier: int = 0


def read_directives(text: str, name: str = "submission.py") -> Directives:
    """The directives in a file's first block of comments.

    Raises:
        SubmissionError: a directive is unknown, repeated or lacks its argument; the message names the line.
    """
    found: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        if not line.lstrip().startswith(("#", "//")):
            break
        if directive := _DIRECTIVE.match(line.strip()):
            try:
                key, values = _directive(directive[1].split())
                if key in found:
                    raise ValueError(f"duplicate directive '{key}'")
            except ValueError as error:
                raise SubmissionError(f"{name}:{number}: {error}") from None
            found[key] = values
    return Directives(
        leaderboard=found.get("leaderboard", (None,))[0], gpus=found.get("gpus", ()), needs=found.get("needs", ())
    )


def _directive(words: list[str]) -> tuple[str, tuple[str, ...]]:
    """The directive's key and arguments."""
    if not words or words[0] not in _KEYS:
        word = words[0][:60] if words else ""
        raise ValueError(
            f"unknown directive '{word}'{did_you_mean(word, _KEYS) or '; write leaderboard, gpus or needs'}"
        )
    key, values = _KEYS[words[0]], tuple(words[1:])
    if not values:
        raise ValueError(f"'{words[0]}' needs a name")
    if key == "leaderboard" and len(values) > 1:
        raise ValueError(f"'leaderboard' takes one name, not {len(values)}")
    seen: set[str] = set()
    for value in values:
        if not _NAME.fullmatch(value):
            raise ValueError(f"{value[:60]!r} is not a name; names are separated by spaces")
        if value in seen:
            raise ValueError(f"'{value}' appears twice")
        seen.add(value)
    return key, values


def read_submission(path: Path, *, login: str | None = None) -> Submission:
    """Read a file to be judged.  Its content is not checked here.

    Args:
        login: the author.  Default: the login in the path (`submissions/<task>/<login>/`), or `local`.

    Raises:
        SubmissionError: there is no such file, or it is neither .py nor .cu.
    """
    if path.is_dir():
        inside = next((str(path / name) for name in ("submission.py", "submission.cu") if (path / name).is_file()), "")
        raise SubmissionError(f"{path} is a folder; give the path of the file{inside and ': '}{inside}")
    if path.is_symlink() and not path.exists():
        raise SubmissionError(f"{path} is a link to {path.readlink()}, which leads to no file")
    if path.exists() and not path.is_file():
        raise SubmissionError(f"{path} is not a plain file")
    if not path.is_file():
        near = did_you_mean(path.name, (other.name for other in path.parent.glob("*.[pc][yu]")))
        raise SubmissionError(f"{path}: no such file{near}")
    if path.suffix not in (".py", ".cu"):
        raise SubmissionError(f"{path}: a submission must be a .py file, or a .cu file for tasks with lang: cu")
    try:
        with path.open("rb") as file:
            source = file.read(MAX_BYTES + 1)
            whole = _measure(file, source) if len(source) > MAX_BYTES else None
    except OSError as error:
        raise SubmissionError(f"{path} cannot be read: {error.strerror}") from None
    login = login or _login_in(path) or "local"
    return Submission(login=login, source=source, name=f"submission{path.suffix}", whole=whole)


def _measure(file: BinaryIO, beginning: bytes) -> FileFingerprint:
    """Digest and line count of a file of any size, of which `beginning` has already been read."""
    digest, lines, chunk = hashlib.sha256(), 0, beginning
    while chunk:
        digest.update(chunk)
        lines += chunk.count(b"\n")
        last = chunk
        chunk = file.read(MAX_BYTES)
    return FileFingerprint(digest=digest.hexdigest(), lines=lines + (not last.endswith(b"\n")))


def task_of(path: Path, submission: Submission) -> str | None:
    """The task of a file, from its path or its directive; None if neither names one.

    Raises:
        SubmissionError: path and directive disagree, or the path names no task and the directives are invalid.
    """
    placed = _task_in(path)
    try:
        named = read_directives(submission.text, submission.name).leaderboard
    except SubmissionError:
        if placed is None:
            raise
        return placed  # the judge reports the invalid directive
    if placed and named and placed != named:
        raise SubmissionError(
            f"{display(path)} is in the folder of '{placed}', but its directive says 'leaderboard {named}'. "
            f"Move the file to submissions/{named}/, or write '#!POPCORN leaderboard {placed}'."
        )
    return placed or named


def _task_in(path: Path) -> str | None:
    match Path(os.path.abspath(path)).parts[-5:]:
        case (_, "submissions", task, _, _) | ("tasks", task, "examples", _, _):
            return task
    return None


def _login_in(path: Path) -> str | None:
    match Path(os.path.abspath(path)).parts[-4:]:
        case ("submissions", _, login, _):
            if not re.fullmatch(LOGIN, login):
                raise SubmissionError(f"{path}: '{login}' is not a GitHub login; name the folder after the author")
            return login
    return None


def _require_text(submission: Submission) -> None:
    source, name = submission.source, submission.name
    if len(source) > MAX_BYTES:
        raise SubmissionError(
            f"{name} is larger than {MAX_BYTES // 1024} KiB. Compute tables and data instead of storing them."
        )
    if not source.strip():
        raise SubmissionError(f"{name} is empty. Start from the task's template.")
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise SubmissionError(f"{name} is saved as UTF-16. Save it as UTF-8.")
    if b"\0" in source:
        raise SubmissionError(f"{name} is binary, not source code.")
    try:
        source.decode()
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise SubmissionError(
            f"{name}:{line}: not UTF-8: byte 0x{source[error.start]:02x}. Save it as UTF-8."
        ) from None


def _require_kernel(submission: Submission, tree: ast.Module) -> None:
    names = {name for node in ast.walk(tree) for name in _names_made_by(node)}
    if not names & {ENTRY_POINT, "*"}:
        near = get_close_matches(ENTRY_POINT, sorted(names)[:1000], n=1, cutoff=0.8)
        hint = f"; rename {near[0]}" if near else ""
        raise SubmissionError(f"{submission.name} does not define {ENTRY_POINT}(data){hint}.")
    if names & {ENTRY_POINT, "*"} == {ENTRY_POINT}:
        _require_callable(submission, tree)


def _require_callable(submission: Submission, tree: ast.Module) -> None:
    """Refuse a file whose only definition of the kernel is a number, a text, a list or the like."""
    made = [node for node in ast.walk(tree) if ENTRY_POINT in _names_made_by(node)]
    for node in tree.body:
        match node:
            case ast.Assign(targets=[target], value=ast.Constant() | ast.List() | ast.Tuple() | ast.Dict() | ast.Set()):
                if made == [target]:
                    raise SubmissionError(
                        f"{submission.name}:{node.lineno}: {ENTRY_POINT} is not a function; define {ENTRY_POINT}(data)."
                    )


def _parse(submission: Submission) -> ast.Module:
    name = submission.name
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(submission.source).readline)
        tree = parse_python(submission.text, name)
    except SyntaxError as error:
        line = (error.text or "").strip()
        if line.startswith("//") and _DIRECTIVE.match(line):
            what = f"a comment in Python begins with #, not with //; write #{line[2:][:100]}"
        else:
            # The author's Python may be newer and know more.
            what = f"{type(error).__name__}: {error.msg} (Python {sys.version_info.major}.{sys.version_info.minor})"
        raise SubmissionError(f"{name}:{error.lineno or 1}: {what}") from None
    except (RecursionError, MemoryError):
        raise SubmissionError(f"{name} is nested too deeply for Python to parse.") from None
    # With another encoding, Python would run different text than reviewers and this check see.
    if encoding not in ("utf-8", "utf-8-sig"):
        raise SubmissionError(f"{name}:1: declares the encoding {encoding}. Only UTF-8 is allowed.")
    return tree


def _names_made_by(node: ast.AST) -> tuple[str, ...]:
    """Names that a statement may define.  Errs on the generous side; importing the file finds the rest."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.Name(id=name, ctx=ast.Store()):
            return (name,)
        case ast.alias(name=name, asname=asname):
            return (asname or name,)
        case ast.Constant(value=str(text)):  # globals()["custom_kernel"] = …, exec("def custom_kernel(data): …")
            return (ENTRY_POINT,) if text == ENTRY_POINT or f"def {ENTRY_POINT}(" in text else ()
    return ()


def language_of(source: str, suffix: str) -> str:
    """The language of a submission, guessed from suffix and imports; for display only."""
    if suffix == ".cu":
        return "CUDA C++" if re.search(r"__global__|__device__|<<<|\bcuda|\bcutlass\b|\bcute\b", source) else "C++"
    for pattern, language in _LANGUAGES:
        if re.search(pattern, source, re.MULTILINE):
            return language
    return "PyTorch" if re.search(r"^[ \t]*(import|from)\s+torch\b", source, re.MULTILINE) else "Python"


_LANGUAGES = (
    (r"\bload_inline\b|\bcpp_extension\b", "C++"),
    (r"^[ \t]*(import|from)\s+triton\b", "Triton"),
    (r"^[ \t]*(import|from)\s+cutlass\b", "CuTe DSL"),
    (r"^[ \t]*(import|from)\s+jax\b", "JAX"),
    (r"^[ \t]*(import|from)\s+cupy\b", "CuPy"),
    (r"^[ \t]*(import|from)\s+numba\b", "Numba"),
    (r"^[ \t]*(import|from)\s+ctypes\b", "C"),
)
