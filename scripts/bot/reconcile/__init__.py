"""`pullrank ci reconcile`: what was missed."""
