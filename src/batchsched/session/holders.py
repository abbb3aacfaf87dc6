"""Who holds what of whom: room on nodes, the quota of queues, devices, what is lent.

Reasons, answers and suggestions ask here. No decision depends on any of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice

from batchsched.model.cluster import TaskStatus
from batchsched.model.reasons import QueueShare
from batchsched.session.outlook import accepts_without
from batchsched.session.session import Session
from batchsched.state.records import JobState, NodeState, QueueState, TaskState
from batchsched.state.vectors import Vector, fits, plus, total_of

Holder = JobState | TaskState
"""Who holds something: a job, or a task of none."""


def held_on(node: NodeState) -> dict[Holder, list[TaskState]]:
    """Return what holds resources on a node and could give them back, by whose it is.

    Not what runs on each node, such as daemons: it comes back. O(tasks on the node).
    """
    held: dict[Holder, list[TaskState]] = {}
    for task in node.tasks.values():
        if task.status.holds and not task.info.is_on_each_node:
            held.setdefault(task if task.job is None else task.job, []).append(task)
    return held


def held_by(holder: Holder, zero: Vector) -> Vector:
    """Return how much a job, or a task of none, holds and could give back, on all nodes."""
    tasks: Iterable[TaskState] = (holder,) if isinstance(holder, TaskState) else holder.tasks
    ends = [task for task in tasks if task.status.holds and not task.info.is_on_each_node]
    return total_of([task.resreq for task in ends], zero)


def queues_below(queue: QueueState) -> Iterator[QueueState]:
    """Yield a queue and all below it: their jobs hold what it holds."""
    below = [queue]
    for each in below:  # it grows meanwhile
        below += each.children
        yield each


def devices_of(session: Session, task: TaskState) -> tuple[str, ...]:
    """Return the names of the devices that a task has, each once."""
    picks = session.state.view.device_books.picks_of(task)
    return tuple(dict.fromkeys(pick.device[2] for pick in picks if not pick.admin))


def devices_of_no_task(session: Session, node: NodeState) -> dict[str, tuple[str, ...]]:
    """Return the devices of a node that claims have although no task uses them, by claim."""
    there = {each.key for each in session.state.view.device_books.of(node).offer.devices}
    devices: dict[str, dict[str, None]] = {}
    for pick in session.ledger.besides["held"]:
        if pick.device in there and not pick.admin:
            devices.setdefault(pick.shared or pick.claim, {})[pick.device[2]] = None
    return {name: tuple(devices[name]) for name in sorted(devices)}


# Resources that jobs hold without being ready

MOST_BROKEN = 100
"""The most broken jobs that are looked at as those that others wait for."""

_HOLDING = (
    TaskStatus.ALLOCATED,
    TaskStatus.PIPELINED,
    TaskStatus.CONDITIONAL,
    TaskStatus.RESERVED,
)


class HeldByUnready:
    """The resources that jobs that are not ready block for others at the end of a cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on_node: dict[str, tuple[NodeState, dict[str, list[TaskState]]]] = {}
        """By node and job, the tasks that hold or were promised resources."""
        self._broken: list[JobState] | None = None
        """Jobs that have lost tasks that they need; None: not looked for yet."""
        self._jobs_of: dict[QueueState | None, dict[str, JobState]] = {}
        """These jobs by queue and UID, in this order."""
        holding = {
            uid: job
            for status in _HOLDING
            for uid, job in session.ledger.jobs_having[status.index].items()
        }
        for uid, job in sorted(holding.items()):
            if job.in_session and not session.plugins.job_ready(job):
                self._jobs_of.setdefault(job.queue, {})[uid] = job
                for task in job.tasks:
                    if task.status in _HOLDING and task.node is not None:
                        _, of_node = self._on_node.setdefault(task.node.name, (task.node, {}))
                        of_node.setdefault(uid, []).append(task)

    def of(self, queue: QueueState | None) -> Mapping[str, JobState]:
        """Return the jobs of a queue that hold resources without being ready, by UID in order."""
        return self._jobs_of.get(queue, {})

    def holders(self, task: TaskState) -> tuple[str, ...]:
        """Return the UIDs of jobs whose resources keep the task from starting on some node.

        One job if it alone blocks a node; otherwise all jobs that hold resources on the first node
        where there would be room; none if there is no such node. The task's own job does not
        count. O(nodes where resources are held).
        """
        if not self._on_node or not fits(task.init_resreq, self._largest_room):
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

    def broken_holder(self, task: TaskState) -> tuple[str, str] | None:
        """Return the broken job without which a task of another one could start, and the node.

        Neither does any work as long as it waits for the other. O(nodes where broken jobs run), for
        at most `MOST_BROKEN` of them.
        """
        session = self._session
        assert task.job is not None
        if not self._is_stuck(task.job):
            return None
        if self._broken is None:
            stuck = (job for _, job in sorted(session.ledger.jobs_short.items()))
            self._broken = list(islice(filter(self._is_stuck, stuck), MOST_BROKEN))
        for job in self._broken:
            by_node: dict[NodeState, list[TaskState]] = {}
            for other in job.tasks if job is not task.job else ():
                if other.node is not None and other.status.occupies:
                    by_node.setdefault(other.node, []).append(other)
            for node, there in sorted(by_node.items(), key=lambda item: item[0].index):
                freed = total_of([other.resreq for other in there], session.ledger.dimensions.zero)
                if fits(task.init_resreq, plus(node.future_idle, freed)) and accepts_without(
                    session, task, node, there
                ):
                    return job.uid, node.name
        return None

    def _is_stuck(self, job: JobState) -> bool:
        """Return whether a job is broken, and not promised enough to run again."""
        return job.in_session and job.is_broken and not self._session.plugins.job_pipelined(job)

    def share_holders(
        self, job: JobState, queue: QueueState, share: QueueShare | None
    ) -> tuple[str, ...]:
        """Return the UIDs of jobs without which a queue would not have its deserved share.

        These are all other jobs of the queue that hold resources, or none.
        """
        jobs = [other for other in self.of(queue).values() if other is not job]
        if share is None or not jobs:
            return ()
        charged = [task for other in jobs for task in other.tasks if task.status in _HOLDING]
        charged = [task for task in charged if task.status.charged]
        if not charged:
            return ()
        resreqs = [task.resreq for task in charged if not task.is_backfill]
        held = total_of(resreqs, self._session.ledger.dimensions.zero)
        names = self._session.ledger.dimensions.names
        deserved = [share.deserved.get(name) for name in names]
        left = [share.allocated.get(name) - mine for name, mine in zip(names, held, strict=True)]
        return () if fits(deserved, left) else tuple(other.uid for other in jobs)

    @cached_property
    def _largest_room(self) -> Vector:
        """The most that any node would have without these resources, by dimension."""
        most = self._session.ledger.dimensions.zero
        for node, of_node in self._on_node.values():
            tasks = [task for of_job in of_node.values() for task in of_job]
            most = tuple(map(max, most, plus(node.idle, self._held(tasks, TaskStatus.ALLOCATED))))
        return most

    def _would_fit(self, task: TaskState, node: NodeState, gone: Sequence[TaskState]) -> bool:
        """Return whether the task could start on the node without these tasks."""
        if not task.is_best_effort and len(node.reserved_tasks) > sum(
            1 for other in gone if other.status is TaskStatus.RESERVED
        ):
            return False
        now, later, if_given = TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.CONDITIONAL
        return all(
            fits(task.init_resreq, plus(room, self._held(gone, *freed)))
            for room, freed in (
                (node.idle, (now,)),
                (node.future_idle, (now, later)),
                (node.accessible, (now, if_given)),
                (node.eventual, (now, later, if_given)),
            )
        )

    def _held(self, tasks: Iterable[TaskState], *statuses: TaskStatus) -> Vector:
        held = [task.resreq for task in tasks if task.status in statuses]
        return total_of(held, self._session.ledger.dimensions.zero)
