"""backfill: use resources that would otherwise stay idle.

It places best-effort tasks. Then, by its strategy, gangs that cannot start make way: with `release`
they give up what they hold, and whole jobs start there, marked as backfill; with `displace` a job
that can start takes the place of one that cannot. They follow the design documents "Backfill and
Starvation Prevention" and "BackFill Action".
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import NamedTuple

from attrs import frozen

from batchsched.actions.eviction.choosing import RoomOn, members_of
from batchsched.actions.placing import NOW, best_for, place
from batchsched.model.cluster import TaskStatus
from batchsched.placement import Fit, first_of_best
from batchsched.plugin.arguments import Arguments
from batchsched.session.attempts import tasks_needed
from batchsched.session.candidates import (
    count_as_gone,
    may_go_anywhere,
    try_in_turn,
    try_in_turn_what_is_needed,
)
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import (
    Turns,
    has_task_to_place,
    is_starving,
    may_take_task,
    need_of,
    record_no_set,
    tasks_to_place,
)
from batchsched.state.memory import DependsOn, Remembered, forget
from batchsched.state.needs import Stage, need_of_task
from batchsched.state.records import JobState, NodeState, QueueState, TaskState


@frozen(kw_only=True)
class BackfillAction:
    """Places best-effort tasks; then, by its strategy, uses what unready gangs hold."""

    strategy: str = "best-effort"
    """``best-effort``, ``release`` or ``displace``."""
    best_node: bool = False
    """Whether best-effort tasks go to the best node; if not, to the first feasible one."""
    starvation_threshold: float | None = None
    """Seconds after which a waiting job keeps what it holds; None: no job is starving."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> BackfillAction:
        """Read ``strategy``, ``nodeChoice`` and ``starvationThreshold``."""
        threshold = arguments.number("starvationThreshold", default=0, minimum=0)
        is_given = arguments.is_given("starvationThreshold")
        return cls(
            strategy=arguments.choice(
                "strategy", ("best-effort", "release", "displace"), default="best-effort"
            ),
            best_node=arguments.choice("nodeChoice", ("first", "best"), default="first") == "best",
            starvation_threshold=threshold if is_given else None,
        )

    def execute(self, session: Session, /) -> None:
        """Place best-effort tasks, then follow the strategy."""
        pending: dict[JobState, list[TaskState]] = {}
        for job in session.jobs_having(TaskStatus.PENDING):
            if not job.best_effort_count:
                continue
            tasks = [t for t in job.having(TaskStatus.PENDING) if t.is_best_effort]
            if tasks:
                pending[job] = tasks
        for job in sorted(pending, key=session.plugins.job_order_key):
            for task in session.in_task_order(pending[job]):
                if not may_take_task(session, task):
                    continue
                if not may_go_anywhere(session, job):
                    _place_in_sets(session, task)
                    continue
                if self.best_node:
                    node = session.best_node(task, Fit.NOW)
                else:
                    node = session.first_node(task)
                if node is None:
                    session.record_failure(task)
                else:
                    session.allocate(task, node)
        if self.strategy == "release":
            release(session, self.starvation_threshold)
        elif self.strategy == "displace":
            displace(session)


def _place_in_sets(session: Session, task: TaskState) -> None:
    """Place a task in one of the sets of nodes that plugins offer for it."""
    need = need_of_task(task)

    def tries(statement: Statement) -> bool:
        place_one = partial(place, session, ladder=NOW)
        return try_in_turn(session, statement, need, place_one) is not None

    if not session.attempt(tries, is_trial=True):
        session.record_failure(task)


def release(session: Session, starvation_threshold: float | None) -> None:
    """Unallocate what unready jobs hold, and start whole jobs there, marked as backfill."""
    candidates = [
        job
        for job in session.jobs_having(TaskStatus.PENDING)
        if job.count(TaskStatus.PENDING) + len(job.held) == len(job.tasks)
    ]
    for job in session.jobs_having(TaskStatus.ALLOCATED, TaskStatus.CONDITIONAL):
        if _releases(session, job, starvation_threshold):
            for status in (TaskStatus.ALLOCATED, TaskStatus.CONDITIONAL):
                for task in job.having(status):
                    session.unallocate(task)
                    session.reports.of_task(task).was_undone = True
    waiting = session.live_jobs(candidates)
    while waiting:
        job = waiting.pop()
        if not session.plugins.job_ready(job):
            _start_as_backfill(session, job)


def _releases(session: Session, job: JobState, threshold: float | None) -> bool:
    if not job.count(TaskStatus.ALLOCATED) and not job.count(TaskStatus.CONDITIONAL):
        return False
    if session.plugins.job_ready(job) or session.plugins.job_condition_ready(job):
        return False
    return threshold is None or not is_starving(session, job, threshold)


def _start_as_backfill(session: Session, job: JobState) -> None:
    def start(statement: Statement, task: TaskState) -> bool:
        node = _best(session, statement, task) if may_take_task(session, task) else None
        if node is not None:
            statement.allocate(task, node, is_backfill=True)
        return node is not None

    def tries(statement: Statement) -> bool:
        if may_go_anywhere(session, job):
            for task in tasks_needed(session, job):
                if not start(statement, task):
                    session.record_failure(task)
        else:
            tasks = tasks_to_place(session, job)
            found = try_in_turn_what_is_needed(session, statement, job, tasks, start)
            need = need_of(session, job, tasks) if found is None else None
            if need is not None:
                record_no_set(session, need)
        return session.plugins.job_ready(job)

    session.attempt(tries)


def _best(session: Session, statement: Statement, task: TaskState) -> NodeState | None:
    """Return the best node where a task fits now, of the statement's set if it has one.

    Anywhere, plans are not asked: what starts on the idle half of a node that is planned as a whole
    is started although it runs longer. `best_for` would ask, and the task would wait.
    """
    if statement.within is None:
        return session.best_node(task, Fit.NOW)
    return best_for(session, statement, task, Fit.NOW)


MOST_KINDS = 64
"""Trials are kept for at most this many kinds of tasks, the most recently used."""


def displace(session: Session) -> None:
    """Start jobs on resources that unready jobs of the same queue hold."""
    collected = filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING))
    turns = Turns(session, collected, tasks_return=True)
    displacing = _Displacing(session)
    for _, of_queue in turns.by_queue():
        for turn in of_queue:
            if displacing.take(turn.job):
                turns.put_back(turn)


class _Trial(NamedTuple):
    """The outcome of displacing tasks from a node for another task, tentatively."""

    releasable: list[TaskState]
    """The tasks that it may displace there."""
    victims: list[TaskState]
    """The tasks among them that it has to displace."""
    raw: tuple[float, ...] | None
    """The raw scores of the node then; None: the task cannot be placed there."""


class _Displacing:
    """The turns of jobs, with what they leave to later turns."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._left: dict[JobState, deque[TaskState]] = {}
        """The tasks that a job has yet to place in its next turn, in task order."""
        self._holders: dict[QueueState | None, dict[JobState, None]] = {}
        """The jobs that have Allocated tasks, ready or not, by queue."""
        self._trials = Remembered(session.log, most=MOST_KINDS)
        """Trials by kind of task."""
        for job in session.jobs_having(TaskStatus.ALLOCATED):
            self._holders.setdefault(job.queue, {})[job] = None

    def take(self, job: JobState) -> bool:
        """Give a job its turn; return whether it gets another turn."""
        session = self._session
        if not may_go_anywhere(session, job):
            return self._take_in_sets(job)
        tasks = self._left.pop(job, None)
        if tasks is None or job.groups is not None:
            tasks = deque(tasks_needed(session, job))
        passed_over: list[TaskState] = []
        displaced: list[TaskState] = []
        placed = False

        def tries(statement: Statement) -> bool:
            nonlocal placed
            while tasks:
                task = tasks.popleft()
                victims = self._place(statement, task)
                if victims is None:
                    session.record_failure(task)
                    passed_over.append(task)
                    if job.groups is not None:
                        return False  # placing only part of what it needs is useless
                else:
                    displaced.extend(victims)
                    placed = True
                if session.plugins.job_ready(job) and job.groups is None:
                    break
            return session.plugins.job_ready(job)

        if not session.attempt(tries):
            return False
        if placed:
            tasks.extendleft(reversed(passed_over))
            self._left[job] = tasks
        self._record_displaced(job, displaced)
        return placed

    def _take_in_sets(self, job: JobState) -> bool:
        """Place what a job needs next in one set of nodes that plugins offer, or nothing."""
        session = self._session
        need = need_of(session, job, tasks_to_place(session, job))
        if need is None:
            return False
        by_node = self._releasable(need.tasks[0])
        count_as_gone(session, lambda node: by_node.get(node.slot, ()))
        tried: dict[TaskState, None] = {}

        def place(on: Statement, task: TaskState) -> bool:
            victims = self._place(on, task)
            tried.update(dict.fromkeys(victims or ()))
            return victims is not None

        def tries(statement: Statement) -> bool:
            stages, tasks = (Stage.NOW, Stage.EVICTING), tasks_to_place(session, job)
            if not try_in_turn_what_is_needed(session, statement, job, tasks, place, stages):
                record_no_set(session, need)
                return False
            return session.plugins.job_ready(job)

        if not session.attempt(tries):
            return False
        displaced = [victim for victim in tried if victim.status is TaskStatus.PENDING]
        self._record_displaced(job, displaced)
        return True

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
        if not may_take_task(session, task):
            return None
        node = _best(session, statement, task)
        if node is not None:
            statement.allocate(task, node)
            return []
        choice = self._best_to_displace_on(statement, task)
        if choice is None:
            return None
        node, victims = choice
        for victim in victims:
            statement.unallocate(victim)
            session.reports.of_task(victim).was_undone = True
        statement.allocate(task, node)
        return victims

    def _best_to_displace_on(
        self, statement: Statement, task: TaskState
    ) -> tuple[NodeState, list[TaskState]] | None:
        """Try each node that has releasable tasks; return the best, with the tasks to displace."""
        choices: list[tuple[NodeState, list[TaskState]]] = []
        raw: list[tuple[float, ...]] = []
        session = self._session
        tried, within = self._tried_for(task), statement.within
        for index, releasable in sorted(self._releasable(task).items()):
            if within is not None and index not in within.slots:
                continue
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
        kind = self._session.placement.kind(task)
        if kind is None:
            return {}
        return self._trials.recall(kind, dict[int, _Trial], forget, DependsOn.NODES)

    def _try(
        self, statement: Statement, task: TaskState, node: NodeState, releasable: list[TaskState]
    ) -> _Trial:
        session = self._session
        if node.is_closed and not task.is_best_effort:
            return _Trial(releasable, [], None)
        room = RoomOn(session=session, task=task, node=node, fit=Fit.NOW)
        chosen = room.fewest([[one] for one in session.in_victim_order(releasable)])
        if chosen is None:
            return _Trial(releasable, [], None)
        victims = members_of(chosen)
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
                or session.plugins.job_ready(owner)
                or session.plugins.job_condition_ready(owner)
            ):
                continue
            for task in owner.allocated.values():
                assert task.node is not None
                by_node.setdefault(task.node.slot, []).append(task)
        return by_node
