"""Data models that are written to files: judgements, times, verdicts; plus statistics and errors."""
