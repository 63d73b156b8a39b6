"""Compare a judgement with its replay on this machine."""
