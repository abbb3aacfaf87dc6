"""What searches for room have found out, for the next search of the same sort.

A search asks, of one node after the other, whether evicting tasks there makes room
for a claimant. Two things are remembered, each until it may have changed: on the node,
or in the accounts of the jobs and queues that run there.

- `Bounds`: who could be evicted at most, whatever becomes of the accounts, as plugins
  with `shielded` among their hints tell. It is the same for many claimants, it holds
  while accounts become smaller, and it settles most nodes.
- `Verdicts`: whom plugins would let go. It is the same only for claimants that plugins
  cannot tell apart (`claimant_key` among their hints), and changes with every account.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from collections.abc import Set as AbstractSet

from attrs import Factory, define, frozen

from batchsched.model.status import TaskStatus
from batchsched.session.victims import Victims
from batchsched.state.change_log import Position
from batchsched.state.ledger import Ledger
from batchsched.state.records import JobState, QueueState, TaskState
from batchsched.state.vectors import Vector

__all__ = [
    "AtMost",
    "Bounds",
    "Claimed",
    "InVain",
    "Searched",
    "SomeNodes",
    "Verdicts",
    "running_nodes",
]


@define
class Claimed:
    """From whom claimants claim."""

    ledger: Ledger
    across_queues: QueueState | None
    """The claimants' queue, if they claim from other queues; then their accounts matter too."""
    may_give: Callable[[QueueState], bool]
    """Whether any task of a queue could be a victim now."""

    def changed(
        self, position: Position, *, givers: set[QueueState], charged_only: bool
    ) -> set[int] | None:
        """Return the nodes where an answer may be another than at a position; None: on any.

        Args:
            position: see `Ledger.position`.
            givers: queues besides those that may give now whose accounts matter.
            charged_only: whether accounts matter only if they have become larger.
        """
        nodes, jobs, charged = self.ledger.log.changed_since(position)
        relevant = charged if charged_only else jobs
        if self.across_queues is None:
            for job in relevant:
                nodes |= running_nodes(job)
        elif self._touches(relevant, givers):
            return None
        return nodes

    def _touches(self, jobs: set[JobState], givers: set[QueueState]) -> bool:
        return any(
            queue is not self.across_queues and (queue in givers or self.may_give(queue))
            for queue in {job.queue for job in jobs}
            if queue is not None
        )


@frozen
class InVain:
    """A search that found no room."""

    position: Position
    """As of when; see `Ledger.position`."""

    def is_still_true(self, ledger: Ledger) -> bool:
        """Return whether nothing has changed since. O(1)."""
        return self.position == ledger.log.position()


@frozen
class AtMost:
    """Who could be evicted on a node at most."""

    tasks: Sequence[TaskState]
    total: Vector
    """What they hold together."""
    alone: Vector
    """What those of them hold together that may be able to go without their whole jobs."""


@define
class SomeNodes:
    """Nodes of which something holds."""

    position: Position
    """As of when it holds; see `Ledger.position`."""
    indices: set[int]


@define
class Bounds:
    """Who could be evicted at most."""

    claimed: Claimed
    position: Position
    """As of when `held` holds; see `Ledger.position`."""
    held: dict[int, AtMost] = Factory(dict[int, AtMost])
    """Index of a node to the tasks that no plugin shields there."""
    nobody: set[int] = Factory(set[int])
    """The nodes where there is no such task, so that nothing that is asked for will find room."""
    _open: dict[Hashable, SomeNodes] = Factory(dict[Hashable, SomeNodes])
    """What claimants ask for to the nodes where the bound may be enough for it."""
    _open_alone: dict[Hashable, SomeNodes] = Factory(dict[Hashable, SomeNodes])
    """The same, of tasks that go on their own."""

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, and the tasks of jobs charged)."""
        now = self.claimed.ledger.log.position()
        if self.position != now:
            changed = self._changed(self.position)
            _forget(self.held, changed)
            if changed is None:
                self.nobody.clear()
            else:
                self.nobody -= changed
            self.position = now

    def open_for(
        self, asked_for: Hashable, large_enough: AbstractSet[int], *, alone: bool
    ) -> set[int]:
        """Return which nodes, of those that are large enough, may have room for what is asked for.

        Discard from it the nodes where the bound is not enough. `alone`: by evicting tasks
        that go on their own; if not, by evicting whole jobs too.
        """
        now = self.claimed.ledger.log.position()
        which = self._open_alone if alone else self._open
        known = which.get(asked_for)
        if known is None:
            known = which[asked_for] = SomeNodes(now, set(large_enough - self.nobody))
        elif known.position != now:
            changed = self._changed(known.position)
            known.indices |= large_enough if changed is None else changed & large_enough
            known.position = now
        return known.indices

    def _changed(self, position: Position) -> set[int] | None:
        return self.claimed.changed(position, givers=set(), charged_only=True)


@define
class Searched:
    """Where searches for what is asked for have looked."""

    position: Position
    """As of when it holds; see `Ledger.position`."""
    in_vain: set[int] = Factory(set[int])
    """The nodes where evicting is not enough."""
    in_vain_alone: set[int] = Factory(set[int])
    """The nodes where evicting those who go on their own is not enough."""
    with_jobs: dict[int, int] = Factory(dict[int, int])
    """Nodes where evicting whole jobs too is enough, to how many tasks are evicted then."""

    def forget(self, changed: Collection[int] | None) -> None:
        """Forget some nodes; None: all."""
        if changed is None:
            self.in_vain.clear()
            self.in_vain_alone.clear()
            self.with_jobs.clear()
            return
        self.in_vain -= set(changed)
        self.in_vain_alone -= set(changed)
        for index in changed:
            self.with_jobs.pop(index, None)


@define
class Verdicts:
    """Whom plugins would let go."""

    claimed: Claimed
    position: Position
    """As of when `victims` holds; see `Ledger.position`."""
    victims: dict[int, Victims] = Factory(dict[int, Victims])
    """Index of a node to whom plugins would let go there."""
    _searched: dict[Hashable, Searched] = Factory(dict[Hashable, Searched])
    """What claimants ask for to where they have looked for it."""
    _givers: set[QueueState] = Factory(set[QueueState])

    def catch_up(self) -> None:
        """Forget what may have changed. O(changes since, and the tasks of jobs that changed)."""
        now = self.claimed.ledger.log.position()
        if self.position != now:
            _forget(self.victims, self._changed(self.position))
            self.position = now

    def keep(self, node_index: int, victims: Victims) -> None:
        """Remember whom plugins would let go on a node."""
        self.victims[node_index] = victims
        if self.claimed.across_queues is not None:
            for victim in victims.alone:
                assert victim.job is not None
                self._add_giver(victim.job)
            for job in [*victims.whole_jobs, *(unit.job for unit in victims.replicas)]:
                self._add_giver(job)

    def _add_giver(self, job: JobState) -> None:
        assert job.queue is not None
        self._givers.add(job.queue)

    def searched(self, asked_for: Hashable) -> Searched:
        """Return where it was looked for what is asked for; add to it what is found out."""
        now = self.claimed.ledger.log.position()
        known = self._searched.get(asked_for)
        if known is None:
            known = self._searched[asked_for] = Searched(now)
        elif known.position != now:
            known.forget(self._changed(known.position))
            known.position = now
        return known

    def _changed(self, position: Position) -> set[int] | None:
        return self.claimed.changed(position, givers=self._givers, charged_only=False)


def _forget(known: dict[int, AtMost] | dict[int, Victims], changed: Collection[int] | None) -> None:
    if changed is None:
        known.clear()
    else:
        for index in changed:
            known.pop(index, None)


def running_nodes(job: JobState) -> set[int]:
    """Return the slots of the nodes where a job has Running tasks. O(tasks)."""
    if not job.count(TaskStatus.RUNNING):
        return set()
    return {
        task.node.slot
        for task in job.tasks
        if task.status is TaskStatus.RUNNING and task.node is not None
    }
