"""A probe, its options, and its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class MissingError(Exception):
    """This machine lacks something that the probe needs; the message says what."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """The options of a run, the same for all of its probes.

    `rehearse`: use a CPU, and a driver of our own, in the GPU's place.  `sandbox` is `none` where bubblewrap fails.
    `repetitions` are those of stage 4; `scratch` is a folder that the run's probes share.
    """

    rehearse: bool = False
    sandbox: str = "auto"
    repetitions: int = 1
    scratch: str = ""


@dataclass(frozen=True, kw_only=True)
class ProbeAnswer:
    """The result of a probe in words, whether it is as it should be, and its numbers."""

    words: str
    is_good: bool = True
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """`run` is called in a process of its own, within `limit_s` seconds; it usually takes `usual_s`.

    `judges`: it starts the sandbox.
    """

    name: str
    run: Callable[[CheckOptions], ProbeAnswer]
    usual_s: float = 5.0
    limit_s: float = 120.0
    needs_gpu: bool = False
    judges: bool = False


@dataclass(frozen=True, kw_only=True)
class Stage:
    """`number` is 0 for the machine, with which every run begins.  `summary` makes Markdown from all results' data."""

    number: int
    title: str
    probes: Callable[[CheckOptions], Iterable[Probe]]
    summary: Callable[[list[dict[str, Any]]], str] | None = None

    @property
    def heading(self) -> str:
        return f"Stage {self.number}: {self.title}" if self.number else self.title


def asks_for_gpu(source: str) -> bool:
    """Whether a submission's directives name GPU boards."""
    return bool(re.search(r"^#!POPCORN gpus ", source, re.MULTILINE))
