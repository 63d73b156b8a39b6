"""Python imports this by itself, if it lies in PYTHONPATH: let it be LATER_S seconds later for this process.

Only `datetime` is late, and the scripts read no other clock for what they decide.
"""

import datetime
import os

_real = datetime.datetime


class _Kind(type):
    """What was made of the real class is one of the late one, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _real)


class Later(_real, metaclass=_Kind):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return _real.now(tz) + datetime.timedelta(seconds=float(os.environ.get("LATER_S", "0")))


datetime.datetime = Later  # type: ignore[misc]
