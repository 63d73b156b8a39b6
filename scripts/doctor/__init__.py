"""`pullrank doctor`: checks of a machine."""
