"""The function `plan_moves`: which running tasks to move so that nodes, or room, become free.

A plan is a value: steps with their gain and their cost, which the caller carries out or does not.
A scheduler's cycle moves a task only for one that waits. Tidying up whenever nothing waits would
not end, as each pod that comes calls for another move; so it is asked for here, and no action of a
cycle does it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, TypeVar

from attrs import field, frozen

from batchsched.config.registry import Registry
from batchsched.config.scheduler_config import SchedulerConfig
from batchsched.errors import ArgumentError, Fault, FormatError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, TaskInfo, TaskStatus, choice_fields
from batchsched.model.devices import DevicePick
from batchsched.model.immutable import EMPTY, AsMap, AsTuple
from batchsched.model.rules import out_of_service
from batchsched.model.serialisation import Format, JsonValue
from batchsched.model.snapshot import Snapshot
from batchsched.model.texts import counted, similar_name
from batchsched.model.validation.arguments import asked, checks_arguments, field_problems
from batchsched.model.validation.values import Problems, is_integer, shown, under
from batchsched.scheduler import Scheduler
from batchsched.session.session import Session
from batchsched.state.records import NodeState
from batchsched.tools.relocation import (
    Relocated,
    Relocation,
    RoomOnOthers,
    in_order_of_size,
    is_movable,
    one_after_the_other,
    relocate,
)
from batchsched.tools.report import Report, Section
from batchsched.tools.room_for_job import has_room, moves_for
from batchsched.transition.content import Content
from batchsched.transition.rules import starting, with_run_added

AnswerT = TypeVar("AnswerT")

# Plans


@frozen(kw_only=True)
class FreeNodes:
    """The goal that nodes are free: in service, and without tasks of jobs."""

    count: int
    """How many at least."""
    selector: Mapping[str, str] = field(default=EMPTY, converter=AsMap[str, str])
    """The labels of the nodes that count; empty: all do."""

    @property
    def labels(self) -> str:
        """The selector as it is written: ``pool=a,zone=b``."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.selector.items()))


@frozen(kw_only=True)
class Room:
    """The goal that there is room for what a job needs next, without evictions."""

    job_uid: str
    """The UID of the job."""


Goal = FreeNodes | Room
"""What moves are to bring about."""


@frozen(kw_only=True)
class PlannedMove:
    """Stop a task where it runs, and start it again on another node."""

    task_uid: str
    from_node: str
    """The name of the node where it runs."""
    to_node: str
    """The name of the node where it starts again."""
    name: str = ""
    """The display name of the task, where it is not the UID."""
    devices: tuple[DevicePick, ...] | None = field(default=None, repr=False)
    """The devices that it gets there; None: it claims none, or nobody asked which."""
    choices: Mapping[str, Hashable] = field(default=EMPTY, repr=False)
    """What other plugins have chosen for it there, by plugin; see `batchsched.plugin.Choices`."""


@frozen(kw_only=True)
class PlannedStep:
    """Moves that are of use together alone, in the order in which they are made."""

    moves: tuple[PlannedMove, ...] = field(converter=AsTuple[PlannedMove])
    gain: int
    """How much nearer the goal is afterwards: the nodes that it frees, or 1 for the room."""
    cost: int
    """The sum of the costs of its moves."""


@frozen(kw_only=True, repr=False)
class MovePlan(Report):
    """Moves by which a goal is reached, step by step; see `plan_moves`."""

    goal: Goal
    steps: tuple[PlannedStep, ...] = field(default=(), converter=AsTuple[PlannedStep])
    reached: bool
    """Whether the goal is reached after them; without any: whether it is now."""

    @property
    def moves(self) -> tuple[PlannedMove, ...]:
        """All moves, in order."""
        return tuple(move for step in self.steps for move in step.moves)

    @property
    def gain(self) -> int:
        """The gain of all steps."""
        return sum(step.gain for step in self.steps)

    @property
    def cost(self) -> int:
        """The cost of all steps."""
        return sum(step.cost for step in self.steps)

    def apply(self, snapshot: Snapshot, /) -> Snapshot:
        """Return a snapshot after all moves: each task runs on its new node, since `now`.

        What it has done until then is in its `attained_service`. O(tasks of the jobs that move,
        and jobs).

        Raises:
            ArgumentError: the plan is of another snapshot: a task does not run where a move begins,
                or there is no such node; all faults at once.

        """
        content = Content(_checked_snapshot(snapshot))
        faults: list[Fault] = []
        for number, step in enumerate(self.steps):
            for position, move in enumerate(step.moves):
                problem = _move_problem(content, move)
                if problem:
                    faults.append(Fault(f"steps[{number}].moves[{position}]", problem))
                else:
                    _carry_out(content, move)
        if faults:
            raise ArgumentError(faults)
        content.commit()
        return content.snapshot()

    def sections(self) -> tuple[Section, ...]:
        """Return the sections of the report: the answer, and a row for each move."""
        rows = [
            (number, move.name or move.task_uid, move.from_node, move.to_node, step.cost)
            for number, step in enumerate(self.steps, start=1)
            for move in step.moves
        ]
        head = ("step", "task", "from", "to", "cost of the step")
        return (
            Section(self._answer(), in_full=True),
            *([Section("", (), head, rows)] if rows else ()),
        )

    def _answer(self) -> str:
        how = counted(len(self.moves), "move")
        if len(self.steps) > 1:
            how += f" in {len(self.steps)} steps"
        how += f", at a cost of {self.cost}"
        goal = self.goal
        if isinstance(goal, Room):
            if not self.reached:
                return f"No moves that make room for {goal.job_uid} were found"
            when = f"after {how}" if self.steps else "already"
            return f"There is room for {goal.job_uid} {when}"
        which = f" with {goal.labels}" if goal.labels else ""
        nodes = f"{counted(goal.count, 'node')}{which} {'is' if goal.count == 1 else 'are'}"
        if not self.steps:
            return f"{nodes} free already" if self.reached else f"No node{which} can be freed"
        if self.reached:
            return f"{nodes} free after {how}"
        return f"Fewer than {nodes} free: {self.gain} more after {how}, and no further"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the plan as dicts, lists, strings and numbers only, ready for JSON."""
        return _PLAN.to_dict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, object], /) -> MovePlan:
        """Return the plan written by `to_dict`.

        Raises:
            FormatError: it cannot be read; all faults at once, each with its path.

        """
        return _PLAN.from_dict(given)

    @classmethod
    def json_schema(cls) -> dict[str, JsonValue]:
        """Return the JSON Schema (2020-12) of what `to_dict` gives."""
        return _PLAN.json_schema()


_PLAN = Format(MovePlan, version=1, error=FormatError)


def _move_problem(content: Content, move: PlannedMove) -> str:
    task = content.tasks.get(move.task_uid)
    if task is None:
        return f"there is no task {move.task_uid!r}; the plan is of another snapshot"
    if task.status is not TaskStatus.RUNNING or task.node_name != move.from_node:
        where = "" if task.node_name is None else f" on {task.node_name!r}"
        return (
            f"task {move.task_uid!r} is {task.status.value}{where}, not Running on "
            f"{move.from_node!r}; the plan is of another snapshot"
        )
    if move.to_node not in content.nodes:
        return f"there is no node {move.to_node!r}; the plan is of another snapshot"
    return ""


def _carry_out(content: Content, move: PlannedMove) -> None:
    task = with_run_added(content.tasks[move.task_uid], content.now)
    moved = starting(
        task,
        TaskStatus.RUNNING,
        move.to_node,
        is_backfill=task.is_backfill,
        now=content.now,
        chosen=move,
    )
    content.put("tasks", move.task_uid, moved)


# Planning


@checks_arguments()
def plan_moves(
    snapshot: Snapshot,
    goal: Goal,
    *,
    config: SchedulerConfig | None = None,
    registry: Registry | None = None,
    cost: Callable[[TaskInfo], int] | None = None,
    limit: int | None = None,
    max_price: int | None = None,
    exempt: Sequence[str] = (),
) -> MovePlan:
    """Return moves of running tasks by which a goal is reached, or as much of it as is possible.

    Nothing is changed: the caller carries the moves out one by one, and may ask again after each.
    Each move is valid after those before it, by the predicates of the configuration; devices,
    ports and slots are chosen anew, and a task that needs its domain moves within it. Whoever is
    protected stays: what is not preemptible, has not run for its minimum runtime, or is counted by
    a budget or a limit that allows no more, as if a job of the highest priority, in a queue of its
    own, asked for the room; for `Room`, that job asks. No place is taken that is promised, nor one
    that is still held.

    For `FreeNodes`, a step empties the node of which all tasks may move that is the cheapest, then
    has the fewest tasks, then comes first; its tasks, the largest first, each go to the node with
    the highest score that is not free. So a step depends on the state before it alone, and a plan
    for the result of a plan is empty. Taking the cheapest step each time is a heuristic: a smaller
    sum may exist. O(nodes x tasks of a node x nodes) for a step at worst.

    For `Room` there is one step, or none: the moves that the action consolidate would find for the
    job if it might move tasks of all queues, with up to 10,000 tries.

    Args:
        snapshot: the cluster now.
        goal: what is to be brought about: `FreeNodes` or `Room`.
        config: whose predicates, scores and protections hold; None: the default.
        registry: the plugins that the configuration may name.
        cost: returns what it costs to move a task, 0 or more; None: `TaskInfo.eviction_cost`,
            where it has one, else 1.
        limit: the most moves; None: any number. A step is made as a whole or not at all.
        max_price: the most that a step may cost for each unit of its gain; None: anything.
        exempt: the UIDs of jobs that stay where they are.

    Raises:
        ArgumentError: an argument has the wrong type, a number is negative, a job is not there,
            `cost` raised or gave something else than 0, 1, 2, ...; all faults at once.
        PluginError: a plugin raised an exception or returned an invalid value.

    >>> from batchsched import JobInfo, NodeInfo, Queue, Resource, Snapshot, TaskInfo, TaskStatus
    >>> cpu = Resource(milli_cpu=1000)
    >>> def running(name: str, cpus: int, node: str) -> JobInfo:
    ...     task = TaskInfo(uid=name, name=name, resreq=cpus * cpu, status=TaskStatus.RUNNING,
    ...                     node_name=node)
    ...     return JobInfo(name=name, queue="q", tasks=[task])
    >>> snapshot = Snapshot(
    ...     nodes=[NodeInfo(name=name, allocatable=8 * cpu) for name in ("n1", "n2")],
    ...     queues=[Queue(name="q")], jobs=[running("a", 2, "n1"), running("b", 3, "n2")])
    >>> plan = plan_moves(snapshot, FreeNodes(count=1))
    >>> print(plan)
    1 node is free after 1 move, at a cost of 1
    step  task  from  to  cost of the step
    1     a     n1    n2  1
    >>> plan_moves(plan.apply(snapshot), FreeNodes(count=1)).steps
    ()

    """
    faults = [Fault(*problem) for problem in _problems(snapshot, goal, limit, max_price, exempt)]
    costs = _costs(snapshot, cost, faults)
    if faults:
        raise ArgumentError(faults)
    planning = _Planning(
        snapshot,
        Scheduler(config, registry),
        costs,
        max_price,
        set(exempt),
        asks=isinstance(goal, FreeNodes),
    )
    if isinstance(goal, Room):
        return planning.room_for(goal, limit)
    return planning.free_nodes(goal, limit)


def _checked_snapshot(snapshot: Snapshot) -> Snapshot:
    if type(snapshot) is not Snapshot:
        raise ArgumentError.at("snapshot", f"expected a Snapshot, got {shown(snapshot)}")
    return snapshot


def _problems(
    snapshot: Snapshot,
    goal: Goal,
    limit: int | None,
    max_price: int | None,
    exempt: Sequence[str],
) -> Problems:
    known = {job.uid for job in snapshot.jobs}
    wrong = [*under("goal", field_problems(goal))]
    yield from wrong
    if not wrong and isinstance(goal, Room):
        yield from _unknown_job("goal.job_uid", goal.job_uid, known)
    elif not wrong and isinstance(goal, FreeNodes) and goal.count < 0:
        yield "goal.count", f"expected 0 or more, got {goal.count}"
    for name, number in (("limit", limit), ("max_price", max_price)):
        if number is not None and number < 0:
            yield name, f"expected 0 or more, or None, got {number}"
    for position, uid in enumerate(exempt):
        yield from _unknown_job(f"exempt[{position}]", uid, known)


def _unknown_job(path: str, uid: str, known: Collection[str]) -> Problems:
    if uid not in known:
        hint = similar_name(uid, known)
        yield path, f"there is no job {uid!r}{f'; did you mean {hint}?' if hint else ''}"


def _costs(
    snapshot: Snapshot, cost: Callable[[TaskInfo], int] | None, faults: list[Fault]
) -> Mapping[str, int]:
    """Return what it costs to move each running task of a job, by UID. O(tasks)."""
    costs: dict[str, int] = {}
    ask = None if cost is None else asked("cost", cost)
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.status is not TaskStatus.RUNNING:
                continue
            if ask is None:
                costs[task.uid] = 1 if task.eviction_cost is None else task.eviction_cost
                continue
            try:
                said: object = ask(task)
            except ArgumentError as error:
                faults += error.faults
                continue
            if is_integer(said) and said >= 0:
                costs[task.uid] = said
            else:
                message = f"expected an integer, 0 or more, got {shown(said)}"
                faults.append(Fault(f"cost(task {task.uid!r})", message))
    return costs


class _OnNode(NamedTuple):
    """What jobs have on a node that counts."""

    uids: Sequence[str]
    """The tasks that are there, or have a place there."""
    cost: int | None
    """What it costs to move them all; None: not all of them may be asked to move."""


class _Planning:
    """The cluster as it is after the steps so far; each step is chosen in a session of its own."""

    def __init__(
        self,
        snapshot: Snapshot,
        scheduler: Scheduler,
        costs: Mapping[str, int],
        max_price: int | None,
        exempt: Container[str],
        *,
        asks: bool,
    ) -> None:
        """Begin.

        `asks`: whether somebody is to be there who asks for moves, and is no job of the snapshot.
        """
        self._costs = costs
        self._max_price = max_price
        self._exempt = exempt
        self._content = Content(snapshot)
        self._claimant = _add_claimant(self._content) if asks else ""
        self._kept = scheduler.keep(self._content)
        self._on_nodes: dict[str, _OnNode] = {}
        """By name, what is on the nodes that count."""

    def room_for(self, goal: Room, limit: int | None) -> MovePlan:
        """Return a plan whose only step makes room for a job, or one without steps."""
        reached = self._asked(lambda session: has_room(session, goal.job_uid))
        step = None if reached else self._room(goal.job_uid, limit)
        if step is None:
            return MovePlan(goal=goal, reached=reached)
        self._carry_out(step)
        # A gang that finds its places one by one may not find those that were meant for it.
        if not self._asked(lambda session: has_room(session, goal.job_uid)):
            return MovePlan(goal=goal, reached=False)
        return MovePlan(goal=goal, steps=[step], reached=True)

    def _room(self, uid: str, limit: int | None) -> PlannedStep | None:
        """Return the moves by which a job has room, one after the other; None: none were found."""
        most = len(self._costs) if limit is None else limit
        moves = self._asked(
            lambda session: moves_for(session, uid, most_moves=most, exempt=self._exempt)
        )
        if not moves:
            return None
        relocated = self._asked(
            lambda session: one_after_the_other(
                session, [(session.task(task), session.node(node)) for task, node in moves]
            )
        )
        cost = sum(self._costs[task] for task, _ in moves)
        if relocated is None or (self._max_price is not None and cost > self._max_price):
            return None
        return PlannedStep(moves=[_planned(each) for each in relocated], gain=1, cost=cost)

    def free_nodes(self, goal: FreeNodes, limit: int | None) -> MovePlan:
        """Return the steps that are made until enough nodes are free."""
        counting = [name for name, node in self._content.nodes.items() if _counts(node, goal)]
        self._on_nodes = {name: self._look_at(name) for name in counting}
        steps: list[PlannedStep] = []
        left = limit
        while not (reached := len(self._free()) >= goal.count):
            step = self._asked(self._step)
            if step is None or (left is not None and len(step.moves) > left):
                break
            left = None if left is None else left - len(step.moves)
            steps.append(step)
            self._carry_out(step)
        return MovePlan(goal=goal, steps=steps, reached=reached)

    def _asked(self, ask: Callable[[Session], AnswerT]) -> AnswerT:
        """Ask in a session of its own, on the cluster as it is now."""
        answer = ask(self._kept.session())
        self._kept.end()
        return answer

    def _carry_out(self, step: PlannedStep) -> None:
        for move in step.moves:
            _carry_out(self._content, move)
        self._content.commit()
        for name in dict.fromkeys(n for m in step.moves for n in (m.from_node, m.to_node)):
            if name in self._on_nodes:
                self._on_nodes[name] = self._look_at(name)

    def _step(self, session: Session) -> PlannedStep | None:
        """Return how the cheapest node that can be emptied is emptied; None: none can."""
        free = self._free()
        places = [node for node in session.nodes if node.name not in free]
        slots = frozenset(node.slot for node in places)
        room = RoomOnOthers(places)
        claimant = session.task(self._claimant)
        for cost, _, _, node in self._in_turn(session):
            tasks = [session.task(uid) for uid in self._on_nodes[node.name].uids]
            if not all(
                task.is_best_effort or room.has(task.init_resreq, node) for task in tasks
            ) or not all(is_movable(session, task, claimant) for task in tasks):
                continue
            relocation = Relocation(session)
            others = slots - {node.slot}
            is_emptied = all(
                relocate(session, relocation, task, others)
                for task in in_order_of_size(session, tasks)
            )
            moves = tuple(map(_planned, relocation.relocated()))
            relocation.rollback(0)
            if is_emptied:
                return PlannedStep(moves=moves, gain=1, cost=cost)
        return None

    def _in_turn(self, session: Session) -> list[tuple[int, int, int, NodeState]]:
        """Return the nodes that may be emptied: cost, number of tasks, place and node, in order."""
        most = self._max_price
        found: list[tuple[int, int, int, NodeState]] = []
        for name, (uids, cost) in self._on_nodes.items():
            if uids and cost is not None and (most is None or cost <= most):
                node = session.node(name)
                found.append((cost, len(uids), node.index, node))
        return sorted(found, key=itemgetter(0, 1, 2))

    def _free(self) -> set[str]:
        """Return the names of the nodes that are free. O(nodes)."""
        return {name for name, (uids, _) in self._on_nodes.items() if not uids}

    def _look_at(self, name: str) -> _OnNode:
        content, costs = self._content, self._costs
        uids = [uid for uid in content.on_node.get(name, ()) if uid in content.owner]
        if all(uid in costs and content.owner[uid] not in self._exempt for uid in uids):
            return _OnNode(uids, sum(costs[uid] for uid in uids))
        return _OnNode(uids, None)


def _counts(node: NodeInfo, goal: FreeNodes) -> bool:
    """Return whether a node counts for a goal if it has no tasks of jobs."""
    labels = node.labels
    return out_of_service(node) is None and all(
        labels.get(key) == value for key, value in goal.selector.items()
    )


def _planned(moved: Relocated) -> PlannedMove:
    task, info = moved.task, moved.task.info
    return PlannedMove(
        task_uid=task.uid,
        from_node=moved.before.name,
        to_node=moved.node.name,
        name="" if info.display_name == task.uid else info.display_name,
        **choice_fields(moved.choices),
    )


def _add_claimant(content: Content) -> str:
    """Add who asks for the room: a job of the highest priority, in a queue of its own.

    Plugins know it as they know all jobs, so that they can be asked whom they protect from it. It
    requests nothing, so no share changes. Returns the UID of its task.
    """
    name = "who-asks-for-moves"
    taken = content.queues.keys() | content.jobs.keys() | content.tasks.keys()
    while not taken.isdisjoint((name, f"default/{name}")):
        name += "-"
    task = TaskInfo(uid=name, name=name)
    priority = max((job.priority for job in content.jobs.values()), default=0) + 1
    content.put("queues", name, Queue(name=name))
    content.enter(JobInfo(name=name, queue=name, priority=priority, tasks=[task]))
    content.commit()
    return name
