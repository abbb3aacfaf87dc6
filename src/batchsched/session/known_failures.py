"""Attempts that are known to fail, so that they need not be made: only their records are.

An attempt *fails again* on a living cluster if nothing that decided it has changed since it
failed. A turn of `allocate` tries a job's tasks in order on the present nodes, and whether it
fails depends on the job and on the nodes where its tasks fit. So it need not be repeated while the
job has not changed, the nodes on which its tasks were placed temporarily have not changed, and no
other changed node accepts a task of its kinds. This requires that everything read of a node is
watched there, that plugins vote on jobs alone, and, for a turn that placed tasks before it failed,
that all tasks are alike: then they fill every node that accepts them, in any order. All other
turns are not recorded, and are tried again. Where plugins say that the sets of nodes which they
offer depend on rooms alone, a turn for which they offered none fails again on the same conditions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import define, frozen

from batchsched.placement import Placement
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.needs import Need
from batchsched.state.records import Fit, JobState, NodeState, TaskState
from batchsched.state.vectors import Vector, fits


@frozen
class FailedTurn:
    """A failed turn, with the data for pending reasons."""

    tasks: Sequence[TaskState]
    """All tasks of the job that were to be placed, in task order."""
    failed: Sequence[TaskState]
    """Those for which no node was found, in the order in which they were tried."""
    undone: Sequence[TaskState]
    """Those whose placement was rolled back."""
    kinds: Collection[int]
    """The kinds of the tasks that were tried."""
    slots: Collection[int]
    """The slots of the nodes on which tasks were placed temporarily."""
    at: int
    """The length of the log of changed slots at that time."""
    need: Need | None
    """The need of the job."""
    beyond_need: Collection[TaskState]
    """Those of `failed` for which the queue is asked apart from the need."""
    in_sets: bool = False
    """Whether plugins offered no set of nodes for the need, in any stage."""


@define
class _Openings:
    """Whether changed nodes accept a kind of task."""

    read: int
    """The position up to which the log of changed slots was checked."""
    last: int = -1
    """The length of the log when a node that accepts the kind was last found; -1: never."""
    closed: int = -1
    """The length of the log when all nodes were last tried for the kind, and none accepted it."""


class FailedTurns:
    """The failed turns that need not be repeated, on a live cluster."""

    def __init__(self, ledger: LiveLedger) -> None:
        self._ledger = ledger
        self._turns: dict[JobState, FailedTurn] = {}
        self._changed: list[int] = []
        """The log of slots of changed nodes, without changes that were undone at once."""
        self._changed_last: dict[int, int] = {}
        """For each slot, the length of this log after its last change."""
        self._openings: dict[int, _Openings] = {}
        self._room: tuple[int, int, Vector] | None = None
        """The part of the log for which `_largest_room` was last computed, and the result."""
        self._position = ledger.log.position()

    def forget(self, jobs: Iterable[JobState]) -> None:
        """Drop the turns of jobs that were removed or changed."""
        for job in jobs:
            self._turns.pop(job, None)

    def begin_cycle(self) -> None:
        """Record the changes since the last cycle."""
        log = self._ledger.log
        self._note(log.nodes[self._position[0] :])
        self._position = log.position()

    def end_cycle(self) -> None:
        """Record the changes of the cycle, before they are undone."""
        self._catch_up()
        for task, origin in self._ledger.moved().items():
            if task.job is not None and (task.status, task.node, task.is_backfill) != origin[:3]:
                self._turns.pop(task.job, None)

    def remember(
        self,
        job: JobState,
        placement: Placement,
        *,
        tasks: Sequence[TaskState],
        failed: Sequence[TaskState],
        undone: Sequence[TaskState],
        slots: Collection[int],
        need: Need | None,
        in_sets: bool = False,
        in_every_way: bool = False,
    ) -> None:
        """Record that a job's turn failed, if a repetition would fail too.

        Its placements must have been rolled back already. `in_every_way`: all that failed was
        tried on all nodes, as what fits now, later and conditionally.
        """
        kinds: set[int] = set()
        for task in (*undone, *failed):
            kind = placement.kind(task)
            if kind is None:
                return
            kinds.add(kind)
        if undone and len(kinds) > 1:
            # The placement of one kind affects where the next kind fits.
            return
        self._catch_up()
        at = len(self._changed)
        for kind in kinds:
            openings = self._openings.setdefault(kind, _Openings(at))
            if in_every_way and not undone:
                openings.read = openings.closed = at
        needed = frozenset[TaskState](() if need is None else need.tasks)
        beyond = {task for task in failed if task not in needed or task.is_backfill}
        self._turns[job] = FailedTurn(
            tasks, failed, undone, kinds, slots, at, need, beyond, in_sets
        )

    def need_of(self, job: JobState) -> Need | None:
        """Return the need of a job with a recorded turn; None: there is none. O(1)."""
        if job not in self._turns:
            return None
        self._catch_up()
        turn = self._turns.get(job)
        return None if turn is None else turn.need

    def find(self, job: JobState, placement: Placement) -> FailedTurn | None:
        """Return the failed turn that a job would repeat; None: it must be tried.

        O(nodes that changed since) for the first job of a kind, plus O(nodes that it was on).
        """
        if job not in self._turns:
            return None
        self._catch_up()
        turn = self._turns.get(job)
        if turn is None:
            return None
        if self._may_differ(turn, placement):
            del self._turns[job]
            return None
        return turn

    def _may_differ(self, turn: FailedTurn, placement: Placement) -> bool:
        at, last = turn.at, self._changed_last
        end = len(self._changed)
        if at == end:
            return False
        if turn.slots and any(last.get(slot, 0) > at for slot in turn.slots):
            return True
        for kind in turn.kinds:
            openings = self._openings[kind]
            if openings.read < end:
                self._look_for_openings(kind, openings, turn, placement)
            if openings.last > (at if turn.undone else max(at, openings.closed)):
                return True
        return False

    def _look_for_openings(
        self, kind: int, openings: _Openings, turn: FailedTurn, placement: Placement
    ) -> None:
        """Find out whether nodes that have changed since the last time accept a kind."""
        end = len(self._changed)
        task = next(t for t in (*turn.failed, *turn.undone) if placement.kind(t) == kind)
        slots, vacant = self._ledger.slots, self._ledger.vacant
        if fits(task.init_resreq, self._largest_room(openings.read)) and any(
            slot not in vacant and _takes(placement, task, slots[slot])
            for slot in set(self._changed[openings.read :])
        ):
            openings.last = end
        openings.read = end

    def _largest_room(self, begin: int) -> Vector:
        """Return the most that any node that changed from here in the log has, by dimension.

        Kinds are mostly checked one after the other up to the same changes, so this is computed
        once for all of them.
        """
        end = len(self._changed)
        if self._room is None or self._room[:2] != (begin, end):
            changed = [self._ledger.slots[slot] for slot in set(self._changed[begin:])]
            most = tuple(map(max, self._ledger.dimensions.zero, *map(_room_of, changed)))
            self._room = begin, end, most
        return self._room[2]

    def _catch_up(self) -> None:
        log = self._ledger.log
        if len(log.nodes) == self._position[0] and len(log.jobs) == self._position[1]:
            return
        position = log.position()
        slots, jobs, _ = log.changed_since(self._position)
        self._position = position
        self._note(slots)
        self.forget(jobs)

    def _note(self, slots: Collection[int]) -> None:
        self._changed += slots
        self._changed_last.update(dict.fromkeys(slots, len(self._changed)))


def _takes(placement: Placement, task: TaskState, node: NodeState) -> bool:
    """Return whether a task fits on a node now, later or conditionally."""
    return any(node.fits(task, fit) for fit in Fit) and placement.refusal(task, node) is None


def _room_of(node: NodeState) -> Vector:
    """Return the most that a node has now, later or conditionally, by dimension."""
    return tuple(map(max, *(node.room(fit) for fit in Fit))) if node.divergence_count else node.idle
