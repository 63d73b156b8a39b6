"""The names of a ledger's files, which follow from their contents: files with other names are not read."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from harness.records.fields import Mode
from scripts.ledger.names import (
    Choose,
    account_of,
    boards,
    boards_in,
    either,
    endings_since,
    everything,
    open_requests,
    origins_of,
    requests_of,
    requests_of_author_of,
    requests_of_pulls,
    requests_on,
    these,
    under,
)
from scripts.ledger.request import Request, make_id

START = datetime(2026, 11, 2, 12, tzinfo=UTC)


def asked(user_id: int, pull_request: int, day: int = 0, gpu: str = "CPU") -> Request:
    return Request(
        id=make_id(pull_request, "a" * 40, gpu, Mode.RANKED),
        user_id=user_id,
        login=f"user-{user_id}",
        pull_request=pull_request,
        head_sha="a" * 40,
        blob_sha="b" * 40,
        task="vectoradd",
        gpu=gpu,
        mode=Mode.RANKED,
        asked_at=START + timedelta(days=day),
        asked_by=user_id,
    )


SEVENS = asked(7, 1)
SEVENS_ON_H100 = asked(7, 12, day=1, gpu="H100")
SEVENTIES = asked(70, 2, day=2)
ENDED = (SEVENS, SEVENTIES)
WITHDRAWN = (SEVENTIES,)
OTHERS = (
    "accounts/7-ada.json",
    "accounts/70-bob.json",
    "accounts/8-ada-b.json",
    "moderation/2026-11-02-x.json",
    "README.md",
    "requests/notes.txt",
    "judgements/x.json",
    f"origins/vectoradd/{'c' * 64}-7.json",
    f"origins/vectoradd/{'c' * 64}-70.json",
    f"origins/vectoradd/{'d' * 64}-7.json",
    f"origins/softmax/{'c' * 64}-7.json",
)
NAMES = [
    *OTHERS,
    *(str(one.place) for one in (SEVENS, SEVENS_ON_H100, SEVENTIES)),
    *(str(one.place_of_ending) for one in ENDED),
    *(str(one.place_of_cost) for one in WITHDRAWN),
    *(str(one.place_of_judgement) for one in ENDED),
]


def files_of(*requests: Request) -> set[str]:
    """The files of requests and of their endings and costs, if any."""
    return {
        *(str(one.place) for one in requests),
        *(str(one.place_of_ending) for one in requests if one in ENDED),
        *(str(one.place_of_cost) for one in requests if one in WITHDRAWN),
    }


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (everything, NAMES),
        (under("moderation", "requests/2026-11-02"), {"moderation/2026-11-02-x.json"} | files_of(SEVENS)),
        (account_of(7, "ada"), {"accounts/7-ada.json"}),
        (account_of(7, "Bob"), {"accounts/7-ada.json", "accounts/70-bob.json"}),
        (account_of(9, "ada-b"), {"accounts/8-ada-b.json"}),
        (account_of(9, "b"), ()),
        (
            origins_of("vectoradd", "c" * 64),
            {f"origins/vectoradd/{'c' * 64}-7.json", f"origins/vectoradd/{'c' * 64}-70.json"},
        ),
        (requests_of(7), files_of(SEVENS, SEVENS_ON_H100)),
        (requests_on(["H100"], START.date()), files_of(SEVENS_ON_H100)),
        (requests_on(["CPU"], (START + timedelta(days=2)).date()), files_of(SEVENTIES)),
        (requests_on(["CPU", "H100"], (START + timedelta(days=9)).date()), files_of(SEVENS_ON_H100)),  # open
        (requests_on(["H200"], START.date()), ()),
        (requests_of_author_of(SEVENS.id), files_of(SEVENS, SEVENS_ON_H100)),
        (requests_of_author_of(SEVENTIES.id), files_of(SEVENTIES)),
        (requests_of_author_of("12"), ()),
        (requests_of_pulls({1}), files_of(SEVENS)),
        (requests_of_pulls({2, 12}), files_of(SEVENTIES, SEVENS_ON_H100)),
        (endings_since((START + timedelta(days=1)).date()), {str(SEVENTIES.place_of_ending)}),
        (these([SEVENS.place, Path("requests/2026-11-02/none.json")]), {str(SEVENS.place)}),
        (boards([("vectoradd", "CPU")]), {str(one.place_of_judgement) for one in ENDED}),
        (boards([]), ()),
        (either(requests_of(70), account_of(7, "ada")), {"accounts/7-ada.json"} | files_of(SEVENTIES)),
    ],
)  # fmt: skip
def test_a_choice_selects_files_by_their_names_alone(choice: Choose, expected: Iterable[str]) -> None:
    assert set(choice(NAMES)) == set(expected)


def test_a_request_without_an_ending_is_open() -> None:
    assert str(SEVENS_ON_H100.place) in set(open_requests(NAMES))
    assert not files_of(*ENDED) & set(open_requests(NAMES))


def test_only_boards_with_a_judgement_are_listed() -> None:
    assert boards_in(NAMES) == {("vectoradd", "CPU")}
