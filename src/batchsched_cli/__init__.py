"""The program `batchsched`: answers about a cluster, for people with a terminal."""
