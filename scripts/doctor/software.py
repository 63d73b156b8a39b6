"""This machine's software beside a judge's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Version:
    """A program, package or library of headers, and its version on the judge and here; "" where it is not installed.

    `here` is None for headers, whose folder on this machine is unknown.
    """

    name: str
    judge: str
    here: str | None

    @property
    def state(self) -> str:
        return "unknown" if self.here is None else "same" if self.judge == self.here else "differs"


def software_here() -> dict[str, str]:
    """The versions of this machine's software, by name."""
    from harness.gpu.gpu_facts import read_gpu
    from harness.gpu.gpu_nodes import assigned, find_gpus
    from harness.referee.machine import read_machine

    facts = [found for gpu in assigned(find_gpus(), os.environ)[:1] if (found := read_gpu(gpu))]
    return read_machine(facts).versions


def compare(judge: Mapping[str, str], here: Mapping[str, str]) -> list[Version]:
    """The software of a judge and of this machine, without the operating system's version."""
    from harness.referee.software import LOOKED_FOR

    comparable = ("Python", "torch", "driver", *LOOKED_FOR)
    names = [name for name in comparable if name in judge or name in here]
    headers = [name for name in judge if name not in ("OS", *comparable)]
    return [
        *(Version(name, judge.get(name, ""), here.get(name, "")) for name in names),
        *(Version(name, judge[name], None) for name in headers),
    ]
