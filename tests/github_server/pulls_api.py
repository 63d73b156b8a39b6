"""Pull requests, comments, labels and people, as REST."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.github_server import shapes
from tests.github_server.routes import Answer, Call, Refusal, invalid, route
from tests.github_server.world import Comment, Pull, User

Json = dict[str, Any]

TALK = ("issues:write", "pull-requests:write")
LISTEN = ("issues:read", "pull-requests:read")
MAX_BODY = 65_536
REACTIONS = {"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}


@route("GET /pulls", "pull-requests:read")
def list_pulls(call: Call) -> Answer:
    state = call.query.get("state", "open")
    pulls = [pull for pull in call.world.pulls.values() if state in ("all", pull.state)]
    pulls.sort(key=lambda pull: pull.number, reverse=True)
    return call.page(pulls, lambda pull: shapes.pull(call.world, pull, is_whole=False))


@route("PATCH /pulls/{pull_number}", "pull-requests:write")
def edit_pull(call: Call) -> Answer:
    pull = find_pull(call)
    pull.title = call.body.get("title", pull.title)
    pull.body = call.body.get("body", pull.body)
    wanted = call.body.get("state", pull.state)
    if pull.merged_at and wanted == "open":
        raise invalid("Cannot reopen a merged pull request", "state")
    if wanted == "closed" and pull.state == "open":
        call.world.close(pull, call.token.user)
    elif wanted == "open" and pull.state == "closed":
        call.world.reopen(pull)
    return Answer(body=shapes.pull(call.world, pull))


@route("GET /pulls/{pull_number}/files", "pull-requests:read")
def list_files(call: Call) -> Answer:
    pull = find_pull(call)
    changes = call.world.git.changes(pull.base_sha, pull.head_sha)
    return call.page(changes[:3000], _changed_file)


def _changed_file(change: Any) -> Json:
    shape = {"filename": change.path, "status": change.status, "sha": change.sha}
    return shape | ({"previous_filename": change.previous_path} if change.previous_path else {})


@route("PUT /pulls/{pull_number}/merge", "contents:write")
def merge_pull(call: Call) -> Answer:
    """Squash onto the base, if the head is the one that the request names."""
    pull, world, body = find_pull(call), call.world, call.body or {}
    tip = call.require(world.git.find_commit(pull.base_ref))
    if pull.state != "open" or pull.draft:
        raise Refusal(405, "Pull Request is still a draft" if pull.draft else "Pull Request is not mergeable")
    if body.get("sha", pull.head_sha) != pull.head_sha:
        raise Refusal(409, "Head branch was modified. Review and try the merge again.")
    if not call.token.allows("workflows", "write") and _has_other_workflows(call, tip, pull):
        raise Refusal(403, "Resource not accessible by integration")
    if any(_asks_for_approval(call, rule, tip, pull) for rule in _rules_of_pull_requests(call)):
        raise Refusal(405, "Repository rule violations found\n\nWaiting on code owner review")
    tree = world.git.merge_trees(tip, pull.head_sha)
    if tree is None or world.settings.get("merge_refusal"):
        raise Refusal(405, world.settings.get("merge_refusal", "Pull Request is not mergeable"))
    title = body.get("commit_title") or f"{pull.title} (#{pull.number})"
    message = f"{title}\n\n{body.get('commit_message', '')}".strip()
    squash = body.get("merge_method", "merge") == "squash"
    sha = world.git.commit_tree(tree, [tip] if squash else [tip, pull.head_sha], message)
    world.git.set_ref(f"refs/heads/{pull.base_ref}", sha)
    pull.merged_at, pull.merged_by = world.clock(), call.token.user
    world.close(pull, call.token.user)
    world.emit("push", {"ref": f"refs/heads/{pull.base_ref}", "after": sha}, call.token.user)
    return Answer(body={"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


def _rules_of_pull_requests(call: Call) -> Iterator[Json]:
    """The parameters of each rule for pull requests to the default branch.  Our bots cannot bypass any."""
    for ruleset in call.world.settings.get("rulesets", {}).values():
        names = ruleset["conditions"]["ref_name"]["include"]
        if ruleset["enforcement"] == "active" and "~DEFAULT_BRANCH" in names:
            yield from (rule["parameters"] for rule in ruleset["rules"] if rule["type"] == "pull_request")


def _asks_for_approval(call: Call, rule: Json, tip: str, pull: Pull) -> bool:
    """Whether an approval is required; here nobody ever approves."""
    if rule["required_approving_review_count"]:
        return True
    owned = (call.world.git.read(tip, ".github/CODEOWNERS") or b"").decode()
    paths = [change.path for change in call.world.git.changes(pull.base_sha, pull.head_sha)]
    return rule["require_code_owner_review"] and any(_owners(owned, path) for path in paths)


def _owners(text: str, path: str) -> list[str]:
    """The owners in the last line that matches; only the few kinds of patterns of a competition."""
    found: list[str] = []
    for line in text.splitlines():
        pattern, *owners = line.partition("#")[0].split() or [""]
        if pattern == "*" or (pattern and path.startswith(pattern.removeprefix("/"))):
            found = owners
    return found


def _has_other_workflows(call: Call, tip: str, pull: Pull) -> bool:
    """Whether the head's workflow files differ from those of its base branch, whoever changed them.

    GitHub then treats the merge as one that changes workflows, even if only the base has moved on.
    """
    ours, theirs = (call.world.git.find_tree(f"{commit}:.github/workflows") for commit in (tip, pull.head_sha))
    return ours != theirs


@route("GET /issues/comments", *LISTEN)
def list_all_comments(call: Call) -> Answer:
    comments = [
        each
        for each in call.world.comments.values()
        if (shapes.time(each.updated_at) or "") >= call.query.get("since", "")
    ]
    if sort := call.query.get("sort"):
        when = {"created": lambda one: one.created_at, "updated": lambda one: one.updated_at}[sort]
        comments.sort(key=when, reverse=call.query.get("direction") == "desc")
    return call.page(comments, lambda comment: shapes.comment(call.world, comment))


@route("POST /issues/{issue_number}/comments", *TALK)
def add_comment(call: Call) -> Answer:
    number = find_pull(call, "issue_number").number
    comment = call.world.add_comment(number, call.token.user, _body(call))
    return Answer(201, shapes.comment(call.world, comment))


@route("PATCH /issues/comments/{comment_id}", *TALK)
def edit_comment(call: Call) -> Answer:
    comment = find_comment(call)
    call.world.edit_comment(comment, _body(call), call.token.user)
    return Answer(body=shapes.comment(call.world, comment))


@route("DELETE /issues/comments/{comment_id}", *TALK)
def delete_comment(call: Call) -> Answer:
    del call.world.comments[find_comment(call).id]
    return Answer(204)


@route("POST /issues/comments/{comment_id}/reactions", *TALK)
def add_reaction(call: Call) -> Answer:
    """Reacting twice in the same way is one reaction."""
    comment, content = find_comment(call), call.body["content"]
    if content not in REACTIONS:
        raise invalid(f"{content} is no reaction", "content")
    for reaction in comment.reactions:
        if reaction[1:] == (call.token.user, content):
            return Answer(200, _reaction(call, *reaction))
    comment.reactions.append((call.world.next_id(), call.token.user, content))
    return Answer(201, _reaction(call, *comment.reactions[-1]))


def _reaction(call: Call, reaction_id: int, user: Any, content: str) -> Json:
    return {
        "id": reaction_id,
        "node_id": f"REA_{reaction_id}",
        "created_at": shapes.BORN["created_at"],
        "user": shapes.user(user),
        "content": content,
    }


@route("GET /collaborators/{username}/permission")
def get_permission(call: Call) -> Answer:
    user = call.require(call.world.users.get(call.path["username"].lower()))
    shape = (shapes.user(user) or {}) | {"role_name": user.permission}
    return Answer(body={"permission": user.permission, "role_name": user.permission, "user": shape})


def _profile(user: User) -> Json:
    return {**(shapes.user(user) or {}), "name": None, **shapes.BORN}


@route("GET //user")
def get_me(call: Call) -> Answer:
    if call.token.is_workflows:
        raise Refusal(403, "Resource not accessible by integration")
    return Answer(body=_profile(call.token.user))


@route("GET //users/{username}")
def get_user(call: Call) -> Answer:
    return Answer(body=_profile(call.require(call.world.users.get(call.path["username"].lower()))))


def find_pull(call: Call, name: str = "pull_number") -> Pull:
    return call.require(call.world.pulls.get(call.number(name)))


def find_comment(call: Call) -> Comment:
    return call.require(call.world.comments.get(call.number("comment_id")))


def _body(call: Call) -> str:
    body: str = call.body["body"]
    if not body.strip():
        raise invalid("Body cannot be blank", "body")
    if len(body) > MAX_BODY:
        raise invalid(f"Body is too long (maximum is {MAX_BODY} characters)", "body")
    return body
