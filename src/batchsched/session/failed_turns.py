"""Records failed turns of jobs, which are not repeated until something relevant has changed.

A turn of `allocate` tries a job's tasks in order on the present nodes. Whether it fails depends
on the job and on the nodes where its tasks fit. So it need not be repeated while the job has not
changed, the nodes on which its tasks were placed temporarily have not changed, and no other
changed node accepts a task of its kinds. This requires that everything read of a node is watched
there, that plugins vote on jobs alone, and, for a turn that placed tasks before it failed, that
all tasks are alike: then they fill every node that accepts them, in any order. All other turns
are not recorded, and are tried again.
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


@define
class _Openings:
    """Whether changed nodes accept a kind of task."""

    read: int
    """The position up to which the log of changed slots was checked."""
    last: int = -1
    """The length of the log when a node that accepts the kind was last found; -1: never."""


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
        self._position = ledger.log.position()

    def forget_all(self) -> None:
        """Drop all turns: kinds or slots may have changed their meaning, or plugins their state."""
        self._turns.clear()
        self._changed.clear()
        self._changed_last.clear()
        self._openings.clear()
        self._position = self._ledger.log.position()

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
        """Record that a job's turn failed, if a repetition would fail too.

        Its placements must have been rolled back already.
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
            self._openings.setdefault(kind, _Openings(at))
        need = need_of_job(job, tasks)
        self._turns[job] = FailedTurn(tasks, failed, undone, kinds, slots, at, need)

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
        if at == len(self._changed):
            return False
        if turn.slots and any(last.get(slot, 0) > at for slot in turn.slots):
            return True
        return any(self._opened(kind, turn, placement) > at for kind in turn.kinds)

    def _opened(self, kind: int, turn: FailedTurn, placement: Placement) -> int:
        """Return the length of the log when a node that accepts a kind was last found."""
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
    """Return whether a task fits on a node now, later or conditionally."""
    request = task.init_resreq
    fits = (
        node.fits_now(request) or node.fits_later(request) or node.fits_conditionally(request)
        if node.divergence_count
        else node.fits_now(request)
    )
    return fits and placement.refusal(task, node) is None
