"""Who is ahead: the ranking, ties, claims, hardware limits."""
