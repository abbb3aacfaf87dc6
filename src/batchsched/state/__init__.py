"""The books of a cycle: records of nodes, jobs, queues and tasks; one place changes them."""
