"""Settings, boards, GPUs, and the files on `main`."""
