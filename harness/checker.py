"""The checker for tasks: what a `reference.py` imports.

The name of this module never changes: a changed `reference.py` would start the board anew.
"""

from harness.reference.checker import compare, mismatch

__all__ = ["compare", "mismatch"]
