"""`pullrank tasks` and `pullrank task …`: a module for each command, named as it is; `tools` is their group."""
