"""Git's objects and checks, as REST."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlencode

from tests.github_server import shapes
from tests.github_server.git import Entry
from tests.github_server.routes import Answer, Call, Refusal, invalid, route
from tests.github_server.world import Activity, Check

Json = dict[str, Any]

SHA = re.compile(r"[0-9a-f]{40}")


def _brief(sha: str) -> Json:
    return {"sha": sha, "node_id": f"C_{sha}", "html_url": f"https://github.com/commit/{sha}"}


@route("GET /git/trees/{tree_sha}", "contents:read")
def get_tree(call: Call) -> Answer:
    """Of a commit, a tree, a branch, or `commit:folder`, which GitHub accepts but does not document."""
    tree = call.require(call.world.git.find_tree(call.path["tree_sha"]))
    return Answer(body=_tree(call, tree, recursive="recursive" in call.query))


def _tree(call: Call, sha: str, *, recursive: bool = False) -> Json:
    entries = map(_entry, call.world.git.entries(sha, recursive=recursive))
    return {"sha": sha, "tree": list(entries), "truncated": False}


def _entry(entry: Entry) -> Json:
    shape: Json = {"path": entry.path, "mode": entry.mode, "type": entry.kind, "sha": entry.sha}
    return shape | ({} if entry.size is None else {"size": entry.size})


@route("POST /git/trees", "contents:write")
def add_tree(call: Call) -> Answer:
    git, base = call.world.git, call.body.get("base_tree")
    files = {entry["path"]: _content(call, entry) for entry in call.body["tree"]}
    modes = {entry["path"]: entry["mode"] for entry in call.body["tree"]}
    parent = git.commit_tree(call.require(git.find_tree(base)), [], "base") if base else None
    sha = git.find_tree(git.commit(files, parent=parent, modes=modes))
    return Answer(201, _tree(call, call.require(sha)))


def _content(call: Call, entry: Json) -> bytes | str | None:
    if "content" in entry:
        return str(entry["content"])
    return None if entry.get("sha") is None else call.require(call.world.git.blob(entry["sha"]))


@route("GET /git/blobs/{file_sha}", "contents:read")
def get_blob(call: Call) -> Answer:
    sha = call.path["file_sha"]
    if not SHA.fullmatch(sha):
        raise invalid("The sha parameter must be exactly 40 characters", "sha")
    content = call.require(call.world.git.blob(sha))
    # GitHub splits base64 into lines.
    encoded = base64.encodebytes(content).decode()
    facts = {"sha": sha, "node_id": f"B_{sha}", "size": len(content)}
    return Answer(body=facts | {"content": encoded, "encoding": "base64"})


@route("POST /git/blobs", "contents:write")
def add_blob(call: Call) -> Answer:
    text = call.body["content"]
    content = base64.b64decode(text) if call.body.get("encoding") == "base64" else text.encode()
    return Answer(201, {"sha": call.world.git.add_blob(content)})


@route("GET /git/commits/{commit_sha}", "contents:read")
def get_commit(call: Call) -> Answer:
    return Answer(body=_commit(call, call.require(call.world.git.find_commit(call.path["commit_sha"]))))


@route("POST /git/commits", "contents:write")
def add_commit(call: Call) -> Answer:
    body = call.body
    sha = call.world.git.commit_tree(body["tree"], body.get("parents", []), body["message"])
    return Answer(201, _commit(call, sha))


def _commit(call: Call, sha: str) -> Json:
    git = call.world.git
    return {
        **_brief(sha),
        "message": git.message(sha),
        "tree": {"sha": git.find_tree(sha)},
        "parents": [{"sha": one, "html_url": f"https://github.com/commit/{one}"} for one in git.parents(sha)],
    }


@route("GET /git/ref/{ref}", "contents:read")
def get_ref(call: Call) -> Answer:
    return Answer(body=_ref(call, f"refs/{call.path['ref']}"))


@route("POST /git/refs", "contents:write")
def add_ref(call: Call) -> Answer:
    ref = call.body["ref"]
    if call.world.git.find_ref(call.ref(ref)):
        raise Refusal(422, "Reference already exists")
    call.world.git.set_ref(call.ref(ref), call.require(call.world.git.find_commit(call.body["sha"])))
    _note_push(call)
    return Answer(201, _ref(call, ref))


def _note_push(call: Call) -> None:
    owner = call.world.users[call.fork] if call.fork else call.world.owner
    owner.pushed_at = call.world.clock()


@route("PATCH /git/refs/{ref}", "contents:write")
def move_ref(call: Call) -> Answer:
    git, ref, sha = call.world.git, f"refs/{call.path['ref']}", call.body["sha"]
    if not call.body.get("force") and not git.is_ancestor(call.require(git.find_ref(call.ref(ref))), sha):
        raise Refusal(422, "Update is not a fast forward")
    git.set_ref(call.ref(ref), sha)
    _note_push(call)
    call.world.follow_branch(call.fork or call.world.owner.login.lower(), ref.removeprefix("refs/heads/"), sha)
    return Answer(body=_ref(call, ref))


def _ref(call: Call, ref: str) -> Json:
    return {
        "ref": ref,
        "node_id": f"REF_{ref}",
        "object": {"type": "commit", "sha": call.require(call.world.git.find_ref(call.ref(ref)))},
    }


@route("GET /activity", "contents:read")
def list_activity(call: Call) -> Answer:
    """Newest first, paged by links."""
    ref, size = call.query.get("ref", ""), min(int(call.query.get("per_page", "30")), 100)
    found = [one for one in reversed(call.world.activity) if ref in ("", one.ref)]
    begin = next((at for at, one in enumerate(found, 1) if f"A{one.id}" == call.query.get("after")), 0)
    page = found[begin : begin + size]
    link = ""
    if len(found) > begin + size:
        query = urlencode({"ref": ref, "per_page": size, "after": f"A{page[-1].id}"})
        link = f'<https://api.github.com/repositories/1/activity?{query}>; rel="next"'
    return Answer(body=[_activity(one) for one in page], headers={"Link": link} if link else {})


def _activity(one: Activity) -> Json:
    shape = {"id": one.id, "node_id": f"ACT_{one.id}", "ref": one.ref, "before": one.before, "after": one.after}
    moment = {"timestamp": shapes.time(one.at), "activity_type": one.kind}
    return {**shape, **moment, "actor": shapes.user(one.actor)}


# Checks

MAX_TEXT = 65_535
"""The limit in bytes: GitHub refuses a longer summary of a check run, and cuts a longer text."""


@route("POST /check-runs", "checks:write")
def add_check(call: Call) -> Answer:
    if not call.token.is_workflows:
        raise Refusal(403, "You must authenticate via a GitHub App.")
    sha = call.body["head_sha"]
    if not call.world.git.find_commit(sha):
        raise Refusal(422, f"No commit found for SHA: {sha}")
    check = Check(call.world.next_id(), sha, call.body["name"], call.token.user)
    call.world.checks[check.id] = check
    _write_check(call, check)
    return Answer(201, shapes.check(call.world, check))


@route("PATCH /check-runs/{check_run_id}", "checks:write")
def edit_check(call: Call) -> Answer:
    check = _find_check(call)
    if check.app is not call.token.user:
        raise Refusal(403, "Invalid app_id - check run can only be modified by the GitHub App that created it.")
    _refuse_new_result(call, check)
    _write_check(call, check)
    return Answer(body=shapes.check(call.world, check))


def _refuse_new_result(call: Call, check: Check) -> None:
    """A completed check run keeps its result.  GitHub does not document whether it refuses a change or ignores it."""
    asked = (call.body.get("status", check.status), call.body.get("conclusion", check.conclusion))
    if check.status == "completed" and asked != (check.status, check.conclusion):
        raise Refusal(422, "The status and conclusion of a completed check run cannot be modified")


@route("GET /commits/{ref}/check-runs", "checks:read")
def list_checks(call: Call) -> Answer:
    sha, name = call.world.git.find_commit(call.path["ref"]), call.query.get("check_name")
    if not sha:
        raise Refusal(422, f"No commit found for SHA: {call.path['ref']}")
    checks = [each for each in call.world.checks.values() if each.head_sha == sha and name in (None, each.name)]
    if call.query.get("filter", "latest") == "latest":
        # GitHub leaves them out within a check suite, and does not document how it chooses a check run's suite.  So
        # here all check runs of an App at a commit share one.
        checks = list({(each.app.id, each.name): each for each in checks}.values())
    return call.page(checks, lambda check: shapes.check(call.world, check), "check_runs")


def _find_check(call: Call) -> Check:
    return call.require(call.world.checks.get(call.number("check_run_id")))


def _write_check(call: Call, check: Check) -> None:
    """Add annotations to the existing ones; replace all other fields."""
    body, now = call.body, call.world.clock()
    if len(body.get("output", {}).get("summary", "").encode()) > MAX_TEXT:
        raise invalid(f"summary exceeds a maximum bytesize of {MAX_TEXT}", "summary")
    for name in ("name", "status", "conclusion", "external_id"):
        setattr(check, name, body.get(name, getattr(check, name)))
    if "conclusion" in body:
        check.status = "completed"
    if check.status != "completed":
        check.conclusion = None
    check.started_at = check.started_at or now
    check.completed_at = now if check.status == "completed" else None
    output = dict(body.get("output", {}))
    if "text" in output:
        output["text"] = output["text"].encode()[:MAX_TEXT].decode(errors="ignore")
    check.annotations += output.pop("annotations", [])
    check.output |= output
