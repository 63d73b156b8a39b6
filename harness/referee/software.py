"""Versions of what submissions can use on this machine: packages, compilers, headers.  Needs only the standard library.

Nothing is imported to find its version, because some packages take seconds.
"""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

_PACKAGES = {
    "CuPy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
    "CUTLASS DSL": ("nvidia-cutlass-dsl",),
    "Helion": ("helion",),
    "JAX": ("jax",),
    "Numba": ("numba",),
    "numba-cuda": ("numba-cuda",),
    "NumPy": ("numpy",),
    "TileLang": ("tilelang",),
    "Triton": ("triton", "pytorch-triton", "pytorch-triton-rocm"),
}
"""Names to display, and the names of packages that install them."""
_COMPILERS = {"g++": "-dumpfullversion", "hipcc": "--version", "ninja": "--version", "nvcc": "--version"}
"""Each with the option that prints its version."""
LOOKED_FOR = ("CUDA", "ROCm", *_PACKAGES, *_COMPILERS)
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/cuda/bin:/opt/cuda/bin:/opt/rocm/bin"
_ANSWER_S = 20


def read_software(include_dirs: Mapping[str, str] | None = None) -> dict[str, str]:
    """The version of each package, compiler and library that is installed.

    Args:
        include_dirs: folders of headers, by the name of their library.
    """
    versions = _installed() | {name: _version_of_headers(Path(path)) for name, path in (include_dirs or {}).items()}
    return {name: version for name, version in versions.items() if version}


@functools.cache
def _installed() -> dict[str, str]:
    versions = dict(_versions_of_torch())
    for name, projects in _PACKAGES.items():
        versions[name] = next(filter(None, map(version_of, projects)), "")
    for name, option in _COMPILERS.items():
        versions[name] = _version_of_compiler(name, option)
    return versions


def version_of(project: str) -> str:
    """The version of an installed package; "" if it is not installed."""
    try:
        return importlib.metadata.version(project)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _versions_of_torch() -> Iterator[tuple[str, str]]:
    """The CUDA or ROCm that torch was built for."""
    spec = importlib.util.find_spec("torch")
    if spec and spec.origin:
        text = Path(spec.origin).with_name("version.py").read_text("utf-8")
        for name, variable in (("CUDA", "cuda"), ("ROCm", "hip")):
            found = re.search(rf"^{variable}\b.*= '([\w.+-]+)'$", text, re.MULTILINE)
            yield name, found[1] if found else ""


def _version_of_compiler(name: str, option: str) -> str:
    """The last number with a point that it prints; "" if it is not installed or does not answer."""
    if not (path := shutil.which(name, path=_PATH)):
        return ""
    try:
        done = subprocess.run([path, option], capture_output=True, timeout=_ANSWER_S, check=True, text=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(reversed(re.findall(r"\d+\.[\d.]*\d", done.stdout)), "")


def _version_of_headers(folder: Path) -> str:
    """The version in `<library>/version.h`, as CUTLASS has it; "installed" if there is none."""
    for file in folder.glob("*/version.h"):
        numbers = re.findall(
            r"^#define \w+_(?:MAJOR|MINOR|PATCH)\s+(\d+)\s*$", file.read_text("utf-8", "replace"), re.M
        )
        if len(numbers) == 3:
            return ".".join(numbers)
    return "installed" if folder.is_dir() else ""
