"""Do in advance what torch's compiler does at its first call: imports, rules of its optimizer, a hash of torch.

The warm parent imports this module if a file uses the compiler, and players are its forks.  If a version of torch lacks
a name, the player does that part itself.
"""

import contextlib
import importlib
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
)
"""Functions without arguments whose results torch keeps: backends, patterns, hashes of torch and of the system."""

for _name in _MODULES:
    with contextlib.suppress(Exception):
        importlib.import_module(_name)
for _name, _path in _CALLS:
    with contextlib.suppress(Exception):
        attrgetter(_path)(importlib.import_module(_name))()
