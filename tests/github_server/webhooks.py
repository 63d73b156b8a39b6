"""Payloads of GitHub's webhooks, as in `GITHUB_EVENT_PATH`, checked against GitHub's description."""

from __future__ import annotations

from typing import Any

from tests.github_server import shapes
from tests.github_server.contract import contract
from tests.github_server.world import Comment, Pull, User, World

Json = dict[str, Any]


class PayloadFault(AssertionError):
    """A payload that GitHub would never send."""


def pull_request_event(world: World, action: str, pull: Pull, actor: User, **more: Any) -> Json:
    """Of `pull_request_target`: opened, synchronize, reopened, ready_for_review, converted_to_draft or closed."""
    shape = {
        "action": action,
        "number": pull.number,
        "pull_request": shapes.pull(world, pull),
        **_surroundings(world, actor),
        **more,
    }
    return _checked(f"pull-request-{action.replace('_', '-')}", shape)


def issue_comment_event(world: World, action: str, comment: Comment, actor: User, **more: Any) -> Json:
    """Of `issue_comment`: created or edited, on a pull request."""
    shape = {
        "action": action,
        "comment": shapes.comment(world, comment),
        "issue": shapes.issue(world, world.pulls[comment.number]),
        **_surroundings(world, actor),
        **more,
    }
    return _checked(f"issue-comment-{action}", shape)


def _surroundings(world: World, actor: User) -> Json:
    return {"repository": shapes.repository(world), "sender": shapes.user(actor)}


def _checked(name: str, shape: Json) -> Json:
    payload: Json = contract().complete_event(name, shape)
    faults = contract().faults_of_event(name, payload)
    if faults:
        raise PayloadFault("\n".join(faults[:10]))
    return payload
