"""Read and set a repository's settings on GitHub; `wanted` has the required values."""
