"""The actions allocate, backfill, plan, preempt, reclaim and reserve, each a module or folder."""
