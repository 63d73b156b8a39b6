"""Plan what `/check` must find out about the tasks that a pull request touches, as of its head.

    head's tasks/, read ─▶ a TaskPlan each   removed; faulty, as `load_task` says; without a board that a hosted machine
                                             can judge; or to run, with each example's verdict by its folder
    those to run        ─▶ tasks.zip         their names and their files: data, never a checkout

A change touches a task if it is in the task's folder or in another file of tasks/ that the task names.  A task that
does not load always counts, because any change may have broken it.  Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from harness.records.errors import TaskError
from harness.records.verdict import Verdict
from harness.task.examples import GPU, CheckOrder
from scripts.bot.admission.task_tree import TaskTree
from scripts.bot.evaluate.packing import task_files, zip_of
from scripts.github.pulls import ChangedFile

MAX_EXAMPLES = 200
"""Per check; each takes seconds."""


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """One touched task.  `faults` says why it does not load, `note` why it loads but is not run.

    `examples` are paths below its `examples/`, each with the verdict that it must get.  All text is from the pull
    request.
    """

    name: str
    faults: str = ""
    note: str = ""
    examples: tuple[tuple[str, Verdict], ...] = ()

    @property
    def is_run(self) -> bool:
        return bool(self.examples) and not self.faults and not self.note


def make_plans(tree: TaskTree, files: Sequence[ChangedFile]) -> tuple[TaskPlan, ...]:
    """A plan for each task that the changed files touch, sorted by name."""
    changed = {path for file in files for path in (file.path, file.previous_path) if path and path.startswith("tasks/")}
    if tree.faults:
        return (TaskPlan(name="tasks", faults="\n".join(tree.faults)),)
    gone = {parts[1] for parts in (path.split("/") for path in changed) if len(parts) > 2} - set(tree.names)
    note = "is removed: its rows stay in the ledger, but its boards leave the site"
    found = [TaskPlan(name=name, note=note) for name in gone if f"tasks/{name}/task.yml" in changed]
    found += [plan for name in tree.names if (plan := _plan_of(name, tree, changed))]
    return _within_reason(sorted(found, key=lambda plan: plan.name))


def pack_tasks(tree: TaskTree, plans: Sequence[TaskPlan]) -> bytes:
    """tasks.zip: the files of the tasks to run, and their names."""
    names = tuple(plan.name for plan in plans if plan.is_run)
    members = {f"tasks/{path}": content for name in names for path, content in task_files(tree.load(name)).items()}
    return zip_of({"check.json": CheckOrder(tasks=names).model_dump_json().encode(), **dict(sorted(members.items()))})


def _plan_of(name: str, tree: TaskTree, changed: Collection[str]) -> TaskPlan | None:
    """None for a task that the changed files don't touch."""
    try:
        task = tree.load(name)
    except TaskError as error:
        return TaskPlan(name=name, faults=str(error))
    is_inside = any(path.startswith(f"tasks/{name}/") for path in changed)
    if not is_inside and not any(f"tasks/{path}" in changed for path in task_files(task)):
        return None
    note = f"has no board {GPU}, so GitHub's machines cannot run it; use `pullrank task check` on one of yours"
    root = task.folder / "examples"
    examples = tuple((one.path.relative_to(root).as_posix(), one.verdict) for one in task.examples)
    return TaskPlan(name=name, note="" if GPU in task.gpus else note, examples=examples)


def _within_reason(plans: Sequence[TaskPlan]) -> tuple[TaskPlan, ...]:
    wanted = sum(len(plan.examples) for plan in plans if plan.is_run)
    if wanted <= MAX_EXAMPLES:
        return tuple(plans)
    note = f"is not run: the touched tasks have {wanted} examples, but `/check` runs at most {MAX_EXAMPLES}"
    return tuple(replace(plan, note=note) if plan.is_run else plan for plan in plans)
