"""GraphQL queries, and their answers in the form of the REST API, which `pulls` reads.

They save REST requests, because GitHub counts queries separately.
"""

from __future__ import annotations

from typing import Any

from scripts.github.pulls import PER_PAGE, items, require

_ACCOUNT = "{ __typename login ... on User { databaseId } ... on Bot { databaseId } }"

PULL = f"""
query Pull($owner: String!, $name: String!, $number: Int!) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      number body state isDraft mergedAt createdAt updatedAt
      headRefOid headRefName headRepository {{ databaseId pushedAt }}
      baseRefName baseRepository {{ databaseId }}
      author {_ACCOUNT}
    }}
  }}
}}
"""
COMMENTS = f"""
query Comments($owner: String!, $name: String!, $number: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      comments(first: {PER_PAGE}, after: $after) {{
        nodes {{ fullDatabaseId body createdAt updatedAt author {_ACCOUNT} }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
"""


def pull_in(data: Any) -> dict[str, Any]:
    """The pull request in an answer to `PULL`, as REST shows it."""
    node = require(data, dict, "repository", "pullRequest")
    head, base = node.get("headRepository"), node.get("baseRepository")
    return {
        "number": node.get("number"),
        "body": node.get("body"),
        "state": "open" if node.get("state") == "OPEN" else "closed",
        "draft": node.get("isDraft"),
        "merged_at": node.get("mergedAt"),
        "created_at": node.get("createdAt"),
        "updated_at": node.get("updatedAt"),
        "head": {"sha": node.get("headRefOid"), "ref": node.get("headRefName"), "repo": _repository(head)},
        "base": {"ref": node.get("baseRefName"), "repo": _repository(base)},
        "user": _account(node.get("author")),
    }


def comments_in(data: Any) -> tuple[list[dict[str, Any]], str | None]:
    """The comments in an answer to `COMMENTS`, as REST shows them, and where the next page begins."""
    comments = require(data, dict, "repository", "pullRequest", "comments")
    page = require(comments, dict, "pageInfo")
    shown = [_comment(require(node, dict)) for node in items(comments, "nodes")]
    return shown, page.get("endCursor") if page.get("hasNextPage") else None


def _comment(node: dict[str, Any]) -> dict[str, Any]:
    number = require(node, str, "fullDatabaseId")
    times = {"created_at": node.get("createdAt"), "updated_at": node.get("updatedAt")}
    return {
        "id": int(number) if number.isdecimal() else number,
        "body": node.get("body"),
        "user": _account(node.get("author")),
        **times,
    }


def _repository(node: Any) -> dict[str, Any] | None:
    return {"id": node.get("databaseId"), "pushed_at": node.get("pushedAt")} if isinstance(node, dict) else None


def _account(node: Any) -> dict[str, Any] | None:
    """An account; None for a deleted one, and for what is neither a person nor a bot.

    Only REST puts brackets behind a bot's login.
    """
    if not isinstance(node, dict) or node.get("databaseId") is None:
        return None
    kind, login = node.get("__typename"), node.get("login")
    return {"id": node.get("databaseId"), "login": f"{login}[bot]" if kind == "Bot" else login, "type": kind}
