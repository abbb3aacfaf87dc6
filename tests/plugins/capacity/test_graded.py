"""order: graded: jobs with which all queues above them stay within their shares go first."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.test_like_the_reference import ORDERS, decided_by_both
from tests.plugins.capacity.test_reclaim_laws import WORLDS, whole_jobs
from tests.plugins.capacity.worlds import (
    amount,
    capacity_config,
    capacity_scheduler,
    crowded,
    job,
    node,
    singles,
)
from tests.reference.capacity import needed
from tests.reference.conf import read_conf
from tests.reference.session import Session

from batchsched import (
    ConfigError,
    CycleResult,
    JobInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
)
from batchsched.trace import JobTaken, TraceEvent


def started(order: str, snapshot: Snapshot, *actions: str) -> set[str]:
    scheduler = capacity_scheduler(*actions or ["allocate"], order=order)
    return {bind.task_uid for bind in scheduler.schedule(snapshot).binds}


@pytest.mark.parametrize(
    ("order", "expected"), [("queue", frozenset[str]()), ("graded", frozenset({"small-00"}))]
)
def test_a_job_that_exceeds_its_share_does_not_keep_back_those_behind_it(
    order: str, expected: frozenset[str]
) -> None:
    """a and b deserve 2 cpus each; big, the first job of a, needs 3, and b takes what is left."""
    snapshot = Snapshot(
        nodes=[node("n1", 4)],
        queues=[
            Queue(name="a", deserved=amount(2)),
            Queue(name="b", deserved=amount(2), priority=1),
        ],
        jobs=[job("a", "big", size=3), job("a", "small", at=2), *singles("b", "b", 4)],
    )
    assert started(order, snapshot) & {"small-00"} == expected


@pytest.mark.parametrize(("order", "first"), [("queue", "x1-00"), ("graded", "x2-00")])
def test_it_is_not_hidden_behind_what_a_sibling_of_its_queue_offers(order: str, first: str) -> None:
    """X has 3 of 6 cpus, of which x3 holds 2 on loan: x1 has the right to 2, and X not to 4.

    x1 is more important than x2, so it is what X offers, unless grades come first.
    """
    queues = [
        *(Queue(name=name, deserved=amount(3)) for name in "XY"),
        Queue(name="x1", parent="X", deserved=amount(2), priority=1),
        Queue(name="x2", parent="X", deserved=amount(1)),
        Queue(name="x3", parent="X"),
        Queue(name="y", parent="Y"),
    ]
    jobs = [
        job("x3", "runs", size=2, on="n1"),
        job("x1", "x1", size=2),
        job("x2", "x2", size=1),
        job("y", "y", size=3, on="n1"),
    ]
    snapshot = Snapshot(nodes=[node("n1", 6)], queues=queues, jobs=jobs)
    taken: list[str] = []

    def collect(event: TraceEvent) -> None:
        if isinstance(event, JobTaken):
            taken.append(event.job)

    config = SchedulerConfig.from_mapping(capacity_config("allocate", order=order))
    Scheduler(config, trace=collect).schedule(snapshot)
    assert taken[0] == f"default/{first[:2]}"


def test_another_order_is_refused_with_what_would_work() -> None:
    with pytest.raises(ConfigError, match="expected one of queue, graded, got 'fair'"):
        capacity_scheduler("allocate", order="fair")


@settings(max_examples=40)
@given(crowded(states=True), ORDERS, st.sampled_from(["whole-job", "protect"]), st.booleans())
def test_it_decides_what_plain_loops_decide(
    snapshot: Snapshot, actions: list[str], at_minimum: str, level: bool
) -> None:
    arguments = {"order": "graded", "level": level}
    decided_by_both(snapshot, capacity_config(*actions, at_minimum=at_minimum, **arguments))


@settings(max_examples=40)
@given(crowded())
def test_the_first_job_is_within_all_shares_above_it_if_any_is(snapshot: Snapshot) -> None:
    conf = capacity_config("allocate", order="graded")
    session = Session(snapshot, read_conf(conf))
    capacity = session.tiers.capacity
    assert capacity is not None
    grades = {
        one.uid: capacity.grade(needed(session.state, one, session.to_place(one)))
        for one in session.jobs
        if session.to_place(one)
    }
    taken: list[str] = []

    def collect(event: TraceEvent) -> None:
        if isinstance(event, JobTaken):
            taken.append(event.job)

    Scheduler(SchedulerConfig.from_mapping(conf), trace=collect).schedule(snapshot)
    first = next((uid for uid in taken if uid in grades), None)
    if first is not None:
        assert grades[first] == min(grades.values())


def without_promises(snapshot: Snapshot, result: CycleResult) -> Snapshot:
    """The cluster once it has all come about, where nobody remembers who was promised what."""

    def settled(task: TaskInfo) -> TaskInfo:
        outcome = result.tasks.get(task.uid)
        if outcome is None:
            return task
        if outcome.status.occupies and outcome.status is not TaskStatus.RELEASING:
            return evolve(task, status=TaskStatus.RUNNING, node_name=outcome.node_name)
        return evolve(task, status=TaskStatus.PENDING, node_name=None)

    def all_settled(one: JobInfo) -> JobInfo:
        return evolve(one, tasks=[settled(task) for task in one.tasks])

    return evolve(snapshot, jobs=map(all_settled, snapshot.jobs))


@settings(max_examples=40)
@given(WORLDS.map(whole_jobs), st.sampled_from(["allocate reclaim", "reclaim allocate"]))
def test_r7_no_task_goes_and_comes_for_ever_though_no_promise_is_kept(
    snapshot: Snapshot, order: str
) -> None:
    scheduler = capacity_scheduler(*order.split(), order="graded")
    evictions: list[int] = []
    for _cycle in range(40):
        result = scheduler.schedule(snapshot)
        evictions.append(len(result.evictions))
        then = without_promises(snapshot, result)
        if not result.evictions and then == snapshot:
            return
        snapshot = then
    pytest.fail(f"it does not come to rest; evictions by cycle: {evictions}")
