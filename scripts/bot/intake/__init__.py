"""`pullrank ci intake`: decide what to do about an event, and do it."""
