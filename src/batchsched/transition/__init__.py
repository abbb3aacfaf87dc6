"""Transitions from one cycle to the next: applies decisions and events to a snapshot."""
