"""The state of a cycle: records of nodes, jobs, queues and tasks, changed only by the ledger."""
