"""Players do not test the compiler that torch.compile uses; tests/controls/compile_by_torch.py uses it."""

from pathlib import Path

from harness.task import torch_compiler


def test_the_check_of_the_compiler_is_left_to_torch_if_it_may_fail(tmp_path: Path) -> None:
    """With a g++ that lacks one of this CPU's vector instructions, and without any."""
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\nexit 1\n")
    compiler.chmod(0o755)
    for path in (tmp_path, tmp_path / "empty"):
        assert torch_compiler.environment(str(path)) == {"TORCH_WARM_POOL": "0"}
