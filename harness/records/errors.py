"""The exceptions of PullRank, and their exit codes.

A failing submission is not an exception: it gets a `Verdict` with a message.  Exceptions report a mistake of the
caller (`TaskError`, `SubmissionError`) or a failure of the judge (`JudgeError`).  Two programs turn
them into a line on stderr and an exit code: `scripts/cli.py`, and `harness/__main__.py` on a judge's machine.

    exit code   meaning
    0           accepted, or done
    1           judged, not accepted
    2           invalid input or usage
    3           judging error: the judge's fault, never the participant's
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PullRankError(Exception):
    """Base of all errors whose message is written for users: what is wrong, where, and how to fix it."""

    exit_code = 2


class TaskError(PullRankError):
    """A task's files are invalid.  The message names file and line."""


class SubmissionError(PullRankError):
    """There is nothing to judge: the file does not exist, or its task cannot be determined."""


class JudgeError(PullRankError):
    """The judge or its machine failed.  The submission is not at fault and is judged again."""

    exit_code = 3


class NoLinuxError(JudgeError):
    """This machine does not run Linux, which the judge needs: the same call would fail again."""

    exit_code = 2


class NoGpuError(JudgeError):
    """This machine lacks a GPU that the board needs, or has only a slice of one: the same call would fail again."""


class MemoryShortage(JudgeError):
    """The referee found too little memory: the case is too large, or something else holds the machine's memory."""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Suffix for a message about an unknown word: `; did you mean 'geom'?`, or "" if no name is close."""
    word, known = word.casefold(), {name.casefold(): name for name in names if len(name) > 1}
    near = get_close_matches(word, known, n=1) or [n for n in known if n.startswith(word) or word.startswith(n)]
    return f"; did you mean '{known[near[0]]}'?" if len(word) > 1 and near else ""
