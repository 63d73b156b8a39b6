"""The findings of `/check`: each example's verdict and the expected one, and the faults that the probes of each
reference found, as a comment and a check run.  Pure.

    plans (ours, from git)     ┐
    answer (the machine's,     ├─▶ findings ─▶ comment   a table for each task
            hostile text)      ┘               check     success, failure, or neutral if something was not judged

The plans say what to expect; of the answer, only what they ask for counts, once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.records.errors import PullRankError
from harness.records.verdict import Verdict
from harness.task.examples import MAX_BYTES, ExampleResult, Flaw, ProbesResult, Result, read_results
from scripts.bot.check.changed_tasks import TaskPlan
from scripts.bot.evaluate.workflow_runs import check_name
from scripts.bot.report.artifact import MAX_ERROR, only_member, read_error
from scripts.common.text import fence, inline, plain, shorten
from scripts.github.checks import Annotation, Check, CheckState

MARKER = "<!-- pullrank tasks -->"
"""The comment begins with it, so that the bot finds it again."""
CHECK_NAME = check_name("tasks")
MAX_CHARS = 60_000
"""Of a comment; GitHub allows a few more."""
MAX_ROWS = 60
"""Rows of a task's table; those that need attention come first."""
MAX_FLAWS = 20
"""Shown for each task; faults come first."""

_MAX_WHERE, _MAX_CELL = 120, 240

_HEAD = ("| Example | Expected | Got | Message |", "| :-- | :-- | :-- | :-- |")
_WARNING = (
    "A task's code could fake these results: read it before you merge it. "
    "[The run]({url}) had no permissions, and the task no network."
)
_LEFT_OUT = "\nSome results do not fit here; the check run has more.\n"


@dataclass(frozen=True, kw_only=True)
class MachineAnswer:
    """A machine's results; `trouble` says why some or all are missing."""

    results: tuple[Result, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class JudgedExample:
    """An example, the verdict of its folder, and its result; None if the check ended before it."""

    task: str
    example: str
    expected: Verdict
    result: ExampleResult | None = None

    @property
    def got(self) -> Verdict | None:
        return self.result.got if self.result else None

    @property
    def message(self) -> str:
        return self.result.message if self.result else ""

    @property
    def is_skipped(self) -> bool:
        """Whether it was skipped for the reason in `message`."""
        return self.result is not None and self.result.got is None

    @property
    def is_good(self) -> bool:
        return self.got is self.expected

    @property
    def is_open(self) -> bool:
        """Whether there is no verdict: it was not judged, or the judge failed."""
        return self.got in (None, Verdict.JUDGING_ERROR)


def read_answer(artifact: bytes) -> MachineAnswer:
    """The content of a machine's artifact; if it is malformed, the answer says why."""
    try:
        name, content = only_member(artifact, {"checked.jsonl": MAX_BYTES, "error.json": MAX_ERROR})
        if name == "error.json":
            return MachineAnswer(trouble=read_error(content))
        return MachineAnswer(results=read_results(content))
    except PullRankError as error:
        return MachineAnswer(trouble=str(error))


def find(plan: TaskPlan, answer: MachineAnswer) -> tuple[JudgedExample, ...]:
    """The result of each example of a task that was to be run."""
    if not plan.is_run:
        return ()
    said: dict[str, ExampleResult] = {}
    for result in answer.results:
        if isinstance(result, ExampleResult) and result.task == plan.name:
            said.setdefault(result.example, result)
    return tuple(
        JudgedExample(task=plan.name, example=example, expected=expected, result=said.get(example))
        for example, expected in plan.examples
    )


def find_probes(plan: TaskPlan, answer: MachineAnswer) -> ProbesResult | None:
    """What the probes of a task's reference found; None if they did not run."""
    said = (one for one in answer.results if isinstance(one, ProbesResult) and one.task == plan.name)
    return next(said, None) if plan.is_run else None


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """A whole check: its commit, the plans, the answer, and the address of its run."""

    head_sha: str
    plans: tuple[TaskPlan, ...]
    answer: MachineAnswer
    run_url: str

    @property
    def findings(self) -> tuple[JudgedExample, ...]:
        return tuple(finding for plan in self.plans for finding in find(plan, self.answer))

    @property
    def probes(self) -> dict[str, ProbesResult | None]:
        """By the name of each task that was to be run."""
        return {plan.name: find_probes(plan, self.answer) for plan in self.plans if plan.is_run}

    @property
    def flaws(self) -> int:
        """How many faults the probes found."""
        return sum(flaw.is_fault for probed in self.probes.values() if probed for flaw in probed.found)

    @property
    def state(self) -> CheckState:
        if self.flaws or any(plan.faults for plan in self.plans):
            return CheckState.FAILURE
        if any(not one.is_good and not one.is_open for one in self.findings):
            return CheckState.FAILURE
        is_known = bool(self.findings) and all(one.is_good for one in self.findings) and all(self.probes.values())
        # A removed task has no examples.
        is_whole = not any(plan.note and plan.examples for plan in self.plans)
        return CheckState.SUCCESS if is_known and is_whole else CheckState.NEUTRAL

    @property
    def title(self) -> str:
        ill = sum(bool(plan.faults) for plan in self.plans)
        good = sum(one.is_good for one in self.findings)
        skipped = sum(one.is_skipped for one in self.findings)
        asked = len(self.findings) - skipped
        parts = [f"{ill} did not load"] if ill else []
        parts += [f"{good} of {asked} examples got the verdict of their folder"] if self.findings else []
        parts += [f"{skipped} skipped"] if skipped else []
        parts += [f"the probes found {self.flaws} fault{'s' * (self.flaws != 1)}"] if self.flaws else []
        return "; ".join(parts) or "nothing was run"

    def comment(self) -> str:
        return f"{MARKER}\n### `/check` of `{self.head_sha[:7]}`\n\n{self.report()}"

    def report(self) -> str:
        """The whole report as Markdown, with all foreign text in code.

        The warning is at the top, because the bot or GitHub cuts a long report at its end.
        """
        title = f"{self.title[0].upper()}{self.title[1:]}."
        head = f"{title}\n\n{_WARNING.format(url=self.run_url)}\n\n{self._trouble()}"
        shown: list[str] = []
        for section in map(self._section, self.plans):
            if len(section) + sum(map(len, shown)) <= MAX_CHARS:
                shown.append(section)
        left_out = _LEFT_OUT if len(shown) < len(self.plans) else ""
        # No foreign text may open an HTML comment and hide ours.
        return "\n".join([head, *shown]).replace("<!--", "<\\!--") + left_out

    def _trouble(self) -> str:
        if self.answer.trouble:
            return f"**Incomplete:** {inline(self.answer.trouble)}\n\n"
        if any(one.got is None and not one.is_skipped for one in self.findings) or not all(self.probes.values()):
            return "**Incomplete:** the time ran out, or the task's code ended the judge.\n\n"
        return ""

    def _section(self, plan: TaskPlan) -> str:
        heading = f"#### {inline(plan.name, 80)}\n\n"
        if plan.faults:
            return f"{heading}It does not load:\n\n{fence(plan.faults, 6000)}\n"
        if plan.note:
            return f"{heading}It {plan.note}.\n"
        rows = sorted(find(plan, self.answer), key=lambda one: (one.is_good, one.is_open))
        table = "\n".join([*_HEAD, *_rows(rows)])
        return f"{heading}{table}\n\n{_flaws_as_list(find_probes(plan, self.answer))}\n"

    def check(self) -> Check:
        return Check(
            name=CHECK_NAME,
            head_sha=self.head_sha,
            state=self.state,
            title=shorten(self.title, 200),
            summary=self.report(),
            text=_as_json(self.findings, self.probes.values()),
            annotations=tuple(_annotations(self.findings, self.probes)),
            run_url=self.run_url,
        )


def _rows(findings: Sequence[JudgedExample]) -> Iterable[str]:
    for one in findings[:MAX_ROWS]:
        got = one.got.value if one.got else "skipped" if one.is_skipped else "not judged"
        mark = got if one.is_good else f"**{got}**"
        message = "" if one.is_good else inline(one.message, _MAX_CELL)
        yield f"| {inline(one.example, 150)} | {one.expected} | {mark} | {message} |"
    if rest := findings[MAX_ROWS:]:
        yield f"| {len(rest)} more, of which {sum(one.is_good for one in rest)} as expected | | | |"


def _worst(probed: ProbesResult) -> list[Flaw]:
    return sorted(probed.found, key=lambda flaw: not flaw.is_fault)[:MAX_FLAWS]


def _flaws_as_list(probed: ProbesResult | None) -> str:
    if not probed:
        return "Its reference was not probed."
    if not probed.found:
        return (
            "The probes passed: its reference rejects zeros, wrong elements and the like, and its cases fit the board."
        )
    kinds = {True: "**fault**", False: "warning"}
    lines = [
        f"- {kinds[flaw.is_fault]} {inline(flaw.where, _MAX_WHERE)}: {inline(flaw.message, _MAX_CELL)}"
        for flaw in _worst(probed)
    ]
    rest = [f"- and {len(probed.found) - MAX_FLAWS} more"] if len(probed.found) > MAX_FLAWS else []
    return "\n".join(["The probes of its reference found:", "", *lines, *rest])


def _as_json(findings: Iterable[JudgedExample], probes: Iterable[ProbesResult | None]) -> str:
    def short(text: str, limit: int = 300) -> str:
        return shorten(plain(text), limit)

    examples = [
        {"task": one.task, "example": one.example, "expected": one.expected, "got": one.got,
         "message": short(one.message)}
        for one in findings
    ]  # fmt: skip
    known = [
        {
            "task": probed.task,
            "found": [
                {"where": short(flaw.where, _MAX_WHERE), "message": short(flaw.message), "is_fault": flaw.is_fault}
                for flaw in _worst(probed)
            ],
        }
        for probed in probes
        if probed
    ]
    # JSON can escape a backtick, and then nothing in it can end the code block.
    return fence(json.dumps({"examples": examples, "probes": known}, indent=1).replace("`", "\\u0060"), 60_000)


def _annotations(findings: Iterable[JudgedExample], probes: Mapping[str, ProbesResult | None]) -> Iterator[Annotation]:
    """On wrong examples, and the faults of a reference on its task.yml."""
    for one in findings:
        if one.got and not one.is_good and not one.is_open:
            title = f"{one.got} instead of the expected {one.expected}"
            message = shorten(plain(one.message), 1000) or title
            yield Annotation(path=f"tasks/{one.task}/examples/{one.example}", line=1, message=message, title=title)
    for name, probed in probes.items():
        for flaw in (flaw for flaw in (_worst(probed) if probed else ()) if flaw.is_fault):
            message = shorten(plain(f"{flaw.where}: {flaw.message}"), 1000)
            yield Annotation(path=f"tasks/{name}/task.yml", line=1, message=message, title="Found by a probe")
