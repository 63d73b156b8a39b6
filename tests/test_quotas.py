"""An author's quota: a table of histories, the refused requests, and until when."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from harness.records.fields import Mode
from harness.records.verdict import Verdict
from scripts.bot.admission.quotas import Limit, find_board_refusal, find_refusal, limit_uses
from scripts.competition.settings import Quotas
from scripts.ledger.ledger import RequestStatus
from scripts.ledger.request import Ending, EndState, Request, Spent, make_id

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
QUOTAS = Quotas(pending=2, judgings_per_day=4, ranked_per_day=2, minutes_per_day=10)
AUTHOR, BOT = 7, 41898282


def asked(
    hours_ago: float,
    end: str = "judged",
    *,
    mode: Mode = Mode.TEST,
    seconds: float = 6.0,
    by: int = AUTHOR,
    task: str = "vectoradd",
) -> RequestStatus:
    """A request from some hours ago; `end` is how it ended, or `open`."""
    at = NOW - timedelta(hours=hours_ago)
    made = make_id(12, "a" * 40, "CPU", mode)
    request = Request(
        id=made, user_id=AUTHOR, login="ada", pull_request=12, head_sha="a" * 40, blob_sha="b" * 40,
        task=task, gpu="CPU", mode=mode, asked_at=at, asked_by=by,
    )  # fmt: skip
    if end == "open":
        return RequestStatus(request=request)
    state = EndState(end)
    verdict = Verdict.ACCEPTED if state is EndState.JUDGED else None
    # A withdrawn request's cost is known after its ending.
    is_withdrawn = state in (EndState.SUPERSEDED, EndState.CANCELLED)
    spent = Spent(request=made, seconds=seconds, at=at) if is_withdrawn and seconds else None
    ending = Ending(request=made, state=state, verdict=verdict, seconds=0 if is_withdrawn else seconds, at=at)
    return RequestStatus(request=request, ending=ending, spent=spent)


def ranked(hours_ago: float, end: str = "judged", **rest: Any) -> RequestStatus:
    return asked(hours_ago, end, mode=Mode.RANKED, **rest)


ALLOWED: dict[str, tuple[Sequence[RequestStatus], Mode, int]] = {
    "the first": ([], Mode.RANKED, 1),
    "as many at once as may wait": ([], Mode.RANKED, 2),
    "the last of the day": ([asked(1), asked(2), asked(3)], Mode.TEST, 1),
    "the last that may wait": ([asked(1, "open")], Mode.TEST, 1),
    "all of it was yesterday": ([asked(24), asked(25), asked(30), asked(48)], Mode.TEST, 2),
    "a test, where only ranked ones are used up": ([ranked(1), ranked(2)], Mode.TEST, 1),
    "what failed is free": ([asked(hour, "failed", seconds=600) for hour in range(1, 20)], Mode.TEST, 2),
    "what others asked for is free": ([asked(hour, "open", by=BOT) for hour in range(1, 20)], Mode.TEST, 2),
    "what was withdrawn before it ran is not ranked": (
        [ranked(1, "superseded", seconds=0), ranked(2, "cancelled", seconds=0), ranked(3)], Mode.RANKED, 1,
    ),
    "nine minutes": ([asked(1, seconds=540)], Mode.TEST, 1),
}  # fmt: skip

REFUSED: dict[str, tuple[Sequence[RequestStatus], Mode, int, Limit, str | None]] = {
    "two wait already": ([asked(1, "open"), asked(2, "open")], Mode.TEST, 1, Limit.PENDING, None),
    "one waits, and two are asked for": ([asked(1, "open")], Mode.TEST, 2, Limit.PENDING, None),
    "what waits for more than a day still waits": ([asked(30, "open"), asked(40, "open")], Mode.TEST, 1, Limit.PENDING, None),
    "more at once than may ever wait": ([], Mode.TEST, 3, Limit.PENDING, None),
    "more at once than a day has": ([asked(1)], Mode.TEST, 5, Limit.JUDGINGS, None),
    "four today": ([asked(hour) for hour in (1, 2, 3, 20)], Mode.TEST, 1, Limit.JUDGINGS, "2026-11-02 16:00"),
    "four today, and two are asked for": ([asked(hour) for hour in (1, 2, 3, 20)], Mode.TEST, 2, Limit.JUDGINGS, "2026-11-03 09:00"),
    "whatever their order": ([asked(hour) for hour in (2, 20, 1, 3)], Mode.TEST, 1, Limit.JUDGINGS, "2026-11-02 16:00"),
    "cancelled and superseded ones, too": (
        [asked(hour, end, seconds=0) for hour in (4, 5) for end in ("cancelled", "superseded")],
        Mode.TEST, 1, Limit.JUDGINGS, "2026-11-03 07:00",
    ),
    "two ranked today": ([ranked(5), ranked(6)], Mode.RANKED, 1, Limit.RANKED, "2026-11-03 06:00"),
    "ranked, superseded while it ran": ([ranked(5, "superseded"), ranked(6)], Mode.RANKED, 1, Limit.RANKED, "2026-11-03 06:00"),
    "ranked, and it waits": ([ranked(5, "open"), ranked(6)], Mode.RANKED, 1, Limit.RANKED, "2026-11-03 06:00"),
    "ten minutes": ([asked(3, seconds=300), asked(2, seconds=299), asked(1, seconds=1)], Mode.TEST, 1, Limit.MINUTES, "2026-11-03 09:00"),
    "ten minutes at once": ([asked(3, seconds=5), asked(2, seconds=595)], Mode.TEST, 1, Limit.MINUTES, "2026-11-03 10:00"),
    "far too many minutes": ([asked(3, seconds=60_000), asked(2, seconds=595)], Mode.TEST, 1, Limit.MINUTES, "2026-11-03 10:00"),
    "of two limits the one that holds longest": (
        [ranked(5), ranked(6), asked(22), asked(23)], Mode.RANKED, 1, Limit.RANKED, "2026-11-03 06:00",
    ),
    "a day's limit before what waits": (
        [asked(1, "open"), asked(2, "open"), asked(3), asked(4)], Mode.TEST, 1, Limit.JUDGINGS, "2026-11-03 08:00",
    ),
    "a slot that opens within a minute opens on the next": (
        [asked(hour + 0.001) for hour in (1, 2, 3, 20)], Mode.TEST, 1, Limit.JUDGINGS, "2026-11-02 16:00",
    ),
    "a clock that runs ahead": ([asked(-1), asked(-1), asked(-1), asked(-2)], Mode.TEST, 1, Limit.JUDGINGS, "2026-11-03 13:00"),
}  # fmt: skip


@pytest.mark.parametrize(("history", "mode", "wanted"), ALLOWED.values(), ids=ALLOWED)
def test_an_author_within_the_limits_may_request_a_judging(
    history: Sequence[RequestStatus], mode: Mode, wanted: int
) -> None:
    assert find_refusal(history, mode, QUOTAS, NOW, wanted=wanted) is None


@pytest.mark.parametrize(("history", "mode", "wanted", "limit", "next_at"), REFUSED.values(), ids=REFUSED)
def test_an_author_at_a_limit_is_refused_and_learns_when_to_retry(
    history: Sequence[RequestStatus], mode: Mode, wanted: int, limit: Limit, next_at: str | None
) -> None:
    refusal = find_refusal(history, mode, QUOTAS, NOW, wanted=wanted)
    assert refusal
    assert refusal.use.limit is limit
    assert (refusal.next_at and f"{refusal.next_at:%Y-%m-%d %H:%M}") == next_at
    assert refusal.is_hopeless == (wanted > 2)


TIMED = {name: case for name, case in REFUSED.items() if case[4] and not any(status.is_open for status in case[0])}


@pytest.mark.parametrize(("history", "mode", "wanted", "limit", "next_at"), TIMED.values(), ids=TIMED)
def test_a_refusal_ends_exactly_at_the_time_it_names(
    history: Sequence[RequestStatus], mode: Mode, wanted: int, limit: Limit, next_at: str
) -> None:
    then = datetime.strptime(next_at, "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    assert find_refusal(history, mode, QUOTAS, then - timedelta(minutes=1), wanted=wanted)
    assert not find_refusal(history, mode, QUOTAS, then, wanted=wanted)


def test_a_refusal_names_the_limit_reached_and_the_way_out() -> None:
    def said(history: Sequence[RequestStatus], wanted: int = 1) -> str:
        return str(find_refusal(history, Mode.TEST, QUOTAS, NOW, wanted=wanted))

    assert said([asked(hour) for hour in (1, 2, 3, 20)]) == (
        "You have used 4 of 4 judgings in 24 hours. Try again at 2026-11-02 16:00 UTC."
    )
    assert said([asked(1, "open"), asked(2, "open")]) == (
        "You have 2 of 2 pending judgings. Wait until one ends, or `/cancel` what you don't need."
    )
    assert said([asked(hour) for hour in (1, 2, 3)], wanted=2) == (
        "You have used 3 of 4 judgings in 24 hours and request 2 more. Try again at 2026-11-03 09:00 UTC."
    )
    assert said([], wanted=3) == "This requests 3 judgings at once; the limit is 2 pending judgings. Name fewer boards."
    assert said([asked(1, seconds=570)]) == (
        "You have used 9.5 of 10 minutes of judging in 24 hours. Try again at 2026-11-03 11:00 UTC."
    )


def test_a_boards_limit_counts_all_authors_and_open_requests_as_typical_ones() -> None:
    ended = [asked(25, seconds=900), asked(3, seconds=300), asked(2, "failed", seconds=120), asked(1, seconds=240)]
    history = [*ended, asked(1, "open", by=BOT), asked(30, "open")]
    refusal = find_board_refusal(history, "CPU", 12, NOW)
    assert refusal and (refusal.use.limit, refusal.use.used) == (Limit.BOARDS, 5 + 2 + 4 + 4 + 4)
    assert str(refusal) == (
        "`CPU` has used 19 of 12 minutes of judging in 24 hours for all authors together. "
        "Try again at 2026-11-03 11:00 UTC."
    )
    assert not find_board_refusal(history, "CPU", 20, NOW) and not find_board_refusal(history, "H100", 1, NOW)
    assert find_board_refusal(ended, "CPU", 11, NOW) and not find_board_refusal(ended, "CPU", 12, NOW)
    assert find_board_refusal([asked(1, "open")] * 9, "CPU", 9, NOW)


def test_a_limit_of_one_board_counts_that_tasks_requests_only() -> None:
    history = [asked(3, seconds=300), asked(2, seconds=600, task="softmax")]
    find = partial(find_board_refusal, history, "CPU", now=NOW)
    assert not find(minutes=6, task="vectoradd") and find(minutes=5, task="vectoradd")
    assert str(find(minutes=10, task="softmax")) == (
        "`softmax` on `CPU` has used 10 of 10 minutes of judging in 24 hours for all authors together. "
        "Try again at 2026-11-03 10:00 UTC."
    )


def test_the_quota_reports_how_much_of_each_limit_is_used() -> None:
    used = limit_uses([ranked(1), asked(2, "open"), asked(3, seconds=90), asked(30)], QUOTAS, NOW)
    assert {use.limit: (use.used, use.allowed) for use in used} == {
        Limit.JUDGINGS: (3, 4),
        Limit.RANKED: (1, 2),
        Limit.MINUTES: (pytest.approx(1.6), 10),
        Limit.PENDING: (1, 2),
    }
