"""Plans of moves: the scenarios of the page, and laws."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pytest
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tests.support.racks import config as racks_config

from batchsched import (
    ArgumentError,
    Bind,
    FormatError,
    JobInfo,
    NodeInfo,
    Preemptible,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskOutcome,
    TaskStatus,
    TopologyRequest,
    schedule,
)
from batchsched.live import Cluster, TaskGone
from batchsched.testing import check_cycle, configs, snapshots
from batchsched.tools import FreeNodes, MovePlan, PlannedMove, PlannedStep, Room, plan_moves

CPU = Resource(milli_cpu=1000)
Planned = tuple[Snapshot, SchedulerConfig, MovePlan]
FULLEST_FIRST = SchedulerConfig.from_mapping(
    {
        "tiers": [
            {"plugins": ["priority", "gang", "conformance", "protection"]},
            {"plugins": ["predicates", "placement"]},
        ]
    }
)


def running(name: str, cpus: int, node: str, **of_job: object) -> JobInfo:
    task = TaskInfo(
        uid=name, name=name, resreq=cpus * CPU, status=TaskStatus.RUNNING, node_name=node
    )
    return JobInfo(name=name, queue="q", tasks=[task], **of_job)  # type: ignore[arg-type]


def waiting(name: str, cpus: int) -> JobInfo:
    return JobInfo(name=name, queue="q", tasks=[TaskInfo(uid=name, name=name, resreq=cpus * CPU)])


def cluster(*jobs: JobInfo, nodes: int = 3, **content: object) -> Snapshot:
    names = [f"n{number}" for number in range(1, nodes + 1)]
    return Snapshot(
        nodes=[NodeInfo(name=name, allocatable=8 * CPU) for name in names],
        queues=[Queue(name="q")],
        jobs=jobs,
        **content,  # type: ignore[arg-type]
    )


def places(plan: MovePlan) -> list[str]:
    return [f"{move.task_uid}: {move.from_node} to {move.to_node}" for move in plan.moves]


P1 = cluster(running("a", 2, "n1"), running("b", 3, "n2"), running("d", 4, "n3"))


# Scenarios


def test_p1_the_cheapest_node_is_emptied_onto_the_fullest_that_has_room() -> None:
    plan = plan_moves(P1, FreeNodes(count=1), config=FULLEST_FIRST)
    assert places(plan) == ["a: n1 to n3"]
    assert (plan.reached, plan.gain, plan.cost) == (True, 1, 1)
    after = plan.apply(P1)
    assert after.task("a").node_name == "n3"
    again = plan_moves(after, FreeNodes(count=1), config=FULLEST_FIRST)
    assert (again.steps, again.reached) == ((), True)


def test_p2_as_much_of_the_goal_is_reached_as_is_possible() -> None:
    plan = plan_moves(P1, FreeNodes(count=2), config=FULLEST_FIRST)
    assert (places(plan), plan.reached) == (["a: n1 to n3"], False)


def test_p3_jobs_that_are_exempt_stay() -> None:
    plan = plan_moves(P1, FreeNodes(count=1), config=FULLEST_FIRST, exempt=["default/a"])
    assert places(plan) == ["b: n2 to n3"]


def test_p5_a_step_costs_at_most_the_price() -> None:
    assert plan_moves(P1, FreeNodes(count=1), max_price=0).steps == ()
    assert plan_moves(P1, FreeNodes(count=1), max_price=1).gain == 1


def test_what_an_eviction_costs_is_what_a_move_costs() -> None:
    [task] = P1.job("default/a").tasks
    dear = evolve(P1.job("default/a"), tasks=[evolve(task, eviction_cost=7)])
    snapshot = evolve(P1, jobs=[dear, *P1.jobs[1:]])
    assert places(plan_moves(snapshot, FreeNodes(count=1), config=FULLEST_FIRST)) == ["b: n2 to n3"]
    by_size = plan_moves(
        snapshot,
        FreeNodes(count=1),
        config=FULLEST_FIRST,
        cost=lambda task: task.resreq.milli_cpu // 1000,
    )
    assert (places(by_size), by_size.cost) == (["a: n1 to n3"], 2)


def test_of_equal_cost_the_node_with_the_fewest_tasks_goes_first() -> None:
    snapshot = cluster(running("a", 1, "n1"), running("b", 1, "n1"), running("d", 4, "n2"), nodes=2)
    free = plan_moves(snapshot, FreeNodes(count=1), cost=lambda _: 0)
    assert places(free) == ["d: n2 to n1"]


def test_only_nodes_with_the_labels_count_and_an_empty_one_without_them_is_taken() -> None:
    nodes = [
        NodeInfo(name=name, allocatable=8 * CPU, labels=labels)
        for name, labels in (("n1", {"pool": "a"}), ("n2", {"pool": "a"}), ("n3", {}))
    ]
    jobs = [running("a", 5, "n1"), running("b", 5, "n2")]
    snapshot = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)
    plan = plan_moves(snapshot, FreeNodes(count=2, selector={"pool": "a"}))
    assert (places(plan), plan.reached) == (["a: n1 to n3"], False)
    assert plan_moves(snapshot, FreeNodes(count=1)).reached, "n3 is free"


def test_a_node_out_of_service_is_neither_free_nor_emptied_nor_filled() -> None:
    cordoned = [evolve(P1.nodes[0], unschedulable=True), *P1.nodes[1:]]
    snapshot = evolve(P1, nodes=cordoned)
    plan = plan_moves(snapshot, FreeNodes(count=1), config=FULLEST_FIRST)
    assert places(plan) == ["b: n2 to n3"]
    empty = evolve(snapshot, jobs=P1.jobs[1:])
    assert places(plan_moves(empty, FreeNodes(count=1), config=FULLEST_FIRST)) == ["b: n2 to n3"]


def test_the_largest_task_finds_its_place_first() -> None:
    jobs = [
        *(running("small", 1, "n1"), running("large", 4, "n1")),
        *(running("x", 4, "n2"), running("y", 7, "n3")),
    ]
    plan = plan_moves(
        cluster(*jobs), FreeNodes(count=1), config=FULLEST_FIRST, exempt=["default/x", "default/y"]
    )
    assert places(plan) == ["large: n1 to n2", "small: n1 to n3"]


@pytest.mark.parametrize("why", ["preemptible", "minimum", "critical", "leaving"])
def test_who_is_protected_stays_with_its_node(why: str) -> None:
    job = P1.job("default/a")
    [task] = job.tasks
    now = 0.0
    queue = Queue(name="q")
    match why:
        case "preemptible":
            job = evolve(job, preemptible=Preemptible.NEVER)
        case "minimum":
            now, queue = 105.0, evolve(queue, preempt_min_runtime=60.0)
            task = evolve(task, start_time=100.0)
        case "critical":
            task = evolve(task, priority_class_name="system-node-critical")
        case _:
            task = evolve(task, status=TaskStatus.RELEASING)
    snapshot = evolve(P1, jobs=[evolve(job, tasks=[task]), *P1.jobs[1:]], queues=[queue], now=now)
    plan = plan_moves(snapshot, FreeNodes(count=1), config=FULLEST_FIRST)
    assert places(plan) == ["b: n2 to n3"]
    if why == "minimum":
        later = plan_moves(evolve(snapshot, now=160.0), FreeNodes(count=1), config=FULLEST_FIRST)
        assert places(later) == ["a: n1 to n3"]


def test_the_priority_of_a_task_does_not_keep_it_from_moving() -> None:
    important = evolve(P1, jobs=[evolve(P1.jobs[0], priority=10**6), *P1.jobs[1:]])
    assert places(plan_moves(important, FreeNodes(count=1), config=FULLEST_FIRST)) == [
        "a: n1 to n3"
    ]


def test_no_place_is_taken_that_is_promised_or_still_held() -> None:
    promised = TaskInfo(
        uid="p", name="p", resreq=3 * CPU, status=TaskStatus.PIPELINED, node_name="n3"
    )
    leaving = TaskInfo(
        uid="l", name="l", resreq=4 * CPU, status=TaskStatus.RELEASING, node_name="n3"
    )
    jobs = [
        *(running("a", 2, "n1"), running("b", 3, "n2"), running("d", 4, "n3")),
        JobInfo(name="l", queue="q", min_available=0, tasks=[leaving]),
        JobInfo(name="p", queue="q", tasks=[promised]),
    ]
    plan = plan_moves(cluster(*jobs), FreeNodes(count=1), config=FULLEST_FIRST)
    assert places(plan) == ["a: n1 to n2"]


def test_tasks_of_no_job_keep_no_node_from_being_free() -> None:
    daemon = TaskInfo(uid="s", name="s", resreq=CPU, status=TaskStatus.RUNNING, node_name="n1")
    snapshot = evolve(P1, other_tasks=[daemon])
    assert places(plan_moves(snapshot, FreeNodes(count=1), config=FULLEST_FIRST)) == ["a: n1 to n3"]


def test_a_gang_of_which_one_task_moves_keeps_the_others_and_its_rack() -> None:
    nodes = [
        NodeInfo(name=f"n{number}", allocatable=8 * CPU, labels={"rack": rack})
        for number, rack in ((1, "r1"), (2, "r1"), (3, "r2"))
    ]
    gang = JobInfo(
        name="g",
        queue="q",
        min_available=2,
        topology=TopologyRequest(required="rack"),
        tasks=[
            TaskInfo(
                uid=f"g{at}", name=f"g{at}", resreq=2 * CPU,
                status=TaskStatus.RUNNING, node_name=f"n{at}",
            )
            for at in (1, 2)
        ],
    )  # fmt: skip
    snapshot = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=[gang, running("x", 5, "n3")])
    plan = plan_moves(snapshot, FreeNodes(count=1), config=racks_config("allocate"))
    assert places(plan) == ["g1: n1 to n2"]


# Room for a job


def room_in(snapshot: Snapshot, **more: Any) -> MovePlan:
    return plan_moves(snapshot, Room(job_uid="default/c"), config=FULLEST_FIRST, **more)


C1 = cluster(running("a", 2, "n1"), running("b", 2, "n2"), waiting("c", 8), nodes=2)


def test_p4_the_fewest_moves_make_room_for_a_job() -> None:
    plan = room_in(C1)
    assert (places(plan), plan.reached, plan.gain, plan.cost) == (["a: n1 to n2"], True, 1, 1)
    after = plan.apply(C1)
    assert room_in(after).steps == ()
    [bind] = schedule(after, config=FULLEST_FIRST).binds
    assert (bind.task_uid, bind.node_name) == ("c", "n1")
    assert str(plan).splitlines()[0] == "There is room for default/c after 1 move, at a cost of 1"


def test_shares_keep_nobody_where_he_is_as_a_move_takes_nothing_from_a_queue() -> None:
    """By default, where capacity lets no job replace what the share of its queue covers."""
    assert places(plan_moves(C1, Room(job_uid="default/c"))) == ["a: n1 to n2"]


def test_tasks_of_other_queues_move_too_and_those_of_exempt_jobs_do_not() -> None:
    jobs = [evolve(job, queue="x") for job in C1.jobs[:2]]
    snapshot = evolve(C1, jobs=[*jobs, C1.jobs[2]], queues=[Queue(name="q"), Queue(name="x")])
    assert places(room_in(snapshot)) == ["a: n1 to n2"]
    other = plan_moves(
        snapshot, Room(job_uid="default/c"), config=FULLEST_FIRST, exempt=["default/a"]
    )
    assert places(other) == ["b: n2 to n1"]
    nobody = plan_moves(
        snapshot, Room(job_uid="default/c"), config=FULLEST_FIRST, exempt=["default/a", "default/b"]
    )
    assert (nobody.steps, nobody.reached) == ((), False)
    assert str(nobody) == "No moves that make room for default/c were found"


def test_room_is_all_or_nothing() -> None:
    jobs = [*(running(f"s{n}", 1, "n1") for n in range(5)), waiting("c", 8)]
    nodes = [NodeInfo(name="n1", allocatable=8 * CPU), NodeInfo(name="n2", allocatable=5 * CPU)]
    snapshot = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)
    assert len(room_in(snapshot).moves) == 5
    assert room_in(snapshot, limit=5).reached
    assert room_in(snapshot, limit=4).steps == ()
    assert room_in(snapshot, max_price=4).steps == ()
    assert room_in(snapshot, max_price=5).cost == 5


def test_what_has_room_or_needs_none_moves_nobody() -> None:
    small = evolve(C1, jobs=[*C1.jobs[:2], waiting("c", 6)])
    for job in ("default/c", "default/a"):
        plan = plan_moves(small, Room(job_uid=job), config=FULLEST_FIRST)
        assert (plan.steps, plan.reached) == ((), True)
    assert str(room_in(small)) == ("There is room for default/c already")


def test_moves_make_room_for_a_gang_in_one_rack() -> None:
    """Scenario C11: of two racks, one is emptied for the gang."""
    nodes = [
        NodeInfo(name=f"n{number}", allocatable=8 * CPU, labels={"rack": f"r{(number + 1) // 2}"})
        for number in (1, 2, 3, 4)
    ]
    gang = JobInfo(
        name="g",
        queue="q",
        min_available=2,
        topology=TopologyRequest(required="rack"),
        tasks=[TaskInfo(uid=f"g{at}", name=f"g{at}", resreq=8 * CPU) for at in (1, 2)],
    )
    jobs = [running("a", 2, "n1"), running("b", 2, "n2"), running("d", 8, "n3"), gang]
    snapshot = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)
    config = racks_config("allocate")
    plan = plan_moves(snapshot, Room(job_uid="default/g"), config=config)
    assert (len(plan.moves), plan.reached) == (2, True)
    binds = schedule(plan.apply(snapshot), config=config).binds
    assert sorted(bind.node_name for bind in binds) in (["n1", "n2"], ["n3", "n4"])
    assert not plan_moves(snapshot, Room(job_uid="default/g"), config=config, limit=1).reached


# What a plan is


def test_a_task_that_has_moved_started_again_and_what_it_did_is_added() -> None:
    [task] = P1.job("default/a").tasks
    since = evolve(P1.job("default/a"), tasks=[evolve(task, start_time=10.0)])
    snapshot = evolve(P1, jobs=[since, *P1.jobs[1:]], now=25.0)
    after = plan_moves(snapshot, FreeNodes(count=1), config=FULLEST_FIRST).apply(snapshot).task("a")
    assert (after.start_time, after.attained_service) == (25.0, 15.0)


def test_a_plan_prints_as_a_table_and_is_written_as_json() -> None:
    plan = plan_moves(P1, FreeNodes(count=2), config=FULLEST_FIRST)
    assert str(plan).splitlines() == [
        "Fewer than 2 nodes are free: 1 more after 1 move, at a cost of 1, and no further",
        "step  task  from  to  cost of the step",
        "1     a     n1    n3  1",
    ]
    assert MovePlan.from_dict(plan.to_dict()) == plan
    assert str(plan_moves(P1, FreeNodes(count=0))) == "0 nodes are free already"
    with pytest.raises(FormatError, match="steps"):
        MovePlan.from_dict({**plan.to_dict(), "steps": 3})


def test_a_plan_of_another_snapshot_is_refused_and_all_that_is_wrong_told() -> None:
    moves = [
        PlannedMove(task_uid="a", from_node="n2", to_node="n3"),
        PlannedMove(task_uid="z", from_node="n2", to_node="n3"),
        PlannedMove(task_uid="b", from_node="n2", to_node="n9"),
    ]
    step = PlannedStep(moves=moves, gain=1, cost=3)
    plan = MovePlan(goal=FreeNodes(count=1), steps=[step], reached=True)
    other = "the plan is of another snapshot"
    with pytest.raises(ArgumentError) as caught:
        plan.apply(P1)
    assert [str(fault) for fault in caught.value.faults] == [
        f"steps[0].moves[0]: task 'a' is Running on 'n1', not Running on 'n2'; {other}",
        f"steps[0].moves[1]: there is no task 'z'; {other}",
        f"steps[0].moves[2]: there is no node 'n9'; {other}",
    ]


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        plan_moves(
            P1,
            FreeNodes(count=-1),
            limit=-2,
            max_price=-3,
            exempt=["default/aa"],
            cost=lambda task: {"a": -1, "b": 1.5, "d": 2}[task.uid],  # type: ignore[return-value]
        )
    assert [str(fault) for fault in caught.value.faults] == [
        "goal.count: expected 0 or more, got -1",
        "limit: expected 0 or more, or None, got -2",
        "max_price: expected 0 or more, or None, got -3",
        "exempt[0]: there is no job 'default/aa'; did you mean default/a?",
        "cost(task 'a'): expected an integer, 0 or more, got -1",
        "cost(task 'b'): expected an integer, 0 or more, got 1.5",
    ]


# Laws

some = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
RARE = ("unknown_queues", "overcommitted", "reservations", "crowded", "holds", "dependencies")
OFF = dict.fromkeys((*RARE, "endings"), False)
"""What seldom leaves anything to move."""


def world(*always: str) -> SearchStrategy[Snapshot]:
    return snapshots(
        min_nodes=4, max_nodes=5, min_jobs=2, max_jobs=4, max_tasks=3, always=always, **OFF
    )


@st.composite
def planned(draw: st.DrawFn) -> Planned:
    """Draw clusters on which a cycle has started what it could, and how they may be tidied up."""
    drawn = draw(st.one_of(map(world, ("topologies", "devices", "protection"))))
    config = draw(configs(actions=["allocate"], protection=True))
    filled = Cluster(drawn)
    filled.carry_out(Scheduler(config).schedule(drawn), at_once=True)
    snapshot, factor = filled.snapshot(), draw(st.sampled_from((2, 1, 3)))
    larger = [evolve(node, allocatable=factor * node.allocatable) for node in snapshot.nodes]
    snapshot = evolve(snapshot, nodes=larger)
    goal = FreeNodes(count=len(snapshot.nodes))
    return snapshot, config, plan_moves(snapshot, goal, config=config)


def before_each_step(snapshot: Snapshot, plan: MovePlan) -> Iterator[tuple[Snapshot, PlannedStep]]:
    for step in plan.steps:
        yield snapshot, step
        snapshot = alone(step, plan.goal).apply(snapshot)


def alone(step: PlannedStep, goal: FreeNodes | Room) -> MovePlan:
    return MovePlan(goal=goal, steps=[step], reached=False)


def occupied(snapshot: Snapshot) -> set[str | None]:
    return {task.node_name for job in snapshot.jobs for task in job.tasks}


def valid_moves(
    snapshot: Snapshot, config: SchedulerConfig, plan: MovePlan
) -> Iterator[PlannedMove]:
    """Yield moves, each after it was checked as a cycle that starts the task there."""
    only = evolve(config, actions=())
    for move in plan.moves:
        task = snapshot.task(move.task_uid)
        assert (task.status, task.node_name) == (TaskStatus.RUNNING, move.from_node)
        off = Cluster(snapshot)
        off.apply(TaskGone(move.task_uid))
        without = off.snapshot()
        idle = Scheduler(only).schedule(without)
        bind = Bind(
            task_uid=move.task_uid,
            node_name=move.to_node,
            is_backfill=task.is_backfill,
            devices=move.devices,
            choices=move.choices,
        )
        outcome = TaskOutcome(
            status=TaskStatus.BINDING,
            node_name=move.to_node,
            is_backfill=task.is_backfill,
            devices=move.devices,
            choices=move.choices,
        )
        cycle = evolve(
            idle, binds=[*idle.binds, bind], tasks={**idle.tasks, move.task_uid: outcome}
        )
        check_cycle(
            without,
            cycle,
            only,
            invariants=["capacity", "starts", "placements", "domains", "devices", "reservations"],
        )
        yield move
        step = PlannedStep(moves=[move], gain=0, cost=0)
        snapshot = alone(step, plan.goal).apply(snapshot)


@some
@given(planned())
def test_each_move_is_valid_after_those_before_it(drawn: Planned) -> None:
    """P1: as a cycle that starts the task there would be, without the task on its former node."""
    snapshot, config, plan = drawn
    assert [*valid_moves(snapshot, config, plan)] == [*plan.moves]


@st.composite
def rooms(draw: st.DrawFn) -> tuple[Snapshot, SchedulerConfig, str]:
    """Draw clusters with a job that waits although there may be room if others move."""
    snapshot, config, _ = draw(planned())
    used = {task.node_name for job in snapshot.jobs for task in job.tasks}
    sizes = [node.allocatable.milli_cpu for node in snapshot.nodes if node.name in used]
    count = draw(st.integers(1, 2))
    # More than any free node has, and all of one that is in use.
    smaller = [
        evolve(node, allocatable=Resource(milli_cpu=1, memory=1)) if node.name not in used else node
        for node in snapshot.nodes
    ]
    snapshot = evolve(snapshot, nodes=smaller)
    request = Resource(milli_cpu=draw(st.sampled_from(sizes or [1000])))
    tasks = [TaskInfo(uid=f"w{n}", name=f"w{n}", resreq=request) for n in range(count)]
    queue = snapshot.jobs[0].queue
    job = JobInfo(name="wants", queue=queue, min_available=count, priority=9, tasks=tasks)
    return evolve(snapshot, jobs=[*snapshot.jobs, job]), config, job.uid


@some
@given(rooms())
def test_moves_for_a_job_are_valid_one_by_one_and_make_room_for_it(
    drawn: tuple[Snapshot, SchedulerConfig, str],
) -> None:
    """P1 to P3: a plan for the result is empty, and the goal is reached there."""
    snapshot, config, uid = drawn
    plan = plan_moves(snapshot, Room(job_uid=uid), config=config)
    for _ in valid_moves(snapshot, config, plan):
        pass
    again = plan_moves(plan.apply(snapshot), plan.goal, config=config)
    assert (again.steps, again.reached) == ((), plan.reached)
    assert all(step.gain == 1 for step in plan.steps)
    if plan.steps:
        fewer = plan_moves(snapshot, plan.goal, config=config, limit=len(plan.moves) - 1)
        assert fewer.steps == ()


@some
@given(planned())
def test_after_a_step_a_node_more_is_free_and_no_free_one_is_used(drawn: Planned) -> None:
    """P2."""
    snapshot, _, plan = drawn
    for before, step in before_each_step(snapshot, plan):
        after = alone(step, plan.goal).apply(before)
        [freed] = {move.from_node for move in step.moves}
        assert occupied(after) == occupied(before) - {freed}


@some
@given(planned())
def test_what_is_protected_does_not_move(drawn: Planned) -> None:
    snapshot, config, plan = drawn
    plugins = {plugin.name for tier in config.tiers for plugin in tier.plugins}
    for move in plan.moves:
        task = snapshot.task(move.task_uid)
        [job] = [job for job in snapshot.jobs if task in job.tasks]
        if "protection" in plugins:
            assert job.preemptible is not Preemptible.NEVER
        if "conformance" in plugins:
            assert task.namespace != "kube-system"


@some
@given(planned())
def test_a_plan_for_the_result_of_a_plan_is_empty(drawn: Planned) -> None:
    """P3."""
    snapshot, config, plan = drawn
    again = plan_moves(plan.apply(snapshot), plan.goal, config=config)
    assert (again.steps, again.reached) == ((), plan.reached)


@some
@given(planned())
def test_a_step_depends_on_the_state_before_it_alone(drawn: Planned) -> None:
    snapshot, config, plan = drawn
    for number, (before, _) in enumerate(before_each_step(snapshot, plan)):
        rest = plan_moves(before, plan.goal, config=config)
        assert rest.steps == plan.steps[number:]


@some
@given(planned())
def test_a_plan_with_a_smaller_limit_is_the_beginning_of_that_with_a_larger_one(
    drawn: Planned,
) -> None:
    """P4: and no step is made in part."""
    snapshot, config, plan = drawn
    ends = list(accumulate(len(step.moves) for step in plan.steps))
    for limit in range(len(plan.moves) + 1):
        fitting = sum(end <= limit for end in ends)
        limited = plan_moves(snapshot, plan.goal, config=config, limit=limit)
        assert limited.steps == plan.steps[:fitting]


@some
@given(planned(), st.integers(0, 9))
def test_costs_are_as_given_and_no_step_costs_more_than_the_price(
    drawn: Planned, most: int
) -> None:
    """P5."""
    snapshot, config, plan = drawn

    def cost(task: TaskInfo) -> int:
        return 1 + len(task.uid) % 3 + task.resreq.milli_cpu // 500

    dear = plan_moves(snapshot, plan.goal, config=config, cost=cost, max_price=most)
    for step in dear.steps:
        assert step.cost == sum(cost(snapshot.task(move.task_uid)) for move in step.moves)
        assert step.cost <= most * step.gain
    assert dear.cost == sum(step.cost for step in dear.steps)


@some
@given(planned())
def test_the_order_in_which_a_cluster_is_given_does_not_matter(drawn: Planned) -> None:
    snapshot, config, plan = drawn

    def turned(items: Sequence[object]) -> list[object]:
        return [*reversed(items)]

    other = Snapshot(
        nodes=turned(snapshot.nodes),  # type: ignore[arg-type]
        queues=turned(snapshot.queues),  # type: ignore[arg-type]
        jobs=turned([evolve(job, tasks=turned(job.tasks)) for job in snapshot.jobs]),  # type: ignore[arg-type]
        other_tasks=turned(snapshot.other_tasks),  # type: ignore[arg-type]
        topologies=snapshot.topologies,
        devices=snapshot.devices,
        budgets=snapshot.budgets,
        evictions=snapshot.evictions,
        now=snapshot.now,
    )
    assert plan_moves(other, plan.goal, config=config) == plan


@settings(some, max_examples=30)
@given(planned())
def test_a_plan_is_the_same_after_a_round_through_json(drawn: Planned) -> None:
    _, _, plan = drawn
    assert MovePlan.from_dict(plan.to_dict()) == plan
