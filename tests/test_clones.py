"""Copies with renamed variables are found; different code is not, however similar."""

import time
from pathlib import Path

import pytest

from scripts.bot.admission.copies import MAX_BYTES, Original, find_original, fingerprint, own_fingerprint

TRITON = '''
"""A kernel of my own."""
import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, count, BLOCK: tl.constexpr):
    # Which block is ours?
    block = tl.program_id(axis=0)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    total = tl.load(a_ptr + offsets, mask=mask) + tl.load(b_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, total, mask=mask)


def custom_kernel(data):
    a, b, out = data
    grid = (triton.cdiv(a.numel(), 1024),)
    for i in range(2):
        out.zero_()
    add_kernel[grid](a, b, out, a.numel(), BLOCK=1024)
    return out
'''

RENAMED = '''
import torch, triton
import triton.language as L
@triton.jit
def sum_two(x, y, z, n, SIZE: L.constexpr):
    """Entirely mine."""
    me = L.program_id(axis=0); where = (me * SIZE
        + L.arange(0, SIZE))
    ok = (where < n)
    s = L.load(x + where, mask=ok) + L.load(y + where, mask=ok)
    L.store(z + where, s, mask=ok)
def custom_kernel(inputs):
    x, y, z = inputs
    blocks = (triton.cdiv(x.numel(), 0x400),)   # 1024
    for repeat in range(2): z.zero_()
    sum_two[blocks](x, y, z, x.numel(), SIZE=1024)
    return z
'''

INLINE = '''
from torch.utils.cpp_extension import load_inline
SOURCE = """
// Adds.
__global__ void add_kernel(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = __fadd_rn(a[i], b[i]);
}
torch::Tensor add(torch::Tensor a, torch::Tensor b, torch::Tensor out) {
    add_kernel<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), a.numel());
    return out;
}
"""
module = load_inline("adds", cpp_sources="torch::Tensor add(torch::Tensor, torch::Tensor, torch::Tensor);",
                     cuda_sources=SOURCE, functions=["add"])
def custom_kernel(data):
    return module.add(*data)
'''

CUDA = """
#include <cuda_runtime.h>
__global__ void scale(float* values, int count) {
    for (int i = 0; i < 4; ++i) values[i] = sinf(values[i]) * 2.0f;
}
__global__ void shift(float* values, int count) {
    for (int i = 0; i < 4; ++i) values[i] = values[i] + 1.0f;
    for (int j = 0; j < 4; ++j) values[j] = values[j] / 1.5f;
    __syncthreads();
    if (threadIdx.x == 0 && count > 7) values[count - 1] = fmaf(values[0], 3.0f, values[1]) - 0.25f;
}
void custom_kernel(float* data, int n) { scale<<<1, 32>>>(data, n); shift<<<1, 32>>>(data, n); }
"""

BRANCHES = (
    TRITON
    + """
def finish(out, count):
    if count == 0:
        out.zero_()
    elif count > 7:
        out.mul_(2)
    return out[:]
"""
)


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def found(copy: str, original: str, name: str = "submission.py", known: tuple[str, ...] = ()) -> bool:
    others = [
        Original(login="zed", name=name, source=b"def custom_kernel(data): return data"),
        Original(login="ada", name=name, source=original.encode()),
    ]
    hit = find_original(copy.encode(), name, others, [text.encode() for text in known])
    assert hit is None or hit.login == "ada"
    return hit is not None


COPIES = [
    ("itself", TRITON, TRITON, "submission.py"),
    ("other names, comments and layout", RENAMED, TRITON, "submission.py"),
    (
        "one name for what were two, in another function",
        replaced(RENAMED, ("repeat", "me"), ("(x, y, z, n, SIZE", "(a, b, c, n, SIZE"), ("load(x", "load(a"),
                 ("load(y", "load(b"), ("store(z", "store(c")),
        TRITON,
        "submission.py",
    ),
    (
        "C++ in a string, and the name by which Python calls it",
        replaced(INLINE, ("// Adds.", "/* better */"), ("add_kernel", "fast"), ("    int i", "\tint index"),
                 ("(i < n) out[i] = __fadd_rn(a[i], b[i])", "(index < n)\n out[index] = __fadd_rn(a[index], b[index])"),
                 ("torch::Tensor add(", "torch::Tensor run("), ('["add"]', '["run"]'), ("module.add", "module.run")),
        INLINE,
        "submission.py",
    ),
    (
        "other words for the same branches and slices",
        replaced(BRANCHES, ("    elif count > 7:\n", "    else:\n      if count > 7:\n"), ("        out.mul_", "          out.mul_"),
                 ("[:]", "[::]")),
        BRANCHES,
        "submission.py",
    ),
    (
        "CUDA",
        replaced(CUDA, ("scale", "mul"), ("float* values", "float *v"), ("values", "v"), ("#include", "// mine\n#include")),
        CUDA,
        "submission.cu",
    ),
]  # fmt: skip

OTHERS = [
    ("another number", replaced(TRITON, ("BLOCK=1024", "BLOCK=512")), TRITON, "submission.py"),
    ("another operation", replaced(TRITON, ("mask=mask) + tl", "mask=mask) * tl")), TRITON, "submission.py"),
    ("another function of the library", replaced(TRITON, ("zero_", "fill_")), TRITON, "submission.py"),
    ("operands exchanged", replaced(TRITON, ("a, b, out = data", "b, a, out = data")), TRITON, "submission.py"),
    ("another intrinsic", replaced(INLINE, ("__fadd_rn", "__fadd_rz")), INLINE, "submission.py"),
    ("another intrinsic in CUDA", replaced(CUDA, ("sinf", "cosf")), CUDA, "submission.cu"),
    ("another type", replaced(CUDA, ("float* values", "double* values")), CUDA, "submission.cu"),
    ("another index", replaced(CUDA, ("= values[j] /", "= values[count] /")), CUDA, "submission.cu"),
]


@pytest.mark.parametrize(("copy", "original", "name"), [row[1:] for row in COPIES], ids=[row[0] for row in COPIES])
def test_a_disguised_copy_is_found(copy: str, original: str, name: str) -> None:
    assert found(copy, original, name)
    assert found(original, copy, name)


@pytest.mark.parametrize(("other", "original", "name"), [row[1:] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_a_file_with_a_real_change_is_not_a_copy(other: str, original: str, name: str) -> None:
    assert found(original, original, name) and fingerprint(other.encode(), name)
    assert not found(other, original, name)


def test_a_file_taken_from_the_task_is_not_a_copy() -> None:
    assert found(RENAMED, TRITON)
    assert not found(RENAMED, TRITON, known=(TRITON,))


SHORT = """
import torch

def custom_kernel(data):
    values, out = data
    rows = values.reshape(-1, values.shape[-1])
    total = rows.float().square().mean(-1, keepdim=True)
    out.copy_((rows * torch.rsqrt(total + 1e-6)).reshape(values.shape))
    return out
"""
ANEW = replaced(SHORT, ("total", "power"), ("rows", "flat"))


def test_a_short_file_with_the_same_names_is_a_copy_despite_layout() -> None:
    laid_out = replaced(SHORT, ("data\n", "data  # mine\n\n"), ("total + 1e-6", "total\n        + 0.000001"))
    assert found(laid_out, SHORT) and found(SHORT, SHORT)


def test_a_short_file_with_other_names_is_not_a_copy() -> None:
    assert not found(ANEW, SHORT)


def test_a_task_file_with_other_numbers_has_no_fingerprint_of_its_own() -> None:
    tuned = replaced(TRITON, ("BLOCK=1024", "BLOCK=512"), ("numel(), 1024", "numel(), 512"))
    assert own_fingerprint(tuned.encode(), "submission.py", []) == fingerprint(tuned.encode(), "submission.py")
    assert own_fingerprint(tuned.encode(), "submission.py", [RENAMED.encode()]) is None
    other = replaced(TRITON, ("mask=mask) + tl", "mask=mask) * tl"))
    assert own_fingerprint(other.encode(), "submission.py", [RENAMED.encode()])
    fixed = replaced(CUDA, ("2.0f", "0x1p-3f"), ("i < 4", "i < 0b100"))
    assert own_fingerprint(fixed.encode(), "submission.cu", [CUDA.encode()]) is None


def test_a_short_task_file_with_renamed_variables_is_not_a_copy() -> None:
    assert not found(SHORT, SHORT, known=(ANEW,))


@pytest.mark.parametrize(
    "line",
    [
        "return torch.add(*data)",
        "a, b, out = data\n    torch.add(a, b, out=out)\n    return out",
        "values, out = data\n    out[...] = torch.softmax(values, -1)\n    return out",
    ],
)
def test_a_file_of_a_few_lines_is_never_a_copy(line: str) -> None:
    few = f"import torch\n\n\ndef custom_kernel(data):\n    {line}\n"
    assert not found(few, few)


@pytest.mark.parametrize("example", sorted(Path("tasks").glob("*/examples/accepted/*.py")), ids=str)
def test_everybody_may_submit_a_tasks_accepted_examples(example: Path) -> None:
    source = example.read_text()
    assert not found(source, source, known=(source,))


@pytest.mark.parametrize("name", ["submission.py", "submission.cu"])
@pytest.mark.parametrize(
    "source",
    [
        b"", b"\xff\xfe\0", b"x = (" * 15_000, b"-" * 90_000 + b"1", b"a" + b".a" * 20_000, b"f" + b"()" * 20_000,
        b"[a " + b"for a in b " * 5_000 + b"]", b"/*" * 20_000, b'R"(' * 20_000, b"f'{" * 100, b"'\\" * 20_000,
        b"0x" + b"f" * 40_000, b"lambda:" * 8_000 + b"1", b"x = '\\ud800'\n" * 2_000, b"#" * (MAX_BYTES + 1),
        b"#\r\"\"\"\n" + b"\\'''\n" * 20_000 + b"\n\"\"\"\n# \\", b"x" + b"(1)(2)(3)()" * 8_000,
    ],
    ids=range(17),
)  # fmt: skip
def test_hostile_source_costs_little_time_and_breaks_nothing(source: bytes, name: str) -> None:
    started = time.process_time()
    for_itself = find_original(source, name, [Original(login="ada", name=name, source=source)])
    assert for_itself is None or fingerprint(source, name)
    assert time.process_time() - started < 30


def test_a_board_of_hundreds_is_compared_within_seconds() -> None:
    others = [
        Original(login=f"l{n}", name="submission.py", source=f"{TRITON}\nx = {'[0]' * (n + 1)}\n".encode() * 8)
        for n in range(400)
    ]
    started = time.process_time()
    assert find_original(TRITON.encode() * 8, "submission.py", others) is None
    assert time.process_time() - started < 5
