"""Preemption within a queue: what a share covers goes only for what it would cover too."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.capacity.worlds import (
    amount,
    capacity_config,
    capacity_scheduler,
    crowded,
    full,
    job,
    node,
)
from tests.support.elastic import elastic, room

from batchsched import (
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskStatus,
    next_snapshot,
)
from batchsched.plugin import EvictionUnit
from batchsched.plugins.capacity import plugin
from batchsched.plugins.capacity.accounts import Share
from batchsched.plugins.capacity.coverage import Coverage, RememberedCoverage
from batchsched.plugins.capacity.plugin import Rank, Standing, needed_unit

EARLY, LATE = (1, 1, (0,)), (1, 1, (1,))


def standing(
    rank: int, order: tuple[int, int, tuple[int]] = EARLY, *, met: bool = False
) -> Standing:
    return Standing(Rank(rank), met, order)


@pytest.mark.parametrize(
    ("need", "other", "expected"),
    [
        (standing(0), standing(1), True),
        (standing(0), standing(2), True),
        (standing(1), standing(2), True),
        (standing(1), standing(0), False),
        (standing(2), standing(0), False),
        (standing(2), standing(1), False),
        (standing(0, EARLY), standing(0, LATE), True),
        (standing(0, LATE), standing(0, EARLY), False),
        (standing(1, LATE), standing(1, EARLY), False),
        (standing(2, LATE), standing(2, EARLY), True),
        (standing(0, EARLY), standing(0, LATE, met=True), False),
        (standing(0, EARLY, met=True), standing(0, LATE, met=True), True),
        (standing(0, EARLY, met=True), standing(0, LATE), True),
    ],
)
def test_who_may_take_whose_place(need: Standing, other: Standing, expected: bool) -> None:
    assert need.may_replace(other) is expected


# By example


def with_priorities(*jobs: JobInfo) -> list[JobInfo]:
    """The jobs with the priorities of their first tasks."""
    return [evolve(one, priority=one.tasks[0].priority) for one in jobs]


def decide(
    nodes: list[NodeInfo],
    queues: list[Queue],
    jobs: list[JobInfo],
    *,
    plain: bool = False,
    preempts: bool = True,
    orders_tasks: bool = True,
) -> CycleResult:
    conf: Any = capacity_config("allocate", "preempt")
    conf["tiers"][0]["plugins"][0] = {"name": "priority", "enableTaskOrder": orders_tasks}
    conf["tiers"][0]["plugins"][-1]["enablePreemptable"] = preempts
    scheduler = Scheduler(SchedulerConfig.from_mapping(conf), plain=plain)
    return scheduler.schedule(Snapshot(nodes=nodes, queues=queues, jobs=jobs))


def gone(result: CycleResult) -> list[str]:
    return sorted(eviction.task_uid for eviction in result.evictions)


both = pytest.mark.parametrize("plain", [False, True])


@both
def test_what_the_share_covers_stays_for_what_it_would_not_cover(plain: bool) -> None:
    nodes = [node("n1", 5), node("n2", 1)]
    queues = [Queue(name="a", weight=3), Queue(name="b", weight=2)]
    jobs = with_priorities(
        job("a", "a2", size=2, on="n1", priority=1),
        job("a", "a4", size=4, priority=10),
        job("b", "b3", size=3, only="nowhere"),
    )
    result = decide(nodes, queues, jobs, plain=plain)
    assert gone(result) == []
    assert "covered by the fair share of its queue: 1" in str(result.pending["a4-00"])
    assert gone(decide(nodes, queues, jobs, plain=plain, preempts=False)) == ["a2-00"]


@both
@pytest.mark.parametrize(("size", "expected"), [(2, ["low-00"]), (3, [])])
def test_of_what_the_share_covers_the_more_valuable_goes_first(
    plain: bool, size: int, expected: list[str]
) -> None:
    nodes = [node("n1", 3)]
    queues = [Queue(name="a", weight=2), Queue(name="b")]
    jobs = with_priorities(
        job("a", "low", size=2, on="n1", priority=1),
        job("a", "high", size=size, priority=10),
        job("b", "other", on="n1"),
    )
    result = decide(nodes, queues, jobs, plain=plain)
    assert gone(result) == expected


@both
def test_where_no_share_covers_anything_priorities_decide(plain: bool) -> None:
    nodes, queues = [node("n1", 3)], [Queue(name="a", weight=0), Queue(name="b")]
    jobs = with_priorities(
        job("a", "low", size=2, on="n1", priority=1),
        job("a", "high", size=2, priority=10),
        job("b", "other", 3, only="nowhere"),
    )
    assert gone(decide(nodes, queues, jobs, plain=plain)) == ["low-00"]


@both
def test_one_task_of_a_gang_with_one_too_many_may_go_but_not_two(plain: bool) -> None:
    nodes = [
        evolve(node("n1", 2), labels={"name": "n1"}),
        evolve(node("n2", 1), labels={"name": "n2"}),
    ]
    gang = job("q", "x", 3, minimum=2, on="n1", priority=5)
    kept, other, spare = gang.tasks
    gang = evolve(gang, tasks=[kept, other, evolve(spare, node_name="n2", priority=4)])
    queues = [Queue(name="q"), Queue(name="p", deserved=amount(1))]
    waits = [job("p", "p", only="nowhere")]
    two = evolve(job("q", "y", size=2, only="n1"), priority=100)
    by_age = {"orders_tasks": False, "plain": plain}  # and so the older gang before the younger
    assert gone(decide(nodes, queues, [gang, two, *waits], **by_age)) == []
    one = evolve(job("q", "y", size=1, only="n1"), priority=100)
    # The share is 2, which the gang's core has; what comes instead of its third is on loan too.
    assert gone(decide(nodes, queues, [gang, one, *waits], **by_age)) == ["x-01"]


@both
def test_capacity_names_no_victims_itself(plain: bool) -> None:
    conf: Any = {"actions": ["preempt"], "tiers": [{"plugins": [{"name": "capacity"}]}]}
    jobs = with_priorities(job("a", "low", on="n1", priority=1), job("a", "high", priority=10))
    snapshot = Snapshot(nodes=[node("n1", 1)], queues=[Queue(name="a")], jobs=jobs)
    assert gone(Scheduler(SchedulerConfig.from_mapping(conf), plain=plain).schedule(snapshot)) == []
    conf["tiers"].append({"plugins": [{"name": "priority"}]})
    result = Scheduler(SchedulerConfig.from_mapping(conf), plain=plain).schedule(snapshot)
    assert gone(result) == ["low-00"]  # the tier of capacity alone does not decide


@both
@pytest.mark.parametrize("sizes", [(2,), (1, 1)])
def test_a_replica_may_go_for_a_need_before_it_though_the_core_of_its_job_may_not(
    plain: bool, sizes: tuple[int, ...]
) -> None:
    # The share is 3, for x's core and y: then it covers nothing of x's replica.
    core, *replica = (job("q", "x", size=size, on="n1").tasks[0] for size in (1, *sizes))
    tasks = [
        evolve(core, priority=5, group="g0"),
        *(
            evolve(task, uid=f"x-{number}", priority=0, group="g1")
            for number, task in enumerate(replica, start=1)
        ),
    ]
    groups = [TaskGroup("g0", min=1), TaskGroup("g1", min=1)]
    of_groups = JobInfo(
        name="x", queue="q", min_available=1, min_groups=1, groups=groups, tasks=tasks
    )
    above = evolve(job("q", "y", size=2), priority=1)
    jobs = [of_groups, above, job("p", "p", on="n1"), job("p", "more", 3)]
    queues = [Queue(name="q", weight=3), Queue(name="p")]
    conf: Any = capacity_config("preempt")
    scheduler = Scheduler(SchedulerConfig.from_mapping(conf), plain=plain)
    result = scheduler.schedule(Snapshot(nodes=[node("n1", 4)], queues=queues, jobs=jobs))
    assert gone(result) == [task.uid for task in tasks[1:]]


# What a job needs


def needed_with(waits: str, one: JobInfo, *, pipelined: str = "") -> list[str]:
    """The tasks of the unit that a task of a job waits to be in."""
    session = Scheduler(SchedulerConfig.from_mapping(capacity_config())).open(room(9, [one]))
    tasks = {task.uid: task for task in session.jobs[one.uid].tasks}
    if pipelined:
        session.statement().pipeline(tasks[pipelined], session.nodes[0])
    return [task.uid for task in needed_unit(session.state.view, tasks[waits]).tasks]


def test_a_task_that_is_tried_in_the_place_of_another_of_its_group_is_needed_for_that_one() -> None:
    roles = [TaskGroup("x", min=1), TaskGroup("y", min=1)]
    one = elastic("j", {"x": "PP", "y": "PP"}, groups=roles, min_available=0)
    assert needed_with("j-x-0", one) == ["j-x-0", "j-y-0"]
    assert needed_with("j-x-1", one) == ["j-x-1", "j-y-0"]


def test_what_is_needed_with_a_task_of_a_replica_is_what_that_replica_lacks() -> None:
    groups = [TaskGroup("x", min=1), TaskGroup("y", min=2), TaskGroup("z", min=2)]
    of: dict[str | None, str] = {"x": "R", "y": "PP", "z": "PP"}
    one = elastic("j", of, groups=groups, min_groups=1, min_available=0)
    assert needed_with("j-y-0", one) == ["j-y-0", "j-y-1"]
    assert needed_with("j-z-0", one) == ["j-z-0", "j-z-1"]
    assert needed_with("j-y-1", one, pipelined="j-y-0") == ["j-y-0", "j-y-1"]


# Laws


class Compared(RememberedCoverage):
    """Compares what it says of units that wait with the definition."""

    def _plain(self) -> Coverage:
        state = self._accounts, self._queues, self._key, self._protects_any, self._tolerance
        return Coverage(*state)

    def would_cover(self, leaf: int, unit: EvictionUnit, share: Share) -> bool:
        found = super().would_cover(leaf, unit, share)
        assert found is self._plain().would_cover(leaf, unit, share)
        return found


def mixed(snapshot: Snapshot) -> Snapshot:
    """The same, where every second job and all of its tasks have a higher priority."""
    jobs = [
        evolve(
            one,
            priority=number % 3,
            tasks=[evolve(task, priority=number % 3) for task in one.tasks],
        )
        for number, one in enumerate(snapshot.jobs)
    ]
    return evolve(snapshot, jobs=jobs)


def test_tasks_of_a_job_with_different_needs_hear_their_own_reasons() -> None:
    groups = (
        TaskGroup("main", min=1),
        TaskGroup("single", min=0),
        TaskGroup("replica", min=2),
    )
    of = {"main": "R", "single": "P", "replica": "PP"}
    grows = elastic("grows", of, {"grows-main-0": "n1"}, queue="q", groups=groups, min_groups=1)
    other = job("q", "other", 3, on="n1", at=-1)
    snapshot = Snapshot(nodes=[node("n1", 4)], queues=[Queue(name="q")], jobs=[grows, other])
    pending = capacity_scheduler("preempt").schedule(snapshot).pending
    # A replica comes before the surplus of others, but is not of higher priority.
    out = [dict(pending[f"grows-{name}-0"].evictions[0].out) for name in ("single", "replica")]
    assert out == [
        {"covered by the fair share of its queue": 3},
        {"equal priority": 3},
    ]


WORLDS = crowded(states=True).map(mixed) | st.integers(0, 2**32).map(full).map(mixed)


@settings(max_examples=80, deadline=None)
@given(WORLDS, st.sampled_from([["preempt"], ["reclaim", "allocate", "preempt"]]))
def test_what_would_be_covered_is_what_the_definition_says(
    snapshot: Snapshot, actions: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugin, "RememberedCoverage", Compared)
        scheduler = Scheduler(SchedulerConfig.from_mapping(capacity_config(*actions)), warm=True)
        for _ in range(3):
            result = scheduler.schedule(snapshot)
            snapshot = next_snapshot(snapshot, result, now=snapshot.now + 1)


@settings(max_examples=100, deadline=None)
@given(WORLDS)
def test_claimants_with_equal_keys_get_equal_verdicts(snapshot: Snapshot) -> None:
    config = SchedulerConfig.from_mapping(capacity_config("preempt"))
    session = Scheduler(config).open(snapshot)
    (judge,) = (each for each in session.plugins.opened if each.name == "capacity")
    of_capacity: Any = judge.object
    key: Any = of_capacity.hints().claimant_key
    running = session.in_victim_order(
        task for task in session.ledger.tasks.values() if task.status is TaskStatus.RUNNING
    )
    said: dict[object, object] = {}
    for one in session.jobs.values():
        for task in one.tasks:
            if task.status is TaskStatus.PENDING and one.in_session:
                others = [each for each in running if each.job is not one]
                if len(others) < len(running):
                    continue  # its own tasks are no candidates
                alone = [of_capacity.preemptable(task, [each]) for each in others]
                verdicts = alone, of_capacity.preemptable(task, others)
                queue = one.info.queue
                assert said.setdefault((queue, key(task)), verdicts) == verdicts
