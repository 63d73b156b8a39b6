"""Bubblewrap, the warm parent, the handle on a player, freezer, memory, health."""
