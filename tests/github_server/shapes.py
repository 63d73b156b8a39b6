"""The world's objects as GitHub's JSON: the fields that our code reads; `contract.complete` adds the others."""

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
    web = f"https://github.com/{account.login}"
    node_id = f"U_{account.id}"
    return {"id": account.id, "node_id": node_id, "login": account.login, "type": account.type, "html_url": web}


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
        "html_url": f"{world.web_url}/{world.repository}",
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
    return {"id": 1, "node_id": f"LA_{name}", "name": name} | world.labels.get(name, {})


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
        "user": user(it.author),
        "author_association": association(world, it.author),
        "created_at": time(it.created_at),
        "updated_at": time(it.updated_at),
        "html_url": f"{world.web_url}/{world.repository}/pull/{it.number}",
    }


def pull(world: World, it: Pull, *, is_whole: bool = True) -> Json:
    """A pull request; entries of lists have fewer fields."""
    shape = _pull_or_issue(world, it) | {
        "head": {"ref": it.head_ref, "sha": it.head_sha, "user": user(it.author), "repo": fork(world, it)},
        "base": {"ref": it.base_ref, "sha": it.base_sha, "user": user(world.owner), "repo": repository(world)},
        "merged_at": time(it.merged_at),
        "issue_url": f"{world.api_url}/repos/{world.repository}/issues/{it.number}",
    }
    more = {"merged": it.merged_at is not None, "comments": len(world.comments_on(it.number))}
    return shape | more if is_whole else shape


def issue(world: World, it: Pull) -> Json:
    """A pull request as an issue."""
    shape = _pull_or_issue(world, it)
    web = shape["html_url"]
    return shape | {
        "comments": len(world.comments_on(it.number)),
        "pull_request": {"url": f"{world.api_url}/repos/{world.repository}/pulls/{it.number}", "html_url": web},
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
        "html_url": f"{world.web_url}/apps/{slug}",
        "permissions": {},
    }


def check(world: World, it: Check) -> Json:
    output = {"title": None, "summary": None, "text": None} | it.output
    return {
        "id": it.id,
        "node_id": f"CR_{it.id}",
        "name": it.name,
        "status": it.status,
        "conclusion": it.conclusion,
        "external_id": it.external_id,
        "started_at": time(it.started_at),
        "completed_at": time(it.completed_at),
        "output": output,
        "app": app(world, it.app),
        "html_url": f"{world.web_url}/{world.repository}/runs/{it.id}",
    }


def run(world: World, it: Run) -> Json:
    return {
        "id": it.id,
        "node_id": f"WFR_{it.id}",
        "name": it.workflow,
        "path": f".github/workflows/{it.workflow}",
        "display_title": it.title,
        "event": it.event,
        "status": it.status,
        "conclusion": it.conclusion,
        "actor": user(it.actor),
        "created_at": time(it.created_at),
        "updated_at": time(it.updated_at),
        "html_url": f"{world.web_url}/{world.repository}/actions/runs/{it.id}",
        "repository": repository(world),
    }


def job(world: World, it: Job, of: Run) -> Json:
    moments = {"started_at": time(it.started_at or of.created_at), "completed_at": time(it.completed_at)}
    return {
        "id": it.id,
        "node_id": f"CR_{it.id}",
        "name": it.name,
        "status": it.status,
        "conclusion": it.conclusion,
        "runner_name": it.runner or None,
        "created_at": time(of.created_at),
        "html_url": f"{world.web_url}/{world.repository}/actions/runs/{of.id}/job/{it.id}",
        **moments,
    }


def artifact(world: World, it: Artifact) -> Json:
    return {
        "id": it.id,
        "node_id": f"A_{it.id}",
        "name": it.name,
        "size_in_bytes": len(it.content),
        "digest": f"sha256:{it.digest}",
        "expired": it.expired,
        "created_at": time(it.created_at),
        "updated_at": time(it.created_at),
    }
