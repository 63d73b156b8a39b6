"""The standings of boards: ranking, ties, claims, hardware limits."""
