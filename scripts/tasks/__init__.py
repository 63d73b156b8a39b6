"""The commands `pullrank task …`, one module each."""
