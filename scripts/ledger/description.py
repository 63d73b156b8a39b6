"""What an author says about a commit in the description of its pull request: co-authors, and a note.

Neither is checked: an author may name any login as co-author.  The first ranked, accepted judging of a commit
stores both as they are then.  Edits of the description count from the next commit on.

History of the format
    1   2026-11   first version
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from harness.records.fields import Login, Moment, RecordName, Sha
from harness.records.judgement import Judgement
from scripts.ledger.facts import Fact

MAX_CO_AUTHORS = 8
MAX_NOTE = 2_000
"""In characters."""

Descriptions = Mapping[tuple[int | None, str | None], "CommitDescription"]
"""The descriptions of commits, by pull request and head."""


class CommitDescription(Fact):
    """Co-authors and note of a commit; the note is plain text without invisible characters."""

    format: Literal["pullrank-description"] = "pullrank-description"
    version: Literal[1] = 1
    task: RecordName
    pull_request: PositiveInt
    head_sha: Sha
    co_authors: Annotated[tuple[Login, ...], Field(max_length=MAX_CO_AUTHORS)] = ()
    note: Annotated[str, StringConstraints(max_length=MAX_NOTE)] = ""
    at: Moment

    @property
    def place(self) -> Path:
        return Path("descriptions", self.task, f"{self.pull_request}-{self.head_sha[:12]}.json")


def co_authors_of(judgements: Iterable[Judgement], descriptions: Descriptions) -> tuple[str, ...]:
    """The co-authors in that description; empty if there is none."""
    found = find_description(judgements, descriptions)
    return found.co_authors if found else ()


def find_description(judgements: Iterable[Judgement], descriptions: Descriptions) -> CommitDescription | None:
    """The description of a file's newest commit that has one; `judgements` are the file's, oldest first."""
    commits = ((one.submission.pull_request, one.submission.head_sha) for one in reversed([*judgements]))
    return next((found for commit in commits if (found := descriptions.get(commit))), None)
