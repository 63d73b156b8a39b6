"""The command of the judging machine.  It needs no GitHub access and no checkout.

    python -I harness.pyz judge BUNDLE --out judgement.json [--digest SHA256] [--sandbox auto] [--run-url URL]
                                [--reports FOLDER]
    python -I harness.pyz check TASKS --out checked.jsonl [--digest SHA256] [--minutes 50]

    BUNDLE          the zip made by `resolve`, or the folder that contains it as bundle.zip
    TASKS           the zip made by `prepare-check`: untrusted tasks, judged in an outer sandbox
    judgement.json, checked.jsonl     written atomically
    FOLDER          for the reports of ncu or rocprofv3, in mode `profile`: profile-1.ncu-rep, ...
    error.json      written next to --out on failure: {"format": "pullrank-error", "version": 1, "message": ...}

The machine's Python must have torch, pydantic 2.12 and PyYAML 6.  Only the standard library is imported before this is
checked.  Exit codes: 0 accepted, 1 judged, not accepted, 2 invalid bundle or usage, 3 judging error.
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
    from harness.processes.other_work import OtherWorkRule
    from harness.records.progress import Progress

_MIN_PYTHON = (3, 11)
_MIN_PYDANTIC = (2, 12)
_INTERRUPTED = 130
OTHER_WORK = "PULLRANK_OTHER_WORK"
"""An environment variable with this machine's rule for other work in ranked judgings: an `OtherWorkRule`."""


def main() -> NoReturn:
    """Turn SIGTERM into an exception, so that cleanup code stops all child processes."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(run(sys.argv[1:]))


def _terminated(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    raise SystemExit(128 + number)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; errors go to error.json and stderr.  Returns the exit code."""
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
        return _report_error(trouble, str(error), error.exit_code)
    except KeyboardInterrupt:
        return _report_error(trouble, "the judge was interrupted", _INTERRUPTED)
    except Exception as error:
        traceback.print_exc()
        return _report_error(trouble, f"internal error: {type(error).__name__}: {error}", 3)
    _say(f"{made.summary}, written to {out}")
    return made.exit_code


@dataclass(frozen=True, kw_only=True)
class _CommandOutput:
    """Output of a command: file content, summary line, exit code."""

    text: str
    summary: str
    exit_code: int = 0


def _empty(reports: Path) -> None:
    """Delete reports of earlier profiles, so that another participant's are never taken for this one's."""
    reports.mkdir(parents=True, exist_ok=True)
    for stale in reports.glob("profile-*"):
        if not stale.is_dir():
            stale.unlink()


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="harness.pyz", description="Judge one bundle on this machine.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="judge | check")
    judge = commands.add_parser("judge", help="judge one bundle")
    judge.add_argument("bundle", type=Path, help="the bundle, or the folder that contains it as bundle.zip")
    judge.add_argument("--sandbox", choices=["auto", "bubblewrap", "none"], default="auto", help="the kind of sandbox")
    judge.add_argument("--run-url", type=_url, default=_own_run(), help="page of the workflow run. Default: this run")
    judge.add_argument("--reports", type=Path, help="folder for the full reports of a GPU vendor's profiler")
    check = commands.add_parser("check", help="judge all examples of untrusted tasks")
    check.add_argument("tasks", type=Path, help="the zip of the tasks")
    check.add_argument("--minutes", type=float, default=50, help="time limit; the rest is not judged. Default: 50")
    for command, name in ((judge, "judgement"), (check, "results")):
        command.add_argument("--out", type=_file, required=True, help=f"where to write the {name}")
        command.add_argument("--digest", help="expected SHA-256 of the zip")
    # Used by `check`, inside its sandbox.
    commands.add_parser("examples").add_argument("tasks", type=Path)
    return parser.parse_args(arguments)


def _own_run() -> str | None:
    """The page of the current workflow run."""
    server, repository, run = (os.environ.get(f"GITHUB_{key}") for key in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run else None


def _url(text: str) -> str:
    if len(text) > 500 or not text.isprintable() or not text.startswith(("https://", "http://")):
        raise argparse.ArgumentTypeError("must be an http:// or https:// URL of at most 500 characters")
    return text


def _file(text: str) -> Path:
    path = Path(text)
    if path.is_dir():  # also the empty path, which is the current folder
        raise argparse.ArgumentTypeError("must be the path of a file")
    return path


def _judge(options: argparse.Namespace) -> _CommandOutput:
    _require_machine()
    try:
        from harness.judge import judge
        from harness.processes.other_work import OtherWorkRule
        from harness.records.fields import Mode
        from harness.task.bundle import read_bundle
    except ImportError as error:
        raise JudgeError(f"{sys.executable}: a library is missing or too old ({error}); {_REMEDY}") from None

    bundle = read_bundle(_read(options.bundle, "bundle.zip"), options.digest)
    _require_this_harness(bundle.harness)
    order = bundle.order
    _say(f"request {order.id}: {order.task} on {order.gpu}, {order.mode}, file of {order.login}")
    with bundle.open_board() as board:
        profiled = board.benchmarks_to_profile(order.case)
        if order.case and not profiled:
            raise PullRankError(f"request {order.id}: {board.task.name} has no benchmark {order.case} on {board.gpu}")
        judgement = judge(
            board,
            bundle.submission,
            order.mode,
            sandbox=options.sandbox,
            champion=bundle.champion,
            on_progress=_show,
            run_url=options.run_url,
            reports=options.reports,
            profiled=profiled,
            launches=order.launches,
            other_work=rule_of_this_machine() if order.mode is Mode.RANKED else OtherWorkRule.ALLOW,
        )
    verdict = judgement.verdict
    exit_code = {"AC": 0, "JE": 3}.get(verdict.value, 1)
    return _CommandOutput(text=judgement.to_json(), summary=f"{verdict} {verdict.label}", exit_code=exit_code)


def rule_of_this_machine() -> OtherWorkRule:
    """This machine's rule for other work in ranked judgings.  Raises JudgeError if it is unknown."""
    from harness.processes.other_work import OtherWorkRule

    wanted = os.environ.get(OTHER_WORK) or OtherWorkRule.REFUSE
    if wanted not in list(OtherWorkRule):
        raise JudgeError(f"this machine's {OTHER_WORK} is {wanted!r}: it must be allow, avoid or refuse")
    return OtherWorkRule(wanted)


def _check(options: argparse.Namespace) -> _CommandOutput:
    """Judge the examples of untrusted tasks, in a sandboxed process."""
    _require_machine()
    from harness.task_check.task_check import check_in_outer_sandbox

    archive = Path(sys.argv[0])
    if not zipfile.is_zipfile(archive):
        raise PullRankError("`check` copies itself into the sandbox: run it as harness.pyz")
    tasks = _read(options.tasks, "tasks.zip")
    lines = check_in_outer_sandbox(tasks, archive.read_bytes(), digest=options.digest, minutes=options.minutes)
    # Not parsed here: the lines are as untrusted as the tasks.
    return _CommandOutput(text=lines.decode("utf-8", "replace"), summary=f"{len(lines.splitlines())} lines")


def _print_examples(tasks: Path) -> int:
    from harness.task_check.task_check import print_results

    try:
        print_results(_read(tasks, "tasks.zip"))
    except PullRankError as error:
        _say(" ".join(str(error).split())[:2000])
        return error.exit_code
    return 0


def _read(path: Path, name: str) -> bytes:
    """Read a zip, or the one called `name` in a folder."""
    path = path / name if path.is_dir() else path
    try:
        return path.read_bytes()
    except OSError as error:
        raise PullRankError(f"{path} cannot be read: {error.strerror}") from None


_REMEDY = "the judge needs torch, pydantic 2.12 and PyYAML 6: pip install torch 'pydantic>=2.12,<3' 'pyyaml>=6,<7'"


def _require_machine() -> None:
    if sys.version_info < _MIN_PYTHON:
        raise JudgeError(f"{sys.executable} is Python {sys.version.split()[0]}; the judge needs 3.11 or later")
    missing = [name for name in ("torch", "pydantic", "yaml") if importlib.util.find_spec(name) is None]
    if missing:
        raise JudgeError(f"{sys.executable} lacks {' and '.join(missing)}; {_REMEDY}")
    pydantic = importlib.metadata.version("pydantic")
    if tuple(map(int, pydantic.split(".")[:2])) < _MIN_PYDANTIC:
        raise JudgeError(f"{sys.executable} has pydantic {pydantic}; {_REMEDY}")


def _require_this_harness(packed: bytes) -> None:
    """Check that this is the bundle's own harness, whose digest the judgement records."""
    archive = Path(sys.argv[0])
    if zipfile.is_zipfile(archive) and archive.read_bytes() != packed:
        raise PullRankError(f"{archive} is not the harness of this bundle; take the one that came with it")


def _show(progress: Progress) -> None:
    part = f" {progress.done + 1} of {progress.total}" if progress.total > 1 else ""
    left = f", about {progress.seconds_left:.0f} s left" if progress.seconds_left else ""
    _say(f"{progress.step}{part}{left}")


def _report_error(trouble: Path, message: str, exit_code: int) -> int:
    line = " ".join(message.split())[:2000]
    _say(line)
    with contextlib.suppress(OSError):  # then the message is on stderr only
        _write(trouble, json.dumps({"format": "pullrank-error", "version": 1, "message": line}) + "\n")
    return exit_code


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as draft:
        draft.write(text)
    os.chmod(draft.name, 0o644)
    os.replace(draft.name, path)


def _say(line: str) -> None:
    # The prefix prevents GitHub from reading a line as a workflow command.
    sys.stderr.write(f"judge: {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
