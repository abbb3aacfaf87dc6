"""The actions: allocate, backfill, preempt, reclaim and reserve, one module each."""
