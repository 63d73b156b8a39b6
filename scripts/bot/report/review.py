"""`pullrank ci review`: the review aid of a held judgement, as a check run of its commit.

It runs in a workflow of its own, which cannot change anything else: whatever it does, the judgement is in the ledger.
"""

from __future__ import annotations

from harness.records.errors import PullRankError
from harness.task.bundle import sha256
from harness.task.submission import MAX_BYTES
from scripts.bot.admission.path_rule import entry_path
from scripts.bot.context import REVIEW_WORKFLOW, BotContext
from scripts.bot.evaluate.resolve import require_request
from scripts.competition.repository import require_task
from scripts.github.checks import Check, CheckState
from scripts.github.pulls import GitHubError
from scripts.github.start_workflow import start_workflow
from scripts.ledger.names import requests_of_author_of
from scripts.review.aid import TITLE, as_markdown, review_aid


def start_review(request_id: str, context: BotContext) -> str:
    """Start review.yml; returns a log line.  A judging and its hold need no aid, so a failure only appears there."""
    try:
        start_workflow(context.github, REVIEW_WORKFLOW, {"request": request_id}, context.default_branch)
    except GitHubError as error:
        return f"no review aid: {error}"
    return "started a review"


def run(request_id: str, context: BotContext, key: str) -> str:
    """Write the review aid for a request's file; returns a log line.

    Raises:
        PullRankError: GitHub or the ledger fails, or the commit no longer has the file.
    """
    with context.open_ledger(requests_of_author_of(request_id)) as branch:
        request = require_request(branch.ledger, request_id).request
    task = require_task(request.task, context.root / "tasks")
    name = task.name_of(request.digest)
    path = entry_path(task.name, request.login, name)
    with context.open_fork() as fork:
        _, source = fork.read(request.head_sha, path, MAX_BYTES)
    if not source or request.digest not in (None, sha256(source)):
        raise PullRankError(f"{request.id}: the commit {request.head_sha[:7]} does not have the judged file")
    aid = review_aid(source, name, task, context.settings.reader, key)
    check = Check(
        name=f"PullRank review / {request.gpu}",
        head_sha=request.head_sha,
        state=CheckState.NEUTRAL,
        title=f"For maintainers: {aid.summary}",
        summary=f"### {TITLE}\n\n{as_markdown(aid)}",
    )
    context.github.upsert_check(check)
    missing = f"; no reader's notes: {aid.reader.missing}" if aid.reader.missing else ""
    return f"{request.id}: review aid: {aid.summary}{missing}"
