"""The action reserve: nodes kept for jobs that starve."""
