"""Benchmarks of batchsched: ``python -m benchmarks`` runs them all and prints a table.

Each workload is made by a seeded generator, so that its decisions are always the
same; their digest is checked before a time is trusted.
"""
