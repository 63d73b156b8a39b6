"""The judge's own command, for the machine that judges: no GitHub, no scripts, no checkout.

    python -I harness.pyz judge BUNDLE --out judgement.json [--digest SHA256] [--sandbox auto] [--run-url URL]
                                [--reports FOLDER]
    python -I harness.pyz check TASKS --out checked.jsonl [--digest SHA256] [--minutes 50]

    BUNDLE          the zip that `resolve` made, or the folder that holds it as bundle.zip
    TASKS           the zip that `prepare-check` made: tasks that nobody trusts, judged behind walls of their own
    judgement.json, checked.jsonl     written whole, or not at all
    FOLDER          for the reports of ncu or rocprofv3, in the mode `profile`: profile-1.ncu-rep, ...
    error.json      beside it, if there is none: {"format": "pullrank-error", "version": 1, "message": ...}

It needs what the machine's Python must bring: torch, pydantic 2.12 and PyYAML 6.  So nothing but the standard library
is imported before that has been looked at.  Exit codes: 0 accepted, 1 judged and not accepted, 2 the bundle or the call
is wrong, 3 judging error.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import json
import os
import signal
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from harness.records.errors import JudgeError, PullRankError

if TYPE_CHECKING:
    from harness.records.progress import Progress

_MIN_PYTHON = (3, 11)
_MIN_PYDANTIC = (2, 12)
_INTERRUPTED = 130


def main() -> NoReturn:
    """Being told to end is an exception, too, so that all we started ends with us."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run(sys.argv[1:]))


def _terminated(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise SystemExit(128 + number)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; whatever went wrong stands in error.json, and on stderr."""
    options = _options(arguments)
    if options.command == "examples":
        return _print_examples(options.tasks)
    out: Path = options.out
    trouble = out.with_name("error.json")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        for stale in (out, trouble):
            stale.unlink(missing_ok=True)
        if options.command == "judge" and options.reports:
            _empty(options.reports)
        made = _check(options) if options.command == "check" else _judge(options)
        _write(out, made.text)
    except PullRankError as error:
        return _complain(trouble, str(error), error.exit_code)
    except KeyboardInterrupt:
        return _complain(trouble, "the judge was told to stop", _INTERRUPTED)
    except Exception as error:
        traceback.print_exc()
        return _complain(trouble, f"a fault of ours: {type(error).__name__}: {error}", 3)
    _say(f"{made.summary}, written to {out}")
    return made.exit_code


@dataclass(frozen=True, kw_only=True)
class _Made:
    """What a command writes, and says."""

    text: str
    summary: str
    exit_code: int = 0


def _empty(reports: Path) -> None:
    """Before anything else: what is left behind by another participant's profile must never be taken for this one's."""
    reports.mkdir(parents=True, exist_ok=True)
    for stale in reports.glob("profile-*"):
        if not stale.is_dir():
            stale.unlink()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="harness.pyz", description="Judge one bundle on this machine.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="judge | check")
    judge = commands.add_parser("judge", help="judge one bundle")
    judge.add_argument("bundle", type=Path, help="the bundle, or the folder that holds it as bundle.zip")
    judge.add_argument("--sandbox", choices=["auto", "bubblewrap", "none"], default="auto", help="the walls")
    judge.add_argument("--run-url", type=_url, default=_own_run(), help="where to read how it went. Default: this run")
    judge.add_argument("--reports", type=Path, help="folder for the full reports of a GPU vendor's profiler")
    check = commands.add_parser("check", help="judge all examples of tasks that nobody trusts")
    check.add_argument("tasks", type=Path, help="the zip of the tasks")
    check.add_argument("--minutes", type=float, default=50, help="what is not judged by then is left out. Default: 50")
    for command, name in ((judge, "judgement"), (check, "results")):
        command.add_argument("--out", type=Path, required=True, help=f"where to write the {name}")
        command.add_argument("--digest", help="what the zip's SHA-256 must be")
    # For `check`, behind its walls.
    commands.add_parser("examples").add_argument("tasks", type=Path)
    return parser.parse_args(arguments)


def _own_run() -> str | None:
    """The page of the workflow run that we are part of."""
    server, repository, run = (os.environ.get(f"GITHUB_{key}") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None


def _url(text: str) -> str:
    if len(text) > 500 or not text.isprintable() or not text.startswith(("https://", "http://")):
        raise argparse.ArgumentTypeError("must be an http:// or https:// URL of at most 500 characters")
    return text


def _judge(options: argparse.Namespace) -> _Made:
    _require_machine()
    try:
        from harness.judge import judge
        from harness.task.bundle import read_bundle
    except ImportError as error:
        raise JudgeError(f"{sys.executable}: a library is missing or too old ({error}); {_REMEDY}") from None

    bundle = read_bundle(_read(options.bundle, "bundle.zip"), options.digest)
    _require_this_harness(bundle.harness)
    order = bundle.order
    _say(f"request {order.id}: {order.task} on {order.gpu}, {order.mode}, file of {order.login}")
    with bundle.open_board() as board:
        judgement = judge(
            board,
            bundle.submission,
            order.mode,
            sandbox=options.sandbox,
            champion=bundle.champion,
            on_progress=_show,
            run_url=options.run_url,
            reports=options.reports,
        )
    verdict = judgement.verdict
    exit_code = {"AC": 0, "JE": 3}.get(verdict.value, 1)
    return _Made(text=judgement.to_json(), summary=f"{verdict} {verdict.label}", exit_code=exit_code)


def _check(options: argparse.Namespace) -> _Made:
    """Judge the examples of tasks that nobody trusts: in a process of its own, behind walls."""
    _require_machine()
    from harness.task_check.task_check import check_behind_walls

    archive = Path(sys.argv[0])
    if not zipfile.is_zipfile(archive):
        raise PullRankError("`check` takes itself behind the walls: run it as harness.pyz")
    tasks = _read(options.tasks, "tasks.zip")
    lines = check_behind_walls(tasks, archive.read_bytes(), digest=options.digest, minutes=options.minutes)
    # Not read here: they are as hostile as the tasks.
    return _Made(text=lines.decode("utf-8", "replace"), summary=f"{len(lines.splitlines())} lines")


def _print_examples(tasks: Path) -> int:
    from harness.task_check.task_check import print_results

    try:
        print_results(_read(tasks, "tasks.zip"))
    except PullRankError as error:
        _say(" ".join(str(error).split())[:2000])
        return error.exit_code
    return 0


def _read(path: Path, name: str) -> bytes:
    """A zip, or the one of that name in a folder."""
    path = path / name if path.is_dir() else path
    try:
        return path.read_bytes()
    except OSError as error:
        raise PullRankError(f"{path} cannot be read: {error.strerror}") from None


_REMEDY = "it takes torch, pydantic 2.12 and PyYAML 6: pip install torch 'pydantic>=2.12,<3' 'pyyaml>=6,<7'"


def _require_machine() -> None:
    if sys.version_info < _MIN_PYTHON:
        raise JudgeError(f"{sys.executable} is Python {sys.version.split()[0]}; the judge needs 3.11 or later")
    missing = [name for name in ("torch", "pydantic", "yaml") if importlib.util.find_spec(name) is None]
    if missing:
        raise JudgeError(f"{sys.executable} has no {' and no '.join(missing)}; {_REMEDY}")
    pydantic = importlib.metadata.version("pydantic")
    if tuple(map(int, pydantic.split(".")[:2])) < _MIN_PYDANTIC:
        raise JudgeError(f"{sys.executable} has pydantic {pydantic}; {_REMEDY}")


def _require_this_harness(packed: bytes) -> None:
    """A bundle is judged by the harness that came with it: which one that is, the judgement says."""
    archive = Path(sys.argv[0])
    if zipfile.is_zipfile(archive) and archive.read_bytes() != packed:
        raise PullRankError(f"{archive} is not the harness of this bundle; take the one that came with it")


def _show(progress: Progress) -> None:
    part = f" {progress.done + 1} of {progress.total}" if progress.total > 1 else ""
    left = f", about {progress.seconds_left:.0f} s left" if progress.seconds_left else ""
    _say(f"{progress.step}{part}{left}")


def _complain(trouble: Path, message: str, exit_code: int) -> int:
    line = " ".join(message.split())[:2000]
    _say(line)
    with contextlib.suppress(OSError):  # then stderr alone has to tell
        _write(trouble, json.dumps({"format": "pullrank-error", "version": 1, "message": line}) + "\n")
    return exit_code


def _write(path: Path, text: str) -> None:
    """A file that appears whole or not at all."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as draft:
        draft.write(text)
    os.chmod(draft.name, 0o644)
    os.replace(draft.name, path)


def _say(line: str) -> None:
    # GitHub reads commands from a job's output, at the beginning of a line.
    sys.stderr.write(f"judge: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
