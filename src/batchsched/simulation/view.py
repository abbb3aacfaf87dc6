"""What a policy sees when it decides: the waiting and running jobs, the nodes, and the profile."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from batchsched.model.cluster import JobInfo, Queue
from batchsched.simulation.books import Pairs
from batchsched.simulation.checks import JobId, PolicyError
from batchsched.simulation.decisions import Cause, NodeView, RunningJob, WaitingJob
from batchsched.simulation.incidents import Reservation
from batchsched.simulation.profile import Profile
from batchsched.simulation.state import AnyJob, Job, Scratch, SimulationState


class View:
    """The state that a policy decides on: jobs, nodes, and what has happened since the last pass.

    It is valid during the pass alone, and shows the state before what the policy decides in it.
    Lists are made when they are asked for.
    """

    def __init__(
        self,
        state: SimulationState,
        who: str,
        order: Callable[[WaitingJob, float], object] | None,
        causes: tuple[Cause, ...],
    ) -> None:
        self.now = state.now
        """The time, in seconds on the clock of the workload."""
        self.causes = causes
        """What has happened since the last pass, in order."""
        self._state = state
        self._who = who
        self._order = order
        self._scratch: Scratch = {}
        self._waiting: tuple[WaitingJob, ...] | None = None
        self._running: tuple[RunningJob, ...] | None = None

    @property
    def waiting(self) -> tuple[WaitingJob, ...]:
        """The waiting jobs: in the order of the policy, equal ones in order of arrival."""
        if self._waiting is None:
            order, now = self._order, self.now
            jobs = self._state.queue
            if order is None:
                self._waiting = tuple(jobs)
            else:  # what is returned can be compared, or the pass fails
                key = cast("Callable[[WaitingJob, float], int]", order)
                self._waiting = tuple(sorted(jobs, key=lambda job: key(job, now)))
        return self._waiting

    @property
    def running(self) -> tuple[RunningJob, ...]:
        """The jobs that hold resources, in order of their expected ends, unknown ones last."""
        if self._running is None:
            state = self._state
            jobs = [state.jobs[index] for _, index in state.running]
            self._running = tuple([state.seen_running(job) for job in jobs if job is not None])
        return self._running

    @property
    def is_late(self) -> bool:
        """Whether a running job runs longer than expected."""
        running = self._state.running
        return bool(running) and running[0][0] <= self.now

    @property
    def nodes(self) -> tuple[NodeView, ...]:
        """The nodes in order of name."""
        books = self._state.books
        return tuple(
            NodeView(
                name=node.info.name,
                info=node.info,
                free=books.resource(node.free),
                in_service=node.in_service,
                drained=node.drained,
            )
            for node in books.nodes
        )

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """All reservations of the simulation."""
        return self._state.reservations

    @property
    def queues(self) -> Mapping[str, Queue]:
        """The queues that were set by `QueueSet` so far, by name."""
        return {name: each.queue for name, each in self._state.queues_set.items()}

    @property
    def processors(self) -> int:
        """The number of processors of the machine."""
        return self._state.machine.processors

    @property
    def free(self) -> int:
        """The number of free processors, or whole free cpus, of the nodes that take jobs."""
        return self._state.books.free_processors()

    def free_at(self, processors: int) -> tuple[float, int]:
        """Return when `processors` will be free if nothing else starts, and how many more then.

        In terms of EASY: the shadow time and the extra processors. Jobs that run longer than
        expected are assumed to end now.

        Raises:
            PolicyError: The machine has fewer processors, or expected ends are unknown.
        """
        free = self.free
        if processors <= free:
            return self.now, free - processors
        when: float | None = None
        for job in self.running:
            if job.expected_end is None:
                raise PolicyError("free_at needs expected ends: give the policy a predictor")
            at = max(job.expected_end, self.now)
            if when is not None and at > when:
                break
            free += job.processors
            if when is None and free >= processors:
                when = at
        if when is None:
            raise PolicyError(
                f"expected at most {self.processors} processors, the machine's, got {processors}"
            )
        return when, free - processors

    def job(self, each: JobId) -> WaitingJob:
        """Return what is known of a job that has arrived, by its id."""
        return self._state.seen(self._job(each))

    def info(self, job: AnyJob) -> JobInfo:
        """Return a job as the scheduler sees it, with the simulator's names and UIDs."""
        return self._state.info_of(self._job(job))

    def is_enough(self, job: AnyJob, uids: Collection[str]) -> bool:
        """Return whether these tasks are all that a job needs to run, by their UIDs."""
        return self._state.is_enough(self._job(job), uids)

    def place(self, job: AnyJob, tasks: int | None = None) -> Pairs | None:
        """Take free places for a job, the first that fit in order of the nodes' names.

        A second call sees what the first took; `nodes` and `free` do not change. Nodes that a
        reservation needs before the job is expected to end are passed by.

        Args:
            job: The job, or its id.
            tasks: How many tasks. None: as many as it needs.

        Returns:
            Pairs of a node and a number of tasks; None if not all of them fit.
        """
        state, record = self._state, self._job(job)
        end = self.now + record.duration
        count = record.shape.need if tasks is None else tasks
        is_open = state.is_open_until(record, end)
        found = state.first_fit(record.shape, count, self._scratch, is_open)
        return None if found is None else state.pairs(found)

    def give(self, job: AnyJob, places: Pairs) -> None:
        """Offer places to the next calls of `place`: undo one, or offer what a job holds."""
        state, record = self._state, self._job(job)
        holding = record.holding
        if holding is not None and holding.mapping is not None and places == holding.places:
            counted = [(node, kind, count) for (node, kind), count in holding.counts.items()]
        else:
            counted = state.counted(record, places, self._who)
        state.give(record.shape, counted, self._scratch)

    def take(self, job: AnyJob, places: Pairs) -> bool:
        """Take these places, if all of them are free for the job; return whether they were."""
        state, record = self._state, self._job(job)
        counted = state.counted(record, places, self._who)
        end = self.now + record.duration
        is_open, before = state.is_open_until(record, end), dict(self._scratch)
        for index, kind_index, count in counted:
            node, kind = state.books.nodes[index], record.shape.kinds[kind_index]
            free, tasks = self._scratch.get(index) or (node.free, node.tasks)
            if not is_open(node) or node.room(kind, free, tasks, count) < count:
                self._scratch = before
                return False
            state.give(record.shape, [(index, kind_index, -count)], self._scratch)
        return True

    def open_nodes(self, job: AnyJob) -> tuple[bool, ...]:
        """Return whether each node takes the job from now until its expected end."""
        record = self._job(job)
        is_open = self._state.is_open_until(record, self.now + record.duration)
        return tuple([is_open(node) for node in self._state.books.nodes])

    def named(self, places: Iterable[tuple[int, int]]) -> Pairs:
        """Return places with the names of nodes instead of their numbers."""
        nodes = self._state.books.nodes
        return tuple([(nodes[node].info.name, count) for node, count in places])

    def profile(self) -> Profile:
        """Return what is free over time, if jobs end when expected. O(running jobs)."""
        return Profile(self._state, self._who)

    def _job(self, job: AnyJob) -> Job:
        return self._state.job_of(job)
