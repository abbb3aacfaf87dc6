"""What capacity keeps from cycle to cycle decides what it would decide opened anew."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import amount, capacity_config, crowded, job, node, singles

from batchsched import (
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    next_snapshot,
)
from batchsched.live import Cluster, JobArrived, JobRemoved

ORDERS = st.sampled_from(
    [["reclaim", "allocate", "backfill"], ["allocate", "reclaim", "preempt"], ["allocate"]]
)


def foreign(number: int, node: str, cpus: int) -> TaskInfo:
    return TaskInfo(
        uid=f"foreign-{number}",
        name=f"foreign-{number}",
        resreq=amount(cpus),
        status=TaskStatus.RUNNING,
        node_name=node,
    )


def disturbed(snapshot: Snapshot, random: Random, number: int) -> Snapshot:
    """The same cluster after something happened that has nothing to do with the scheduler."""
    nodes, jobs = list(snapshot.nodes), list(snapshot.jobs)
    one = random.randrange(len(nodes))
    there: NodeInfo = nodes[one]
    match random.randrange(9):
        case 0:
            nodes[one] = evolve(there, unschedulable=not there.unschedulable)
        case 1:
            nodes.append(evolve(there, name=f"more-{number}"))
        case 2 if jobs:
            jobs.pop(random.randrange(len(jobs)))
        case 3 if jobs:
            jobs.append(job(random.choice(jobs).queue, f"new-{number}", random.randrange(1, 3)))
        case 4:
            others = (*snapshot.other_tasks, foreign(number, there.name, random.randrange(3)))
            return evolve(snapshot, other_tasks=others)
        case 5:
            return evolve(snapshot, other_tasks=snapshot.other_tasks[:-1])
        case 6 if jobs:
            where = random.randrange(len(jobs))
            tasks = [evolve(task, priority=task.priority + 1) for task in jobs[where].tasks]
            jobs[where] = evolve(jobs[where], tasks=tasks, queue=random.choice(jobs).queue)
        case 7:
            lost = random.choice((amount(0), amount(1), amount(9, 1), amount(9, 0.5)))
            nodes[one] = evolve(there, allocatable=lost)
        case 8 if jobs:
            part = job(random.choice(jobs).queue, f"part-{number}", gpus=0.5)
            jobs.append(part)
        case _:
            pass
    return evolve(snapshot, nodes=nodes, jobs=jobs)


@settings(max_examples=25)
@given(crowded(states=True), ORDERS, st.sampled_from(["queue", "graded"]), st.integers(0, 99))
def test_cycles_on_a_living_cluster_are_those_from_scratch(
    snapshot: Snapshot, actions: list[str], order: str, seed: int
) -> None:
    config = SchedulerConfig.from_mapping(capacity_config(*actions, order=order))
    warm, cold = Scheduler(config, warm=True), Scheduler(config)
    random = Random(seed)
    for cycle in range(5):
        result = cold.schedule(snapshot)
        assert warm.schedule(snapshot) == result
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
        for step in range(random.randrange(3)):
            snapshot = disturbed(snapshot, random, 10 * cycle + step)


@pytest.mark.parametrize("is_gone", [False, True])
def test_loans_are_found_where_they_run_after_nodes_came_or_went(is_gone: bool) -> None:
    def named(name: str) -> NodeInfo:
        return evolve(node(name, 4), labels={"name": name})

    config = SchedulerConfig.from_mapping(capacity_config("reclaim"))
    warm = Scheduler(config, warm=True)
    jobs = [*singles("lender", "loan", 4, on="n3"), job("claimant", "too-large", size=5)]
    queues = [Queue(name="lender", weight=0), Queue(name="claimant", deserved=amount(9))]
    before = Snapshot(
        nodes=[named("n1"), named("n2"), named("n3"), named("n4")], queues=queues, jobs=jobs
    )
    assert warm.schedule(before).evictions == ()
    names = ("n2", "n3", "n4") if is_gone else ("n0", "n1", "n2", "n3", "n4")
    after = Snapshot(
        nodes=[named(name) for name in names],
        queues=queues,
        jobs=[*jobs, job("claimant", "on-n3", size=4, only="n3")],
    )
    result = warm.schedule(after)
    assert len(result.evictions) == 4
    assert result == Scheduler(config).schedule(after)


def test_what_is_guaranteed_of_what_no_node_has_is_told_the_same_after_somebody_asked() -> None:
    def wants(name: str, **scalars: int) -> JobInfo:
        task = TaskInfo(uid=name, name=name, resreq=Resource(milli_cpu=1000, scalars=scalars))
        return JobInfo(name=name, queue="q", tasks=[task])

    config = SchedulerConfig.from_mapping(capacity_config("allocate"))
    guarantee = Resource(milli_cpu=1000, scalars={"gpu": 3000})
    cluster = Cluster(nodes=[node("n1", 4)], queues=[Queue(name="q", guarantee=guarantee)])
    live = Scheduler(config).attach(cluster)
    cluster.apply(JobArrived(wants("asks", gpu=1000)))
    asked = live.schedule()
    cluster.apply(JobRemoved("default/asks"), JobArrived(wants("plain")))
    result = live.schedule()
    assert result == Scheduler(config).schedule(cluster.snapshot())
    assert asked.queues["q"].guarantee == result.queues["q"].guarantee == Resource(milli_cpu=1000)
