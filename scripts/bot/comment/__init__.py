"""Write the pull request's comment and check runs."""
