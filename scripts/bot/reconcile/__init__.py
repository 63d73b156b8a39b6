"""`pullrank ci reconcile`: catch up on what was missed."""
