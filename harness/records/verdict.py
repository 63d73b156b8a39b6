"""The verdicts of the contest world, what each is called, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Verdict(StrEnum):
    """Of one case, and of a whole submission.  The value is what files and tables show."""

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
        """`wrong_answer` for WA: the name of the examples' folder that expects it."""
        return self.name.lower()

    @property
    def help(self) -> str:
        """One sentence that tells a participant what to do next."""
        return _HELP[self]


_HELP = {
    Verdict.ACCEPTED: "Every test was right and every benchmark was timed.",
    Verdict.WRONG_ANSWER: "The output differs from the reference; the message says where and by how much.",
    Verdict.TIME_LIMIT_EXCEEDED: "A call or a phase took longer than allowed; the limits stand in the task's task.yml.",
    Verdict.MEMORY_LIMIT_EXCEEDED: "The process used more memory than allowed; allocate less, or reuse buffers.",
    Verdict.RUN_TIME_ERROR: "Your code raised or crashed; the message and the log show where.",
    Verdict.COMPILE_ERROR: "The file could not be compiled or imported; the message names the line.",
    Verdict.SECURITY_VIOLATION: "Your code tampered with the judging; the message says what was seen.",
    Verdict.JUDGING_ERROR: "Our fault, not yours: it costs no quota and is judged again.",
}


class Foul(Exception):
    """How a verdict travels from where it was found up to the case that it ends.  Never leaves `game`."""

    def __init__(self, verdict: Verdict, message: str) -> None:
        super().__init__(message)
        self.verdict = verdict
        self.message = message


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a submission: that of its first case that was not accepted."""
    return next((verdict for verdict in verdicts if verdict is not Verdict.ACCEPTED), Verdict.ACCEPTED)
