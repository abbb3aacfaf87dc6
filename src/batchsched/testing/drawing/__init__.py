"""Strategies that draw snapshots, their parts, configurations and invalid snapshots."""
