"""`pullrank ci intake`: from an event to a decision, and its execution."""
