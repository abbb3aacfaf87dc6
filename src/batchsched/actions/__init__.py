"""The actions: allocate, backfill, plan, preempt, reclaim and reserve; a module or folder each."""
