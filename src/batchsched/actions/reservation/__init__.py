"""The action reserve: reserve nodes for starving jobs."""
