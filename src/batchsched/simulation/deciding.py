"""Custom policies: a function of the waiting and the running jobs."""

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
    """A waiting job, with what a policy may know of it."""

    id: JobId
    submit: float
    processors: int
    requested: float | None
    """The time limit that its user requested."""
    estimate: float | None
    """Its predicted run time; None if the policy has no predictor."""
    user: JobId | None
    queue: JobId | None


@frozen
class RunningJob:
    """A running job, with what a policy may know of it."""

    id: JobId
    processors: int
    start: float
    expected_end: float | None
    """Its predicted end, which may have passed; None if the policy has no predictor."""


class View:
    """The state that a policy decides on: waiting jobs, running jobs, and free processors."""

    __slots__ = ("_pool", "_running", "_waiting", "now")

    def __init__(self, pool: Pool, waiting: tuple[WaitingJob, ...], running: _Running) -> None:
        self.now = pool.now
        """The time, in seconds on the clock of the workload."""
        self._pool = pool
        self._waiting = waiting
        self._running = running

    @property
    def processors(self) -> int:
        """The number of processors of the machine."""
        return self._pool.processors

    @property
    def free(self) -> int:
        """The number of free processors."""
        return self._pool.free

    @property
    def waiting(self) -> tuple[WaitingJob, ...]:
        """The waiting jobs, in order of arrival."""
        return self._waiting

    @property
    def running(self) -> tuple[RunningJob, ...]:
        """The running jobs, in order of their expected ends.

        Cost: linear in the number of running jobs.
        """
        return self._running.jobs()

    def free_at(self, processors: int) -> tuple[float, int]:
        """Return when `processors` will be free if nothing else starts, and how many more then.

        In terms of EASY: the shadow time and the extra processors. Jobs that run longer than
        expected are assumed to end now.

        Raises:
            PolicyError: The machine has fewer processors, or the policy has no predictor.
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


class DecidingPolicy(Policy):
    """A custom policy: choose the jobs to start, given the waiting and the running ones.

    Cost of a pass: linear in the length of the queue, plus what `decide` does.

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
    """Predicts run times, if the policy uses predictions."""
    corrector: Corrector | None = None
    """What is believed of jobs that run for longer."""

    @abstractmethod
    def decide(self, view: View) -> Iterable[JobId]:
        """Return the ids of the jobs to start now; together they must fit.

        Called after each event. If it starts no job while nothing runs and no job will arrive, the
        simulation ends and lists the jobs that are left.
        """

    def run(self, workload: Workload, runs: Sequence[float], settings: Settings) -> Outcome:
        """Simulate the policy on the workload's processors."""
        return run_on_pool(
            workload,
            runs,
            lambda pool: _DecidingScheduler(pool, workload, self),
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


class _DecidingScheduler:
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
        # Take all decisions before any job starts, since the view shows the state before.
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
