"""Everything about one judging, as one JSON file.

    Judgement
      submission            whose file, from which commit
      cases[0]              the build;  then tests, then benchmarks, in the order of the task
        timing              by the referee:
          runs              one player process each: warm-ups, samples, seeds; all of them, in order of play
          ratio             submission / anchor over the pairs of runs, with its interval
        told                by the task's own program, in its words: one entry for each of its processes
        profile             in the mode of that name: where one call's time went, in the player's words
      duel                  challenger and champion, if one was due
      machine, sandbox, harness     what the numbers were taken with
      checksum              SHA-256 of all the rest: a torn or edited file is noticed

A judgement is made by the judge's machine and read on GitHub's: reading treats the file as hostile text.
Medians and ratios to the anchor are checked against the samples, both when it is made and when it is read.

History of the format
    1   2026-11   first version
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from operator import itemgetter
from typing import Any, Literal, Self

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic_core import to_json

from harness.fields import CaseKind, Digest, Line, Login, Mode, Model, Name, Param, Seed, Sha, Text
from harness.profile import Profile
from harness.timing import Duel, Timing, ToldTiming
from harness.verdict import Verdict, overall

VERSION = 1
MAX_BYTES = 32 * 1024 * 1024
"""Larger files are refused unread."""


class JudgementError(ValueError):
    """A judgement is torn, edited, or of a format that this version does not read."""


class Claim(StrEnum):
    """What a judgement's times may claim; see `site/pages/judging.md`."""

    BOUNDED = "bounded"
    INSIDE_TIMED = "inside-timed"
    SELF_TIMED = "self-timed"


class CaseResult(Model):
    kind: CaseKind
    params: dict[Name, Param]
    verdict: Verdict
    message: Text = ""
    seconds: float = Field(ge=0, description="wall time spent on this case")
    seed: Seed | None = Field(default=None, description="of a test, so that it can be replayed")
    timing: Timing | None = None
    told: ToldTiming | None = None
    profile: Profile | None = None

    @property
    def time_us(self) -> float | None:
        """The submission's time, whoever took it."""
        return self.timing.submission_us if self.timing else self.told.time_us.value if self.told else None

    @model_serializer(mode="wrap")
    def _as_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what only some have: files from before there was such a thing are written as they were."""
        fields: dict[str, Any] = handler(self)
        return {key: value for key, value in fields.items() if value is not None or key not in ("told", "profile")}

    @model_validator(mode="after")
    def _has_samples_only_when_accepted(self) -> Self:
        is_timed = bool(self.timing or self.told)
        if is_timed and (self.verdict is not Verdict.ACCEPTED or self.kind is not CaseKind.BENCHMARK):
            raise ValueError("samples exist only for accepted benchmarks")
        if self.kind is CaseKind.BENCHMARK and self.verdict is Verdict.ACCEPTED and not is_timed:
            raise ValueError("an accepted benchmark needs samples")
        if bool(self.profile) != (self.kind is CaseKind.PROFILE and self.verdict is Verdict.ACCEPTED):
            raise ValueError("an accepted profile needs what it has shown, and nothing else has it")
        if self.timing and self.told:
            raise ValueError("a time is either taken by the referee or told by the task's program")
        return self


class SubmissionInfo(Model):
    """Whose file was judged.  `user_id`, `pull_request` and `head_sha` are missing off GitHub."""

    login: Login
    user_id: PositiveInt | None = None
    pull_request: PositiveInt | None = None
    head_sha: Sha | None = None
    digest: Digest
    lines: int = Field(ge=0)
    language: Line = "Python"


class Machine(Model):
    """Facts that travel with the numbers.  What a machine does not tell is absent."""

    device: Line
    cpu: Line
    cores: PositiveInt
    memory_gib: PositiveFloat
    os: Line
    python: Line
    torch: Line
    driver: Line | None = None
    clock_mhz: PositiveFloat | None = None
    temperature_c: float | None = None
    quiet: bool
    note: Line = ""

    def is_a(self, device: str) -> bool:
        """Whether its device's name has these words, whole ones: an L40S is no L4."""
        return is_named(self.device, device)


def is_named(name: str, words: str) -> bool:
    """Whether a device's name has these words, as whole ones."""
    return bool(re.search(rf"(?<![a-z0-9]){re.escape(words.casefold())}(?![a-z0-9])", name.casefold()))


class SandboxInfo(Model):
    """The walls that stood, and what this machine could not give."""

    kind: Literal["bubblewrap", "none"]
    stop: Literal["freezer", "signals"]
    missing: tuple[Line, ...] = ()


class HarnessInfo(Model):
    version: Line
    method: PositiveInt
    digest: Digest


class Judgement(Model):
    format: Literal["pullrank-judgement"] = "pullrank-judgement"
    version: Literal[1] = 1
    task: Name
    edition: Digest
    gpu: Name
    mode: Mode
    submission: SubmissionInfo
    verdict: Verdict
    message: Text
    cases: tuple[CaseResult, ...] = Field(min_length=1)
    duel: Duel | None = None
    claim: Claim
    machine: Machine
    sandbox: SandboxInfo
    harness: HarnessInfo
    started_at: datetime
    finished_at: datetime
    run_url: Line | None = None
    log: Text = Field(default="", description="the end of what the submission printed")
    checksum: str = ""

    @property
    def tests(self) -> tuple[CaseResult, ...]:
        return tuple(case for case in self.cases if case.kind is CaseKind.TEST)

    @property
    def benchmarks(self) -> tuple[CaseResult, ...]:
        return tuple(case for case in self.cases if case.kind is CaseKind.BENCHMARK)

    @property
    def profiles(self) -> tuple[CaseResult, ...]:
        return tuple(case for case in self.cases if case.kind is CaseKind.PROFILE)

    @property
    def is_rankable(self) -> bool:
        """Accepted, ranked, and judged inside the walls."""
        return self.mode is Mode.RANKED and self.verdict is Verdict.ACCEPTED and self.sandbox.kind != "none"

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.cases[0].kind is not CaseKind.BUILD:
            raise ValueError("the first case of a judgement is its build")
        if self.verdict is not overall(case.verdict for case in self.cases):
            raise ValueError(f"verdict {self.verdict} does not follow from the cases")
        if self.verdict is Verdict.ACCEPTED and not self.tests:
            raise ValueError("nothing is accepted without a test")
        if self.verdict is Verdict.ACCEPTED and self.mode in (Mode.RANKED, Mode.BENCHMARK) and not self.benchmarks:
            raise ValueError("a benchmark is missing")
        if bool(self.profiles) > (self.mode is Mode.PROFILE):
            raise ValueError("profiles belong to the mode that makes them")
        if self.verdict is Verdict.ACCEPTED and self.mode is Mode.PROFILE and not self.profiles:
            raise ValueError("a profile is missing")
        if self.claim is not Claim.SELF_TIMED and any(case.told for case in self.cases):
            raise ValueError(f"a time that was told claims no more than {Claim.SELF_TIMED}")
        if self.started_at.utcoffset() is None or self.finished_at.utcoffset() is None:
            raise ValueError("times need a zone")
        if self.finished_at < self.started_at:
            raise ValueError("finished before it started")
        return self

    def to_json(self) -> str:
        """The file's text, with its checksum filled in."""
        fields = self.model_dump(mode="json")
        fields["checksum"] = _checksum(fields)
        return json.dumps(fields, indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Read a judgement as the hostile text that it is.

        Raises:
            JudgementError: torn, edited, too large, or not of this format; the message says which.
        """
        if len(text) > MAX_BYTES:
            raise JudgementError(f"larger than {MAX_BYTES // 2**20} MiB")
        try:
            fields = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_in_order)
        except (ValueError, RecursionError) as error:
            raise JudgementError(f"not JSON: {error}") from None
        if not isinstance(fields, dict) or fields.get("format") != "pullrank-judgement":
            raise JudgementError("not a PullRank judgement")
        if fields.get("version") != VERSION:
            raise JudgementError(f"format version {fields.get('version')!r}; this PullRank reads version {VERSION}")
        if not _has_its_checksum(fields):
            raise JudgementError("its checksum does not match: the file was edited or cut off")
        try:
            # Strict JSON mode: "1" is not 1, but an array is a tuple and an ISO string a time.
            return cls.model_validate_json(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise JudgementError(f"{'.'.join(map(str, first['loc'])) or 'judgement'}: {first['msg']}") from None


def _checksum(fields: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in fields.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _has_its_checksum(fields: Mapping[str, Any]) -> bool:
    """Whether nothing was torn or edited.  `fields` are in the order of their names, all the way down.

    pydantic's encoder is five times as fast as Python's and can be made to write nearly every judgement like it; where
    the two still differ, Python's decides.
    """
    rest = {key: value for key, value in fields.items() if key != "checksum"}
    try:
        quick = to_json(rest).decode()
    except (ValueError, RecursionError):
        quick = ""
    if not quick.isascii():
        quick = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], quick)
    if "e-" in quick:
        quick = _SMALL_EXPONENT.sub(r"e-0\1", quick)
    claimed = fields.get("checksum")
    return claimed == hashlib.sha256(quick.encode()).hexdigest() or claimed == _checksum(fields)


_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_SMALL_EXPONENT = re.compile(r"(?<=\d)e-(\d)(?=[,}\]])")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _in_order(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(sorted(pairs, key=_name_of))
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice")
    return fields


_name_of = itemgetter(0)
