"""The game: build, tests, benchmarks, duel; tasks that bring their own program."""
