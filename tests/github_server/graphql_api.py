"""GraphQL: answers queries about pull requests and their comments, with GitHub's published schema.

A query that the schema does not allow is a fault.  Each query costs one point of a separate budget.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from graphql import DocumentNode, GraphQLSchema, build_schema, execute_sync, parse, validate

from tests.github_server import shapes
from tests.github_server.pulls_api import LISTEN
from tests.github_server.routes import Answer
from tests.github_server.world import Comment, Pull, Token, User, World

Json = dict[str, Any]

FILE = Path(__file__).with_name("schema.graphql")


@cache
def schema() -> GraphQLSchema:
    return build_schema(FILE.read_text())


@cache
def read_query(query: str) -> tuple[DocumentNode, list[str]]:
    """A query, and its faults; the bot sends few different ones, and validating one takes several milliseconds."""
    document = parse(query)
    return document, [error.message for error in validate(schema(), document)]


def path_of(body: Any) -> str:
    """The path that the log shows: `/graphql/Pull/1` is `query Pull($owner: …) {…}` with the number 1."""
    _, name, *_ = body["query"].split()
    return f"/graphql/{name.partition('(')[0]}/{body['variables']['number']}"


def answer(world: World, token: Token, body: Json) -> tuple[Answer, list[str]]:
    """The answer to a query, and the query's faults."""
    if not any(token.allows(*need.split(":")) for need in LISTEN):
        return _refusal("FORBIDDEN", "Resource not accessible by integration"), []
    if not token.points.spend(world.clock()):
        return _refusal("RATE_LIMITED", f"API rate limit exceeded for user ID {token.user.id}."), []
    wanted = body["variables"]
    is_ours = f"{wanted['owner']}/{wanted['name']}" == world.repository
    pull = world.pulls.get(wanted["number"]) if is_ours else None
    document, faults = read_query(body["query"])
    if faults:
        return _refusal("", "invalid query"), faults
    told = execute_sync(schema(), document, {"repository": _repository(world, pull)}, variable_values=wanted)
    if told.errors:
        return _refusal("", "invalid query"), [error.message for error in told.errors]
    if not pull:
        return _refusal("NOT_FOUND", f"Could not resolve to a PullRequest with the number of {wanted['number']}."), []
    return Answer(body={"data": told.data}), []


def _refusal(kind: str, message: str) -> Answer:
    return Answer(body={"data": None, "errors": [{"type": kind, "message": message}]})


def _repository(world: World, pull: Pull | None) -> Json:
    return {"pullRequest": lambda _, number: _pull(world, pull) if pull else None}


def _pull(world: World, pull: Pull) -> Json:
    shape = shapes.pull(world, pull, is_whole=False)
    head, base = shape["head"]["repo"], shape["base"]["repo"]

    def comments(_: Any, first: int, after: str | None = None) -> Json:
        assert 1 <= first <= 100
        all_of_them, start = world.comments_on(pull.number), int(after or 0)
        end = start + first
        page = {"hasNextPage": end < len(all_of_them), "endCursor": str(end)}
        return {"nodes": [_comment(one) for one in all_of_them[start:end]], "pageInfo": page}

    return {
        "number": pull.number,
        "body": pull.body,
        "state": "MERGED" if pull.merged_at else pull.state.upper(),
        "isDraft": pull.draft,
        "mergedAt": shape["merged_at"],
        "createdAt": shape["created_at"],
        "updatedAt": shape["updated_at"],
        "headRefOid": pull.head_sha,
        "headRefName": pull.head_ref,
        "headRepository": head and {"databaseId": head["id"], "pushedAt": head["pushed_at"]},
        "baseRefName": pull.base_ref,
        "baseRepository": {"databaseId": base["id"], "pushedAt": base["pushed_at"]},
        "author": _actor(pull.author),
        "comments": comments,
    }


def _comment(comment: Comment) -> Json:
    times = {"createdAt": shapes.time(comment.created_at), "updatedAt": shapes.time(comment.updated_at)}
    return {"fullDatabaseId": str(comment.id), "body": comment.body, "author": _actor(comment.author), **times}


def _actor(user: User | None) -> Json | None:
    """An account; only REST adds `[bot]` to a bot's login."""
    if user is None:
        return None
    return {"__typename": user.type, "login": user.login.removesuffix("[bot]"), "databaseId": user.id}
