"""The cores that the tests of this process use.

A judge with two cores takes both, and keeps them busy while it waits.  So each of several test processes has one,
except for tests that run alone.
"""

import os

ALL = frozenset(os.sched_getaffinity(0))


def own():
    """The core of this pytest-xdist process; without pytest-xdist, all cores."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return {sorted(ALL)[int(worker.removeprefix("gw")) % len(ALL)]} if worker else ALL
