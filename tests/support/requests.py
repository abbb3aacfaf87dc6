"""Laws of requests that need no brute force: what excludes nothing, and what is stricter.

Each is asked of a tiny cluster (`tests.support.tiny_clusters`) whose most important job waits, and
of the same cluster with other requests for that job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import evolve

from batchsched import (
    JobInfo,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Segment,
    Snapshot,
    TaskInfo,
    TaskStatus,
    TopologyRequest,
    next_snapshot,
)
from tests.support.possible import CYCLES, THERE, claimant_of, expect_in_scope, runs, scheduler

Lived = tuple[frozenset[str], int, bool]
"""The tasks that run in the end, how many were evicted, and whether the job itself runs."""


def lived(snapshot: Snapshot, actions: str) -> Lived:
    """What becomes of a cluster in a few cycles."""
    claimant = claimant_of(snapshot).uid
    evicted = 0
    for _ in range(CYCLES):
        result = scheduler(actions).schedule(snapshot)
        evicted += len(result.evictions)
        snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)
    there = [task for job in snapshot.jobs for task in job.tasks if task.status in THERE]
    job = snapshot.job(claimant)
    return (
        frozenset(task.uid for task in there),
        evicted,
        runs(job, (task for task in job.tasks if task.status in THERE)),
    )


def with_request(
    snapshot: Snapshot, request: TopologyRequest | None, change: Callable[[TaskInfo], TaskInfo]
) -> Snapshot:
    """The same cluster, where the job that waits asks for something else, and its groups nothing.

    Its tasks are alike, but for their affinities, which are as given, and it needs all of them: of
    segments it always needs whole ones.
    """
    claimant = claimant_of(snapshot)
    first = claimant.tasks[0]
    alike: list[TaskInfo] = []
    for task in claimant.tasks:
        like = evolve(first, uid=task.uid, name=task.name, index=None, group=None)
        like = evolve(like, pod_affinity=None, pod_anti_affinity=None, labels={"gang": "k"})
        alike.append(change(like))
    asking = evolve(
        claimant,
        tasks=alike,
        groups=(),
        min_available=len(alike),
        topology=request,
    )
    others: list[JobInfo] = [job for job in snapshot.jobs if job is not claimant]
    return evolve(snapshot, jobs=[*others, asking])


def as_it_is(task: TaskInfo) -> TaskInfo:
    return task


IN_ONE_RACK: Mapping[str, TopologyRequest | None] = {
    "none": None,
    "required": TopologyRequest("net", required="rack"),
    "by key": TopologyRequest(required="rack"),
    "preferred": TopologyRequest("net", preferred="rack"),
    "both": TopologyRequest("net", required="block", preferred="rack"),
    "segments": TopologyRequest("net", segments=[Segment(2, "rack")]),
    "balanced": TopologyRequest("net", preferred="rack", balanced=True),
}


def not_as_without(snapshot: Snapshot, actions: str) -> Iterator[str]:
    """Say which request that excludes nothing changes something: all nodes are one rack."""
    rack = {"block": "b0", "rack": "r0"}
    nodes = [evolve(node, labels={**node.labels, **rack}) for node in snapshot.nodes]
    one_rack = evolve(snapshot, nodes=nodes)
    _expect_all_wait(snapshot)
    found = {
        name: lived(with_request(one_rack, request, as_it_is), actions)
        for name, request in IN_ONE_RACK.items()
    }
    for name, life in found.items():
        if life[1:] != found["none"][1:]:
            yield f"{name}: {_told(life)}; without: {_told(found['none'])}"


def _told(life: Lived) -> str:
    return f"{'runs' if life[2] else 'waits'}, {life[1]} evicted"


def _expect_all_wait(snapshot: Snapshot) -> None:
    claimant = claimant_of(snapshot)
    expect_in_scope(snapshot, claimant)
    assert all(task.status is TaskStatus.PENDING for task in claimant.tasks)


def near_all(task: TaskInfo) -> TaskInfo:
    return evolve(task, pod_affinity=_near({"gang": "k"}))


def near_the_leader(task: TaskInfo) -> TaskInfo:
    if task.uid.endswith("-0"):
        return evolve(task, labels={"gang": "k", "role": "leader"})
    return evolve(task, pod_affinity=_near({"role": "leader"}))


def _near(labels: Mapping[str, str]) -> PodAffinity:
    term = PodAffinityTerm(selector=LabelSelector(match_labels=labels), topology_key="rack")
    return PodAffinity(required=[term])


FROM_STRICT_TO_WEAK: Sequence[
    Sequence[tuple[str, TopologyRequest | None, Callable[[TaskInfo], TaskInfo]]]
] = (
    (
        ("required", TopologyRequest("net", required="rack"), as_it_is),
        ("segments", TopologyRequest("net", segments=[Segment(2, "rack")]), as_it_is),
        ("preferred", TopologyRequest("net", preferred="rack"), as_it_is),
        ("balanced", TopologyRequest("net", preferred="rack", balanced=True), as_it_is),
        ("none", None, as_it_is),
    ),
    (
        ("required by key", TopologyRequest(required="rack"), as_it_is),
        ("all near each other", None, near_all),
        ("near the leader", None, near_the_leader),
        ("none", None, as_it_is),
    ),
)
"""Requests, each of which every way to place the tasks with the one before it meets, too."""


def starts_only_with_more(snapshot: Snapshot, actions: str) -> Iterator[str]:
    """Say where a job runs with a strict request, and not with a weaker one."""
    _expect_all_wait(snapshot)
    for requests in FROM_STRICT_TO_WEAK:
        runs_with: list[str] = []
        for name, request, change in requests:
            if lived(with_request(snapshot, request, change), actions)[2]:
                runs_with.append(name)
            elif runs_with:
                yield f"runs with {runs_with[-1]}, and not with {name}"
