"""The displace strategy of backfill: a job that can start takes the place of one that cannot.

Follows the design document "BackFill Action".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from attrs import Factory, define, frozen

from batchsched.actions.action import has_task_to_place, jobs_by_queue, tasks_to_place
from batchsched.actions.eviction.victims import FreedResources, take_until
from batchsched.actions.group_turns import tasks_needed
from batchsched.model.status import TaskStatus
from batchsched.placement import Fit
from batchsched.session.session import Session
from batchsched.session.statement import Statement
from batchsched.state.recently_used import RecentlyUsed
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, minus

__all__ = ["displace"]

MOST_KINDS = 64
"""Trials are kept for so many kinds of tasks at most, those that were asked for last."""


def displace(session: Session) -> None:
    """Start jobs in what unready jobs of their own queue hold."""
    collected = list(filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING)))
    tasks_of = partial(tasks_to_place, session)
    jobs = {
        queue: session.job_turns(jobs, tasks_of) for queue, jobs in jobs_by_queue(collected).items()
    }
    queues = session.queue_turns(jobs, tasks_of)
    turns = _Turns(session)
    while queues:
        waiting = jobs[queues.pop()]
        while waiting:
            job = waiting.pop()
            if turns.take(job):
                waiting.push(job)


@frozen
class _Trial:
    """What a node would be for a task without some of those that it may displace."""

    releasable: list[TaskState]
    """Those that it may displace."""
    victims: list[TaskState]
    """Those of them that would have to go."""
    raw: tuple[float, ...] | None
    """What scores would say of the node; None: it would not do."""


@define
class _Tried:
    """Trials for tasks that the engine cannot tell apart."""

    as_of: tuple[int, int, int]
    """As of when they hold; see `Ledger.position`."""
    on_node: dict[int, _Trial] = Factory(dict[int, _Trial])
    """Index of a node to the last trial there."""


class _Turns:
    """The turns of jobs, and what they need to know of earlier ones."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[JobState, deque[TaskState]] = {}
        """What a job that comes back has left to place, in task order."""
        self._holders: dict[QueueState | None, dict[JobState, None]] = {}
        """The jobs that have Allocated tasks; not all of those may be unready."""
        self._tried = RecentlyUsed[int, _Tried](most=MOST_KINDS)
        """What was tried, by kind of task."""
        for job in session.jobs_having(TaskStatus.ALLOCATED):
            self._holders.setdefault(job.queue, {})[job] = None

    def take(self, job: JobState) -> bool:
        """Give a job its turn; return whether it is to come back."""
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
                        return False  # part of what it asks for is of no use
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
        self._note_displaced(job, displaced)
        return placed

    def _note_displaced(self, job: JobState, displaced: list[TaskState]) -> None:
        for owner in {victim.job: None for victim in displaced}:
            assert owner is not None
            self._left.pop(owner, None)  # it has more to place now
            if not owner.allocated:
                self._holders[owner.queue].pop(owner, None)
        if job.allocated:
            self._holders.setdefault(job.queue, {})[job] = None

    def _place(self, statement: Statement, task: TaskState) -> list[TaskState] | None:
        """Place a task; return whom it has displaced, or None if there is no place."""
        session = self._session
        if not session.may_take_task(task):
            return None
        node = session.placement.best(task, Fit.NOW)
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
        """Try every node without its releasable tasks, one at a time; return the best."""
        choices: list[tuple[NodeState, list[TaskState]]] = []
        raw: list[tuple[float, ...]] = []
        session = self._session
        tried = self._tried_for(task)
        for index, releasable in sorted(self._releasable(task).items()):
            node = session.ledger.slots[index]
            trial = tried.get(index)
            if trial is None or trial.releasable != releasable:
                trial = tried[index] = self._try(statement, task, node, releasable)
            if trial.raw is not None:
                choices.append((node, trial.victims))
                raw.append(trial.raw)
        if not choices:
            return None
        totals = session.placement.totals(task, raw)
        return choices[max(range(len(choices)), key=lambda position: (totals[position], -position))]

    def _tried_for(self, task: TaskState) -> dict[int, _Trial]:
        """Return what trials for tasks like this one have shown, on nodes that are as they were."""
        session = self._session
        kind = session.placement.kind(task)
        if kind is None:
            return {}
        tried = self._tried.use(kind)
        if tried is None:
            tried = _Tried(session.ledger.log.position())
            self._tried.keep(kind, tried)
        elif tried.as_of != session.ledger.log.position():
            nodes, _, _ = session.ledger.log.changed_since(tried.as_of)
            for index in nodes:
                tried.on_node.pop(index, None)
            tried.as_of = session.ledger.log.position()
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
    """Return what says whether `request` fits on a node without some of its Allocated tasks."""
    missing = minus(request, node.idle)
    if not node.special:
        return lambda freed: freed.covers(missing)
    missing_later = minus(request, node.future_idle)
    missing_for_good = (minus(request, node.accessible), minus(request, node.eventual))
    return lambda freed: (
        freed.covers(missing)
        and freed.covers(missing_later)
        and all(freed.covers_for_good(amounts) for amounts in missing_for_good)
    )
