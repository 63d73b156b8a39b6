"""torch's compiler, which the warm parent imports for files that use it.  Otherwise each player's first call would."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

MODULES = ("harness.inside.warm_torch_compiler",)
"""What the warm parent imports for it."""
CXX = "cached-g++"
"""The name of the script that it calls in place of g++.  torch takes a compiler for GCC if its path has such a name."""
HEADERS = "headers"
"""The folder with the header that the judge precompiles, beside the folder of the script."""
HEADER = "torch/csrc/inductor/cpp_prefix.h"
"""The header that all kernels include."""
CXX_SCRIPT = f"""\
#!/bin/sh
# Every kernel of torch's compiler includes one large header, whose parsing takes most of the compilation.  The judge
# precompiles it while the sandbox starts, if it knows the options of kernels on this CPU and has a core for that.  If a
# kernel has other options, the first such kernel precompiles the header into torch's cache.  g++ ignores that header if
# a later kernel's options differ.

header={HEADER}
judges=${{0%/*}}/../{HEADERS}
own=${{TORCHINDUCTOR_CACHE_DIR:-/dev/null}}/headers

find_header() ( # find_header ARGUMENT…: those of a kernel; prints the folder of its precompiled header
    previous='' options=''
    for argument; do
        shift
        case $previous$argument in *.cpp | -o* | -shared | -l*) ;; *) set -- "$@" "$argument" ;; esac
        previous=
        [ "$argument" != -o ] || previous=-o
    done
    for argument; do
        case $argument in -I* | -L*) ;; *) options="$options $argument" ;; esac
    done
    if [ "$options" = " $(cat "$judges/options")" ] && [ -e "$judges/$header.gch" ]; then
        echo "$judges"
        exit
    fi
    echo "$own"
    mkdir "$own" || exit
    echo "#include <$header>" >"$own/header.h"
    g++ "$@" "$own/header.h" -o "$own/header.gch" >&2 &&
        mkdir -p "$own/${{header%/*}}" &&
        mv "$own/header.gch" "$own/$header.gch"
    rm -f "$own/header.gch"
) 2>/dev/null

for argument; do
    case $argument in
        *.cpp)
            if grep -q "$header" "$argument"; then
                set -- "-I$(find_header "$@")" "$@"
                # ld.gold links in half of the time.
                ! command -v ld.gold >/dev/null || set -- -fuse-ld=gold "$@"
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


_OPTIONS = (
    "-D TORCH_INDUCTOR_CPP_WRAPPER -D STANDALONE_TORCH_HEADER -D C10_USING_CUSTOM_GENERATED_MACROS",
    "-D CPU_CAPABILITY_{capability} -O3 -DNDEBUG -fno-omit-frame-pointer -g1 -fno-trapping-math",
    "-funsafe-math-optimizations -ffinite-math-only -fno-signed-zeros -fno-finite-math-only",
    "-fno-unsafe-math-optimizations -fmath-errno -ffp-contract=off -fexcess-precision=fast -fno-tree-loop-vectorize",
    "-march=native -fPIC -Wall -std=c++20 -Wno-unused-variable -Wno-unknown-pragmas -pedantic -fopenmp {vectors}",
)
"""What torch 2.13's compiler passes to g++, in this order, without folders."""
_VECTORS = {
    "amx_tile": None,
    "avx512_vnni": ("AVX512", "-mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mavx512vnni -mavx512vl"),
    "avx512f": None,
    "avx2": ("AVX2", "-mavx2 -mfma -mf16c"),
}
"""`capability` and `vectors` for the first of these features that the CPU has.  None: they have not been tried."""


def is_used_by(source: bytes) -> bool:
    """Whether a file mentions it.  A use that this does not see only costs time."""
    return _USE.search(source) is not None


def write_script(folder: Path) -> Path:
    """Write the script `CXX` into a folder; returns its path."""
    script = folder / CXX
    script.write_text(CXX_SCRIPT, "utf-8")
    script.chmod(0o755)
    return script


def environment(path: str, cxx: str) -> dict[str, str]:
    """Variables for its import before players are forked, and for the players.

    `path` is their PATH, and `cxx` where they find the script `CXX`.
    """
    # Some versions of torch would start a process and a thread at the import.
    alone = {"TORCH_WARM_POOL": "0"}
    # Spares each player a check of what g++ can do for this CPU, which takes as long as an import of torch.  With VNNI,
    # `warm_torch_compiler` spares it the rest; with AMX, torch makes a part of the check.
    return alone | ({"TORCHINDUCTOR_VEC_ISA_OK": "1", "CXX": cxx} if knows_this_cpu(path) else {})


def header_options() -> list[str]:
    """The options with which the compiler will probably include the header on this CPU; empty if unknown."""
    features = _cpu_features()
    found = next((found for feature, found in _VECTORS.items() if feature in features), None)
    return " ".join(_OPTIONS).format(capability=found[0], vectors=found[1]).split() if found else []


def include_options() -> list[str]:
    """Options for the folders of Python's and torch's headers."""
    torch = importlib.util.find_spec("torch")
    folders = torch.submodule_search_locations if torch else None
    torchs = [f"-I{folder}/include{inner}" for folder in folders or () for inner in ("", "/torch/csrc/api/include")]
    return [f"-I{sysconfig.get_path('include')}", *torchs]


def knows_this_cpu(path: str) -> bool:
    """Whether the g++ in a PATH knows this CPU's vector instructions, as torch's compiler uses all of them."""
    features = _cpu_features()
    flags = [flag for feature, needed in _VECTOR_FLAGS.items() if feature in features for flag in needed]
    compiler = shutil.which("g++", path=path)
    if not compiler or not flags:
        return False
    command = [compiler, *flags, "-fsyntax-only", "-x", "c++", "/dev/null"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _cpu_features() -> set[str]:
    return set(Path("/proc/cpuinfo").read_text("utf-8", "replace").split())
