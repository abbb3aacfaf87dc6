"""All that can be measured, by name: workloads, and reports that print tables of their own."""

from __future__ import annotations

from functools import partial

from benchmarks.workloads.affinity import affinity
from benchmarks.workloads.busy import ALL_ACTIONS, busy, nothing_fits
from benchmarks.workloads.gangs import gangs
from benchmarks.workloads.openb import openb
from benchmarks.workloads.scenario import Workload
from benchmarks.workloads.simulation import simulation
from benchmarks.workloads.tree import tree

__all__ = ["REPORTS", "WORKLOADS"]

_ALL = (
    Workload(
        name="openb",
        letter="a",
        description="openb: 1,213 GPU nodes, 8,152 tasks, one job each",
        make=openb,
    ),
    Workload(
        name="gangs-1000",
        letter="b",
        description="gangs: 1,000 nodes, 100 jobs of 50 tasks, 8 shapes",
        make=partial(gangs, nodes=1000, jobs=100),
    ),
    Workload(
        name="gangs-5000",
        letter="b",
        description="gangs: 5,000 nodes, 1,000 jobs of 50 tasks, 8 shapes",
        make=partial(gangs, nodes=5000, jobs=1000),
        growth_from="gangs-1000",
    ),
    Workload(
        name="gangs-10000",
        letter="b",
        description="gangs: 10,000 nodes, 2,000 jobs of 50 tasks, 8 shapes",
        make=partial(gangs, nodes=10_000, jobs=2000),
        growth_from="gangs-1000",
    ),
    Workload(
        name="unique-shapes",
        letter="c",
        description="gangs: 5,000 nodes, 10,000 tasks, each of a shape of its own",
        make=partial(gangs, nodes=5000, jobs=200, unique_shapes=True),
    ),
    Workload(
        name="busy",
        letter="d",
        description="busy: 5,000 nodes, 60,000 running and 5,000 pending tasks, all actions",
        make=partial(busy, nodes=5000, running=60_000, pending=5000),
    ),
    Workload(
        name="affinity",
        letter="e",
        description="affinity: 1,000 nodes in 10 zones, 5,000 tasks",
        make=partial(affinity, nodes=1000, tasks=5000),
    ),
    Workload(
        name="simulation",
        letter="f",
        description="simulation: 50 nodes, 200 tasks, 2,000 cycles",
        make=partial(simulation, nodes=50, tasks=200, cycles=2000),
    ),
    Workload(
        name="simulation-all-actions",
        letter="f",
        description="simulation: as before, with reclaim and preempt",
        make=partial(simulation, nodes=50, tasks=200, cycles=2000, actions=ALL_ACTIONS),
    ),
    Workload(
        name="nothing-fits",
        letter="g",
        description="nothing fits: 5,000 full nodes, 20,000 pending tasks of 50 shapes",
        make=partial(nothing_fits, nodes=5000, pending=20_000, shapes=50),
    ),
    Workload(
        name="nothing-fits-all-actions",
        letter="g",
        description="nothing fits: as before, with reclaim and preempt; nobody can be evicted",
        make=partial(nothing_fits, nodes=5000, pending=20_000, shapes=50, actions=ALL_ACTIONS),
    ),
    Workload(
        name="tree",
        letter="h",
        description="tree: 5,000 nodes, 200 leaves, 60,000 running and 10,000 pending tasks",
        make=partial(tree, nodes=5000, running=60_000, pending=10_000),
    ),
    Workload(
        name="tree-graded",
        letter="h",
        description="tree: as before, with `order: graded`",
        make=partial(tree, nodes=5000, running=60_000, pending=10_000, order="graded"),
    ),
    Workload(
        name="tree-flat",
        letter="h",
        description="tree: the same leaves without those above them, with proportion",
        make=partial(tree, nodes=5000, running=60_000, pending=10_000, is_flat=True),
    ),
)

WORKLOADS = {workload.name: workload for workload in _ALL}
"""All workloads by name, in the order in which they are reported."""

REPORTS = {
    "validation": "what making a snapshot costs per task, by what its tasks share",
    "steady": "what a cycle costs where little changes, on a living cluster and from scratch",
    "changes": "what a cycle costs by what changed, where jobs wait that cannot start",
    "axes": "how the time of a cycle grows where there is ever more of something dear",
    "waiting": "what each strategy against waiting costs in utilisation and in waiting",
    "tracing": "what a trace costs, and that nothing of it is called when it is off",
    "evictions": "how many evictions queues take to their shares, and how many of them are wasted",
    "protection": "what budgets, limits and costs of evictions cost a cycle, and nothing of them",
    "moves": "what moves free at 95 % load, beside evictions, and how long a plan takes",
    "simulator": "what simulating costs an event, on a pool and with the scheduler",
    "hot": "where the time of a cycle goes, function by function; writes results/hot.md",
}
"""Reports by the name of their module, with what they measure. Each prints tables of its own."""
