"""Devices, driver libraries and the vendors' profilers."""
