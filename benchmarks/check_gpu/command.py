"""The command line of the GPU check."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.check_gpu.frame import CheckFrame
from benchmarks.check_gpu.probe import CheckOptions, Stage
from benchmarks.check_gpu.records import Records
from benchmarks.check_gpu.stages import border, judging, languages, machine, times
from benchmarks.check_gpu.wheels import unpack_wheels

_FAILED, _USAGE = 1, 2


def _compare_times(data: Sequence[dict[str, Any]]) -> str:
    from benchmarks.check_gpu.stages.times_report import summary  # needs packages

    return summary(data)


STAGES = (
    Stage(number=0, title="The machine", probes=machine.probes),
    Stage(number=1, title="the border", probes=border.probes),
    Stage(number=2, title="judging", probes=judging.probes),
    Stage(number=3, title="languages", probes=languages.probes),
    Stage(number=4, title="times", probes=times.probes, summary=_compare_times),
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m benchmarks.check_gpu",
        description="Try everything that needs a GPU, in four stages, and write tables for BENCHMARKS.md. Exits with 1 "
        "if a probe failed. site/pages/gpu-check.md explains it.",
        epilog="Example: python3 -m benchmarks.check_gpu --stage 1 --out results --wheels wheels",
    )
    titles = ", ".join(f"{stage.number} {stage.title}" for stage in STAGES[1:])
    parser.add_argument("--stage", type=int, choices=range(1, 5), help=f"only this stage: {titles}")
    parser.add_argument("--budget", type=float, default=600, metavar="SECONDS", help="for each stage; default: 600")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write to this folder; default: gpu-check")
    parser.add_argument("--resume", action="store_true", help="leave out probes that have a result in the folder")
    parser.add_argument("--only", default="", metavar="NAME", help="only probes whose name contains this")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="a folder of wheels to use, if packages are missing")
    parser.add_argument("--sandbox", choices=("auto", "none"), default="auto", help="none: judge without the sandbox")
    parser.add_argument("--repetitions", type=int, default=1, metavar="N", help="of stage 4; default: 1")
    parser.add_argument("--rehearse", action="store_true", help="use a CPU and a fake driver in the GPU's place")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    out = options.out or Path("gpu-check-rehearsed" if options.rehearse else "gpu-check")
    asked = (options.stage,) if options.stage else range(1, 5)
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it; leave that
        signal.signal(signal.SIGHUP, _end)
    with tempfile.TemporaryDirectory(prefix="check-gpu-") as scratch:
        Path(scratch).chmod(0o755)  # the sandbox's user executes bwrap there
        if options.wheels:
            for line in unpack_wheels(options.wheels, Path(scratch) / "wheels"):
                _show(line)
        told = CheckOptions(
            rehearse=options.rehearse, sandbox=options.sandbox, repetitions=options.repetitions, scratch=scratch
        )
        frame = CheckFrame(
            Records(out.resolve()), STAGES, told,
            asked=asked, budget_s=options.budget, only=options.only, resumes=options.resume, show=_show,
        )  # fmt: skip
        if not any(frame.plan.probes.values()):
            sys.stderr.write(f"no probe that can run here has '{options.only}' in its name\n")
            return _USAGE
        try:
            frame.run()
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        finally:
            frame.write()
            _show(f"\nThe tables: {out / 'tables.md'}")
    return _FAILED if frame.failed else 0


def _end(number: int, _: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
