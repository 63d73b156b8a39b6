"""The description of a pull request: co-authors and the author's note, read from hostile text."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from scripts.bot.report.description import read_description
from scripts.ledger.description import MAX_CO_AUTHORS, MAX_NOTE, CommitDescription
from scripts.ledger.ledger import Ledger
from tests.properties import given, settings, st
from tests.test_request import SHA

NOW = datetime(2026, 11, 2, 12, 30, tzinfo=UTC)
TEMPLATE = "<!--\nA submission? Add one file.\n-->\n## What it does\n"


@pytest.mark.parametrize(
    ("line", "co_authors"),
    [
        ("Co-authored-by: @grace", ("grace",)),
        ("  co-AUTHORED-by:@grace-h  ", ("grace-h",)),
        ("Co-authored-by: Grace H. <1234+Grace@users.noreply.github.com>", ("Grace",)),
        ("Co-authored-by: <1+g@users.noreply.github.com>", ("g",)),
        ("Co-authored-by: Grace <grace@example.com>", ()),
        ("Co-authored-by: Grace <grace@users.noreply.github.com>", ()),
        ("Co-authored-by: Grace <1+grace@users.noreply.github.com.evil.org>", ()),
        ("Co-authored-by: Grace <1+grace@users.noreply.github.com> @ben", ()),
        ("Co-authored-by: @grace @ben", ()),
        ("Co-authored-by: grace", ()),
        ("Co-authored-by: @-grace--h-", ("-grace--h-",)),
        ("Co-authored-by: @grace_acme", ("grace_acme",)),
        ("Co-authored-by: @gra.ce", ()),
        ("Co-authored-by: @<script>", ()),
        ("Co-authored-by: @../grace", ()),
        ("Co-authored-by: @" + "g" * 40, ()),
        ("Co-authored-by: @" + "g-" * 19 + "g", ("g-" * 19 + "g",)),
        ("Co-authored-by: @grаce", ()),
        ("Co-authored-by: @ada", ()),
    ],
)
def test_only_a_line_with_a_certain_login_names_a_co_author(line: str, co_authors: tuple[str, ...]) -> None:
    body = f"Faster.\n\n{line}\n"
    assert read_description(body, "Ada") == (co_authors, "Faster."), (
        "such a line is not in the note: it may hold an address"
    )


def test_a_co_author_is_named_once_and_at_most_eight_are() -> None:
    lines = ["Co-authored-by: @Ben", "Co-authored-by: @ben", *(f"Co-authored-by: @c{number}" for number in range(9))]
    co_authors, note = read_description("\r\n".join(lines), "ada")
    assert co_authors == ("Ben", *(f"c{number}" for number in range(MAX_CO_AUTHORS - 1))) and note == ""


@pytest.mark.parametrize(
    ("body", "note"),
    [
        (TEMPLATE, ""),
        (TEMPLATE + "It tiles by 64.\n", "It tiles by 64."),
        ("Before <!-- hidden\nCo-authored-by: @ben --> after\n<!-- to the end\nsecret", "Before  after"),
        ("one\r\n\r\n\r\n\r\n  two  \r\n", "one\n\n  two"),
        ("a\u202eb\x1b[31m\u200bc\x00\ud800 \u2764\ufe0f", "ab[31mc \u2764"),
        ("<!-\u200b- Co-authored-by: @ben", "<!-- Co-authored-by: @ben"),
        (
            "<script>alert(1)</script> @everyone [x](javascript:1)",
            "<script>alert(1)</script> @everyone [x](javascript:1)",
        ),
    ],
)
def test_a_note_is_the_description_without_comments_template_and_hidden_characters(body: str, note: str) -> None:
    assert read_description(body, "ada", TEMPLATE) == ((), note)


def test_a_long_note_is_cut() -> None:
    note = read_description("x" * 60_000, "ada")[1]
    assert len(note) == MAX_NOTE and note.endswith("x…")


@settings(max_examples=100)
@given(st.text(alphabet=st.sampled_from("Co-authored-by: @ab<1+>\n\r\t!-\u202e\ud800é"), max_size=400))
def test_every_description_can_be_kept_and_read_again(body: str) -> None:
    co_authors, note = read_description(body, "ada")
    kept = CommitDescription(task="vectoradd", pull_request=12, head_sha=SHA, co_authors=co_authors, note=note, at=NOW)
    assert CommitDescription.from_json(kept.to_json()) == kept
    assert not any(hidden in note for hidden in "\r\u202e\ud800")


def test_a_commit_keeps_its_first_description_and_a_torn_one_is_a_fault(tmp_path: Path) -> None:
    ledger, faults = Ledger(tmp_path), []
    first = CommitDescription(task="vectoradd", pull_request=12, head_sha=SHA, note="first", at=NOW)
    assert ledger.append_fact(first)
    assert not ledger.append_fact(first.model_copy(update={"note": "second"}))
    (tmp_path / "descriptions/vectoradd/13-torn.json").write_text(first.to_json()[:-9])
    assert ledger.descriptions(faults) == {(12, SHA): first}
    assert [str(fault.path) for fault in faults] == ["descriptions/vectoradd/13-torn.json"]
