"""Resolve the judgements or the author of a maintainer's decision."""
