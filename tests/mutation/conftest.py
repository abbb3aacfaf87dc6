"""The score is told by a program, which needs what only mutation runs have."""

collect_ignore = ["score.py"]
