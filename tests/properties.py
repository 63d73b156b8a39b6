"""Hypothesis as our tests use it: the same examples every time, and no deadline, since a machine may be busy."""

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

__all__ = ["HealthCheck", "example", "given", "settings", "st"]

settings.register_profile("pullrank", deadline=None, derandomize=True)
settings.load_profile("pullrank")
