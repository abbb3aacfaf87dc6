"""Amounts of resources."""

Amount = int | float
"""A quantity of one dimension, in its unit."""
