"""One module for each `pullrank` command."""
