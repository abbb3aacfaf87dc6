"""The reservations at the beginning of a cycle, and which of them are obsolete."""

from __future__ import annotations

from collections.abc import Callable

from batchsched.model.cluster import TaskStatus
from batchsched.model.rules import out_of_service
from batchsched.placement import Placement
from batchsched.session.node_room import NodeRoom
from batchsched.state.ledger import Ledger
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.vectors import fits

__all__ = ["Reservations"]


class Reservations:
    """The tasks of a session that are Reserved on a node."""

    __slots__ = ("_ledger", "_node_room", "_placement", "initial")

    def __init__(self, ledger: Ledger, placement: Placement, node_room: NodeRoom) -> None:
        self._ledger = ledger
        self._placement = placement
        self._node_room = node_room
        self.initial: list[TaskState] = [task for task, _ in ledger.lost_reservations]
        """The Reserved tasks of the snapshot, including those on nodes that no longer exist."""
        for job in self._jobs_reserving():
            self.initial += job.having(TaskStatus.RESERVED)

    def _jobs_reserving(self) -> list[JobState]:
        reserving = self._ledger.jobs_having[TaskStatus.RESERVED.index]
        return [job for _, job in sorted(reserving.items())]

    def drop_stale(self, is_ready: Callable[[JobState], bool]) -> None:
        """Drop reservations on nodes that cannot hold them, and of jobs that need none."""
        for _, node in sorted(self._ledger.reserved_nodes.items()):
            if node.reserved_tasks and not fits(node.reserved, self._node_room.for_jobs(node)):
                for task in sorted(node.reserved_tasks.values(), key=_uid):
                    self._drop(task)
            elif node.reserved_tasks:
                # It is not known for how long; other nodes can be reserved in the meantime.
                for task in sorted(node.reserved_tasks.values(), key=_uid):
                    if self.is_out_of_service(task, node):
                        self._drop(task)
        for job in self._jobs_reserving():
            if not job.in_session or is_ready(job):
                self.drop_of(job)

    def drop_of(self, job: JobState) -> None:
        """Make all Reserved tasks of a job Pending again."""
        for task in job.having(TaskStatus.RESERVED):
            self._drop(task)

    def _drop(self, task: TaskState) -> None:
        self._ledger.move(task, TaskStatus.PENDING, None, is_backfill=task.is_backfill)

    def is_out_of_service(self, task: TaskState, node: NodeState) -> bool:
        """Return whether a node accepts no tasks at all for now, including this one."""
        if out_of_service(node.info) is None:
            return False
        return self._placement.refusal(task, node) is not None


def _uid(task: TaskState) -> str:
    return task.uid
