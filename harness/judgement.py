"""Everything about one judging, as one JSON file.

    Judgement
      submission            whose file, from which commit
      cases[0]              the build;  then tests, then benchmarks, in the order of the task
        timing              by the referee:
          runs              one player process each: warm-ups, samples, seeds; all of them, in order of play
          ratio             submission / anchor over the pairs of runs, with its interval
        told                by the task's own program, in its words: one entry for each of its processes
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
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    model_serializer,
    model_validator,
)

from harness.stats import DUEL_LOOKS, MIN_PAIRS, Interval, duel_interval, is_faster, median, ratio_interval
from harness.verdict import Verdict, overall

VERSION = 1
MAX_BYTES = 32 * 1024 * 1024
"""Larger files are refused unread."""

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9](-?[A-Za-z0-9])*$", max_length=39)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
"""Of a task or a GPU: safe as the name of a folder and as a part of a URL."""
MAX_MESSAGE = 20_000
Text = Annotated[str, StringConstraints(max_length=MAX_MESSAGE)]
Line = Annotated[str, StringConstraints(max_length=500)]
Microseconds = Annotated[float, Field(ge=1e-6, lt=1e12)]
"""Far beyond anything real on both sides, and no ratio of two overflows."""
Spread = Annotated[float, Field(ge=0, lt=1e12)]
"""A deviation, in microseconds."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Param = bool | int | float | Line | tuple[int, ...]
"""A value of one of `generate_input`'s arguments."""


class JudgementError(ValueError):
    """A judgement is torn, edited, or of a format that this version does not read."""


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Mode(StrEnum):
    TEST = "test"
    BENCHMARK = "benchmark"
    RANKED = "ranked"
    PROFILE = "profile"


class CaseKind(StrEnum):
    BUILD = "build"
    TEST = "test"
    BENCHMARK = "benchmark"


class Claim(StrEnum):
    """What a judgement's times may claim; see `site/pages/judging.md`."""

    BOUNDED = "bounded"
    INSIDE_TIMED = "inside-timed"
    SELF_TIMED = "self-timed"


class Run(Model):
    """One fresh player on one benchmark: every call it made, in order."""

    order: int = Field(ge=0, description="place among all runs of this case, both sides counted")
    warmups_us: tuple[Microseconds, ...]
    samples_us: tuple[Microseconds, ...] = Field(min_length=1)
    seeds: tuple[Seed, ...] = Field(description="one per call, warm-ups first")

    @cached_property
    def median_us(self) -> float:
        return median(self.samples_us)

    @model_validator(mode="after")
    def _has_a_seed_per_call(self) -> Self:
        if len(self.seeds) != len(self.warmups_us) + len(self.samples_us):
            raise ValueError("a run needs one seed for each of its calls")
        return self


Runs = Annotated[tuple[Run, ...], Field(min_length=1, max_length=500)]
"""One side's.  Bounded, because the interval's cost grows with the square of their number."""


class Timing(Model):
    """A benchmark's times, submission against anchor.  `ratio` is what ranks; the medians are for readers."""

    submission: Runs
    anchor: Runs
    submission_us: Microseconds
    anchor_us: Microseconds
    ratio: Interval
    overhead_us: PositiveFloat = Field(description="lower quartile of an idle honest player's windows; subtracted")
    bound_us: PositiveFloat = Field(description="the most by which a time could understate the truth")
    steady: bool
    note: Line = Field(description="why it is not steady, and what to do")

    @classmethod
    def of(cls, submission: tuple[Run, ...], anchor: tuple[Run, ...], **rest: Any) -> Self:
        """Timing with everything that follows from the samples filled in."""
        return cls(
            submission=submission,
            anchor=anchor,
            submission_us=median([run.median_us for run in submission]),
            anchor_us=median([run.median_us for run in anchor]),
            ratio=ratio_interval(pair_ratios(submission, anchor)),
            **rest,
        )

    @property
    def pair_ratios(self) -> tuple[float, ...]:
        return pair_ratios(self.submission, self.anchor)

    @model_validator(mode="after")
    def _follows_from_its_samples(self) -> Self:
        if len(self.submission) != len(self.anchor):
            raise ValueError("every run of the submission needs a run of the anchor beside it")
        expected = (
            median([run.median_us for run in self.submission]),
            median([run.median_us for run in self.anchor]),
            *_numbers(ratio_interval(self.pair_ratios)),
        )
        if not all(map(math.isclose, (self.submission_us, self.anchor_us, *_numbers(self.ratio)), expected)):
            raise ValueError("medians and ratio do not follow from the samples")
        return self


class ToldRun(Model):
    """What one process of the task's own program says of its calls.  Nothing but its word stands behind it."""

    order: int = Field(ge=0, description="place among all processes of this case")
    calls: PositiveInt
    mean_us: Microseconds
    std_us: Spread
    err_us: Spread = Field(description="standard error of the mean")
    best_us: Microseconds
    worst_us: Microseconds
    seed: Seed | None = Field(description="POPCORN_SEED of this process, if it was given one")

    @model_validator(mode="after")
    def _lies_between_its_extremes(self) -> Self:
        # A mean that was rounded on its way through text may leave the range by as much.
        if not self.best_us * (1 - 1e-6) <= self.mean_us <= self.worst_us * (1 + 1e-6):
            raise ValueError("a mean lies between the best and the worst")
        return self

    @property
    def range_us(self) -> Interval:
        """The mean with 1.96 standard errors to either side; never below its best call."""
        low = max(self.mean_us - 1.96 * self.err_us, min(self.best_us, self.mean_us))
        return Interval(value=self.mean_us, low=low, high=self.mean_us + 1.96 * self.err_us)


class ToldTiming(Model):
    """A benchmark's time where the task's own program takes it: there is no anchor, and no bound."""

    runs: Annotated[tuple[ToldRun, ...], Field(min_length=1, max_length=500)]
    time_us: Interval
    note: Line = Field(default="", description="why fewer processes ran than make a 95 % interval")

    @classmethod
    def of(cls, runs: tuple[ToldRun, ...], note: str = "") -> Self:
        return cls(runs=runs, time_us=told_time(runs), note=note)

    @model_validator(mode="after")
    def _follows_from_its_runs(self) -> Self:
        if not all(map(math.isclose, _numbers(self.time_us), _numbers(told_time(self.runs)))):
            raise ValueError("the time does not follow from what was told")
        return self


class CaseResult(Model):
    kind: CaseKind
    params: dict[Name, Param]
    verdict: Verdict
    message: Text = ""
    seconds: float = Field(ge=0, description="wall time spent on this case")
    seed: Seed | None = Field(default=None, description="of a test, so that it can be replayed")
    timing: Timing | None = None
    told: ToldTiming | None = None

    @property
    def time_us(self) -> float | None:
        """The submission's time, whoever took it."""
        return self.timing.submission_us if self.timing else self.told.time_us.value if self.told else None

    @model_serializer(mode="wrap")
    def _as_fields(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `told` where nothing was: files from before there was such a thing are written as they were."""
        fields: dict[str, Any] = handler(self)
        if self.told is None:
            del fields["told"]
        return fields

    @model_validator(mode="after")
    def _has_samples_only_when_accepted(self) -> Self:
        is_timed = bool(self.timing or self.told)
        if is_timed and (self.verdict is not Verdict.ACCEPTED or self.kind is not CaseKind.BENCHMARK):
            raise ValueError("samples exist only for accepted benchmarks")
        if self.kind is CaseKind.BENCHMARK and self.verdict is Verdict.ACCEPTED and not is_timed:
            raise ValueError("an accepted benchmark needs samples")
        if self.timing and self.told:
            raise ValueError("a time is either taken by the referee or told by the task's program")
        return self


class DuelCase(Model):
    """One benchmark of a duel: block b holds runs 2b and 2b+1 of either side, played A-B-B-A."""

    params: dict[Name, Param]
    challenger: Runs
    champion: Runs

    @property
    def blocks(self) -> int:
        return len(self.challenger) // 2

    @property
    def block_times_us(self) -> list[tuple[float, float]]:
        """Challenger's and champion's time in each block: the geometric means of two runs each."""
        return list(zip(_means_of_two(self.challenger), _means_of_two(self.champion), strict=True))

    @property
    def ratio(self) -> Interval:
        """Challenger / champion over the blocks of this benchmark."""
        return duel_interval([ours / theirs for ours, theirs in self.block_times_us])

    @model_validator(mode="after")
    def _is_made_of_whole_blocks(self) -> Self:
        if len(self.challenger) != len(self.champion) or len(self.challenger) % 2:
            raise ValueError("a duel is made of whole A-B-B-A blocks")
        return self


class Duel(Model):
    """The interleaved comparison with the champion.  `ratio` is challenger / champion over the blocks."""

    opponent: Login
    opponent_digest: Digest
    cases: tuple[DuelCase, ...] = Field(min_length=1)
    ratio: Interval
    won: bool

    @model_validator(mode="after")
    def _is_won_as_it_says(self) -> Self:
        blocks = {case.blocks for case in self.cases}
        if len(blocks) > 1:
            raise ValueError("a duel plays equally many blocks of each case")
        if self.won != (is_faster(self.ratio) and min(blocks) >= DUEL_LOOKS[0]):
            raise ValueError("who won a duel does not follow from its ratio")
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
            fields = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_refuse_duplicates)
        except (ValueError, RecursionError) as error:
            raise JudgementError(f"not JSON: {error}") from None
        if not isinstance(fields, dict) or fields.get("format") != "pullrank-judgement":
            raise JudgementError("not a PullRank judgement")
        if fields.get("version") != VERSION:
            raise JudgementError(f"format version {fields.get('version')!r}; this PullRank reads version {VERSION}")
        if fields.get("checksum") != _checksum(fields):
            raise JudgementError("its checksum does not match: the file was edited or cut off")
        try:
            # Strict JSON mode: "1" is not 1, but an array is a tuple and an ISO string a time.
            return cls.model_validate_json(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise JudgementError(f"{'.'.join(map(str, first['loc'])) or 'judgement'}: {first['msg']}") from None


def pair_ratios(submission: tuple[Run, ...], anchor: tuple[Run, ...]) -> tuple[float, ...]:
    """Submission / anchor for each pair of runs that were played beside each other."""
    return tuple(a.median_us / b.median_us for a, b in zip(submission, anchor, strict=False))


def told_time(runs: Sequence[ToldRun]) -> Interval:
    """What the processes of a task's own program say together, in microseconds.

    From `MIN_PAIRS` processes on, the Hodges-Lehmann interval over their means.  Of fewer, the whole range of what they
    say of themselves: that knows nothing of how processes differ, and may be too narrow, so there is a note beside it.
    """
    found = ratio_interval([run.mean_us for run in runs])
    if len(runs) >= MIN_PAIRS:
        return found
    ranges = [run.range_us for run in runs]
    low, high = min(one.low for one in ranges), max(one.high for one in ranges)
    return Interval(value=found.value, low=min(low, found.value), high=max(high, found.value))


def _means_of_two(runs: tuple[Run, ...]) -> list[float]:
    return [math.sqrt(first.median_us * second.median_us) for first, second in zip(runs[::2], runs[1::2], strict=True)]


def language_of(source: str, suffix: str) -> str:
    """What a submission is written in, by the imports and the suffix that give it away; for readers only."""
    if suffix == ".cu":
        return "CUDA C++" if re.search(r"__global__|__device__|<<<|\bcuda|\bcutlass\b|\bcute\b", source) else "C++"
    for pattern, language in _LANGUAGES:
        if re.search(pattern, source, re.MULTILINE):
            return language
    return "PyTorch" if re.search(r"^[ \t]*(import|from)\s+torch\b", source, re.MULTILINE) else "Python"


_LANGUAGES = (
    (r"\bload_inline\b|\bcpp_extension\b", "C++"),
    (r"^[ \t]*(import|from)\s+triton\b", "Triton"),
    (r"^[ \t]*(import|from)\s+cutlass\b", "CuTe DSL"),
    (r"^[ \t]*(import|from)\s+jax\b", "JAX"),
    (r"^[ \t]*(import|from)\s+cupy\b", "CuPy"),
    (r"^[ \t]*(import|from)\s+numba\b", "Numba"),
    (r"^[ \t]*(import|from)\s+ctypes\b", "C"),
)


def _numbers(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high


def _checksum(fields: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in fields.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice")
    return fields
