"""A rule changes nothing where what it speaks of is not there.

So it is with the least important victim where all are equally important, with a second attempt
where the tasks of a job are of one size, with use where there is one queue and one user, with a
threshold that nobody has waited for, and with a claim that is shared and that one task has. Two
rules act always: that a preemption is spared as a whole, and that weights deal whole units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.closed_worlds import with_known_devices

from batchsched import CycleResult, JobInfo, Scheduler, SchedulerConfig, Snapshot
from batchsched.devices import DeviceClaim, DevicePick
from batchsched.testing import snapshots, with_devices

ORDERS = ("allocate, preempt", "reclaim, allocate, preempt", "allocate, preempt, reclaim")
GANG = {"name": "gang", "arguments": {"atMinimum": "whole-job"}}
SHARES = ("capacity", "proportion")
CROWDED = snapshots(max_nodes=3, min_jobs=3, always=["running", "gangs", "crowded"])


def decided(snapshot: Snapshot, configuration: Mapping[str, Any]) -> CycleResult:
    return Scheduler(SchedulerConfig.from_mapping(configuration)).schedule(snapshot)


def moves(result: CycleResult) -> Sequence[object]:
    """What is decided, with places but without devices."""
    lists = (result.binds, result.pipelined, result.conditional, result.reserved)
    placed = [[(each.task_uid, each.node_name) for each in some] for some in lists]
    return [*placed, result.evictions, result.taken_back, result.dropped_promises]


def tiers(share: str, *first: Sequence[str], more: Sequence[Any] = ()) -> Sequence[Any]:
    judged = [GANG, "conformance", "drf", *more]
    return [{"plugins": p} for p in (*first, judged, ["predicates", share, "nodeorder"])]


@settings(max_examples=60)
@given(CROWDED, st.sampled_from(SHARES), st.sampled_from(ORDERS))
def test_law_where_all_are_equally_important_it_does_not_matter_that_priorities_count(
    snapshot: Snapshot, share: str, order: str
) -> None:
    def alike(job: JobInfo) -> JobInfo:
        return evolve(job, priority=3, tasks=[evolve(task, priority=2) for task in job.tasks])

    snapshot = evolve(snapshot, jobs=map(alike, snapshot.jobs))
    without, with_it = (
        decided(snapshot, {"actions": order, "tiers": tiers(share, *first)})
        for first in ((), (["priority"],))
    )
    assert moves(with_it) == moves(without)


@settings(max_examples=60)
@given(CROWDED, st.sampled_from(ORDERS))
def test_law_where_the_tasks_of_a_job_are_of_one_size_no_second_order_is_tried(
    snapshot: Snapshot, order: str
) -> None:
    def alike(job: JobInfo) -> JobInfo:
        size = job.tasks[0].resreq
        return evolve(job, tasks=[evolve(t, resreq=size, init_resreq=None) for t in job.tasks])

    waiting = [
        alike(job) if not any(task.status.holds for task in job.tasks) else job
        for job in snapshot.jobs
        if job.tasks and len({task.resreq for task in job.tasks if not task.status.holds}) <= 1
    ]
    snapshot = evolve(snapshot, jobs=waiting)
    once, twice = (
        decided(
            snapshot,
            {
                "actions": [
                    {"name": name, "arguments": {"retry": retry}} for name in order.split(", ")
                ]
            },
        )
        for retry in ("none", "largest-first")
    )
    assert moves(twice) == moves(once)


@settings(max_examples=60)
@given(CROWDED, st.sampled_from(SHARES), st.sampled_from(ORDERS))
def test_law_where_there_is_one_queue_and_one_user_use_does_not_matter(
    snapshot: Snapshot, share: str, order: str
) -> None:
    queue, *_ = snapshot.queues
    snapshot = evolve(
        snapshot,
        queues=[evolve(queue, parent=None)],
        jobs=[evolve(job, queue=queue.name, user="") for job in snapshot.jobs],
    )
    usage = {"name": "usage", "arguments": {"scope": "users"}}
    without, with_it = (
        decided(snapshot, {"actions": order, "tiers": tiers(share, more=more)})
        for more in ((), (usage,))
    )
    assert moves(with_it) == moves(without)


@settings(max_examples=60)
@given(CROWDED, st.sampled_from(SHARES))
def test_law_a_threshold_that_nobody_has_waited_for_does_not_matter(
    snapshot: Snapshot, share: str
) -> None:
    without, with_it = (
        decided(
            snapshot,
            {"actions": [{"name": "allocate", "arguments": arguments}], "tiers": tiers(share)},
        )
        for arguments in ({}, {"starvationThreshold": 10**9})
    )
    assert moves(with_it) == moves(without)


@settings(max_examples=60)
@given(
    with_devices(snapshots(max_nodes=3, min_jobs=2, always=["running", "crowded"])),
    st.sampled_from(ORDERS),
)
def test_law_a_claim_with_a_name_that_no_other_has_is_as_one_without(
    snapshot: Snapshot, order: str
) -> None:
    snapshot = named(with_known_devices(snapshot), by_task=False)
    without, with_it = (
        decided(one, {"actions": order}) for one in (snapshot, named(snapshot, by_task=True))
    )
    assert moves(with_it) == moves(without)
    assert {uid: without_names(one.devices) for uid, one in with_it.tasks.items()} == {
        uid: without_names(one.devices) for uid, one in without.tasks.items()
    }


def named(snapshot: Snapshot, *, by_task: bool) -> Snapshot:
    """The same, where all claims have names of their own, or none."""

    def name(uid: str, claim: str) -> str | None:
        return f"{uid}/{claim}" if by_task else None

    def claim(uid: str, one: DeviceClaim) -> DeviceClaim:
        return evolve(one, shared=name(uid, one.name))

    def pick(uid: str, one: DevicePick) -> DevicePick:
        return evolve(one, shared=name(uid, one.claim))

    def job(one: JobInfo) -> JobInfo:
        return evolve(
            one,
            tasks=[
                evolve(
                    task,
                    claims=[claim(task.uid, each) for each in task.claims],
                    devices=None
                    if task.devices is None
                    else [pick(task.uid, each) for each in task.devices],
                )
                for task in one.tasks
            ],
        )

    return evolve(snapshot, jobs=map(job, snapshot.jobs))


def without_names(picks: Sequence[DevicePick] | None) -> Sequence[DevicePick] | None:
    return None if picks is None else [evolve(pick, shared=None) for pick in picks]
