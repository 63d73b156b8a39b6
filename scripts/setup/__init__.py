"""Read and set a repository's settings on GitHub; `plan` has the required values."""
