"""The pull request's comment and check runs."""
