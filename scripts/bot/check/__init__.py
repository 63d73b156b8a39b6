"""`/check`: check the tasks that a pull request changes."""
