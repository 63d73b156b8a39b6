"""List pushes to the ledger that the bot did not make: anyone who can push can forge a result.

GitHub's activity log of the branch ─▶ pushes that are not the bot's ─▶ git: which files ─▶ a line for each

The bot writes requests and judgements; people add decisions (`pullrank moderate`), and a ban ends its author's
requests.  Nothing else is usual, but maintainers may delete: a task's results (`pullrank task archive --purge`), or
personal data.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from scripts.bot.context import BotContext
from scripts.common.git_command import GitError
from scripts.common.text import inline
from scripts.github.fork import MAX_CHANGES, Fork
from scripts.github.pulls import ACTIONS_BOT, MAX_LISTED, ChangedFile, GitHubError, Push
from scripts.ledger.branch import BRANCH
from scripts.ledger.facts import MAX_BYTES, FactError
from scripts.ledger.moderation import Action, Moderation
from scripts.ledger.names import ENDED, requests_of

LOOK_BACK = timedelta(days=1)
MAX_NAMED = 3


def find_foreign_pushes(context: BotContext, last_at: datetime | None, now: datetime) -> Iterator[str]:
    """A line for each push of the last day that changed more than decisions, and is not the bot's.

    Args:
        last_at: when the last run that succeeded began.  With more than 100 pushes a day, only those since then are
            read.
    """
    github, since = context.github, now - LOOK_BACK
    try:
        pushes = github.pushes(BRANCH, max(since, last_at or since))
    except GitHubError as error:
        yield f"ledger: who pushed to it could not be read: {error}"
        return
    if len(pushes) >= MAX_LISTED and pushes[-1].at >= max(since, last_at or since):
        yield f"ledger: the pushes before {pushes[-1].at:%Y-%m-%d %H:%M} UTC were not looked at: there were too many"
    recent = [push for push in pushes if push.at >= since]
    theirs = [push for push in recent if not github.is_me(push.actor) and push.actor.id != ACTIONS_BOT.id]
    if theirs:
        with context.open_fork() as fork:
            yield from filter(None, (_line(push, fork) for push in theirs))


def _line(push: Push, fork: Fork) -> str:
    """A description of a suspicious push; empty if it only added decisions."""
    who = (
        f"ledger: {push.actor.login} (account {push.actor.id}) pushed {push.after[:7]} at {push.at:%Y-%m-%d %H:%M} UTC"
    )
    if not push.is_plain:
        return f"{who}, as {push.kind}: find out why, and restore what is missing"
    try:
        changes = fork.differences(push.before, push.after)
        usual = _usual_additions(changes, push.after, fork)
    except GitError:
        return f"{who}, and git cannot show what it changed: look at it"
    if len(changes) >= MAX_CHANGES:
        return f"{who}, which changed {MAX_CHANGES} files or more: look at all of them"
    odd = [change for change in changes if change.status != "added" or change.path not in usual]
    named = ", ".join(inline(change.path, 120) for change in odd[:MAX_NAMED])
    more = f" and {len(odd) - MAX_NAMED} more" if len(odd) > MAX_NAMED else ""
    if not odd:
        return ""
    if all(change.status == "removed" for change in odd):
        return f"{who}, which deleted {named}{more}. Restore what no maintainer meant to delete"
    return f"{who}, which changed {named}{more}. Only the bot writes these: take back what is forged"


def _usual_additions(changes: Iterable[ChangedFile], commit: str, fork: Fork) -> set[str]:
    """The paths that people may add: decisions, and the endings of requests whose author they ban."""
    added = [change.path for change in changes if change.status == "added"]
    decisions = [path for path in added if path.startswith("moderation/")]
    usual = {"README.md", *decisions}
    for path in decisions:
        _, content = fork.read(commit, path, MAX_BYTES)
        with contextlib.suppress(FactError):
            decision = Moderation.from_json(content)
            if decision.action is Action.BAN and decision.user_id:
                usual |= {name for name in requests_of(decision.user_id)(added) if name.endswith(ENDED)}
    return usual
