"""Laws of held tasks, over drawn clusters."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given, settings
from tests.reference import KNOWN_ACTIONS, check_reference
from tests.support.invariants import check_cycle

from batchsched import (
    Hold,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    WhyPending,
)
from batchsched.live import Cluster, JobChanged, QueueChanged, TaskHoldsChanged
from batchsched.testing import configs, snapshots

HELD = snapshots(holds=True, always=["holds"], affinity=False, constraints=False)
WAITING = (TaskStatus.PENDING, TaskStatus.RESERVED, TaskStatus.PIPELINED)


@settings(max_examples=150)
@given(HELD, configs())
def test_no_held_task_is_placed_and_each_says_what_holds_it(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = Scheduler(config).schedule(snapshot)
    check_cycle(snapshot, result, config)
    placed = {bind.task_uid for bind in result.binds}
    placed |= {each.task_uid for each in (*result.pipelined, *result.reserved)}
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.status in WAITING and (task.holds or job.holds):
                assert task.uid not in placed
                reason = result.pending[task.uid]
                assert reason.why is WhyPending.HELD
                assert all(hold.text in reason.text for hold in (*task.holds, *job.holds))


@settings(max_examples=150)
@given(HELD, configs(actions=KNOWN_ACTIONS))
def test_they_are_held_as_the_reference_holds_them(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = Scheduler(config).schedule(snapshot)
    check_reference(snapshot, result, config)
    assert Scheduler(config, plain=True).schedule(snapshot) == result


@settings(max_examples=100)
@given(HELD, configs())
def test_a_cluster_whose_holds_go_and_come_lives_as_from_scratch(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    live = Cluster(snapshot)
    scheduler = Scheduler(config)
    attached = scheduler.attach(live)
    for _ in range(2):
        assert attached.schedule() == scheduler.schedule(live.snapshot())
        live.carry_out(attached.schedule(), at_once=True)
        for job in snapshot.jobs:
            now = live.snapshot().job(job.uid)
            live.apply(JobChanged(job.uid, holds=() if now.holds else job.holds))
            live.apply(
                *(TaskHoldsChanged(task.uid, _others(task, job.tasks)) for task in now.tasks)
            )
        for queue in live.snapshot().queues:
            live.apply(QueueChanged(evolve(queue, reclaimable=not queue.reclaimable)))


def _others(task: TaskInfo, tasks: tuple[TaskInfo, ...]) -> tuple[Hold, ...]:
    """Return no holds for a held task, and for another those of the job's first task."""
    return () if task.holds else tasks[0].holds
