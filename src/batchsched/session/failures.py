"""What was tried in vain: the records of a cycle, and what is known to fail again.

`CycleReports` has what actions tried, for reasons: a record for each task and each job. Attempts
that are known to fail are not made, but leave the same records:

- *Again*: on a living cluster, a turn of `allocate` fails again if nothing that decided it has
  changed since. It tries a job's tasks in order on the present nodes, and whether it fails depends
  on the job and on the nodes where its tasks fit. So it need not be repeated while the job has not
  changed, the nodes on which its tasks were placed temporarily have not changed, and no other
  changed node accepts a task of its kinds. This requires that everything read of a node is watched
  there, that plugins vote on jobs alone, and, for a turn that placed tasks before it failed, that
  all tasks are alike: then they fill every node that accepts them, in any order. All other turns
  are not recorded, and are tried again. Where plugins say that the sets of nodes which they offer
  depend on rooms alone, a turn for which they offered none fails again on the same conditions.
- *Alike*: within reclaim, preempt or consolidate, jobs of a queue of which all tasks wait, and all
  that is read is equal but for their place in task order (`read_of`), are one question. After a
  turn that moved nothing for good, a later one of them fails too, with the same records, until
  something is. What is said of a job as a whole is not passed on: who may not claim, which may
  depend on times, and who is offered no set of nodes gets its turn. With 800 such jobs of three
  shapes on one node a cycle of three actions costs 4.4 times less (`changes:borrow-800`). Turns of
  allocate cost less than the question, and so do turns of few tasks from scratch, where nothing is
  known yet of the descriptions of jobs (`nothing-fits-all-actions`).
- Within a turn that tries all tasks of a job, those of which all that is read is equal are one
  question, too: after one that found no place, those that come next find none either, as long as
  nothing is moved. So from scratch, too, a turn of many tasks costs more than the question. Where
  five gangs of 40, 200 and 600 tasks wait in vain, a cycle with preempt costs 1.4, 1.35 and 1.1
  times less for alike tasks, and 1.8, 1.6 and 1.6 times less for both (row
  `changes:gangs-100-preempt`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter, lt
from typing import Final, Generic, Protocol, TypeVar, cast

from attrs import define, field, fields_dict, frozen

from batchsched.model.cluster import JobInfo, Plan, TaskInfo, TaskStatus
from batchsched.model.reasons import PendingReason, QueueShare, Unfit
from batchsched.placement import Placement
from batchsched.plugin.extension_points import Refused
from batchsched.session.plugins import PluginSet
from batchsched.session.victims import EvictionScope, EvictionSearch
from batchsched.state.ledger import Ledger
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.memory import ChangeLog
from batchsched.state.needs import Need, Stage
from batchsched.state.records import (
    Fit,
    JobState,
    NodeState,
    TaskState,
)
from batchsched.state.vectors import MOST_KEPT, Vector, fits


class AcceptedTasks:
    """The tasks that need no further check, as their queue can accept everything their job lacks.

    What a queue may take together it may take one after the other, as long as nothing else is
    charged.
    """

    __slots__ = ("_charged", "_charges", "_last", "_tasks")

    def __init__(self, charged: Sequence[JobState]) -> None:
        """Create an empty set.

        Args:
            charged: the log of charges, to which each is appended.

        """
        self._charged = charged
        self._tasks: set[TaskState] = set()
        self._last: TaskState | None = None
        """The task that was last taken."""
        self._charges = 0
        """The length of the log then."""

    def replace(self, tasks: Iterable[TaskState]) -> None:
        """Set the tasks. O(tasks)."""
        self._tasks = {task for task in tasks if not task.is_backfill}
        self._last = None
        self._charges = len(self._charged)

    def take(self, task: TaskState) -> bool:
        """Remove a task; return whether it was in the set and the set is still valid. O(1)."""
        if task not in self._tasks:
            return False
        charges = len(self._charged)
        if charges - self._charges > (self._last is not None and self._last.status.charged):
            self._tasks.clear()
            return False
        self._tasks.discard(task)
        self._last, self._charges = task, charges
        return True


@define
class TaskAttempts:
    """What actions tried for a task in one cycle, and what came of it."""

    found_no_place: bool = False
    """Whether an action tried to place it and could not."""
    was_undone: bool = False
    """Whether it was placed, and that was rolled back."""
    lacked_company: bool = False
    """Whether there was enough for it, but not for all that must start with it."""
    refusal: Unfit | None = None
    """Why its queue could last not accept it."""
    claim_refusal: Unfit | None = None
    """Why its queue could not reclaim resources for it."""
    broken_promise: Unfit | None = None
    """Why the promise of the last cycle ends with this one."""
    gave_way_to: TaskState | None = field(default=None, eq=False)
    """The task for which its promise or allocation was given up."""
    eviction_searches: dict[str, EvictionSearch] = field(
        factory=dict[str, EvictionSearch], eq=False
    )
    """Failed searches for tasks to evict, by action."""

    def copy(self) -> TaskAttempts:
        """Return what was tried so far."""
        return TaskAttempts(
            self.found_no_place,
            self.was_undone,
            self.lacked_company,
            self.refusal,
            self.claim_refusal,
            self.broken_promise,
            self.gave_way_to,
            dict(self.eviction_searches),
        )

    def add(self, others: TaskAttempts) -> None:
        """Add what was tried for a task like it, without searches."""
        self.found_no_place |= others.found_no_place
        self.was_undone |= others.was_undone
        self.lacked_company |= others.lacked_company
        if others.refusal is not None:
            self.refusal = others.refusal
        if others.claim_refusal is not None:
            self.claim_refusal = others.claim_refusal


@define(eq=False)
class JobAttempts:
    """What actions tried and planned for a job as a whole in one cycle."""

    asked_in_part: bool = False
    """Whether a turn ended before all of its tasks were tried."""
    need_in_sets: Need | None = None
    """What was tried in vain in the sets of nodes that plugins offer."""
    claims_refused: dict[str, Refused] = field(factory=dict[str, Refused])
    """Why it could claim nothing, by action."""
    plan: Plan | None = None
    """When and where it is to start, if that is planned."""
    is_late: bool = False
    """Whether that is too late."""
    why_planned: PendingReason | None = None
    """Why it waits, if it is planned or cannot be planned, and reasons are wanted."""


NOTHING_TRIED: Final = TaskAttempts()
"""What is read of tasks that no action tried; never written to."""
NOTHING_TRIED_FOR_JOB: Final = JobAttempts()
"""What is read of jobs that no action tried as a whole; never written to."""


@define(eq=False)
class CycleReports:
    """What actions tried in one cycle, and the outcome."""

    _ledger: Ledger
    tasks: dict[TaskState, TaskAttempts] = field(factory=dict[TaskState, TaskAttempts])
    """What was tried for tasks."""
    jobs: dict[JobState, JobAttempts] = field(factory=dict[JobState, JobAttempts])
    """What was tried for whole jobs."""
    queues_overused: dict[str, QueueShare | None] = field(factory=dict[str, QueueShare | None])
    """Queues that an action skipped because they were overused, by name, in that order.

    With what each deserved and had when it was first skipped, if a plugin knows.
    """
    overused_at_open: set[str] = field(factory=set[str])
    """The names of queues with waiting jobs that were overused when the session opened."""
    initial_reservations: Sequence[TaskState] = field(init=False)
    """The Reserved tasks of the snapshot, including those on nodes that no longer exist."""
    accepted_tasks: AcceptedTasks = field(init=False)

    def __attrs_post_init__(self) -> None:
        ledger = self._ledger
        self.initial_reservations = [
            *(task for task, _ in ledger.lost_reservations),
            *(
                task
                for _, job in sorted(ledger.jobs_having[TaskStatus.RESERVED.index].items())
                for task in job.having(TaskStatus.RESERVED)
            ),
        ]
        self.accepted_tasks = AcceptedTasks(ledger.log.charged_jobs)

    def of_task(self, task: TaskState) -> TaskAttempts:
        """Return what was tried for a task, to write to. O(1)."""
        known = self.tasks.get(task)
        if known is None:
            known = self.tasks[task] = TaskAttempts()
        return known

    def of_job(self, job: JobState) -> JobAttempts:
        """Return what was tried for a job as a whole, to write to. O(1)."""
        return self.jobs.setdefault(job, JobAttempts())

    def about(self, task: TaskState) -> TaskAttempts:
        """Return what was tried for a task, to read. O(1)."""
        return self.tasks.get(task, NOTHING_TRIED)

    def about_job(self, job: JobState) -> JobAttempts:
        """Return what was tried for a job as a whole, to read. O(1)."""
        return self.jobs.get(job, NOTHING_TRIED_FOR_JOB)

    def record_search(self, search: EvictionSearch) -> None:
        """Record that an action searched for tasks to evict and found too few.

        The reason of the task then says why others could not be evicted, in the state at the end
        of the cycle. A search among tasks of its own job says less than one among others.
        """
        searches, about = self.of_task(search.task).eviction_searches, search.action
        before = searches.get(about)
        if (
            before is None
            or search.scope is not EvictionScope.SAME_JOB
            or before.scope is EvictionScope.SAME_JOB
        ):
            searches[about] = search

    def record_undone(self, tasks: Iterable[TaskState]) -> None:
        """Record that tasks were placed, and that it was rolled back."""
        for task in tasks:
            self.of_task(task).was_undone = True


# What is read


_info = attrgetter("info")
_PLACES = {"uid", "name", "creation_time", "eligible_time", "attained_service", "tasks"}
_read_of_job = attrgetter(*(name for name in fields_dict(JobInfo) if name not in _PLACES))
_read_of_task = attrgetter(*(name for name in fields_dict(TaskInfo) if name not in _PLACES))


def kinds_of(placement: Placement, tasks: Iterable[TaskState]) -> Sequence[int] | None:
    """Return the kinds of some tasks; None: more may be read of one of them than its kind."""
    kinds = tuple(map(placement.kind, tasks))
    return None if None in kinds else cast("Sequence[int]", kinds)


def read_of(
    placement: Placement, tasks: Sequence[TaskState], job: JobState | None = None
) -> Hashable | None:
    """Return all that is read of tasks, and of their job if given, but their place in task order.

    None: more may be read.
    """
    kinds = kinds_of(placement, tasks)
    if kinds is None:
        return None
    of_tasks = map(_read_of_task, map(_info, tasks))
    return (kinds, *of_tasks) if job is None else (kinds, *of_tasks, _read_of_job(job.info))


# What fails again


@frozen
class FailedTurn:
    """A failed turn, with the data for pending reasons."""

    tasks: Sequence[TaskState]
    """All tasks of the job that were to be placed, in task order."""
    failed: Sequence[TaskState]
    """Those for which no node was found, in the order in which they were tried."""
    undone: Sequence[TaskState]
    """Those whose placement was rolled back."""
    kinds: Collection[int]
    """The kinds of the tasks that were tried."""
    slots: Collection[int]
    """The slots of the nodes on which tasks were placed temporarily."""
    at: int
    """The length of the log of changed slots at that time."""
    need: Need | None
    """The need of the job."""
    beyond_need: Collection[TaskState]
    """Those of `failed` for which the queue is asked apart from the need."""
    in_sets: bool = False
    """Whether plugins offered no set of nodes for the need, in any stage."""


@define
class _Openings:
    """Whether changed nodes accept a kind of task."""

    read: int
    """The position up to which the log of changed slots was checked."""
    last: int = -1
    """The length of the log when a node that accepts the kind was last found; -1: never."""
    closed: int = -1
    """The length of the log when all nodes were last tried for the kind, and none accepted it."""


class FailedTurns:
    """The failed turns that need not be repeated, on a live cluster."""

    def __init__(self, ledger: LiveLedger) -> None:
        self._ledger = ledger
        self._turns: dict[JobState, FailedTurn] = {}
        self._needs: dict[JobState, Need] = {}
        """What jobs need next whose turns failed without being recorded."""
        self._changed: list[int] = []
        """The log of slots of changed nodes, without changes that were undone at once."""
        self._changed_last: dict[int, int] = {}
        """For each slot, the length of this log after its last change."""
        self._openings: dict[int, _Openings] = {}
        self._room: tuple[int, int, Vector] | None = None
        """The part of the log for which `_largest_room` was last computed, and the result."""
        self._position = ledger.log.position()

    def forget(self, jobs: Iterable[JobState]) -> None:
        """Drop the turns of jobs that were removed or changed."""
        for job in jobs:
            self._turns.pop(job, None)
            self._needs.pop(job, None)

    def begin_cycle(self) -> None:
        """Record the changes since the last cycle."""
        log = self._ledger.log
        self._note(log.nodes[self._position[0] :])
        self._position = log.position()

    def end_cycle(self) -> None:
        """Record the changes of the cycle, before they are undone."""
        self._catch_up()
        for task, origin in self._ledger.moved().items():
            if task.job is not None and (task.status, task.node, task.is_backfill) != origin[:3]:
                self.forget((task.job,))

    def remember(
        self,
        job: JobState,
        placement: Placement,
        *,
        tasks: Sequence[TaskState],
        failed: Sequence[TaskState],
        undone: Sequence[TaskState],
        slots: Collection[int],
        need: Need | None,
        in_sets: bool = False,
        in_every_way: bool = False,
    ) -> None:
        """Record that a job's turn failed, if a repetition would fail too.

        Its placements must have been rolled back already. `in_every_way`: all that failed was
        tried on all nodes, as what fits now, later and conditionally.
        """
        found = kinds_of(placement, (*undone, *failed))
        if found is None:
            return
        kinds = frozenset(found)
        if undone and len(kinds) > 1:
            # The placement of one kind affects where the next kind fits.
            return
        self._catch_up()
        at = len(self._changed)
        for kind in kinds:
            openings = self._openings.setdefault(kind, _Openings(at))
            if in_every_way and not undone:
                openings.read = openings.closed = at
        needed = frozenset[TaskState](() if need is None else need.tasks)
        beyond = {task for task in failed if task not in needed or task.is_backfill}
        self._turns[job] = FailedTurn(
            tasks, failed, undone, kinds, slots, at, need, beyond, in_sets
        )

    def remember_need(self, need: Need) -> None:
        """Record what a job needs next, if that follows from the job alone."""
        self._catch_up()
        self._needs[need.job] = need

    def need_of(self, job: JobState) -> Need | None:
        """Return the need of a job with a recorded turn or need; None: there is none. O(1)."""
        if job not in self._turns and job not in self._needs:
            return None
        self._catch_up()
        turn = self._turns.get(job)
        return self._needs.get(job) if turn is None else turn.need

    def find(self, job: JobState, placement: Placement) -> FailedTurn | None:
        """Return the failed turn that a job would repeat; None: it must be tried.

        O(nodes that changed since) for the first job of a kind, plus O(nodes that it was on).
        """
        if job not in self._turns:
            return None
        self._catch_up()
        turn = self._turns.get(job)
        if turn is None:
            return None
        if self._may_differ(turn, placement):
            del self._turns[job]
            return None
        return turn

    def _may_differ(self, turn: FailedTurn, placement: Placement) -> bool:
        at, last = turn.at, self._changed_last
        end = len(self._changed)
        if at == end:
            return False
        if turn.slots and any(last.get(slot, 0) > at for slot in turn.slots):
            return True
        for kind in turn.kinds:
            openings = self._openings[kind]
            if openings.read < end:
                self._look_for_openings(kind, openings, turn, placement)
            if openings.last > (at if turn.undone else max(at, openings.closed)):
                return True
        return False

    def _look_for_openings(
        self, kind: int, openings: _Openings, turn: FailedTurn, placement: Placement
    ) -> None:
        """Find out whether nodes that have changed since the last time accept a kind."""
        end = len(self._changed)
        task = next(t for t in (*turn.failed, *turn.undone) if placement.kind(t) == kind)
        slots, vacant = self._ledger.slots, self._ledger.vacant
        if fits(task.init_resreq, self._largest_room(openings.read)) and any(
            slot not in vacant and _takes(placement, task, slots[slot])
            for slot in set(self._changed[openings.read :])
        ):
            openings.last = end
        openings.read = end

    def _largest_room(self, begin: int) -> Vector:
        """Return the most that any node that changed from here in the log has, by dimension.

        Kinds are mostly checked one after the other up to the same changes, so this is computed
        once for all of them.
        """
        end = len(self._changed)
        if self._room is None or self._room[:2] != (begin, end):
            changed = [self._ledger.slots[slot] for slot in set(self._changed[begin:])]
            most = tuple(map(max, self._ledger.dimensions.zero, *map(_room_of, changed)))
            self._room = begin, end, most
        return self._room[2]

    def _catch_up(self) -> None:
        log = self._ledger.log
        if len(log.nodes) == self._position[0] and len(log.jobs) == self._position[1]:
            return
        position = log.position()
        slots, jobs, _ = log.changed_since(self._position)
        self._position = position
        self._note(slots)
        self.forget(jobs)

    def _note(self, slots: Collection[int]) -> None:
        self._changed += slots
        self._changed_last.update(dict.fromkeys(slots, len(self._changed)))


def _takes(placement: Placement, task: TaskState, node: NodeState) -> bool:
    """Return whether a task fits on a node now, later or conditionally."""
    return any(node.fits(task, fit) for fit in Fit) and placement.refusal(task, node) is None


def _room_of(node: NodeState) -> Vector:
    """Return the most that a node has now, later or conditionally, by dimension."""
    return tuple(map(max, *(node.room(fit) for fit in Fit))) if node.divergence_count else node.idle


@define(eq=False)
class Memory:
    """What is kept between cycles of attempts that failed."""

    turns: FailedTurns | None = None
    """The failed turns that need not be repeated, on a live cluster."""
    likenesses: dict[Hashable, object] = field(factory=dict[Hashable, object])
    """What jobs have that are described alike, by what is read of them; see `AlikeJobs`."""

    def forget_turns(self, ledger: Ledger, *, remembers: bool) -> None:
        """Drop all failed turns; `remembers`: whether to record new ones, on a live cluster."""
        self.turns = None
        if remembers and isinstance(ledger, LiveLedger):
            self.turns = FailedTurns(ledger)

    def begin_cycle(self) -> None:
        """Record the changes since the last cycle."""
        if self.turns is not None:
            self.turns.begin_cycle()

    def end_cycle(self) -> None:
        """Record the changes of the cycle, before they are undone."""
        if self.turns is not None:
            self.turns.end_cycle()

    def forget(self, jobs: Iterable[JobState]) -> None:
        """Drop the turns of jobs that were removed or changed."""
        if self.turns is not None:
            self.turns.forget(jobs)


# What fails as others like it did


class Cycle(Protocol):
    """What is needed of a session to know what fails as others did."""

    ledger: Ledger
    plugins: PluginSet
    placement: Placement
    log: ChangeLog
    reports: CycleReports
    memory: Memory
    action_name: str
    withdrawn: set[TaskState]

    @property
    def moved_for_good(self) -> int:
        """A number that grows as tasks are moved for good."""
        ...

    @property
    def refuses_alike(self) -> bool:
        """Whether what is alike is refused alike, and nobody is told of each attempt."""
        ...


@frozen
class _Failed:
    """Tasks that were tried in vain, and what was recorded of each before and after."""

    tasks: Sequence[TaskState]
    at: object
    """What had been moved by then."""
    before: Sequence[TaskAttempts]
    after: Sequence[TaskAttempts]
    searches: Sequence[EvictionSearch | None]
    """The searches that were recorded."""


class _Alike:
    """What was recorded of tasks that failed, to be recorded of others like them."""

    _cycle: Cycle

    def _tried(self, tasks: Iterable[TaskState]) -> list[TaskAttempts]:
        """Return what has been tried so far for each of some tasks."""
        tried = map(self._cycle.reports.about, tasks)
        return [each if each is NOTHING_TRIED else each.copy() for each in tried]

    def _failure(
        self, tasks: Sequence[TaskState], at: object, before: Sequence[TaskAttempts]
    ) -> _Failed | None:
        """Return what was recorded of tasks that have just failed; None: others may differ."""
        action, after = self._cycle.action_name, self._tried(tasks)
        searches: list[EvictionSearch | None] = []
        for old, new in zip(before, after, strict=True):
            search = new.eviction_searches.get(action)
            if search is old.eviction_searches.get(action):
                search = None
            elif search is not None and search.reads_claim:
                return None
            searches.append(search)
        return _Failed(tasks, at, before, after, searches)

    def _is_after(self, tasks: Sequence[TaskState], failed: _Failed) -> bool:
        key = self._cycle.plugins.task_order_key
        return all(map(lt, map(key, failed.tasks), map(key, tasks)))

    def _record(self, tasks: Sequence[TaskState], failed: _Failed) -> None:
        """Record of tasks what was recorded of those like them."""
        reports = self._cycle.reports
        for task, tried, search in zip(tasks, failed.after, failed.searches, strict=True):
            if tried != NOTHING_TRIED:
                reports.of_task(task).add(tried)
            if search is not None:
                reports.record_search(search.of_one_like_it(task))


MANY_TASKS = 8
"""Of how many tasks a job must be to be asked about from scratch."""


class AlikeJobs(_Alike):
    """The jobs that failed in an action, of which others are known to fail."""

    def __init__(
        self, cycle: Cycle, jobs: Iterable[JobState] = (), *, may_apply: bool = True
    ) -> None:
        """Begin.

        Args:
            cycle: the session.
            jobs: those that get turns.
            may_apply: whether turns that change nothing differ in their tasks alone.

        """
        self._cycle = cycle
        self._least = 0 if isinstance(cycle.ledger, LiveLedger) else MANY_TASKS
        """Of how many tasks jobs are asked about."""
        self.applies = (
            may_apply
            and cycle.refuses_alike
            and (not self._least or any(len(job.tasks) >= self._least for job in jobs))
        )
        """Whether any turn may be known to fail; if not, `turns_of` need not be asked."""
        self._has_failed = False
        self._failed: dict[object, _Failed] = {}

    def turns_of(self, job: JobState, /) -> Iterator[None]:
        """Yield once to let a job try; or not, but record that it fails as one like it did."""
        cycle, tasks = self._cycle, job.tasks
        if not self._has_failed:  # where all succeed, nothing is looked at
            at = cycle.moved_for_good
            yield
            self._has_failed = self.applies and cycle.moved_for_good == at
            return
        key = self._key(job)
        if key is None:
            yield
            return
        at, before, known = cycle.moved_for_good, self._tried(tasks), self._failed.get(key)
        if known and known.at == at and known.before == before and self._is_after(tasks, known):
            self._record(tasks, known)
            return
        no_set = cycle.reports.about_job(job).need_in_sets
        yield
        # That it found no set is recorded of this job as a whole, with what it needs. Of other jobs
        # nothing is recorded but of those that run, and that they moved in vain is said nowhere.
        if cycle.moved_for_good == at and cycle.reports.about_job(job).need_in_sets is no_set:
            failed = self._failure(tasks, at, before)
            if failed is not None:
                self._failed[key] = failed

    def is_like(self, job: JobState, failed: JobState) -> bool:
        """Return whether a job is like one that has just failed, and so ranked as that was."""
        key = self._key(failed) if self._has_failed else None
        return key is not None and self._key(job) is key

    def _key(self, job: JobState) -> object | None:
        """Return what is read of a job, without its place in task order; None: more is read."""
        cycle = self._cycle
        if len(job.tasks) < self._least:
            return None
        if job.counts[TaskStatus.PENDING.index] != len(job.tasks) or job.held or cycle.withdrawn:
            return None
        if not cycle.plugins.may_claim(job):  # that may depend on times; the turn says why not
            return None
        known = job.likeness
        if known is None or known[0] is not cycle.placement:
            known = job.likeness = cycle.placement, self._read(job)
        return known[1]

    def _read(self, job: JobState) -> object | None:
        read = read_of(self._cycle.placement, job.tasks, job)
        if job.groups is not None or read is None:
            return None
        likenesses = self._cycle.memory.likenesses
        if len(likenesses) >= MOST_KEPT:
            likenesses.clear()
        return likenesses.setdefault(read, object())


S = TypeVar("S")


class AlikeTasks(_Alike, Generic[S]):
    """The task that failed last in a turn, which others like it are known to fail after."""

    def __init__(self, cycle: Cycle, place: Callable[[S, TaskState, Stage | None], bool]) -> None:
        """Begin a turn; `place`: places a task in a statement, or changes nothing."""
        self._cycle = cycle
        self._place = place
        self._failed: _Failed | None = None
        self._read: Hashable | None = None
        """What is read of that."""

    @staticmethod
    def apply(cycle: Cycle, job: JobState) -> bool:
        """Return whether tasks of a job may be known to fail."""
        return len(job.tasks) > 1 and job.groups is None and cycle.refuses_alike

    def place(self, statement: S, task: TaskState, stage: Stage | None) -> bool:
        """Place a task; or not, but record that it fails as one like it did."""
        cycle, failed, tasks = self._cycle, self._failed, (task,)
        at, before = cycle.log.position(), self._tried(tasks)
        read: Hashable | None = None
        if failed is not None and failed.at == at and failed.before == before:
            read = read_of(cycle.placement, tasks)
            if read == self._read and self._is_after(tasks, failed):
                self._record(tasks, failed)
                return False
        if self._place(statement, task, stage):
            return True
        self._failed = None
        if cycle.log.position() == at:
            self._read = read or read_of(cycle.placement, tasks)
            if self._read is not None:
                self._failed = self._failure(tasks, at, before)
        return False
