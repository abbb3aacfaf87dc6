"""What must hold of plugins that choose, rank nodes exactly, share, and say who may claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from attrs import evolve, frozen
from hypothesis import strategies as st

from batchsched import (
    ActionOption,
    Arguments,
    CycleResult,
    PluginOption,
    Registry,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    default_registry,
)
from batchsched.live import TaskSucceeded
from batchsched.plugin import (
    Changes,
    JobState,
    Need,
    NodeSet,
    NodeState,
    SessionView,
    Stage,
    TaskState,
)
from batchsched.testing import configs, snapshots
from tests.support.cycles import Cycles
from tests.support.slots import SlotsPlugin


@frozen
class ManyPoints:
    """Ranks nodes by what is on them, and jobs by what those of the same label hold."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> ManyPoints:
        return cls()

    def open(self, view: SessionView, /) -> object:
        return _ManyPoints(view)


def _team(job: JobState) -> str:
    return job.info.labels.get("slots", "")


class _ManyPoints:
    def __init__(self, view: SessionView) -> None:
        self.held = Counter[str]()
        self.turns: list[JobState] = []
        for task in view.tasks.values():
            if task.status.charged and not task.is_held:
                self.on_allocate(task)

    def on_allocate(self, task: TaskState, /) -> None:
        if task.job is not None:
            self.held[_team(task.job)] += task.resreq[0]

    def on_deallocate(self, task: TaskState, /) -> None:
        if task.job is not None:
            self.held[_team(task.job)] -= task.resreq[0]

    def job_order_key(self, job: JobState, /) -> float:
        return self.held[_team(job)]

    def job_order_shares(self, job: JobState, /) -> Hashable:
        return _team(job)

    def node_key(self, task: TaskState, node: NodeState, /) -> tuple[int, ...]:
        slots = [each.choices.get("slots") for each in node.tasks.values()]
        return -(len(node.tasks) // 2), slots.count(0), int("slots" in task.info.labels)

    def node_key_signature(self, task: TaskState, /) -> Hashable:
        return "slots" in task.info.labels

    def on_turn_begin(self, job: JobState, /) -> None:
        assert not self.turns, "the last turn has not ended"
        self.turns.append(job)

    def on_turn_end(self, job: JobState, /) -> None:
        assert self.turns == [job], "another turn ends than began"
        self.turns.clear()

    def may_claim(self, job: JobState, /) -> bool:
        return _team(job) != "odd"


@frozen
class Blocks:
    """Keeps jobs with a label within one block of nodes, also one by one with the slots there."""

    @classmethod
    def from_arguments(cls, _arguments: Arguments) -> Blocks:
        return cls()

    def open(self, view: SessionView, /) -> object:
        return _Blocks(view)


class _Blocks:
    def __init__(self, view: SessionView) -> None:
        self.view = view
        nodes: dict[str, list[NodeState]] = {}
        for node in view.nodes:
            nodes.setdefault(node.info.labels.get("block", ""), []).append(node)
        self.blocks = [NodeSet(name, of) for name, of in sorted(nodes.items()) if name]

    sets_by_room = True

    def resume(self, changes: Changes, /) -> bool:
        return not (changes.nodes or changes.nodes_gone)

    def may_offer_sets(self, job: JobState, /) -> bool:
        return "one-block" in job.info.labels

    def domains(self) -> list[NodeSet]:
        return self.blocks

    def candidate_nodes(self, need: Need, within: NodeSet, /) -> Iterable[NodeSet] | None:
        if "one-block" not in need.job.info.labels:
            return None
        home = {task.node.slot for task in need.home if task.node is not None}
        counts = self.view.counts(need, need.stage or Stage.NOW)
        blocks = [block for block in self.blocks if home <= block.slots <= within.slots]
        if counts is not None:
            blocks = [block for block in blocks if counts.of(block) >= len(need.tasks)]
            blocks.sort(key=counts.of)
        return blocks


def registry() -> Registry:
    known = default_registry()
    known.register_plugin("slots", SlotsPlugin)
    known.register_plugin("points", ManyPoints)
    known.register_plugin("blocks", Blocks)
    return known


LABELS = {"slots": ["any", "odd"], "block": ["a", "b"], "one-block": ["yes"]}


def in_blocks(snapshot: Snapshot) -> Snapshot:
    """Put nodes in two blocks in turn, and let all jobs keep to one of them."""
    return evolve(
        snapshot,
        nodes=[
            evolve(node, labels={**node.labels, "block": "ab"[place % 2]})
            for place, node in enumerate(snapshot.nodes)
        ],
        jobs=[evolve(job, labels={**job.labels, "one-block": ""}) for job in snapshot.jobs],
    )


def short_of_slots(snapshot: Snapshot) -> Snapshot:
    """Let nodes have room for more tasks than slots, and each task ask for a slot.

    Of those that are on nodes, the first of each node have one.
    """
    left = {node.name: [0, 1] for node in snapshot.nodes}

    def asking(task: TaskInfo) -> TaskInfo:
        wanted = "odd" if task.uid.endswith("2") else "any"
        free = left.get(task.node_name or "", []) if task.status.holds else []
        slot = 1 if 1 in free and (wanted == "odd" or 0 not in free) else 0
        if slot in free and (wanted == "any" or slot == 1):
            free.remove(slot)
            return evolve(task, labels={"slots": wanted}, choices={"slots": slot})
        return evolve(task, labels={} if task.status.holds else {"slots": wanted})

    return evolve(
        snapshot,
        nodes=[evolve(node, allocatable=node.allocatable * 2) for node in snapshot.nodes],
        jobs=[evolve(job, tasks=[asking(task) for task in job.tasks]) for job in snapshot.jobs],
    )


_RUNNING = snapshots(
    labels=LABELS,
    min_nodes=2,
    max_nodes=4,
    min_jobs=3,
    max_tasks=3,
    promises=False,
    reservations=False,
    constraints=False,
    affinity=False,
    always=["running", "gangs"],
)
IN_BLOCKS = snapshots(
    min_nodes=2,
    max_nodes=4,
    max_queues=2,
    min_jobs=2,
    max_jobs=4,
    min_tasks=2,
    max_tasks=4,
    promises=False,
    reservations=False,
    constraints=False,
    affinity=False,
    scalars=False,
    init_requests=False,
    dependencies=False,
    invalid_jobs=False,
    unknown_queues=False,
    best_effort=False,
    overcommitted=False,
    trees=False,
    always=["running", "gangs", "groups", "priorities"],
).map(in_blocks)
SNAPSHOTS = st.one_of(
    snapshots(labels=LABELS, max_nodes=3, max_tasks=3),
    _RUNNING.map(in_blocks),
    _RUNNING.map(short_of_slots),
)
CONFIGS = configs(
    extra_plugins=[
        PluginOption(name="slots", arguments={"count": 2}),
        PluginOption(name="points"),
        PluginOption(name="blocks"),
    ]
)
CONFIGS_OF_BLOCKS = configs(
    extra_plugins=[PluginOption(name="blocks")],
    actions=["allocate", "plan", "preempt", "reclaim"],
    flags=False,
)


def expect_points(snapshot: Snapshot, config: SchedulerConfig, *, cycles: int = 3) -> None:
    """Decide some cycles on a living cluster, from scratch, and by plain definitions."""
    using, plain = Scheduler(config, registry()), Scheduler(config, registry(), plain=True)
    living = Cycles(using, snapshot)
    for _ in range(cycles):
        before = living.snapshot
        result = living.cycle()
        assert result == using.schedule(before), "a living cluster decides as one from scratch"
        assert result == plain.schedule(before), "it decides what plain definitions decide"
        _expect_choices(before, result)
        _expect_blocks(before, result)
        if all(each.name == "plan" or _is_plain_allocate(each) for each in config.actions):
            _expect_whole(before, result)
        gone = {eviction.task_uid for eviction in result.evictions}
        running = [uid for uid in _running(before) if uid not in gone]
        living.step(*map(TaskSucceeded, running[:1]))
        _expect_carried(result, living.snapshot)
        _expect_distinct(living.snapshot)


def _running(snapshot: Snapshot) -> list[str]:
    tasks = [task for job in snapshot.jobs for task in job.tasks]
    return [task.uid for task in tasks if task.status is TaskStatus.RUNNING]


def _expect_choices(before: Snapshot, result: CycleResult) -> None:
    tasks = {task.uid: (job, task) for job in before.jobs for task in job.tasks}
    for placed in (*result.binds, *result.pipelined, *result.conditional, *result.kept_promises):
        wanted = tasks[placed.task_uid][1].labels.get("slots")
        slot = placed.choices.get("slots")
        assert (slot is None) == (wanted is None), f"{placed} has what it asks for"
        assert wanted != "odd" or slot == 1, f"{placed} has what it asks for"
    for uid, outcome in result.tasks.items():
        assert outcome.node_name is not None or not outcome.choices, f"{uid} has no place"
        task = tasks[uid][1]
        if task.status.holds and outcome.node_name == task.node_name:
            assert outcome.choices == task.choices, f"{uid} keeps what it has"
    for eviction in result.evictions:
        claimant = tasks[eviction.for_task_uid][0]
        by_backfill = eviction.action not in ("preempt", "reclaim")
        assert by_backfill or claimant.labels.get("slots") != "odd", f"{eviction}: it may claim"


def _expect_blocks(before: Snapshot, result: CycleResult) -> None:
    block_of = {node.name: node.labels.get("block") for node in before.nodes}
    for job in before.jobs:
        if "one-block" not in job.labels:
            continue
        outcomes = [(t, result.tasks[t.uid]) for t in job.tasks if t.uid in result.tasks]
        new = [
            outcome.node_name
            for task, outcome in outcomes
            if outcome.node_name is not None and outcome.node_name != task.node_name
        ]
        home = [outcome.node_name for _, outcome in outcomes if outcome.status in _HAS_A_PLACE]
        blocks = {block_of.get(name or "") for name in (*new, *home)}  # none who leaves
        assert not new or (len(blocks) == 1 and None not in blocks), f"{job.uid} is in one block"


_HAS_A_PLACE = (
    *(status for status in TaskStatus if status.occupies),
    *(TaskStatus.PIPELINED, TaskStatus.CONDITIONAL, TaskStatus.RESERVED),
)
_COUNTS = (*_HAS_A_PLACE, TaskStatus.SUCCEEDED)


def _is_plain_allocate(action: ActionOption) -> bool:
    return action.name == "allocate" and not action.arguments  # some let it keep a part


def _expect_whole(before: Snapshot, result: CycleResult) -> None:
    """What is placed or planned of a job in one block is all that it needs."""
    for job in before.jobs:
        if "one-block" not in job.labels:
            continue
        outcomes = [(t, result.tasks[t.uid]) for t in job.tasks if t.uid in result.tasks]
        plan = result.planned.get(job.uid)
        planned = [t for t in job.tasks if plan is not None and t.uid in plan.nodes]
        new = [t for t, o in outcomes if o.node_name not in (None, t.node_name)] + planned
        there = [t for t, outcome in outcomes if outcome.status in _COUNTS] + planned
        is_whole = not new or len(there) >= job.min_available
        assert is_whole, f"all that {job.uid} needs is placed"


def _expect_carried(result: CycleResult, after: Snapshot) -> None:
    tasks = {task.uid: task for job in after.jobs for task in job.tasks}
    for placed in (*result.binds, *result.kept_promises):
        task = tasks[placed.task_uid]
        if task.node_name == placed.node_name:
            assert task.choices == placed.choices, f"{placed} holds in the next cycle"


def _expect_distinct(snapshot: Snapshot) -> None:
    taken: set[tuple[str | None, object]] = set()
    for task in (task for job in snapshot.jobs for task in job.tasks):
        if "slots" in task.choices and task.status.occupies:
            place = task.node_name, task.choices["slots"]
            assert place not in taken, f"{task} has what no other one has"
            taken.add(place)
            assert task.labels["slots"] != "odd" or place[1] == 1
