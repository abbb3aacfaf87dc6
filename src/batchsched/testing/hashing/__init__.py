"""Checks whether decisions depend on the order of sets, which differs between processes.

Texts hash differently in each process of Python, and sets have their order from that. One
process cannot see it; `check_hash_seeds` asks two.
"""

from batchsched.testing.hashing.check import HashSeedViolation, check_hash_seeds

__all__ = ["HashSeedViolation", "check_hash_seeds"]
