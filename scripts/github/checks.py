"""Checks: a judging's state in the list below a pull request, with annotations on lines of its files.

A check run belongs to a commit and has a name: "PullRank / H100".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from pydantic import AliasPath, Field

from scripts.common.text import shorten_markdown
from scripts.github.pulls import FromGitHub, OrEmpty, find, require

MAX_ANNOTATIONS = 50
"""GitHub's limit per request."""
MAX_TEXT = 65_535
"""Bytes in each text of a check run: GitHub refuses a longer summary, and cuts a longer text without a word."""


class CheckState(StrEnum):
    """A check's status, or its conclusion once it is done."""

    QUEUED = "queued"
    RUNNING = "in_progress"
    SUCCESS = "success"
    FAILURE = "failure"
    NEUTRAL = "neutral"
    CANCELLED = "cancelled"

    @property
    def is_done(self) -> bool:
        return self not in (CheckState.QUEUED, CheckState.RUNNING)


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """A message shown at lines of a file."""

    path: str
    line: int
    message: str
    title: str = ""

    def body(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "start_line": self.line,
            "end_line": self.line,
            "annotation_level": "failure",
            "message": self.message,
            "title": self.title,
        }


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check run to be created or updated.

    Attributes:
        external_id: our own: a request's id.
        run_url: the page of the run that has the whole report.  It is not the check run's `details_url`, which GitHub
            overwrites for a workflow's token: a summary needs its own link to the run.
    """

    name: str
    head_sha: str
    state: CheckState
    title: str
    summary: str = ""
    text: str = ""
    annotations: tuple[Annotation, ...] = ()
    external_id: str = ""
    run_url: str = ""

    def body(self) -> dict[str, Any]:
        """The check run as GitHub's JSON, without the commit."""
        body: dict[str, Any] = {"name": self.name, "output": self._output()}
        body |= {"external_id": self.external_id} if self.external_id else {}
        if self.state.is_done:
            return body | {"status": "completed", "conclusion": self.state.value}
        return body | {"status": self.state.value}

    def _output(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "summary": shorten_markdown(self.summary, MAX_TEXT, self._rest, in_bytes=True),
            "text": shorten_markdown(self.text, MAX_TEXT, self._rest, in_bytes=True),
            "annotations": [annotation.body() for annotation in self.annotations[:MAX_ANNOTATIONS]],
        }

    @property
    def _rest(self) -> str:
        page = f"[the run's page]({self.run_url})" if self.run_url else "the run's page"
        return f"GitHub shows no more here. The whole report is on {page}."


class CheckRun(FromGitHub):
    """A check run on GitHub."""

    id: int
    name: str
    state: CheckState
    external_id: OrEmpty = ""
    app_slug: OrEmpty = Field(default="", validation_alias=AliasPath("app", "slug"))
    """The App that created it, and that alone may update it."""
    title: OrEmpty = Field(default="", validation_alias=AliasPath("output", "title"))
    summary: OrEmpty = Field(default="", validation_alias=AliasPath("output", "summary"))
    text: OrEmpty = Field(default="", validation_alias=AliasPath("output", "text"))

    @classmethod
    def of(cls, payload: Any) -> Self:
        state = find(payload, str, "conclusion") or require(payload, str, "status")
        # GitHub has more states, such as `stale`, which we never set.
        known = CheckState(state) if state in set(CheckState) else CheckState.NEUTRAL
        return super().of(payload | {"state": known})
