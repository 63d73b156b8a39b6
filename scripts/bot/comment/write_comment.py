"""Show judgings in a pull request: a check run for each board, and the one comment that the boards share.

    a board's check run     written by that board alone
    the comment             made anew from the ledger by any run with news, and written as a whole

GitHub has no conditional update for comments, so a run that read the ledger earlier may overwrite the report that
another board has just written.  Therefore a run writes its check run first, and reads all check runs after writing the
comment: if a board is done there but waits in the comment, the run adds it.  The last writer sees all of them.  If it
does not know a request yet because it read the ledger before, the reconciler adds the request.

If GitHub rejects a comment for its length or content, the run leaves out its own new report or, if that does not help,
all reports.  They are still in the check runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from scripts.bot.comment.comment_text import BoardSection, PullComment, read_comment
from scripts.bot.comment.markers import MARKER, BoardState, Notice, Tone
from scripts.bot.comment.pull_record import PullRecord
from scripts.bot.comment.sections import section_of_check
from scripts.github.access import server_url
from scripts.github.checks import Check
from scripts.github.pulls import Comment, GitHubError
from scripts.ledger.request import Request

if TYPE_CHECKING:
    from scripts.github.gh import GitHub

MAX_ROUNDS = 5
"""Attempts to add reports that were overwritten; after that, the reconciler does it."""


def show_state(
    record: PullRecord,
    check: Check,
    github: GitHub,
    *,
    section: BoardSection | None = None,
    known_check: int | None = None,
    notice: Notice | None = None,
) -> str:
    """Show a board's state in its check run and in the comment; returns what `write` does.

    Args:
        section: the board's section, if the ledger alone does not give it.
        known_check: the id of a check run that is out of date.
        notice: the new notice at the top of the comment; None keeps the old one.
    """
    try:
        try:
            _put_check(check, known_check, github)
        except GitHubError as error:
            if error.status != 422 or not (check.text or check.annotations):
                raise
            _put_check(replace(check, text="", annotations=()), known_check, github)
    except GitHubError as error:
        if not error.is_of_no_commit:
            raise
    return update_comment(record, github, {check.external_id}, section=section, notice=notice)


def update_comment(
    record: PullRecord,
    github: GitHub,
    ours: Collection[str],
    *,
    section: BoardSection | None = None,
    notice: Notice | None = None,
) -> str:
    """Show a board's state in the comment only; returns what `write` does."""
    known, kept = find_ours(record.number, github)
    told = {section.facts.request: section} if section else {}
    return write(record, known, kept, github, ours=ours, told=told, notice=notice or kept.notice)


def find_ours(number: int, github: GitHub) -> tuple[Comment | None, PullComment]:
    """The pull request's comment, if there is one, and what it says."""
    known = github.find_comment(number, MARKER)
    return known, read_comment(known.body if known else "")


def add_remark(record: PullRecord, head_sha: str, text: str, github: GitHub) -> None:
    """Put a remark at the top of the comment, unless it is there, and below a remark on boards that were left out."""
    known, kept = find_ours(record.number, github)
    old = kept.notice
    left_out = old.left_out if old and old.head_sha == head_sha else ()
    if old and left_out:
        first, *_ = old.text.split("\n\n")
        text = f"{first}\n\n{text}"
    if not old or old.text != text:
        notice = Notice(text=text, tone=Tone.REMARK, head_sha=head_sha, left_out=left_out)
        write(record, known, kept, github, notice=notice)


def write(
    record: PullRecord,
    known: Comment | None,
    kept: PullComment,
    github: GitHub,
    *,
    notice: Notice | None,
    ours: Collection[str] = (),
    told: Mapping[str, BoardSection] | None = None,
) -> str:
    """Write the comment over the `known` one, until it has all boards that are done.

    Returns why it is shorter than it should be; usually empty.

    Args:
        kept: what the known comment says.
        ours: the ids of the requests that the writer reports on; for the commit's others, the check runs know more.
        told: sections that the ledger alone does not give, by request.
    """
    sections = dict(told or {})
    sections |= _told_by_checks(record.unreported(kept, sections), github)
    for _ in range(MAX_ROUNDS):
        comment = record.comment(kept, sections, notice)
        known, refusal = _put(record.number, comment, known, github, ours)
        news = _told_by_checks(_waiting(record, comment, ours), github)
        if not news:
            break
        sections |= news
    return refusal


def _waiting(record: PullRecord, comment: PullComment, ours: Collection[str]) -> list[Request]:
    """The requests of the newest file that wait in the comment; none if all of them are ours."""
    head_sha = comment.file.head_sha if comment.file else ""
    waiting = [
        record.shown[one.facts.gpu].request
        for one in comment.boards
        if one.facts.head_sha == head_sha and one.facts.state is BoardState.QUEUED
    ]
    return waiting if {one.id for one in waiting}.difference(ours) else []


def _told_by_checks(requests: Iterable[Request], github: GitHub) -> dict[str, BoardSection]:
    """The sections of those requests whose check runs are done."""
    requests = tuple(requests)
    found: dict[str, BoardSection] = {}
    for head_sha in {request.head_sha for request in requests}:
        for check in github.checks(head_sha):
            sections = (section_of_check(request, check) for request in requests)
            found |= {section.facts.request: section for section in sections if section}
    return found


# Check runs.


def _put_check(check: Check, known: int | None, github: GitHub) -> None:
    """Write the check run unless it is up to date: each update would add the same annotations again.

    A completed one keeps its result, which GitHub does not change; the newest one counts.
    """
    if not known:
        old = github.find_check(check.head_sha, check.name)
        if old and (old.state, old.external_id) == (check.state, check.external_id):
            return
        known = old.id if old and not old.state.is_done else None
    if known:
        github.update_check(known, check)
    else:
        github.create_check(check)


# The comment.


def _put(
    number: int, comment: PullComment, known: Comment | None, github: GitHub, ours: Collection[str]
) -> tuple[Comment, str]:
    """The comment as written, and why it is short; usually empty."""
    checks_url, refusal = f"{server_url()}/{github.repository}/pull/{number}/checks", ""
    everybodys = {one.facts.request for one in comment.boards}
    shorter = (comment.briefly(checks_url, requests) for requests in (ours, everybodys))
    *longer, shortest = dict.fromkeys(one.render() for one in (comment, *shorter))
    for text in longer:
        try:
            return _put_text(number, text, known, github), refusal
        except GitHubError as error:
            if error.status != 422:
                raise
            refusal = f"the comment lacks a report: {error}"
    return _put_text(number, shortest, known, github), refusal


def _put_text(number: int, text: str, known: Comment | None, github: GitHub) -> Comment:
    return github.upsert_comment(number, MARKER, text, known) if known else github.comment(number, text)
