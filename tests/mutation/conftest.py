"""Scores are told by programs, which need what only mutation runs have."""

collect_ignore = ["sample.py", "score.py"]
