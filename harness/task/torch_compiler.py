"""torch's compiler, which the warm parent imports for files that use it.  Otherwise each player's first call would."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

MODULES = ("harness.inside.warm_torch_compiler",)
"""What the warm parent imports for it."""
CXX = "cached-g++"
"""The name of the script that it calls in place of g++.  torch takes a compiler for GCC if its path has such a name."""
CXX_SCRIPT = """\
#!/bin/sh
# Every kernel of torch's compiler includes one large header, whose parsing takes most of the compilation.  The first
# kernel precompiles that header into torch's cache.  g++ ignores it if a later call's options differ.

header=torch/csrc/inductor/cpp_prefix.h
folder=$TORCHINDUCTOR_CACHE_DIR/headers

precompile() ( # precompile ARGUMENT…: those of the first kernel
    mkdir "$folder" || exit
    for argument; do
        shift
        case $previous$argument in *.cpp | -o* | -shared | -l*) ;; *) set -- "$@" "$argument" ;; esac
        previous=
        [ "$argument" != -o ] || previous=-o
    done
    echo "#include <$header>" >"$folder/header.h"
    g++ "$@" "$folder/header.h" -o "$folder/header.gch" &&
        mkdir -p "$folder/${header%/*}" &&
        mv "$folder/header.gch" "$folder/$header.gch"
    rm -f "$folder/header.gch"
) >/dev/null 2>&1

for argument; do
    case $argument in
        *.cpp)
            if grep -q "$header" "$argument"; then
                [ -e "$folder" ] || precompile "$@"
                set -- "-I$folder" "$@"
            fi
            ;;
    esac
done
exec g++ "$@"
"""
_USE = re.compile(rb"\btorch\s*\.\s*compile\b|\bimport\s+compile\b|\btorch\._(dynamo|inductor)\b")
_VECTOR_FLAGS = {
    "avx2": ("-mavx2", "-mfma", "-mf16c"),
    "avx512f": ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw"),
    "avx512_vnni": ("-mavx512vnni",),
    "avx512_bf16": ("-mavx512bf16",),
    "amx_tile": ("-mamx-tile", "-mamx-bf16", "-mamx-int8"),
    "amx_fp16": ("-mamx-fp16",),
}
"""What torch's compiler passes to g++, by the CPU's features."""


def is_used_by(source: bytes) -> bool:
    """Whether a file mentions it.  A use that this does not see only costs time."""
    return _USE.search(source) is not None


def environment(path: str, cxx: str) -> dict[str, str]:
    """Variables for its import before players are forked, and for the players.

    `path` is their PATH, and `cxx` where they find the script `CXX`.
    """
    # Some versions of torch would start a process and a thread at the import.
    alone = {"TORCH_WARM_POOL": "0"}
    # Spares each player a check of what g++ can do for this CPU, which takes as long as an import of torch.  On CPUs
    # with VNNI or AMX, torch makes a part of it anyway.
    return alone | ({"TORCHINDUCTOR_VEC_ISA_OK": "1", "CXX": cxx} if knows_this_cpu(path) else {})


def knows_this_cpu(path: str) -> bool:
    """Whether the g++ in a PATH knows this CPU's vector instructions, as torch's compiler uses all of them."""
    words = set(Path("/proc/cpuinfo").read_text("utf-8", "replace").split())
    flags = [flag for feature, needed in _VECTOR_FLAGS.items() if feature in words for flag in needed]
    compiler = shutil.which("g++", path=path)
    if not compiler or not flags:
        return False
    command = [compiler, *flags, "-fsyntax-only", "-x", "c++", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
