"""Evicting for a task: who may be evicted, where that makes room, and what searches remember."""
