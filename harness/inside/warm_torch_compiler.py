"""Do in advance what torch's compiler does at its first call: imports, rules of its optimizer, a hash of torch.

The warm parent imports this module if a file uses the compiler, and players are its forks.  If a version of torch lacks
a name, the player does that part itself.
"""

import contextlib
import importlib
import os
from operator import attrgetter

# Without those that the functions below import.
_MODULES = (
    "sympy.physics.units",
    "torch._dynamo.dce_extra_outputs",
    "torch._export.db.logging",
    "torch._functorch._activation_checkpointing.remat_using_tags_for_fwd_loss_bwd_graph_pass",
    "torch._functorch._aot_autograd.subclass_codegen",
    "torch._higher_order_ops.passes.inline_invoke_subgraph",
    "torch._inductor.bounds",
    "torch._inductor.choices",
    "torch._inductor.codegen.memory_planning",
    "torch._inductor.codegen.segmented_tree",
    "torch._inductor.compile_fx",
    "torch._inductor.extern_node_serializer",
    "torch._inductor.fx_passes.apply_gumbel_max_trick",
    "torch._inductor.fx_passes.efficient_conv_bn_eval",
    "torch._inductor.hooks",
    "torch._subclasses.schema_check_mode",
    "torch.distributed.tensor.experimental",
    "torch.export._trace",
    "torch.fx.experimental.validator",
    "torch.utils.cpp_extension",
)
_CALLS = (
    ("torch._dynamo.backends.registry", "_lazy_import"),
    ("torch._inductor.codegen.common", "init_backend_registration"),
    ("torch._inductor.fx_passes.joint_graph", "lazy_init"),
    ("torch._inductor.fx_passes.post_grad", "lazy_init"),
    ("torch._inductor.codecache", "torch_key"),
    ("torch._inductor.codecache", "CacheBase.get_system"),
    ("torch._inductor.cpp_builder", "is_intel_compiler"),
    ("torch.overrides", "get_overridable_functions"),
    ("torch.overrides", "get_testing_overrides"),
)
"""Functions without arguments whose results torch keeps: backends, patterns, hashes, the compiler's kind, and so on."""


def _choose_vector_instructions() -> None:
    """Have torch choose the vector instructions of its kernels without asking g++: the judge has asked it.

    Otherwise each player starts a Python for each kind of instructions.  With AMX, torch asks the kernel, too, and this
    has not been tried.
    """
    import torch
    from torch._inductor import cpu_vec_isa

    if torch.cpu._is_amx_tile_supported():
        return
    check_build = cpu_vec_isa.VecISA.check_build
    cpu_vec_isa.VecISA.check_build = lambda *_: True  # type: ignore[method-assign]
    try:
        cpu_vec_isa.valid_vec_isa_list()
    finally:
        cpu_vec_isa.VecISA.check_build = check_build  # type: ignore[method-assign]


def _skip_guards_timing() -> None:
    """Have torch not time its guards for its debug log: it flushes the CPU's caches first, which takes 20 ms."""
    from torch._dynamo import guards

    guards.profile_guard_manager = lambda *_: 0.0  # type: ignore[attr-defined]


for _name in _MODULES:
    with contextlib.suppress(Exception):
        importlib.import_module(_name)
for _name, _path in _CALLS:
    with contextlib.suppress(Exception):
        attrgetter(_path)(importlib.import_module(_name))()
with contextlib.suppress(Exception):
    _skip_guards_timing()
if os.environ.get("TORCHINDUCTOR_VEC_ISA_OK") == "1":
    with contextlib.suppress(Exception):
        _choose_vector_instructions()
