"""A stateful GitHub on loopback, for tests.  It is checked against GitHub's own description of its API.

    world = World(tmp_path)                     accounts, pull requests, comments, checks, runs; a real bare repository
    with GitHubServer(world) as server:         REST, git and artifact storage over HTTP
        token = world.workflow_token({"contents": "read", "pull-requests": "write"})
        GitHub(world.repository, token.value, server.api_url)
        pull = world.open_pull(world.add_user("alice"), {"submissions/vectoradd/alice/submission.py": "…"})
        server.fail("POST */comments", Failure(status=502, is_done=True))

`openapi.json` and `schema.graphql` are GitHub's descriptions, reduced by `reduce_openapi.py` and `reduce_graphql.py`.
"""

from tests.github_server.failures import Failure, Way
from tests.github_server.server import GitHubServer
from tests.github_server.world import Event, Pull, Run, Token, User, World

__all__ = ["Event", "Failure", "GitHubServer", "Pull", "Run", "Token", "User", "Way", "World"]
