"""Devices, drivers' libraries, vendors' profilers."""
