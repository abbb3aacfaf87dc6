"""capacity: a tree of queues with guarantees, deserved amounts, limits and weights."""
