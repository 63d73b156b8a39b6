"""Requests, endings, accounts and decisions: small files that are read as strictly as judgements.

requests/<kind>-v<n>.json     a file of each version of each format; never changed
"""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import ValidationError

from harness.records.fields import Mode
from harness.records.judgement import Judgement
from harness.records.verdict import Verdict
from scripts.ledger.description import CommitDescription
from scripts.ledger.facts import MAX_BYTES, Fact, FactError
from scripts.ledger.moderation import Action, KnownAccount, Moderated, Moderation, find_owner
from scripts.ledger.origin import Origin
from scripts.ledger.request import Ending, EndState, Request, make_id

SAMPLES = Path(__file__).parent / "requests"
KINDS: dict[str, type[Fact]] = {
    "request": Request, "ending": Ending, "account": KnownAccount, "moderation": Moderation, "origin": Origin,
    "description": CommitDescription,
}  # fmt: skip
NOW = datetime(2026, 11, 2, 12, 30, tzinfo=UTC)
SHA = "0a1b2c3d4e5f" + "6" * 28


def request(**rest: Any) -> Request:
    fields: dict[str, Any] = {
        "user_id": 583231, "login": "ada", "pull_request": 12, "head_sha": SHA, "blob_sha": "7" * 40,
        "task": "vectoradd", "gpu": "H100", "mode": Mode.RANKED, "asked_at": NOW, "asked_by": 583231,
    } | rest  # fmt: skip
    made = make_id(fields["pull_request"], fields["head_sha"], fields["gpu"], fields["mode"])
    return Request(**({"id": made} | fields))


def ending(**rest: Any) -> Ending:
    fields: dict[str, Any] = {"request": "r1", "state": EndState.JUDGED, "verdict": Verdict.ACCEPTED, "at": NOW}
    return Ending(**(fields | rest))


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_format_version_reads_and_writes_back_the_same(path: Path) -> None:
    kind = KINDS[path.stem.partition("-")[0]]
    assert kind.from_json(path.read_bytes()).to_json() == path.read_text()


def test_there_is_a_sample_of_every_format() -> None:
    assert {path.stem for path in SAMPLES.glob("*.json")} >= {f"{kind}-v1" for kind in KINDS}


def test_a_request_goes_through_json_unchanged() -> None:
    asked = request(digest="8" * 64, reason="ready for review 🚀")
    assert Request.from_json(asked.to_json()) == asked


# Ids and places.


@pytest.mark.parametrize(
    ("gpu", "mode", "attempt", "expected"),
    [
        ("H100", Mode.RANKED, 1, "12-0a1b2c3d4e5f-H100-ranked-1"),
        ("CPU", Mode.TEST, 3, "12-0a1b2c3d4e5f-CPU-test-3"),
        ("RTX-4090", Mode.PROFILE, 12, "12-0a1b2c3d4e5f-RTX-4090-profile-12"),
    ],
)
def test_an_id_follows_from_the_request(gpu: str, mode: Mode, attempt: int, expected: str) -> None:
    made = make_id(12, SHA, gpu, mode, attempt)
    assert made == expected
    assert request(id=made, gpu=gpu, mode=mode).attempt == attempt


def test_the_longest_id_is_still_valid() -> None:
    made = make_id(2**31, SHA, "G" * 24, Mode.BENCHMARK, 9999)
    assert request(id=made, pull_request=2**31, gpu="G" * 24, mode=Mode.BENCHMARK).id == made


@pytest.mark.parametrize(
    "made",
    [
        "13-0a1b2c3d4e5f-H100-ranked-1", "12-1a1b2c3d4e5f-H100-ranked-1", "12-0a1b2c3d4e5f-H200-ranked-1",
        "12-0a1b2c3d4e5f-H100-test-1", "12-0a1b2c3d4e5f-H100-ranked-0", "12-0a1b2c3d4e5f-H100-ranked-01",
        "12-0a1b2c3d4e5f-H100-ranked", "012-0a1b2c3d4e5f-H100-ranked-1", "12-0a1b2c3d4e5f-H100-ranked-1.json",
        "12-0a1b2c3d4e5f-H100-ranked-1\n", "12-0a1b2c3d4e5f-H100-ranked-٣", "r1", "../r1", "",
    ],
)  # fmt: skip
def test_an_id_that_does_not_match_its_request_is_refused(made: str) -> None:
    with pytest.raises(ValidationError):
        request(id=made)


def test_only_a_profile_can_be_of_one_benchmark() -> None:
    profile = request(mode=Mode.PROFILE, case=2)
    assert Request.from_json(profile.to_json()) == profile
    assert '"case"' not in request(mode=Mode.PROFILE).to_json()
    with pytest.raises(ValidationError, match="only a profile can be of one case"):
        request(mode=Mode.TEST, case=2)
    with pytest.raises(ValidationError, match="greater than 0"):
        request(mode=Mode.PROFILE, case=0)


def test_a_request_is_stored_in_the_folder_of_its_utc_day() -> None:
    east = timezone(timedelta(hours=9))
    asked = request(asked_at=datetime(2026, 11, 3, 1, 0, tzinfo=east))
    assert asked.day == date(2026, 11, 2)
    assert asked.place == Path("requests/2026-11-02/583231-12-0a1b2c3d4e5f-H100-ranked-1.json")
    assert asked.place_of_ending == Path("requests/2026-11-02/583231-12-0a1b2c3d4e5f-H100-ranked-1.ended.json")
    assert asked.place_of_judgement == Path(
        "judgements/vectoradd/H100/ada/12-0a1b2c3d4e5f-12-0a1b2c3d4e5f-H100-ranked-1.json"
    )


# Endings.


@pytest.mark.parametrize(
    ("state", "verdict", "is_right"),
    [
        (EndState.JUDGED, Verdict.WRONG_ANSWER, True),
        (EndState.JUDGED, None, False),
        (EndState.JUDGED, Verdict.JUDGING_ERROR, False),
        (EndState.FAILED, Verdict.JUDGING_ERROR, True),
        (EndState.FAILED, None, True),
        (EndState.FAILED, Verdict.ACCEPTED, False),
        (EndState.CANCELLED, None, True),
        (EndState.CANCELLED, Verdict.ACCEPTED, False),
        (EndState.SUPERSEDED, None, True),
        (EndState.SUPERSEDED, Verdict.WRONG_ANSWER, False),
    ],
)
def test_the_verdict_of_an_ending_fits_its_state(state: EndState, verdict: Verdict | None, is_right: bool) -> None:
    if is_right:
        assert ending(state=state, verdict=verdict).verdict is verdict
    else:
        with pytest.raises(ValidationError, match="if and only if it was judged"):
            ending(state=state, verdict=verdict)


# Hostile text.


def changed(**fields: Any) -> Callable[[str], str | bytes]:
    return lambda text: json.dumps(json.loads(text) | fields)


HARMS: dict[str, tuple[Callable[[str], str | bytes], str]] = {
    "torn": (lambda text: text[:-20], "not JSON"),
    "empty": (lambda text: "", "not JSON"),
    "binary": (lambda text: bytes(range(256)), "not JSON"),
    "no object": (lambda text: "[]", "not a pullrank-request"),
    "another format": (changed(format="pullrank-ending"), "not a pullrank-request"),
    "another version": (changed(version=2), "format version 2; this PullRank reads version 1"),
    "the version as text": (changed(version="1"), "format version '1'"),
    "equal keys": (lambda text: text.replace("{", '{"version": 1,', 1), "duplicate key"),
    "an unknown key": (changed(admin=True), "admin: Extra inputs"),
    "a number as text": (changed(user_id="7"), "user_id: Input should be a valid integer"),
    "a number that is not one": (lambda text: text.replace('"user_id": 583231', '"user_id": NaN'), "user_id"),
    "a negative number": (changed(pull_request=-1), "pull_request"),
    "true as a number": (changed(asked_by=True), "asked_by"),
    "a time without a zone": (changed(asked_at="2026-11-02T12:30:00"), "asked_at"),
    "a time as a number": (changed(asked_at=0), "asked_at"),
    "a task that leads elsewhere": (changed(task="../../secrets"), "task"),
    "a login that leads elsewhere": (changed(login="../ada"), "login"),
    "a hash in capitals": (changed(blob_sha="A" * 40), "blob_sha"),
    "a mode that is none": (changed(mode="admin"), "mode"),
    "a long reason": (changed(reason="x" * 501), "reason"),
    "a lone surrogate": (
        lambda text: text.replace('"reason": "', '"reason": "\\ud800'),
        "not JSON|surrogate|Invalid JSON",
    ),
    "a deep nest": (lambda text: "[" * 60_000, "not JSON"),
    "a huge file": (lambda text: text + " " * MAX_BYTES, "larger than 64 KiB"),
}


@pytest.mark.parametrize(("harm", "reason"), HARMS.values(), ids=HARMS)
def test_an_invalid_request_is_refused_with_the_reason(harm: Callable[[str], str | bytes], reason: str) -> None:
    with pytest.raises(FactError, match=reason):
        Request.from_json(harm((SAMPLES / "request-v1.json").read_text()))


@pytest.mark.parametrize("seconds", ["-1", "1e400", "NaN", "86401"])
def test_an_ending_with_impossible_seconds_is_refused(seconds: str) -> None:
    text = (SAMPLES / "ending-v1.json").read_text().replace("41.5", seconds)
    with pytest.raises(FactError):
        Ending.from_json(text)


# People.


def account(user_id: int, login: str, day: int) -> KnownAccount:
    return KnownAccount(user_id=user_id, login=login, first_seen=datetime(2026, 11, day, tzinfo=UTC))


ACCOUNTS = [account(7, "ada", 3), account(8, "bob", 1), account(9, "Ada", 5)]


@pytest.mark.parametrize(("login", "owner"), [("ada", 7), ("ADA", 7), ("bob", 8), ("cy", None)])
def test_a_login_belongs_to_the_account_first_seen_with_it(login: str, owner: int | None) -> None:
    found = find_owner(ACCOUNTS, login)
    assert (found and found.user_id) == owner


def decided(number: int, action: Action, **about: Any) -> Moderation:
    return Moderation(
        id=f"m{number}", action=action, reason="because", by=1, at=NOW + timedelta(minutes=number), **about
    )


@pytest.mark.parametrize(
    ("action", "about"),
    [
        (Action.BAN, {}), (Action.BAN, {"judgement": "9" * 64}), (Action.UNBAN, {"user_id": 7, "judgement": "9" * 64}),
        (Action.HOLD, {}), (Action.DISQUALIFY, {"user_id": 7}), (Action.RESTORE, {"user_id": 7, "judgement": "9" * 64}),
    ],
)  # fmt: skip
def test_a_decision_must_name_its_account_or_judgement(action: Action, about: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="ban and unban need a user_id"):
        decided(1, action, **about)


def judged(digit: str, login: str = "ada", file: str = "f", gpu: str = "H100", *, accepted: bool = True) -> Judgement:
    submission = SimpleNamespace(login=login, digest=file)
    facts = {"task": "gemm", "gpu": gpu, "submission": submission, "is_rankable": accepted}
    return cast(Judgement, SimpleNamespace(checksum=digit * 64, **facts))


def test_a_withdrawn_file_counts_again_only_with_all_its_judgements() -> None:
    now = Moderated.after(
        [decided(1, Action.WITHDRAW, judgement="1" * 64), decided(2, Action.WITHDRAW, judgement="2" * 64)]
    )
    earlier = [judged("1"), judged("2")]
    assert set(now.removed(earlier)) == {"1" * 64, "2" * 64} and now.counted(earlier) == []
    assert now.counted([*earlier, again := judged("3", login="Ada")]) == [*earlier, again]
    others = [judged("3", login="bob"), judged("4", file="g"), judged("5", gpu="A100"), judged("6", accepted=False)]
    assert now.counted([*earlier, *others]) == others


@pytest.mark.parametrize("action", [Action.DISQUALIFY, Action.HOLD])
def test_an_author_cannot_lift_a_maintainers_decision_by_withdrawing(action: Action) -> None:
    by_maintainer = decided(1, action, judgement="1" * 64)
    now = Moderated.after([by_maintainer, decided(2, Action.WITHDRAW, judgement="1" * 64)])
    assert now.removed([judged("1"), judged("2")]) == {"1" * 64: by_maintainer}


@pytest.mark.parametrize("action", [Action.DISQUALIFY, Action.HOLD])
def test_a_removed_file_stays_removed_when_it_is_judged_again(action: Action) -> None:
    first, again, meanwhile = judged("1"), judged("2", login="Ada"), judged("6", accepted=False)
    others = [judged("3", login="bob"), judged("4", file="g"), judged("5", gpu="A100")]
    about = {"judgement": "1" * 64, "whole_file": True}
    now = Moderated.after([decided(1, action, **about)])
    assert now.counted([first, meanwhile, again, *others]) == others
    about_one = Moderated.after([decided(1, action, judgement="1" * 64)])
    assert about_one.counted([first, again]) == [again]
    doubly = Moderated.after([decided(1, Action.HOLD, **about), decided(2, Action.DISQUALIFY, judgement="1" * 64)])
    assert doubly.counted([first, again]) == []
    lift = Action.RESTORE if action is Action.DISQUALIFY else Action.RELEASE
    lifted = Moderated.after([decided(1, action, **about), decided(2, lift, judgement="1" * 64)])
    assert lifted.counted([first, again]) == [first, again]


def test_a_later_decision_lifts_only_the_earlier_one_it_concerns() -> None:
    ada, bob, one, two = {"user_id": 7}, {"user_id": 8}, {"judgement": "1" * 64}, {"judgement": "2" * 64}
    decisions = [
        decided(1, Action.BAN, **ada), decided(2, Action.BAN, **bob), decided(3, Action.UNBAN, **ada),
        decided(4, Action.HOLD, **one), decided(5, Action.DISQUALIFY, **one), decided(6, Action.RELEASE, **one),
        decided(7, Action.HOLD, **two), decided(8, Action.RESTORE, **two),
    ]  # fmt: skip
    now = Moderated.after(reversed(decisions))  # in any order of the files
    assert set(now.banned) == {8}
    assert now.banned[8].reason == "because"
    assert set(now.disqualified) == {"1" * 64}
    assert set(now.held) == {"2" * 64}
    three = [judged(digit) for digit in "123"]
    assert {checksum[0]: one.action for checksum, one in now.removed(three).items()} == {"1": "disqualify", "2": "hold"}
    assert now.counted(three) == three[2:]
    again = Moderated.after([*decisions, decided(9, Action.BAN, **ada)])
    assert set(again.banned) == {7, 8}
