"""The laws of consolidate on small random worlds: who moves, where, how few, and that it ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product
from random import Random
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    ActionOption,
    CycleResult,
    HostPort,
    JobInfo,
    LabelSelector,
    NodeInfo,
    PluginOption,
    PodAffinity,
    PodAffinityTerm,
    Preemptible,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Tier,
    next_snapshot,
)
from batchsched.live import Cluster, TaskGone

PLUGINS = ("priority", "gang", "conformance", "protection", "predicates", "nodeorder")
seeds = st.integers(min_value=0, max_value=1 << 32)


def scheduler(plain: bool = False, capacity: bool = False, **arguments: Any) -> Scheduler:
    names = (*PLUGINS, "capacity") if capacity else PLUGINS
    return Scheduler(
        SchedulerConfig(
            actions=[
                ActionOption(name="allocate"),
                ActionOption(name="consolidate", arguments=arguments),
            ],
            tiers=[Tier(plugins=[PluginOption(name=name) for name in names])],
        ),
        plain=plain,
    )


def cpus(count: int) -> Resource:
    return Resource(milli_cpu=1000 * count)


def world(random: Random, *, wanting: bool = True, waiting: int = 2) -> Snapshot:
    """Up to four nodes on which jobs run, and some that wait.

    With `wanting`, tasks may have ports, keep apart from one another or select nodes.
    """
    sizes = [random.randint(3, 8) for _ in range(random.randint(2, 4))]
    nodes = [
        NodeInfo(name=f"n{i}", allocatable=cpus(size), labels={"zone": random.choice("ab")})
        for i, size in enumerate(sizes)
    ]
    left = list(sizes)
    jobs: list[JobInfo] = []

    def wants() -> dict[str, Any]:
        if not wanting or random.random() < 0.6:
            return {}
        apart = PodAffinityTerm(
            topology_key="zone" if random.random() < 0.3 else "name",
            selector=LabelSelector(match_labels={"app": "x"}),
        )
        return random.choice(
            [
                {"host_ports": [HostPort(port=80)]},
                {"node_selector": {"zone": random.choice("ab")}},
                {"labels": {"app": "x"}, "pod_anti_affinity": PodAffinity(required=[apart])},
                {"labels": {"app": "x"}},
            ]
        )

    for number in range(random.randint(1, 6)):
        tasks: list[TaskInfo] = []
        for position in range(random.choice([1, 1, 1, 2, 3])):
            size = random.randint(1, 4)
            there = [i for i, amount in enumerate(left) if amount >= size]
            if not there:
                continue
            where = random.choice(there)
            left[where] -= size
            tasks.append(
                TaskInfo(
                    uid=f"r{number}-{position}",
                    name=f"r{number}-{position}",
                    status=TaskStatus.RUNNING,
                    node_name=f"n{where}",
                    resreq=cpus(size),
                    start_time=float(random.randint(0, 90)),
                    **wants(),
                )
            )
        if tasks:
            jobs.append(
                JobInfo(
                    name=f"r{number}",
                    queue=random.choice(["q", "q", "q", "other"]),
                    min_available=random.randint(0, len(tasks)),
                    priority=random.choice([1, 1, 1, 5]),
                    creation_time=float(number),
                    preemptible=random.choice([Preemptible.ALWAYS] * 4 + list(Preemptible)),
                    tasks=tasks,
                )
            )
    for number in range(random.randint(1, waiting)):
        tasks = [
            TaskInfo(
                uid=f"w{number}-{position}",
                name=f"w{number}-{position}",
                resreq=cpus(random.randint(1, 6)),
                **wants(),
            )
            for position in range(random.choice([1, 1, 2]))
        ]
        jobs.append(
            JobInfo(
                name=f"w{number}",
                queue="q",
                min_available=len(tasks),
                priority=random.choice([1, 5]),
                creation_time=10.0 + number,
                tasks=tasks,
            )
        )
    queues = [
        Queue(name="q", preempt_min_runtime=random.choice([None, None, 20.0])),
        Queue(name="other"),
    ]
    random.shuffle(jobs)
    return Snapshot(nodes=nodes, jobs=jobs, queues=queues, now=100.0)


def arguments_of(random: Random) -> dict[str, Any]:
    return {
        "maxMoves": random.choice([0, 1, 2, 3, 4]),
        "scope": random.choice(["queue", "all"]),
        "tries": random.choice([1000, 1000, 1000, 5]),
    }


def task_of(snapshot: Snapshot) -> dict[str, TaskInfo]:
    return {task.uid: task for job in snapshot.jobs for task in job.tasks}


@given(seeds)
def test_law_a_cycle_decides_the_same_from_scratch_plainly_and_living(seed: int) -> None:
    random = Random(seed)
    snapshot, arguments = world(random), arguments_of(random)
    given_ = {**arguments, "capacity": random.random() < 0.3}
    fast, plain = scheduler(**given_), scheduler(plain=True, **given_)
    cluster = Cluster(snapshot)
    live = scheduler(**given_).attach(cluster)
    for _ in range(4):
        snapshot = cluster.snapshot()
        result = live.schedule()
        assert fast.schedule(snapshot) == result.full()
        assert plain.schedule(snapshot) == result.full()
        cluster.carry_out(result)
        leaving = [t.uid for t in task_of(cluster.snapshot()).values() if t.leaving is not None]
        cluster.apply(*(TaskGone(uid) for uid in leaving if random.random() < 0.6))


def faults_of(snapshot: Snapshot, result: CycleResult, arguments: dict[str, Any]) -> Iterator[str]:
    tasks = task_of(snapshot)
    jobs = {task.uid: job for job in snapshot.jobs for task in job.tasks}
    names = [move.task_uid for move in result.moves]
    if len(set(names)) < len(names):
        yield "a task moves twice"
    kept = {promise.task_uid: promise.node_name for promise in result.kept_promises}
    for move in result.moves:
        task, job = tasks[move.task_uid], jobs[move.task_uid]
        if (task.status, task.node_name) != (TaskStatus.RUNNING, move.from_node):
            yield f"{task.uid} does not run where it leaves"
        if kept.get(task.uid) != move.to_node:
            yield f"{task.uid} has no promise of its place"
        if job.preemptible is Preemptible.NEVER:
            yield f"{task.uid} may not be preempted"
        claimant = jobs[move.for_task_uid or ""]
        if job.priority > claimant.priority or job.uid == claimant.uid:
            yield f"{task.uid} moves for a job that it need not"
        if job.queue != claimant.queue and arguments["scope"] == "queue":
            yield f"{task.uid} is of another queue"
    by_claim: dict[str, int] = {}
    for move in result.moves:
        uid = jobs[move.for_task_uid or ""].uid
        by_claim[uid] = by_claim.get(uid, 0) + 1
    if any(count > arguments["maxMoves"] for count in by_claim.values()):
        yield "a claim moves too many"
    for uid in by_claim:
        job = next(job for job in snapshot.jobs if job.uid == uid)
        coming = [result.tasks[t.uid].status for t in job.tasks]
        if sum(s.ready or s is TaskStatus.PIPELINED for s in coming) < job.min_available:
            yield f"{uid} is not pipelined"
    # What nodes hold once all has left and come.
    held: dict[str, int] = {}
    for uid, task in tasks.items():
        outcome = result.tasks.get(uid)
        where = task.node_name if outcome is None else outcome.node_name
        if where is not None:
            held[where] = held.get(where, 0) + int(task.resreq.milli_cpu)
    for node in snapshot.nodes:
        if held.get(node.name, 0) > node.allocatable.milli_cpu:
            yield f"{node.name} is overcommitted"


@given(seeds)
def test_law_moved_tasks_have_promises_that_fit_and_nobody_loses_a_task(seed: int) -> None:
    random = Random(seed)
    snapshot, arguments = world(random), arguments_of(random)
    result = scheduler(**arguments).schedule(snapshot)
    assert [*faults_of(snapshot, result, arguments)] == []
    assert result.evictions == ()


@given(seeds)
def test_law_without_moves_or_anything_that_waits_nothing_happens(seed: int) -> None:
    snapshot = world(Random(seed))
    assert scheduler(maxMoves=0).schedule(snapshot).moves == ()
    jobs = [job for job in snapshot.jobs if not job.name.startswith("w")]
    assert scheduler().schedule(evolve(snapshot, jobs=jobs)).moves == ()


@given(seeds)
def test_law_the_order_in_which_things_are_given_does_not_matter(seed: int) -> None:
    random = Random(seed)
    snapshot, arguments = world(random), arguments_of(random)
    result = scheduler(**arguments).schedule(snapshot)
    jobs = [evolve(job, tasks=job.tasks[::-1]) for job in snapshot.jobs[::-1]]
    turned = evolve(snapshot, jobs=jobs, nodes=snapshot.nodes[::-1])
    assert scheduler(**arguments).schedule(turned) == result


@given(seeds)
def test_law_in_a_closed_system_it_comes_to_rest(seed: int) -> None:
    random = Random(seed)
    snapshot, commits = world(random), 0
    waiting = sum(t.status is TaskStatus.PENDING for t in task_of(snapshot).values())
    of = scheduler(**arguments_of(random))
    for cycle in range(20):
        result = of.schedule(snapshot)
        commits += len({move.for_task_uid for move in result.moves})
        leaving = {move.task_uid for move in result.moves}
        leaving |= {t.uid for t in task_of(snapshot).values() if t.leaving is not None}
        stays = [uid for uid in sorted(leaving) if random.random() < 0.4]
        if not (result.binds or result.moves or leaving or result.pipelined):
            break
        snapshot = next_snapshot(
            snapshot, result, now=snapshot.now + 1 + cycle, still_releasing=stays
        )
    else:
        pytest.fail(f"no rest after 20 cycles: {result}")
    assert commits <= waiting
    assert not any(t.leaving for t in task_of(snapshot).values())


# As few as possible


def fewest(snapshot: Snapshot, most: int, movable: list[str]) -> int | None:
    """The fewest moves with which the one task that waits has room, found by trying all."""
    tasks = task_of(snapshot)
    [waits] = [t for t in tasks.values() if t.status is TaskStatus.PENDING]
    sizes = {uid: int(task.resreq.milli_cpu) for uid, task in tasks.items()}
    room = {node.name: int(node.allocatable.milli_cpu) for node in snapshot.nodes}
    for uid, task in tasks.items():
        if task.node_name is not None:
            room[task.node_name] -= sizes[uid]

    def orderly(moves: dict[str, str]) -> bool:
        for order in permutations(moves):
            free = dict(room)
            for uid in order:
                if sizes[uid] > free[moves[uid]]:
                    break
                free[moves[uid]] -= sizes[uid]
                free[tasks[uid].node_name or ""] += sizes[uid]
            else:
                return any(sizes[waits.uid] <= amount for amount in free.values())
        return False

    for count in range(most + 1):
        for moved in combinations(movable, count):
            elsewhere = [[n for n in room if n != tasks[uid].node_name] for uid in moved]
            for places in product(*elsewhere):
                if orderly(dict(zip(moved, places, strict=True))):
                    return count
    return None


@given(seeds)
def test_law_no_solution_for_one_task_has_fewer_moves(seed: int) -> None:
    random = Random(seed)
    snapshot = world(random, wanting=False, waiting=1)
    jobs = [
        evolve(
            job,
            tasks=job.tasks[:1] if job.name.startswith("w") else job.tasks,
            min_available=1 if job.name.startswith("w") else 0,
            priority=1,
            queue="q",
            preemptible=Preemptible.ALWAYS,
        )
        for job in snapshot.jobs
    ]
    queues = [evolve(queue, preempt_min_runtime=None) for queue in snapshot.queues]
    snapshot = evolve(snapshot, jobs=jobs, queues=queues)
    movable = [uid for uid, t in task_of(snapshot).items() if t.status is TaskStatus.RUNNING]
    expected = fewest(snapshot, 4, movable)
    result = scheduler(tries=100_000).schedule(snapshot)
    if expected is None:
        assert result.moves == ()
    else:
        assert len(result.moves) == expected
        assert result.binds or expected
