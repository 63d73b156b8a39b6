"""The world's objects as GitHub's JSON: the fields that matter; `contract.complete` adds the rest."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tests.github_server.world import Artifact, Check, Comment, Job, Pull, Run, User, World

Json = dict[str, Any]

BORN = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
"""The times of objects from before the competition."""


def time(moment: datetime | None) -> str | None:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None


def user(account: User | None) -> Json | None:
    if account is None:
        return None
    web, api = f"https://github.com/{account.login}", f"https://api.github.com/users/{account.login}"
    parts = ("followers", "subscriptions", "repos", "received_events", "organizations")
    return {
        "id": account.id,
        "node_id": f"U_{account.id}",
        "login": account.login,
        "type": account.type,
        "site_admin": False,
        "avatar_url": f"https://avatars.githubusercontent.com/u/{account.id}",
        "gravatar_id": "",
        "html_url": web,
        "url": api,
        **{f"{part}_url": f"{api}/{part}" for part in parts},
        "events_url": f"{api}/events{{/privacy}}",
        "following_url": f"{api}/following{{/other_user}}",
        "gists_url": f"{api}/gists{{/gist_id}}",
        "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
    }


def repository(world: World) -> Json:
    return {
        "id": world.repository_id,
        "node_id": f"R_{world.repository_id}",
        "name": world.repository.split("/")[1],
        "full_name": world.repository,
        "owner": user(world.owner),
        "private": False,
        "fork": False,
        "default_branch": world.default_branch,
        "visibility": "public",
        "html_url": f"{world.web_url}/{world.repository}",
        "url": f"{world.api_url}/repos/{world.repository}",
        **BORN,
        "pushed_at": time(world.owner.pushed_at) or BORN["created_at"],
        **world.settings.get("repository", {}),
    }


def fork(world: World, pull: Pull) -> Json | None:
    if pull.head_repo_id is None:
        return None
    return {**fork_of(world, pull.author or world.owner), "id": pull.head_repo_id}


def fork_of(world: World, owner: User) -> Json:
    name = world.repository.split("/")[1]
    return {
        **(ours := repository(world)),
        "id": 800_000_000 + owner.id,
        "name": name,
        "full_name": f"{owner.login}/{name}",
        "owner": user(owner),
        "fork": True,
        "pushed_at": time(owner.pushed_at) or ours["pushed_at"],
    }


def association(world: World, account: User | None) -> str:
    if account is world.owner:
        return "OWNER"
    if account and account.permission in ("write", "admin"):
        return "COLLABORATOR"
    merged = any(pull.merged_at and pull.author is account for pull in world.pulls.values())
    return "CONTRIBUTOR" if merged else "NONE"


def label(world: World, name: str) -> Json:
    return {
        "id": 1,
        "node_id": f"LA_{name}",
        "name": name,
        "color": "ededed",
        "description": "",
        "default": False,
    } | world.labels.get(name, {})


def _pull_or_issue(world: World, it: Pull) -> Json:
    """The fields of a pull request that it also has as an issue."""
    return {
        "id": 900_000_000 + it.number,
        "node_id": f"PR_{it.number}",
        "number": it.number,
        "title": it.title,
        "body": it.body,
        "state": it.state,
        "draft": it.draft,
        "locked": False,
        "user": user(it.author),
        "author_association": association(world, it.author),
        "labels": [label(world, name) for name in it.labels],
        "created_at": time(it.created_at),
        "updated_at": time(it.updated_at),
        "closed_at": time(it.closed_at),
        "html_url": f"{world.web_url}/{world.repository}/pull/{it.number}",
    }


def pull(world: World, it: Pull, *, is_whole: bool = True) -> Json:
    """A pull request; entries of lists have fewer fields."""
    author = user(it.author)
    shape = _pull_or_issue(world, it) | {
        "head": {"ref": it.head_ref, "sha": it.head_sha, "label": _label(it.author, it.head_ref), "user": author}
        | {"repo": fork(world, it)},
        "base": {"ref": it.base_ref, "sha": it.base_sha, "label": _label(world.owner, it.base_ref)}
        | {"user": user(world.owner), "repo": repository(world)},
        "merged_at": time(it.merged_at),
        "merge_commit_sha": it.merge_commit_sha,
        "url": f"{world.api_url}/repos/{world.repository}/pulls/{it.number}",
        "issue_url": f"{world.api_url}/repos/{world.repository}/issues/{it.number}",
    }
    if not is_whole:
        return shape
    is_open = it.state == "open"
    mergeable = world.git.merge_trees(it.base_ref, it.head_sha) is not None if is_open else None
    return shape | {
        "merged": it.merged_at is not None,
        "merged_by": user(it.merged_by),
        "mergeable": mergeable,
        "mergeable_state": {True: "clean", False: "dirty", None: "unknown"}[mergeable],
        "comments": len(world.comments_on(it.number)),
        "commits": world.git.count_between(it.base_sha, it.head_sha),
        "changed_files": len(world.git.changes(it.base_sha, it.head_sha)),
    }


def _label(account: User | None, ref: str) -> str:
    return f"{account.login}:{ref}" if account else ref


def issue(world: World, it: Pull) -> Json:
    """A pull request as an issue."""
    shape = _pull_or_issue(world, it)
    web = shape["html_url"]
    return shape | {
        "comments": len(world.comments_on(it.number)),
        "url": f"{world.api_url}/repos/{world.repository}/issues/{it.number}",
        "pull_request": {
            "url": f"{world.api_url}/repos/{world.repository}/pulls/{it.number}",
            "html_url": web,
            "diff_url": f"{web}.diff",
            "patch_url": f"{web}.patch",
        },
    }


def comment(world: World, it: Comment) -> Json:
    return {
        "id": it.id,
        "node_id": f"IC_{it.id}",
        "body": it.body,
        "user": user(it.author),
        "author_association": association(world, it.author),
        "created_at": time(it.created_at),
        "updated_at": time(it.updated_at),
        "html_url": f"{world.web_url}/{world.repository}/pull/{it.number}#issuecomment-{it.id}",
        "issue_url": f"{world.api_url}/repos/{world.repository}/issues/{it.number}",
        "url": f"{world.api_url}/repos/{world.repository}/issues/comments/{it.id}",
    }


def app(world: World, bot: User) -> Json:
    """A bot's App."""
    slug = bot.login.removesuffix("[bot]")
    return BORN | {
        "id": bot.id,
        "slug": slug,
        "node_id": f"A_{bot.id}",
        "owner": user(world.owner),
        "name": slug,
        "description": None,
        "external_url": "https://example.org",
        "html_url": f"{world.web_url}/apps/{slug}",
        "permissions": {},
        "events": [],
    }


def check(world: World, it: Check) -> Json:
    output = {"title": None, "summary": None, "text": None} | it.output
    return {
        "id": it.id,
        "node_id": f"CR_{it.id}",
        "name": it.name,
        "head_sha": it.head_sha,
        "status": it.status,
        "conclusion": it.conclusion,
        "external_id": it.external_id,
        "details_url": it.details_url,
        "started_at": time(it.started_at),
        "completed_at": time(it.completed_at),
        "output": output | {"annotations_count": len(it.annotations)},
        "pull_requests": [],
        "app": app(world, it.app),
        "url": f"{world.api_url}/repos/{world.repository}/check-runs/{it.id}",
        "html_url": f"{world.web_url}/{world.repository}/runs/{it.id}",
    }


def run(world: World, it: Run) -> Json:
    web = f"{world.web_url}/{world.repository}/actions/runs/{it.id}"
    return {
        "id": it.id,
        "node_id": f"WFR_{it.id}",
        "name": it.workflow,
        "path": f".github/workflows/{it.workflow}",
        "display_title": it.title,
        "event": it.event,
        "status": it.status,
        "conclusion": it.conclusion,
        "head_sha": it.head_sha,
        "head_branch": it.head_branch,
        "run_number": it.id,
        "run_attempt": 1,
        "workflow_id": workflow_id(it.workflow),
        "actor": user(it.actor),
        "triggering_actor": user(it.actor),
        "created_at": time(it.created_at),
        "updated_at": time(it.updated_at),
        "run_started_at": time(it.created_at),
        "html_url": web,
        "url": f"{world.api_url}/repos/{world.repository}/actions/runs/{it.id}",
        "repository": repository(world),
        "head_repository": repository(world),
    }


def workflow_id(name: str) -> int:
    return sum(map(ord, name))


def job(world: World, it: Job, of: Run) -> Json:
    moments = {"started_at": time(it.started_at or of.created_at), "completed_at": time(it.completed_at)}
    return {
        "id": it.id,
        "node_id": f"CR_{it.id}",
        "run_id": of.id,
        "name": it.name,
        "workflow_name": of.workflow,
        "status": it.status,
        "conclusion": it.conclusion,
        "head_sha": of.head_sha,
        "head_branch": of.head_branch,
        "runner_name": it.runner or None,
        "labels": [],
        "created_at": time(of.created_at),
        "html_url": f"{world.web_url}/{world.repository}/actions/runs/{of.id}/job/{it.id}",
        **moments,
    }


def artifact(world: World, it: Artifact) -> Json:
    url = f"{world.api_url}/repos/{world.repository}/actions/artifacts/{it.id}"
    return {
        "id": it.id,
        "node_id": f"A_{it.id}",
        "name": it.name,
        "size_in_bytes": len(it.content),
        "digest": f"sha256:{it.digest}",
        "expired": it.expired,
        "created_at": time(it.created_at),
        "updated_at": time(it.created_at),
        "url": url,
        "archive_download_url": f"{url}/zip",
        "workflow_run": {"id": it.run_id, "repository_id": world.repository_id, "head_sha": "0" * 40},
    }
