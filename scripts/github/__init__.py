"""GitHub, as the rest of `scripts/` sees it: `gh` asks, in the words of `pulls`; only `wire` imports PyGithub."""
