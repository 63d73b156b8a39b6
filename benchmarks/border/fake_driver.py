"""The driver without a GPU (`tests/fake_driver`), compiled for a rehearsal."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from benchmarks.check_gpu.probe import ROOT, MissingError

SOURCE = ROOT / "tests" / "fake_driver" / "driver.cpp"
_FLAGS = ("-std=c++17", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread")


def build_driver(folder: Path) -> str:
    """The library in a folder, compiled by the first call, with a GPU of its own for this process and its children."""
    if not shutil.which("g++"):
        raise MissingError("needs g++, to compile a driver that needs no GPU")
    library = folder / "libcuda.so.1"
    if not library.exists():
        made = folder / "libcuda.so.new"
        subprocess.run(["g++", *_FLAGS, str(SOURCE), "-o", str(made)], check=True)
        made.rename(library)
    gpu = folder / "gpu"
    gpu.touch()
    os.environ["FAKE_GPU"] = str(gpu)
    return str(library)
