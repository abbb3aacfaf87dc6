"""Evicting tasks for another: whom, where, and what searches need not ask again."""
