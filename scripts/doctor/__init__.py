"""`pullrank doctor`: what is looked at on a machine."""
