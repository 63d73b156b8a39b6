"""What CUDA, ROCm and their libraries say when something fails, in words for whoever can act on it.  Pure.

    is_out_of_memory   a player's: MLE, and no run-time error
    explain            for a participant, whose kernel faulted
    explain_abort      the same, where ROCm ended the process instead of raising anything
    advise             for the host of a machine, whose GPU, driver and torch don't go together

A player's own words decide nothing but its own verdict: whether a GPU still works, the referee tries himself.
"""

from __future__ import annotations

import re

_OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|bad_alloc|not enough memory|can't allocate memory|cannot allocate memory"
    r"|out[ _]?of[ _]?memory|cudaErrorMemoryAllocation|(CUBLAS|CUDNN|CUFFT|CUSPARSE|CUSOLVER)_(STATUS_)?ALLOC_FAILED",
    re.IGNORECASE,
)
_IS_OF_A_DEVICE = re.compile(r"(?:CUDA|HIP)(?: driver)? error:")

_FAULTS = {
    "illegal memory access": "a kernel read or wrote where nothing of its own lies; look at its bounds",
    "misaligned address": "a kernel read or wrote at an address that is no multiple of the size it moves",
    "illegal instruction": "a kernel ran into what is no instruction of this GPU",
    "device-side assert": "an assertion in a kernel failed: most often an index that is out of bounds",
    "unspecified launch failure": "a kernel crashed, most often at an address that is not its own",
    "invalid configuration argument": "a grid or a block is empty, or larger than this GPU allows",
    "too many resources requested": "a block asks for more registers or shared memory than this GPU has",
    "no kernel image": "it was compiled for another GPU than this board's",
    "invalid device function": "it was compiled for another GPU than this board's",
}
"""CUDA's own strings (cudaGetErrorString), and ROCm's; in lower case."""

_REMEDIES = {
    "not compiled with cuda": "install a torch that is built for this machine's GPU",
    "driver on your system is too old": "install a newer driver, or a torch that is built for this one's CUDA",
    "driver version is insufficient": "install a newer driver, or a torch that is built for this one's CUDA",
    "unsupported display driver": "driver and libraries differ: reboot after an update; a container needs the host's",
    "forward compatibility": "take the cuda-compat libraries out of the loader's path, or install a newer driver",
    "system not yet initialized": "start nvidia-fabricmanager, of the driver's own version",
    "no cuda-capable device": "see that the driver is loaded, and that the container has the GPU's devices",
    "no cuda gpus are available": "see that the driver is loaded, and that the container has the GPU's devices",
    "no hip gpus are available": "see that amdgpu is loaded, and that the container has /dev/kfd and /dev/dri",
    "no nvidia driver": "install NVIDIA's driver; `nvidia-smi` must show the GPU",
    "no kernel image": "this torch has no code for this GPU: install one that is built for it",
    # All devices of older CUDAs, of newer ones "CUDA-capable device(s) is/are".
    "busy or unavailable": "see with `nvidia-smi` what else runs on it, and set its compute mode to Default as root "
    "(`nvidia-smi -c 0`): referee and player each need a context of their own",
    "out of memory": "see with `nvidia-smi` (or `amd-smi`) what else holds its memory",
    "ecc error": "its memory fails: reset it, and replace it if that comes back",
}
_REMEDY = "see the kernel's log (`dmesg`), and reset the GPU"


def is_out_of_memory(text: str) -> bool:
    """Whether that is what somebody failed of, on the machine or on its GPU."""
    return bool(_OUT_OF_MEMORY.search(text))


def explain(text: str) -> str:
    """A participant's error; of a device's, what it means instead of the vendor's advice for debugging."""
    if not _IS_OF_A_DEVICE.search(text):
        return text
    first = text.splitlines()[0].rstrip(".")
    meaning = _meaning(first, _FAULTS)
    late = "Kernels run on after their launch: the line is where it came out."
    return f"{first}: {meaning}. {late}" if meaning else f"{first}. {late}"


def explain_abort(log: str) -> str:
    """Of a process that has crashed: what ROCm printed of a page fault on the GPU, and what it means; "" if nothing."""
    if not (found := re.search(r"Memory access fault by GPU[^\n]*", log)):
        return ""
    return f"{found[0].rstrip('. ')[:300]}: {_FAULTS['illegal memory access']}."


def advise(error: BaseException | str) -> str:
    """A failure of ours on a GPU: what was said, and the way out."""
    said = next(iter(str(error).splitlines()), "").rstrip(".")[:300]
    return f"{said}; {_meaning(str(error), _REMEDIES) or _REMEDY}"


def _meaning(text: str, meanings: dict[str, str]) -> str:
    return next((meaning for sign, meaning in meanings.items() if sign in text.lower()), "")
