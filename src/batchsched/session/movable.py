"""Who may move for another task, and why others may not.

To move is to be evicted with a promise of another place, so what protects a task from preemption
keeps it where it is: priorities, minimum runtimes, budgets and limits, and that it is not
preemptible. Only gang is not asked: a task moves alone, also one of a gang's minimum, which then
waits for one start. A gang that lacks tasks keeps none of its promises, so its tasks stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.session.plugins import GANG
from batchsched.session.session import Session
from batchsched.session.victims import EvictionScope
from batchsched.state.records import NodeState, TaskState

MOVE_SCOPES = {"queue": EvictionScope.OTHER_JOBS, "all": EvictionScope.ANY_OTHER_JOB}
"""By the name that configurations use: tasks of the claimant's queue alone, or of all queues."""


@frozen(eq=False)
class Movers:
    """Who may move for a claimant. Each answer holds as long as nothing has changed."""

    session: Session
    claimant: TaskState
    scope: EvictionScope

    def candidates_on(self, node: NodeState) -> Sequence[TaskState]:
        """Return the tasks on a node that run and are in scope, in victim order.

        Those that run on what others wait for are not: they leave when these come.
        """
        session = self.session
        judges = session.plugins.judges[self.scope.point]
        found = self.scope.candidates(self.claimant, session.running_on(node), judges)
        runs = [t for t in found if t.status is TaskStatus.RUNNING and not t.is_backfill]
        return session.in_victim_order(runs) if len(runs) > 1 else runs

    def may_move(self, task: TaskState) -> bool:
        """Return whether nothing but gang protects a task from being preempted alone."""
        job = task.job
        assert job is not None
        return self.session.plugins.job_pipelined(job) and not self.is_protected(task)

    def is_protected(self, task: TaskState) -> bool:
        """Return whether a plugin other than gang protects a task from being preempted alone."""
        judges = self.session.plugins.judges[self.scope.point]
        return judges.protects_any((task,), self.claimant, but=(GANG,))

    def may_move_together(self, tasks: Sequence[TaskState]) -> bool:
        """Return whether tasks that may move may do so together, beside what has left already."""
        may_leave = self.session.plugins.may_leave_together
        return may_leave is None or may_leave(self.claimant, tasks, False)

    def kept_by(self, task: TaskState) -> str:
        """Return why a task may not move, in words; empty: it may."""
        session, job = self.session, task.job
        assert job is not None
        if not session.plugins.job_pipelined(job):
            return "of jobs that lack tasks"
        judges = session.plugins.judges[self.scope.point]
        name = judges.protector_of((task,), self.claimant, but=(GANG,))
        return "" if name is None else f"protected by {name}"
