"""Plans within sets of nodes, for jobs of which plugins determine in which nodes they are placed.

What is tried in a set takes places for all tasks in the profile, or none. What starts now is tried
as in other actions. A plan is made in the sets in which nodes would be reserved, each by itself:
the set with the earliest start counts, and of equal ones the first.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from math import inf, nextafter

from batchsched.actions.profile import NOW, ClusterProfile, Places
from batchsched.model.immutable import EMPTY
from batchsched.placement import Fit
from batchsched.plugin.candidates import NodeSet
from batchsched.session.candidates import Trial, sets_in_turn, try_in
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.state.needs import Need, Stage
from batchsched.state.records import NodeState, TaskState


class _Tried:
    """What was placed of a need in a set: in the profile, and in a statement if it starts now."""

    def __init__(
        self,
        profile: ClusterProfile | None,
        start: float = NOW,
        statement: Statement | None = None,
    ) -> None:
        """Begin with nothing; without a profile, nothing is taken."""
        self.within: NodeSet | None = None
        self.kept: Mapping[str, Mapping[str, Hashable]] = EMPTY
        self.places: list[tuple[TaskState, NodeState]] = []
        self.start = start
        self._profile = profile
        self._statement = statement

    def __len__(self) -> int:
        return len(self.places)

    def take(self, task: TaskState, node: NodeState) -> None:
        if self._profile is not None:
            self._profile.take(task, node, self.start)
        if self._statement is not None:
            self._statement.within, self._statement.kept = self.within, self.kept
            self._statement.allocate(task, node)
        self.places.append((task, node))

    def rollback(self, length: int) -> None:
        if self._statement is not None:
            self._statement.rollback(length)
        while len(self.places) > length:
            task, node = self.places.pop()
            if self._profile is not None:
                self._profile.put_back(task, node, self.start)


_Find = Callable[[_Tried, TaskState], NodeState | None]
"""Returns where a task goes, of the set that is tried; None: nowhere."""


class SetSearch:
    """Finds places for a need within one set of nodes, now or at the earliest time."""

    def __init__(
        self,
        session: Session,
        profile: ClusterProfile,
        accepts: Callable[[TaskState, NodeState], bool],
    ) -> None:
        """Begin with the profile; `accepts`: whether a node accepts a task now."""
        self._session = session
        self._profile = profile
        self._accepts = accepts

    def start_now(self, statement: Statement, need: Need) -> Places | None:
        """Start all tasks in the first set where they fit until their ends, and take their places.

        None: there is none. The statement must be empty.
        """
        for trial in sets_in_turn(self._session, need, (), (Stage.NOW,)):
            places = self._place(_Tried(self._profile, NOW, statement), trial, self._node_now)
            if places is not None:
                return places
        return None

    def start_as_planned(self, statement: Statement, need: Need, plan: Places) -> Places | None:
        """Start all tasks now where they were planned, if in one set, and take their places.

        None: not all of them can. The statement must be empty.
        """

        def accepts(task: TaskState, node: NodeState) -> bool:
            return self._profile.fits(task, node, NOW) and self._accepts(task, node)

        find = _as_planned(plan, accepts)
        for trial in self._to_reserve(need):
            places = self._place(_Tried(self._profile, NOW, statement), trial, find)
            if places is not None:
                return places
        return None

    def is_in_a_set(self, need: Need, plan: Places) -> bool:
        """Return whether a plan is in one of the sets, whoever holds it."""
        find = _as_planned(plan, lambda _task, _node: True)
        return any(self._place(_Tried(None), trial, find) for trial in self._to_reserve(need))

    def take_earliest(self, need: Need, plan: Places | None, latest: float) -> Places | None:
        """Take the earliest places after now in any set; None if there are none.

        In each set they are found as without sets; the places of an earlier plan are tried where
        no others are found.
        """
        earliest: Places | None = None
        for trial in self._to_reserve(need):
            limit = latest if earliest is None else nextafter(earliest.start, -inf)
            for start in self._profile.moments(need.tasks, limit, trial.nodes.nodes):
                places = self._at(trial, start, plan)
                if places is not None:
                    self._profile.put_all_back(places)
                    earliest = places
                    break
        if earliest is not None:
            self._profile.take_all(earliest)
        return earliest

    def fits_at_any_time(self, need: Need) -> bool:
        """Return whether there are places for all tasks in one set now, or at any time later."""
        for trial in self._to_reserve(need):
            for start in (NOW, *self._profile.moments(need.tasks, inf, trial.nodes.nodes)):
                places = self._at(trial, start, None)
                if places is not None:
                    self._profile.put_all_back(places)
                    return True
        return False

    def _to_reserve(self, need: Need) -> Iterator[Trial]:
        return sets_in_turn(self._session, need, (), (Stage.EMPTY,))

    def _at(self, trial: Trial, start: float, plan: Places | None) -> Places | None:
        places = self._place(_Tried(self._profile, start), trial, self._node_at)
        if places is None and plan is not None:

            def accepts(task: TaskState, node: NodeState) -> bool:
                return self._profile.fits(task, node, start) and node in self._feasible(
                    task, frozenset((node.slot,))
                )

            tried = _Tried(self._profile, start)
            places = self._place(tried, trial, _as_planned(plan, accepts))
        return places

    def _place(self, tried: _Tried, trial: Trial, find: _Find) -> Places | None:
        """Take places for all tasks of a trial, or none."""

        def place(on: _Tried, task: TaskState, _stage: Stage | None) -> bool:
            node = find(on, task)
            if node is not None:
                on.take(task, node)
            return node is not None

        if try_in(self._session, tried, trial, place):
            return Places(tried.start, tuple(tried.places))
        tried.rollback(0)
        return None

    def _feasible(self, task: TaskState, slots: frozenset[int]) -> list[NodeState]:
        return list(self._session.placement.feasible(task, slots))

    def _node_now(self, tried: _Tried, task: TaskState) -> NodeState | None:
        """Return the best node of those that are not free for ever, else of all; None: none."""
        assert tried.within is not None
        session, profile = self._session, self._profile
        kept = tried.kept.get(task.uid, EMPTY)
        nodes = [
            node
            for node in profile.fitting_now(task, self._feasible(task, tried.within.slots))
            if session.no_choice(task, node, Fit.NOW, kept=kept) is None
        ]
        limited = [n for n in nodes if n.index in profile.limited and not profile.is_open(task, n)]
        return session.best_among(task, limited or nodes) if nodes else None

    def _node_at(self, tried: _Tried, task: TaskState) -> NodeState | None:
        """Return the first node that is not free for ever, else the first; None: none."""
        assert tried.within is not None
        nodes = self._feasible(task, tried.within.slots)
        fitting = [node for node in nodes if self._profile.fits(task, node, tried.start)]
        closing = (node for node in fitting if not self._profile.is_open(task, node))
        return next(closing, fitting[0] if fitting else None)


def _as_planned(plan: Places, accepts: Callable[[TaskState, NodeState], bool]) -> _Find:
    nodes = dict(plan.of)

    def find(tried: _Tried, task: TaskState) -> NodeState | None:
        node = nodes.get(task)
        if node is None or (tried.within is not None and node.slot not in tried.within.slots):
            return None
        return node if accepts(task, node) else None

    return find
