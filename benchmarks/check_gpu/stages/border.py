"""Stage 1: does torch work behind each of the sandbox's walls, and does the time of a call cover its work?

    sums       one sum by torch: alone, in the outer sandbox, as a submission
    probes     of sealed memory (`benchmarks.border`): the GPU's clock, two contexts at once, forgeries, a call's cost

The probes need only Python and the driver.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.border import probe as sealed
from benchmarks.border.player import KINDS
from benchmarks.check_gpu.probe import CheckOptions, MissingError, Probe, ProbeAnswer
from benchmarks.check_gpu.stages.judging import A_SUM, probe_of
from benchmarks.check_gpu.stages.machine import driver_of, run_in_bubblewrap

_CALLS, _REHEARSED_CALLS = 100, 4
_SIZES = tuple(1 << bits for bits in (12, 16, 20, 24, 28, 32))
_REHEARSED_SIZES = _SIZES[:2]
_SUM = """
import sys, time
sys.path += {packages}
start = time.perf_counter()
import torch
imported = time.perf_counter()
found = torch.ones(1 << 20, device="{device}").sum().item()
print(f"import {{imported - start:.1f}} s, first sum {{time.perf_counter() - imported:.1f}} s")
sys.exit(found != 1 << 20)
"""


def probes(options: CheckOptions) -> Iterator[Probe]:
    yield Probe(name="a sum by torch", run=_sum_alone)
    yield Probe(name="a sum by torch in bubblewrap", run=_sum_in_bubblewrap)
    yield probe_of(A_SUM)
    calls = _REHEARSED_CALLS if options.rehearse else _CALLS
    if not options.rehearse:  # on a busy machine, the clock of a driver without a GPU is wrong
        yield _probe("the clock of kernels, against events over 10 ms", sealed.measure_clock)
    yield _probe("two contexts at once", sealed.measure_overlaps, trials=5 * calls)
    yield _probe("a player stopped while its kernel runs, and killed", sealed.measure_stops, calls=calls // 4)
    for kind in KINDS:
        if kind not in ("idle", "wrong size", "killed"):
            yield _probe(f"player: {kind}", sealed.measure_player, calls=calls, kind=kind)
    for size in _REHEARSED_SIZES if options.rehearse else _SIZES:
        yield _probe(f"a call that does nothing, {size >> 10:,} KiB", sealed.measure_nothing, calls=calls, size=size)


def _probe(name: str, measure: Callable[..., tuple[str, bool]], **arguments: object) -> Probe:
    return Probe(name=name, run=partial(_measure, measure=partial(measure, **arguments)))


def _measure(options: CheckOptions, *, measure: Callable[[str], tuple[str, bool]]) -> ProbeAnswer:
    words, is_good = measure(driver_of(options))
    return ProbeAnswer(words=words, is_good=is_good)


def _sum_alone(options: CheckOptions) -> ProbeAnswer:
    return _look(subprocess.run(_sum(options), capture_output=True, check=False, text=True))


def _sum_in_bubblewrap(options: CheckOptions) -> ProbeAnswer:
    if options.sandbox == "none":
        raise MissingError("needs a sandbox")
    return _look(run_in_bubblewrap(options, _sum(options)))


def _sum(options: CheckOptions) -> list[str]:
    packages = [path for path in sys.path if "-packages" in path]
    code = _SUM.format(packages=packages, device="cpu" if options.rehearse else "cuda")
    return [sys.executable, "-IB", "-c", code]


def _look(done: subprocess.CompletedProcess[str]) -> ProbeAnswer:
    sys.stdout.write(done.stderr)
    last = next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
    if last == "ModuleNotFoundError: No module named 'torch'":
        raise MissingError("needs the Python package torch, which is not installed")
    return ProbeAnswer(words=last if done.returncode else done.stdout.strip(), is_good=not done.returncode)
