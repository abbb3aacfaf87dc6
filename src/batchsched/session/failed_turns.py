"""The turns of jobs that came to nothing, remembered until something may have let the job in.

A turn of `allocate` tries a job's tasks in order on the nodes as they are. Whether it comes to
nothing follows from the job, and from the nodes where its tasks fit. So it need not be repeated
while the job is as it was, while the nodes that its tasks were on for the time being are as they
were, and while no other node that has changed takes any task of its kinds. That holds where all
that is read of a node is watched there, where plugins vote on jobs alone, and, for a turn that
had given places before it failed, where all tasks are alike: then they fill every node that takes
them, in whichever order. Everything else is forgotten, and tried again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import define, frozen

from batchsched.placement import Placement
from batchsched.state.live_ledger import LiveLedger
from batchsched.state.needs import Need, need_of_job
from batchsched.state.records import JobState, NodeState, TaskState

__all__ = ["FailedTurn", "FailedTurns"]


@frozen
class FailedTurn:
    """What a turn that came to nothing left for the reasons."""

    tasks: Sequence[TaskState]
    """All tasks of the job that were to be placed, in task order."""
    failed: Sequence[TaskState]
    """Those that found no place, in the order in which they were tried."""
    undone: Sequence[TaskState]
    """Those that had a place, which was taken back."""
    kinds: Collection[int]
    """The kinds of those that were tried."""
    slots: Collection[int]
    """The slots of the nodes where some had a place for the time being."""
    at: int
    """How much was on the record of changed slots."""
    need: Need | None
    """What the job asked for."""


@define
class _Openings:
    """Whether nodes that changed take a kind of task."""

    read: int
    """Up to where the record of changed slots was looked at."""
    last: int = -1
    """How long the record was when a node was last found that takes the kind; -1: never."""


class FailedTurns:
    """The turns that need not be repeated. It follows books that live on, from cycle to cycle."""

    def __init__(self, ledger: LiveLedger) -> None:
        self._ledger = ledger
        self._turns: dict[JobState, FailedTurn] = {}
        self._changed: list[int] = []
        """The slots of nodes that changed, but for what was undone at once."""
        self._changed_last: dict[int, int] = {}
        """For each of those, how long that record was after its last change."""
        self._openings: dict[int, _Openings] = {}
        self._position = ledger.log.position()

    def forget_all(self) -> None:
        """Begin anew: kinds or slots may mean something else now, or plugins answer otherwise."""
        self._turns.clear()
        self._changed.clear()
        self._changed_last.clear()
        self._openings.clear()
        self._position = self._ledger.log.position()

    def forget(self, jobs: Iterable[JobState]) -> None:
        """Forget the turns of jobs that are gone, or not as they were."""
        for job in jobs:
            self._turns.pop(job, None)

    def begin_cycle(self) -> None:
        """Record what has changed since the last cycle."""
        log = self._ledger.log
        self._note(log.nodes[self._position[0] :])
        self._position = log.position()

    def end_cycle(self) -> None:
        """Record what the cycle has changed, before it is undone."""
        self._catch_up()
        for task, origin in self._ledger.moved().items():
            if task.job is not None and (task.status, task.node, task.is_backfill) != origin:
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
    ) -> None:
        """Remember that a job's turn came to nothing, if that would be so again.

        Its places must have been taken back already.
        """
        kinds: set[int] = set()
        for task in (*undone, *failed):
            kind = placement.kind(task)
            if kind is None:
                return
            kinds.add(kind)
        if undone and len(kinds) > 1:
            # What one kind takes of a node decides where the next goes.
            return
        self._catch_up()
        at = len(self._changed)
        for kind in kinds:
            self._openings.setdefault(kind, _Openings(at))
        need = need_of_job(job, tasks)
        self._turns[job] = FailedTurn(tasks, failed, undone, kinds, slots, at, need)

    def need_of(self, job: JobState) -> Need | None:
        """Return what a job asks for whose last turn is remembered; None: none is. O(1)."""
        if job not in self._turns:
            return None
        self._catch_up()
        turn = self._turns.get(job)
        return None if turn is None else turn.need

    def find(self, job: JobState, placement: Placement) -> FailedTurn | None:
        """Return the turn that a job would have again, or None if it is to be found out.

        O(nodes that changed since) for the first job of a kind, and O(nodes that it was on).
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
        if at == len(self._changed):
            return False
        if turn.slots and any(last.get(slot, 0) > at for slot in turn.slots):
            return True
        return any(self._opened(kind, turn, placement) > at for kind in turn.kinds)

    def _opened(self, kind: int, turn: FailedTurn, placement: Placement) -> int:
        """Return how long the record was when a node was last found that takes a kind."""
        openings = self._openings[kind]
        end = len(self._changed)
        if openings.read < end:
            task = next(t for t in (*turn.failed, *turn.undone) if placement.kind(t) == kind)
            slots, vacant = self._ledger.slots, self._ledger.vacant
            if any(
                slot not in vacant and _takes(placement, task, slots[slot])
                for slot in set(self._changed[openings.read :])
            ):
                openings.last = end
            openings.read = end
        return openings.last

    def _catch_up(self) -> None:
        log = self._ledger.log
        position = log.position()
        if position == self._position:
            return
        slots, jobs, _ = log.changed_since(self._position)
        self._position = position
        self._note(slots)
        self.forget(jobs)

    def _note(self, slots: Collection[int]) -> None:
        self._changed += slots
        self._changed_last.update(dict.fromkeys(slots, len(self._changed)))


def _takes(placement: Placement, task: TaskState, node: NodeState) -> bool:
    """Return whether a task fits on a node in any way."""
    request = task.init_resreq
    fits = (
        node.fits_now(request) or node.fits_later(request) or node.fits_conditionally(request)
        if node.special
        else node.fits_now(request)
    )
    return fits and placement.refusal(task, node) is None
