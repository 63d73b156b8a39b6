"""All our code that a player sees: its loop, the messages, the inner walls, the profiler."""
