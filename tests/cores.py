"""Which cores the tests of this process use.

A judge that has two cores takes both, and keeps them busy while it waits.  So files that judge go to as many processes as
there are cores, and each of these has one.
"""

import os

ALL = frozenset(os.sched_getaffinity(0))


def own():
    """The core of this process of pytest-xdist; without it, all."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return {sorted(ALL)[_number(worker) % len(ALL)]} if worker else ALL


def is_for_judges(worker):
    """Whether files that judge go to this process of pytest-xdist."""
    return _number(worker) < len(ALL)


def _number(worker):
    return int(worker.removeprefix("gw"))
