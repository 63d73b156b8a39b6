"""`pullrank ci resolve`: the bundle of one judging."""
