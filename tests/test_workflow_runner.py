"""The mini-runner itself, on workflows of a few lines: conditions, groups, outputs, tokens, as on GitHub."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.actions import Expressions, Hub, Play, WarmPython
from tests.actions.expressions import ExpressionError, Status
from tests.actions.node import find_node
from tests.actions.shell import StepFailed, read_pairs
from tests.actions.workflow import WorkflowError, read_workflow
from tests.github_server import GitHubServer, World

pytestmark = pytest.mark.skipif(find_node() is None, reason="Node's packages are missing: make setup")

GOOD, BAD, CANCELLED = Status(), Status(success=False, failure=True), Status(success=False, cancelled=True)


@pytest.fixture
def hub(tmp_path: Path, expressions: Expressions, warm: WarmPython) -> Iterator[Hub]:
    world = World(tmp_path / "github")
    with GitHubServer(world) as server:
        yield Hub(server, expressions, warm, tmp_path, tmp_path / "machines")


def one_job(steps: str, *, permissions: str = "{}", on: str = "push", more: str = "") -> str:
    return f"""
name: W
on:
  {on}:
permissions: {{}}
{more}
jobs:
  only:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {permissions}
    steps:
{steps}
"""


def play(hub: Hub, text: str, name: str = "w.yml") -> None:
    hub.world.commit({f".github/workflows/{name}": text})
    hub.settle()


# Expressions.


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("needs.a-b.outputs.c", "hello"),
        ("fromJSON(needs.a-b.outputs.list)", ["x", 1]),
        ("github.event.nothing.at.all", None),
        ("github.name == 'ALICE'", True),
        ("format('{0}-{1}', github.name, 7)", "alice-7"),
        ("startsWith(github.name, 'al') && !cancelled()", True),
        ("'it''s }}'", "it's }}"),
    ],
)
def test_expressions_evaluate_as_on_github(expressions: Expressions, expression: str, value: object) -> None:
    contexts = {
        "github": {"name": "alice", "event": {}},
        "needs": {"a-b": {"outputs": {"c": "hello", "list": '["x", 1]'}}},
    }
    assert expressions.evaluate(expression, contexts) == value
    assert expressions.fill({"k": [f"${{{{ {expression} }}}}"]}, contexts) == {"k": [value]}


def test_an_invalid_expression_raises_an_error(expressions: Expressions) -> None:
    for expression in ("gihub.name", "starts('a', 'b')", "github."):
        with pytest.raises(ExpressionError):
            expressions.evaluate(expression, {"github": {}})


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("", (True, False, False)),
        ("github.yes", (True, False, False)),
        ("!github.yes", (False, False, False)),
        ("${{ github.yes }}", (True, False, False)),
        ("always()", (True, True, True)),
        ("Always() && github.yes", (True, True, True)),
        ("failure()", (False, True, False)),
        ("cancelled()", (False, False, True)),
        ("!cancelled()", (True, True, False)),
        ("'always()' != ''", (True, False, False)),
    ],
)
def test_a_condition_without_a_status_function_requires_success(
    expressions: Expressions, condition: str, runs: tuple[bool, ...]
) -> None:
    contexts = {"github": {"yes": True}}
    assert tuple(expressions.holds(condition, contexts, status) for status in (GOOD, BAD, CANCELLED)) == runs


# Files.


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (one_job("      - run: true").replace("permissions: {}\n    steps", "steps"), "permissions are missing"),
        (one_job("      - run: true", more="env: {A: b}"), "does not know env"),
        (one_job("      - {run: 'true', continue-on-error: true}"), "does not know continue-on-error"),
        (one_job("      - {run: 'true', uses: a/b}"), "either runs or uses"),
        (one_job("      - run: true", on="pull_request"), "does not know pull_request"),
    ],
)
def test_an_unsupported_workflow_feature_is_an_error(text: str, said: str) -> None:
    with pytest.raises(WorkflowError, match=said):
        read_workflow("w.yml", text.encode())


def test_events_are_matched_by_type_and_branch() -> None:
    text = one_job(
        "      - run: true", on="pull_request_target: {types: [closed]}\n  push: {branches: [main]}\n  issue_comment"
    )
    workflow = read_workflow("w.yml", text.encode())
    assert workflow.hears("pull_request_target", {"action": "closed"})
    assert not workflow.hears("pull_request_target", {"action": "opened"})
    assert workflow.hears("push", {"ref": "refs/heads/main"}) and not workflow.hears("push", {"ref": "refs/heads/x"})
    assert workflow.hears("issue_comment", {"action": "deleted"}) and not workflow.hears("schedule", {})


def test_inputs_have_defaults_and_types() -> None:
    inputs = "{inputs: {who: {required: true}, dry: {type: boolean, default: true}, note: {}}}"
    workflow = read_workflow("w.yml", one_job("      - run: true", on=f"workflow_dispatch: {inputs}\n  push").encode())
    assert workflow.inputs({"who": "alice"}) == {"who": "alice", "dry": True, "note": ""}
    for wrong in ({}, {"who": "alice", "whom": "bob"}):
        with pytest.raises(WorkflowError):
            workflow.inputs(wrong)


def test_step_outputs_are_parsed_as_on_github() -> None:
    assert read_pairs("a=1\nb<<END\nx=y\n\nEND\nc=2=3\n") == {"a": "1", "b": "x=y\n", "c": "2=3"}
    with pytest.raises(StepFailed):
        read_pairs("nothing of this kind")


# Jobs and steps.

TWO_JOBS = """
name: W
on: {push: {branches: [main]}}
permissions: {}
jobs:
  first:
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {}
    outputs: {word: "${{ steps.say.outputs.word }}", missing: "${{ steps.say.outputs.none }}"}
    steps:
      - id: say
        run: |
          echo "word=hello" >> "$GITHUB_OUTPUT"
          echo "KEPT=for later" >> "$GITHUB_ENV"
          mkdir own && printf '#!/bin/sh\\necho from own path' > own/mine && chmod +x own/mine
          echo "$PWD/own" >> "$GITHUB_PATH"
      - run: echo "$KEPT, $(mine), $WORD, $GITHUB_EVENT_NAME on $GITHUB_REF_NAME" && false
        env: {WORD: "${{ steps.say.outputs.word }}!"}
      - run: echo never
      - if: failure()
        run: echo mourned
  second:
    needs: first
    if: always() && needs.first.result == 'failure'
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {}
    steps:
      - run: echo "got $WORD and ($NONE)"
        env: {WORD: "${{ needs.first.outputs.word }}", NONE: "${{ needs.first.outputs.missing }}"}
  third:
    needs: [first, second]
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {}
    steps:
      - run: echo never
"""


def test_jobs_run_as_their_needs_and_conditions_say(hub: Hub) -> None:
    hub.may_fail.add("first")
    play(hub, TWO_JOBS)
    first, second, third = hub.played
    assert (first.result, second.result, third.result) == ("failure", "success", "skipped")
    assert "for later, from own path, hello!, push on main" in first.log and "mourned" in first.log
    assert "never" not in first.log + third.log and "got hello and ()" in second.log
    (run,) = hub.world.runs.values()
    assert (run.status, run.conclusion) == ("completed", "failure")


@pytest.mark.parametrize(("shell", "result"), [("", "success"), ("shell: bash, ", "failure")])
def test_a_failing_pipe_fails_a_step_only_with_an_explicit_bash_shell(hub: Hub, shell: str, result: str) -> None:
    hub.may_fail.add("only")
    play(hub, one_job(f"      - {{{shell}run: 'false | true'}}", on="push: {branches: [main]}\n  merge_group"))
    assert [played.result for played in hub.played] == [result]


def test_an_expression_in_a_script_is_refused(hub: Hub) -> None:
    with pytest.raises(WorkflowError, match="an expression in a script"):
        play(hub, one_job("      - run: echo ${{ github.actor }}", on="push: {branches: [main]}\n  merge_group"))


def test_a_step_sees_only_githubs_environment_and_its_own(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "of the tests")
    monkeypatch.setenv("SECRET", "of the tests")
    play(hub, one_job("      - run: env", on="push: {branches: [main]}\n  merge_group"))
    assert "of the tests" not in hub.played[0].log and "ghs_" not in hub.played[0].log


ASK = """      - env: {TOKEN: "${{ github.token }}"}
        run: |
          python - <<'END'
          import os, urllib.error, urllib.request
          given = os.environ
          url = f"{given['GITHUB_API_URL']}/repos/{given['GITHUB_REPOSITORY']}/issues/1/comments"
          headers = {"Authorization": f"token {given['TOKEN']}", "Content-Type": "application/json"}
          try:
              answer = urllib.request.urlopen(urllib.request.Request(url, b'{"body": "Hello"}', headers))
          except urllib.error.HTTPError as error:
              answer = error
          print("answered", answer.status)
          END
"""


@pytest.mark.parametrize(("permissions", "code"), [("{}", 403), ("{issues: read}", 403), ("{issues: write}", 201)])
def test_a_token_may_do_what_the_permissions_say(hub: Hub, permissions: str, code: int) -> None:
    hub.world.open_pull(hub.world.add_user("alice"), {"a": "b"})
    play(hub, one_job(ASK, permissions=permissions, on="push: {branches: [main]}\n  merge_group"))
    assert f"answered {code}" in hub.played[0].log


# Groups.


def grouped(cancels: bool) -> str:
    more = f"concurrency: {{group: 'g-${{{{ github.ref_name }}}}', cancel-in-progress: {str(cancels).lower()}}}"
    steps = "      - run: slow\n      - if: always()\n        run: echo cleaned\n      - run: echo finished\n"
    whole = one_job(steps, on="push: {branches: [main]}\n  merge_group", more=more)
    return f"{whole}{LAST}"


LAST = """
  last:
    needs: only
    if: always() && needs.only.result == 'cancelled'
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    permissions: {}
    steps:
      - run: echo mourned
      - run: echo to the end
"""


@pytest.mark.parametrize(
    ("cancels", "results"),
    [(True, ["cancelled", "cancelled", "success"]), (False, ["success", "cancelled", "success"])],
)
def test_a_concurrency_group_has_one_running_and_one_waiting_run(hub: Hub, cancels: bool, results: list[str]) -> None:
    pushes: list[str] = []

    def slow(play: Play) -> None:
        while len(pushes) < 2:
            pushes.append(hub.world.commit({"file": str(len(pushes))}))
            hub.settle()

    hub.instead["slow"] = slow
    play(hub, grouped(cancels))
    by_run: dict[Any, Any] = {run.id: run.conclusion for run in hub.world.runs.values()}
    assert [by_run[run] for run in sorted(by_run)] == results
    first = hub.find("w.yml", "only")[0]
    assert "cleaned" in first.log and ("finished" in first.log) is not cancels
    # Only for a run that had begun; one that only waited ends without running anything.
    assert ["to the end" in played.log for played in hub.find("w.yml", "last")] == [cancels, False]
