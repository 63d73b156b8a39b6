"""The required settings of a competition's repository, and the requests that correct them.  Pure.

    a setting as GitHub sends it  ─▶  find_…_faults   what is wrong with it, in words; empty if it is right
                                  ─▶  mend_…          the body that corrects it; keeps what an organiser added, if safe

Values are GitHub's own JSON: unknown fields are sent back unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from scripts.github.admin import Json

MAIN, LEDGER = "main", "ledger"
"""Branches.  Workflows, runners and the job gate use the name `main`."""

WORKFLOWS = ("intake.yml", "evaluate.yml", "reconcile.yml", "publish.yml", "check.yml")
"""The workflows that judging and the site need."""
OPTIONAL_WORKFLOWS = ("dataset.yml",)
"""Further workflows with a schedule, which GitHub disables when a repository is quiet."""

LABELS: Mapping[str, tuple[str, str]] = {
    "judging": ("d93f0b", "A verdict, a time or a rank that looks wrong"),
    "question": ("d876e3", "About the rules, a task, or how to take part"),
    "task": ("1d76db", "A task: a new one, or a change to one"),
}
"""Color and description of the labels that .github/ISSUE_TEMPLATE assigns."""

POLICY = "PullRank"
EVENTS = ("issue_comment", "merge_group", "pull_request_target", "push", "schedule", "workflow_dispatch")
"""The events of our workflows."""
UNSAFE_EVENTS = ("pull_request", "pull_request_review", "pull_request_review_comment")
"""Events that run the workflow files of a fork."""

ADMIN_ROLE = 5
"""GitHub's id of the repository role that may change settings."""

MAIN_RULESET: Json = {
    "name": "PullRank: main",
    "target": "branch",
    "enforcement": "active",
    "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
    "rules": [
        {"type": "deletion"},
        {"type": "non_fast_forward"},
        {
            "type": "pull_request",
            # The bot needs no bypass: submissions have no code owner, and no other approval is required.
            "parameters": {
                "required_approving_review_count": 0,
                "require_code_owner_review": True,
                "require_last_push_approval": False,
            },
        },
    ],
    # Admins could delete the ruleset anyway.  A workflow's token cannot be listed here, and should not be: it merges
    # pull requests, and must not push.
    "bypass_actors": [{"actor_id": ADMIN_ROLE, "actor_type": "RepositoryRole", "bypass_mode": "always"}],
}

_UNSAID: Mapping[str, Json] = {
    "pull_request": {"dismiss_stale_reviews_on_push": False, "required_review_thread_resolution": False}
}
"""Parameters that GitHub requires with a rule, and that the organiser may choose."""

LEDGER_RULESET: Json = {
    "name": "PullRank: ledger",
    "target": "branch",
    "enforcement": "active",
    "conditions": {"ref_name": {"include": [f"refs/heads/{LEDGER}"], "exclude": []}},
    "rules": [{"type": "deletion"}, {"type": "non_fast_forward"}],
    "bypass_actors": [],
}

SELECTED_ACTIONS: Json = {"github_owned_allowed": True}
SITE: Json = {"build_type": "workflow"}
ONLY_NAMED_BRANCHES: Json = {"protected_branches": False, "custom_branch_policies": True}


# Plain fields.


def find_differences(seen: Json, wanted: Json) -> list[str]:
    """The fields that have a wrong value."""
    return [f"{key} is {_word(seen.get(key))}" for key, value in wanted.items() if seen.get(key) != value]


def _word(value: object) -> str:
    if value is None:
        return "not set"
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


# Actions.


def mend_actions(seen: Json) -> Json:
    """Allow actions of GitHub and this repository only; by full hashes, if the server supports that."""
    pinned = {"sha_pinning_required": True} if "sha_pinning_required" in seen else {}
    return {"enabled": True, "allowed_actions": "selected", **pinned}


def mend_selected(seen: Json) -> Json:
    """Allow GitHub's own actions, and keep those that an organiser allowed."""
    others = {key: seen[key] for key in ("verified_allowed", "patterns_allowed") if key in seen}
    return others | SELECTED_ACTIONS


# Workflows.


def find_workflow_faults(states: Mapping[str, str]) -> list[str]:
    """Our workflows that are missing or disabled; `states` are by file name."""
    missing = [f"{name} is missing" for name in WORKFLOWS if name not in states]
    idle = [name for name in find_idle(states) if name in OPTIONAL_WORKFLOWS]
    off = [name for name in WORKFLOWS if states.get(name, "active") != "active"]
    return missing + [f"{name}: {states[name]}" for name in (*off, *idle)]


def find_idle(states: Mapping[str, str]) -> list[str]:
    """The workflows that GitHub disabled for inactivity.  Those disabled by hand are paused, and stay so."""
    return [name for name in (*WORKFLOWS, *OPTIONAL_WORKFLOWS) if states.get(name) == "disabled_inactivity"]


# Rulesets.


def find_ruleset_faults(seen: Json | None, wanted: Json) -> list[str]:
    if seen is None:
        return [f"there is no ruleset '{wanted['name']}'"]
    faults = find_differences(seen, {key: wanted[key] for key in ("target", "enforcement")})
    names, covered = wanted["conditions"]["ref_name"]["include"], _ref_names(seen)
    if set(names) - set(covered["include"]) or set(names) & set(covered["exclude"]):
        faults.append(f"it does not cover {names[0]}")
    known = {rule["type"]: rule.get("parameters") or {} for rule in seen.get("rules") or ()}
    for rule in wanted["rules"]:
        kind, parameters = rule["type"], rule.get("parameters", {})
        if kind not in known:
            faults.append(f"it lacks the rule {kind}")
        else:
            faults += [f"{kind}: {fault}" for fault in find_differences(known[kind], parameters)]
    if "squash" not in known.get("pull_request", {}).get("allowed_merge_methods", ["squash"]):
        faults.append("pull_request: it does not allow squash merging")
    if "merge_queue" in known:
        faults.append("merge_queue: the bot cannot merge; remove the rule")
    if not wanted["bypass_actors"] and seen.get("bypass_actors"):
        faults.append("somebody may bypass it")
    return faults


def mend_ruleset(seen: Json | None, wanted: Json) -> Json:
    """Our ruleset, with every branch and rule that an organiser added, and every bypass unless ours has none."""
    if seen is None:
        return wanted | {"rules": [_merge_rule({}, rule) for rule in wanted["rules"]]}
    names, covered = wanted["conditions"]["ref_name"]["include"], _ref_names(seen)
    ref_names = {
        "include": [*dict.fromkeys([*covered["include"], *names])],
        "exclude": [name for name in covered["exclude"] if name not in names],
    }
    ours = {rule["type"]: rule for rule in wanted["rules"]}
    rules = [_merge_rule(rule, ours.pop(rule["type"], {})) for rule in seen.get("rules") or ()]
    rules += [_merge_rule({}, rule) for rule in ours.values()]
    mended = wanted | {"conditions": {"ref_name": ref_names}, "rules": rules}
    # Only admins see the bypass list; if it is hidden, leave it unchanged.
    bypass = mended.pop("bypass_actors") and seen.get("bypass_actors")
    return mended | ({"bypass_actors": bypass} if seen.get("bypass_actors") is not None else {})


def _ref_names(ruleset: Json) -> dict[str, list[str]]:
    found = (ruleset.get("conditions") or {}).get("ref_name") or {}
    return {"include": list(found.get("include") or ()), "exclude": list(found.get("exclude") or ())}


def _merge_rule(theirs: Json, ours: Json) -> Json:
    unsaid = _UNSAID.get(ours.get("type", ""), {})
    parameters = {**unsaid, **(theirs.get("parameters") or {}), **ours.get("parameters", {})}
    if "squash" not in parameters.get("allowed_merge_methods", ["squash"]):
        parameters["allowed_merge_methods"] = [*parameters["allowed_merge_methods"], "squash"]
    return {**ours, **theirs} | ({"parameters": parameters} if parameters else {})


# The policy for events.


def find_policy_faults(policies: Sequence[Json]) -> list[str]:
    """`policies` are all that apply, in full, including the organisation's: an event must pass every one."""
    ours = find_policy(policies)
    faults = [f"there is no policy '{POLICY}'"] if ours is None else []
    if ours is not None:
        faults += find_differences(ours, {"enforcement": "active"})
        if not _covers_all(ours):
            faults.append("it does not cover all workflows")
        if not list(_allowed(ours)):
            faults.append("it restricts no events")
        if any(event in allowed for allowed in _allowed(ours) for event in UNSAFE_EVENTS):
            faults.append(f"it allows {' or '.join(UNSAFE_EVENTS)}, so that workflow files of forks run")
    for policy in policies:
        if policy is ours or (policy.get("enforcement") == "active" and _covers_all(policy)):
            faults += [f"'{policy.get('name')}' blocks {event}" for event in _blocked(policy)]
    return faults


def find_policy(policies: Iterable[Json]) -> Json | None:
    """The repository's own policy of our name."""
    own = (policy for policy in policies if policy.get("source_type", "Repository") == "Repository")
    return next((policy for policy in own if policy.get("name") == POLICY), None)


def mend_policy(seen: Json | None) -> Json:
    """Our policy, with the rules and safe events that an organiser added."""
    events = [event for allowed in _allowed(seen or {}) for event in allowed if event not in UNSAFE_EVENTS]
    others = [rule for rule in (seen or {}).get("rules") or () if rule.get("type") != _EVENT_RULE]
    allowed = sorted({*events, *EVENTS})
    return {
        "name": POLICY,
        "enforcement": "active",
        "conditions": {"workflow_path": {"include": ["~ALL"], "exclude": []}},
        "rules": [*others, {"type": _EVENT_RULE, "parameters": {"allowed_events": allowed}}],
    }


_EVENT_RULE = "restrict_action_events"


def _allowed(policy: Json) -> Iterator[list[str]]:
    """The events that each of its event rules allows."""
    for rule in policy.get("rules") or ():
        if rule.get("type") == _EVENT_RULE:
            yield list((rule.get("parameters") or {}).get("allowed_events") or ())


def _blocked(policy: Json) -> list[str]:
    return [event for event in EVENTS if any(event not in allowed for allowed in _allowed(policy))]


def _covers_all(policy: Json) -> bool:
    path = (policy.get("conditions") or {}).get("workflow_path") or {}
    return not path.get("exclude") and (path.get("include") or ["~ALL"]) == ["~ALL"]


# Environments.


def find_environment_faults(seen: Json | None, branches: Collection[str], *, is_shared: bool = True) -> list[str]:
    """What is wrong with an environment; unless it `is_shared`, only `main` may use its secrets."""
    if seen is None:
        return ["there is no such environment"]
    if seen.get("deployment_branch_policy") != ONLY_NAMED_BRANCHES:
        return ["it is not restricted to named branches"]
    foreign = () if is_shared else (branch for branch in branches if branch != MAIN)
    others = [f"the branch {branch} may use its secrets; remove it there" for branch in foreign]
    return others if MAIN in branches else [f"{MAIN} may not deploy", *others]


def mend_environment(seen: Json | None) -> Json:
    """Restrict an environment to named branches; keep its reviewers and wait timer."""
    body: Json = {"deployment_branch_policy": ONLY_NAMED_BRANCHES}
    for rule in (seen or {}).get("protection_rules") or ():
        if rule.get("type") == "wait_timer":
            body["wait_timer"] = rule.get("wait_timer", 0)
        if rule.get("type") == "required_reviewers":
            reviewers = rule.get("reviewers") or ()
            body["reviewers"] = [{"type": one["type"], "id": one["reviewer"]["id"]} for one in reviewers]
            body["prevent_self_review"] = bool(rule.get("prevent_self_review"))
    return body
