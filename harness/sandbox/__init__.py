"""The sandbox: bubblewrap, the warm parent, player handles, freezer, memory limits, health checks."""
