"""The displace strategy of backfill: a job that can start takes the place of one that cannot.

Follows the design document "BackFill Action".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from attrs import Factory, define, frozen

from batchsched.actions.action import has_task_to_place
from batchsched.actions.eviction.victims import FreedResources, take_until
from batchsched.model.cluster import TaskStatus
from batchsched.placement import Fit, first_of_best
from batchsched.session.attempts import tasks_needed
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.session.turns import Turns
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, minus

__all__ = ["displace"]

MOST_KINDS = 64
"""Trials are kept for at most this many kinds of tasks, the most recently used."""


def displace(session: Session) -> None:
    """Start jobs on resources that unready jobs of the same queue hold."""
    collected = list(filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING)))
    turns = Turns(session, collected, tasks_return=True)
    displacing = _Turns(session)
    for _, of_queue in turns.by_queue():
        for turn in of_queue:
            if displacing.take(turn.job):
                turns.put_back(turn)


@frozen
class _Trial:
    """The outcome of displacing tasks from a node for another task, tentatively."""

    releasable: list[TaskState]
    """The tasks that it may displace there."""
    victims: list[TaskState]
    """The tasks among them that it has to displace."""
    raw: tuple[float, ...] | None
    """The raw scores of the node then; None: the task cannot be placed there."""


@define
class _Tried:
    """The trials for one kind of task."""

    as_of: tuple[int, int, int]
    """The position of the log at which they are valid; see `ChangeLog.position`."""
    on_node: dict[int, _Trial] = Factory(dict[int, _Trial])
    """Slot of a node to the last trial there."""


class _Turns:
    """The turns of jobs, with what is remembered between turns."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[JobState, deque[TaskState]] = {}
        """The tasks that a job has yet to place in its next turn, in task order."""
        self._holders: dict[QueueState | None, dict[JobState, None]] = {}
        """The jobs that have Allocated tasks, ready or not, by queue."""
        self._tried = RecentlyUsed[int, _Tried](most=MOST_KINDS)
        """Trials by kind of task."""
        for job in session.jobs_having(TaskStatus.ALLOCATED):
            self._holders.setdefault(job.queue, {})[job] = None

    def take(self, job: JobState) -> bool:
        """Give a job its turn; return whether it gets another turn."""
        session = self._session
        tasks = self._left.pop(job, None)
        if tasks is None or job.groups is not None:
            tasks = deque(tasks_needed(session, job))
        passed_over: list[TaskState] = []
        displaced: list[TaskState] = []
        placed = False
        with session.statement() as statement:
            while tasks:
                task = tasks.popleft()
                victims = self._place(statement, task)
                if victims is None:
                    session.record_failure(task)
                    passed_over.append(task)
                    if job.groups is not None:
                        return False  # placing only part of what it needs is useless
                else:
                    displaced += victims
                    placed = True
                if session.job_ready(job) and job.groups is None:
                    break
            if not session.job_ready(job):
                return False
            statement.commit()
        if placed:
            tasks.extendleft(reversed(passed_over))
            self._left[job] = tasks
        self._record_displaced(job, displaced)
        return placed

    def _record_displaced(self, job: JobState, displaced: list[TaskState]) -> None:
        for owner in {victim.job: None for victim in displaced}:
            assert owner is not None
            self._left.pop(owner, None)  # it has more tasks to place now
            if not owner.allocated:
                self._holders[owner.queue].pop(owner, None)
        if job.allocated:
            self._holders.setdefault(job.queue, {})[job] = None

    def _place(self, statement: Statement, task: TaskState) -> list[TaskState] | None:
        """Place a task; return the tasks that it displaced, or None if there is no place."""
        session = self._session
        if not session.may_take_task(task):
            return None
        node = session.best_node(task, Fit.NOW)
        if node is not None:
            statement.allocate(task, node)
            return []
        choice = self._best_to_displace_on(statement, task)
        if choice is None:
            return None
        node, victims = choice
        for victim in victims:
            statement.unallocate(victim)
            session.reports.record_rollback([victim])
        statement.allocate(task, node)
        return victims

    def _best_to_displace_on(
        self, statement: Statement, task: TaskState
    ) -> tuple[NodeState, list[TaskState]] | None:
        """Try each node that has releasable tasks; return the best, with the tasks to displace."""
        choices: list[tuple[NodeState, list[TaskState]]] = []
        raw: list[tuple[float, ...]] = []
        session = self._session
        tried = self._tried_for(task)
        for index, releasable in sorted(self._releasable(task).items()):
            node = session.slots[index]
            trial = tried.get(index)
            if trial is None or trial.releasable != releasable:
                trial = tried[index] = self._try(statement, task, node, releasable)
            if trial.raw is not None:
                choices.append((node, trial.victims))
                raw.append(trial.raw)
        if not choices:
            return None
        return choices[first_of_best(session.placement.totals(task, raw))]

    def _tried_for(self, task: TaskState) -> dict[int, _Trial]:
        """Return the trials for tasks of this kind on nodes that have not changed since."""
        session = self._session
        kind = session.placement.kind(task)
        if kind is None:
            return {}
        tried = self._tried.use(kind)
        if tried is None:
            tried = _Tried(session.log.position())
            self._tried.keep(kind, tried)
        elif tried.as_of != session.log.position():
            nodes, _, _ = session.log.changed_since(tried.as_of)
            for index in nodes:
                tried.on_node.pop(index, None)
            tried.as_of = session.log.position()
        return tried.on_node

    def _try(
        self, statement: Statement, task: TaskState, node: NodeState, releasable: list[TaskState]
    ) -> _Trial:
        session = self._session
        if node.is_closed and not task.is_best_effort:
            return _Trial(releasable, [], None)
        victims = take_until(
            session.in_victim_order(releasable), _enough_on(node, task.init_resreq)
        )
        if victims is None:
            return _Trial(releasable, [], None)
        before = len(statement)
        for victim in victims:
            statement.unallocate(victim)
        accepts = session.placement.refusal(task, node) is None
        raw = session.placement.raw_scores(task, node) if accepts else None
        statement.rollback(before)
        return _Trial(releasable, victims, raw)

    def _releasable(self, claimant: TaskState) -> dict[int, list[TaskState]]:
        """Return the tasks that the claimant may displace, by the slot of their node."""
        session = self._session
        mine = claimant.job
        assert mine is not None
        by_node: dict[int, list[TaskState]] = {}
        for owner in self._holders.get(mine.queue, ()):
            if (
                owner is mine
                or not owner.allocated
                or session.job_ready(owner)
                or session.job_condition_ready(owner)
            ):
                continue
            for task in owner.allocated.values():
                assert task.node is not None
                by_node.setdefault(task.node.slot, []).append(task)
        return by_node


def _enough_on(node: NodeState, request: Vector) -> Callable[[FreedResources], bool]:
    """Return a predicate: does `request` fit on a node once Allocated tasks are displaced?"""
    missing = minus(request, node.idle)
    if not node.divergence_count:
        return lambda freed: freed.covers(missing)
    missing_later = minus(request, node.future_idle)
    missing_for_good = (minus(request, node.accessible), minus(request, node.eventual))
    return lambda freed: (
        freed.covers(missing)
        and freed.covers(missing_later)
        and all(freed.covers_for_good(amounts) for amounts in missing_for_good)
    )
