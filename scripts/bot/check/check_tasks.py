"""`/check`: run the tasks of a fork.  The first and last job of check.yml; between them, a machine without permissions.

    prepare   head unchanged? ─▶ plans ─▶ tasks.zip, with harness.pyz from `main` and the machine's setup script
    (check)   judges every example in the sandbox: harness/task_check/task_check.py
    report    the plans again, from the same head; the machine's answer, as hostile text ─▶ check run, comment

Only bytes pass from one job to the next: the machine's answer cannot change what it was asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.task.bundle import sha256
from scripts.bot.admission.task_tree import open_tasks
from scripts.bot.check.changed_tasks import make_plans, pack_tasks
from scripts.bot.check.findings import CHECK_NAME, MARKER, CheckResult, MachineAnswer, read_answer
from scripts.bot.context import BotContext
from scripts.bot.evaluate.pyz import write_judge
from scripts.bot.intake.intake import CHECK_WORKFLOW
from scripts.bot.report.artifact import ArtifactError, newest_artifact
from scripts.github.checks import Check, CheckState

ARTIFACT = "checked"
MAX_ZIP = 5 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """`note` is a log line, `is_wanted` whether to report, `digest` that of tasks.zip if there is something to run."""

    note: str
    is_wanted: bool = True
    digest: str = ""

    @property
    def outputs(self) -> dict[str, str]:
        """The step's outputs; none of them holds a participant's words."""
        wanted, runs = str(self.is_wanted).lower(), str(bool(self.digest)).lower()
        return {"wanted": wanted, "runs": runs, "digest": self.digest}


def prepare(number: int, head_sha: str, out: Path, context: BotContext) -> Prepared:
    """Write what the machine needs into the folder `out`, if the commit is still the pull request's head."""
    pull = context.github.get_pull(number)
    if not pull.is_open or pull.head_sha != head_sha:
        return Prepared(note=f"#{number}: closed, or has a newer commit; comment /check again", is_wanted=False)
    with context.open_fork() as fork, open_tasks(fork, head_sha) as tree:
        plans = make_plans(tree, fork.changes(head_sha))
        runs = sum(plan.is_run for plan in plans)
        tasks = pack_tasks(tree, plans) if runs else b""
    if runs:
        write_judge(out, context.root)
        (out / "tasks.zip").write_bytes(tasks)
    title = f"running {runs} of {len(plans)} tasks" if runs else "loading the tasks"
    context.github.upsert_check(Check(name=CHECK_NAME, head_sha=head_sha, state=CheckState.RUNNING, title=title))
    return Prepared(note=f"#{number}: {title}", digest=sha256(tasks) if runs else "")


def report(number: int, head_sha: str, result: str, run_id: int, context: BotContext) -> str:
    """Deliver the result of a check; returns a log line.

    Args:
        result: how the machine's job ended.
    """
    if result in ("cancelled", "skipped") and _is_run_anew(number, run_id, context):
        return f"#{number}: this run was cancelled for a newer one"
    with context.open_fork() as fork, open_tasks(fork, head_sha) as tree:
        plans = make_plans(tree, fork.changes(head_sha))
    answer = _fetch(result, run_id, context) if any(plan.is_run for plan in plans) else MachineAnswer()
    outcome = CheckResult(head_sha=head_sha, plans=plans, answer=answer, run_url=context.run_url(run_id))
    context.github.upsert_check(outcome.check())
    context.github.upsert_comment(number, MARKER, outcome.comment())
    return f"#{number}: {outcome.title}"


def _is_run_anew(number: int, run_id: int, context: BotContext) -> bool:
    # The `run-name` of check.yml.
    title = f"check #{number} at "
    return any(run.title.startswith(title) and run.id > run_id for run in context.github.runs(CHECK_WORKFLOW))


def _fetch(result: str, run_id: int, context: BotContext) -> MachineAnswer:
    try:
        return read_answer(newest_artifact(context.github, run_id, ARTIFACT, MAX_ZIP, result))
    except ArtifactError as error:
        return MachineAnswer(trouble=str(error))
