"""The process of one probe: read its function and the options from stdin, and print its result as a line of JSON.

Everything else that is printed goes to stderr.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from benchmarks.check_gpu.probe import CheckOptions, MissingError, ProbeAnswer


def answer(run: Callable[[CheckOptions], ProbeAnswer], options: CheckOptions) -> dict[str, Any]:
    """Run a probe.  An exception is a result, too."""
    try:
        found = run(options)
    except MissingError as error:
        return {"status": "missing", "words": str(error)}
    except ModuleNotFoundError as error:
        traceback.print_exc()
        return {"status": "missing", "words": f"needs the Python package {error.name}, which is not installed"}
    except Exception as error:
        traceback.print_exc()
        kind = type(error).__name__
        is_for_people = type(error).__module__.startswith(("harness.", "benchmarks."))
        words = str(error) if is_for_people else f"{kind}: {error}"
        return {"status": "failed", "words": words, "data": {"error": kind}}
    return {"status": "ok" if found.is_good else "failed", "words": found.words, "data": found.data}


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)  # so that the probe's own processes end, too


def main() -> None:
    signal.signal(signal.SIGTERM, _end)
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # as the judge: by default, the fastest GPU comes first
    with os.fdopen(os.dup(1), "w") as result:
        os.dup2(2, 1)
        run, options = pickle.load(sys.stdin.buffer)  # noqa: S301
        result.write(json.dumps(answer(run, options)))


if __name__ == "__main__":
    main()
