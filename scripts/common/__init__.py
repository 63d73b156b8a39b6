"""Escaping of untrusted text, terminal output, git."""
