"""Settings, boards, GPUs, the files on `main`."""
