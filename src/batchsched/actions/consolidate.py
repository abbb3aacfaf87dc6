"""consolidate: move running tasks so that one that waits has room, and nobody is evicted for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from attrs import frozen

from batchsched.actions.moving import MOVE_SCOPES, Movers, MoveSearch, Tries
from batchsched.actions.placing import NOW_OR_LATER, place
from batchsched.model.cluster import Preemptible, TaskStatus
from batchsched.model.reasons import Unfit
from batchsched.placement import Fit
from batchsched.plugin.arguments import Arguments
from batchsched.session.attempts import Attempts, Goal
from batchsched.session.outlook import promises_stand
from batchsched.session.session import Session
from batchsched.session.statements import Statement
from batchsched.session.turns import Turn, Turns, has_task_to_place, may_claim
from batchsched.session.victims import EvictionScope, EvictionSearch, WhyNot
from batchsched.state.memory import DependsOn
from batchsched.state.needs import Need, Stage
from batchsched.state.records import NodeState, TaskState
from batchsched.state.shortcuts import Shortcut
from batchsched.state.vectors import Vector, fits, minus, plus


@frozen(kw_only=True)
class ConsolidateAction:
    """Moves Running tasks to other nodes where that gives a waiting job all that it needs next."""

    most_moves: int = 4
    """The most tasks that move for one claim; 0: nothing is done."""
    tries: int = 1000
    """How many tries the search for one claim has; see `batchsched.actions.moving`."""
    scope: EvictionScope = EvictionScope.OTHER_JOBS
    """Which tasks may move: those of the claimant's queue, or of any where it is entitled."""

    @classmethod
    def from_arguments(cls, arguments: Arguments) -> ConsolidateAction:
        """Read ``maxMoves`` and ``tries``, from 0, and ``scope`` (``queue`` or ``all``)."""
        scope = arguments.choice("scope", tuple(MOVE_SCOPES), default="queue")
        return cls(
            most_moves=arguments.integer("maxMoves", default=4, minimum=0),
            tries=arguments.integer("tries", default=1000, minimum=0),
            scope=MOVE_SCOPES[scope],
        )

    @property
    def evicts_to_cure(self) -> bool:
        """Whether it promises nodes that accept a task only once others have left: it does."""
        return self.most_moves > 0

    def execute(self, session: Session, /) -> None:
        """Let each job that waits claim once, each turn the next job of the next queue."""
        if not self.most_moves:
            return
        waiting = filter(has_task_to_place, session.jobs_having(TaskStatus.PENDING))
        for turn in Turns(session, waiting, alike=True):
            self._serve(session, turn)

    def _serve(self, session: Session, turn: Turn) -> None:
        """Place all that a job needs next where others move away, or nothing."""
        job, need = turn.job, turn.need
        if need is None or job.info.preemptible is Preemptible.NEVER:
            return
        assert job.queue is not None
        if not may_claim(session, job) or session.plugins.allocatable(job.queue, need) is not None:
            return
        if not fits(need.request, idle_in_all(session)):
            return
        scope = self._scope_of(session, need)
        claim_by_moves(session, turn, scope, most_moves=self.most_moves, tries=self.tries)

    def _scope_of(self, session: Session, need: Need) -> EvictionScope:
        """Return whose tasks may move: those of other queues only if its own is entitled."""
        queue = need.job.queue
        assert queue is not None
        if self.scope is EvictionScope.ANY_OTHER_JOB:
            refused = (
                isinstance(session.plugins.claim(need), Unfit)
                if session.plugins.has_claims
                else session.plugins.overused(queue)
            )
            if not refused:
                return self.scope
        return EvictionScope.OTHER_JOBS


def claim_by_moves(
    session: Session,
    turn: Turn,
    scope: EvictionScope,
    *,
    most_moves: int,
    tries: int,
    movers_for: Callable[[Session, TaskState, EvictionScope], Movers] = Movers,
    most_for_one: int | None = None,
    needs_moves: bool = True,
) -> bool:
    """Place all that a job needs next where others move away, or nothing.

    Args:
        session: the session, without an open statement.
        turn: the turn of the job.
        scope: whose tasks may move.
        most_moves: the most tasks that move.
        tries: how many tries the search has.
        movers_for: returns who may move for a task of the job.
        most_for_one: the most tasks that move for one of its tasks; None: as many as for all.
        needs_moves: whether nothing is placed if nobody has to move for it.

    Returns:
        Whether all was placed, and the moves decided.

    """
    job, tries_left = turn.job, Tries(tries)
    attempts = Attempts(
        session=session,
        is_enough=session.plugins.job_pipelined,
        asks_ahead=True,
        substitutes=False,
        stages=(Stage.LATER, Stage.EVICTING),
        evicts=scope,
    )
    is_done = False

    def place_one(statement: Statement, task: TaskState, stage: Stage | None) -> bool:
        if place(session, statement, task, NOW_OR_LATER, looks_ahead=True):
            return True
        if stage is Stage.LATER:
            return False
        movers = movers_for(session, task, scope)
        left = most_moves - len(statement.moves())
        search = MoveSearch(
            session=session,
            statement=statement,
            task=task,
            movers=movers,
            most=left if most_for_one is None else min(left, most_for_one),
            tries=tries_left,
        )
        if search.make_room():
            return True
        session.reports.record_search(
            EvictionSearch(
                task=task,
                action=session.action_name,
                scope=scope,
                may_use_idle=True,
                why_not=partial(_why_not, movers),
                most_moves=most_moves,
                tries=tries if tries_left.are_over else None,
            )
        )
        return False

    def keeps(statement: Statement, goal: Goal) -> bool:
        nonlocal is_done
        is_done = (
            (bool(statement.moves()) or not needs_moves)
            and goal.is_complete
            and session.plugins.job_pipelined(job)
            and promises_stand(session, statement)
        )
        return is_done

    attempts.serve(turn, place_one, keeps)
    return is_done


def _why_not(movers: Movers) -> WhyNot:
    return lambda _node, tasks: [movers.kept_by(task) or None for task in tasks]


def idle_in_all(session: Session) -> Vector:
    """Return what is idle on all nodes once what leaves has left and what is promised has come.

    What is promised beyond what there is on a node does not count against others. O(nodes); O(nodes
    changed since) after the first time.
    """
    zero = session.dimensions.zero

    def room(node: NodeState) -> Vector:
        return tuple([max(0, amount) for amount in node.room(Fit.LATER)])

    def summed() -> _Idle:
        known = _Idle(zero)
        for node in session.nodes:
            known.set(node.slot, room(node))
        return known

    if Shortcut.ROOM in session.plain:
        return summed().total

    def correct(known: _Idle, stale: set[int] | None) -> None:
        assert stale is not None
        for slot in stale:
            known.set(slot, room(session.slots[slot]))

    return session.remembered.recall("idle in all", summed, correct, DependsOn.NODES).total


class _Idle:
    """What is idle on nodes, by slot, and in all."""

    __slots__ = ("_of", "_zero", "total")

    def __init__(self, zero: Vector) -> None:
        self._of: dict[int, Vector] = {}
        self._zero = zero
        self.total = zero

    def set(self, slot: int, amounts: Vector) -> None:
        """Set what is idle on a node."""
        self.total = plus(minus(self.total, self._of.get(slot, self._zero)), amounts)
        self._of[slot] = amounts
