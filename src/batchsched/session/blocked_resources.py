"""Resources that jobs hold or were promised without being ready."""

from __future__ import annotations

from collections.abc import Iterable

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import QueueShare
from batchsched.session.session import Session
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, plus

__all__ = ["BlockedResources"]

_HOLDING = (
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
    TaskStatus.RESERVED,
)


class BlockedResources:
    """The resources that jobs that are not ready block for others at the end of a cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on_node: dict[str, tuple[NodeState, dict[str, list[TaskState]]]] = {}
        """By node and job, the tasks that hold or were promised resources."""
        self._jobs: set[str] = set()
        self._jobs_of: dict[QueueState, list[JobState]] = {}
        """These jobs by queue, in order of UID."""
        holding = {
            uid: job
            for status in _HOLDING
            for uid, job in session.ledger.jobs_having[status.index].items()
        }
        for uid, job in sorted(holding.items()):
            if job.in_session and not session.job_ready(job):
                self._jobs.add(uid)
                assert job.queue is not None
                self._jobs_of.setdefault(job.queue, []).append(job)
                for task in job.tasks:
                    if task.status in _HOLDING and task.node is not None:
                        _, of_node = self._on_node.setdefault(task.node.name, (task.node, {}))
                        of_node.setdefault(uid, []).append(task)
        self._most: Vector | None = None

    def is_held_by(self, job: JobState) -> bool:
        """Return whether the job is one of those that hold resources."""
        return job.uid in self._jobs

    def holders(self, task: TaskState) -> tuple[str, ...]:
        """Return the UIDs of jobs whose resources keep the task from starting on some node.

        One job if it alone blocks a node; otherwise all jobs that hold resources on the first node
        where there would be room; none if there is no such node. The task's own job does not
        count. O(nodes where resources are held).
        """
        if not self._on_node or not fits(task.init_resreq, self._largest_room()):
            return ()
        assert task.job is not None
        first: tuple[str, ...] = ()
        for name in sorted(self._on_node):
            node, of_node = self._on_node[name]
            jobs = sorted(uid for uid in of_node if uid != task.job.uid)
            if not jobs or not self._would_fit(task, node, [t for j in jobs for t in of_node[j]]):
                continue
            if self._session.placement.refusal(task, node) is not None:
                continue
            for uid in jobs:
                if self._would_fit(task, node, of_node[uid]):
                    return (uid,)
            first = first or tuple(jobs)
        return first

    def share_holders(
        self, job: JobState, queue: QueueState, share: QueueShare | None
    ) -> tuple[str, ...]:
        """Return the UIDs of jobs without which a queue would not have its deserved share.

        These are all other jobs of the queue that hold resources, or none.
        """
        jobs = [other for other in self._jobs_of.get(queue, ()) if other is not job]
        if share is None or not jobs:
            return ()
        tasks = [task for other in jobs for task in other.tasks if task.status in _HOLDING]
        if not any(task.status.charged for task in tasks):
            return ()
        held = self._session.ledger.dimensions.zero
        for task in tasks:
            if task.status.charged and not task.is_backfill:
                held = plus(held, task.resreq)
        names = self._session.ledger.dimensions.names
        deserved = [share.deserved.get(name) for name in names]
        left = [share.allocated.get(name) - mine for name, mine in zip(names, held, strict=True)]
        return () if fits(deserved, left) else tuple(other.uid for other in jobs)

    def _largest_room(self) -> Vector:
        """Return the most that any node would have without these resources, by dimension."""
        if self._most is None:
            most = self._session.ledger.dimensions.zero
            for node, of_node in self._on_node.values():
                room = node.idle
                for tasks in of_node.values():
                    room = plus(room, self._held(tasks, TaskStatus.ALLOCATED))
                most = tuple(map(max, most, room))
            self._most = most
        return self._most

    def _would_fit(self, task: TaskState, node: NodeState, gone: list[TaskState]) -> bool:
        """Return whether the task could start on the node without these tasks."""
        if not task.is_best_effort and len(node.reserved_tasks) > sum(
            1 for other in gone if other.status is TaskStatus.RESERVED
        ):
            return False
        held = self._held(gone, TaskStatus.ALLOCATED)
        later = self._held(gone, TaskStatus.PIPELINED)
        if_given = self._held(gone, TaskStatus.CONDITIONAL)
        return (
            fits(task.init_resreq, plus(node.idle, held))
            and fits(task.init_resreq, plus(plus(node.future_idle, held), later))
            and fits(task.init_resreq, plus(plus(node.accessible, held), if_given))
            and fits(task.init_resreq, plus(plus(plus(node.eventual, held), later), if_given))
        )

    def _held(self, tasks: Iterable[TaskState], status: TaskStatus) -> Vector:
        total = self._session.ledger.dimensions.zero
        for task in tasks:
            if task.status is status:
                total = plus(total, task.resreq)
        return total
