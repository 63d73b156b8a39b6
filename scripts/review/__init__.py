"""Review aid: what a maintainer may want to look at in a submission before it may be first."""
