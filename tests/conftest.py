"""What all tests share: hypothesis without surprises on a slow machine, and how exploits are to be stopped."""

from hypothesis import settings

settings.register_profile("pullrank", deadline=None, derandomize=True)
settings.load_profile("pullrank")


def pytest_addoption(parser):
    parser.addoption(
        "--stop",
        choices=["best", "signals"],
        default="best",
        help="how the exploits' players are stopped: as well as this machine can, or by signals",
    )
