"""What the probes of a task's reference found, as `/check` reports it: Markdown, JSON, annotations.  Pure.

The text comes from the machine that ran the task's own code: it is hostile, so it is always in code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.task.examples import Flaw, ProbesResult
from scripts.common.text import inline, plain, shorten
from scripts.github.checks import Annotation

MAX_FLAWS = 20
"""Shown for each task; faults come first."""

_KINDS = {True: "**fault**", False: "warning"}
_MAX_WHERE, _MAX = 120, 240


def render_flaws(probed: ProbesResult | None) -> str:
    """What the probes of one task found, as a Markdown list with faults first; a sentence if it was not probed."""
    if not probed:
        return "Its reference was not probed."
    if not probed.found:
        return (
            "The probes passed: its reference rejects zeros, wrong elements and the like, and its cases fit the board."
        )
    lines = [
        f"- {_KINDS[flaw.is_fault]} {inline(flaw.where, _MAX_WHERE)}: {inline(flaw.message, _MAX)}"
        for flaw in _worst(probed)
    ]
    rest = [f"- and {len(probed.found) - MAX_FLAWS} more"] if len(probed.found) > MAX_FLAWS else []
    return "\n".join(["The probes of its reference found:", "", *lines, *rest])


def facts_of(probed: ProbesResult) -> dict[str, Any]:
    """The same for the JSON of a check run."""
    found = [
        {
            "where": shorten(plain(flaw.where), _MAX_WHERE),
            "message": shorten(plain(flaw.message), 300),
            "is_fault": flaw.is_fault,
        }
        for flaw in _worst(probed)
    ]
    return {"task": probed.task, "found": found}


def annotations_of(probes: Mapping[str, ProbesResult | None]) -> Iterator[Annotation]:
    """The faults as annotations on the task.yml of their tasks."""
    for name, probed in probes.items():
        for flaw in _worst(probed) if probed else ():
            if flaw.is_fault:
                message = shorten(plain(f"{flaw.where}: {flaw.message}"), 1000)
                yield Annotation(path=f"tasks/{name}/task.yml", line=1, message=message, title="Found by a probe")


def _worst(probed: ProbesResult) -> list[Flaw]:
    return sorted(probed.found, key=lambda flaw: not flaw.is_fault)[:MAX_FLAWS]
