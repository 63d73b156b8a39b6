"""The rules of the game: build, tests, benchmarks, duel; and tasks that bring their own program."""
