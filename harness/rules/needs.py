"""What a file says that it needs, beside torch, and what of it this judge has not.

    #!PULLRANK needs numba          a package: it must lie where players find theirs
    #!PULLRANK needs g++ ninja      programs: they must lie in the players' PATH, or where compilers are looked for

Nothing is imported or run to find out.
"""

from __future__ import annotations

import shutil
import sys
from importlib.machinery import PathFinder

from harness.records.errors import SubmissionError
from harness.sandbox.bubblewrap import ENVIRONMENT
from harness.task import compile as compilers
from harness.task.submission import Submission, read_directives


def missing_for(submission: Submission) -> tuple[str, ...]:
    """What a submission needs and would not find here; empty for one whose directives cannot be read."""
    try:
        needs = read_directives(submission.text, submission.name).needs
    except SubmissionError:
        return ()  # the judge says what is wrong with them
    return tuple(need for need in needs if not _is_here(need))


def why_skipped(submission: Submission) -> str:
    """What to say of an example that cannot be judged here; empty for all others."""
    missing = missing_for(submission)
    return f"needs {' and '.join(missing)}: not on this machine" if missing else ""


def _is_here(need: str) -> bool:
    packages = [path for path in sys.path if "-packages" in path]
    programs = f"{ENVIRONMENT['PATH']}:{compilers.PATH}"  # torch finds nvcc in CUDA's own folder, too
    return bool(PathFinder.find_spec(need, packages) or shutil.which(need, path=programs))
