"""Shared by all of `scripts/`: escaping of untrusted text, the terminal, options of commands, git, HTTP requests."""
