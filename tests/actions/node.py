"""Node and GitHub's own packages for it, as `make setup` leaves them here."""

from __future__ import annotations

import shutil
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def find_node() -> str | None:
    """Node: this environment's own, if it had to bring one, else the machine's; None without the packages."""
    if not (HERE / "node_modules/@actions/workflow-parser").is_dir():
        return None
    return shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")


def require_node() -> str:
    node = find_node()
    assert node, "Node or its packages are missing: make setup"
    return node
