"""Validation of values and snapshots: all faults at once, each with its path."""
