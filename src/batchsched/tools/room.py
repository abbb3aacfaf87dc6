"""Whether any job that waits could have what it needs: if not, `forecast` runs no cycle.

The plain definition is to run a cycle at each moment. On a cluster of 500 nodes with 2,000 running
and 200 waiting jobs, four of five cycles start nothing for want of room, and a future takes a
quarter of the time without them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.model.resources import Resource, sum_resources
from batchsched.transition.content import Content

_PLENTY = 10**9
"""How many tasks fit on a node that request nothing."""
_HARMLESS = {"allocate": {"unready", "retry"}, "backfill": {"nodeChoice"}}
"""The actions that only ever start what there is room for, and with which arguments."""


def only_starts(config: SchedulerConfig) -> bool:
    """Return whether a configuration does nothing but start tasks for which there is room."""
    return all(
        set(action.arguments) <= _HARMLESS.get(action.name, set()) and action.name in _HARMLESS
        for action in config.actions
    )


class Room:
    """A bound: what is idle on the nodes, beside what each job needs at least to start anything.

    It knows requests alone. What else keeps tasks from nodes or queues makes room smaller, so that
    a cycle starts nothing where it sees none.
    """

    def __init__(self, content: Content, *, with_gangs: bool) -> None:
        """Look at the whole cluster. O(size).

        Args:
            content: the cluster. `look_at` says what has changed in it.
            with_gangs: whether a job starts nothing before it has its minimum.

        """
        self._content = content
        self._with_gangs = with_gangs
        self._needs: dict[str, tuple[Resource, int]] = {}
        """The least that a task of a job requests, and how many of these it needs; by job."""
        self._jobs: dict[Resource, Counter[int]] = {}
        """How many jobs need how many tasks, by request."""
        self._slots: dict[Resource, dict[str, int]] = {}
        """How many tasks with a request fit on each node; and on all, below."""
        self._all_slots: dict[Resource, int] = {}
        self._idle: dict[str, tuple[Resource, Resource]] = {}
        """What each node has, and what is held of it: it may be more."""
        self.look_at(content.jobs, content.nodes)

    def look_at(self, jobs: Iterable[str], nodes: Iterable[str]) -> None:
        """Follow changes of jobs and of what is on nodes. O(tasks on these + requests x nodes)."""
        content = self._content
        for name in nodes:
            tasks = (content.tasks[uid] for uid in content.on_node.get(name, ()))
            held = sum_resources(task.resreq for task in tasks if task.status.holds)
            idle = self._idle[name] = content.nodes[name].allocatable, held
            for request, slots in self._slots.items():
                now = _slots(request, idle)
                self._all_slots[request] += now - slots[name]
                slots[name] = now
        for uid in jobs:
            self._look_at_job(uid)

    def _look_at_job(self, uid: str) -> None:
        before, now = self._needs.pop(uid, None), self._need(uid)
        if before is not None:
            counts = self._jobs[before[0]]
            counts[before[1]] -= 1
            if not counts[before[1]]:
                del counts[before[1]]
        if now is None:
            return
        request, count = self._needs[uid] = now
        self._jobs.setdefault(request, Counter())[count] += 1
        if request not in self._slots:
            slots = {name: _slots(request, idle) for name, idle in self._idle.items()}
            self._slots[request], self._all_slots[request] = slots, sum(slots.values())

    def _need(self, uid: str) -> tuple[Resource, int] | None:
        """Return what a job needs at least to start anything; None: nothing of it may start."""
        content = self._content
        job = content.jobs.get(uid)
        if job is None or job.holds:
            return None
        tasks = [content.tasks[task] for task in content.members[uid]]
        waiting = [task for task in tasks if task.status.to_place and not task.holds]
        if not waiting:
            return None
        least = waiting[0].start_request
        for task in waiting:
            if task.start_request is not least:
                least = least.min_with(task.start_request)
        ready = sum(task.status.ready for task in tasks) if self._with_gangs else job.min_available
        return least, max(job.min_available - ready, 1)

    def may_start(self) -> bool:
        """Return whether there may be room for some job. O(requests)."""
        return any(
            counts and self._all_slots[request] >= min(counts)
            for request, counts in self._jobs.items()
        )


def _slots(request: Resource, idle: tuple[Resource, Resource]) -> int:
    """Return how many tasks with a request fit in what is not held of a node."""
    there, held = idle
    fit = [
        int(max(there.get(dimension) - held.get(dimension), 0) // amount)
        for dimension, amount in request.dimensions()
        if amount > 0
    ]
    return min(fit, default=_PLENTY)
