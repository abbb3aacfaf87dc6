"""The plugin usage: queues and users with less use come first, and get more of the surplus."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, log

from batchsched import JobInfo, Queue, Resource, TaskInfo
from tests.reference.conf import Arguments
from tests.reference.plugins import Plugin, compare
from tests.reference.shares import CHARGED, cluster_total
from tests.reference.state import State, total_of

__all__ = ["Usage"]

A_WEEK = 7 * 24 * 3600
PARTS = 10**6


class Usage(Plugin):
    """Past use, of which older counts less, and what is held now."""

    def __init__(self, state: State, arguments: Arguments) -> None:
        self._state = state
        self._half_life = arguments.number("halfLife", A_WEEK)
        self._k = arguments.number("k", 1)
        self._by_users = arguments.word("scope", ("queues", "users")) == "users"
        self._total = cluster_total(state)

    def weights(self, siblings: Sequence[Queue], dimension: str) -> list[int]:
        """Return the weights by which siblings share a surplus, corrected by their past use."""
        given = [queue.weight for queue in siblings]
        past = [
            self._past(queue, queue.usage, dimension) if queue.weight else 0.0 for queue in siblings
        ]
        if not (self._k and sum(given) and sum(past)):
            return given
        found: list[int] = []
        for weight, use in zip(given, past, strict=True):
            part = weight / sum(given)
            owed = max(0.0, part + self._k * (part - use / sum(past))) if weight else 0.0
            found.append(round(PARTS * owed))
        return found if any(found) else given

    def key(self, queue: Queue, need: Sequence[TaskInfo]) -> float:
        """Rank a queue among its siblings, by the dimensions of the next need below it."""
        asked = total_of(task.resreq for task in need if not self._state.is_backfill(task))
        if not self._k:
            return 0.0
        names = [name for name, amount in asked.dimensions() if amount > 0]
        use = self._largest(queue, queue.usage, self._below(queue), names)
        if not use:
            return 0.0
        return use / queue.weight if queue.weight else inf

    def job_order(self, left: JobInfo, right: JobInfo) -> int:
        """Put the job of the user with less use of the queue first."""
        return compare(self._of_user(left), self._of_user(right)) if self._by_users else 0

    def _of_user(self, job: JobInfo) -> float:
        queue = next(queue for queue in self._state.snapshot.queues if queue.name == job.queue)
        jobs = [
            other
            for other in self._state.snapshot.jobs
            if (other.queue, other.user) == (job.queue, job.user)
        ]
        names = [name for name, _ in self._total.dimensions()]
        return self._largest(queue, queue.usage_by_user.get(job.user, Resource()), jobs, names)

    def _below(self, queue: Queue) -> list[JobInfo]:
        above = {each.name: each.parent for each in self._state.snapshot.queues}

        def is_below(name: str | None) -> bool:
            return name == queue.name or (name in above and is_below(above[name]))

        return [job for job in self._state.snapshot.jobs if is_below(job.queue)]

    def _largest(
        self, queue: Queue, usage: Resource, jobs: Iterable[JobInfo], names: Iterable[str]
    ) -> float:
        """Return the largest part of the cluster: of what was used, and what jobs hold now."""
        held = total_of(
            task.resreq
            for job in jobs
            for task in job.tasks
            if self._state.status(task) in CHARGED and not self._state.is_backfill(task)
        )
        return max(
            (
                self._past(queue, usage, name) + held.get(name) / self._total.get(name)
                for name in names
                if self._total.get(name)
            ),
            default=0.0,
        )

    def _past(self, queue: Queue, usage: Resource, name: str) -> float:
        """Return past use as a part of the cluster, averaged over time."""
        there = self._total.get(name)
        if not there:
            return 0.0
        half_life = queue.usage_half_life or self._half_life
        return float(usage.get(name)) * log(2) / (float(there) * half_life)
