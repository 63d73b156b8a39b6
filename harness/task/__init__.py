"""Tasks (`task.yml` and its folder), submissions, bundles, compilers."""
