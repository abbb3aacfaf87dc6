"""One scheduling cycle: the session, its statements, and the combined answers of plugins."""
