"""Judgements: samples of every version, invariants, and errors for hostile files."""

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import (
    VERSION,
    CaseResult,
    Judgement,
    JudgementError,
    SandboxInfo,
    SubmissionInfo,
    _checksum,
)
from harness.records.stats import DUEL_LOOKS, Interval
from harness.records.times import Duel, DuelCase, Forfeit, GpuState, Run, Timing
from harness.records.verdict import Verdict
from harness.task.submission import language_of
from tests.properties import given, settings, st

SAMPLES = Path(__file__).parent / "judgements"
NEWEST = SAMPLES / f"v{VERSION}.json"
"""Written once, by that version of PullRank, and never changed: old ledgers must stay readable."""

Fields = dict[str, Any]


def sample(**changes: Any) -> Judgement:
    fields = {name: getattr(NEWEST_JUDGEMENT, name) for name in Judgement.model_fields} | changes
    return Judgement(**fields)


NEWEST_JUDGEMENT = Judgement.from_json(NEWEST.read_bytes())


def edited(change: Callable[[Fields], object]) -> str:
    """The sample with a change and the matching checksum: the work of a forger."""
    fields: Fields = json.loads(NEWEST.read_text())
    change(fields)
    fields["checksum"] = _checksum(fields)
    return json.dumps(fields)


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("v*.json")), ids=lambda path: path.stem)
def test_a_kept_sample_still_reads_and_writes_the_same(path: Path) -> None:
    text = path.read_text("utf-8")
    assert Judgement.from_json(text).to_json() == text
    assert Judgement.from_json(text.encode()) == Judgement.from_json(text)


def test_every_version_has_a_kept_sample() -> None:
    assert [path.name for path in sorted(SAMPLES.glob("*.json"))] == [f"v{n + 1}.json" for n in range(VERSION)]


def test_the_newest_sample_has_the_expected_facts() -> None:
    judgement = NEWEST_JUDGEMENT
    assert (judgement.submission.login, judgement.verdict, judgement.mode) == ("grace-h", Verdict.ACCEPTED, Mode.RANKED)
    assert (len(judgement.tests), len(judgement.benchmarks)) == (3, 2)
    assert judgement.duel and judgement.duel.won
    assert judgement.is_rankable


params = st.dictionaries(
    st.sampled_from(["size", "seed", "n_heads", "B", "eps"]),
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(tuple),
    max_size=4,
)


@settings(deadline=None, derandomize=True, max_examples=25, database=None)
@given(
    case_params=params,
    message=st.text(max_size=100),
    log=st.text(max_size=100),
    at=st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
    seconds=st.floats(0, 1e6),
    seed=st.none() | st.integers(0, 2**63 - 1),
)
def test_a_judgement_survives_writing_and_reading_unchanged(
    case_params: Fields, message: str, log: str, at: datetime, seconds: float, seed: int | None
) -> None:
    wrong = Verdict.WRONG_ANSWER
    build = CaseResult(kind=CaseKind.BUILD, params={}, verdict=Verdict.ACCEPTED, seconds=seconds)
    case = CaseResult(
        kind=CaseKind.TEST, params=case_params, verdict=wrong, message=message, seconds=seconds, seed=seed
    )
    judgement = sample(
        verdict=wrong, message=message, cases=(build, case), duel=None, log=log, started_at=at, finished_at=at
    )
    text = judgement.to_json()
    assert text.isascii()
    again = Judgement.from_json(text)
    assert again.to_json() == text
    assert again.model_copy(update={"checksum": judgement.checksum}) == judgement
    assert [type(value) for value in again.cases[1].params.values()] == [type(value) for value in case_params.values()]


def runs(*medians_us: float) -> tuple[Run, ...]:
    return tuple(
        Run(order=order, warmups_us=(), samples_us=(us,), seeds=(order,)) for order, us in enumerate(medians_us)
    )


def timing(**changes: Any) -> Timing:
    made = Timing.of(runs(5, 6, 7), runs(10, 10, 10), overhead_us=1.0, bound_us=1.0, steady=True, note="")
    return Timing(**({name: getattr(made, name) for name in Timing.model_fields} | changes))


def duel(**changes: Any) -> Duel:
    case = DuelCase(params={}, challenger=runs(*[9.0] * 16), champion=runs(*[10.0] * 16))
    fields: Fields = {
        "opponent": "ada",
        "opponent_digest": "d" * 64,
        "cases": (case,),
        "ratio": Interval(value=0.9, low=0.89, high=0.91),
        "won": True,
    }
    return Duel(**(fields | changes))


TRIMMED: Fields = {"estimator": "trimmed mean"}


def forfeit(verdict: Verdict = Verdict.RUN_TIME_ERROR) -> Forfeit:
    return Forfeit(opponent="ada", opponent_digest="d" * 64, verdict=verdict, message="It crashed.")


def test_a_forfeited_duel_is_written_and_read_back() -> None:
    judgement = sample(duel=None, forfeit=forfeit())
    assert Judgement.from_json(judgement.to_json()).forfeit == forfeit()
    assert "forfeit" not in NEWEST_JUDGEMENT.to_json(), "files of earlier versions stay the same"


def test_a_judgement_without_samples_has_the_same_times() -> None:
    whole = sample(duel=duel())
    light = whole.without_samples()
    for old, new in zip(whole.benchmarks, light.benchmarks, strict=True):
        assert old.timing and new.timing and (new.time_us, new.timing.ratio) == (old.time_us, old.timing.ratio)
        assert new.timing.pair_ratios == old.timing.pair_ratios
        assert all(len(run.samples_us) == 1 for run in (*new.timing.submission, *new.timing.anchor))
    assert whole.duel and light.duel
    assert [one.block_times_us for one in light.duel.cases] == [one.block_times_us for one in whole.duel.cases]
    assert light.checksum == whole.checksum and light.submission == whole.submission
    assert Judgement.from_json(light.to_json()).cases == light.cases, "a valid judgement"


def test_by_methods_2_to_4_all_samples_of_a_stalled_run_count_but_an_anchor_cannot_stall() -> None:
    still = [Run(order=n, warmups_us=(), samples_us=(10.0,) * 5, seeds=(n,) * 5, **TRIMMED) for n in range(2)]
    stalled = still[0].model_copy(update={"estimator": "mean", "samples_us": (10.0,) * 4 + (1e6,)})
    rest: Fields = {"overhead_us": 1.0, "bound_us": 1.0, "steady": True, "note": ""}
    assert Timing.of((stalled,), (still[1],), **rest).submission_us == pytest.approx(200_008)
    with pytest.raises(ValueError, match="an anchor that stalls does not count"):
        Timing.of((still[1],), (stalled,), **rest)


@pytest.mark.parametrize(
    ("overheads_us", "message"), [((1.0, 2.0), "for every pair or none"), ((1.0, 2.0, 4.0), "is not the median")]
)
def test_the_overheads_of_pairs_match_the_pairs_and_their_median(overheads_us: tuple[float, ...], message: str) -> None:
    sides = runs(9.0, 9.0, 9.0), runs(10.0, 10.0, 10.0)
    rest: Fields = {"overhead_us": 3.0, "bound_us": 3.0, "steady": True, "note": ""}
    assert Timing.of(*sides, overheads_us=(1.0, 3.0, 4.0), **rest).overhead_us == 3.0
    assert "overheads_us" not in Timing.of(*sides, **rest).model_dump(), "files of earlier methods stay the same"
    with pytest.raises(ValueError, match=message):
        Timing.of(*sides, overheads_us=overheads_us, **rest)


@pytest.mark.parametrize(
    ("estimator", "time_us"), [("median", 3.0), ("trimmed mean", 8 / 3), ("tapered mean", (8 + 1) / 3.2)]
)
def test_a_run_keeps_the_estimator_of_its_method(estimator: str, time_us: float) -> None:
    samples = (1.0, 1.0, 3.0, 4.0, 9.0)
    run = Run.model_validate(
        {"order": 0, "warmups_us": (), "samples_us": samples, "seeds": (0,) * 5}
        | ({} if estimator == "median" else {"estimator": estimator})
    )
    assert run.time_us == pytest.approx(time_us)
    written = run.model_dump()
    assert ("estimator" in written) == (estimator != "median"), "files of method 1 stay the same"
    assert Run(**written).time_us == run.time_us


def short(blocks: int) -> DuelCase:
    return DuelCase(params={}, challenger=runs(*[9.0] * blocks * 2), champion=runs(*[10.0] * blocks * 2))


def case(**changes: Any) -> CaseResult:
    fields: Fields = {"kind": CaseKind.BENCHMARK, "params": {}, "verdict": Verdict.ACCEPTED, "seconds": 1.0}
    return CaseResult(**(fields | changes))


KINDS = (CaseKind.BUILD, CaseKind.TEST, CaseKind.BENCHMARK)
BUILD, TEST, BENCHMARK = (next(one for one in NEWEST_JUDGEMENT.cases if one.kind is kind) for kind in KINDS)
EARLIER = NEWEST_JUDGEMENT.started_at - timedelta(seconds=1)

REFUSED: dict[str, Callable[[], object]] = {
    "samples without acceptance": lambda: case(verdict=Verdict.WRONG_ANSWER, timing=timing()),
    "samples of a test": lambda: case(kind=CaseKind.TEST, timing=timing()),
    "an accepted benchmark without samples": case,
    "negative seconds": lambda: case(seconds=-1.0),
    "a parameter that is no number": lambda: case(kind=CaseKind.TEST, params={"size": float("nan")}),
    "a parameter with a bad name": lambda: case(kind=CaseKind.TEST, params={"<b>": 1}),
    "a time of nothing": lambda: runs(0.0),
    "a negative time": lambda: runs(-1.0),
    "a time without end": lambda: runs(float("inf")),
    "a time that is a denormal number": lambda: runs(5e-324),
    "a run without samples": lambda: Run(order=0, warmups_us=(1.0,), samples_us=(), seeds=(1,)),
    "a call without a seed": lambda: Run(order=0, warmups_us=(1.0,), samples_us=(1.0,), seeds=(1,)),
    "a GPU that told of some runs": lambda: timing(gpu=(GpuState(),) * 5),
    "a GPU that told of some runs of a duel": lambda: DuelCase(
        params={}, challenger=runs(1, 1), champion=runs(1, 1), gpu=(GpuState(),)
    ),
    "a run without its anchor": lambda: timing(anchor=runs(10, 10)),
    "runs without end": lambda: Timing.of(
        runs(*[1.0] * 501), runs(*[1.0] * 501), overhead_us=1.0, bound_us=1.0, steady=True, note=""
    ),
    "a median that is not its samples'": lambda: timing(submission_us=5.0),
    "a ratio that is not its samples'": lambda: timing(ratio=Interval(value=0.5, low=0.5, high=0.5)),
    "a bound of nothing": lambda: timing(bound_us=0.0),
    "half a block": lambda: DuelCase(params={}, challenger=runs(1, 1, 1), champion=runs(1, 1, 1)),
    "a duel without an opponent's runs": lambda: DuelCase(params={}, challenger=runs(1, 1), champion=()),
    "a duel without a case": lambda: duel(cases=()),
    "a duel forfeited by an accepted file": lambda: forfeit(Verdict.ACCEPTED),
    "runs whose times follow from their samples in two ways": lambda: timing(
        anchor=tuple(one.model_copy(update={"estimator": "trimmed mean"}) for one in runs(10, 10, 10))
    ),
    "runs of methods 4 and 5": lambda: Timing.of(
        tuple(one.model_copy(update={"estimator": "trimmed mean"}) for one in runs(10, 10, 10)),
        tuple(one.model_copy(update={"estimator": "tapered mean"}) for one in runs(10, 10, 10)),
        overhead_us=1.0,
        bound_us=1.0,
        steady=True,
        note="",
    ),
    "a run whose samples all count without a stall": lambda: Run(**runs(10)[0].model_dump() | {"estimator": "mean"}),
    "a duel both played and forfeited": lambda: sample(duel=duel(), forfeit=forfeit()),
    "a duel forfeited to a file that did not rank": lambda: sample(mode=Mode.BENCHMARK, duel=None, forfeit=forfeit()),
    "a duel of unequal cases": lambda: duel(cases=(short(8), short(7))),
    "a duel that says it is won": lambda: duel(ratio=Interval(value=0.9, low=0.8, high=1.01)),
    "a duel that says it is lost": lambda: duel(won=False),
    "a duel won in too few blocks": lambda: duel(cases=(short(DUEL_LOOKS[0] - 1),)),
    "no case": lambda: sample(cases=()),
    "no build": lambda: sample(cases=(TEST, BENCHMARK)),
    "acceptance without a test": lambda: sample(cases=(BUILD, BENCHMARK)),
    "a ranking without a benchmark": lambda: sample(cases=(BUILD, TEST)),
    "a verdict that is not its cases'": lambda: sample(verdict=Verdict.WRONG_ANSWER),
    "a time without a zone": lambda: sample(started_at=datetime(2026, 1, 1)),  # noqa: DTZ001
    "a time that UTC has no name for": lambda: sample(
        finished_at=datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))
    ),
    "an end before the start": lambda: sample(finished_at=EARLIER),
    "a login with a newline": lambda: SubmissionInfo(login="ada\n", digest="d" * 64, lines=1),
    "a login that is a path": lambda: SubmissionInfo(login="../ada", digest="d" * 64, lines=1),
    "a login longer than GitHub's": lambda: SubmissionInfo(login="a-" * 19 + "ab", digest="d" * 64, lines=1),
    "a task that is a path": lambda: sample(task="../../etc"),
    "a digest that is none": lambda: sample(edition="E" * 64),
    "walls that do not exist": lambda: SandboxInfo(kind="podman", stop="signals"),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_a_judgement_cannot_hold_invalid_fields(make: Callable[[], object]) -> None:
    with pytest.raises(ValidationError):
        make()


@pytest.mark.parametrize(
    ("changes", "is_rankable"),
    [
        ({}, True),
        ({"mode": Mode.BENCHMARK}, False),
        ({"sandbox": SandboxInfo(kind="none", stop="signals")}, False),
        ({"verdict": Verdict.TIME_LIMIT_EXCEEDED, "cases": (BUILD, case(verdict=Verdict.TIME_LIMIT_EXCEEDED))}, False),
    ],
)
def test_only_a_ranked_accepted_and_sandboxed_judgement_can_rank(changes: Fields, is_rankable: bool) -> None:
    assert sample(**changes).is_rankable is is_rankable


FORGED: dict[str, tuple[str, str]] = {
    "torn": (NEWEST.read_text()[:-100], "not JSON"),
    "empty": ("", "not JSON"),
    "no object": ("[]", "not a PullRank judgement"),
    "something else": ("{}", "not a PullRank judgement"),
    "nested without end": ("[" * 100_000, "not JSON"),
    "a number of ten thousand digits": ('{"format": ' + "9" * 10_000 + "}", "not JSON"),
    "a constant that is no number": ('{"format": NaN}', "NaN is not a number"),
    "a key that stands twice": ('{"format": "a", "format": "b"}', "duplicate key"),
    "edited": (NEWEST.read_text().replace('"grace-h"', '"mallory"'), "checksum"),
    "of a later version": (edited(lambda it: it.update(version=2)), "format version 2; this PullRank reads version 1"),
    "with an unknown key": (edited(lambda it: it.update(extra=1)), "extra: "),
    "with a missing key": (edited(lambda it: it.pop("claim")), "claim: "),
    "with a number in a string": (edited(lambda it: it["machine"].update(cores="2")), "machine.cores: "),
    "with an infinite time": (
        edited(lambda it: it["cases"][4]["timing"].update(bound_us=1e999)).replace("Infinity", "1e999"),
        "bound_us: ",
    ),
    "with an edited sample": (
        edited(lambda it: it["cases"][4]["timing"]["submission"][0].update(samples_us=[1.0] * 10)),
        "cases.4.timing: Value error, medians and ratio do not match the samples",
    ),
    "with a case that is a number": (edited(lambda it: it["cases"].append(5)), "cases.6: "),
    "with a run that is a number": (
        edited(lambda it: it["cases"][4]["timing"]["anchor"].append(5)),
        "cases.4.timing.anchor.",
    ),
    "with a run of other keys": (
        edited(lambda it: it["cases"][4]["timing"]["anchor"].append(dict.fromkeys("abcd", 0))),
        "cases.4.timing.anchor.",
    ),
    "with half a character": (edited(lambda it: it.update(log="\ud800")), "JSON"),
}


@pytest.mark.parametrize(("text", "reason"), FORGED.values(), ids=FORGED)
def test_a_broken_or_forged_file_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(JudgementError) as caught:
        Judgement.from_json(text)
    assert reason in str(caught.value)


def test_a_file_nested_to_any_depth_is_refused() -> None:
    """At one depth, Python can read a file, but not write it in order to compute its checksum."""
    limit = sys.getrecursionlimit()
    for depth in range(limit // 2, limit):
        with pytest.raises(JudgementError):
            Judgement.from_json(f'{{"format":"pullrank-judgement","version":1,"a":{"[" * depth}{"]" * depth}}}')


@pytest.mark.parametrize("log", ["", r"\"\"", r"\u0022\u0022", r"\u0022" * 4, r"\u0022" * 6])
def test_quotation_marks_do_not_hide_a_duplicate_key(log: str) -> None:
    text = edited(lambda it: it.update(log=json.loads(f'"{log}"')))
    start, rest = text.split('"log": ')
    twice = f'{start}"log": "", "log": "{log}", ' + rest[rest.index('"checksum') :]
    with pytest.raises(JudgementError, match="duplicate key"):
        Judgement.from_json(twice)


@pytest.mark.parametrize("log", ["µs ± 1 %", "\x00\x1b\x7f", '"quoted" \\', "1e-7,", "e-1]", "\U0001f600", "\u2028"])
def test_odd_characters_in_a_log_do_not_prevent_reading_the_file(log: str) -> None:
    text = edited(lambda it: (it.update(log=log), it.update(message='"')))
    assert Judgement.from_json(text).log == log
    assert Judgement.from_json(json.dumps(json.loads(text), ensure_ascii=False)).log == log
    with pytest.raises(JudgementError, match="checksum"):
        Judgement.from_json(text.replace('"grace-h"', '"mallory"'))


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\x00", b"\x80", bytes(32 * 1024 * 1024 + 1)], ids=["utf-16", "latin", "large"]
)
def test_a_file_that_is_not_utf8_or_too_large_is_refused(data: bytes) -> None:
    with pytest.raises(JudgementError):
        Judgement.from_json(data)


@settings(deadline=None, derandomize=True, max_examples=100, database=None)
@given(st.data())
def test_a_changed_byte_never_goes_unnoticed(data: st.DataObject) -> None:
    text = NEWEST.read_bytes()
    at = data.draw(st.integers(0, len(text) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: value != text[at]))
    try:
        read = Judgement.from_json(text[:at] + bytes([byte]) + text[at + 1 :])
    except JudgementError:
        return
    assert read == NEWEST_JUDGEMENT  # white space, an escape with other letters


@pytest.mark.parametrize(
    ("source", "suffix", "language"),
    [
        ("def custom_kernel(data): ...", ".py", "Python"),
        ("import torch\n", ".py", "PyTorch"),
        ("from torch import nn\n", ".py", "PyTorch"),
        ("import torch\nimport triton\n", ".py", "Triton"),
        ("from torch.utils.cpp_extension import load_inline\nimport triton\n", ".py", "C++"),
        ("# import triton\nimport torchvision\n", ".py", "Python"),
        ("__global__ void f() {}", ".cu", "CUDA C++"),
        ("int f() { return 1; }", ".cu", "C++"),
    ],
)
def test_the_language_is_detected_from_the_source_and_suffix(source: str, suffix: str, language: str) -> None:
    assert language_of(source, suffix) == language
