"""What is written to files: judgement, times, verdicts, statistics, errors."""
