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
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json, to_json

from harness.records.fields import CaseKind, Digest, Line, Login, Mode, Model, Moment, Name, Param, Seed, Sha, Text
from harness.records.profile import Profile
from harness.records.times import Duel, Run, Timing, ToldTiming
from harness.records.verdict import Verdict, overall

VERSION = 1
_FORMAT = "pullrank-judgement"
MAX_BYTES = 32 * 1024 * 1024
"""Larger files are refused unread."""


# Python 3.11 looks a member of an enumeration up by a function in Python, each time: that adds up over a file's cases.
_ACCEPTED = Verdict.ACCEPTED
_TEST, _BENCHMARK, _PROFILE = CaseKind.TEST, CaseKind.BENCHMARK, CaseKind.PROFILE


class JudgementError(ValueError):
    """A judgement is torn, edited, or of a format that this version does not read."""


class Claim(StrEnum):
    """What a judgement's times may claim; see `site/pages/judging.md`."""

    BOUNDED = "bounded"
    INSIDE_TIMED = "inside-timed"
    SELF_TIMED = "self-timed"


class Digests(Model):
    """Of the inputs of one call and of what it returned (`harness.referee.digest`): equal bits have equal digests."""

    inputs: Digest
    outputs: Digest


def _is_none(value: object) -> bool:
    return value is None


class CaseResult(Model):
    kind: CaseKind
    params: dict[Name, Param]
    verdict: Verdict
    message: Text = ""
    seconds: float = Field(ge=0, description="wall time spent on this case")
    seed: Seed | None = Field(default=None, description="of a test, so that it can be replayed")
    timing: Timing | None = None
    # Without what only some have, files from before there was such a thing are written as they were.
    told: ToldTiming | None = Field(default=None, exclude_if=_is_none)
    profile: Profile | None = Field(default=None, exclude_if=_is_none)
    digests: Digests | None = Field(
        default=None,
        exclude_if=_is_none,
        description="of a test's call, or of the first call of a benchmark's first run; of accepted ones only",
    )

    @property
    def time_us(self) -> float | None:
        """The submission's time, whoever took it."""
        return self.timing.submission_us if self.timing else self.told.time_us.value if self.told else None

    @model_validator(mode="after")
    def _has_samples_only_when_accepted(self) -> Self:
        is_timed = bool(self.timing or self.told)
        is_accepted, is_benchmark = self.verdict is _ACCEPTED, self.kind is _BENCHMARK
        if is_timed and not (is_accepted and is_benchmark):
            raise ValueError("samples exist only for accepted benchmarks")
        if is_benchmark and is_accepted and not is_timed:
            raise ValueError("an accepted benchmark needs samples")
        if bool(self.profile) != (self.kind is _PROFILE and is_accepted):
            raise ValueError("an accepted profile needs what it has shown, and nothing else has it")
        if self.digests and not is_accepted:
            raise ValueError("only what was accepted has digests")
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

    def is_a(self, devices: Iterable[str]) -> bool:
        """Whether its device, or each of several, is known by one of these names."""
        return is_named(_SEVERAL.sub("", self.device), devices)


_SEVERAL = re.compile(r"^\d+ x ")
"""`4 x NVIDIA H200`, where a task is for several."""
_MAKERS = re.compile(r"^((nvidia|tesla|geforce|amd|instinct) +)+")


def is_named(name: str, devices: Iterable[str]) -> bool:
    """Whether a driver's name of a device is one of these, with or without its maker's.

    All of it must be: an H200 NVL is no H200, an RTX 4090 Laptop GPU no RTX 4090.
    """
    return _plain(name) in map(_plain, devices)


def _plain(device: str) -> str:
    return _MAKERS.sub("", " ".join(device.casefold().split()))


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
    started_at: Moment
    finished_at: Moment
    run_url: Line | None = None
    log: Text = Field(default="", description="the end of what the submission printed")
    checksum: str = ""

    @property
    def tests(self) -> tuple[CaseResult, ...]:
        return tuple([case for case in self.cases if case.kind is _TEST])

    @property
    def benchmarks(self) -> tuple[CaseResult, ...]:
        return tuple([case for case in self.cases if case.kind is _BENCHMARK])

    @property
    def profiles(self) -> tuple[CaseResult, ...]:
        return tuple([case for case in self.cases if case.kind is _PROFILE])

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
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if not _is_plainly_whole(content):
            _require_whole(text)
        try:
            # Strict JSON mode: "1" is not 1, but an array is a tuple and an ISO string a time.
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise JudgementError(f"{'.'.join(map(str, first['loc'])) or 'judgement'}: {first['msg']}") from None


def _checksum(fields: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in fields.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_plainly_whole(content: bytes) -> bool:
    """Whether a file is surely a judgement that nobody has torn or edited; where this is in doubt, no.

    pydantic's parser and encoder are four times as fast as Python's, and nearly every judgement can be judged by them.
    They say nothing of a key that stands twice; but what falls away with it has quotation marks, and those are counted.
    """
    try:
        fields = from_json(content, allow_inf_nan=False)
        if not isinstance(fields, dict) or fields.get("format") != _FORMAT or not _is_ours(fields.get("version")):
            return False
        claimed = fields.pop("checksum", None)
        canonical = to_json(_in_order(fields))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    # Four are the checksum's own.
    if content.count(b'"') != canonical.count(b'"') + 4 or (b"\\" in content and b"\\u0022" in content):
        return False
    canonical = _SMALL_EXPONENT.sub(rb"e-0\1", canonical)
    if not canonical.isascii():
        canonical = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], canonical.decode()).encode()
    return bool(claimed == hashlib.sha256(canonical).hexdigest())


_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_SMALL_EXPONENT = re.compile(rb"e-(?<=\de-)(\d)(?=[,}\]])")
"""As pydantic writes 1e-7, for which Python has 1e-07.  Beginning with what is sought, it skips the rest quickly."""


def _in_order(fields: dict[str, Any]) -> dict[str, Any]:
    """Objects by the names of their keys, all the way down; lists of numbers, which are most of a file, as they are."""
    found = dict(sorted(fields.items()))
    for key, value in found.items():
        if type(value) is dict:
            found[key] = _in_order(value)
        elif type(value) is list and value and type(value[0]) is dict:
            is_plain = value[0].keys() == _KEYS_OF_A_RUN and all(len(one) == len(_KEYS_OF_A_RUN) for one in value)
            found[key] = [_run_in_order(one) for one in value] if is_plain else [_in_order(one) for one in value]
    return found


_KEYS_OF_A_RUN = frozenset(Run.model_fields)


def _run_in_order(run: dict[str, Any]) -> dict[str, Any]:
    """The same for a run, of which a file has dozens."""
    return {
        "order": run["order"],
        "samples_us": run["samples_us"],
        "seeds": run["seeds"],
        "warmups_us": run["warmups_us"],
    }


def _require_whole(text: str | bytes) -> None:
    """Say what is wrong with a file that is no judgement, or no whole one; what only looks odd passes."""
    try:
        fields = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise JudgementError(f"not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise JudgementError("not a PullRank judgement")
    if not _is_ours(fields.get("version")):
        raise JudgementError(f"format version {fields.get('version')!r}; this PullRank reads version {VERSION}")
    if fields.get("checksum") != _checksum(fields):
        raise JudgementError("its checksum does not match: the file was edited or cut off")


def _is_ours(version: object) -> bool:
    """By its type, too: for Python `true` and `1.0` are 1."""
    return type(version) is int and version == VERSION


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice")
    return fields
