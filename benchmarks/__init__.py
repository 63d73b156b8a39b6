"""`make bench-…`: measure judging, timing, the workflows and the site on this machine."""
