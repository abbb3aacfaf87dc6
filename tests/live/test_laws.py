"""The laws of a living cluster, over random histories of events and cycles."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.living import Life, apply_plainly

from batchsched import EventError, Scheduler, Snapshot, TaskStatus, next_snapshot
from batchsched.fast import VectorisedPlacement
from batchsched.live import (
    Cluster,
    JobArrived,
    NodeAdded,
    OtherTaskArrived,
    QueueAdded,
    TaskSucceeded,
    TimePassed,
)
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.linear_scan import LinearScanPlacement
from batchsched.testing.config_strategies import configs

ENGINES = (IndexedPlacement, LinearScanPlacement, VectorisedPlacement)
seeds = st.integers(0, 1 << 32)


def go_on(life: Life, cluster: Cluster, scheduler: Scheduler, live: Any) -> None:
    """One cycle, compared with one from scratch, and what happens then, with the plain loop."""
    before = cluster.snapshot()
    cycle = live.schedule()
    result = scheduler.schedule(before)
    assert cycle == result
    assert result == cycle
    assert cluster.snapshot() == before
    assert live.schedule() == result
    live._keeper._ledger.check()
    bound = [
        task.uid
        for job in before.jobs
        for task in job.tasks
        if task.status in (TaskStatus.BOUND, TaskStatus.BINDING)
    ]
    bound += [bind.task_uid for bind in result.binds]
    leaving = [
        task.uid
        for tasks in (*(job.tasks for job in before.jobs), before.other_tasks)
        for task in tasks
        if task.status is TaskStatus.RELEASING
    ]
    leaving += [eviction.task_uid for eviction in result.evictions]
    named = {
        "not_started": life.some(bound, 0.2),
        "still_releasing": life.some(leaving, 0.3),
        "keep_reservations": life.random.random() < 0.9,
    }
    after = next_snapshot(before, result, now=before.now, **named)
    late = live.schedule()
    cluster.carry_out(cycle, **named)
    assert cluster.snapshot() == after
    events = life.events(after)
    cluster.apply(*events)
    some = life.some(list(result.tasks), 0.5)
    assert {uid: late.outcome(uid) for uid in some} == {uid: result.tasks[uid] for uid in some}
    assert late.full() == result == late
    for event in events:
        after = apply_plainly(after, event)
    assert cluster.snapshot() == after
    assert cluster.snapshot() == Snapshot(
        nodes=after.nodes,
        jobs=after.jobs,
        queues=after.queues,
        other_tasks=after.other_tasks,
        now=after.now,
    )


@given(seed=seeds, config=configs(), engine=st.sampled_from(ENGINES), plain=st.booleans())
def test_law_cycles_equal_those_from_scratch_and_snapshots_the_chain(
    seed: int, config: Any, engine: Any, plain: bool
) -> None:
    life = Life(seed, plain=plain)
    scheduler = Scheduler(config, placement=engine)
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(8):
        go_on(life, cluster, scheduler, live)


@given(seed=seeds)
def test_law_what_is_at_fault_is_refused_and_nothing_has_changed(seed: int) -> None:
    life = Life(seed)
    cluster = Cluster(life.start())
    live = Scheduler().attach(cluster)
    before = cluster.snapshot()
    expected = live.schedule()
    events = life.events(before)
    with pytest.raises(EventError) as caught:
        cluster.apply(TaskSucceeded("nobody"), *events, TimePassed(-1))
    assert [fault.path for fault in caught.value.faults] == [
        "events[0]",
        f"events[{len(events) + 1}].now",
    ]
    assert cluster.snapshot() == before
    assert live.schedule() == expected
    cluster.apply(*events)


@given(seed=seeds, config=configs())
def test_law_a_trial_leaves_no_trace(seed: int, config: Any) -> None:
    life = Life(seed)
    scheduler = Scheduler(config)
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    for _ in range(3):
        go_on(life, cluster, scheduler, live)
        before = cluster.snapshot()
        expected = live.schedule()
        with cluster.trial() as trial:
            for _ in range(2):
                go_on(life, trial, scheduler, live)
            with cluster.trial():
                go_on(life, cluster, scheduler, live)
        assert cluster.snapshot() == before
        again = live.schedule()
        assert again == expected == scheduler.schedule(before)


@given(seed=seeds, one=configs(), other=configs())
def test_law_two_schedulers_do_not_disturb_each_other(seed: int, one: Any, other: Any) -> None:
    life = Life(seed)
    cluster = Cluster(life.start())
    first, second = Scheduler(one), Scheduler(other)
    live = first.attach(cluster), second.attach(cluster)
    for _ in range(5):
        go_on(life, cluster, first, live[0])
        if life.random.random() < 0.5:
            go_on(life, cluster, second, live[1])


@given(seed=seeds)
def test_law_a_cluster_can_be_pickled_and_copied(seed: int) -> None:
    life = Life(seed)
    scheduler = Scheduler()
    cluster = Cluster(life.start())
    live = scheduler.attach(cluster)
    go_on(life, cluster, scheduler, live)
    before = cluster.snapshot()
    others = [
        copy.copy(cluster),
        copy.deepcopy(cluster),
        pickle.loads(pickle.dumps(cluster)),
        cluster.copy(),
    ]
    go_on(life, cluster, scheduler, live)
    for other in others:
        assert other.snapshot() == before
        assert scheduler.attach(other).schedule() == scheduler.schedule(before)


@given(seed=seeds)
def test_law_events_that_belong_together_may_come_in_any_order(seed: int) -> None:
    life = Life(seed)
    scheduler = Scheduler()
    first = Cluster(life.start())
    for _ in range(2):
        go_on(life, first, scheduler, scheduler.attach(first))
    wanted = first.snapshot()
    cluster = Cluster()
    events = events_to_build(wanted)
    life.random.shuffle(events)
    cluster.apply(*events)
    assert cluster.snapshot() == wanted
    assert scheduler.attach(cluster).schedule() == scheduler.schedule(wanted)


def events_to_build(snapshot: Snapshot) -> list[Any]:
    return [
        *(NodeAdded(node) for node in snapshot.nodes),
        *(QueueAdded(queue) for queue in snapshot.queues),
        *(JobArrived(job) for job in snapshot.jobs),
        *(OtherTaskArrived(task) for task in snapshot.other_tasks),
        TimePassed(snapshot.now),
    ]
