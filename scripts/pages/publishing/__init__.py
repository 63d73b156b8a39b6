"""Building and serving the whole site."""
