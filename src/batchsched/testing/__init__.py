"""Helpers for tests of schedulers, policies and plugins."""
