"""The four stages, and the machine's probes, with which every run begins."""

from __future__ import annotations

from benchmarks.check_gpu import border, judging, languages, machine, times
from benchmarks.check_gpu.probe import Stage

MACHINE = Stage(number=0, title="the machine", probes=machine.probes)
STAGES = {
    stage.number: stage
    for stage in (
        MACHINE,
        Stage(number=1, title="the border", probes=border.probes),
        Stage(number=2, title="judging", probes=judging.probes),
        Stage(number=3, title="languages", probes=languages.probes),
        Stage(number=4, title="times", probes=times.probes, summary=times.summary),
    )
}
