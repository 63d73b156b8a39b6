"""The record of one judging, stored as one JSON file.

    Judgement
      submission            author, commit and digest of the judged file
      cases[0]              the build; then tests, then benchmarks, in task order
        timing              measured by the referee:
          runs              one player process each: all warm-ups, samples and seeds, in order of play
          ratio             submission / anchor over the pairs of runs, with its interval
        told                reported by the task's own program: one entry per process
        profile             mode `profile` only: where one call's time went, as reported by the player
      duel                  challenger against champion, if one was played
      forfeit               instead, if the champion's file failed in it
      machine, sandbox, harness     the environment of the measurement
      checksum              SHA-256 of everything else; detects truncated or edited files

The judge's machine writes a judgement and a GitHub runner reads it, so reading treats the file as untrusted input.
Medians and ratios to the anchor are checked against the samples, both on creation and on reading.

History of the format
    1   2026-11   first version
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json, to_json

from harness.records.fields import (
    MAX_MESSAGE,
    CaseKind,
    Digest,
    Login,
    Mode,
    Model,
    Moment,
    Param,
    RecordName,
    Seed,
    Sha,
    ShortLine,
    Text,
    omitted,
)
from harness.records.profile import Profile
from harness.records.times import Duel, Forfeit, Run, Timing, ToldTiming
from harness.records.verdict import Foul, Verdict, overall

VERSION = 1
_FORMAT = "pullrank-judgement"
MAX_BYTES = 32 * 1024 * 1024
"""Larger files are rejected without parsing."""


# Python 3.11 looks up enum members in pure Python on every access; over all cases of a file this adds up.
_ACCEPTED = Verdict.ACCEPTED
_TEST, _BENCHMARK, _PROFILE = CaseKind.TEST, CaseKind.BENCHMARK, CaseKind.PROFILE


class JudgementError(ValueError):
    """A judgement is truncated, edited, or in a format that this version does not read."""


class Claim(StrEnum):
    """How far a judgement's times can be trusted, the strongest first; see `site/pages/judging.md`."""

    BOUNDED = "bounded"
    INSIDE_TIMED = "inside-timed"
    SELF_TIMED = "self-timed"

    @property
    def weakness(self) -> int:
        return list(Claim).index(self)


class Digests(Model):
    """Digests of one call's inputs and outputs (`harness.referee.digest`): equal bits give equal digests."""

    inputs: Digest
    outputs: Digest


class CaseResult(Model):
    kind: CaseKind
    params: dict[RecordName, Param]
    verdict: Verdict
    message: Text = ""
    seconds: float = Field(ge=0, description="wall time spent on this case")
    seed: Seed | None = Field(default=None, description="seed of a test, for replaying it")
    timing: Timing | None = None
    told: ToldTiming | None = Field(default=None, exclude_if=omitted)
    profile: Profile | None = Field(default=None, exclude_if=omitted)
    digests: Digests | None = Field(
        default=None,
        exclude_if=omitted,
        description="accepted cases only: a test's call, or the first call of a benchmark's first run",
    )

    @classmethod
    def of(
        cls, kind: CaseKind, params: Mapping[str, Any], foul: Foul | None, seconds: float = 0.0, **facts: Any
    ) -> Self:
        """The result of a case with these further fields; accepted if there is no foul."""
        verdict, message = (foul.verdict, foul.message[:MAX_MESSAGE]) if foul else (_ACCEPTED, "")
        return cls(kind=kind, params=dict(params), verdict=verdict, message=message, seconds=seconds, **facts)

    @property
    def time_us(self) -> float | None:
        """The submission's time, measured by the referee or reported by the task's program."""
        return self.timing.submission_us if self.timing else self.told.time_us.value if self.told else None

    @model_validator(mode="after")
    def _has_samples_only_when_accepted(self) -> Self:
        is_timed = bool(self.timing or self.told)
        is_accepted, is_benchmark = self.verdict is _ACCEPTED, self.kind is _BENCHMARK
        if is_timed and not (is_accepted and is_benchmark):
            raise ValueError("only accepted benchmarks may have samples")
        if is_benchmark and is_accepted and not is_timed:
            raise ValueError("an accepted benchmark needs samples")
        if bool(self.profile) != (self.kind is _PROFILE and is_accepted):
            raise ValueError("an accepted profile case needs a profile, and no other case may have one")
        if self.digests and not is_accepted:
            raise ValueError("only accepted cases may have digests")
        if self.timing and self.told:
            raise ValueError("a case has a time from the referee or from the task's program, not from both")
        return self


class SubmissionInfo(Model):
    """The judged file and its author.  `user_id`, `pull_request` and `head_sha` are None outside GitHub."""

    login: Login
    user_id: PositiveInt | None = None
    pull_request: PositiveInt | None = None
    head_sha: Sha | None = None
    digest: Digest
    lines: int = Field(ge=0)
    language: ShortLine = "Python"


class Machine(Model):
    """Facts about the machine that took the times.  None if the machine does not report one."""

    device: ShortLine
    cpu: ShortLine
    cores: PositiveInt
    memory_gib: PositiveFloat
    os: ShortLine
    python: ShortLine
    torch: ShortLine
    software: Annotated[dict[ShortLine, ShortLine], Field(max_length=100)] = Field(
        default_factory=dict,
        exclude_if=omitted,
        description="versions of packages, compilers and libraries that submissions can use, by name",
    )
    driver: ShortLine | None = None
    clock_mhz: PositiveFloat | None = None
    temperature_c: float | None = None
    quiet: bool
    note: ShortLine = ""

    @property
    def versions(self) -> dict[str, str]:
        """Versions of all software that may change how fast a submission is, by name."""
        system = {"OS": self.os, "Python": self.python, "torch": self.torch}
        return system | ({"driver": self.driver} if self.driver else {}) | self.software

    def is_a(self, devices: Iterable[str]) -> bool:
        """Whether its device, or each of several devices, has one of these names."""
        return is_named(_SEVERAL.sub("", self.device), devices)


_SEVERAL = re.compile(r"^\d+ x ")
"""Prefix of the device on boards with several GPUs: `4 x NVIDIA H200`."""
_MAKERS = re.compile(r"^((nvidia|tesla|geforce|amd|instinct) +)+")


def is_named(name: str, devices: Iterable[str]) -> bool:
    """Whether a driver's device name is one of `devices`, with or without the vendor's prefix.

    The rest of the name must match completely: an H200 NVL is not an H200, an RTX 4090 Laptop GPU not an RTX 4090.
    """
    return _plain(name) in map(_plain, devices)


def _plain(device: str) -> str:
    return _MAKERS.sub("", " ".join(device.casefold().split()))


class SandboxInfo(Model):
    """The sandbox that was used, and protections that this machine could not provide."""

    kind: Literal["bubblewrap", "none"]
    stop: Literal["freezer", "signals"]
    missing: tuple[ShortLine, ...] = ()


class HarnessInfo(Model):
    version: ShortLine
    method: PositiveInt
    digest: Digest


class Judgement(Model):
    format: Literal["pullrank-judgement"] = "pullrank-judgement"
    version: Literal[1] = 1
    task: RecordName
    edition: Digest
    gpu: RecordName
    mode: Mode
    submission: SubmissionInfo
    baseline: ShortLine = Field(
        default="",
        exclude_if=omitted,
        description="the task's name for the file, if it is one of its baselines, which take no rank",
    )
    verdict: Verdict
    message: Text
    cases: tuple[CaseResult, ...] = Field(min_length=1)
    duel: Duel | None = None
    forfeit: Forfeit | None = Field(default=None, exclude_if=omitted)
    claim: Claim
    machine: Machine
    sandbox: SandboxInfo
    harness: HarnessInfo
    started_at: Moment
    finished_at: Moment
    run_url: ShortLine | None = None
    log: Text = Field(default="", description="last part of the submission's output")
    checksum: str = Field(
        default="", description="SHA-256 of all other fields as JSON: keys sorted, no spaces, ASCII only"
    )

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
        """Accepted, in mode `ranked`, and judged inside the sandbox."""
        return self.mode is Mode.RANKED and self.verdict is Verdict.ACCEPTED and self.sandbox.kind != "none"

    def without_samples(self) -> Self:
        """The judgement as far as rankings need it: each run has its time as its only sample.

        It takes a third of the memory, for a board of 10,000 judgements with two benchmarks each 0.4 instead of 0.9 GB.
        Its checksum is still the file's.
        """
        cases = [
            case.model_copy(update={"timing": case.timing.without_samples()}) if case.timing else case
            for case in self.cases
        ]
        duel = self.duel and self.duel.model_copy(
            update={"cases": tuple([one.without_samples() for one in self.duel.cases])}
        )
        return self.model_copy(update={"cases": tuple(cases), "duel": duel})

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.cases[0].kind is not CaseKind.BUILD:
            raise ValueError("the first case of a judgement must be the build")
        if self.verdict is not overall(case.verdict for case in self.cases):
            raise ValueError(f"verdict {self.verdict} does not follow from the cases")
        if self.verdict is Verdict.ACCEPTED and not self.tests:
            raise ValueError("an accepted judgement needs at least one test")
        if self.verdict is Verdict.ACCEPTED and self.mode in (Mode.RANKED, Mode.BENCHMARK) and not self.benchmarks:
            raise ValueError(f"an accepted judgement in mode {self.mode} needs a benchmark")
        if bool(self.profiles) > (self.mode is Mode.PROFILE):
            raise ValueError(f"only mode {Mode.PROFILE} may have profiles")
        if self.verdict is Verdict.ACCEPTED and self.mode is Mode.PROFILE and not self.profiles:
            raise ValueError(f"an accepted judgement in mode {self.mode} needs a profile")
        if self.claim is not Claim.SELF_TIMED and any(case.told for case in self.cases):
            raise ValueError(f"times from the task's own program can only claim {Claim.SELF_TIMED}")
        if self.forfeit and (self.duel or self.mode is not Mode.RANKED or self.verdict is not Verdict.ACCEPTED):
            raise ValueError("only an accepted ranked judgement without a duel can win one by forfeit")
        if self.finished_at < self.started_at:
            raise ValueError("finished before it started")
        return self

    def to_json(self) -> str:
        """The judgement as JSON, with its checksum filled in."""
        fields = self.model_dump(mode="json")
        fields["checksum"] = _checksum(fields)
        return json.dumps(fields, indent=1, ensure_ascii=True, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse a judgement from untrusted text.

        Raises:
            JudgementError: truncated, edited, too large, or not of this format; the message says which.
        """
        if len(text) > MAX_BYTES:
            raise JudgementError(f"larger than {MAX_BYTES // 2**20} MiB")
        content = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        if not _is_plainly_whole(content):
            _require_whole(text)
        try:
            # Strict JSON mode rejects "1" for 1, but accepts an array for a tuple and an ISO string for a time.
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise JudgementError(f"{'.'.join(map(str, first['loc'])) or 'judgement'}: {first['msg']}") from None


def _checksum(fields: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in fields.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _is_plainly_whole(content: bytes) -> bool:
    """Fast path: True only if the file is certainly an intact judgement; False means "check it the slow way".

    pydantic's parser and encoder are four times as fast as Python's, and they suffice for nearly every judgement.
    They drop duplicate keys silently, but a dropped key also drops its quotation marks, so those are counted.
    """
    try:
        fields = from_json(content, allow_inf_nan=False)
        if not isinstance(fields, dict) or fields.get("format") != _FORMAT or not _is_ours(fields.get("version")):
            return False
        claimed = fields.pop("checksum", None)
        canonical = to_json(_in_order(fields))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False
    # The checksum's key and value account for four.
    if content.count(b'"') != canonical.count(b'"') + 4 or (b"\\" in content and b"\\u0022" in content):
        return False
    canonical = _SMALL_EXPONENT.sub(rb"e-0\1", canonical)
    if not canonical.isascii():
        canonical = _BEYOND_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], canonical.decode()).encode()
    return bool(claimed == hashlib.sha256(canonical).hexdigest())


_BEYOND_ASCII = re.compile("[^\x00-\x7f]+")
_SMALL_EXPONENT = re.compile(rb"e-(?<=\de-)(\d)(?=[,}\]])")
"""pydantic writes 1e-7 where Python writes 1e-07.  A literal prefix makes the search fast."""


def _in_order(fields: dict[str, Any]) -> dict[str, Any]:
    """Sort object keys recursively.  Lists of numbers, most of a file, are passed through."""
    found = dict(sorted(fields.items()))
    for key, value in found.items():
        if type(value) is dict:
            found[key] = _in_order(value)
        elif type(value) is list and value and type(value[0]) is dict:
            keys = value[0].keys()
            is_plain = keys - {"estimator"} == _KEYS_OF_A_RUN and all(one.keys() == keys for one in value)
            found[key] = [_run_in_order(one) for one in value] if is_plain else [_in_order(one) for one in value]
    return found


_KEYS_OF_A_RUN = frozenset(Run.model_fields) - {"estimator"}


def _run_in_order(run: dict[str, Any]) -> dict[str, Any]:
    """`_in_order` for a run: files have dozens of them, so this is unrolled."""
    return {
        **({"estimator": run["estimator"]} if "estimator" in run else {}),
        "order": run["order"],
        "samples_us": run["samples_us"],
        "seeds": run["seeds"],
        "warmups_us": run["warmups_us"],
    }


def _require_whole(text: str | bytes) -> None:
    """Raise JudgementError if a file is not a judgement or is damaged; unusual but equivalent JSON passes."""
    try:
        fields = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_twins)
        checksum = _checksum(fields) if isinstance(fields, dict) else ""
    except (ValueError, RecursionError) as error:
        raise JudgementError(f"not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise JudgementError("not a PullRank judgement")
    if not _is_ours(fields.get("version")):
        raise JudgementError(f"format version {fields.get('version')!r}; this PullRank reads version {VERSION}")
    if fields.get("checksum") != checksum:
        raise JudgementError("checksum mismatch: the file was edited or truncated")


def _is_ours(version: object) -> bool:
    """Checks the type too: in Python, `true` and `1.0` equal 1."""
    return type(version) is int and version == VERSION


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("duplicate key")
    return fields
