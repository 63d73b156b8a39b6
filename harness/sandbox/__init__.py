"""The sandbox: bubblewrap, the warm parent, player handles, health checks."""
