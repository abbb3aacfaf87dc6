"""The workloads: seeded generators of snapshots, one concept a module."""
