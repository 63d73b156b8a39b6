"""The ledger on disk: it returns what was appended, in order, and names broken files."""

import hashlib
import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from harness.records.fields import CaseKind, Mode
from harness.records.judgement import (
    MAX_BYTES,
    CaseResult,
    Claim,
    HarnessInfo,
    Judgement,
    Machine,
    SandboxInfo,
    SubmissionInfo,
    _checksum,
)
from harness.records.verdict import Verdict
from scripts.ledger.ledger import Ledger, LedgerError, RequestStatus
from scripts.ledger.moderation import Action, KnownAccount, Moderation
from scripts.ledger.request import Ending, EndState, Request, Spent, make_id

START = datetime(2026, 11, 2, tzinfo=UTC)
SAMPLE = Path(__file__).parent / "judgements" / "v1.json"


def judged(login: str = "ada", minute: int = 0, **rest: Any) -> Judgement:
    """A ranked judgement of a file that did not build: the shortest possible."""
    failed = Verdict.COMPILE_ERROR
    fields: dict[str, Any] = {
        "task": "vectoradd", "edition": "e" * 64, "gpu": "CPU", "mode": Mode.RANKED,
        "submission": SubmissionInfo(login=login, digest=hashlib.sha256(login.encode()).hexdigest(), lines=3),
        "verdict": failed, "message": "line 3: invalid syntax", "claim": Claim.BOUNDED,
        "cases": (CaseResult(kind=CaseKind.BUILD, params={}, verdict=failed, seconds=0.1),),
        "machine": Machine(
            device="CPU", cpu="c", cores=2, memory_gib=8.0, os="Linux", python="3.11", torch="2.13", quiet=True
        ),
        "sandbox": SandboxInfo(kind="bubblewrap", stop="signals"),
        "harness": HarnessInfo(version="0.1.0", method=1, digest="0" * 64),
        "started_at": START, "finished_at": START + timedelta(minutes=minute),
    }  # fmt: skip
    return Judgement(**(fields | rest))


def minutes(ledger: Ledger, **filters: str) -> list[int]:
    return [one.finished_at.minute for one in ledger.judgements(**filters).judgements]


def test_judgements_are_read_without_their_samples_if_these_are_not_wanted(tmp_path: Path) -> None:
    ledger, judgement = Ledger(tmp_path), Judgement.from_json(SAMPLE.read_bytes())
    ledger.append(judgement, "r1")
    assert ledger.judgements().judgements == (judgement,)
    assert ledger.judgements(samples=False).judgements == (judgement.without_samples(),) != (judgement,)


def test_an_appended_judgement_can_be_read_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    judgement = judged()
    path = ledger.append(judgement, "r1")
    assert path.relative_to(ledger.path) == Path(
        f"judgements/vectoradd/CPU/ada/local-{judgement.submission.digest[:12]}-r1.json"
    )
    contents = ledger.judgements()
    assert [one.to_json() for one in contents.judgements] == [judgement.to_json()]
    assert not contents.faults


def test_a_judgement_file_is_named_by_its_pull_request_and_head(tmp_path: Path) -> None:
    submission = SubmissionInfo(
        login="ada", digest="d" * 64, lines=3, pull_request=17, head_sha="0123456789abcdef" + "0" * 24
    )
    path = Ledger(tmp_path).append(judged(submission=submission), "2026-11-02.7")
    assert path.name == "17-0123456789ab-2026-11-02.7.json"
    assert not Ledger(tmp_path).judgements().faults


def test_a_ledger_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    contents = Ledger(tmp_path / "none").judgements()
    assert (contents.judgements, contents.faults) == ((), ())


def test_judgements_are_sorted_by_finishing_time_then_by_path(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for login, minute in [("cy", 5), ("ada", 9), ("bob", 1), ("zoe", 5), ("ada", 3)]:
        ledger.append(judged(login, minute), f"r{minute}")
    found = ledger.judgements().judgements
    assert [(one.submission.login, one.finished_at.minute) for one in found] == [
        ("bob", 1), ("ada", 3), ("cy", 5), ("zoe", 5), ("ada", 9),
    ]  # fmt: skip


def test_judgements_can_be_filtered_by_task_and_gpu(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    boards = [("vectoradd", "CPU"), ("vectoradd", "H100"), ("matmul", "CPU"), ("matmul", "H100")]
    for minute, (task, gpu) in enumerate(boards):
        ledger.append(judged(minute=minute, task=task, gpu=gpu), "r")
    assert minutes(ledger) == [0, 1, 2, 3]
    assert minutes(ledger, task="matmul") == [2, 3]
    assert minutes(ledger, gpu="CPU") == [0, 2]
    assert minutes(ledger, task="vectoradd", gpu="H100") == [1]


def test_the_ledger_overwrites_no_judgement_and_leaves_no_temporary_files(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    path = ledger.append(judged(minute=1), "r1")
    with pytest.raises(LedgerError, match="never overwritten"):
        ledger.append(judged(minute=2), "r1")
    assert minutes(ledger) == [1]
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [path]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_symbolic_link_under_the_files_name_is_not_followed(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    path = ledger.append(judged(), "r1")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LedgerError):
        ledger.append(judged(), "r1")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("request_id", ["", "../r1", "a/b", ".hidden", "r 1", "r1\n", "x" * 65])
def test_a_request_id_must_be_a_harmless_name(tmp_path: Path, request_id: str) -> None:
    with pytest.raises(LedgerError, match="request's id"):
        Ledger(tmp_path).append(judged(), request_id)


@pytest.mark.parametrize("mode", [Mode.TEST, Mode.BENCHMARK, Mode.PROFILE])
def test_only_ranked_judgements_are_kept(tmp_path: Path, mode: Mode) -> None:
    with pytest.raises(LedgerError, match="only ranked"):
        Ledger(tmp_path).append(judged(mode=mode), "r1")


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def edited(path: Path) -> None:
    path.write_text(path.read_text().replace("invalid syntax", "nothing wrong!"))


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 4)


def huge(path: Path) -> None:
    os.truncate(path, MAX_BYTES + 1)


def nested(path: Path) -> None:
    path.write_text("[" * 200_000)


def of_another_version(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))


def moved_to_another_login(path: Path) -> None:
    (path.parent.parent / "eve").mkdir()
    path.rename(path.parent.parent / "eve" / path.name)


def moved_to_another_task(path: Path) -> None:
    other = path.parents[3] / "matmul" / "CPU" / "bob"
    other.mkdir(parents=True)
    path.rename(other / path.name)


def moved_up(path: Path) -> None:
    path.rename(path.parents[3] / path.name)


def renamed(path: Path) -> None:
    path.rename(path.with_name("17-aaaaaaaaaaaa-r1.json"))


def with_another_suffix(path: Path) -> None:
    path.rename(path.with_suffix(".json.bak"))


def replaced_by_a_link(path: Path) -> None:
    path.rename(path.parents[4] / "outside.json")
    path.symlink_to(path.parents[4] / "outside.json")


def replaced_by_a_linked_folder(path: Path) -> None:
    path.parent.rename(path.parents[4] / "outside")
    path.parent.symlink_to(path.parents[4] / "outside")


def replaced_by_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def unranked(path: Path) -> None:
    path.write_text(judged("bob", mode=Mode.TEST).to_json())


def finished_beyond_the_calendar(path: Path) -> None:
    fields = json.loads(path.read_text()) | {"finished_at": "9999-12-31T23:59:59-12:00"}
    path.write_text(json.dumps(fields | {"checksum": _checksum(fields)}))


def started_before_it(path: Path) -> None:
    fields = json.loads(path.read_text()) | {"started_at": "0001-01-01T00:00:00+14:00"}
    path.write_text(json.dumps(fields | {"checksum": _checksum(fields)}))


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (torn, "not JSON"),
    (edited, "edited"),
    (emptied, "not JSON"),
    (binary, "not JSON"),
    (huge, "larger than 32 MiB"),
    (nested, "not JSON"),
    (of_another_version, "version 2"),
    (moved_to_another_login, "belongs in judgements/vectoradd/CPU/bob/"),
    (moved_to_another_task, "belongs in judgements/vectoradd/CPU/bob/"),
    (moved_up, "belongs in judgements/vectoradd/CPU/bob/"),
    (renamed, "belongs in a file named local-"),
    (with_another_suffix, "belongs in a file named local-"),
    (replaced_by_a_link, "not a plain file"),
    (replaced_by_a_linked_folder, "not a plain file"),
    (replaced_by_a_pipe, "not a plain file"),
    (unranked, "only ranked"),
    (finished_beyond_the_calendar, "finished_at: Input should be less than 9999-"),
    (started_before_it, "started_at: Input should be greater than or equal to 1970-"),
]


@pytest.mark.parametrize(("harm", "reason"), FAULTS, ids=[harm.__name__ for harm, _ in FAULTS])
def test_a_bad_judgement_file_is_reported_and_left_out(
    tmp_path: Path, harm: Callable[[Path], None], reason: str
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    ledger.append(judged("ada", 1), "r1")
    harm(ledger.append(judged("bob", 2), "r2"))
    ledger.append(judged("cy", 3), "r3")
    contents = ledger.judgements()
    assert [one.submission.login for one in contents.judgements] == ["ada", "cy"]
    assert len(contents.faults) == 1
    assert reason in contents.faults[0].reason
    assert str(contents.faults[0]).startswith("judgements/")


def test_a_file_in_place_of_the_judgements_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "judgements").write_text("")
    for contents in (Ledger(tmp_path).judgements(), Ledger(tmp_path).judgements("vectoradd", "CPU")):
        assert [str(fault) for fault in contents.faults] == ["judgements: cannot be read: Not a directory"]


def test_an_unreadable_folder_is_reported_and_the_rest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(judged("ada"), "r1")
    closed = ledger.append(judged("bob"), "r2").parent
    scandir = os.scandir

    def refuse(path: Any) -> Any:  # chmod would not stop root
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    contents = ledger.judgements("vectoradd")
    assert [one.submission.login for one in contents.judgements] == ["ada"]
    assert [str(fault) for fault in contents.faults] == [
        "judgements/vectoradd/CPU/bob: cannot be read: Permission denied"
    ]
    assert not ledger.judgements("matmul").faults


def test_the_same_judgement_under_two_names_counts_once(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    first, second = (ledger.append(judged(), request_id) for request_id in ("r1", "r2"))
    contents = ledger.judgements()
    assert len(contents.judgements) == 1
    assert [fault.path for fault in contents.faults] == [second.relative_to(tmp_path)]
    assert str(first.relative_to(tmp_path)) in contents.faults[0].reason


# Requests and their endings.


def asked(pull_request: int = 12, *, minute: int = 0, attempt: int = 1, **rest: Any) -> Request:
    fields: dict[str, Any] = {
        "user_id": 7, "login": "ada", "pull_request": pull_request, "head_sha": "a" * 40, "blob_sha": "b" * 40,
        "task": "vectoradd", "gpu": "CPU", "mode": Mode.RANKED, "asked_at": START + timedelta(minutes=minute), "asked_by": 7,
    } | rest  # fmt: skip
    made = make_id(pull_request, fields["head_sha"], fields["gpu"], fields["mode"], attempt)
    return Request(id=made, **fields)


def ended(request: Request, state: EndState = EndState.JUDGED, **rest: Any) -> Ending:
    verdict = Verdict.COMPILE_ERROR if state is EndState.JUDGED else None
    return Ending(request=request.id, state=state, verdict=verdict, at=request.asked_at + timedelta(minutes=1), **rest)


def spent(request: Request, seconds: float = 40.0) -> Spent:
    return Spent(request=request.id, seconds=seconds, at=request.asked_at + timedelta(minutes=2))


def statuses(ledger: Ledger) -> list[RequestStatus]:
    found = ledger.requests()
    assert not found.faults
    return list(found)


def test_a_request_is_open_until_it_has_ended(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    request = asked()
    assert ledger.append_request(request)
    assert [(one.request, one.is_open) for one in statuses(ledger)] == [(request, True)]
    assert ledger.append_ending(request, ended(request, seconds=12.5))
    assert [(one.ending, one.is_open) for one in statuses(ledger)] == [(ended(request, seconds=12.5), False)]
    assert sorted(str(path.relative_to(ledger.path)) for path in ledger.path.rglob("*.json")) == [
        "requests/2026-11-02/7-12-aaaaaaaaaaaa-CPU-ranked-1.ended.json",
        "requests/2026-11-02/7-12-aaaaaaaaaaaa-CPU-ranked-1.json",
    ]


def test_a_ranked_request_knows_the_path_of_its_judgement(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append_request(request := asked())
    assert not ledger.has_judgement_of(request)
    assert ledger.judgement_of(request) is None
    submission = SubmissionInfo(login="ada", digest="d" * 64, lines=3, pull_request=12, head_sha="a" * 40)
    path = ledger.append(judgement := judged(submission=submission), request.id)
    assert ledger.has_judgement_of(request)
    assert path == tmp_path / request.place_of_judgement
    assert ledger.judgement_of(request).to_json() == judgement.to_json()
    path.write_text("torn")
    assert ledger.has_judgement_of(request)
    assert ledger.judgement_of(request) is None


def test_an_event_that_comes_twice_makes_one_request(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.append_request(asked(minute=1))
    assert not ledger.append_request(asked(minute=2))
    assert not ledger.append_request(asked(minute=24 * 60))  # found again by the reconciler, after midnight
    assert [one.request for one in statuses(ledger)] == [asked(minute=1)]
    assert ledger.append_request(asked(attempt=2))
    assert len(statuses(ledger)) == 2


def test_the_first_ending_of_a_request_is_kept(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append_request(request := asked())
    assert ledger.append_ending(request, ended(request, EndState.CANCELLED))
    assert not ledger.append_ending(request, ended(request))
    [status] = statuses(ledger)
    assert status.ending and status.ending.state is EndState.CANCELLED


def test_a_withdrawn_request_can_have_a_cost(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append_request(request := asked())
    ledger.append_ending(request, ended(request, EndState.SUPERSEDED))
    assert [one.seconds for one in statuses(ledger)] == [0]
    assert ledger.append_spent(request, spent(request))
    assert not ledger.append_spent(request, spent(request, 50.0))
    assert [one.seconds for one in statuses(ledger)] == [40]
    with pytest.raises(LedgerError, match="is not for request"):
        ledger.append_spent(asked(13), spent(request))


def test_endings_are_found_by_time_even_without_their_requests(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    early, late, still_open = asked(1), asked(2, minute=5), asked(3, minute=9)
    for request in (early, late, still_open):
        ledger.append_request(request)
    for request in (early, late):
        ledger.append_ending(request, ended(request))
    (tmp_path / late.place).unlink()
    (tmp_path / "requests/2026-11-02/7-9.ended.json").write_text("torn")
    assert sorted(ledger.ended_since(START)) == [early.place, late.place]
    assert ledger.ended_since(late.asked_at) == [late.place]


def test_requests_can_be_filtered_by_pull_request(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number in (1, 2, 12):
        ledger.append_request(asked(number))
    assert [one.request.pull_request for one in ledger.requests(pulls={1, 12, 99})] == [1, 12]
    assert not ledger.requests(pulls=()).facts


def test_an_ending_of_another_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="is not for request"):
        Ledger(tmp_path).append_ending(asked(12), ended(asked(13)))


def test_requests_are_listed_in_the_order_they_were_made(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for number, minute in [(5, 3), (3, 1), (4, 3), (1, 24 * 60), (2, 2)]:
        ledger.append_request(asked(number, minute=minute))
    assert [one.request.pull_request for one in statuses(ledger)] == [3, 2, 4, 5, 1]
    ledger.append_request(asked(6, minute=2, user_id=70))
    assert [one.request.pull_request for one in ledger.requests(user_id=70)] == [6]
    assert [one.request.pull_request for one in ledger.requests(user_id=7)] == [3, 2, 4, 5, 1]


def copied_to_another_day(ledger: Path, path: Path) -> None:
    (ledger / "requests/2026-11-03").mkdir()
    (ledger / "requests/2026-11-03" / path.name).write_bytes(path.read_bytes())


def given_to_another_account(ledger: Path, path: Path) -> None:
    path.rename(path.with_name(path.name.replace("7-", "8-", 1)))


def asked_for_again_on_another_day(ledger: Path, path: Path) -> None:
    (ledger / "requests/2026-11-03").mkdir()
    (ledger / asked(13, minute=24 * 60).place).write_text(asked(13, minute=24 * 60).to_json())


def ended_without_having_been_asked_for(ledger: Path, path: Path) -> None:
    (ledger / asked(14).place_of_ending).write_text(ended(asked(14)).to_json())


def ended_by_the_ending_of_another(ledger: Path, path: Path) -> None:
    (ledger / asked(13).place_of_ending).write_text(ended(asked(14)).to_json())


def costing_without_having_been_asked_for(ledger: Path, path: Path) -> None:
    (ledger / asked(14).place_of_cost).write_text(spent(asked(14)).to_json())


def with_the_cost_of_another(ledger: Path, path: Path) -> None:
    (ledger / asked(13).place_of_cost).write_text(spent(asked(14)).to_json())


def with_a_torn_ending(ledger: Path, path: Path) -> None:
    (ledger / asked(13).place_of_ending).write_text(ended(asked(13)).to_json()[:-30])


def beside_a_note(ledger: Path, path: Path) -> None:
    (ledger / "requests/README.md").write_text("Hello.")


def asked_beyond_the_calendar(ledger: Path, path: Path) -> None:
    path.write_text(path.read_text().replace("2026-11-02T", "9999-12-31T").replace("Z", "-12:00"))


REQUEST_FAULTS: list[tuple[Callable[[Path, Path], None], int, str]] = [
    (lambda ledger, path: path.write_bytes(path.read_bytes()[:-9]), 2, "2026-11-02/7-13-aaaaaaaaaaaa-CPU-ranked-1.json: not JSON"),
    (lambda ledger, path: os.truncate(path, 2**20), 2, "larger than 64 KiB"),
    (lambda ledger, path: (path.unlink(), path.symlink_to("/etc/passwd")), 2, "not a plain file"),
    (lambda ledger, path: (path.unlink(), os.mkfifo(path)), 2, "not a plain file"),
    (copied_to_another_day, 3, "requests/2026-11-03/7-13-aaaaaaaaaaaa-CPU-ranked-1.json: its content belongs in requests/2026-11-02/7-13-"),
    (given_to_another_account, 2, "its content belongs in requests/2026-11-02/7-13-"),
    (asked_for_again_on_another_day, 3, "requests/2026-11-03/7-13-aaaaaaaaaaaa-CPU-ranked-1.json: duplicate of an earlier request"),
    (ended_without_having_been_asked_for, 3, "7-14-aaaaaaaaaaaa-CPU-ranked-1.ended.json: its request is missing"),
    (costing_without_having_been_asked_for, 3, "7-14-aaaaaaaaaaaa-CPU-ranked-1.spent.json: its request is missing"),
    (ended_by_the_ending_of_another, 3, "7-13-aaaaaaaaaaaa-CPU-ranked-1.ended.json: belongs to 14-"),
    (with_the_cost_of_another, 3, "7-13-aaaaaaaaaaaa-CPU-ranked-1.spent.json: belongs to 14-"),
    (with_a_torn_ending, 3, "7-13-aaaaaaaaaaaa-CPU-ranked-1.ended.json: not JSON"),
    (asked_beyond_the_calendar, 2, "asked_at: Input should be less than 9999-"),
    (beside_a_note, 3, "requests/README.md: not JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("harm", "left", "reason"), REQUEST_FAULTS)
def test_a_bad_request_file_is_reported_and_the_rest_is_read(
    tmp_path: Path, harm: Callable[[Path, Path], Any], left: int, reason: str
) -> None:
    ledger = Ledger(tmp_path)
    requests = [asked(number, minute=number) for number in (12, 13, 15)]
    for request in requests:
        ledger.append_request(request)
    harm(tmp_path, tmp_path / requests[1].place)
    found = ledger.requests()
    assert len(found.facts) == left
    assert all(status.is_open for status in found)
    assert {status.request.id for status in found} >= {requests[0].id, requests[2].id}
    assert [reason in str(fault) for fault in found.faults] == [True], found.faults


# People.


def test_an_account_stays_as_it_was_first_seen(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    bob = KnownAccount(user_id=8, login="bob", first_seen=START + timedelta(days=1))
    ada = KnownAccount(user_id=70, login="ada", first_seen=START)
    assert ledger.append_account(bob) and ledger.append_account(ada)
    renamed = KnownAccount(user_id=70, login="ada-lovelace", first_seen=START + timedelta(days=2))
    assert not ledger.append_account(renamed)
    (tmp_path / "accounts/9-ada.json").write_text(ada.to_json())
    found = ledger.accounts()
    assert found.facts == (ada, bob)
    assert [str(fault) for fault in found.faults] == [
        "accounts/9-ada.json: its content belongs in accounts/70-ada.json"
    ]


def test_moderation_decisions_are_listed_in_order_of_time(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ban = Moderation(id="b", action=Action.BAN, user_id=7, reason="Attacked the judge.", by=1, at=START)
    lifted = Moderation(
        id="a", action=Action.UNBAN, user_id=7, reason="It was a mistake.", by=1, at=START + timedelta(hours=1)
    )
    assert ledger.append_fact(lifted) and ledger.append_fact(ban)
    assert not ledger.append_fact(ban)
    assert ledger.moderations().facts == (ban, lifted)
    assert (tmp_path / "moderation/2026-11-02-b.json").is_file()
