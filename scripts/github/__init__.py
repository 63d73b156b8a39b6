"""GitHub for the rest of `scripts/`: `gh` sends requests, `pulls` has the types, only `wire` imports PyGithub."""
