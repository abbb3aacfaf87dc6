"""What a policy sees when it decides: jobs, nodes, and the profile of what is free over time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from math import inf, nextafter
from typing import cast

from batchsched.model.cluster import JobInfo, Queue
from batchsched.simulation.books import NodeBook, Pairs, TaskKind, Vector
from batchsched.simulation.checks import JobId, PolicyError
from batchsched.simulation.decisions import Cause, NodeView, RunningJob, WaitingJob
from batchsched.simulation.settings import Reservation
from batchsched.simulation.state import AnyJob, Job, Scratch, SimulationState
from batchsched.simulation.work import CPU

_Places = list[tuple[int, int, int]]
"""Node, kind and number of tasks."""


class _Steps:
    """What is free on a node as a step function of time, from now on."""

    __slots__ = ("decreases", "free", "times")

    def __init__(
        self,
        now: float,
        free: Vector,
        running: Sequence[tuple[float, int]],
        held: dict[int, list[int]],
    ) -> None:
        if running and running[-1][0] == inf:
            running = [each for each in running if each[0] < inf]
        times = self.times = [now, *[end for end, _ in running]]
        self.free = [
            [*accumulate([held[job][place] for _, job in running], initial=amount)]
            for place, amount in enumerate(free)
        ]
        """By dimension: what is free from each time on."""
        self.decreases = False
        """Whether anything is taken, so that less may be free later than before."""
        at_once = nextafter(now, inf)
        for place in range(1, len(times)):
            if times[place] >= at_once:
                break
            times[place] = at_once
        if len({*times}) < len(times):  # of equal times the last counts
            last = [one != other for one, other in pairwise([*times, inf])]
            self.times = [*compress(times, last)]
            self.free = [[*compress(column, last)] for column in self.free]

    def forget_before(self, now: float) -> None:
        """Drop the steps before now."""
        past = bisect_right(self.times, now) - 1
        del self.times[:past]
        for column in self.free:
            del column[:past]
        self.times[0] = now

    def room(self, kind: TaskKind, start: float, end: float, most: int) -> int:
        """Return how many of `most` such tasks fit at every time from start until end."""
        times, free = self.times, self.free
        first = bisect_right(times, start) - 1
        last = bisect_left(times, end, first + 1) if self.decreases else first + 1
        if last == first + 1:
            return kind.room([column[first] for column in free], most)
        return kind.room([min(column[first:last]) for column in free], most)

    def earliest(self, kind: TaskKind, count: int, duration: float) -> float | None:
        """Return the first time from which so many such tasks fit for so long; None: there is none.

        O(steps).
        """
        times, free = self.times, self.free
        if not kind.needs:
            return times[0]
        fit: list[bool] = []
        for place, start, hold in kind.needs:
            enough = map((start + hold * (count - 1)).__le__, free[place])
            fit = [*map(min, fit, enough)] if fit else list(enough)
        fit.append(True)  # so that each search ends
        first = 0
        while (first := fit.index(True, first)) < len(times):
            if not self.decreases:
                return times[first]
            fit[-1] = False
            too_few = fit.index(False, first)
            if too_few == len(times) or times[too_few] >= _end_of(times[first], duration):
                return times[first]
            fit[-1] = True
            first = too_few
        return None

    def take(self, hold: Vector, count: int, start: float, end: float) -> None:
        """Subtract what tasks hold from start until end (negative: put it back)."""
        self.decreases = True
        first = self._step_at(start)
        last = len(self.times) if end == inf else self._step_at(end)
        for amount, column in zip(hold, self.free, strict=True):
            if amount:
                less = amount * count
                column[first:last] = [free - less for free in column[first:last]]

    def _step_at(self, time: float) -> int:
        place = bisect_left(self.times, time)
        if place == len(self.times) or self.times[place] != time:
            self.times.insert(place, time)
            for column in self.free:
                column.insert(place, column[place - 1])
        return place


def _end_of(start: float, duration: float) -> float:
    """Return the end of a run; always after its start."""
    end = start + duration
    return end if end > start else nextafter(start, inf)


class Profile:
    """What is free on nodes over time, less what was taken for jobs.

    Nodes that are down or drained are left out, and those in a reservation closed to other jobs. A
    job that has run longer than expected ends *at once*: directly after now.
    """

    def __init__(self, state: SimulationState) -> None:
        self._state = state
        self._now = state.now
        self._open = state.books.open
        self._free_now = sum([node.free[0] for node in self._open])
        self._limited = state.books.has_limits
        self._reserved = state.books.has_reservations
        self._is_plain = len(self._open) == 1 and not (self._reserved or self._limited)
        """Whether there is one node, and nothing to ask of it but what is free."""
        self._steps: dict[int, _Steps] = {}
        self._tasks: dict[int, int] = {}

    @property
    def free(self) -> int:
        """The processors that are free now, less what was taken from now on."""
        return self._free_now // CPU

    def place(self, job: AnyJob, start: float | None = None) -> Pairs | None:
        """Take places where all tasks that a job needs fit from a time until its expected end.

        What starts now rather goes where it could not stay for ever, what starts later rather
        where it does not fit from now on; among equals, to the first node by name.

        Args:
            job: The job, or its id.
            start: The time; None: now.

        Raises:
            PolicyError: The time has passed.
        """
        if start is not None and start < self._now:
            raise self._state.wrong(f"asked for places at {start:,} s")
        found = self._place(self._state.job_of(job), self._now if start is None else start)
        return None if found is None else self._state.pairs(found)

    def earliest(self, job: AnyJob, before: float = inf) -> tuple[float, Pairs] | None:
        """Take places at the first moment at which there are any; None: there are none before.

        Args:
            job: The job, or its id.
            before: Only moments before this time.

        Returns:
            The moment, and the places.
        """
        record = self._state.job_of(job)
        shape = record.shape
        if self._is_plain and len(shape.needed) == 1:
            [node], [(kind, count)] = self._open, shape.needed
            if not shape.kinds[kind].accepts(node):
                return None
            moment = self._of(node).earliest(shape.kinds[kind], count, record.duration)
            if moment is None or moment >= before:
                return None
            end = _end_of(moment, record.duration)
            self._take(record, node.index, kind, count, moment, end)
            return moment, ((node.info.name, count),)
        for moment in self._moments():
            if moment >= before:
                break
            places = self._place(record, moment)
            if places is not None:
                return moment, self._state.pairs(places)
        return None

    def take(self, job: AnyJob, start: float, places: Pairs) -> bool:
        """Take these places from a time on, if all of them are free; return whether they were."""
        record = self._state.job_of(job)
        end = _end_of(start, record.duration)
        taken: _Places = []
        for node, kind_index, count in self._state.counted(record, places):
            kind, book = record.shape.kinds[kind_index], self._state.books.nodes[node]
            if (
                not book.in_service
                or book.drained
                or book.is_closed(record.index, start, end)
                or self._of(book).room(kind, start, end, count) < count
            ):
                self._put_back(record, taken, start, end)
                return False
            self._take(record, node, kind_index, count, start, end)
            taken.append((node, kind_index, count))
        return True

    def give(self, job: AnyJob, start: float, places: Pairs, end: float | None = None) -> None:
        """Undo `place`, `earliest` or `take`; or give back what a job held until its end.

        Args:
            job: The job, or its id.
            start: From when on; not before now.
            places: The places.
            end: Until when. None: for as long as the job would run.
        """
        record = self._state.job_of(job)
        counted = self._state.counted(record, places)
        if end is None:
            end = _end_of(start, record.duration)
        else:  # what was not looked at yet is seen as it is now
            counted = [each for each in counted if each[0] in self._steps]
        self._put_back(record, counted, start, end)

    def move_on(self, started: Iterable[JobId] = ()) -> bool:
        """Go on to the time of the next pass; return whether the profile is right there.

        It is, unless jobs run longer than expected, if no more has happened than that jobs arrived,
        that these started where they were taken, and that jobs ended when expected, or were given
        back here.
        """
        state = self._state
        now = self._now = state.now
        if self._limited or (state.running and state.running[0][0] <= now):
            return False
        for each in started:
            job = state.job_of(each)
            if job.start is None or job.expected != _end_of(job.start, job.duration):
                return False
        self._free_now = 0
        for node in self._open:
            steps = self._steps.get(node.index)
            if steps is not None:
                steps.forget_before(now)
            self._free_now += node.free[0] if steps is None else steps.free[0][0]
        return True

    def _of(self, node: NodeBook) -> _Steps:
        steps = self._steps.get(node.index)
        if steps is None:
            running, held, jobs = self._state.running, node.held, self._state.jobs
            if len(held) < len(running):
                records = [job for index in held if (job := jobs[index]) is not None]
                running = sorted([(job.expected, job.index) for job in records])
            steps = self._steps[node.index] = _Steps(self._now, node.free, running, held)
        return steps

    def _place(self, job: Job, start: float) -> _Places | None:
        if start == self._now and job.shape.cpu > self._free_now:
            return None
        end = _end_of(start, job.duration)
        taken: _Places = []
        for kind, count in job.shape.needed:
            found = self._rooms(job, job.shape.kinds[kind], count, start, end)
            if found is None:
                self._put_back(job, taken, start, end)
                return None
            for node, some in found:
                self._take(job, node.index, kind, some, start, end)
                taken.append((node.index, kind, some))
        return taken

    def _rooms(
        self, job: Job, kind: TaskKind, count: int, start: float, end: float
    ) -> list[tuple[NodeBook, int]] | None:
        """Return nodes for tasks that are alike, and how many go to each; None: no room."""
        now = self._now
        found: list[tuple[NodeBook, int]] = []
        later: list[tuple[NodeBook, int]] = []
        is_alone = len(self._open) == 1
        for node in self._open:
            if not kind.accepts(node):
                continue
            if node.reservations and node.is_closed(job.index, start, end):
                continue
            steps = self._steps.get(node.index) or self._of(node)
            room = steps.room(kind, start, end, count)
            limit = node.info.max_tasks
            if room and limit is not None:
                room = min(room, limit - self._tasks.get(node.index, node.tasks))
            if room <= 0:
                continue
            stays = not is_alone and steps.room(kind, now, inf, 1) > 0
            if stays and not (node.reservations and node.is_closed(job.index, now, inf)):
                later.append((node, room))  # it fits from now on, for ever
                continue
            if room >= count:
                found.append((node, count))
                return found
            found.append((node, room))
            count -= room
        for node, room in later:
            found.append((node, min(room, count)))
            count -= room
            if count <= 0:
                return found
        return None

    def _take(self, job: Job, node: int, kind: int, count: int, start: float, end: float) -> None:
        hold = job.shape.kinds[kind].hold
        self._steps[node].take(hold, count, start, end)
        if start == self._now:
            self._free_now -= hold[0] * count
        if self._limited:
            there = self._state.books.nodes[node].tasks
            self._tasks[node] = self._tasks.get(node, there) + count

    def _put_back(self, job: Job, places: _Places, start: float, end: float) -> None:
        for node, kind, count in places:
            self._take(job, node, kind, -count, start, end)

    def _moments(self) -> list[float]:
        """Return now, and the times at which more becomes free, ascending."""
        found = {self._now}
        for node in self._open:
            found.update(self._of(node).times)
            found.update(end for _, end, _ in node.reservations if end > self._now)
        return sorted(found)


class View:
    """The state that a policy decides on: jobs, nodes, and what has happened since the last pass.

    It is valid during the pass alone, and shows the state before what the policy decides in it.
    Lists are made when they are asked for.
    """

    def __init__(
        self,
        state: SimulationState,
        order: Callable[[WaitingJob, float], object] | None,
        causes: tuple[Cause, ...],
    ) -> None:
        self.now = state.now
        """The time, in seconds on the clock of the workload."""
        self.causes = causes
        """What has happened since the last pass, in order."""
        self._state = state
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
        return self._state.seen(self._state.job_of(each))

    def info(self, job: AnyJob) -> JobInfo:
        """Return a job as the scheduler sees it, with the simulator's names and UIDs."""
        return self._state.info_of(self._state.job_of(job))

    def safe_until(self, job: AnyJob) -> float | None:
        """Return until when a job has done what it would keep if it were stopped now.

        In seconds on the clock of the workload, at the rate at which it works now. None: it would
        keep nothing, or does not work.
        """
        return self._state.safe_until(self._state.job_of(job))

    def is_enough(self, job: AnyJob, uids: Collection[str]) -> bool:
        """Return whether these tasks are all that a job needs to run, by their UIDs."""
        return self._state.is_enough(self._state.job_of(job), uids)

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
        state, record = self._state, self._state.job_of(job)
        end = self.now + record.duration
        count = record.shape.need if tasks is None else tasks
        is_open = state.is_open_until(record, end)
        found = state.first_fit(record.shape, count, self._scratch, is_open)
        return None if found is None else state.pairs(found)

    def give(self, job: AnyJob, places: Pairs) -> None:
        """Offer places to the next calls of `place`: undo one, or offer what a job holds."""
        state, record = self._state, self._state.job_of(job)
        holding = record.holding
        if holding is not None and holding.mapping is not None and places == holding.places:
            counted = [(node, kind, count) for (node, kind), count in holding.counts.items()]
        else:
            counted = state.counted(record, places)
        state.give(record.shape, counted, self._scratch)

    def take(self, job: AnyJob, places: Pairs) -> bool:
        """Take these places, if all of them are free for the job; return whether they were."""
        state, record = self._state, self._state.job_of(job)
        counted = state.counted(record, places)
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
        record = self._state.job_of(job)
        is_open = self._state.is_open_until(record, self.now + record.duration)
        return tuple([is_open(node) for node in self._state.books.nodes])

    def named(self, places: Iterable[tuple[int, int]]) -> Pairs:
        """Return places with the names of nodes instead of their numbers."""
        return self._state.books.named_places(places)

    def profile(self) -> Profile:
        """Return what is free over time, if jobs end when expected. O(running jobs)."""
        return Profile(self._state)


def usual_places(view: View, job: WaitingJob) -> Pairs | None:
    """Take places for a job with the placement of the policy; None: there are none."""
    state = view._state  # pyright: ignore[reportPrivateUsage]
    if state.nodes is None:
        return view.place(job)
    if job.processors > view.free:
        return None
    record = state.job_of(job)
    return state.choose(
        record, state.nodes, state.is_open_until(record, view.now + record.duration)
    )
