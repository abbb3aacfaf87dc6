"""A small language for jobs with groups: tasks of one cpu, by group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
)

STATUS_OF = {
    "P": TaskStatus.PENDING,
    "R": TaskStatus.RUNNING,
    "S": TaskStatus.SUCCEEDED,
    "F": TaskStatus.FAILED,
    "B": TaskStatus.BOUND,
    "L": TaskStatus.RELEASING,
}


def one_cpu_each(
    job: str, of: Mapping[str | None, str], nodes: Mapping[str, str] | None = None
) -> list[TaskInfo]:
    """Tasks by group: "RRP" are two that run and one that waits, on node n unless `nodes` says."""
    tasks = []
    for group, statuses in of.items():
        for number, letter in enumerate(statuses):
            uid = f"{job}-{number}" if group is None else f"{job}-{group}-{number}"
            where = (nodes or {}).get(uid, "n") if letter in "RBL" else None
            tasks.append(
                TaskInfo(
                    uid=uid,
                    name=uid,
                    group=group,
                    status=STATUS_OF[letter],
                    node_name=where,
                    resreq=Resource(milli_cpu=1000),
                )
            )
    return tasks


def elastic(
    name: str,
    of: Mapping[str | None, str],
    nodes: Mapping[str, str] | None = None,
    **more: Any,
) -> JobInfo:
    return JobInfo(name=name, **{"queue": "a", **more}, tasks=one_cpu_each(name, of, nodes))


def room(cpus: int, jobs: Iterable[JobInfo], queues: Iterable[str] = ("a", "b")) -> Snapshot:
    """One node, n, of so many cpus."""
    size = Resource(milli_cpu=1000 * cpus)
    return Snapshot(
        nodes=[NodeInfo(name="n", allocatable=size)],
        jobs=jobs,
        queues=[Queue(name=name) for name in queues],
    )


def configuration(
    *actions: object, shares: str = "capacity", at_minimum: str = "whole-job"
) -> dict[str, object]:
    drf: dict[str, object] = {"name": "drf"}
    if shares == "capacity":
        drf["enablePreemptable"] = False
    gang = {"name": "gang", "arguments": {"atMinimum": at_minimum}}
    tiers = [
        {"plugins": [{"name": "priority"}, gang, {"name": "conformance"}]},
        {"plugins": [drf, *({"name": n} for n in ("predicates", shares, "nodeorder"))]},
    ]
    return {"actions": list(actions), "tiers": tiers}


def scheduler(*actions: object, **more: str) -> Scheduler:
    return Scheduler(SchedulerConfig.from_mapping(configuration(*actions, **more)))
