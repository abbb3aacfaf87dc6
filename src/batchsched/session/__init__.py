"""One cycle of scheduling: the session, its statements, and what plugins together say."""
