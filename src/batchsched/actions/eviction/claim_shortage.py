"""What a task that claims resources still lacks on a node, given who leaves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from attrs import evolve

from batchsched.model.resources import EPSILON
from batchsched.plugin.extension_points import Claim
from batchsched.session.curing import accepts_without
from batchsched.session.session import Session
from batchsched.state.needs import need_of_task
from batchsched.state.records import NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.state.vectors import Vector, plus

__all__ = ["ClaimSearch", "NodeShortage"]


class ClaimSearch:
    """The part of a search for a task that is the same on all nodes."""

    __slots__ = ("_alone", "_limits", "asked", "claim", "session", "task")

    def __init__(self, session: Session, task: TaskState, claim: Claim) -> None:
        """Compute the request of the task and the limits that it exceeds now."""
        self.session = session
        self.task = task
        self.claim = claim
        self.asked = [d for d, wanted in enumerate(task.init_resreq) if wanted >= EPSILON]
        """The dimensions that the task requests."""
        self._alone = need_of_task(task)
        self._limits = claim.short_of_limits(self._alone)

    def limits_once_gone(self, leaving: Collection[TaskState]) -> tuple[int, ...]:
        """Return the dimensions in which limits keep the task out once some tasks have left."""
        if not self._limits or not leaving:
            return self._limits  # evictions make limits no tighter
        return self.claim.short_of_limits(evolve(self._alone, leaving=tuple(leaving)))


class NodeShortage:
    """The dimensions that a task still lacks on a node, given which units are evicted.

    While the node would refuse the task even without those units, the task lacks all dimensions
    that it requests.
    """

    __slots__ = ("_is_refused", "_node", "_rooms", "_search")

    def __init__(self, search: ClaimSearch, node: NodeState, *, is_refused: bool) -> None:
        """Begin with a node; `is_refused`: whether it refuses the task now."""
        self._search = search
        self._node = node
        self._is_refused = is_refused
        self._rooms = (
            (node.future_idle, node.eventual) if node.divergence_count else (node.idle, node.idle)
        )

    def __call__(self, taken: Sequence[EvictionUnit], /) -> Collection[int]:
        """Return the dimensions that it lacks once some units are evicted."""
        search = self._search
        leaving = {victim.uid: victim for unit in taken for victim in unit.victims}
        found = self._short_here(leaving.values())
        limits = search.limits_once_gone(leaving.values())
        if limits:
            found = sorted({*found, *limits})
        if (
            not found
            and self._is_refused
            and not accepts_without(search.session, search.task, self._node, leaving.values())
        ):
            return search.asked
        return found

    def may_be(self) -> Collection[int]:
        """Return the dimensions in which it may be short, whatever is evicted."""
        return {*self._search.asked, *self(())} if self._is_refused else self(())

    def may_end_with(self, units: Iterable[EvictionUnit], /) -> bool:
        """Return False if the task is short even if all of some units are evicted."""
        leaving = {victim.uid: victim for unit in units for victim in unit.victims}
        return not (
            self._short_here(leaving.values()) or self._search.limits_once_gone(leaving.values())
        )

    def may_end_without(self, freed: Vector) -> bool:
        """Return False if the task lacks room here even once `freed` is free."""
        now, finally_free = self._rooms
        wanted = self._search.task.init_resreq
        for d in self._search.asked:
            least = wanted[d] - freed[d]
            if least - now[d] >= EPSILON or least - finally_free[d] >= EPSILON:
                return False
        return True

    def _short_here(self, leaving: Iterable[TaskState]) -> list[int]:
        now, finally_free = self._rooms
        for victim in leaving:
            if victim.node is self._node:
                now = plus(now, victim.resreq)
                if not victim.is_backfill:
                    finally_free = plus(finally_free, victim.resreq)
        wanted = self._search.task.init_resreq
        return [
            d
            for d in self._search.asked
            if wanted[d] - now[d] >= EPSILON or wanted[d] - finally_free[d] >= EPSILON
        ]
