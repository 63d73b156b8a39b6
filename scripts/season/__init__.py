"""`make season`: a lively season that never was, for tests, screenshots and benchmarks of the site."""
