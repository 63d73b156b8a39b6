"""Decide whether a file may be judged: paths, sizes, clones, quotas."""
