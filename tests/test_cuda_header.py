"""Our structures, constants and functions of the CUDA driver are those of NVIDIA's header, where there is one."""

import ctypes
import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.inside import cuda_driver
from tests import fake_driver

STRUCTURES = {
    "CUmemLocation": (cuda_driver._Location, ("type", "id")),
    "CUmemAccessDesc": (cuda_driver._Access, ("location", "flags")),
    "CUmemAllocationProp": (
        cuda_driver._Properties,
        ("type", "requestedHandleTypes", "location", "win32HandleMetaData", "allocFlags"),
    ),
}
"""NVIDIA's names of our structures and of their fields, in the same order."""
CONSTANTS = {
    "CU_MEM_ALLOCATION_TYPE_PINNED": cuda_driver._PINNED,
    "CU_MEM_LOCATION_TYPE_DEVICE": cuda_driver._DEVICE,
    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR": cuda_driver._DESCRIPTOR,
    "CU_MEM_ACCESS_FLAGS_PROT_READWRITE": cuda_driver._READ_WRITE,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_MODE": cuda_driver._COMPUTE_MODE,
    "CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE": cuda_driver._L2_BYTES,
    "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED": cuda_driver._VIRTUAL_MEMORY,
    "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED": cuda_driver._DESCRIPTORS,
    "CU_DEVICE_ATTRIBUTE_MPS_ENABLED": cuda_driver._MPS,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR": cuda_driver._MAJOR,
    "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR": cuda_driver._MINOR,
    "CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS": cuda_driver._WAITS_IN_STREAMS,
    "CU_COMPUTEMODE_DEFAULT": cuda_driver._ANY_NUMBER_OF_CONTEXTS,
    "CU_STREAM_NON_BLOCKING": cuda_driver._NON_BLOCKING,
    "CU_STREAM_WAIT_VALUE_EQ": cuda_driver._EQUAL,
    "CUDA_ERROR_NOT_READY": cuda_driver._NOT_READY,
}


def _find_header() -> Path | None:
    places = [Path("/usr/local/cuda/include/cuda.h")]
    if (triton := importlib.util.find_spec("triton")) and triton.origin:
        places.append(Path(triton.origin).parent / "backends/nvidia/include/cuda.h")
    return next(filter(Path.exists, places), None)


HEADER = _find_header()
pytestmark = pytest.mark.skipif(not HEADER, reason="needs cuda.h, for example triton's")


@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_structures_and_constants_are_those_of_the_header(tmp_path: Path) -> None:
    checks = [f"static_assert({name} == {value});" for name, value in CONSTANTS.items()]
    for name, (ours, fields) in STRUCTURES.items():
        checks.append(f"static_assert(sizeof({name}) == {ctypes.sizeof(ours)});")
        for (field, *_), theirs in zip(ours._fields_, fields, strict=True):
            checks.append(f"static_assert(offsetof({name}, {theirs}) == {getattr(ours, field).offset});")
    (tmp_path / "checks.cpp").write_text("\n".join([f'#include "{HEADER}"', "#include <cstddef>", *checks]))
    subprocess.run(["g++", "-fsyntax-only", tmp_path / "checks.cpp"], check=True)


def test_the_simulated_driver_has_functions_of_the_header_with_as_many_parameters() -> None:
    assert HEADER
    text = HEADER.read_text()
    theirs = {name: _count(rest) for name, rest in re.findall(r"CUresult CUDAAPI (\w+)\(([^)]*)\)", text)}
    versions = set(re.findall(r"#define cu\w+\s+(?:__CUDA_API_PT\w+\()?(cu\w+_v\d)\b", text))
    ours = dict(re.findall(r"^int (cu\w+)\(([^)]*)\)", fake_driver.SOURCE.read_text(), re.MULTILINE))
    assert len(ours) > 30
    for name, rest in ours.items():
        assert name in theirs or name in versions, name
        assert _count(rest) == theirs[re.sub(r"_v\d$", "", name)], name


def _count(parameters: str) -> int:
    return 0 if parameters.strip() in ("", "void") else parameters.count(",") + 1
