"""Python imports this file if it is in PYTHONPATH.  It moves this process's time forward by LATER_S seconds.

Only `datetime` changes: the scripts use no other clock for their decisions.
"""

import datetime
import os

_real = datetime.datetime


class _Kind(type):
    """Instances of the real class count as instances of the replacement, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real)


class Later(_real, metaclass=_Kind):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return _real.now(tz) + datetime.timedelta(seconds=float(os.environ.get("LATER_S", "0")))


datetime.datetime = Later  # type: ignore[misc]
