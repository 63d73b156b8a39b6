"""`pullrank task import --mend`: complete an imported task until it passes its own check, as far as that is possible.

    mend_files   by reading      examples, files, description, needs
    a trial      `task check`    which wrong forms the check accepts; which examples are right on this machine
                                   ├─ reference.py   compares structure, shapes and dtypes before the task's own check
                                   ├─ accepted       examples that are not right are left out
                                   └─ anchor         the first that is right and needs nothing, or the reference itself
    a trial      once more       what is still at fault

If this machine lacks the board's GPU, a copy for the CPU is tried, with the last test as its only benchmark.  No
example is blamed for what happens there.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from harness.records.verdict import Verdict
from scripts.common.text import plain
from scripts.competition.repository import choose_board
from scripts.kernelbot.convert import ACCEPTED_REFERENCE, Converted, accepted_reference, for_this_task
from scripts.kernelbot.device_alias import without_cuda
from scripts.kernelbot.files import FoundTask
from scripts.kernelbot.kind import parse
from scripts.kernelbot.mend_files import (
    Files,
    values_of,
    with_all_needs,
    with_files_it_reads,
    with_set,
    with_submissions,
    with_values,
)
from scripts.kernelbot.needs import declared_needs
from scripts.tasks.check_board import Report, why_not_here
from scripts.tasks.check_process import check_tasks
from scripts.tasks.writing import write_task

_ACCEPTED = "examples/accepted/"

_FORM = '''

# Added by `pullrank task import --mend`: the check above accepts {accepts}.
from copy import deepcopy as _copy

from harness.checker import mismatch as _mismatch

_check_values = check_implementation


def check_implementation({first}, {second}):
    """Compare structure, shapes and dtypes with the reference's answer, then the values as before."""
    message = _mismatch({compared})
    return (False, message) if message else _check_values({first}, {second})
'''
_NEW_FORM = {"first": "data", "second": "output", "compared": "output, ref_kernel(_copy(data))"}
_OLDEST_FORM = {"first": "output", "second": "reference_output", "compared": "output, reference_output"}


@dataclass(frozen=True, kw_only=True)
class Mended:
    """The files of the completed task, and notes about them."""

    files: Files
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """A task's check.  `is_copy`: of a copy for the CPU."""

    report: Report
    is_copy: bool

    @property
    def right(self) -> set[str]:
        """The accepted examples that are right here, by their paths in the task's folder."""
        examples = {f"examples/{one.example.place}": one.is_good for _, one in self.report.examples}
        return {path for path, is_good in examples.items() if is_good and path.startswith(_ACCEPTED)}

    @property
    def wrong(self) -> set[str]:
        """The accepted examples that got WA here."""
        return {path for path, why in self.others.items() if path.startswith(_ACCEPTED) and why.startswith("WA")}

    @property
    def others(self) -> dict[str, str]:
        """The examples that were judged, but not as their folders say, each with its verdict and message."""
        return {
            f"examples/{one.example.place}": f"{one.got}: {one.message}".splitlines()[0].removesuffix(": ")
            for _, one in self.report.examples
            if one.got not in (None, one.example.verdict)
        }

    @property
    def wrong_forms(self) -> list[str]:
        messages = (one.message for one in self.report.remarks if one.accepts_wrong_form)
        return list(dict.fromkeys(message.removeprefix("accepts ") for message in messages))


def mend(found: FoundTask, plain_import: Converted, sandbox: str) -> Mended:
    """Complete an imported task.  This runs its code as `task check` does: only the examples run in the sandbox.

    Raises:
        TaskError: the faults that keep it from being loaded.
        JudgeError: there is no sandbox.
    """
    files = with_submissions(found, plain_import.files)
    if plain_import.why_script:
        files = with_files_it_reads(found, files)
    files = with_set(found, with_all_needs(files))
    reference = ""
    if not plain_import.why_script:
        # It is the anchor at first: with a wrong one, no example could be judged.
        reference, example = _reference_as_example(found, files)
        files = with_values({**files, reference: example}, {"anchor": reference})
    trial = _try(found, files, sandbox)
    if not trial:
        return Mended(files=files, notes=("not tried: only a machine with its GPUs can judge it",))
    notes: list[str] = []
    if trial.wrong_forms:
        files, trial = _with_form(found, files, trial, sandbox, notes)
    anchor = reference and _choose_anchor(files, trial, reference, notes)
    files = _without_wrong(files, trial, anchor, notes)
    if anchor != reference:
        if reference not in plain_import.files:
            files = {name: text for name, text in files.items() if name != reference}
        files = with_values(files, {"anchor": anchor})
    return Mended(files=files, notes=(*notes, *_left(files, trial)))


def diff_of(name: str, before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    """The lines of a unified diff of a task's files, fit for a terminal."""
    for file in sorted(before.keys() | after.keys()):
        old, new = (plain(files.get(file, b"").decode("utf-8", "replace")).splitlines() for files in (before, after))
        was, now = (f"{name}/{file}" if file in files else "/dev/null" for files in (before, after))
        yield from difflib.unified_diff(old, new, was, now, lineterm="")


# Trials.


def _try(found: FoundTask, files: Mapping[str, bytes], sandbox: str) -> _Trial | None:
    """Check a task; None if this machine can judge neither it nor a copy for the CPU."""
    with TemporaryDirectory(prefix="pullrank-mend-") as folder:
        task = write_task(Path(folder), found.name, files, shown=found.folder)
        is_copy = bool(why_not_here(choose_board(task, None)))
        if is_copy and not task.is_refereed:
            return None
        if is_copy:
            task = write_task(Path(folder) / "cpu", found.name, _for_cpu(files), shown=found.folder)
        report = check_tasks([replace(task, shown=found.name)], None, sandbox)
        return _Trial(report=report, is_copy=is_copy)


def _for_cpu(files: Mapping[str, bytes]) -> Files:
    """A copy for the CPU; the benchmarks of a GPU would take too long there."""
    tests = values_of(files)["tests"]
    copied = {name: without_cuda(text) for name, text in files.items()}
    changes = {"gpus": ["CPU"], "per_gpu": None, "benchmarks": tests[-1:], "device_alias": {"cuda": "cpu"}}
    return with_values(copied, changes)


# What follows from a trial.


def _with_form(found: FoundTask, files: Files, trial: _Trial, sandbox: str, notes: list[str]) -> tuple[Files, _Trial]:
    """Wrap a check that accepts a wrong form, unless that makes an accepted example wrong."""
    accepts = ", ".join(trial.wrong_forms)
    wrapped = {**files, "reference.py": wrapped_reference(files["reference.py"], accepts)}
    again = _try(found, wrapped, sandbox)
    # An example that was not right before may still show that honest answers have another form.
    lost = sorted((trial.right - again.right) | (again.wrong - trial.wrong)) if again else []
    if again and not lost:
        return wrapped, again
    notes.append(f"its check accepts {accepts}; not wrapped, as {', '.join(lost)} would be wrong then")
    return files, trial


def wrapped_reference(reference: bytes, accepts: str) -> bytes:
    """The same reference.py, whose check also compares structure, shapes and dtypes."""
    words = _OLDEST_FORM if _is_oldest_form(reference) else _NEW_FORM
    return reference.rstrip(b"\n") + b"\n" + _FORM.format(accepts=accepts, **words).encode()


def _choose_anchor(files: Files, trial: _Trial, reference: str, notes: list[str]) -> str:
    """The first accepted example that is right here and needs nothing; else the reference itself."""
    own = [name for name in sorted(trial.right - {reference}) if declared_needs(files[name]) is None]
    if not own and reference not in trial.right:
        notes.append("its anchor is the reference itself, although it was not right here")
    return next(iter(own), reference)


def _without_wrong(files: Files, trial: _Trial, anchor: str, notes: list[str]) -> Files:
    """Leave out accepted examples that are not right here, if others are.  A copy for the CPU proves nothing."""
    if trial.is_copy or not trial.right:
        return files
    left_out = {
        path: why
        for path, why in trial.others.items()
        if path.startswith(_ACCEPTED) and path != anchor and not why.startswith(Verdict.JUDGING_ERROR)
    }
    notes += (f"{path}: left out: {why}" for path, why in left_out.items())
    return {name: text for name, text in files.items() if name not in left_out}


def _reference_as_example(found: FoundTask, files: Files) -> tuple[str, bytes]:
    """The path and text of an example that returns the reference's own answer; the import may have made it."""
    text = for_this_task(accepted_reference(files["reference.py"]), found.name)
    text = with_all_needs({**files, ACCEPTED_REFERENCE: text})[ACCEPTED_REFERENCE]
    is_free = files.get(ACCEPTED_REFERENCE, text) == text
    return ACCEPTED_REFERENCE if is_free else f"{_ACCEPTED}ref_kernel.py", text


def _is_oldest_form(reference: bytes) -> bool:
    """Whether its check takes the output and the reference's answer, instead of the inputs and the output."""
    for node in parse(reference).body:
        match node:
            case ast.FunctionDef(name="check_implementation", args=ast.arguments(args=[_, second])):
                return second.arg.startswith(("ref", "expected"))
    return False


# Notes.


def _left(files: Mapping[str, bytes], trial: _Trial) -> Iterator[str]:
    """What the last trial found: faults, and examples without their folder's verdict."""
    if trial.is_copy:
        yield "tried as a copy for the CPU, since this machine lacks its GPU; run `task check` on a machine that has it"
    where = " on the CPU" if trial.is_copy else ""
    faults = [f"fault{where}: {one.where}: {one.message}" for one in trial.report.remarks if one.is_fault]
    faults += (f"{path}: not its folder's verdict here: {why}" for path, why in trial.others.items() if path in files)
    yield from faults or [f"it passes its own check{where}"]
