"""The entry of `python3 -m benchmarks.check_gpu`.  Any Python 3 can read this file, to say which one is needed."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    sys.exit(
        f"The GPU check needs Python 3.11 or later, and {sys.executable} is Python {sys.version.split()[0]}. "
        "Name another one: `python3.12 -m benchmarks.check_gpu`, or `make check-gpu PY=python3.12`"
    )

from benchmarks.check_gpu.command import main

sys.exit(main())
