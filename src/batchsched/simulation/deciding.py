"""Policies of one's own: a function of what waits and what runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from attrs import frozen

from batchsched.simulation.outcome import Outcome
from batchsched.simulation.policy import Policy
from batchsched.simulation.pool import Pool, run_on_pool
from batchsched.simulation.predictors import Corrector, Predictor
from batchsched.simulation.problems import PolicyError
from batchsched.simulation.settings import Settings
from batchsched.simulation.workload import JobId, Workload

__all__ = ["DecidingPolicy", "RunningJob", "View", "WaitingJob"]


@frozen
class WaitingJob:
    """A job in the queue, as a policy may know it."""

    id: JobId
    submit: float
    processors: int
    requested: float | None
    """The time limit that its user gave."""
    estimate: float | None
    """What is believed of its run time; None if the policy has no predictor."""
    user: JobId | None
    queue: JobId | None


@frozen
class RunningJob:
    """A job that runs, as a policy may know it."""

    id: JobId
    processors: int
    start: float
    expected_end: float | None
    """When it should end; this may be over. None if the policy has no predictor."""


class View:
    """What a policy sees as it decides: what waits, what runs, and what is free."""

    __slots__ = ("_pool", "_running", "_waiting", "now")

    def __init__(self, pool: Pool, waiting: tuple[WaitingJob, ...], running: _Running) -> None:
        self.now = pool.now
        """The time, in seconds on the clock of the workload."""
        self._pool = pool
        self._waiting = waiting
        self._running = running

    @property
    def processors(self) -> int:
        """How many processors there are."""
        return self._pool.processors

    @property
    def free(self) -> int:
        """How many of them are free."""
        return self._pool.free

    @property
    def waiting(self) -> tuple[WaitingJob, ...]:
        """The queue, in order of arrival."""
        return self._waiting

    @property
    def running(self) -> tuple[RunningJob, ...]:
        """What runs, the one that is expected to end first before the others.

        Cost: the number of jobs that run.
        """
        return self._running.jobs()

    def free_at(self, processors: int) -> tuple[float, int]:
        """Return when so many will be free if nothing else starts, and how many more then.

        For EASY, the shadow time and what is extra. Jobs that have run for longer than expected
        count as ending now.

        Raises:
            PolicyError: The machine is smaller, or the policy has no predictor.
        """
        free = self.free
        if processors <= free:
            return self.now, free - processors
        when: float | None = None
        for job in self.running:
            if job.expected_end is None:
                raise PolicyError("nobody knows when jobs end: give the policy a predictor")
            at = max(job.expected_end, self.now)
            if when is not None and at > when:
                break
            free += job.processors
            if when is None and free >= processors:
                when = at
        if when is None:
            raise PolicyError(f"there are {self.processors} processors, and never {processors}")
        return when, free - processors


class DecidingPolicy(Policy):
    """A policy of one's own: say what starts, given what waits and what runs.

    Cost of a pass: the length of the queue, and what `decide` does.

    >>> from batchsched.simulation import Job, Workload, simulate
    >>> class WidestFirst(DecidingPolicy):
    ...     def decide(self, view):
    ...         free = view.free
    ...         for job in sorted(view.waiting, key=lambda job: -job.processors):
    ...             if job.processors <= free:
    ...                 free -= job.processors
    ...                 yield job.id
    >>> jobs = [Job(id=n, submit=0, run=60, processors=n) for n in (1, 2, 3)]
    >>> simulate(Workload(jobs).on(nodes=4), WidestFirst(), passes="instant").jobs["start"]
    [0, 60, 0]
    """

    predictor: Predictor | None = None
    """What is believed of run times, if the policy asks."""
    corrector: Corrector | None = None
    """What is believed of jobs that run for longer."""

    @abstractmethod
    def decide(self, view: View) -> Iterable[JobId]:
        """Return the ids of jobs that are to start now; together they must fit.

        It is asked after each event. If it starts nothing although nothing runs and nobody else
        will come, the simulation ends, and says who is left.
        """

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate what the policy decides, on the workload's processors."""
        return run_on_pool(
            workload,
            runs,
            lambda pool: _Asking(pool, workload, self),
            settings,
            predictor=self.predictor,
            corrector=self.corrector,
        )


class _Running:
    def __init__(self, pool: Pool, *, estimates: bool) -> None:
        self._pool = pool
        self._estimates = estimates

    def jobs(self) -> tuple[RunningJob, ...]:
        pool = self._pool
        return tuple(
            RunningJob(
                pool.ids[job],
                pool.size[job],
                pool.started_at[job] or 0,
                expected if self._estimates else None,
            )
            for expected, job in pool.running
        )


class _Asking:
    def __init__(self, pool: Pool, workload: Workload, policy: DecidingPolicy) -> None:
        self._pool = pool
        self._policy = policy
        self._requested = workload.requested
        self._users = workload.users
        self._queues = workload.queues
        self._indexes = dict[JobId, int]()
        self._waiting = dict[JobId, WaitingJob]()
        self._estimates = policy.predictor is not None
        self._running = _Running(pool, estimates=self._estimates)

    def arrived(self, job: int) -> bool:
        pool = self._pool
        each = pool.ids[job]
        self._indexes[each] = job
        self._waiting[each] = WaitingJob(
            each,
            pool.submit[job],
            pool.size[job],
            self._requested[job],
            pool.estimate[job] if self._estimates else None,
            self._users[job],
            self._queues[job],
        )
        return True

    def released(self, job: int) -> None:
        pass

    def corrected(self, job: int) -> None:
        pass

    def decide(self) -> None:
        if not self._waiting:
            return
        view = View(self._pool, tuple(self._waiting.values()), self._running)
        # All of it before anything starts: the view is of this moment.
        for each in list(self._policy.decide(view)):
            if self._waiting.pop(each, None) is None:
                raise PolicyError(
                    f"{self._policy} started {each!r} at {self._pool.now} s; expected the id of "
                    "a job that waits"
                )
            self._pool.start(self._indexes.pop(each))

    def why_waiting(self, job: int) -> str:
        return (
            f"{self._policy} did not start it, with {self._pool.free} processors free "
            f"for its {self._pool.size[job]}, and nothing else will happen"
        )
