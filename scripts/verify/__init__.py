"""A judgement compared with its replay on this machine."""
