"""What all tests share: hypothesis without surprises on a slow machine."""

from hypothesis import settings

settings.register_profile("pullrank", deadline=None, derandomize=True)
settings.load_profile("pullrank")
