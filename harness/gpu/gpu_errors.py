"""Translate errors of CUDA, ROCm and their libraries for the person who can act on them.  Pure functions.

    is_out_of_memory   whether a player's error is a memory error (MLE) instead of a run-time error
    explain            for a participant whose kernel faulted
    explain_abort      the same, if ROCm aborted the process instead of raising an error
    advise             for the host of a machine whose GPU, driver and torch do not work together

A player's error messages affect only its own verdict.  The referee itself tests whether a GPU still works.
"""

from __future__ import annotations

import re

_OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|bad_alloc|not enough memory|can't allocate memory|cannot allocate memory"
    r"|out[ _]?of[ _]?memory|cudaErrorMemoryAllocation|(CUBLAS|CUDNN|CUFFT|CUSPARSE|CUSOLVER)_(STATUS_)?ALLOC_FAILED",
    re.IGNORECASE,
)
_OF_A_DEVICE = re.compile(r"(?:\A.*|^[ \t]*(?:\w+: )?)(?:CUDA|HIP)(?: driver)? error:.*", re.MULTILINE)
"""The first line, or a later one that begins so: "backend='inductor' raised:" precedes the error itself."""

_FAULTS = {
    "illegal memory access": "a kernel read or wrote outside its memory; check its bounds",
    "misaligned address": "a kernel accessed an address that is not a multiple of the access size",
    "illegal instruction": "a kernel executed an instruction that this GPU does not have",
    "device-side assert": "an assertion in a kernel failed, usually because an index is out of bounds",
    "unspecified launch failure": "a kernel crashed, usually because it accessed memory that is not its own",
    "invalid configuration argument": "a grid or a block is empty, or larger than this GPU allows",
    "too many resources requested": "a block needs more registers or shared memory than this GPU has",
    "no kernel image": "the code was compiled for another GPU than this board's",
    "invalid device function": "the code was compiled for another GPU than this board's",
}
"""Keys are strings of CUDA (cudaGetErrorString) and ROCm, in lower case."""

_REMEDIES = {
    "not compiled with cuda": "install a torch built for this machine's GPU",
    "driver on your system is too old": "install a newer driver, or a torch built for this driver's CUDA version",
    "driver version is insufficient": "install a newer driver, or a torch built for this driver's CUDA version",
    "unsupported display driver": "driver and libraries differ: after an update, reboot; a container needs the host's",
    "forward compatibility": "remove the cuda-compat libraries from the loader's path, or install a newer driver",
    "system not yet initialized": "start nvidia-fabricmanager in the same version as the driver",
    "no cuda-capable device": "check that the driver is loaded and that the container has the GPU's devices",
    "no cuda gpus are available": "check that the driver is loaded and that the container has the GPU's devices",
    "no hip gpus are available": "check that amdgpu is loaded and that the container has /dev/kfd and /dev/dri",
    "error_operating_system": "a container keeps CUDA from /dev/nvidia-uvm, memfd_create, or from writing to /proc",
    "no nvidia driver": "install NVIDIA's driver; `nvidia-smi` must show the GPU",
    "no kernel image": "this torch has no code for this GPU: install one built for it",
    # Older CUDA versions say "all CUDA-capable devices are", newer ones "CUDA-capable device(s) is/are".
    "busy or unavailable": "check with `nvidia-smi` what else uses it, and set its compute mode to Default as root "
    "(`nvidia-smi -c 0`): referee and player each need a context",
    "out of memory": "check with `nvidia-smi` (or `amd-smi`) what else uses the GPU's memory",
    "ecc error": "the GPU's memory fails: reset the GPU, and replace it if the error returns",
}
_REMEDY = "check the kernel's log (`dmesg`), and reset the GPU"


def is_out_of_memory(text: str) -> bool:
    """Whether an error means that the machine or the GPU ran out of memory."""
    return bool(_OUT_OF_MEMORY.search(text))


def explain(text: str) -> str:
    """Explain a participant's error.  In a device error, replace the vendor's debugging advice by its meaning."""
    if not (found := _OF_A_DEVICE.search(text)):
        return text
    error = found[0].strip().rstrip(".")
    meaning = _meaning(error, _FAULTS)
    late = "Kernels run asynchronously, so the failing kernel may have been launched before this line."
    return f"{error}: {meaning}. {late}" if meaning else f"{error}. {late}"


def explain_abort(log: str) -> str:
    """Find ROCm's message about a GPU page fault in a crashed process's log, and add its meaning; "" if none."""
    if not (found := re.search(r"Memory access fault by GPU[^\n]*", log)):
        return ""
    return f"{found[0].rstrip('. ')[:300]}: {_FAULTS['illegal memory access']}."


def advise(error: BaseException | str) -> str:
    """Describe a failure of the judge on a GPU: the error's first line, and the way out."""
    said = next(iter(str(error).splitlines()), "").rstrip(".")[:300]
    return f"{said}; {_meaning(str(error), _REMEDIES) or _REMEDY}"


def _meaning(text: str, meanings: dict[str, str]) -> str:
    return next((meaning for sign, meaning in meanings.items() if sign in text.lower()), "")
