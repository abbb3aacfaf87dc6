"""A small language for clusters: requests like "2C2G", nodes, jobs, and running cycles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from batchsched import (
    CycleResult,
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
from batchsched.live import Event, JobArrived, JobRemoved, TaskSucceeded
from tests.support.cycles import Cycles

PLUGINS = ("priority", "gang", "drf", "predicates", "proportion", "nodeorder")

Actions = str | Sequence[str | Mapping[str, Any]]


def amount(text: str) -> Resource:
    """Read a request: "2C2G" is 2 cpu and 2 GiB, "0.5C1G" half a cpu and 1 GiB, "" nothing."""
    if not text:
        return Resource()
    match = re.fullmatch(r"([\d.]+)C([\d.]+)G", text)
    assert match is not None, text
    cpu, memory = match.groups()
    return Resource(milli_cpu=int(float(cpu) * 1000), memory=int(float(memory) * (1 << 30)))


def node(name: str, size: str, **more: Any) -> NodeInfo:
    return NodeInfo(name=name, allocatable=amount(size), **more)


def job(name: str, *requests: str, minimum: int | None = None, **more: Any) -> JobInfo:
    """A job whose tasks, NAME-1, NAME-2, ..., wait; all of them must start together by default.

    A request "1C1G@n1" is a task that runs on n1, "1C1G@n1*" one that is marked as backfill
    there, "1C1G>n1" one that is Reserved there, "1C1G~n1" one that is Pipelined there, "1C1G!n1"
    one that is Releasing there.
    """
    namespace = more.get("namespace", "default")
    priority_class_name = more.pop("priority_class_name", "")
    tasks = []
    for number, text in enumerate(requests, start=1):
        request, kind, place = re.fullmatch(r"([^@>~!]*)([@>~!]?)(.*)", text).groups()
        is_backfill = place.endswith("*")
        tasks.append(
            TaskInfo(
                uid=f"{name}-{number}",
                name=f"{name}-{number}",
                namespace=namespace,
                priority_class_name=priority_class_name,
                resreq=amount(request),
                status={
                    "": TaskStatus.PENDING,
                    "@": TaskStatus.RUNNING,
                    ">": TaskStatus.RESERVED,
                    "~": TaskStatus.PIPELINED,
                    "!": TaskStatus.RELEASING,
                }[kind],
                node_name=place.rstrip("*") or None,
                is_backfill=is_backfill,
            )
        )
    needed = len(tasks) if minimum is None else minimum
    return JobInfo(name=name, **{"queue": "q", "min_available": needed, **more}, tasks=tasks)


def standing(name: str, request: Resource, *statuses: TaskStatus) -> list[TaskInfo]:
    """Tasks NAME-0, NAME-1, ... with these statuses; those that are on a node are on n1."""
    nowhere = (TaskStatus.PENDING, TaskStatus.SUCCEEDED, TaskStatus.FAILED)
    return [
        TaskInfo(
            uid=f"{name}-{i}",
            name=f"{name}-{i}",
            status=status,
            node_name=None if status in nowhere else "n1",
            resreq=request,
        )
        for i, status in enumerate(statuses)
    ]


def created_in_order(jobs: Iterable[JobInfo], start: float = 0) -> list[JobInfo]:
    """The same jobs, created one after the other in the order of their names."""
    ordered = sorted(jobs, key=lambda one: (len(one.name), one.name))
    return [evolve(one, creation_time=start + i / 1000) for i, one in enumerate(ordered)]


def cluster(
    nodes: Iterable[NodeInfo], *jobs: JobInfo, queues: Iterable[str] = ("q",), now: float = 0
) -> Snapshot:
    """A snapshot; jobs that do not say when were created in the order of their names."""
    untimed = created_in_order([one for one in jobs if not one.creation_time])
    timed = [one for one in jobs if one.creation_time]
    return Snapshot(
        nodes=nodes, jobs=[*untimed, *timed], queues=[Queue(name=name) for name in queues], now=now
    )


def action(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


def scheduler(*actions: str | Mapping[str, Any], without: Iterable[str] = ()) -> Scheduler:
    """A scheduler with the plugins of the scenarios, in one tier.

    What allocate has placed for an unready gang holds until the end, unless it is told otherwise.
    """
    plugins = [{"name": name} for name in PLUGINS if name not in without]
    holding = [_holding(given) for given in actions]
    return Scheduler(
        SchedulerConfig.from_mapping({"actions": holding, "tiers": [{"plugins": plugins}]})
    )


def _holding(given: str | Mapping[str, Any]) -> Mapping[str, Any]:
    described = {"name": given} if isinstance(given, str) else given
    if described["name"] != "allocate":
        return described
    return action("allocate", **{"unready": "hold", **described.get("arguments", {})})


def places(result: CycleResult, *jobs: str) -> dict[str, str]:
    """Task to "Status node*" (the star marks backfill), of the jobs named."""
    return {
        uid: outcome.status.value
        + (f" {outcome.node_name}" if outcome.node_name else "")
        + ("*" if outcome.is_backfill else "")
        for uid, outcome in result.tasks.items()
        if not jobs or uid.rsplit("-", 1)[0] in jobs
    }


def bound(result: CycleResult) -> dict[str, str]:
    return {bind.task_uid: bind.node_name for bind in result.binds}


def evicted(result: CycleResult) -> list[str]:
    return [eviction.task_uid for eviction in result.evictions]


class Simulation(Cycles):
    """Cycles on a cluster where tasks end by a table of durations, in steps of time."""

    def __init__(
        self,
        using: Scheduler,
        start: Snapshot,
        *,
        ends: Mapping[str, float] | None = None,
        duration: float | None = None,
        keep_reservations: bool = True,
    ) -> None:
        super().__init__(using, start, keep_reservations=keep_reservations)
        self.ends = dict(ends or {})
        """Task to the time at which it ends, for those that run."""
        self.duration = duration
        """How long tasks run that start later; None: for ever."""
        self.started: dict[str, float] = {}
        """Task to the time of the cycle that bound it."""

    def cycle(self) -> CycleResult:
        """Run one cycle on the cluster as it is."""
        result = super().cycle()
        for bind in result.binds:
            self.started[bind.task_uid] = self.now
            if self.duration is not None:
                self.ends.setdefault(bind.task_uid, self.now + self.duration)
        return result

    def step(
        self,
        *events: Event,
        now: float | None = None,
        new_jobs: Iterable[JobInfo] = (),
        removed_jobs: Iterable[str] = (),
        **carrying: Any,
    ) -> None:
        """Let one second pass (or more): apply the last result, and end what has run its time."""
        time = self.now + 1 if now is None else now
        ended = [uid for uid, end in self.ends.items() if end <= time]
        for uid in ended:
            del self.ends[uid]
        super().step(
            *map(TaskSucceeded, ended),
            *map(JobRemoved, removed_jobs),
            *map(JobArrived, new_jobs),
            *events,
            now=time,
            **carrying,
        )
