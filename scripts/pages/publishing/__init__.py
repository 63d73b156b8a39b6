"""The whole site, built and served."""
