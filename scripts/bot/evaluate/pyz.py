"""Build harness.pyz: the judge as one file that Python runs, made from the repository's `harness/`.

    __main__.py           two lines
    harness/**/*.py       as they are in the repository

Every bundle carries it, so the judge always runs the code of `main`.  The same sources make the same bytes.
pydantic, PyYAML and torch come from the judge's machine, because they are compiled for it; machines without them
(GitHub's own) install them from `judge_lock`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from harness.records.errors import PullRankError
from harness.task.bundle import HARNESS
from scripts.bot.evaluate.packing import zip_of
from scripts.competition.repository import ROOT

HOSTED_SETUP = Path(".github/runner/hosted.sh")
"""Turns one of GitHub's own machines into a judge; it installs from judge.lock."""
LIBRARIES = (
    "annotated-types", "numpy", "pydantic", "pydantic-core", "pyyaml", "typing-extensions", "typing-inspection",
)  # fmt: skip
"""What harness.pyz imports besides torch, with dependencies."""

_MAIN = b"from harness.__main__ import main\n\nmain()\n"


def build_pyz(root: Path = ROOT) -> bytes:
    """The bytes of harness.pyz, from the folder `harness/` below `root`."""
    package = root / "harness"
    sources = sorted(path for path in package.rglob("*.py") if path.is_file())
    if package / "__main__.py" not in sources:
        raise PullRankError(f"{package}: no harness to pack: __main__.py is missing")
    return zip_of({"__main__.py": _MAIN, **{path.relative_to(root).as_posix(): path.read_bytes() for path in sources}})


def judge_lock(root: Path = ROOT) -> str:
    """The part of requirements.lock that a judge needs: versions and hashes, without torch."""
    lock = (root / "requirements.lock").read_text("utf-8")
    blocks = re.findall(r"^((\S+?)==.*\n(?: +--hash.*\n)*)", lock, re.MULTILINE)
    if missing := set(LIBRARIES) - {name for _, name in blocks}:
        raise PullRankError(f"requirements.lock lacks {', '.join(sorted(missing))}; run `make lock`")
    return "".join(block for block, name in blocks if name in LIBRARIES)


def write_judge(out: Path, root: Path) -> bytes:
    """Write what runs a bundle into the folder `out`: harness.pyz, whose bytes it returns, and a machine's setup."""
    harness = build_pyz(root)
    out.mkdir(parents=True, exist_ok=True)
    (out / HARNESS).write_bytes(harness)
    (out / "judge.lock").write_text(judge_lock(root), "utf-8")
    shutil.copyfile(root / HOSTED_SETUP, out / HOSTED_SETUP.name)
    return harness
