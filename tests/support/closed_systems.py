"""Closed systems under twenty configurations: nothing arrives or ends but by what is decided.

`run` lets a cluster live until it comes to rest, and returns what went wrong on the way: loops,
evictions that were in vain, nodes or queues with more than they may have, and living cycles that
are not those from scratch. `python -m tests.support.closed_systems [WORLDS [FIRST]]` runs all
configurations over that many worlds and prints what it found; the tests run some.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from attrs import field, mutable
from hypothesis import HealthCheck, Phase, given, settings

from batchsched import CycleResult, Scheduler, SchedulerConfig, Snapshot
from batchsched.testing import InvariantViolation, snapshots, without_times
from tests.plugins.capacity.worlds import troubled
from tests.support.cycles import Cycles
from tests.support.invariants import check_cycle

CYCLES = 60
"""How many cycles a system may take to come to rest."""
RECLAIM_FIRST = "reclaim allocate preempt backfill"


def configuration(
    order: str = RECLAIM_FIRST,
    *,
    share: Mapping[str, Any] | str | None = "capacity",
    at_minimum: str = "whole-job",
    drf: bool = False,
    more: Sequence[str] = (),
    **arguments: Mapping[str, Any],
) -> dict[str, Any]:
    """Actions with arguments by name, and plugins; the last says who judges in preempt."""
    plugins: list[Any] = [
        "priority",
        {"name": "gang", "arguments": {"atMinimum": at_minimum}},
        "conformance",
        *more,
        *([{"name": "drf", "enablePreemptable": False}] if drf else []),
        *("predicates", share, "nodeorder"),
    ]
    actions = [{"name": name, "arguments": arguments.get(name, {})} for name in order.split()]
    return {"actions": actions, "tiers": [{"plugins": [each for each in plugins if each]}]}


def capacity(**arguments: Any) -> dict[str, Any]:
    return {"name": "capacity", "arguments": arguments}


CONFIGURATIONS: Mapping[str, Mapping[str, Any]] = {
    "as it comes": {"actions": "reclaim, allocate, preempt, backfill"},
    "as it comes, preempt first": {"actions": "allocate, preempt, reclaim, backfill"},
    "capacity": configuration(),
    "gangs protected": configuration(at_minimum="protect"),
    "level": configuration(share=capacity(level=True)),
    "tolerance": configuration(share=capacity(tolerance=0.1)),
    "graded": configuration(share=capacity(order="graded")),
    "drf orders": configuration(drf=True),
    "curable": configuration(reclaim={"curable": True}, preempt={"curable": True}),
    "displace": configuration(allocate={"unready": "hold"}, backfill={"strategy": "displace"}),
    "release": configuration(
        allocate={"evictBackfill": True}, backfill={"strategy": "release"}, at_minimum="protect"
    ),
    "release whole": configuration(
        allocate={"evictBackfill": True}, backfill={"strategy": "release"}
    ),
    "reserve": configuration(
        "reclaim allocate preempt reserve backfill", reserve={"starvingJobTimeThreshold": 3}
    ),
    "usage": configuration(more=["usage"]),
    "in order": configuration(more=["fcfs"]),
    "allocate first": configuration("allocate reclaim preempt backfill"),
    "allocate last": configuration("reclaim preempt allocate backfill"),
    "preempt first": configuration("allocate preempt reclaim backfill"),
    "proportion": configuration(share="proportion"),
    "proportion, preempt first": configuration(
        "allocate preempt reclaim backfill", share="proportion", drf=True
    ),
}


def reclaims_first(name: str) -> bool:
    """Whether a configuration has reclaim before preempt."""
    actions = [action.name for action in scheduler(name).config.actions]
    return actions.index("reclaim") < actions.index("preempt")


@lru_cache
def scheduler(name: str) -> Scheduler:
    return Scheduler(SchedulerConfig.from_mapping(CONFIGURATIONS[name]))


DRAWN = snapshots(
    max_nodes=3,
    max_queues=5,
    min_jobs=4,
    always=["running", "queues", "gangs", "crowded"],
    constraints=False,
    affinity=False,
    init_requests=False,
    unknown_queues=False,
    dependencies=False,
    durations=False,
)


@lru_cache
def worlds(count: int, first: int = 0) -> tuple[Snapshot, ...]:
    """Half of them full trees, the other half what the kit draws."""
    found: list[Snapshot] = []

    @settings(
        max_examples=count - count // 2,
        phases=[Phase.generate],
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(DRAWN)
    def collect(snapshot: Snapshot) -> None:
        found.append(snapshot)

    collect()
    return (*map(troubled, range(first, first + count // 2)), *found)


@mutable
class History:
    """What happened in a closed system until it came to rest."""

    scheduler: Scheduler
    living: Cycles
    faults: list[str] = field(factory=list[str])
    evictions: int = 0
    in_vain: list[str] = field(factory=list[str])
    """Evictions whose claimants did not start when those evicted with them had left, though no
    more important job of their queues got a place then."""
    undone: list[str] = field(factory=list[str])
    """Preemptions whose claimants were evicted by a claim in the same cycle or the next two.

    What was claimed may be preempted later, by a job of a higher priority that may not claim.
    """
    _open: dict[str, int] = field(factory=dict[str, int])
    """Claimant to the cycle in which others were evicted for it last."""
    _states: list[Snapshot] = field(factory=list[Snapshot])
    evicting: list[int] = field(factory=list[int])
    """The cycles that evicted."""

    def cycle(self, number: int) -> bool:
        """Run a cycle; return whether the system is at rest."""
        before = self.living.snapshot
        state = without_times(before)
        if state in self._states[:-1] and self._came_back_to(state):
            return True
        self._states.append(state)
        result = self.living.cycle()
        if result != self.scheduler.schedule(before):
            self.faults.append(f"cycle {number}: living decides otherwise")
        self.faults += [
            f"cycle {number}: {fault}"
            for fault in oversubscribed(before, result, self.scheduler.config)
        ]
        self._follow(number, result)
        self.living.step()
        return without_times(self.living.snapshot) == state and not self.living.leaves

    def _came_back_to(self, state: Snapshot) -> bool:
        when = self._states.index(state)
        if any(cycle >= when for cycle in self.evicting):
            self.faults.append(f"loop: cycle {len(self._states)} is as cycle {when} was")
            return True
        return False

    def _follow(self, number: int, result: CycleResult) -> None:
        started = {bind.task_uid for bind in result.binds}
        job_of = {task.uid: job for job in self.living.snapshot.jobs for task in job.tasks}
        gained = [job_of[uid] for uid in (*started, *(each.task_uid for each in result.pipelined))]
        for claimant, when in list(self._open.items()):
            if claimant in started:
                del self._open[claimant]
            elif number > when:
                mine = job_of[claimant]
                if not any(j.queue == mine.queue and j.priority > mine.priority for j in gained):
                    self.in_vain.append(f"cycle {when}, for {claimant}")
                del self._open[claimant]
        gone = {eviction.task_uid for eviction in result.evictions}
        claimed = {e.task_uid for e in result.evictions if e.action == "reclaim"}
        self.undone += [f"cycle {number}: {uid}" for uid in sorted(claimed & self._recent(number))]
        self.evictions += len(gone)
        if gone:
            self.evicting.append(number)
        for eviction in result.evictions:
            self._open[eviction.for_task_uid] = number
            if eviction.action == "preempt":
                self._preempted[eviction.for_task_uid] = number

    _preempted: dict[str, int] = field(factory=dict[str, int])
    """Claimant to the cycle in which others were preempted for it last, started or not."""

    def _recent(self, number: int) -> set[str]:
        return {uid for uid, when in self._preempted.items() if number - when <= 2}


def oversubscribed(before: Snapshot, result: CycleResult, config: SchedulerConfig) -> Iterator[str]:
    """What nodes or queues have beyond what they may, and had not before."""
    try:
        check_cycle(before, result, config, invariants=["capacity", "starts"])
    except InvariantViolation as violation:
        yield f"{violation.invariant}: {violation.problem}"
    placed = {uid for uid, outcome in result.tasks.items() if outcome.status.charged}
    waiting = {
        task.uid: job.queue
        for job in before.jobs
        for task in job.tasks
        if not task.status.charged and task.uid in placed
    }
    for name in set(waiting.values()):
        path: str | None = name
        while path is not None:
            queue = result.queues.get(path)
            if queue is None:
                break
            if queue.limit is not None:
                for dimension, most in queue.limit.dimensions():
                    if queue.allocated.get(dimension) > most and grown(
                        before, result, path, dimension
                    ):
                        yield f"queue {path!r} has more than its limit of {dimension}"
            path = queue.parent


def grown(before: Snapshot, result: CycleResult, queue: str, dimension: str) -> bool:
    """Whether a queue holds more than before the cycle."""
    above = {each.name: each.parent for each in before.queues}

    def is_below(name: str | None) -> bool:
        while name is not None and name != queue:
            name = above.get(name)
        return name == queue

    held = sum(
        task.resreq.get(dimension)
        for job in before.jobs
        if is_below(job.queue)
        for task in job.tasks
        if task.status.charged and not task.is_backfill
    )
    return result.queues[queue].allocated.get(dimension) > held


def run(name: str, snapshot: Snapshot) -> History:
    """Let a cluster live under a configuration until it comes to rest."""
    history = History(scheduler(name), Cycles(scheduler(name), snapshot))
    for number in range(CYCLES):
        if history.cycle(number):
            return history
    if any(cycle >= CYCLES // 2 for cycle in history.evicting):
        history.faults.append(f"evicts still after {CYCLES // 2} cycles")
    return history


def main(count: int, first: int) -> None:
    total = Counter[str]()
    for name in CONFIGURATIONS:
        found = Counter[str]()
        for number, snapshot in enumerate(worlds(count, first)):
            history = run(name, snapshot)
            found.update(evictions=history.evictions, worlds=1, evicting=history.evictions > 0)
            for kind in ("faults", "in_vain", "undone"):
                lines: list[str] = getattr(history, kind)
                found[kind] += len(lines)
                for line in lines[:1]:
                    print(f"  {name}, world {number}: {kind}: {line[:300]}", flush=True)
        print(name, dict(found), flush=True)
        total.update(found)
    print("all", dict(total))


if __name__ == "__main__":
    numbers = [int(given) for given in sys.argv[1:]]
    main(numbers[0] if numbers else 300, numbers[1] if len(numbers) > 1 else 0)
