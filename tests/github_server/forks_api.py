"""Forks, and pull requests that a participant's tool opens through the API."""

from __future__ import annotations

from tests.github_server import shapes
from tests.github_server.routes import Answer, Call, Refusal, invalid, route
from tests.github_server.world import Pull


@route("POST /forks")
def add_fork(call: Call) -> Answer:
    """The account's fork: a new one, or the existing one."""
    if call.token.is_workflows:
        raise Refusal(403, "Resource not accessible by integration")
    call.world.add_fork(call.token.user)
    return Answer(202, shapes.fork_of(call.world, call.token.user))


@route("POST /merge-upstream")
def merge_upstream(call: Call) -> Answer:
    """Fast-forward to the repository, unless the fork has diverged."""
    world, branch = call.world, call.body["branch"]
    ours = call.require(world.git.find_ref(call.ref(f"refs/heads/{branch}")))
    theirs = call.require(world.git.find_ref(f"refs/heads/{branch}"))
    if not world.git.is_ancestor(ours, theirs):
        raise Refusal(409, "There are merge conflicts")
    is_new = ours != theirs
    world.git.set_ref(call.ref(f"refs/heads/{branch}"), theirs)
    kind = "fast-forward" if is_new else "none"
    return Answer(body={"message": "Successfully fetched", "merge_type": kind, "base_branch": f"upstream:{branch}"})


@route("POST /pulls")
def open_pull(call: Call) -> Answer:
    """Open a pull request from a branch of a fork or of the repository itself; at most one for each branch."""
    world, body = call.world, call.body
    login, _, branch = body["head"].rpartition(":")
    owner = call.require(world.users.get(login.lower() or world.owner.login))
    ref = f"refs/heads/{branch}" if owner is world.owner else f"refs/forks/{owner.login.lower()}/{branch}"
    head = world.git.find_ref(ref)
    if not head or body["base"] != world.default_branch:
        raise invalid("invalid", "head" if not head else "base")
    if any((pull.author, pull.head_ref, pull.state) == (owner, branch, "open") for pull in world.pulls.values()):
        raise invalid(f"A pull request already exists for {body['head']}.")
    if not world.git.changes(f"refs/heads/{body['base']}", head):
        raise invalid(f"No commits between {body['base']} and {branch}")
    if body.get("draft") and world.settings.get("no_drafts"):
        raise Refusal(422, "Draft pull requests are not supported in this repository.")
    how = {"title": body["title"], "body": body.get("body") or "", "draft": body.get("draft", False)}
    pull = world.add_pull(call.token.user, head, branch=branch, **how)
    return Answer(201, shapes.pull(world, pull))


@route("POST //api/graphql")
def graphql(call: Call) -> Answer:
    """The two mutations that REST lacks."""
    query, node = call.body["query"], call.body["variables"]["id"]
    pull = next((one for one in call.world.pulls.values() if f"PR_{one.number}" == node), None)
    if pull is None or not _may_mark(call, pull) or call.world.settings.get("graphql_refuses"):
        return Answer(body={"data": None, "errors": [{"type": "FORBIDDEN", "message": "Resource not accessible"}]})
    if "convertPullRequestToDraft" in query and call.world.settings.get("no_drafts"):
        said = "Draft pull requests are not supported in this repository."
        return Answer(body={"data": None, "errors": [{"type": "UNPROCESSABLE", "message": said}]})
    if "markPullRequestReadyForReview" in query and pull.draft:
        call.world.mark_ready(pull)
    elif "convertPullRequestToDraft" in query and not pull.draft:
        call.world.convert_to_draft(pull)
    return Answer(body={"data": {"done": {"clientMutationId": None}}})


def _may_mark(call: Call, pull: Pull) -> bool:
    return pull.author is call.token.user or call.token.allows("pull-requests", "write")
