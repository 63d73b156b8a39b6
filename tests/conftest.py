"""What all tests share: hypothesis without surprises on a slow machine, who runs alone, how exploits are stopped, a Discord."""

import fcntl

import pytest
from hypothesis import settings

from tests.discord_server import Discord

settings.register_profile("pullrank", deadline=None, derandomize=True)
settings.load_profile("pullrank")


@pytest.fixture
def discord():
    """A Discord on loopback."""
    made = Discord()
    yield made
    made.close()


def pytest_addoption(parser):
    parser.addoption(
        "--stop",
        choices=["best", "signals"],
        default="best",
        help="how the exploits' players are stopped: as well as this machine can, or by signals",
    )
    parser.addoption("--pulls", type=int, default=4, help="how many pull requests come at once in the workflows' test")


def pytest_collection_modifyitems(items):
    """Tests that run alone come last: by then the other processes have little left to do."""
    items.sort(key=_is_alone)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Whoever runs alone waits until the other processes' tests are over, and they wait for it."""
    with open(__file__, "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a child that a test has left would hold it on


def _is_alone(item):
    return item.get_closest_marker("alone") is not None
