"""`make bench-…`: what judging, timing, GitHub's work and the site cost, measured on this machine."""
