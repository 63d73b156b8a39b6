"""What all tests share: hypothesis without surprises on a slow machine, who runs alone, how exploits are stopped."""

import pytest
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests that run alone come last, and all in one process: by then the others have nothing left to do."""
    alone = [item for item in items if item.get_closest_marker("alone")]
    for item in alone:
        item.add_marker(pytest.mark.xdist_group("alone"))
    items[:] = [item for item in items if item not in set(alone)] + alone
