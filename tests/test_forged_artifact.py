"""The judge's artifact, forged field by field; the list of fields comes from the format.

    of the wrong kind, missing, beyond its bounds     refused, for every field: made from the JSON Schema
    another value that the format allows              as in FORGED, which must list every field

The forger is as good as possible: the checksum always matches.
"""

import hashlib
import json
import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import CaseResult, Claim, Digests, Judgement
from harness.records.times import Forfeit, ToldRun, ToldTiming
from harness.records.verdict import Verdict
from harness.task.task import Baseline, Board, Evaluator
from scripts.bot.report.artifact import ArtifactError, read_artifact, why_no_match
from scripts.competition.settings import Gpu
from scripts.github.pulls import Job
from scripts.ledger.request import Request, make_id
from scripts.standings.standings import standings
from tests.competition import ROOT, SOURCE, cases_of, digest_of, duel_with, judgement_of, profiles_of, the_board, zipped

Json = dict[str, Any]

URL = "https://github.com/acme/kernels/actions/runs/7"
LATER = (datetime.now(UTC) + timedelta(days=1)).isoformat()
GOOD: Json = {
    "verdict": Verdict.ACCEPTED, "seconds": 1.0, "digests": Digests(inputs="1" * 64, outputs="2" * 64),
}  # fmt: skip


def asked(mode: Mode) -> Request:
    return Request(
        id=make_id(12, "a" * 40, "CPU", mode), user_id=7, login="alice", pull_request=12, head_sha="a" * 40,
        blob_sha="b" * 40, task="vectoradd", gpu="CPU", mode=mode, digest=digest_of(SOURCE),
        asked_at=datetime.now(UTC), asked_by=7,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Honest:
    """An honest judgement, which is accepted, and its request."""

    judgement: Judgement
    request: Request
    board: Board

    @property
    def fields(self) -> Json:
        return dict(json.loads(self.judgement.to_json()))


def by_the_referee() -> Honest:
    request = asked(Mode.RANKED)
    return Honest(
        judgement=judgement_of(request, URL, duel=duel_with("bob", b"theirs", 0.8, earlier=1)),
        request=request,
        board=the_board(),
    )


def by_its_own_program() -> Honest:
    """A board whose task measures the times itself."""
    board, request = replace(the_board().task, evaluator=Evaluator.SCRIPT).board("CPU"), asked(Mode.RANKED)
    run: Json = {"calls": 9, "mean_us": 50.0, "std_us": 1.0, "err_us": 0.5, "best_us": 45.0, "worst_us": 60.0}
    told = ToldTiming.of(tuple(ToldRun(order=order, seed=order, **run) for order in range(6)))
    untimed = [case for case in cases_of(board, Mode.RANKED, 0.5) if case.kind is not CaseKind.BENCHMARK]
    timed = [
        CaseResult(kind=CaseKind.BENCHMARK, params=dict(case.params), told=told, **GOOD) for case in board.benchmarks
    ]
    made = judgement_of(request, URL, cases=(*untimed, *timed), claim=Claim.SELF_TIMED, edition=board.edition)
    return Honest(judgement=made, request=request, board=board)


def profiled() -> Honest:
    """The profile of a baseline."""
    board, request = the_board(), asked(Mode.PROFILE)
    made = judgement_of(request, URL, cases=profiles_of(board), baseline="torch.add")
    named = (Baseline(name="torch.add", path=ROOT / "add.py", digest=request.digest or ""),)
    return Honest(judgement=made, request=request, board=replace(board, task=replace(board.task, baselines=named)))


def sealed(fields: Json) -> Json:
    """With the matching checksum."""
    rest = {key: value for key, value in fields.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {"checksum": hashlib.sha256(text.encode()).hexdigest()}


def on_a_gpu() -> Honest:
    """Timed by the referee, with the driver's report on the GPU after each run."""
    honest = by_the_referee()
    fields = honest.fields
    state = {"clock_mhz": 1980.0, "temperature_c": 61.0, "power_w": 640.0, "held_back": ["power cap"], "hindrance": ""}
    timings = [case["timing"] for case in fields["cases"] if case.get("timing")]
    for timing, runs in [(one, "submission") for one in timings] + [
        (one, "challenger") for one in fields["duel"]["cases"]
    ]:
        timing["gpu"] = [state] * 2 * len(timing[runs])
        if "overhead_us" in timing:
            timing["overheads_us"] = [timing["overhead_us"]] * len(timing[runs])
        timing["calls_per_sample"] = 3
    sides = ("submission", "anchor", "challenger", "champion")
    for run in (run for one in (*timings, *fields["duel"]["cases"]) for side in sides for run in one.get(side, ())):
        run["estimator"] = "tapered mean"
    return replace(honest, judgement=Judgement.from_json(json.dumps(sealed(fields)).encode()))


def by_forfeit() -> Honest:
    """A duel in which the champion's file failed."""
    request = asked(Mode.RANKED)
    lost = Forfeit(opponent="bob", opponent_digest=digest_of(b"theirs"), verdict=Verdict.RUN_TIME_ERROR, message="")
    return Honest(judgement=judgement_of(request, URL, forfeit=lost), request=request, board=the_board())


HONEST = (by_the_referee(), by_its_own_program(), profiled(), on_a_gpu(), by_forfeit())

REFUSED, JUDGED_AGAIN, NOT_RANKED, TAKEN = "refused", "judged again", "not ranked", "taken"


def what_comes_of(fields: Json, honest: Honest) -> str:
    try:
        handed = read_artifact(zipped(json.dumps(fields)))
    except ArtifactError:
        return REFUSED
    assert isinstance(handed, Judgement)
    true = honest.judgement
    job = Job(name="judge", started_at=true.started_at, completed_at=true.finished_at)
    gpu = Gpu(runs_on="x", device=("CPU",))
    if why_no_match(handed, honest.request, honest.board, gpu, true.harness.digest, job, URL):
        return REFUSED
    baseline = honest.board.task.baseline_name(handed.submission.digest)
    if (handed.edition, handed.baseline) != (honest.board.edition, baseline):
        return JUDGED_AGAIN
    is_ranked = honest.request.is_ranked and standings(honest.board, [handed]).rows
    return TAKEN if is_ranked or not honest.request.is_ranked else NOT_RANKED


@pytest.mark.parametrize("honest", HONEST, ids=["referee", "program", "profile", "gpu", "forfeit"])
def test_an_honest_judgement_is_accepted(honest: Honest) -> None:
    assert what_comes_of(honest.fields, honest) == TAKEN
    assert sealed(honest.fields) == honest.fields


# The format: every field by its place, as `cases[].timing.submission[].samples_us`.

SCHEMA = Judgement.model_json_schema()


def resolved(node: Json) -> Json:
    while "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def kinds_of(node: Json) -> list[Json]:
    """The kinds that a value may have."""
    node = resolved(node)
    return [kind for one in node["anyOf"] for kind in kinds_of(one)] if "anyOf" in node else [node]


def places_in(node: Json, within: str = "") -> Iterator[tuple[str, Json]]:
    """Each field's place, with its schema."""
    for kind in kinds_of(node):
        if "items" in kind:
            yield from places_in(kind["items"], f"{within}[]")
        for name, field in kind.get("properties", {}).items():
            place = f"{within}.{name}".lstrip(".")
            yield place, field
            yield from places_in(field, place)


PLACES = dict(places_in(SCHEMA))


def holders(place: str, within: Any) -> Iterator[tuple[Json, str]]:
    """Every object with the field at this place, and the field's name."""
    head, _, rest = place.partition(".")
    name, many = head.removesuffix("[]"), head.endswith("[]")
    if not isinstance(within, dict) or name not in within:
        return
    if not rest:
        yield within, name
        return
    for one in within[name] if many else [within[name]]:
        yield from holders(rest, one)


def forgeries(place: str, values: list[Any]) -> Iterator[tuple[Json, Honest, Any]]:
    """Judgements where the last such field has another value."""
    honest = next(one for one in HONEST if list(holders(place, one.fields)))
    for value in values:
        fields = deepcopy(honest.fields)
        holder, name = list(holders(place, fields))[-1]
        if value is MISSING:
            del holder[name]
        else:
            holder[name] = value
        yield fields if place == "checksum" else sealed(fields), honest, value


MISSING = object()
OF_EACH_KIND: dict[str, Any] = {
    "null": None, "boolean": True, "integer": 7, "number": 0.5, "string": "x", "array": [], "object": {},
}  # fmt: skip


def of_the_wrong_kind(field: Json) -> list[Any]:
    kinds = {kind.get("type", "string") for kind in kinds_of(field)}
    if "number" in kinds:
        kinds.add("integer")
    return [value for kind, value in OF_EACH_KIND.items() if kind not in kinds]


def beyond_bounds(field: Json) -> Iterator[Any]:
    for kind in kinds_of(field):
        if kind.get("type") in ("number", "integer"):
            yield from (math.nan, math.inf, -math.inf)
        for bound, beyond in (("minimum", -1), ("exclusiveMinimum", 0), ("maximum", 1), ("exclusiveMaximum", 0)):
            if bound in kind:
                yield kind[bound] + beyond
        if "maxLength" in kind:
            yield "x" * (kind["maxLength"] + 1)
        if kind.get("pattern"):
            yield from ("", "../../etc", "x\n", "é")
        if "minItems" in kind:
            yield []
        if "const" in kind or "enum" in kind:
            yield from ("", "x", *([] if {"type": "null"} in kinds_of(field) else [None]))


@pytest.mark.parametrize("place", PLACES)
def test_a_value_of_the_wrong_kind_is_refused(place: str) -> None:
    for fields, honest, value in forgeries(place, of_the_wrong_kind(PLACES[place])):
        assert what_comes_of(fields, honest) == REFUSED, value


@pytest.mark.parametrize("place", [place for place, field in PLACES.items() if list(beyond_bounds(field))])
def test_a_value_beyond_its_bounds_is_refused(place: str) -> None:
    for fields, honest, value in forgeries(place, list(beyond_bounds(PLACES[place]))):
        assert what_comes_of(fields, honest) == REFUSED, value


def required(node: Json, within: str = "") -> Iterator[str]:
    for kind in kinds_of(node):
        if "items" in kind:
            yield from required(kind["items"], f"{within}[]")
        for name, field in kind.get("properties", {}).items():
            place = f"{within}.{name}".lstrip(".")
            if name in kind.get("required", ()):
                yield place
            yield from required(field, place)


@pytest.mark.parametrize("place", dict.fromkeys(required(SCHEMA)))
def test_a_judgement_with_a_missing_field_is_refused(place: str) -> None:
    for fields, honest, _ in forgeries(place, [MISSING]):
        assert what_comes_of(fields, honest) == REFUSED


@pytest.mark.parametrize("place", [place for place, field in PLACES.items() if "properties" in kinds_of(field)[0]])
def test_an_extra_field_is_refused_anywhere(place: str) -> None:
    honest = next(one for one in HONEST if list(holders(f"{place}.", one.fields)) or list(holders(place, one.fields)))
    fields = deepcopy(honest.fields)
    holder, name = next((holder, name) for holder, name in holders(place, fields) if holder[name] is not None)
    holder[name]["more"] = 1
    assert what_comes_of(sealed(fields), honest) == REFUSED


# Another value that a field may have.

RUN = {"order": 99, "warmups_us": [1.0], "samples_us": [1.0], "seeds": [99], "estimator": "median"}
"""Samples that contradict the medians or do not match the number of seeds; an order; any seeds."""
RUN_COMES_TO = {"order": TAKEN, "warmups_us": REFUSED, "samples_us": REFUSED, "seeds": TAKEN, "estimator": REFUSED}
WORDS = "x </details> @everyone"

FORGED: dict[str, tuple[Any, str]] = {
    "format": ("pullrank-request", REFUSED),
    "version": (2, REFUSED),
    "task": ("matmul", REFUSED),
    "edition": ("0" * 64, JUDGED_AGAIN),
    "baseline": ("torch.mul", JUDGED_AGAIN),
    "gpu": ("H100", REFUSED),
    "mode": ("benchmark", REFUSED),
    "submission.login": ("bob", REFUSED),
    "submission.user_id": (8, REFUSED),
    "submission.pull_request": (13, REFUSED),
    "submission.head_sha": ("c" * 40, REFUSED),
    "submission.digest": ("d" * 64, REFUSED),
    "verdict": ("WA", REFUSED),
    "machine.device": ("H100", REFUSED),
    "sandbox.kind": ("none", REFUSED),
    "harness.digest": ("0" * 64, REFUSED),
    "started_at": ("2026-01-01T00:00:00Z", REFUSED),
    "finished_at": (LATER, REFUSED),
    "run_url": ("https://evil.example/", REFUSED),
    "checksum": ("0" * 64, REFUSED),
    # A duel with anybody but the first of the board decides nothing, whoever wins it.
    "duel.opponent": ("nobody", TAKEN),
    "duel.opponent_digest": ("e" * 64, TAKEN),
    "duel.won": (False, REFUSED),
    "duel.earlier": (99, REFUSED),
    "forfeit.opponent": ("mallory", TAKEN),
    "forfeit.opponent_digest": ("0" * 64, TAKEN),
    "forfeit.verdict": ("JE", REFUSED),
    "forfeit.message": (WORDS, TAKEN),
    "duel.ratio.value": (0.5, REFUSED),
    "duel.ratio.low": (0.7, REFUSED),
    "duel.ratio.high": (0.9, REFUSED),
    "duel.cases[].params": ({"size": 1}, REFUSED),
    # The case, and its result.
    "cases[].kind": ("test", REFUSED),
    "cases[].params": ({"size": 1}, REFUSED),
    "cases[].verdict": ("WA", REFUSED),
    # The times: everything that follows from the samples is computed again.
    "cases[].timing.submission_us": (1.0, REFUSED),
    "cases[].timing.anchor_us": (1e6, REFUSED),
    "cases[].timing.ratio.value": (0.01, REFUSED),
    "cases[].timing.ratio.low": (0.01, REFUSED),
    "cases[].timing.ratio.high": (9.0, REFUSED),
    "cases[].told.time_us.value": (1.0, REFUSED),
    "cases[].told.time_us.low": (1.0, REFUSED),
    "cases[].told.time_us.high": (99.0, REFUSED),
    "cases[].told.runs[].mean_us": (46.0, REFUSED),
    "cases[].told.runs[].best_us": (55.0, REFUSED),
    "cases[].told.runs[].worst_us": (49.0, REFUSED),
    # Texts of the judge's machine about itself and about the file's output: shown, but nothing depends on them.
    "message": (WORDS, TAKEN),
    "log": (WORDS, TAKEN),
    "claim": ("inside-timed", TAKEN),
    "submission.lines": (9, TAKEN),
    "submission.language": (WORDS, TAKEN),
    "sandbox.stop": ("freezer", TAKEN),
    "sandbox.missing": ([WORDS], TAKEN),
    "harness.version": (WORDS, TAKEN),
    "harness.method": (9, TAKEN),
    "machine.cpu": (WORDS, TAKEN),
    "machine.cores": (64, TAKEN),
    "machine.memory_gib": (1.5, TAKEN),
    "machine.os": (WORDS, TAKEN),
    "machine.python": (WORDS, TAKEN),
    "machine.torch": (WORDS, TAKEN),
    "machine.driver": (WORDS, TAKEN),
    "machine.software": ({"Triton": WORDS}, TAKEN),
    "machine.clock_mhz": (1.0, TAKEN),
    "machine.temperature_c": (1.0, TAKEN),
    "machine.quiet": (False, TAKEN),
    "machine.note": (WORDS, TAKEN),
    "cases[].message": (WORDS, TAKEN),
    "cases[].seconds": (0.0, TAKEN),
    "cases[].seed": (99, TAKEN),
    "cases[].timing.overhead_us": (9.0, TAKEN),
    "cases[].timing.overheads_us": ([9.0], REFUSED),
    "cases[].timing.bound_us": (9.0, TAKEN),
    "cases[].timing.steady": (False, TAKEN),
    "cases[].timing.calls_per_sample": (9, TAKEN),
    "cases[].timing.note": (WORDS, TAKEN),
    "cases[].told.note": (WORDS, TAKEN),
    **{
        f"{place}.gpu[].{name}": (value, TAKEN)
        for place in ("cases[].timing", "duel.cases[]")
        for name, value in {
            "clock_mhz": 1.0,
            "temperature_c": 1.0,
            "power_w": 1.0,
            "held_back": [WORDS],
            "hindrance": WORDS,
        }.items()
    },
    "duel.cases[].calls_per_sample": (9, TAKEN),
    "cases[].digests.inputs": ("0" * 64, TAKEN),
    "cases[].digests.outputs": ("0" * 64, TAKEN),
    "cases[].told.runs[].order": (99, TAKEN),
    "cases[].told.runs[].calls": (99, TAKEN),
    "cases[].told.runs[].std_us": (9.0, TAKEN),
    "cases[].told.runs[].err_us": (9.0, TAKEN),
    "cases[].told.runs[].seed": (99, TAKEN),
    "cases[].profile.call_us": (9.0, TAKEN),
    "cases[].profile.operations[].name": (WORDS, TAKEN),
    "cases[].profile.operations[].on_device": (True, TAKEN),
    "cases[].profile.operations[].calls": (99, TAKEN),
    "cases[].profile.operations[].own_us": (9.0, TAKEN),
    "cases[].profile.counters.tool": ("rocprofv3", TAKEN),
    "cases[].profile.counters.trouble": (WORDS, REFUSED),
    "cases[].profile.counters.report_bytes": (99, TAKEN),
    "cases[].profile.counters.chosen.kernel": ("mul", TAKEN),
    "cases[].profile.counters.chosen.skip": (99, TAKEN),
    "cases[].profile.counters.chosen.count": (9, TAKEN),
    "cases[].profile.cpu.cpu_us": (1.0, TAKEN),
    "cases[].profile.cpu.page_faults": (99, TAKEN),
    "cases[].profile.cpu.context_switches": (99, TAKEN),
    "cases[].profile.cpu.cycles": (1, TAKEN),
    "cases[].profile.cpu.instructions": (None, TAKEN),
    "cases[].profile.cpu.cache_misses": (None, TAKEN),
    "cases[].profile.cpu.branch_misses": (99, TAKEN),
    "cases[].profile.counters.kernels[].name": (WORDS, TAKEN),
    "cases[].profile.counters.kernels[].launches": (99, TAKEN),
    "cases[].profile.counters.kernels[].time_us": (1.0, TAKEN),
    "cases[].profile.counters.kernels[].compute": (1.5, TAKEN),
    "cases[].profile.counters.kernels[].memory": (None, TAKEN),
    "cases[].profile.counters.kernels[].occupancy": (1.0, TAKEN),
    "cases[].profile.counters.kernels[].registers": (99, TAKEN),
    "cases[].profile.counters.kernels[].limiter": ("blocks", TAKEN),
}
for side in ("cases[].timing.submission", "cases[].timing.anchor", "duel.cases[].challenger", "duel.cases[].champion"):
    FORGED |= {f"{side}[].{name}": (value, RUN_COMES_TO[name]) for name, value in RUN.items()}


def is_leaf(field: Json) -> bool:
    kinds = [resolved(kind.get("items", kind)) for kind in kinds_of(field)]
    return not any("properties" in kind for kind in kinds)


def test_the_forgery_table_covers_every_field() -> None:
    assert sorted(FORGED) == sorted(place for place, field in PLACES.items() if is_leaf(field))


@pytest.mark.parametrize("place", FORGED)
def test_a_forged_value_has_the_listed_outcome(place: str) -> None:
    value, outcome = FORGED[place]
    ((fields, honest, _),) = forgeries(place, [value])
    assert fields != honest.fields
    assert what_comes_of(fields, honest) == outcome


# A list with one entry less, and with twice as many.  Texts that are only shown are harmless at any length.
LISTS = {
    place: (REFUSED, REFUSED) for place, field in PLACES.items() if not is_leaf(field) and "items" in kinds_of(field)[0]
}
LISTS |= {
    "cases[].told.runs": (REFUSED, TAKEN),
    "cases[].profile.operations": (TAKEN, TAKEN),
    "cases[].profile.counters.kernels": (REFUSED, TAKEN),
}


@pytest.mark.parametrize("place", LISTS)
def test_a_shortened_or_doubled_list_has_the_listed_outcome(place: str) -> None:
    honest = next(one for one in HONEST if list(holders(place, one.fields)))
    holder, name = list(holders(place, honest.fields))[-1]
    forged = forgeries(place, [holder[name][:-1], holder[name] * 2])
    assert tuple(what_comes_of(fields, honest) for fields, _, _ in forged) == LISTS[place]
