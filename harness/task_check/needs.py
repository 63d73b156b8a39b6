"""The `needs` directive: packages and programs that a file needs besides torch, and which of them are missing here.

    #!PULLRANK needs numba          a package: must be installed where players import from
    #!PULLRANK needs g++ ninja      programs: must be in the players' PATH, or where compilers are looked up

The check imports and runs nothing.
"""

from __future__ import annotations

import shutil
import sys
from importlib.machinery import PathFinder

from harness.records.errors import SubmissionError
from harness.sandbox.bubblewrap import ENVIRONMENT
from harness.task import compile as compilers
from harness.task.submission import Submission, read_directives


def why_skipped(submission: Submission) -> str:
    """Why an example cannot be judged on this machine; "" if it can, or if its directives are invalid."""
    try:
        needs = read_directives(submission.text, submission.name).needs
    except SubmissionError:
        return ""  # the judge reports the invalid directive
    missing = [need for need in needs if not _is_here(need)]
    return f"needs {' and '.join(missing)}: not installed on this machine" if missing else ""


def _is_here(need: str) -> bool:
    packages = [path for path in sys.path if "-packages" in path]
    programs = f"{ENVIRONMENT['PATH']}:{compilers.PATH}"  # torch finds nvcc in CUDA's own folder, too
    return bool(PathFinder.find_spec(need, packages) or shutil.which(need, path=programs))
