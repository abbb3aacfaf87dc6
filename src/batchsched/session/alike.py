"""Jobs and tasks that are alike: what one of them was refused, the next one is refused too.

Within reclaim or preempt, jobs of a queue of which all tasks wait, and all that is read is equal
but for their place in task order, are one question. After a turn that left everything as it was,
a later one of them fails too, with the same records, until something is moved for good. With 800
such jobs of three shapes on one node a cycle of three actions costs 4.4 times less
(`changes:borrow-800`). Turns of allocate cost less than the question, and so do turns of few tasks
from scratch, where nothing is known yet of the descriptions of jobs (`nothing-fits-all-actions`).

Within a turn that tries all tasks of a job, those of which all that is read is equal are one
question, too: after one that found no place, those that come next find none either, as long as
nothing is moved. So from scratch, too, a turn of many tasks costs more than the question. Where
five gangs of 40, 200 and 600 tasks wait in vain, a cycle with preempt costs 1.4, 1.35 and 1.1 times
less for alike tasks, and 1.8, 1.6 and 1.6 times less for both (`changes:gangs-100-preempt`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter, lt

from attrs import fields_dict, frozen

from batchsched.model.cluster import JobInfo, TaskInfo, TaskStatus
from batchsched.session.reports import NOTHING_TRIED, TaskAttempts
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.victims import EvictionSearch
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.memory import Position
from batchsched.state.needs import Stage
from batchsched.state.records import JobState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import MOST_KEPT

MANY_TASKS = 8
"""Of how many tasks a job must be to be asked about from scratch."""

_PLACES = {"uid", "name", "creation_time", "eligible_time", "tasks"}
_read_of_job = attrgetter(*(name for name in fields_dict(JobInfo) if name not in _PLACES))
_read_of_task = attrgetter(*(name for name in fields_dict(TaskInfo) if name not in _PLACES))


@frozen
class _Failed:
    """A turn that failed."""

    job: JobState
    at: int
    """How much had been moved for good."""
    before: list[TaskAttempts]
    after: list[TaskAttempts]
    searches: list[EvictionSearch | None]
    """The searches that it recorded, task by task."""


def _are_refused_alike(session: Session) -> bool:
    """Return whether what is alike is refused alike, and nobody is told of each attempt."""
    return (
        Shortcut.ATTEMPTS not in session.plain
        and session.teller is None
        and session.plans.guard is None
        and session.plugins.refuse_alike
    )


class AlikeJobs:
    """The jobs that failed in an action, of which others are known to fail."""

    def __init__(
        self, session: Session, jobs: Iterable[JobState] = (), *, may_apply: bool = True
    ) -> None:
        """Begin.

        Args:
            session: the session.
            jobs: those that get turns.
            may_apply: whether turns that change nothing differ in their tasks alone.

        """
        self._session = session
        self._least = 0 if isinstance(session.ledger, LiveLedger) else MANY_TASKS
        """Of how many tasks jobs are asked about."""
        self.applies = (
            may_apply
            and _are_refused_alike(session)
            and (not self._least or any(len(job.tasks) >= self._least for job in jobs))
        )
        """Whether any turn may be known to fail; if not, `turns_of` need not be asked."""
        self._has_failed = False
        self._failed: dict[object, _Failed] = {}

    def turns_of(self, job: JobState, /) -> Iterator[None]:
        """Yield once to let a job try; or not, but record that it fails as one like it did."""
        session = self._session
        if not self._has_failed:  # where all succeed, nothing is looked at
            at = session.moved_for_good
            yield
            self._has_failed = self.applies and session.moved_for_good == at
            return
        key = self._key(job)
        if key is None:
            yield
            return
        at, before, known = session.moved_for_good, self._attempts(job), self._failed.get(key)
        if known and known.at == at and known.before == before and self._is_after(job, known.job):
            self._record(job, known)
            return
        changes, searches = session.log.jobs, self._searches(job)
        begin = len(changes)
        yield
        if session.moved_for_good == at and {*changes[begin:]} <= {job}:
            found = [
                None if new is old else new
                for new, old in zip(self._searches(job), searches, strict=True)
            ]
            if all(search is None or search.why_not is None for search in found):
                self._failed[key] = _Failed(job, at, before, self._attempts(job), found)

    def is_like(self, job: JobState, failed: JobState) -> bool:
        """Return whether a job is like one that has just failed, and so ranked as that was."""
        key = self._key(failed) if self._has_failed else None
        return key is not None and self._key(job) is key

    def _key(self, job: JobState) -> object | None:
        """Return what is read of a job, without its place in task order; None: more is read."""
        session = self._session
        if len(job.tasks) < self._least:
            return None
        if job.counts[TaskStatus.PENDING.index] != len(job.tasks) or job.held or session.withdrawn:
            return None
        known = job.likeness
        if known is None or known[0] is not session.placement:
            known = job.likeness = session.placement, self._read(job)
        return known[1]

    def _read(self, job: JobState) -> object | None:
        kinds = tuple(map(self._session.placement.kind, job.tasks))
        if job.groups is not None or None in kinds:
            return None
        read = (_read_of_job(job.info), *(_read_of_task(task.info) for task in job.tasks), kinds)
        likenesses = self._session.state.likenesses
        if len(likenesses) >= MOST_KEPT:
            likenesses.clear()
        return likenesses.setdefault(read, object())

    def _is_after(self, job: JobState, other: JobState) -> bool:
        key = self._session.plugins.task_order_key
        return all(map(lt, map(key, other.tasks), map(key, job.tasks)))

    # Records

    def _attempts(self, job: JobState) -> list[TaskAttempts]:
        """Return what has been tried so far for each task of a job."""
        tried = map(self._session.reports.about, job.tasks)
        return [each if each is NOTHING_TRIED else each.copy() for each in tried]

    def _searches(self, job: JobState) -> list[EvictionSearch | None]:
        action = self._session.action_name
        about = self._session.reports.about
        return [about(task).eviction_searches.get(action) for task in job.tasks]

    def _record(self, job: JobState, failed: _Failed) -> None:
        """Record of a job what was recorded of one like it."""
        for task, tried, search in zip(job.tasks, failed.after, failed.searches, strict=True):
            if tried != NOTHING_TRIED:
                self._session.reports.of_task(task).add(tried)
            if search is not None:
                self._session.record_eviction_search(search.of_one_like_it(task))


@frozen
class _FailedTask:
    """A task that found no place."""

    task: TaskState
    read: object
    """What is read of it, without its place in task order."""
    at: Position
    """What had been changed by then."""
    before: TaskAttempts
    after: TaskAttempts
    search: EvictionSearch | None
    """The search that was recorded of it."""


class AlikeTasks:
    """The task that failed last in a turn, which others like it are known to fail after."""

    def __init__(
        self, session: Session, place: Callable[[Statement, TaskState, Stage | None], bool]
    ) -> None:
        """Begin a turn; `place`: places a task, or changes nothing."""
        self._session = session
        self._place = place
        self._failed: _FailedTask | None = None

    @staticmethod
    def apply(session: Session, job: JobState) -> bool:
        """Return whether tasks of a job may be known to fail."""
        return len(job.tasks) > 1 and job.groups is None and _are_refused_alike(session)

    def place(self, statement: Statement, task: TaskState, stage: Stage | None) -> bool:
        """Place a task; or not, but record that it fails as one like it did."""
        session, failed = self._session, self._failed
        reports, at = session.reports, session.log.position()
        before = reports.about(task)
        if failed is not None and failed.at == at and self._is_next(task, before, failed):
            self._record(task, failed)
            return False
        if before is not NOTHING_TRIED:
            before = before.copy()
        searched = before.eviction_searches.get(session.action_name)
        if self._place(statement, task, stage):
            return True
        self._failed = None
        if session.log.position() == at and session.placement.kind(task) is not None:
            after = reports.about(task).copy()
            search = after.eviction_searches.get(session.action_name)
            new = None if search is searched else search
            if new is None or new.why_not is None:
                read = _read_of_task(task.info)
                self._failed = _FailedTask(task, read, at, before, after, new)
        return False

    def _is_next(self, task: TaskState, before: TaskAttempts, failed: _FailedTask) -> bool:
        kind, key = self._session.placement.kind, self._session.plugins.task_order_key
        return (
            failed.before == before
            and kind(task) == kind(failed.task)
            and _read_of_task(task.info) == failed.read
            and key(failed.task) < key(task)
        )

    def _record(self, task: TaskState, failed: _FailedTask) -> None:
        """Record of a task what was recorded of one like it."""
        session = self._session
        session.reports.of_task(task).add(failed.after)
        if failed.search is not None:
            session.record_eviction_search(failed.search.of_one_like_it(task))
