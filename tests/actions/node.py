"""Node and GitHub's own packages for it, as `make setup` installs them."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def find_node() -> str | None:
    """The environment's own Node if it has one, else the machine's; None without the packages."""
    if not (HERE / "node_modules/@actions/workflow-parser").is_dir():
        return None
    return shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")


def require_node() -> str:
    node = find_node()
    assert node, "Node or its packages are missing: make setup"
    return node
