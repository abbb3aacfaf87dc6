"""The jobs of a queue waiting for their turn, ranked by need first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from batchsched.state.live_queue import LiveQueue, SortKey
from batchsched.state.needs import Need
from batchsched.state.records import JobState
from batchsched.state.vectors import Vector

__all__ = ["JobsByNeed"]


class JobsByNeed(LiveQueue[JobState]):
    """Jobs of one queue waiting for their turn, ordered by need, and then by job order.

    The rank of a need may change at any time, such as by a placement in another queue, so it is
    computed whenever the next job is requested. Jobs with equal requests have the same rank, so
    it is computed once for all of them.

    Cost: `push` O(log n) amortised; `first` and `pop` O(different requests + log n) amortised;
    `touch` O(1).
    """

    __slots__ = ("_heaps", "_need_key", "_need_of", "_needs")

    def __init__(
        self,
        key: Callable[[JobState], SortKey],
        need_key: Callable[[Need | None], SortKey],
        need_of: Callable[[JobState], Need | None],
        jobs: Iterable[JobState] = (),
    ) -> None:
        """Create the queue.

        Args:
            key: ranks a job; unique.
            need_key: ranks a need, by its job's queue and its request alone.
            need_of: returns what a waiting job needs next.
            jobs: the jobs that wait initially.

        """
        super().__init__(key)
        self._need_key = need_key
        self._need_of = need_of
        self._needs: dict[JobState, Need | None] = {}
        self._heaps: dict[Vector | None, list[tuple[SortKey, JobState]]] = {}
        """Heaps of jobs by request; entries that are not a job's present key are outdated."""
        for job in jobs:
            self.push(job)

    def push(self, item: JobState, /) -> None:
        """Add a job, which must not be waiting here already."""
        item.waits_in = self
        self._enter(item, self._key(item), self._need_of(item))

    def first(self) -> JobState | None:
        """Return the job that is next now, without removing it, or None."""
        if self._touched:
            self._settle()
        best: tuple[SortKey, SortKey] | None = None
        found: JobState | None = None
        for request, heap in list(self._heaps.items()):
            while heap and self._keys.get(heap[0][1]) is not heap[0][0]:
                heappop(heap)
            if not heap:
                del self._heaps[request]
                continue
            key, job = heap[0]
            rank = self._need_key(self._needs[job]), key
            if best is None or rank < best:
                best, found = rank, job
        return found

    def pop(self) -> JobState:
        """Remove and return the job that is next now.

        Raises:
            IndexError: no job is waiting.

        """
        job = self.first()
        if job is None:
            raise IndexError("no job is waiting")
        del self._keys[job], self._needs[job]
        self._touched.pop(job, None)
        return job

    def _settle(self) -> None:
        for job in self._touched:
            key, need = self._key(job), self._need_of(job)
            if key != self._keys[job] or _request(need) != _request(self._needs[job]):
                self._enter(job, key, need)
            else:
                self._needs[job] = need
        self._touched.clear()

    def _enter(self, job: JobState, key: SortKey, need: Need | None) -> None:
        self._keys[job] = key
        self._needs[job] = need
        heappush(self._heaps.setdefault(_request(need), []), (key, job))


def _request(need: Need | None) -> Vector | None:
    return None if need is None else need.request
