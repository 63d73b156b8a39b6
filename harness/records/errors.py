"""Everything that can go wrong on our side of the border, and the exit code that each becomes.

A participant's trouble is never an exception: it is a `Verdict` with a message.  What is raised here is
trouble of whoever called us (`TaskError`, `SubmissionError`) or our own (`JudgeError`).  `scripts/cli.py` turns
them into one line on stderr and an exit code, once.

    exit code   meaning
    0           accepted, or done
    1           judged, and not accepted
    2           the input or the call is wrong
    3           judging error: ours, never the participant's
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class PullRankError(Exception):
    """Base of all errors with a message made for people: what, where, and the way out."""

    exit_code = 2


class TaskError(PullRankError):
    """A task's files are at fault.  The message names file and line."""


class SubmissionError(PullRankError):
    """There is nothing to judge: no such file, or no telling which task it is for."""


class JudgeError(PullRankError):
    """The judge or its machine failed.  The submission is not to blame and is judged again."""

    exit_code = 3


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown word: `; did you mean 'geom'?`, or nothing if no name is near."""
    known = {name.casefold(): name for name in names}
    word = word.casefold()
    near = get_close_matches(word, known, n=1) or [n for n in known if n.startswith(word) or word.startswith(n)]
    return f"; did you mean '{known[near[0]]}'?" if word and near else ""
