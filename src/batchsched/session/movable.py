"""Who may move for another task, and why others may not.

To move is to be evicted with a promise of another place, so what protects a task from preemption
keeps it where it is: priorities, minimum runtimes, budgets and limits, and that it is not
preemptible. Two are not asked. Gang: a task moves alone, also one of a gang's minimum, which then
waits for one start. And who says what queues are entitled to: a move takes nothing from a queue.
A gang that lacks tasks keeps none of its promises, so its tasks stay.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

from attrs import frozen

from batchsched.model.cluster import TaskStatus
from batchsched.session.plugins import GANG
from batchsched.session.session import Session
from batchsched.session.victims import EvictionScope, Judges
from batchsched.state.memory import DependsOn
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut

MOVE_SCOPES = {"queue": EvictionScope.OTHER_JOBS, "all": EvictionScope.ANY_OTHER_JOB}
"""By the name that configurations use: tasks of the claimant's queue alone, or of all queues."""


@frozen(eq=False, slots=False)
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
        found = self.scope.candidates(self.claimant, session.running_on(node), self._judges)
        runs = [t for t in found if t.status is TaskStatus.RUNNING and not t.is_backfill]
        return session.in_victim_order(runs) if len(runs) > 1 else runs

    def may_move(self, task: TaskState) -> bool:
        """Return whether nothing but gang protects a task from being preempted alone."""
        return self._keeps_promises(task) and not self.is_protected(task)

    def _keeps_promises(self, task: TaskState) -> bool:
        """Return whether its job has, or is promised, enough that its promises are kept.

        Of what is taken off its node just now, that is known already.
        """
        job = task.job
        assert job is not None
        return self.session.plugins.job_pipelined(job) or any(
            each.moves and each.node is None for each in job.tasks
        )

    def is_protected(self, task: TaskState) -> bool:
        """Return whether a plugin protects a task from being preempted alone."""
        return self._judges.protects_any((task,), self.claimant, but=self.not_asked)

    @property
    def _judges(self) -> Judges:
        return self.session.plugins.judges[self.scope.point]

    @cached_property
    def not_asked(self) -> Collection[str]:
        """The plugins that do not count."""
        return (GANG, *self.session.plugins.names_on("claim"))

    def known(self) -> dict[TaskState, bool]:
        """Return who is known to move or not as things are, of claimants like this one, too.

        To be extended, as long as nothing changes.
        """
        key = self._judges.claimant_key_without(self.claimant, self.not_asked)
        if key is None or Shortcut.ROOM in self.session.plain:
            return {}

        def forget_all(known: dict[TaskState, bool], _stale: object) -> None:
            known.clear()

        question = "may move", self.scope, key
        remembered = self.session.remembered
        return remembered.recall(question, dict[TaskState, bool], forget_all, DependsOn.EVERYTHING)

    def may_move_together(self, tasks: Sequence[TaskState]) -> bool:
        """Return whether tasks that may move may do so together, beside what has left already."""
        may_leave = self.session.plugins.may_leave_together
        return may_leave is None or may_leave(self.claimant, tasks, False)

    def kept_by(self, task: TaskState) -> str:
        """Return why a task may not move, in words; empty: it may."""
        if not self._keeps_promises(task):
            return "of jobs that lack tasks"
        name = self._judges.protector_of((task,), self.claimant, but=self.not_asked)
        return "" if name is None else f"protected by {name}"
