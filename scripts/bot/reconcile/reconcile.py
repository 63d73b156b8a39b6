"""`pullrank ci reconcile`: make GitHub match the ledger.  Events are only hints, and any earlier step may have failed.

    ledger, open pull requests, runs, comments ─▶ gather ─▶ plan (pure) ─▶ steps ─▶ act, a log line for each step

A failed step does not stop the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from harness.records.errors import PullRankError
from scripts.bot.intake import intake
from scripts.bot.reconcile.act import act
from scripts.bot.reconcile.gather import gather
from scripts.bot.reconcile.plan import AskForJudging, MergePull, Publish, Start, plan
from scripts.bot.report.context import BotContext
from scripts.bot.report.merging import MERGED
from scripts.github.pulls import GitHubError
from scripts.github.start_workflow import NotStarted, why_unheard

if TYPE_CHECKING:
    from scripts.github.gh import GitHub


def run(context: BotContext, now: datetime | None = None) -> Iterator[str]:
    """Carry out all steps, with a log line for each; a failed step does not stop the others.

    Raises:
        NotStarted: after all other steps, if the repository's settings keep it from starting workflows.
    """
    at = (now or datetime.now(UTC)).replace(microsecond=0)
    facts = gather(context, at)
    yield from (f"left out: {fault}" for fault in facts.faults)
    steps, trouble = list(plan(facts)), None
    offers = sum(isinstance(step, AskForJudging) for step in steps)  # the last ones
    for step in steps:
        if trouble and isinstance(step, Start):
            continue
        try:
            yield (said := act(step, context, at))
            if isinstance(step, MergePull) and said == f"{step.request.id}: {MERGED}" and Publish() not in steps:
                steps.insert(len(steps) - offers, Publish())  # A merged row is no longer provisional.
        except NotStarted as error:
            trouble = error
        except PullRankError as error:
            yield f"{step.name}: failed: {error}"
    if offers and (reason := _why_unheard(context.github)):
        yield reason
    if trouble:
        raise trouble


def _why_unheard(github: GitHub) -> str:
    """What to fix in the repository, if no event ever starts intake."""
    try:
        return why_unheard([run.event for run in github.runs(intake.WORKFLOW)])
    except GitHubError:
        return ""
