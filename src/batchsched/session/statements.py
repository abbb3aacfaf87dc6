"""Statements: operations that are tried together, and what a cycle decides by them.

Each operation takes effect in the ledger at once, and stands in a journal with what was before. So
a statement ends in one of two ways: `discard` undoes the journal from its end, and all is exactly
as it was, or `commit` makes decisions of what it did. It is the `Statement` of the "Kube-batch
scheduler framework" document. Statements do not nest.

What an operation makes of a task:

    allocate     Pending or Reserved -> Allocated   it can start there now
    pipeline     Pending -> Pipelined               ... once what is Releasing there has left
    promise      Pending -> Conditional             ... once backfill tasks have left, too
    reserve      Pending -> Reserved                its node is closed to others; it holds nothing
    evict        Running -> Releasing               it still holds what it has until it has left
                 Binding, Allocated or Pipelined -> Pending   nothing has started: it gives way
    move         Running -> Pipelined elsewhere, and Releasing where it was
    unallocate   Allocated, Pipelined, Conditional or Reserved -> Pending

`commit` binds what is Allocated where the job is ready (Allocated -> Binding). The rest of it stays
Allocated for the other tasks of its job: a gang starts together or waits.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from types import TracebackType
from typing import Self

from attrs import evolve, frozen

from batchsched.errors import StatementError
from batchsched.model.cluster import TaskStatus, choice_fields
from batchsched.model.immutable import EMPTY
from batchsched.model.reasons import Unfit
from batchsched.model.result import Bind, Eviction, Move, TakenBack
from batchsched.placement import Fit
from batchsched.plugin.candidates import NodeSet
from batchsched.session.failures import CycleReports
from batchsched.session.outlook import refusal_ahead
from batchsched.session.policy_state import PolicyState
from batchsched.state.memory import Remembered
from batchsched.state.records import JobState, NodeState, TaskState
from batchsched.state.units import EvictionUnit
from batchsched.trace import Placed, StatementEnded, UnitsTaken

_Entry = tuple[TaskState, TaskStatus, NodeState | None, bool, Mapping[str, Hashable]]
"""A task, with its previous status, node, backfill mark and choices."""

# Members of enums are slow to find, and these are needed for each task that is placed.
_PENDING, _ALLOCATED = TaskStatus.PENDING, TaskStatus.ALLOCATED
_BEFORE_EVICTION = (TaskStatus.RUNNING, TaskStatus.BINDING, TaskStatus.PIPELINED, _ALLOCATED)
"""Statuses of tasks that can leave for others."""


@frozen(eq=False)
class TakenUnit:
    """Tasks that leave together for another one."""

    victims: Sequence[TaskState]
    claimant: TaskState
    """The task for which they were found."""
    unit: EvictionUnit | None = None
    """What they are to a claim, if one takes them."""
    stage: int = 0
    """At which stage a claim takes them; the later, the more it takes from others."""
    told: UnitsTaken | None = None
    """What a traced cycle tells of the choice, without the units; None: nothing."""


class Decisions:
    """What one cycle has decided so far, and the books in which its statements work."""

    def __init__(self, state: PolicyState) -> None:
        """Begin a cycle in which nothing is decided."""
        self.state = state
        """What is kept between cycles."""
        self.plain = state.plain
        """The shortcuts that are switched off."""
        self.teller = state.teller
        """What is told what happens, if the cycle is traced."""
        self.ledger = state.ledger
        self.log = state.ledger.log
        """Which nodes and jobs have changed, in order; for answers that are kept until then."""
        self.plugins = state.plugins
        """What plugins say together: which jobs are ready, which may have more, who may leave."""
        self.placement = state.placement
        """The engine that finds nodes."""
        self.remembered = Remembered(state.ledger.log)
        """What searches of this cycle have found out about nodes."""
        self.reports = CycleReports(state.ledger)
        """For pending reasons: what actions tried, and the outcome."""
        self.memory = state.memory
        """What is known of attempts that failed, from earlier cycles, too."""
        self.open_statement: Statement | None = None
        """The statement that was begun and has not ended, if any."""
        self.undone = 0
        """How many entries of the log of jobs are of statements that were discarded."""
        self.action_name = ""
        """The action that runs now."""
        self.binds: list[Bind] = []
        self.bound_on: set[int] = set()
        """The slots of the nodes of these, and of those that were taken back."""
        self.evictions: list[Eviction] = []
        self._pairs = dict[tuple[str, str], tuple[JobState, JobState]]()
        """The jobs of the first of them, by UID: of the victim, and of the claimant."""
        self._paired = (0, 0)
        self.moves: list[Move] = []
        """Running tasks that get another place, in the order in which that was decided."""
        self.taken_back: list[TakenBack] = []
        self.claimed: list[TaskState] = []
        """Tasks for which, or for the jobs of which, others had to leave, where it may matter to
        them who else comes or goes."""
        self.withdrawn: set[TaskState] = set()
        """Tasks that lost their places to others in the action that runs now, but had them before
        it began: it does not place them again."""
        self.placed_now: set[TaskState] = set()
        """Tasks that statements of the action that runs now have placed."""

    def evicted_now(self) -> Sequence[tuple[JobState, JobState]]:
        """Return the jobs that lose running tasks in this cycle, and for whose job each, once.

        Those whose tasks move for others lose them where they run, too. With those of the open
        statement. O(pairs).
        """
        claims = () if self.open_statement is None else self.open_statement.evicted_for()
        tasks, pairs = self.ledger.tasks, self._pairs
        evictions, moves = self._paired
        new: list[Eviction | Move] = [*self.evictions[evictions:], *self.moves[moves:]]
        for each in new:
            if each.for_task_uid is not None:
                _note_pair(pairs, tasks[each.task_uid], tasks[each.for_task_uid])
        self._paired = len(self.evictions), len(self.moves)
        further = dict[tuple[str, str], tuple[JobState, JobState]]()
        for victim, claimant in claims:
            _note_pair(further, victim, claimant)
        return [*pairs.values(), *(pair for key, pair in further.items() if key not in pairs)]

    def bind_if_ready(self, job: JobState, *, fulfils: bool = False) -> None:
        """Bind all Allocated tasks of the job, if it is ready.

        `fulfils`: whether they start on what was promised to the job, reserved or planned.
        """
        if not job.allocated or not self.plugins.job_ready(job):
            return
        tasks = list(job.allocated.values())
        if job.groups is not None:
            # Tasks of an incomplete group wait for the rest of the group.
            tasks = [task for task in tasks if job.groups.may_start(task)]
            if not tasks:
                return
        if len(tasks) > 1:
            tasks.sort(key=attrgetter("uid"))
        for task in tasks:
            node = task.node
            assert node is not None
            self.ledger.bind(task, fulfils=fulfils)
            self.bound_on.add(node.slot)
            bind = Bind(task_uid=task.uid, node_name=node.name, is_backfill=task.is_backfill)
            if task.choices:
                bind = evolve(bind, **choice_fields(task.choices))
            self.binds.append(bind)

    def decide_eviction(
        self, task: TaskState, node: NodeState, claimant: TaskState, *, was_bound: bool
    ) -> None:
        """Record as decided that a task leaves; statements call it at the end."""
        what = {"task_uid": task.uid, "node_name": node.name, "for_task_uid": claimant.uid}
        if task.status is TaskStatus.RELEASING:
            self.evictions.append(Eviction(action=self.action_name, **what))
            return
        if not was_bound:
            self.reports.of_task(task).gave_way_to = claimant
            return
        self.binds = [bind for bind in self.binds if bind.task_uid != task.uid]
        self.taken_back.append(TakenBack(action=self.action_name, **what))

    def decide_move(
        self, task: TaskState, from_node: NodeState, claimant: TaskState | None
    ) -> None:
        """Record as decided that a task moves; statements call it at the end."""
        assert task.node is not None
        self.moves.append(
            Move(
                task_uid=task.uid,
                from_node=from_node.name,
                to_node=task.node.name,
                action=self.action_name,
                for_task_uid=None if claimant is None else claimant.uid,
            )
        )


class Statement:
    """A journal of operations in a session: `commit` makes them decisions, `discard` undoes them.

    As a context manager it discards, at the end, a statement that was not committed.
    """

    __slots__ = (
        "_begun",
        "_claims",
        "_is_trial",
        "_journal",
        "_moves",
        "_order",
        "_session",
        "_units",
        "kept",
        "kept_of",
        "within",
        "within_of",
    )

    def __init__(
        self, session: Decisions, *, is_trial: bool = False, within: NodeSet | None = None
    ) -> None:
        self._session = session
        self.within = within
        """The only nodes on which it places tasks from now on; None: any."""
        self.within_of: dict[TaskState, NodeSet] = {}
        """The set of nodes in which each task was last placed."""
        self.kept: Mapping[str, Mapping[str, Hashable]] = EMPTY
        """What plugins must choose for tasks, by UID; see `batchsched.plugin.Part`."""
        self.kept_of: dict[str, Mapping[str, Hashable]] = {}
        """What plugins had to choose for each task when it was last placed, by UID, if anything."""
        self._is_trial = is_trial
        self._journal: list[_Entry] = []
        self._begun = len(session.log.jobs)
        self._claims: list[tuple[TaskState, NodeState, TaskState, TaskStatus]] = []
        """Each task that leaves, its node, for which task, and its status before."""
        self._moves: list[tuple[TaskState, NodeState, TaskState | None]] = []
        """Each task that moves, the node that it leaves, and for which task."""
        self._order: Mapping[str, int] = EMPTY
        """In which order they do, by UID, if that is not the order here."""
        self._units: list[tuple[int, TakenUnit]] = []
        """The units that it makes leave, and the number of operations before each."""

    def __len__(self) -> int:
        return len(self._journal)

    def allocate(
        self,
        task: TaskState,
        node: NodeState,
        *,
        is_backfill: bool = False,
        kept: Mapping[str, Hashable] = EMPTY,
    ) -> None:
        """Place a Pending or Reserved task on a node where it can start now.

        `kept`: what plugins have chosen for it there before, and must choose again.
        """
        job = task.job
        if task.status is not _PENDING or task.is_held or job is None or not job.in_session:
            _expect(task, TaskStatus.PENDING, TaskStatus.RESERVED)
        mark, choosers = is_backfill or task.is_backfill, self._session.plugins.choosers
        choices = self._choices(task, node, Fit.NOW, kept) if choosers else EMPTY
        self._move(task, _ALLOCATED, node, mark, choices)

    def pipeline(
        self, task: TaskState, node: NodeState, *, kept: Mapping[str, Hashable] = EMPTY
    ) -> None:
        """Promise to a Pending task resources of a node that are being released.

        `kept`: what plugins have chosen for it there before, and must choose again.
        """
        _expect(task, TaskStatus.PENDING)
        choices = self._choices(task, node, Fit.LATER, kept)
        self._move(task, TaskStatus.PIPELINED, node, task.is_backfill, choices)

    def promise(self, task: TaskState, node: NodeState) -> None:
        """Promise to a Pending task resources of a node that backfill tasks hold (Conditional)."""
        _expect(task, TaskStatus.PENDING)
        choices = self._choices(task, node, Fit.CONDITIONALLY)
        self._move(task, TaskStatus.CONDITIONAL, node, task.is_backfill, choices)

    def reserve(self, task: TaskState, node: NodeState) -> None:
        """Reserve a node for a Pending task."""
        _expect(task, TaskStatus.PENDING)
        self._move(task, TaskStatus.RESERVED, node, task.is_backfill)

    def evict(self, task: TaskState, *, claimant: TaskState) -> None:
        """Evict a Running task to make room for `claimant`, or take back what this cycle bound.

        What is promised or Allocated gives way likewise. Such a task is Pending again.
        """
        session = self._session
        _expect(task, *_BEFORE_EVICTION)
        if task.status is TaskStatus.BINDING and not task.may_leave:
            raise StatementError(f"expected a task that runs or was just bound, got {task!r}")
        _expect_to_stay(task)
        node, job = task.node, task.job
        assert node is not None
        assert job is not None
        self._claims.append((task, node, claimant, task.status))
        if task.status is TaskStatus.RUNNING:
            self._move(task, TaskStatus.RELEASING, node, task.is_backfill, task.choices)
            return
        self._move(task, TaskStatus.PENDING, None, task.info.is_backfill)
        if task not in session.placed_now:
            session.withdrawn.add(task)
        session.ledger.note_binds(job)

    def move(self, task: TaskState, node: NodeState, *, claimant: TaskState | None = None) -> None:
        """Give a running task another place: it is evicted, and promised this node.

        It starts again there once it has left its present node, where it is Releasing until then.
        Predicates judge the node as it will be. A task moves once in a cycle, and is not evicted in
        it. `within` holds for tasks that are placed, not for those that move.

        Args:
            task: a Running task.
            node: another node that will accept it, and where it fits later.
            claimant: the task for which it moves; None: none.

        Raises:
            StatementError: the task does not run, or the node will not take it; nothing changed.

        """
        before = len(self._journal)
        self.begin_move(task, claimant=claimant)
        try:
            self.put_down(task, node)
            refusal = refusal_ahead(self._session, task)
            if refusal is not None:
                what = f"expected a node that will accept {task!r}, got {node!r}"
                raise StatementError(f"{what}: {refusal}")
        except StatementError:
            self.rollback(before)
            raise

    def begin_move(self, task: TaskState, *, claimant: TaskState | None = None) -> None:
        """Take a running task off its node; `put_down` must follow before the statement ends.

        In between it is Pending and on no node: so where several move, none stands in the way of
        another one.

        Raises:
            StatementError: the task does not run.

        """
        _expect(task, TaskStatus.RUNNING)
        node, is_backfill, choices = task.node, task.is_backfill, task.choices
        assert node is not None
        self._moves.append((task, node, claimant))
        self._move(task, TaskStatus.PENDING, None, is_backfill)
        leaving = self._session.ledger.leaving_of(task)
        self._move(leaving, TaskStatus.RELEASING, node, is_backfill, choices, is_bound=False)

    def put_down(self, task: TaskState, node: NodeState) -> None:
        """Promise a node to a task that was taken off its own by `begin_move`.

        Predicates are not asked.

        Raises:
            StatementError: it was not taken off, or does not fit there; nothing changed.

        """
        if task.status is not _PENDING or not task.moves or task.leaving is None:
            raise StatementError(f"expected a task that was taken off its node, got {task!r}")
        if node is task.leaving.node:
            raise StatementError(f"expected another node than its own for {task!r}, got {node!r}")
        if not node.fits(task, Fit.LATER):
            raise StatementError(f"expected a node where {task!r} fits later, got {node!r}")
        choices = self._choices(task, node, Fit.LATER)
        self._move(task, TaskStatus.PIPELINED, node, task.is_backfill, choices, is_bound=False)

    def set_order_of_moves(self, tasks: Sequence[TaskState]) -> None:
        """Say in which order the tasks move that do, for the decisions."""
        self._order = {task.uid: position for position, task in enumerate(tasks)}

    def take(self, unit: TakenUnit) -> None:
        """Evict the tasks of a unit that are still there, and record that they left together."""
        self._units.append((len(self._journal), unit))
        for victim in unit.victims:
            if victim.status in _BEFORE_EVICTION:
                self.evict(victim, claimant=unit.claimant)

    @property
    def units(self) -> list[TakenUnit]:
        """The units that it makes leave, in the order in which they were taken."""
        return [unit for _, unit in self._units]

    def unallocate(self, task: TaskState) -> None:
        """Make a task Pending again that is placed, promised or reserved, and not bound."""
        _expect(
            task,
            TaskStatus.ALLOCATED,
            TaskStatus.PIPELINED,
            TaskStatus.CONDITIONAL,
            TaskStatus.RESERVED,
        )
        _expect_to_stay(task)
        # A backfill mark that this session made ends with the placement.
        self._move(task, TaskStatus.PENDING, None, task.info.is_backfill)

    def _choices(
        self, task: TaskState, node: NodeState, fit: Fit, kept: Mapping[str, Hashable] = EMPTY, /
    ) -> Mapping[str, Hashable]:
        """Return what plugins choose for a task that is placed on a node.

        Raises:
            StatementError: a plugin has no choice for it there.

        """
        session = self._session
        if not session.plugins.choosers:
            return EMPTY
        if self.kept:
            self.kept_of[task.uid] = self.kept_for(task)
        kept = kept or self.kept_for(task)
        found = session.state.evaluator.choices(task, node, fit, kept=kept)
        if isinstance(found, Unfit):
            raise StatementError(f"expected a node where {task!r} fits, got {node!r}: {found}")
        return found

    def kept_for(self, task: TaskState, /) -> Mapping[str, Hashable]:
        """Return what plugins must choose for a task; empty: anything."""
        return self.kept.get(task.uid, EMPTY) if self.kept else EMPTY

    def nodes_given_up(self) -> dict[TaskState, NodeState]:
        """Return the nodes that it makes tasks leave, by task."""
        return {task: node for task, node, _, _ in self._claims}

    def evicted_for(self) -> Iterator[tuple[TaskState, TaskState]]:
        """Yield each running task that it evicts, or moves for another, and for which task."""
        for task, _, for_task in self._moves:
            if for_task is not None:
                yield task, for_task
        for task, _, claimant, before in self._claims:
            if before is TaskStatus.RUNNING and task.status is TaskStatus.RELEASING:
                yield task, claimant

    @property
    def evictions(self) -> list[Eviction]:
        """The running tasks that it evicts, in order, as `Decisions.evictions` will have them."""
        action = self._session.action_name
        return [
            Eviction(
                task_uid=task.uid,
                node_name=node.name,
                action=action,
                for_task_uid=claimant.uid,
            )
            for task, node, claimant, _ in self._claims
            if task.status is TaskStatus.RELEASING
        ]

    def moves_back(
        self,
    ) -> Iterator[tuple[TaskState, TaskStatus, NodeState | None, Mapping[str, Hashable]]]:
        """Yield what puts all tasks back as they were: with their statuses, nodes and choices."""
        for task, status, node, _, choices in reversed(self._journal):
            yield task, status, node, choices

    def placed(self) -> list[TaskState]:
        """Return the tasks that this statement has placed, promised, moved or reserved."""
        return [
            task
            for task, status, *_ in self._journal
            if status is TaskStatus.PENDING
            and task.status is not TaskStatus.PENDING
            and task.job is not None
        ]

    def moves(self) -> list[tuple[TaskState, NodeState]]:
        """Return the running tasks to which it gives other places, and the nodes that they leave.

        In the order in which they were taken off these.
        """
        return [(task, node) for task, node, _ in self._moves]

    def commit(self, *, fulfils: bool = False) -> None:
        """Make the operations decisions, and bind the tasks of jobs that are ready now.

        `fulfils`: whether jobs start on what was promised to them, reserved or planned.

        Raises:
            StatementError: the statement was already committed or discarded, or a task that is to
                move was promised no place.

        """
        teller = self._session.teller
        for task, *_ in self._moves:
            if task.node is None:
                raise StatementError(f"expected a task that was promised a place, got {task!r}")
        event = None if teller is None else self._as_it_ends(committed=True)
        if teller is not None:
            for taken in self._units_told():
                teller.tell(taken)
        self._end()
        if self._claims or self._moves:
            self._session.claimed += self.placed()
        order = self._order
        for task, left, for_task in sorted(self._moves, key=lambda move: order.get(move[0].uid, 0)):
            self._session.decide_move(task, left, for_task)
        for task, node, claimant, before in self._claims:
            was_bound = before is TaskStatus.BINDING
            self._session.decide_eviction(task, node, claimant, was_bound=was_bound)
        jobs: dict[str, JobState] = {}
        for task, *_ in self._journal:
            if task.status is _ALLOCATED and task.job is not None:
                jobs[task.job.uid] = task.job
        for job in jobs.values():
            self._session.bind_if_ready(job, fulfils=fulfils)
        if event is not None and teller is not None:
            teller.tell(event)

    def discard(self) -> None:
        """Undo the operations in reverse order; the session is exactly as it was before.

        The tasks that were placed are recorded for pending reasons, unless it is a trial.

        Raises:
            StatementError: the statement was already committed or discarded.

        """
        event = None if self._session.teller is None else self._as_it_ends(committed=False)
        self._end()
        if not self._is_trial:
            self._session.reports.record_undone(self.placed())
        for entry in reversed(self._journal):
            self._undo(entry)
        self._session.undone += len(self._session.log.jobs) - self._begun
        if event is not None and self._session.teller is not None:
            self._session.teller.tell(event)

    def rollback(self, length: int) -> None:
        """Undo the operations after the first `length`; the statement stays open."""
        if self._session.open_statement is not self:
            raise StatementError("the statement was already committed or discarded")
        if length >= len(self._journal):
            return
        while len(self._journal) > length:
            entry = self._journal.pop()
            task, status, *_ = entry
            if self._claims and self._claims[-1][0] is task and self._claims[-1][3] is status:
                self._claims.pop()
            if status is TaskStatus.RUNNING and self._moves and self._moves[-1][0] is task:
                self._moves.pop()
            self._undo(entry)
        while self._units and self._units[-1][0] >= length:
            self._units.pop()

    def _undo(self, entry: _Entry) -> None:
        task, status, node, is_backfill, choices = entry
        self._session.ledger.move(
            task, status, node, is_backfill=is_backfill, choices=choices, is_undo=True
        )
        if status is TaskStatus.BINDING and task.job is not None:
            self._session.ledger.note_binds(task.job)
        self._session.withdrawn.discard(task)

    def _move(
        self,
        task: TaskState,
        status: TaskStatus,
        node: NodeState | None,
        is_backfill: bool,
        choices: Mapping[str, Hashable] | None = None,
        *,
        is_bound: bool = True,
    ) -> None:
        """Move a task in the ledger; `is_bound`: only to nodes of the set, if there is one."""
        session, before = self._session, task.status
        within = self.within if is_bound else None
        if session.open_statement is not self:
            raise StatementError("the statement was already committed or discarded")
        if within is not None and node is not None:
            if status is not TaskStatus.RELEASING and node.slot not in within.slots:
                raise StatementError(f"expected one of {within!r} for {task!r}, got {node!r}")
            self.within_of[task] = within
        if before is _PENDING:
            session.placed_now.add(task)
        # Recorded before the move: if a listener raises, the move can still be undone.
        self._journal.append((task, before, task.node, task.is_backfill, task.choices))
        session.ledger.move(task, status, node, is_backfill=is_backfill, choices=choices)

    def _end(self) -> None:
        if self._session.open_statement is not self:
            raise StatementError("the statement was already committed or discarded")
        self._session.open_statement = None

    def _as_it_ends(self, *, committed: bool) -> StatementEnded:
        """Return the event for the end of the statement, before it ends."""
        session = self._session
        steps: dict[str, Placed] = {}
        jobs: list[JobState | None] = []
        for task, before, node_before, *_ in self._journal:
            node = task.node if task.node is not None else node_before
            if task.status is not before and node is not None and task.job is not None:
                steps[task.uid] = Placed(task=task.uid, node=node.name, status=task.status.value)
                if task.status not in (TaskStatus.RELEASING, TaskStatus.PENDING):
                    jobs.append(task.job)
        jobs += [task.job for task, *_ in self._journal]
        job = next(filter(None, jobs), None)
        event = StatementEnded(
            action=session.action_name,
            committed=committed,
            is_trial=self._is_trial,
            job=None if job is None else job.uid,
            steps=tuple(steps.values()),
        )
        if job is None:
            return event
        return evolve(
            event,
            min_available=job.min_available,
            ready=job.ready_count,
            waiting=job.count(TaskStatus.PIPELINED),
            job_ready=session.plugins.job_ready(job),
            job_pipelined=session.plugins.job_pipelined(job),
        )

    def _units_told(self) -> list[UnitsTaken]:
        """Return the units that it evicts, those that were chosen together in one event."""
        chosen: list[tuple[UnitsTaken, list[tuple[str, ...]]]] = []
        gone: set[str] = set()
        for unit in self.units:
            leaving = [task.uid for task in unit.victims if task.status is TaskStatus.RELEASING]
            tasks = tuple(uid for uid in leaving if uid not in gone)
            gone.update(tasks)
            if unit.told is None or not tasks:
                continue
            if not chosen or chosen[-1][0] is not unit.told:
                chosen.append((unit.told, []))
            chosen[-1][1].append(tasks)
        return [evolve(told, units=tuple(units)) for told, units in chosen]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._session.open_statement is not self:
            return
        if error is None:
            self.discard()
            return
        # Keep the original error: an error in the rollback, such as one of the same listener,
        # would only hide it.
        with suppress(Exception):
            self.discard()


def _expect(task: TaskState, *statuses: TaskStatus) -> None:
    """Raise an error unless the task has one of these statuses and its job is in the session.

    Raises:
        StatementError: the operation does not apply to the task.

    """
    if task.status not in statuses:
        wanted = " or ".join(status.value for status in statuses)
        raise StatementError(f"expected a task that is {wanted}, got {task!r}")
    if task.is_held:
        raise StatementError(f"expected a task that nothing holds, got {task!r}")
    if task.job is None or not task.job.in_session:
        raise StatementError(f"expected a task of a job in this session, got {task!r}")


def _expect_to_stay(task: TaskState) -> None:
    """Raise an error if a task moves: it moves once in a cycle, and keeps its place.

    Raises:
        StatementError: it moves.

    """
    if task.moves:
        raise StatementError(f"expected a task that does not move, got {task!r}")


def _note_pair(
    pairs: dict[tuple[str, str], tuple[JobState, JobState]], victim: TaskState, claimant: TaskState
) -> None:
    if victim.job is not None and claimant.job is not None:
        pairs[victim.job.uid, claimant.job.uid] = victim.job, claimant.job
