"""Plain frozen data: what a snapshot holds, what a cycle decides, and the reasons that it gives."""
