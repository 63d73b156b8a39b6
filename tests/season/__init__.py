"""`make season`: a fictional season with many entries, for tests, screenshots and benchmarks of the site."""
