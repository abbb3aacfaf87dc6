"""What makes values and snapshots valid: every fault at once, each with its path."""
