"""Strategies that draw snapshots, their parts, and configurations."""
