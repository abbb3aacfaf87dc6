"""The action backfill: best-effort tasks, and the strategies release and displace."""
