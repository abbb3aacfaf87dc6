"""The place of every task; all accounts are sums over these.

The state is changed by assigning a task's `Place`. A statement is
a copy of the state taken before it; discarding it goes back to the copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from attrs import evolve, frozen

from batchsched import (
    Bind,
    Eviction,
    HoldKind,
    JobInfo,
    NodeInfo,
    QueueStatus,
    Resource,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched import TaskStatus as S
from batchsched.devices import DevicePick
from tests.reference.amounts import Amount

__all__ = ["Accounts", "Place", "Saved", "State", "Take", "View", "less", "total_of"]


class View(Enum):
    """When a node is looked at."""

    NOW = "as it is"
    PROMISED = "as it is, with what is promised in place"
    LATER = "as it will be: all that leaves has left, and all that is promised has come"


@frozen
class Take:
    """What a task takes from a node, from one moment until another."""

    task: TaskInfo
    node: NodeInfo
    start: float
    end: float


def total_of(resources: Iterable[Resource]) -> Resource:
    """Return the sum of `resources`."""
    milli_cpu: Amount = 0
    memory: Amount = 0
    scalars: dict[str, Amount] = {}
    for resource in resources:
        milli_cpu += resource.milli_cpu
        memory += resource.memory
        for name, amount in resource.scalars.items():
            scalars[name] = scalars.get(name, 0) + amount
    return Resource(milli_cpu=milli_cpu, memory=memory, scalars=scalars)


def less(left: Resource, right: Resource) -> Resource:
    """Return `left` minus `right`, which may be negative.

    Tasks may hold more than their node has, for instance after a device failed.
    """
    return left + right * -1


@frozen
class Place:
    """The status and node of a task."""

    status: TaskStatus
    node_name: str | None = None
    is_backfill: bool = False
    picks: tuple[DevicePick, ...] = ()
    """The devices that it has there, or is promised."""


@frozen
class Accounts:
    """The accounts of one node. All but `reserved` are sums of `resreq`."""

    idle: Resource
    releasing: Resource
    pipelined: Resource
    backfilled: Resource
    leaving: Resource
    conditional: Resource
    reserved: Resource

    @property
    def future_idle(self) -> Resource:
        """What is idle once everything that is being released is free."""
        return less(self.idle + self.releasing, self.pipelined)

    @property
    def accessible(self) -> Resource:
        """What is idle, or held by backfill tasks and not yet promised."""
        return less(self.idle + self.backfilled + self.leaving, self.conditional)

    @property
    def eventual(self) -> Resource:
        """What is idle once releasing and backfill tasks are gone and promises are kept."""
        coming = self.idle + self.releasing + self.backfilled
        return less(coming, self.pipelined + self.conditional)

    def fits_now(self, request: Resource) -> bool:
        """Return whether a task can start now without the resources promised to others."""
        return (
            request.fits(self.idle)
            and request.fits(self.future_idle)
            and request.fits(self.accessible)
            and request.fits(self.eventual)
        )

    def fits_later(self, request: Resource) -> bool:
        """Return whether a task can start once everything that is being released is free."""
        return request.fits(self.future_idle) and request.fits(self.eventual)

    def fits_conditionally(self, request: Resource) -> bool:
        """Return whether a task can start once the backfill tasks are gone."""
        return request.fits(self.accessible) and request.fits(self.eventual)


@frozen
class Saved:
    """A copy of everything that a statement can change."""

    places: dict[str, Place]
    binds: tuple[Bind, ...]
    evictions: tuple[Eviction, ...]
    dropped_reservations: frozenset[str]
    taken_back: tuple[Eviction, ...]
    earned: frozenset[str]
    given_up: tuple[Eviction, ...]


def _is_closed(snapshot: Snapshot, name: str | None) -> bool:
    """Return whether a queue, or one above it, is not open; inner queues have no jobs."""
    queues = {queue.name: queue for queue in snapshot.queues}
    if any(queue.parent == name for queue in snapshot.queues):
        return False
    while name in queues:
        if queues[name].state is not QueueStatus.OPEN:
            return True
        name = queues[name].parent
    return False


class State:
    """The places of all tasks of a snapshot, and the decisions made so far."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        promises_repel: bool = False,
    ) -> None:
        self.snapshot = snapshot
        self.promises_repel = promises_repel
        """Whether anti-affinity also considers tasks to which a node is promised."""
        self.tasks: dict[str, TaskInfo] = {}
        self.job_of: dict[str, JobInfo] = {}
        for job in snapshot.jobs:
            for task in job.tasks:
                self.tasks[task.uid] = task
                self.job_of[task.uid] = job
        for task in snapshot.other_tasks:
            self.tasks[task.uid] = task
        self.places = {
            uid: Place(task.status, task.node_name, task.is_backfill, task.devices or ())
            if task.status is not TaskStatus.PIPELINED
            else Place(TaskStatus.PENDING, None, task.is_backfill)
            for uid, task in self.tasks.items()
        }
        """A promise of the last cycle is not in force until the session has checked it."""
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.dropped_reservations: set[str] = set()
        """UIDs of the tasks whose reservations in the snapshot were given up."""
        self.taken_back: list[Eviction] = []
        """What this cycle bound and took back."""
        self.earned: set[str] = set()
        """UIDs of the tasks bound on a promise, a reservation or an old plan."""
        self.given_up: list[Eviction] = []
        """Promises, and places not bound yet, that were given up for a more important job."""
        self.held: set[str] = set()
        """UIDs of the tasks that wait and that something holds."""
        self.counts_held = False
        """Whether held tasks count as Pending, as long as they may ever start."""
        for job in snapshot.jobs:
            for task in job.tasks:
                waits = task.status in (S.PENDING, S.RESERVED, S.PIPELINED)
                if waits and (task.holds or job.holds or _is_closed(snapshot, job.queue)):
                    self.held.add(task.uid)
                    self.places[task.uid] = Place(S.PENDING, None, task.is_backfill)
                    if task.status is S.RESERVED:
                        self.dropped_reservations.add(task.uid)

    def save(self) -> Saved:
        """Return a copy to roll back to."""
        return Saved(
            dict(self.places),
            tuple(self.binds),
            tuple(self.evictions),
            frozenset(self.dropped_reservations),
            tuple(self.taken_back),
            frozenset(self.earned),
            tuple(self.given_up),
        )

    def restore(self, saved: Saved) -> None:
        """Roll back to a copy."""
        self.places = dict(saved.places)
        self.binds = list(saved.binds)
        self.evictions = list(saved.evictions)
        self.dropped_reservations = set(saved.dropped_reservations)
        self.taken_back = list(saved.taken_back)
        self.earned = set(saved.earned)
        self.given_up = list(saved.given_up)

    def status(self, task: TaskInfo) -> TaskStatus:
        """Return a task's status; one that is held counts for nothing, as if it had Failed."""
        if task.uid in self.held:
            job = self.job_of[task.uid]
            gated = any(hold.kind is HoldKind.GATE for hold in task.holds)
            return S.PENDING if self.counts_held and not job.holds and not gated else S.FAILED
        return self.places[task.uid].status

    def node_name(self, task: TaskInfo) -> str | None:
        """Return the name of the node that a task is on."""
        return self.places[task.uid].node_name

    def is_backfill(self, task: TaskInfo) -> bool:
        """Return whether a task is marked as backfill now."""
        return self.places[task.uid].is_backfill

    def picks(self, task: TaskInfo) -> tuple[DevicePick, ...]:
        """Return the devices that a task has on its node, or is promised there."""
        return self.places[task.uid].picks

    def give(self, task: TaskInfo, picks: tuple[DevicePick, ...]) -> None:
        """Give a task devices of its node."""
        self.places[task.uid] = evolve(self.places[task.uid], picks=picks)

    def put(self, task: TaskInfo, status: TaskStatus, node_name: str) -> None:
        """Put a task on a node; its mark and its devices stay."""
        self._give_up_reservation(task, node_name)
        self.places[task.uid] = evolve(self.places[task.uid], status=status, node_name=node_name)

    def is_bound_now(self, task: TaskInfo) -> bool:
        """Return whether this cycle has bound a task."""
        return any(bind.task_uid == task.uid for bind in self.binds)

    def is_there(self, task: TaskInfo, view: View = View.NOW) -> bool:
        """Return whether a task has a place on a node, seen that way; reservations are none."""
        status = self.status(task)
        if self.node_name(task) is None or status is TaskStatus.RESERVED:
            return False
        return not (view is View.LATER and status is TaskStatus.RELEASING)

    def can_be_near(self, task: TaskInfo, view: View = View.NOW) -> bool:
        """Return whether inter-pod affinity looks at a task, seen that way."""
        status = self.status(task)
        is_promised = status in (TaskStatus.PIPELINED, TaskStatus.CONDITIONAL)
        on_node = self.node_name(task) is not None
        return on_node and (status.occupies or (view is not View.NOW and is_promised))

    def take_off(self, task: TaskInfo) -> None:
        """Make a task Pending; its mark becomes what it is in the snapshot."""
        self._give_up_reservation(task, None)
        self.places[task.uid] = Place(TaskStatus.PENDING, None, task.is_backfill)

    def _give_up_reservation(self, task: TaskInfo, new_node_name: str | None) -> None:
        """Record if a task with a reservation in the snapshot is placed on another node."""
        if (
            task.status is TaskStatus.RESERVED
            and self.status(task) is TaskStatus.RESERVED
            and self.node_name(task) == task.node_name != new_node_name
        ):
            self.dropped_reservations.add(task.uid)

    def mark_backfill(self, task: TaskInfo) -> None:
        """Mark a task as backfill."""
        self.places[task.uid] = evolve(self.places[task.uid], is_backfill=True)

    def tasks_by_node(self) -> dict[str, list[TaskInfo]]:
        """Return all tasks on each node, Reserved ones included."""
        found: dict[str, list[TaskInfo]] = {node.name: [] for node in self.snapshot.nodes}
        for uid, place in self.places.items():
            if place.node_name in found:
                found[place.node_name].append(self.tasks[uid])
        return found

    def tasks_on(self, node: NodeInfo) -> list[TaskInfo]:
        """Return all tasks on a node, Reserved ones included."""
        return [
            self.tasks[uid] for uid, place in self.places.items() if place.node_name == node.name
        ]

    def accounts(self, node: NodeInfo, tasks: Iterable[TaskInfo]) -> Accounts:
        """Return the accounts of a node that these tasks are on."""
        held: list[Resource] = []
        releasing: list[Resource] = []
        pipelined: list[Resource] = []
        backfilled: list[Resource] = []
        leaving: list[Resource] = []
        conditional: list[Resource] = []
        reserved: list[Resource] = []
        for task in tasks:
            place = self.places[task.uid]
            if place.status.holds:
                held.append(task.resreq)
            if place.status is TaskStatus.RELEASING:
                releasing.append(task.resreq)
                if place.is_backfill:
                    leaving.append(task.resreq)
            elif place.status is TaskStatus.PIPELINED:
                pipelined.append(task.resreq)
            elif place.status is TaskStatus.CONDITIONAL:
                conditional.append(task.resreq)
            elif place.status is TaskStatus.RESERVED:
                reserved.append(task.start_request)
            elif place.status.occupies and place.is_backfill:
                backfilled.append(task.resreq)
        return Accounts(
            idle=less(node.allocatable, total_of(held)),
            releasing=total_of(releasing),
            pipelined=total_of(pipelined),
            backfilled=total_of(backfilled),
            leaving=total_of(leaving),
            conditional=total_of(conditional),
            reserved=total_of(reserved),
        )
