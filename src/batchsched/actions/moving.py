"""Make room for a task by moving others: the search for the fewest moves that serve.

A *solution* has a node for the claimant, the tasks that leave it, and for each of these another
node, from which further tasks may have to move in turn. Solutions are looked for by their number of
moves, so the first one has the fewest; among those, first where most leave the claimant's own node,
then on the node that lacks least.

    n1: a 2  .  .  .        c asks for all of a node.
    n2: b 2  .  .  .        One move: a to n2, or b to n1. n1 comes first: c is promised n1.

While it is tried, all of it stands in the statement: what moves was taken off its node, the
claimant is promised its place, and what is still to be put down is Pending. So predicates, devices
and limits are asked about nodes as they will be, and nothing needs to be computed twice.

Four things bound it. The number of moves; the number of *tries*: every set of tasks that is looked
at, and every place that is tried for one of them, is one, and with the last the search ends. What
cannot be enough by amounts alone is passed over, at no cost: nodes of which even the largest tasks
hold too little. And a task that fits nowhere else is not taken off its node, unless others may move
for it.

A solution counts only if its moves can be made one after the other: each fits its new place once
those before it have left and arrived. (Two tasks that swap their nodes have promises that hold, but
none could start before the other has left, and where each must see the other gone, none would.)

Who may move (`Movers`): to move is to be evicted with a promise of another place, so what protects
a task from preemption keeps it where it is: priorities, minimum runtimes, budgets and limits, and
that it is not preemptible. Two are not asked. Gang: a task moves alone, also one of a gang's
minimum, which then waits for one start. And who says what queues are entitled to: a move takes
nothing from a queue. A gang that lacks tasks keeps none of its promises, so its tasks stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import combinations
from math import comb
from operator import add

from attrs import define, field, frozen

from batchsched.model.cluster import TaskStatus
from batchsched.placement import Fit
from batchsched.session.candidates import refusal_beside_its_job
from batchsched.session.outlook import looks_ahead, nodes_for, refusal_ahead
from batchsched.session.plugins import GANG
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import limit_on
from batchsched.session.victims import EvictionScope, Judges
from batchsched.state.memory import DependsOn, forget
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, dominant_share, fits, minus, plus

MOVE_SCOPES = {"queue": EvictionScope.OTHER_JOBS, "all": EvictionScope.ANY_OTHER_JOB}
"""By the name that configurations use: tasks of the claimant's queue alone, or of all queues."""


@frozen(eq=False, slots=False)
class Movers:
    """Who may move for a claimant. Each answer holds as long as nothing has changed."""

    session: Session
    claimant: TaskState
    scope: EvictionScope

    def candidates_on(self, node: NodeState) -> Sequence[TaskState]:
        """Return the tasks on a node that run and are in scope, in victim order.

        Those that run on what others wait for are not: they leave when these come.
        """
        session = self.session
        found = self.scope.candidates(self.claimant, session.running_on(node), self._judges)
        runs = [t for t in found if t.status is TaskStatus.RUNNING and not t.is_backfill]
        return session.in_victim_order(runs) if len(runs) > 1 else runs

    def may_move(self, task: TaskState) -> bool:
        """Return whether nothing but gang protects a task from being preempted alone."""
        return self._keeps_promises(task) and not self.is_protected(task)

    def _keeps_promises(self, task: TaskState) -> bool:
        """Return whether its job has, or is promised, enough that its promises are kept.

        Of what is taken off its node just now, that is known already.
        """
        job = task.job
        assert job is not None
        return self.session.plugins.job_pipelined(job) or any(
            each.moves and each.node is None for each in job.tasks
        )

    def is_protected(self, task: TaskState) -> bool:
        """Return whether a plugin protects a task from being preempted alone."""
        return self._judges.protects_any((task,), self.claimant, but=self.not_asked)

    @property
    def _judges(self) -> Judges:
        return self.session.plugins.judges[self.scope.point]

    @cached_property
    def not_asked(self) -> Collection[str]:
        """The plugins that do not count."""
        return (GANG, *self.session.plugins.names_on("claim"))

    def known(self) -> dict[TaskState, bool]:
        """Return who is known to move or not as things are, of claimants like this one, too.

        To be extended, as long as nothing changes.
        """
        key = self._judges.claimant_key_without(self.claimant, self.not_asked)
        if key is None or Shortcut.ROOM in self.session.plain:
            return {}

        def forget_all(known: dict[TaskState, bool], _stale: object) -> None:
            known.clear()

        question = "may move", self.scope, key
        remembered = self.session.remembered
        return remembered.recall(question, dict[TaskState, bool], forget_all, DependsOn.EVERYTHING)

    def may_move_together(self, tasks: Sequence[TaskState]) -> bool:
        """Return whether tasks that may move may do so together, beside what has left already."""
        may_leave = self.session.plugins.may_leave_together
        return may_leave is None or may_leave(self.claimant, tasks, False)

    def kept_by(self, task: TaskState) -> str:
        """Return why a task may not move, in words; empty: it may."""
        if not self._keeps_promises(task):
            return "of jobs that lack tasks"
        name = self._judges.protector_of((task,), self.claimant, but=self.not_asked)
        return "" if name is None else f"protected by {name}"


@define(eq=False)
class Tries:
    """How many tries a claim has left."""

    left: int

    def take(self) -> bool:
        """Use one; return False if none was left."""
        if self.left <= 0:
            self.left = -1
            return False
        self.left -= 1
        return True

    def take_many(self, count: int) -> None:
        """Use several, or all that are left."""
        self.left = self.left - count if count <= self.left else -1

    @property
    def are_over(self) -> bool:
        """Whether more were asked for than there were."""
        return self.left < 0


@frozen(eq=False)
class _Crowd:
    """The tasks on a node that are in scope, in victim order, and what they hold at most."""

    tasks: Sequence[TaskState]
    largest: Sequence[Vector]
    """What any one of them, any two and so on hold at most, dimension by dimension."""

    def fewest_for(self, missing: Vector) -> int | None:
        """Return how many must leave at least to free some amounts, one or more; None: no number.

        O(number x dimensions).
        """
        if not self.largest or not fits(missing, self.largest[-1]):
            return None
        number = 1
        while not fits(missing, self.largest[number - 1]):
            number += 1
        return number


@define(eq=False)
class _Opening:
    """A node that would take a task if enough tasks left it."""

    node: NodeState
    missing: Vector
    """What the task lacks there."""
    fewest: int
    """How many tasks must leave at least; more than may move, if none of them serve."""


def crowd_of(tasks: Sequence[TaskState], most: int) -> _Crowd:
    """Return tasks with what up to `most` of them hold at most. O(tasks log tasks)."""
    by_dimension = [
        sorted(held, reverse=True) for held in zip(*(t.resreq for t in tasks), strict=True)
    ]
    largest: list[Vector] = []
    for count in range(min(most, len(tasks))):
        more = tuple([amounts[count] for amounts in by_dimension])
        largest.append(tuple(map(add, largest[-1], more)) if largest else more)
    return _Crowd(tasks, largest)


@define(kw_only=True, eq=False)
class MoveSearch:
    """The search for moves that make room for a task, in an open statement."""

    session: Session
    statement: Statement
    task: TaskState
    """The claimant, Pending."""
    movers: Movers
    most: int
    """The most tasks that may move for it."""
    tries: Tries
    _is_plain: bool = field(init=False)
    _may_move: dict[TaskState, bool] = field(init=False)
    """Who may move, as long as nobody does."""
    _movable: dict[int, _Crowd] = field(init=False, factory=dict[int, _Crowd])
    """The same by slot of the node."""
    _begin: int = field(init=False)
    """How many operations the statement had before."""

    def __attrs_post_init__(self) -> None:
        self._is_plain = Shortcut.ROOM in self.session.plain
        self._begin = len(self.statement)
        self._may_move = self.movers.known()

    def make_room(self) -> bool:
        """Promise the claimant a node, and others the places to which they move for it.

        Returns:
            Whether there was a solution. If not, nothing was changed.

        """
        if limit_on(self.session, self.task) is not None or self.most <= 0:
            return False
        within = self.statement.within
        openings = self._openings(self.task, self.most, None if within is None else within.slots)
        for moves in range(1, self.most + 1):
            for here in range(moves, 0, -1):
                for opening in openings:
                    if opening.fewest > here or not self._may_serve(opening, here):
                        continue
                    if moves > here or not self._passes_over(opening, here):
                        for leaving in self._sets_on(opening, here):
                            if self._frees(opening, leaving, moves - here):
                                return True
                    if self.tries.are_over:
                        return False
        return False

    # Where, and who leaves

    def _openings(
        self, task: TaskState, most: int, slots: Collection[int] | None = None
    ) -> list[_Opening]:
        """Return the nodes that would take a task once up to `most` have left; least lacking first.

        `slots`: of the nodes that count; None: all. O(nodes x dimensions).
        """
        own = None if task.leaving is None else task.leaving.node
        request, crowd_on = task.init_resreq, self._crowds()
        found: list[tuple[float, _Opening]] = []
        # The loop that all claims go through: see `consolidate` in the benchmarks.
        for node in self._accepting(task, slots):
            missing, for_good = node.lacking(request, Fit.LATER)
            if for_good is not missing:  # what backfill tasks hold is not free
                missing = tuple(map(max, missing, for_good))
            fewest = crowd_on(node).fewest_for(missing)
            if (
                fewest is not None
                and fewest <= most
                and node is not own
                and fits(request, node.allocatable)
            ):
                pairs = zip(missing, node.allocatable, strict=True)
                lacks = max((short / whole for short, whole in pairs if short > 0), default=0.0)
                found.append((lacks, _Opening(node, missing, fewest)))
        found.sort(key=lambda each: each[0])  # in node order where equal
        return [opening for _, opening in found]

    def _accepting(self, task: TaskState, slots: Collection[int] | None) -> list[NodeState]:
        """Return the nodes that accept a task as they will be, in node order."""
        nodes, guard = nodes_for(self.session, task, slots), self.session.guard
        return [*nodes] if guard is None else [n for n in nodes if guard.allows(task, n)]

    def _crowds(self) -> Callable[[NodeState], _Crowd]:
        """Return what tells who may be asked to move from a node, whether plugins let them or not.

        As long as nothing changes.
        """
        session, most = self.session, self.most

        def crowd_on(node: NodeState) -> _Crowd:
            return crowd_of(self.movers.candidates_on(node), most)

        if self._is_plain or session.plugins.eviction_price is not None:
            # What a task costs, and so the order of victims, may change with others of its job.
            return crowd_on
        job = self.task.job
        assert job is not None
        own = job.uid if job.runs else ""
        question = ("crowds", self.movers.scope, job.info.queue, own, most)
        known = session.remembered.recall(question, dict[int, _Crowd], forget, DependsOn.NODES)

        def known_crowd_on(node: NodeState) -> _Crowd:
            crowd = known.get(node.slot)
            if crowd is None:
                crowd = known[node.slot] = crowd_on(node)
            return crowd

        return known_crowd_on

    def _movable_on(self, node: NodeState) -> _Crowd:
        """Return who may move from a node, in victim order."""
        is_at_rest = not self._has_begun
        known = self._movable.get(node.slot) if is_at_rest else None
        if known is None:
            may_move = [task for task in self.movers.candidates_on(node) if self._lets_move(task)]
            known = crowd_of(may_move, self.most)
            if is_at_rest:
                self._movable[node.slot] = known
        return known

    @property
    def _has_begun(self) -> bool:
        """Whether anything of a solution stands in the statement."""
        return len(self.statement) > self._begin

    def _may_serve(self, opening: _Opening, count: int) -> bool:
        """Return whether enough tasks may move from a node, of all that would be enough there."""
        if opening.node.slot not in self._movable:
            fewest = self._movable_on(opening.node).fewest_for(opening.missing)
            opening.fewest = self.most + 1 if fewest is None else fewest
        return opening.fewest <= count

    def _lets_move(self, task: TaskState) -> bool:
        if self._has_begun:  # what was taken off its node may make a difference
            return self.movers.may_move(task)
        known = self._may_move.get(task)
        if known is None:
            known = self._may_move[task] = self.movers.may_move(task)
        return known

    def _passes_over(self, opening: _Opening, count: int) -> bool:
        """Return whether too few tasks of a node have room elsewhere, and count the tries if so.

        Each set would then have one that has none, which is found out at once.
        """
        if self._is_plain:
            return False
        movable = self._movable_on(opening.node).tasks
        most_room = self._most_room()
        with_room = sum(
            fits(task.init_resreq, most_room) and self._has_room_elsewhere(task, opening.node)
            for task in movable
        )
        if with_room >= count and self._any_has_place_elsewhere(movable, opening.node):
            return False
        self.tries.take_many(comb(len(movable), count))
        return True

    def _leads_nowhere(self, opening: _Opening, count: int) -> bool:
        """Return whether no task of a node has a place elsewhere, and count the tries if so.

        For a task that has been taken off another node, when nobody may move for those that leave.
        """
        if self._is_plain:
            return False
        movable = self._movable_on(opening.node)
        fewest = movable.fewest_for(opening.missing)
        if fewest is None or fewest > count:
            return True
        if self._any_has_place_elsewhere(movable.tasks, opening.node):
            return False
        self.tries.take_many(comb(len(movable.tasks), count))
        return True

    def _sets_on(self, opening: _Opening, count: int) -> Iterator[Sequence[TaskState]]:
        """Yield sets of tasks that free enough on a node, in victim order; alike ones once."""
        movable = self._movable_on(opening.node)
        fewest = movable.fewest_for(opening.missing)
        if fewest is None or fewest > count:
            return
        seen: set[object] = set()
        kind = self.session.placement.kind
        for leaving in combinations(movable.tasks, count):
            if not self.tries.take():
                return
            freed = leaving[0].resreq
            for each in leaving[1:]:
                freed = plus(freed, each.resreq)
            if not fits(opening.missing, freed):
                continue
            alike = [(t.job, kind(t), t.resreq, t.init_resreq, t.choices) for t in leaving]
            if all(key[1] is not None for key in alike):
                key = tuple(alike)
                if key in seen:
                    continue
                seen.add(key)
            if self.movers.may_move_together(leaving):
                yield leaving

    # A solution

    def _frees(self, opening: _Opening, leaving: Sequence[TaskState], further: int) -> bool:
        """Take tasks off a node, promise it to the claimant, and give them places."""
        node, task, statement = opening.node, self.task, self.statement
        if not further and not (
            all(self._has_room_elsewhere(each, node) for each in leaving)
            and self._any_has_place_elsewhere(self._largest_first(leaving)[:1], node)
        ):
            return False
        before = len(statement)
        if self._take_off(leaving) and self.session.fits(
            task, node, Fit.LATER, kept=statement.kept_for(task)
        ):
            statement.pipeline(task, node)
            if refusal_ahead(self.session, task) is None and self._give_places(
                self._largest_first(leaving), further
            ):
                return True
        statement.rollback(before)
        return False

    def _has_room_elsewhere(self, task: TaskState, left: NodeState) -> bool:
        """Return whether a task fits on any node but one, by amounts alone."""
        if self._is_plain:
            nodes = self.session.nodes
            return any(node.fits(task, Fit.LATER) for node in nodes if node is not left)
        known = self._slots_with_room(task)
        return len(known) > 1 or (bool(known) and left.slot not in known)

    def _any_has_place_elsewhere(self, tasks: Iterable[TaskState], left: NodeState) -> bool:
        """Return whether any node but one may take one of some tasks, as it is and will be.

        So those that fit only on nodes that refuse them are not taken off theirs. With this and
        `_leads_nowhere`, a question takes a quarter of the time where a tainted node is empty
        (`benchmarks.answers ask`, 1,000 nodes).
        """
        session = self.session
        return self._is_plain or any(
            looks_ahead(session, task)
            or any(
                node is not left
                for node in session.placement.feasible(task, self._slots_with_room(task))
            )
            for task in tasks
        )

    def _slots_with_room(self, task: TaskState) -> AbstractSet[int]:
        """Return the slots of the nodes where a task fits by amounts. O(nodes changed since).

        A search places those who move hundreds of times, mostly where few nodes have room: asked on
        a living cluster of 100 nodes with all actions whether a job would start, it saves half of
        the time.
        """
        session = self.session

        def correct(known: set[int], stale: set[int] | None) -> None:
            assert stale is not None
            for slot in stale:
                if session.slots[slot].fits(task, Fit.LATER):
                    known.add(slot)
                else:
                    known.discard(slot)

        def begin() -> set[int]:
            return {node.slot for node in session.nodes if node.fits(task, Fit.LATER)}

        question = "fits later", task.init_resreq
        return session.remembered.recall(question, begin, correct, DependsOn.NODES)

    def _most_room(self) -> Vector:
        """Return at least what the roomiest node has, dimension by dimension.

        Where tasks are unlike, this keeps each of them from a look at all nodes: a cycle of them in
        vain is 1.8 times as fast. O(nodes changed since).
        """
        session = self.session

        def correct(known: list[Vector], stale: set[int] | None) -> None:
            assert stale is not None
            rooms = [session.slots[slot].room(Fit.LATER) for slot in stale]
            known[0] = tuple(map(max, zip(known[0], *rooms, strict=True)))

        def begin() -> list[Vector]:
            rooms = [node.room(Fit.LATER) for node in session.nodes]
            return [tuple(map(max, zip(*rooms, strict=True)))]

        return session.remembered.recall("most room", begin, correct, DependsOn.NODES)[0]

    def _take_off(self, tasks: Sequence[TaskState]) -> bool:
        """Take tasks off their nodes; return whether each may still move without those before."""
        for task in tasks:
            if self.movers.is_protected(task):
                return False
            self.statement.begin_move(task, claimant=self.task)
        return True

    def _largest_first(self, tasks: Sequence[TaskState]) -> list[TaskState]:
        dimensions = self.session.dimensions
        whole = self.session.cluster[: dimensions.in_cluster]
        return sorted(tasks, key=lambda task: -dominant_share(task.resreq, whole))

    def _give_places(self, tasks: Sequence[TaskState], further: int) -> bool:
        """Give each task that was taken off its node another one, while others move for it."""
        if not tasks:
            return self._can_be_ordered()
        task, *others = tasks
        for node in self._places_for(task):
            if not self.tries.take():
                return False
            if self._puts_down(task, node, others, further):
                return True
        for count in range(1, further + 1):
            for opening in self._openings(task, count):
                is_last = count == further
                if is_last and self._leads_nowhere(opening, count):
                    if self.tries.are_over:
                        return False
                    continue
                for leaving in self._sets_on(opening, count):
                    before = len(self.statement)
                    if self._take_off(leaving) and opening.node.fits(task, Fit.LATER):
                        rest = [*self._largest_first(leaving), *others]
                        if self._puts_down(task, opening.node, rest, further - count):
                            return True
                    self.statement.rollback(before)
                if self.tries.are_over:
                    return False
        return False

    def _puts_down(
        self, task: TaskState, node: NodeState, others: Sequence[TaskState], further: int
    ) -> bool:
        """Promise a node to a task that moves, and then places to others."""
        statement = self.statement
        before = len(statement)
        if self.session.fits(task, node, Fit.LATER):
            statement.put_down(task, node)
            if (
                refusal_ahead(self.session, task) is None
                and refusal_beside_its_job(self.session, task) is None
                and self._give_places(others, further)
            ):
                return True
        statement.rollback(before)
        return False

    def _places_for(self, task: TaskState) -> Iterator[NodeState]:
        """Yield the nodes where a task may move as they are, the best first.

        Nodes that are not among those in which the claimant is placed come before these.
        """
        session, within = self.session, self.statement.within
        left = None if task.leaving is None else task.leaving.node
        slots = None if self._is_plain else self._slots_with_room(task)
        nodes = [
            node
            for node in self._accepting(task, slots)
            if node is not left and node.fits(task, Fit.LATER)
        ]
        parts = [nodes]
        if within is not None:
            parts = [
                [node for node in nodes if node.slot not in within.slots],
                [node for node in nodes if node.slot in within.slots],
            ]
        for part in parts:
            while part:
                best = session.best_among(task, part)
                part.remove(best)
                yield best

    # Their order

    def _can_be_ordered(self) -> bool:
        """Return whether the moves of the statement can be made one after the other, and note how.

        Each must fit its new place by amounts, when those before it have left and arrived.
        """
        moves = self.statement.moves()
        free: dict[NodeState, Vector] = {}
        for task, left in moves:
            assert task.node is not None
            for node in (left, task.node):
                free.setdefault(node, node.room(Fit.LATER))
        for task, left in moves:
            assert task.node is not None
            free[left] = minus(free[left], task.resreq)
            free[task.node] = plus(free[task.node], task.resreq)
        for task in self.statement.placed():
            if task.node in free and not task.moves:
                free[task.node] = plus(free[task.node], task.resreq)
        ordered = self._ordered(self.session.in_victim_order(dict(moves)), dict(moves), free, set())
        if ordered is None:
            return False
        self.statement.set_order_of_moves(ordered)
        return True

    def _ordered(
        self,
        waiting: Sequence[TaskState],
        lefts: Mapping[TaskState, NodeState],
        free: Mapping[NodeState, Vector],
        dead: set[frozenset[TaskState]],
    ) -> list[TaskState] | None:
        """Return the first order in which tasks can move, in victim order; None: there is none.

        Each dead end is a try.
        """
        if not waiting:
            return []
        for task in waiting:
            node = task.node
            assert node is not None
            others = [other for other in waiting if other is not task]
            if frozenset(others) in dead or not fits(task.init_resreq, free[node]):
                continue
            left = lefts[task]
            then = {
                **free,
                node: minus(free[node], task.resreq),
                left: plus(free[left], task.resreq),
            }
            ordered = self._ordered(others, lefts, then, dead)
            if ordered is not None:
                return [task, *ordered]
            if self.tries.are_over:
                return None
        dead.add(frozenset(waiting))
        self.tries.take()
        return None
