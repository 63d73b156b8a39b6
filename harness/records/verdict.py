"""The verdicts known from programming contests, with their labels and help texts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """Verdict of a case or of a whole submission.  Files and tables show the value."""

    ACCEPTED = "AC"
    WRONG_ANSWER = "WA"
    TIME_LIMIT_EXCEEDED = "TLE"
    MEMORY_LIMIT_EXCEEDED = "MLE"
    RUN_TIME_ERROR = "RTE"
    COMPILE_ERROR = "CE"
    SECURITY_VIOLATION = "SV"
    JUDGING_ERROR = "JE"

    @property
    def label(self) -> str:
        """`wrong answer` for WA."""
        return self.name.replace("_", " ").lower()

    @property
    def folder(self) -> str:
        """`wrong_answer` for WA: the folder of examples that must get this verdict."""
        return self.name.lower()

    @property
    def help(self) -> str:
        """One sentence for participants: what happened and what to do next."""
        return _HELP[self]


_HELP = {
    Verdict.ACCEPTED: "All tests passed and all benchmarks were timed.",
    Verdict.WRONG_ANSWER: "The output differs from the reference; the message says how.",
    Verdict.TIME_LIMIT_EXCEEDED: "A call or a phase took longer than allowed; the limits are in the task's task.yml.",
    Verdict.MEMORY_LIMIT_EXCEEDED: "The process used more memory than allowed; allocate less, or reuse buffers.",
    Verdict.RUN_TIME_ERROR: "Your code raised an exception or crashed; see the message and its output.",
    Verdict.COMPILE_ERROR: "The file could not be compiled or imported; the message says why.",
    Verdict.SECURITY_VIOLATION: "Your code tampered with the judging; the message says what was detected.",
    Verdict.JUDGING_ERROR: "The judge failed, not your code. The bot judges a pull request again, at no cost.",
}


class Foul(Exception):
    """Carries a verdict from where it is found to the case that it ends.  `harness.rules` turns it into a result."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a submission: that of its first case that is not accepted."""
    return next((verdict for verdict in verdicts if verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
