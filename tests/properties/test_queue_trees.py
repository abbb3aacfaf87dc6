"""Trees of queues wherever queues are: what draws, keeps, checks, writes and places them."""

from __future__ import annotations

import json
from random import Random

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import amount, full
from tests.support.invariants import check_cycle

from batchsched import (
    CycleResult,
    Queue,
    QueueStatus,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    next_snapshot,
)
from batchsched.fast import VectorisedPlacement
from batchsched.live import Cluster, Event, QueueAdded, QueueChanged
from batchsched.plugin.queues import QueueTree
from batchsched.plugins.capacity import CapacityPlugin
from batchsched.testing import check_plugin, snapshots

CONFIG = SchedulerConfig.from_mapping({"actions": "reclaim, allocate, preempt, backfill"})
TREES = st.integers(0, 1 << 30).map(full)
DRAWN = snapshots(max_nodes=3, max_queues=7, max_tasks=3, always=["trees", "running"])
FEW = settings(max_examples=8)


def depth(snapshot: Snapshot) -> int:
    tree = QueueTree(snapshot.queues)
    return max((len(tree.path(position)) for position in range(len(tree.names))), default=0)


# Strategies


@pytest.mark.parametrize(
    ("what", "is_it"),
    [
        ("three levels", lambda snapshot: depth(snapshot) >= 3),
        ("a guarantee", lambda snapshot: any(q.guarantee.milli_cpu for q in snapshot.queues)),
        ("a limit above others", lambda s: {q.parent for q in s.queues} & limited(s)),
        ("a closed queue", lambda s: any(q.state is QueueStatus.CLOSED for q in s.queues)),
        ("priorities", lambda s: len({q.priority for q in s.queues}) > 1),
    ],
)
def test_strategies_draw_trees_with(what: str, is_it: object) -> None:
    few = settings(
        max_examples=200,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    find(DRAWN, is_it, settings=few)  # type: ignore[arg-type]


def limited(snapshot: Snapshot) -> set[str]:
    return {queue.name for queue in snapshot.queues if queue.limit is not None}


# Invariants and laws of plugins


@FEW
@given(snapshot=TREES | DRAWN)
def test_cycles_with_trees_keep_all_invariants(snapshot: Snapshot) -> None:
    result = Scheduler(CONFIG).schedule(snapshot)
    check_cycle(snapshot, result, CONFIG, without=["reasons"])


def test_capacity_keeps_the_laws_of_plugins_with_full_trees() -> None:
    check_plugin(CapacityPlugin.from_arguments, name="full", examples=TREES, max_examples=4)


# Clusters that live


def change(queues: tuple[Queue, ...], random: Random) -> Event:
    """A queue gets another parent, limit, weight, state or claim, or one more comes."""
    inner = sorted({queue.parent for queue in queues if queue.parent is not None})
    queue = random.choice(queues)
    match random.randrange(5):
        case 0 if queue.name not in inner:
            return QueueChanged(evolve(queue, parent=random.choice([*inner, None])))
        case 1:
            limit = random.choice((None, ResourceLimit(milli_cpu=random.choice((2000, 5000)))))
            return QueueChanged(evolve(queue, limit=limit))
        case 2:
            return QueueChanged(evolve(queue, deserved=amount(random.choice((0, 3))), weight=2))
        case 3:
            return QueueChanged(evolve(queue, state=random.choice(list(QueueStatus))))
        case _:
            name = f"more-{len(queues)}"
            return QueueAdded(Queue(name=name, parent=random.choice([*inner, None])))


@settings(max_examples=8)
@given(seed=st.integers(0, 1 << 30))
def test_live_cycles_on_trees_that_change_are_those_from_scratch(seed: int) -> None:
    random = Random(seed)
    cluster = Cluster(full(seed))
    scheduler = Scheduler(CONFIG)
    live = scheduler.attach(cluster)
    for _ in range(5):
        before = cluster.snapshot()
        cycle = live.schedule()
        result = scheduler.schedule(before)
        assert cycle == result
        event = change(before.queues, random)
        cluster.carry_out(cycle, at_once=True)
        cluster.apply(event)
        assert cluster.snapshot() == next_snapshot(before, result, now=before.now, events=[event])


# Written down


@FEW
@given(snapshot=TREES | DRAWN)
def test_trees_and_what_is_said_of_them_come_back_the_same(snapshot: Snapshot) -> None:
    assert Snapshot.from_dict(json.loads(json.dumps(snapshot.to_dict()))) == snapshot
    result = Scheduler(CONFIG).schedule(snapshot)
    assert list(result.queues) == [queue.name for queue in snapshot.queues]
    assert CycleResult.from_dict(json.loads(json.dumps(result.to_dict()))) == result


# Engines


@FEW
@given(snapshot=TREES | DRAWN)
def test_engines_decide_the_same_on_trees(snapshot: Snapshot) -> None:
    expected = Scheduler(CONFIG, plain={"engine"}).schedule(snapshot)
    assert Scheduler(CONFIG, placement=VectorisedPlacement).schedule(snapshot) == expected
    assert Scheduler(CONFIG).schedule(snapshot) == expected
