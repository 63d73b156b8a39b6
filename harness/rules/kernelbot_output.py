"""Parse the output of a task's own program: lines of `key: value`, read while it runs, all untrusted.

    test-count: 2                   benchmark-count: 1
    test.0.status: pass             benchmark.0.runs: 120            calls
    test.1.status: fail             benchmark.0.mean: 41230.5        nanoseconds, as are std, err, best and worst
    test.1.error: row 3 differs     benchmark.0.std: 310.2           …
    check: fail                     check: pass                      the verdict, last of all

The program shares its process with the submission, so any line may come from the submission.  A line that a correct
program would not write is refused at once, with its number: not text, too long, too many lines, a duplicate key, an
unknown case, a time that is not a positive number, or a verdict that contradicts the cases.  Consistent lies cannot be
detected, which is why such a judgement only claims `self-timed`.

A task's own keys are ignored (`benchmark.0.speedup: 1.4`), except `error`: why it fails as a whole, which some
programs print after their verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.records.fields import MAX_MESSAGE, CaseKind, Mode
from harness.records.verdict import Foul, Verdict

MAX_LINE_BYTES = 64 << 10
MAX_LINES = 20_000
MAX_BYTES = 4 << 20
TIMES = ("mean", "std", "err", "best", "worst")
"""Fields in nanoseconds.  An accepted benchmark needs all of them and `runs`."""

_KEY = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_OURS = re.compile(r"check$|(test|benchmark)-count$|(test|benchmark)\.")
"""Prefixes of the protocol's own keys."""
_CASE_KEY = re.compile(r"(test|benchmark)\.(0|[1-9][0-9]{0,5})\.([a-z][a-z0-9_]*)")
_WHOLE_ERROR = "error"
_COUNT = re.compile(r"0|[1-9][0-9]{0,9}")
_NUMBER = re.compile(r"[0-9]{1,20}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_LEAST_NS, _MOST_NS = 0.01, 1e14
_SLACK = 1.01
"""Tolerance for the difference of two clocks."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Times of one benchmark's calls as reported by the program, in microseconds."""

    calls: int
    mean_us: float
    std_us: float
    err_us: float
    best_us: float
    worst_us: float


@dataclass(frozen=True, kw_only=True)
class CaseReport:
    """Result of one case as reported by the program."""

    is_right: bool
    message: str = ""
    times: Times | None = None


class Lines:
    """The output of one process of a task's program, about `cases` cases of one kind."""

    def __init__(self, kind: CaseKind, cases: int) -> None:
        self.kind = kind
        self.cases = cases
        self._rest = b""
        self._bytes = 0
        self._number = 0
        self._said: dict[str, str] = {}
        self._message = ""
        """The key of a message that the next line may continue, if the program does not escape newlines."""

    @property
    def is_complete(self) -> bool:
        """Whether the program has given its verdict."""
        return "check" in self._said

    def feed(self, chunk: bytes) -> None:
        """Parse a chunk of output.  Raises Foul at the first invalid line."""
        self._bytes += len(chunk)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._number += 1
            self._take(line)
        if self._bytes > MAX_BYTES or self._number > MAX_LINES:
            raise self._refusal(f"more than {MAX_LINES} lines or {MAX_BYTES >> 20} MiB")
        if len(self._rest) > MAX_LINE_BYTES:
            self._number += 1
            raise self._refusal(f"longer than {MAX_LINE_BYTES >> 10} KiB")

    def end(self, seconds: float) -> list[CaseReport | None]:
        """Finish parsing; return a report per case, None for cases without one.

        Args:
            seconds: how long the program ran, by the referee's clock.

        Raises:
            Foul: the lines contradict each other, or `seconds`.
        """
        if self._rest.strip():
            self._number += 1
            if self.is_complete:
                raise self._refusal("the last line is incomplete")
        told = [self._case(index) for index in range(self.cases)]
        if self.is_complete:
            self._require_agreement(told)
        claimed_us = sum(case.times.calls * case.times.mean_us for case in told if case and case.times)
        if claimed_us > seconds * 1e6 * _SLACK:
            raise self._contradiction(f"its calls took {claimed_us / 1e6:.3g} s, but it ran for {seconds:.3g} s")
        return told

    # ------------------------------------------------------------------ one line

    def _take(self, line: bytes) -> None:
        if len(line) > MAX_LINE_BYTES:
            raise self._refusal(f"longer than {MAX_LINE_BYTES >> 10} KiB")
        try:
            text = line.decode()
        except UnicodeDecodeError:
            raise self._refusal("not UTF-8") from None
        if not text.strip():
            return
        key, colon, value = (part.strip() for part in text.partition(":"))
        if not (colon and _OURS.match(key)) and self._message:
            if len(self._said[self._message]) < MAX_MESSAGE:
                self._said[self._message] += f"\n{text.rstrip()}"
            return
        if not colon or not _KEY.fullmatch(key):
            raise self._refusal(f"not 'key: value' but {_quote(text)}")
        if key in self._said:
            raise self._refusal(f"duplicate key '{key}'")
        if self.is_complete and not (key == _WHOLE_ERROR and self._said["check"] == "fail"):
            raise self._refusal(f"'{key}' comes after the verdict")
        if _OURS.match(key):
            self._require_sense(key, value)
        elif key != _WHOLE_ERROR:
            return
        self._said[key] = value
        self._message = key if key.endswith(("error", "message")) else ""

    def _require_sense(self, key: str, value: str) -> None:
        """Check the value of one of the protocol's keys."""
        if key == "check":
            self._require(value in ("pass", "fail"), key, value, "pass or fail")
        elif key.endswith("-count"):
            self._require(key == f"{self.kind}-count" and value == str(self.cases), key, value, self._cases)
        else:
            case = _CASE_KEY.fullmatch(key)
            if not case or case[1] != self.kind or (self.kind is CaseKind.TEST and case[3] in ("runs", *TIMES)):
                raise self._refusal(f"'{key}' is not a key of a {self.kind}")
            self._require(int(case[2]) < self.cases, key, value, self._cases)
            self._require_field(case[3], key, value)

    def _require_field(self, field: str, key: str, value: str) -> None:
        if field == "status":
            self._require(value in ("pass", "fail"), key, value, "pass or fail")
        elif field == "runs":
            is_count = bool(_COUNT.fullmatch(value))
            self._require(is_count and int(value) > 0, key, value, "a count of calls, 1 or more")
        elif field in TIMES:
            least = 0.0 if field in ("std", "err") else _LEAST_NS
            is_time = bool(_NUMBER.fullmatch(value)) and least <= float(value) <= _MOST_NS
            self._require(is_time, key, value, f"nanoseconds, {least:g} to {_MOST_NS:g}")

    @property
    def _cases(self) -> str:
        return f"about the {self.cases} {self.kind}{'' if self.cases == 1 else 's'} that the program was given"

    def _require(self, is_met: bool, key: str, value: str, wanted: str) -> None:
        if not is_met:
            raise self._refusal(f"'{key}' must be {wanted}, not {_quote(value)}")

    # ------------------------------------------------------------------ one case

    def _case(self, index: int) -> CaseReport | None:
        def field(name: str) -> str | None:
            return self._said.get(f"{self.kind}.{index}.{name}")

        status, error = field("status"), _unescape(field("error") or field("message") or "")
        given = [name for name in ("runs", *TIMES) if field(name) is not None]
        if status == "fail":
            if given:
                raise self._contradiction(f"{self.kind} {index} failed, but has times")
            return CaseReport(is_right=False, message=error or "The task's program says that it is wrong, but not why.")
        if self.kind is CaseKind.TEST:
            return CaseReport(is_right=True) if status else None
        if not given and status is None:
            return None
        if self.is_complete and len(given) <= len(TIMES):
            missing = ", ".join(name for name in ("runs", *TIMES) if name not in given)
            raise self._contradiction(f"benchmark {index} has no {missing}")
        return CaseReport(is_right=True, times=self._times(index, field)) if len(given) > len(TIMES) else None

    def _times(self, index: int, field: Callable[[str], str | None]) -> Times:
        mean, std, err, best, worst = (float(field(name) or "nan") / 1e3 for name in TIMES)
        # The mean was rounded when it was printed as text, so it may lie slightly outside the range.
        if not best * (1 - 1e-6) <= mean <= worst * (1 + 1e-6):
            raise self._contradiction(f"the mean of benchmark {index} is not between its best and its worst")
        calls = int(field("runs") or 0)
        return Times(calls=calls, mean_us=mean, std_us=std, err_us=err, best_us=best, worst_us=worst)

    def _require_agreement(self, told: list[CaseReport | None]) -> None:
        check = self._said["check"]
        if check == "pass" and f"{self.kind}-count" not in self._said:
            raise self._contradiction(f"a verdict without '{self.kind}-count'")
        if (check == "pass") != all(case and case.is_right for case in told):
            raise self._contradiction(f"check: {check}, but its cases say otherwise")
        if check == "fail" and all(case is None or case.is_right for case in told):
            why = _unescape(self._said.get(_WHOLE_ERROR, ""))
            raise Foul(Verdict.WRONG_ANSWER, why or "The task's program says 'check: fail', but not for which case.")

    # ------------------------------------------------------------------ fouls

    def _refusal(self, what: str) -> Foul:
        return _refuse(f"line {self._number} is invalid: {what}")

    def _contradiction(self, what: str) -> Foul:
        return _refuse(f"they contradict themselves: {what}")


def refuse_any(chunk: bytes) -> None:
    """Raise Foul: no results may be written while a submission is built."""
    raise _refuse(f"{_quote(chunk[:60].decode('utf-8', 'replace'))} was written during the build")


def _refuse(what: str) -> Foul:
    return Foul(Verdict.SECURITY_VIOLATION, f"The results of the task's program are refused; {what}."[:MAX_MESSAGE])


def _quote(text: str) -> str:
    return ascii(text[:60])


def _unescape(message: str) -> str:
    return message.replace("\\n", "\n")[:MAX_MESSAGE]


def mode_argument(mode: Mode, kind: CaseKind) -> str:
    """The program's mode argument: `test`, `benchmark` or `leaderboard`."""
    return "leaderboard" if kind is CaseKind.BENCHMARK and mode is Mode.RANKED else str(kind)


def case_line(params: Mapping[str, object]) -> str:
    """A case in the program's input format: `size: 128; shape: [4, 8]; seed: 7`."""
    return "; ".join(f"{key}: {list(value) if isinstance(value, tuple) else value}" for key, value in params.items())
