"""A player's processes, seen from outside: freeze them, limit their memory, measure other work on their cores."""
