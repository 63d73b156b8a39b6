"""The commands `pullrank task …`, one module per command."""
