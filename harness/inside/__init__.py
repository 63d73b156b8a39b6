"""All PullRank code that a player sees: its main loop, the messages, the inner sandbox and the profiler."""
