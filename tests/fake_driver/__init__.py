"""A CUDA driver without a GPU, in C++: the functions that PullRank calls, on host memory."""

import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "driver.cpp"


def build(folder: Path) -> str:
    """Compile it with g++; return the library's path.  Each copy of the library is a separate GPU."""
    made = folder / "libcuda.so.1"
    options = ["-std=c++20", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-pthread"]
    subprocess.run(["g++", *options, str(SOURCE), "-o", str(made)], check=True)
    return str(made)
