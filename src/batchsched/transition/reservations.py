"""Determines the reservations to keep for the next cycle.

Reserved tasks keep their nodes, and gangs that hold a part of what they need keep that part.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from batchsched.errors import EventError
from batchsched.model.cluster import JobInfo, NodeInfo, TaskInfo, TaskStatus
from batchsched.model.resources import Resource
from batchsched.model.result import CycleResult
from batchsched.model.rules import accepts_by_description
from batchsched.model.snapshot import Snapshot
from batchsched.transition.argument_reader import ArgumentReader
from batchsched.transition.result_reader import read_result

__all__ = ["places_to_keep", "reservations_to_keep"]


def reservations_to_keep(
    result: CycleResult, snapshot: Snapshot, /, *, nodes: Iterable[NodeInfo] | None = None
) -> Mapping[str, str]:
    """Return the tasks to be Reserved in the next cycle, and their nodes, in order of UID.

    These are

    - the tasks in `CycleResult.reserved`, unless the node's description rejects them by now: by
      its taints, or by labels that the task does not select;
    - the Allocated tasks of jobs with Reserved tasks, so that a gang does not lose some of its
      nodes while others are reserved for it; only where they fit beside other reservations, and
      not if they are in `CycleResult.kept_promises`.

    `next_snapshot` calls this itself. It is for callers that create snapshots in another way:
    waiting tasks must be Pending if they are neither in this mapping nor in
    `CycleResult.kept_promises`, whose tasks must be Pipelined. O(size of the snapshot); if the
    cycle reserved nothing, the arguments are only checked.

    Args:
        result: the result of a cycle.
        snapshot: the snapshot of that cycle.
        nodes: all present nodes, if any have changed since.

    Raises:
        EventError: an argument is invalid; all faults at once.
        SnapshotError: nodes are invalid in themselves.

    """
    given = ArgumentReader()
    before = given.snapshot(snapshot)
    decided = read_result(given, result)
    nodes_now = None if nodes is None else given.each("nodes", nodes, NodeInfo)
    if given.faults or before is None or decided is None:
        raise EventError(given.faults)
    if nodes_now is not None and decided.reserved:
        nodes_now = Snapshot(nodes=nodes_now).nodes
    return places_to_keep(decided, before, nodes_now)


def places_to_keep(
    result: CycleResult, snapshot: Snapshot, nodes: tuple[NodeInfo, ...] | None
) -> Mapping[str, str]:
    """Return the same as `reservations_to_keep` for arguments that are known to be valid."""
    reserved = {promise.task_uid: promise.node_name for promise in result.reserved}
    if not reserved:
        return {}
    kept = _Kept(snapshot, snapshot.nodes if nodes is None else nodes)
    concerned = [job for job in snapshot.jobs if any(t.uid in reserved for t in job.tasks)]
    promised = {promise.task_uid for promise in result.kept_promises}
    for job in concerned:
        for task in job.tasks:
            node_name = reserved.pop(task.uid, None)
            if node_name is not None:
                kept.keep_reserved(task, node_name)
    # Tasks that are not in the snapshot are returned too; the caller reports them.
    kept.places.update(reserved)
    for job in concerned:
        # Without any reservation left, a job's other nodes are not kept either.
        if any(task.uid in kept.places for task in job.tasks):
            kept.keep_held(job, result, promised)
    return dict(sorted(kept.places.items()))


class _Kept:
    """The reservations to keep, and what they take on the nodes."""

    def __init__(self, snapshot: Snapshot, nodes: Iterable[NodeInfo]) -> None:
        self.places: dict[str, str] = {}
        self._node_named = {node.name: node for node in nodes}
        self._taken: dict[str, Resource] = {}
        """What is reserved on each node, and what tasks without a job hold there."""
        for task in snapshot.other_tasks:
            if task.status.holds and task.status is not TaskStatus.RELEASING:
                self._take(task.node_name or "", task.resreq)

    def keep_reserved(self, task: TaskInfo, node_name: str) -> None:
        """Keep the reservation of a task; the next cycle drops one on a node that is gone."""
        node = self._node_named.get(node_name)
        if node is None or accepts_by_description(node, task):
            self.places[task.uid] = node_name
            self._take(node_name, task.start_request)

    def keep_held(self, job: JobInfo, result: CycleResult, promised: Collection[str]) -> None:
        """Keep the nodes of the job's Allocated tasks, except for promised ones."""
        for task in job.tasks:
            outcome = result.tasks.get(task.uid)
            if outcome is None or outcome.status is not TaskStatus.ALLOCATED:
                continue
            if task.uid in self.places or task.uid in promised:
                continue
            node = self._node_named.get(outcome.node_name or "")
            if node is None:
                continue
            wanted = self._taken.get(node.name, Resource()) + task.start_request
            if wanted.fits(node.allocatable):
                self.places[task.uid] = node.name
                self._taken[node.name] = wanted

    def _take(self, node_name: str, amount: Resource) -> None:
        self._taken[node_name] = self._taken.get(node_name, Resource()) + amount
