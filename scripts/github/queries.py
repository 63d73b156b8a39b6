"""GraphQL queries whose answers have the REST API's names, so that `pulls` reads both.

They save REST requests, because GitHub counts queries separately.
"""

from __future__ import annotations

from typing import Any

from scripts.github.pulls import PER_PAGE, items, require

_ACCOUNT = "{ type: __typename login ... on User { id: databaseId } ... on Bot { id: databaseId } }"

PULL = f"""
query Pull($owner: String!, $name: String!, $number: Int!) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      number body state draft: isDraft merged_at: mergedAt created_at: createdAt updated_at: updatedAt
      head_sha: headRefOid head_ref: headRefName head_repo: headRepository {{ id: databaseId pushed_at: pushedAt }}
      base_ref: baseRefName base_repo: baseRepository {{ id: databaseId }}
      user: author {_ACCOUNT}
    }}
  }}
}}
"""
COMMENTS = f"""
query Comments($owner: String!, $name: String!, $number: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      comments(first: {PER_PAGE}, after: $after) {{
        nodes {{ id: fullDatabaseId body created_at: createdAt updated_at: updatedAt user: author {_ACCOUNT} }}
        pageInfo {{ hasNextPage endCursor }}
      }}
    }}
  }}
}}
"""


def pull_in(data: Any) -> dict[str, Any]:
    """The pull request in an answer to `PULL`, as REST shows it."""
    node = require(data, dict, "repository", "pullRequest")
    return node | {
        "state": "open" if node.get("state") == "OPEN" else "closed",
        "head": {name: node.get(f"head_{name}") for name in ("sha", "ref", "repo")},
        "base": {name: node.get(f"base_{name}") for name in ("ref", "repo")},
        "user": _account(node.get("user")),
    }


def comments_in(data: Any) -> tuple[list[dict[str, Any]], str | None]:
    """The comments in an answer to `COMMENTS`, as REST shows them, and where the next page begins."""
    comments = require(data, dict, "repository", "pullRequest", "comments")
    page = require(comments, dict, "pageInfo")
    shown = [_comment(require(node, dict)) for node in items(comments, "nodes")]
    return shown, page.get("endCursor") if page.get("hasNextPage") else None


def _comment(node: dict[str, Any]) -> dict[str, Any]:
    number = require(node, str, "id")
    return node | {"id": int(number) if number.isdecimal() else number, "user": _account(node.get("user"))}


def _account(node: Any) -> dict[str, Any] | None:
    """An account; None for a deleted one, and for what is neither a person nor a bot.

    Only REST puts brackets behind a bot's login.
    """
    if not isinstance(node, dict) or node.get("id") is None:
        return None
    return node | {"login": f"{node.get('login')}[bot]"} if node.get("type") == "Bot" else node
