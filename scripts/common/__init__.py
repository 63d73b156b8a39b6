"""Text made harmless, the terminal, git."""
