"""Evicting tasks for another: which may be evicted, where to search, and what is cached."""
