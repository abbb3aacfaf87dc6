"""Plain frozen data: the parts of a snapshot, the decisions of a cycle, and their reasons."""
