"""An explanation tells the truth: what it says would help was seen to help."""

from __future__ import annotations

import json
from math import log

import pytest
from attrs import evolve
from hypothesis import given, settings

from batchsched import (
    ConfigError,
    Dependency,
    Hold,
    HoldKind,
    HostPort,
    JobEvent,
    JobInfo,
    NodeInfo,
    PluginError,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    Taint,
    TaintEffect,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
    Unfit,
    UnfitReason,
    UnknownNameError,
    WhyPending,
    default_registry,
    explain,
    schedule,
    what_if,
)
from batchsched.live import NodeAdded, TaskRemoved, TaskSucceeded
from batchsched.plugin import ExtensionPoints, Predicate, SessionView
from batchsched.testing import configs, snapshots
from batchsched.tools import Explanation, JobStatus, Released, WhatIf, starts

CPU = Resource(milli_cpu=1000)


def running(uid: str, node: str, size: int = 1, **more: object) -> TaskInfo:
    return TaskInfo(
        uid=uid,
        name=uid,
        resreq=size * CPU,
        status=TaskStatus.RUNNING,
        node_name=node,
        **more,  # type: ignore[arg-type]
    )


def waiting(name: str, queue: str = "q", count: int = 1, size: int = 1, **more: object) -> JobInfo:
    tasks = [
        TaskInfo(uid=f"{name}-{i}", name=f"{name}-{i}", resreq=size * CPU) for i in range(count)
    ]
    return JobInfo(name=name, queue=queue, tasks=tasks, **more)  # type: ignore[arg-type]


def explained(snapshot: Snapshot, uid: str, config: SchedulerConfig | None = None) -> Explanation:
    return explain(snapshot, schedule(snapshot, config=config), uid, config=config)


def has_its_minimum(job: JobInfo, after: WhatIf) -> bool:
    """Whether as many tasks as it needs, in all, are ready after a cycle."""
    (changed,) = [each for each in after.snapshot.jobs if each.uid == job.uid]
    outcomes = after.result.tasks
    statuses = [outcomes[t.uid].status if t.uid in outcomes else t.status for t in changed.tasks]
    return sum(status.ready for status in statuses) >= changed.min_available


@given(snapshots(holds=True), configs())
@settings(max_examples=25)
def test_each_change_that_is_shown_starts_the_job_in_what_if(
    snapshot: Snapshot, config: SchedulerConfig
) -> None:
    result = Scheduler(config).schedule(snapshot)
    largest: dict[str, float] = {}
    for node in snapshot.nodes:
        for dimension, amount in node.allocatable.dimensions():
            largest[dimension] = max(largest.get(dimension, 0), amount)
    for job in snapshot.jobs[:3]:
        explanation = explain(snapshot, result, job.uid, config=config)
        assert len(explanation.would_start) <= explanation.tried
        for helpful in explanation.would_start:
            after = what_if(snapshot, *helpful.changes, config=config)
            assert starts(snapshot, job.uid)(after.result), helpful.text
            assert has_its_minimum(job, after), helpful.text
            # No node is given more than the largest node has.
            for node in after.snapshot.nodes:
                for dimension, amount in node.allocatable.dimensions():
                    assert amount <= largest.get(dimension, 0), helpful.text
        assert json.dumps(explanation.to_dict())
        lines = str(explanation).splitlines()
        assert len(lines) <= 60
        if "Nodes" in lines:
            assert max(map(len, lines[lines.index("Nodes") :])) <= 100


FULL = Snapshot(
    nodes=[
        NodeInfo(name="n1", allocatable=4 * CPU),
        NodeInfo(name="n2", allocatable=2 * CPU),
        NodeInfo(
            name="n3",
            allocatable=9 * CPU,
            taints=[Taint(key="broken", effect=TaintEffect.NO_SCHEDULE)],
        ),
    ],
    queues=[Queue(name="q"), Queue(name="other")],
    jobs=[
        JobInfo(
            name="r",
            queue="q",
            estimate=100.0,
            tasks=[running("r1", "n1", 3, start_time=50.0), running("r2", "n2", 2)],
        ),
        waiting("first", size=3, priority=2),
        waiting("job", size=3, creation_time=5.0),
    ],
    now=60.0,
)


def test_it_tells_the_place_in_the_order_and_who_is_before() -> None:
    explanation = explained(FULL, "default/job")
    assert (explanation.position, explanation.waiting_jobs) == (2, 2)
    assert explanation.before_it == ("default/first",)
    assert explanation.decided_by == "priority"
    assert explanation.task == "job-0"
    assert explanation.summary == (
        "default/job waits, no room: none of the 3 nodes can take it now: "
        "2 lack free cpu, 1 has a taint that it does not tolerate"
    )


def test_it_tells_what_the_nearest_nodes_lack_and_who_holds_it_until_when() -> None:
    explanation = explained(FULL, "job-0")
    # n2 is too small even when empty, and n3 does not take it.
    (near,) = explanation.nearest
    assert (near.name, near.missing, near.refusal) == ("n1", 2 * CPU, "")
    (holder,) = near.holders
    assert (holder.task, holder.how, holder.until) == ("r1", "runs", 150.0)
    assert explanation.unfit == {
        "lack free cpu": 2,
        "have the taint broken:NoSchedule": 1,
    }
    assert explanation.available == 0
    told = "task job-0 fits on 0 of 3 nodes now\n  2 of 3 nodes lack free cpu, 1 has the taint"
    assert told in str(explanation)


def test_a_node_counts_once_under_everything_that_keeps_the_task_from_it() -> None:
    """It is seen that no node has the label although some of them are cordoned."""
    nodes = [
        NodeInfo(name=f"n{i:03}", allocatable=4 * CPU, labels={"pool": "a"}, unschedulable=i < 2)
        for i in range(140)
    ]
    (alone,) = waiting("job").tasks
    task = evolve(alone, node_selector={"pool": "b"})
    snapshot = Snapshot(
        nodes=nodes, queues=[Queue(name="q")], jobs=[JobInfo(name="job", queue="q", tasks=[task])]
    )
    explanation = explained(snapshot, "default/job")
    assert sum(explanation.unfit.values()) == len(nodes)
    assert "138 of 140 nodes lack the label pool=b, 2 are cordoned and lack" in str(explanation)
    assert explanation.nearest == ()


def test_a_node_with_a_port_in_use_is_near_and_one_without_the_label_is_not() -> None:
    port = HostPort(port=80)
    holder = running("r1", "n1", host_ports=[port])
    (alone,) = waiting("job").tasks
    task = evolve(alone, host_ports=[port], node_selector={"pool": "b"})
    snapshot = Snapshot(
        nodes=[
            NodeInfo(name="n1", allocatable=4 * CPU, labels={"pool": "b"}),
            NodeInfo(name="n2", allocatable=4 * CPU),
        ],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name="r", queue="q", tasks=[holder]),
            JobInfo(name="job", queue="q", tasks=[task]),
        ],
    )
    explanation = explained(snapshot, "default/job")
    (near,) = explanation.nearest
    assert (near.name, near.refusal, near.missing) == ("n1", "has its ports in use", Resource())
    assert explanation.unfit == {"have its ports in use": 1, "lack the label pool=b": 1}


def test_it_tells_how_its_queue_stands() -> None:
    queue = explained(FULL, "default/job").queue
    assert (queue.name, queue.allocated, queue.share) == ("q", 5 * CPU, 5 / 15)
    assert queue.deserved == 11 * CPU
    assert not queue.is_overused


def test_nodes_are_added_and_jobs_end_but_no_node_grows() -> None:
    alone = evolve(FULL, jobs=[job for job in FULL.jobs if job.name != "first"])
    texts = [change.text for change in explained(alone, "default/job").would_start]
    assert texts == [
        "1 more node like n1",
        "end job default/r",
    ]


def test_it_finds_that_a_gang_could_be_smaller() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=3 * CPU)],
        queues=[Queue(name="q")],
        jobs=[waiting("gang", count=5, min_available=5)],
    )
    explanation = explained(snapshot, "default/gang")
    assert (explanation.lacking, explanation.at_once) == (5, 3)
    texts = [change.text for change in explanation.would_start]
    assert texts == ["1 more node like n1", "job default/gang: minimum 3 instead of 5"]


def test_it_finds_that_a_higher_priority_or_weight_would_do() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[waiting("first", priority=3), waiting("job")],
    )
    texts = [change.text for change in explained(snapshot, "default/job").would_start]
    told = "job default/job: priority 4 instead of 0, above that of job default/first"
    assert texts == ["1 more node like n1", told]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=6 * CPU)],
        queues=[Queue(name="a", weight=2), Queue(name="b", weight=4)],
        jobs=[waiting("a", "a", 9), waiting("b", "b", 9)],
    )
    explanation = explain(snapshot, schedule(snapshot), "a-8", try_changes=False)
    assert explanation.would_start == ()
    assert explanation.tried == 0


def test_it_tells_who_was_considered_for_eviction_and_why_not() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=2 * CPU)],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(
                name="r",
                queue="q",
                min_available=2,
                priority=9,
                tasks=[running("r1", "n1"), running("r2", "n1")],
            ),
            waiting("job"),
        ],
    )
    config = SchedulerConfig.from_mapping(
        {
            "actions": "allocate, preempt",
            "tiers": [{"plugins": ["priority", "conformance", "predicates"]}],
        }
    )
    explanation = explained(snapshot, "default/job", config)
    assert explanation.reason is not None
    (report,) = explanation.reason.evictions
    assert report.out == {"higher priority": 2}
    assert report.text in str(explanation)


def with_capacity(**arguments: object) -> SchedulerConfig:
    gang = {"name": "gang", "arguments": {"atMinimum": "protect"}}
    capacity = {"name": "capacity", "arguments": arguments}
    plugins: list[object] = ["priority", "conformance", "predicates", gang, capacity]
    return SchedulerConfig.from_mapping(
        {"actions": "reclaim, allocate", "tiers": [{"plugins": plugins}]}
    )


def not_claimed(snapshot: Snapshot, **arguments: object) -> tuple[dict[str, int], str]:
    """How many tasks the job could not claim, by reason, and why its queue may claim nothing."""
    reason = explained(snapshot, "default/job", with_capacity(**arguments)).reason
    assert reason is not None
    out = {why: count for report in reason.evictions for why, count in report.out.items()}
    return out, "" if reason.refusal is None else reason.refusal.text


def of_queue(queue: str, count: int, size: int = 1, minimum: int = 0) -> JobInfo:
    return JobInfo(
        name=f"r-{queue}",
        queue=queue,
        min_available=minimum,
        tasks=[running(f"{queue}-{i}", "n1", size) for i in range(count)],
    )


def test_it_tells_why_tasks_are_not_claimed() -> None:
    queues = [Queue(name="a"), Queue(name="b")]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=4 * CPU)],
        queues=queues,
        jobs=[of_queue("b", 4, minimum=4), waiting("job", "a", count=3)],
    )
    # What needs all of its tasks is on loan as a whole, and gang protects it.
    assert not_claimed(snapshot) == ({"protected by gang (atMinimum: protect)": 4}, "")
    snapshot = evolve(snapshot, jobs=[of_queue("a", 2), of_queue("b", 2), waiting("job", "a")])
    why = "queue 'a' would hold 3 cpu, 1 more than its share of 2"
    assert not_claimed(snapshot) == ({}, why)
    # Two that are equally full have nothing to level.
    assert not_claimed(snapshot, level=True) == (
        {"covered by the fair share of queue 'b'": 2},
        "",
    )


@pytest.mark.parametrize(("order", "place"), [("queue", 2), ("graded", 1)])
def test_it_tells_its_place_where_jobs_within_their_shares_go_first(order: str, place: int) -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=4 * CPU)],
        queues=[Queue(name="a"), Queue(name="b")],
        jobs=[
            of_queue("b", 4, minimum=4),
            waiting("big", "a", size=3),
            waiting("job", "a", size=2),
        ],
    )
    explanation = explained(snapshot, "default/job", with_capacity(order=order))
    assert (explanation.position, explanation.waiting_jobs) == (place, 2)
    if order == "queue":
        assert explanation.before_it == ("default/big",)
        return
    explanation = explained(snapshot, "default/big", with_capacity(order=order))
    assert (explanation.before_it, explanation.decided_by) == (("default/job",), "capacity")


def test_a_job_of_an_unknown_queue_is_explained_too() -> None:
    snapshot = Snapshot(jobs=[waiting("job", "nowhere")])
    explanation = explained(snapshot, "default/job")
    assert not explanation.queue.is_known
    assert explanation.position is None
    assert explanation.summary == "default/job waits, no queue: queue nowhere does not exist"
    assert "queue nowhere does not exist" in str(explanation)


@pytest.mark.parametrize("queue", ["unknown", "inner"])
def test_a_job_whose_queue_takes_none_is_explained_too(queue: str) -> None:
    """Also where some of its tasks are enough, so that a limit may leave others."""
    job = evolve(waiting("j", queue=queue, count=3), min_available=1)
    queues = [Queue(name="inner"), Queue(name="leaf", parent="inner")]
    snapshot = Snapshot(nodes=[NodeInfo(name="n1")], queues=queues, jobs=[job])
    found = explained(snapshot, "default/j", with_capacity())
    assert found.standing.state is JobStatus.NO_QUEUE


def test_a_job_that_starts_needs_nothing() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[waiting("job")],
    )
    explanation = explained(snapshot, "default/job")
    assert explanation.task is None
    assert explanation.summary == "default/job starts now: 1 task on n1"
    assert explanation.tried == 0


def test_what_is_no_snapshot_or_result_is_told() -> None:
    with pytest.raises(ConfigError, match="result: expected a CycleResult, got 5"):
        explain(FULL, 5, "default/job")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="snapshot: expected a Snapshot, got 5"):
        explain(5, schedule(FULL), "default/job")  # type: ignore[arg-type]


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(UnknownNameError, match=r"has no job 'nobody'$"):
        explained(FULL, "nobody")
    (job, *_) = FULL.jobs
    for near in (job.name, f"{job.uid}s"):
        with pytest.raises(UnknownNameError, match=f"'{near}'; did you mean '{job.uid}'?"):
            explained(FULL, near)


def texts_for(snapshot: Snapshot, uid: str, config: SchedulerConfig | None = None) -> list[str]:
    return [change.text for change in explained(snapshot, uid, config).would_start]


def test_the_smallest_priority_that_is_enough_is_found() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=2 * CPU)],
        queues=[Queue(name="q")],
        jobs=[*(waiting(f"p{i}", priority=i) for i in (1, 3, 5, 7)), waiting("job")],
    )
    assert texts_for(snapshot, "default/job") == [
        "2 more nodes like n1",
        "job default/job: priority 6 instead of 0, above that of job default/p5",
    ]


def test_the_smallest_weight_that_is_enough_is_found() -> None:
    """Of 12 cpus a gets 4 with weight 1 of 3, 7.2 with 3 of 5, and the 8 that it asks for with 4.

    Below that b comes first: with its next task it would exceed its share by less.
    """
    jobs = [
        JobInfo(name="runs", queue="a", tasks=[running(f"r{i}", "n1", 2) for i in range(3)]),
        waiting("job", "a", size=2),
        waiting("b", "b", count=9, priority=1),
    ]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=12 * CPU)],
        queues=[Queue(name="a", weight=1), Queue(name="b", weight=2)],
        jobs=jobs,
    )
    assert texts_for(snapshot, "default/job")[-1] == "queue a: weight 4 instead of 1"
    twice = evolve(snapshot, queues=[Queue(name="a", weight=2), Queue(name="b", weight=2)])
    assert texts_for(twice, "default/job")[-1] == "queue a: weight 4 instead of 2"


def test_the_largest_gang_that_would_start_is_found_though_others_come_first() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=5 * CPU)],
        queues=[Queue(name="q")],
        jobs=[
            waiting("first", count=2, min_available=2, priority=1),
            waiting("gang", count=6, min_available=6),
        ],
    )
    assert texts_for(snapshot, "default/gang") == [
        "1 more node like n1",
        "job default/gang: minimum 3 instead of 6",
    ]


def test_the_smallest_job_that_leaves_room_is_found_and_ends_as_a_whole() -> None:
    nodes = [NodeInfo(name=f"n{i}", allocatable=size * CPU) for i, size in ((1, 4), (2, 4), (3, 9))]
    jobs = [
        *(JobInfo(name=f"s{i}", queue="q", tasks=[running(f"s{i}", "n1")]) for i in range(4)),
        JobInfo(name="middle", queue="q", tasks=[running("m1", "n2", 2), running("m2", "n2", 2)]),
        JobInfo(name="large", queue="q", tasks=[running("l", "n3", 9)]),
        waiting("job", size=3),
    ]
    snapshot = Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)
    explanation = explained(snapshot, "default/job")
    (end,) = [each for each in explanation.would_start if each.text.startswith("end")]
    assert end.text == "end job default/middle"
    assert end.changes == (TaskSucceeded("m1"), TaskSucceeded("m2"))


def test_shares_and_limits_of_the_plugin_capacity_are_told() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=10 * CPU)],
        queues=[
            Queue(name="research", limit=ResourceLimit(milli_cpu=4000)),
            Queue(name="vision", parent="research", guarantee=2 * CPU),
            Queue(name="other"),
        ],
        jobs=[
            JobInfo(name="r", queue="vision", tasks=[running(f"r{i}", "n1", 2) for i in range(2)]),
            waiting("job", "vision"),
        ],
    )
    config = SchedulerConfig.from_mapping(
        {"tiers": [{"plugins": ["gang", "predicates", "capacity"]}]}
    )
    explanation = explained(snapshot, "default/job", config)
    queue = explanation.queue
    assert (queue.allocated, queue.guarantee) == (4 * CPU, 2 * CPU)
    assert queue.deserved == 4 * CPU
    (above,) = queue.above
    assert (above.name, above.limit) == ("research", ResourceLimit(milli_cpu=4000))
    printed = str(explanation)
    assert "part of queue research holds 4 cpu (40.0%)" in printed
    assert "may hold at most 4 cpu" in printed
    own, part = explanation.to_dict()["queue"]  # type: ignore[misc]
    assert (own["name"], part["limit"]) == ("vision", {"cpu": 4000})  # type: ignore[index, call-overload]


def test_what_would_be_enough_if_nobody_were_evicted_is_not_told_unless_it_is_enough() -> None:
    """Reclaim gives one of two cpus to the queue that has nothing, before allocate begins."""
    jobs = [
        waiting("a", "q"),
        waiting("b", "q"),
        JobInfo(
            name="loan",
            queue="other",
            tasks=[
                running("runs", "n1", is_backfill=True),
                TaskInfo(uid="more", name="more", resreq=CPU, is_backfill=True),
            ],
        ),
    ]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q"), Queue(name="other")],
        jobs=jobs,
    )
    plugins = [{"name": "gang", "arguments": {"atMinimum": "whole-job"}}, "predicates", "capacity"]
    for actions, enough in (
        ("allocate", "1 more node"),
        ("allocate, reclaim", "1 more node"),
        ("reclaim, allocate", "3 more nodes"),
    ):
        config = SchedulerConfig.from_mapping({"actions": actions, "tiers": [{"plugins": plugins}]})
        assert texts_for(snapshot, "default/loan", config)[0] == f"{enough} like n1"


def test_a_place_that_a_later_action_would_take_back_is_not_advised() -> None:
    """One more node of two cpus: allocate gives one to the job, and preempt both to the gang."""
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=2 * CPU)],
        queues=[Queue(name="q")],
        jobs=[
            JobInfo(name="low", queue="q", tasks=[running("low", "n1")]),
            JobInfo(name="high", queue="q", priority=100, tasks=[running("high", "n1")]),
            waiting("gang", count=3, min_available=3, priority=9),
            waiting("job"),
        ],
    )
    gang = {"name": "gang", "enablePreemptable": False}
    tiers = [{"plugins": ["priority", gang]}, {"plugins": ["predicates", "nodeorder"]}]
    config = SchedulerConfig.from_mapping({"actions": "allocate, preempt", "tiers": tiers})
    advised = explained(snapshot, "default/job", config).would_start
    for each in advised:
        after = what_if(snapshot, *each.changes, config=config)
        assert starts(snapshot, "default/job")(after.result), each.text
    assert advised[0].text == "2 more nodes like n1"


def test_a_configuration_that_only_evicts_is_tried_as_it_is() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[JobInfo(name="r", queue="q", tasks=[running("r1", "n1")]), waiting("job")],
    )
    config = SchedulerConfig.from_mapping(
        {"actions": "preempt", "tiers": [{"plugins": ["gang", "predicates"]}]}
    )
    assert texts_for(snapshot, "default/job", config) == [
        "1 more node like n1",
        "end job default/r",
    ]


def roles(size: int, **more: object) -> Snapshot:
    tasks = [
        TaskInfo(uid=f"{group}-{i}", name=f"{group}-{i}", group=group, resreq=CPU)
        for group, count in (("driver", 1), ("worker", 5))
        for i in range(count)
    ]
    job = JobInfo(
        name="spark",
        queue="q",
        groups=[TaskGroup("driver", min=1), TaskGroup("worker", min=2)],
        tasks=tasks,
        **more,  # type: ignore[arg-type]
    )
    return Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=size * CPU)], queues=[Queue(name="q")], jobs=[job]
    )


def test_groups_that_must_start_together_are_told() -> None:
    explanation = explained(roles(2), "default/spark")
    assert [(g.group, g.has, g.needs) for g in explanation.groups] == [
        ("driver", 0, 1),
        ("worker", 0, 2),
    ]
    assert "group worker has 0 of 2 tasks that it needs" in str(explanation)
    assert "if it were first, 2 of 3 more would fit now" in str(explanation)
    assert [change.text for change in explanation.would_start] == ["1 more node like n1"]


def test_what_would_let_more_tasks_of_a_job_start_that_starts_is_told() -> None:
    assert texts_for(roles(4), "default/spark") == ["1 more node like n1"]
    assert texts_for(roles(6, max_available=4), "default/spark") == [
        "job default/spark: maximum 5 instead of 4"
    ]


def test_of_a_task_that_is_asked_about_it_is_told_what_lets_that_one_start() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU)],
        queues=[Queue(name="q")],
        jobs=[waiting("job", count=3)],
    )
    assert texts_for(snapshot, "default/job") == ["1 more node like n1"]
    assert texts_for(snapshot, "job-2") == ["2 more nodes like n1"]


CAPACITY = SchedulerConfig.from_mapping({"actions": "reclaim, allocate"})


def of_queues(*queues: Queue, jobs: list[JobInfo], size: int = 12) -> Snapshot:
    return Snapshot(nodes=[NodeInfo(name="n1", allocatable=size * CPU)], queues=queues, jobs=jobs)


def up_to(count: int) -> ResourceLimit:
    return ResourceLimit(milli_cpu=1000 * count)


def test_a_gang_beyond_the_limit_of_its_queue_does_not_fit_wherever_it_stands() -> None:
    snapshot = of_queues(
        Queue(name="q", limit=up_to(3)), jobs=[waiting("job", count=5, min_available=4)]
    )
    explanation = explained(snapshot, "default/job", CAPACITY)
    assert explanation.why is WhyPending.QUEUE_LIMIT
    assert explanation.to_dict()["why"] == "QueueLimit"
    assert explanation.at_once == 3
    told = str(explanation)
    assert "if it were first, 3 of 4 more would fit now" in told
    assert "as far as nodes go, task job-0 fits on 1 of 1 nodes now" in told
    assert "queue q holds nothing (0.0%), fair share 3 cpu, may hold at most 3 cpu" in told
    assert [change.text for change in explanation.would_start] == [
        "job default/job: minimum 3 instead of 4",
        "queue q: limit 4 cpu instead of 3 cpu",
    ]


def test_the_smallest_limit_that_is_enough_is_found_on_any_level() -> None:
    """Eight of twelve jobs start; one more comes before the tenth."""
    queues = [Queue(name="p", limit=up_to(8)), Queue(name="q", parent="p", limit=up_to(11))]
    snapshot = of_queues(*queues, jobs=[waiting(f"j{i:02}") for i in range(12)])
    assert texts_for(snapshot, "default/j09", CAPACITY) == [
        "job default/j09: priority 1 instead of 0, above that of job default/j08",
        "queue p: limit 10 cpu instead of 8 cpu",
    ]


def test_a_limit_is_enough_beside_what_would_start_behind_the_job() -> None:
    """A job of 0.1 cpu starts under a limit of 0.5; under one of 1 the job before it does."""
    small = TaskInfo(uid="small", name="small", resreq=Resource(milli_cpu=100))
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=4 * CPU)],
        queues=[Queue(name="q", limit=ResourceLimit(milli_cpu=500))],
        jobs=[waiting("job"), JobInfo(name="small", queue="q", creation_time=9.0, tasks=[small])],
    )
    config = SchedulerConfig.from_mapping(
        {"tiers": [{"plugins": ["gang", "predicates", "capacity"]}]}
    )
    texts = texts_for(snapshot, "default/job", config)
    assert texts == ["queue q: limit 1 cpu instead of 500m cpu"]


@pytest.mark.parametrize("state", [QueueStatus.CLOSED, QueueStatus.DRAINING])
def test_a_queue_that_is_not_open_is_told_and_opened_in_a_trial(state: QueueStatus) -> None:
    queues = [Queue(name="p", state=state), Queue(name="q", parent="p")]
    explanation = explained(of_queues(*queues, jobs=[waiting("job")]), "default/job", CAPACITY)
    told = str(explanation)
    assert "0 of 1 tasks that must start together are ready\n" in told
    assert "\nNodes" not in told
    assert [change.text for change in explanation.would_start] == ["release: queue p is opened"]
    assert explanation.once_released == "once released, it would start on n1"


@pytest.mark.parametrize("plugin", ["capacity", "proportion"])
def test_an_inner_queue_is_known_and_its_leaves_are_told(plugin: str) -> None:
    plugins = ["gang", "predicates", plugin]
    config = SchedulerConfig.from_mapping({"actions": "allocate", "tiers": [{"plugins": plugins}]})
    queues = [Queue(name="p"), Queue(name="q", parent="p"), Queue(name="r", parent="q")]
    queues += [Queue(name=f"leaf{i}", parent="p", limit=up_to(0)) for i in range(2)]
    explanation = explained(of_queues(*queues, jobs=[waiting("job", "p")]), "default/job", config)
    assert explanation.queue.is_known
    assert explanation.queue.leaves == ("leaf0", "leaf1", "r")
    told = str(explanation)
    assert "does not exist" not in told
    assert "queue p holds nothing" in told
    assert "jobs may name the leaf queues below it: leaf0, leaf1, r" in told
    assert "if it were first" not in told
    assert "job default/job: queue r instead of p" in [c.text for c in explanation.would_start]


def test_of_a_job_at_its_maximum_it_is_not_told_what_would_fit() -> None:
    snapshot = of_queues(Queue(name="q"), jobs=[waiting("job", count=5, max_available=2)])
    explanation = explained(snapshot, "job-4", CAPACITY)
    assert explanation.why is WhyPending.AT_MAXIMUM
    told = str(explanation)
    assert "if it were first" not in told
    assert "as far as nodes go, task job-4 fits on" in told


def test_what_a_queue_has_on_loan_is_told_of_what_it_holds() -> None:
    jobs = [
        JobInfo(name="r", queue="q", tasks=[running(f"r{i}", "n1") for i in range(3)]),
        waiting("job"),
    ]
    snapshot = of_queues(Queue(name="q", weight=0), jobs=jobs, size=3)
    told = str(explained(snapshot, "default/job", CAPACITY))
    assert "queue q holds 3 cpu (100.0%), of which 3 cpu is on loan, fair share nothing" in told


# What somebody could do


GATE = Hold(HoldKind.GATE, "example.com/license")


def of_sizes(*sizes: int, jobs: list[JobInfo], **more: object) -> Snapshot:
    nodes = [
        NodeInfo(name=f"n{i}", allocatable=size * CPU, **more)  # type: ignore[arg-type]
        for i, size in enumerate(sizes)
    ]
    return Snapshot(nodes=nodes, queues=[Queue(name="q")], jobs=jobs)


def test_a_gang_gets_whole_nodes_of_the_kind_of_which_the_fewest_are_enough() -> None:
    jobs = [
        JobInfo(
            name="r",
            queue="q",
            min_available=2,
            tasks=[running("r1", "n0"), running("r2", "n1", 8)],
        ),
        waiting("gang", count=5, size=3, min_available=5),
    ]
    (more, *_) = explained(of_sizes(4, 8, jobs=jobs), "default/gang").would_start
    # One task fits on n0, and two on each node like n1.
    assert more.text == "2 more nodes like n1"
    assert [
        change.node.allocatable for change in more.changes if isinstance(change, NodeAdded)
    ] == [
        8 * CPU,
        8 * CPU,
    ]


def test_a_new_node_has_the_labels_that_the_task_asks_for_and_a_name_of_its_own() -> None:
    (alone,) = waiting("job", size=3).tasks
    job = JobInfo(name="job", queue="q", tasks=[evolve(alone, node_selector={"pool": "a"})])
    busy = JobInfo(name="r", queue="q", tasks=[running("r1", "n0", 2), running("r2", "n0", 2)])
    labels = {"pool": "a", "kubernetes.io/hostname": "n0"}
    snapshot = of_sizes(4, jobs=[busy, job], labels=labels)
    (more, _end) = explained(snapshot, "default/job").would_start
    (change,) = more.changes
    assert isinstance(change, NodeAdded)
    assert change.node.labels == {"pool": "a", "kubernetes.io/hostname": change.node.name}
    assert change.node.name != "n0"


def test_no_advice_is_given_of_what_no_node_has() -> None:
    """Two times 16 devices on nodes of 8: no node can have them, so none is asked for."""
    snapshot = of_sizes(8, 8, jobs=[waiting("gang", count=2, size=16, min_available=2)])
    explanation = explained(snapshot, "default/gang")
    assert "no node has 16 cpu, the largest has 8 cpu" in str(explanation)
    assert explanation.would_start == ()
    assert explanation.nearest == ()


def test_a_job_ends_with_what_waits_of_it() -> None:
    holder = JobInfo(
        name="r",
        queue="q",
        tasks=[running("r1", "n0", 2), TaskInfo(uid="r2", name="r2", resreq=2 * CPU)],
    )
    snapshot = of_sizes(2, jobs=[holder, waiting("job", size=2)])
    explanation = explained(snapshot, "default/job")
    end = next(each for each in explanation.would_start if each.text == "end job default/r")
    assert end.changes == (TaskSucceeded("r1"), TaskRemoved("r2"))


def test_a_job_that_was_promised_a_node_and_starts_in_the_cycle_ends_without_having_run() -> None:
    promised = TaskInfo(
        uid="p", name="p", resreq=2 * CPU, status=TaskStatus.PIPELINED, node_name="n0"
    )
    ahead = JobInfo(name="ahead", queue="q", tasks=[promised])
    explanation = explained(of_sizes(2, jobs=[ahead, waiting("job", size=2)]), "default/job")
    end = next(each for each in explanation.would_start if each.text == "end job default/ahead")
    assert end.changes == (TaskRemoved("p"),)


def test_where_a_limit_is_in_its_way_a_job_of_that_queue_ends() -> None:
    jobs = [
        JobInfo(name="mine", queue="q", tasks=[running("m", "n1", 2)]),
        JobInfo(name="other", queue="other", tasks=[running("o", "n1")]),
        waiting("job", size=2),
    ]
    snapshot = of_queues(Queue(name="q", limit=up_to(3)), Queue(name="other"), jobs=jobs)
    assert texts_for(snapshot, "default/job", CAPACITY)[:2] == [
        "end job default/mine",
        "queue q: limit 4 cpu instead of 3 cpu",
    ]


def test_of_a_gated_gang_it_is_told_where_it_would_start_and_nothing_of_nodes() -> None:
    gang = waiting("gang", count=2, min_available=2)
    first, second = gang.tasks
    gated = evolve(gang, tasks=[first, evolve(second, holds=[GATE])])
    snapshot = of_sizes(4, jobs=[gated])
    explanation = explained(snapshot, "default/gang")
    assert explanation.once_released == "once released, it would start on n0"
    assert explanation.once_released_on == ("n0",)
    (release,) = explanation.would_start
    assert release.text == "release: the gate example.com/license is removed"
    assert release.changes == (Released("default/gang"),)
    assert (explanation.tells_nodes, explanation.nearest) == (False, ())
    told = str(explanation)
    assert "nodes now" not in told
    assert "once released, it would start on n0" in told


def test_what_a_held_job_would_wait_for_then_is_told() -> None:
    hold = Hold(HoldKind.NOT_ADMITTED, "team-a")
    job = evolve(waiting("job", size=3), holds=[hold])
    never = explained(of_sizes(2, jobs=[job]), "default/job")
    assert never.standing.state is JobStatus.NEVER_FITS
    assert (never.once_released, never.would_start) == ("", ())
    full = JobInfo(name="full", queue="q", tasks=[running("f", "n0", 2)])
    explanation = explained(of_sizes(4, jobs=[job, full]), "default/job")
    assert explanation.once_released == (
        "it would still wait if Kueue decides as here: "
        "the only node cannot take it now: 1 lacks free cpu"
    )
    assert "end job default/full" in [change.text for change in explanation.would_start]
    for change in explanation.would_start:  # `what_if` decides admission too
        found = what_if(of_sizes(4, jobs=[job, full]), *change.changes)
        assert [each.job for each in found.difference.changes if each.kind == "starts"] == [job.uid]
    admitted = explained(of_sizes(4, jobs=[job]), "default/job")
    assert admitted.once_released == "it would start if Kueue decides as here: 1 task on n0"
    assert admitted.once_released_on == ("n0",)
    assert admitted.would_start == ()  # only the controller can admit it


def test_the_release_of_a_job_that_is_also_suspended_is_advised() -> None:
    holds = [Hold(HoldKind.SUSPENDED, "job"), Hold(HoldKind.NOT_ADMITTED, "team-a")]
    job = evolve(waiting("job", size=3), holds=holds)
    (release,) = explained(of_sizes(4, jobs=[job]), "default/job").would_start
    assert release.text == "release: it is resumed, it is admitted"


def test_a_gate_and_a_closed_queue_are_lifted_together() -> None:
    job = evolve(waiting("job"), holds=[GATE])
    queues = [Queue(name="p", state=QueueStatus.CLOSED), Queue(name="q", parent="p")]
    explanation = explained(of_queues(*queues, jobs=[job]), "default/job", CAPACITY)
    (release,) = explanation.would_start
    assert release.text == "release: the gate example.com/license is removed, queue p is opened"
    assert explanation.once_released_on == ("n1",)


def test_of_a_job_of_which_one_task_is_held_it_is_told_what_the_others_wait_for() -> None:
    job = waiting("job", count=2, size=3)
    first, second = job.tasks
    job = evolve(job, tasks=[evolve(first, holds=[GATE]), second])
    busy = JobInfo(name="r", queue="q", tasks=[running("r1", "n0", 2)])
    explanation = explained(of_sizes(4, jobs=[busy, job]), "default/job")
    assert explanation.task == "job-1"
    assert explanation.once_released == ""
    assert "end job default/r" in [each.text for each in explanation.would_start]


def test_of_a_job_with_too_few_tasks_it_is_told_that_it_could_need_fewer() -> None:
    explanation = explained(
        of_sizes(4, jobs=[waiting("job", count=2, min_available=3)]), "default/job"
    )
    assert not explanation.tells_nodes
    texts = [each.text for each in explanation.would_start]
    assert texts == ["job default/job: minimum 2 instead of 3"]


def test_the_end_of_the_job_that_it_depends_on_is_tried() -> None:
    after = Dependency(job="default/r", on=JobEvent.SUCCEEDED)
    busy = JobInfo(name="r", queue="q", tasks=[running("r1", "n0")])
    job = evolve(waiting("job"), depends_on=[after])
    explanation = explained(of_sizes(4, jobs=[busy, job]), "default/job")
    assert [each.text for each in explanation.would_start] == ["end job default/r"]
    assert not explanation.tells_nodes


def test_what_a_predicate_raises_about_curing_is_told_as_an_error_of_its_plugin() -> None:
    def curable(_unfit: Unfit) -> bool:
        raise ValueError("no idea")

    refuses = Predicate(check=lambda *_: Unfit(UnfitReason.REFUSED_BY_PLUGIN), curable=curable)

    class Own:
        def open(self, _view: SessionView, /) -> object:
            return ExtensionPoints(predicates=lambda: [refuses])

    registry = default_registry()
    registry.register_plugin("own", lambda _arguments: Own())
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate", "tiers": [{"plugins": [{"name": "own"}]}]}, registry=registry
    )
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=CPU)], queues=[Queue(name="q")], jobs=[waiting("j")]
    )
    result = Scheduler(config, registry).schedule(snapshot)
    with pytest.raises(PluginError, match=r"'own'.*no idea"):
        explain(snapshot, result, "j-0", config=config, registry=registry)


def test_a_job_that_only_lacks_admission_is_admitted_with_the_topology_that_it_names() -> None:
    request = TopologyRequest("net", required="rack")
    hold = Hold(HoldKind.NOT_ADMITTED, "team-a")
    job = evolve(waiting("job"), holds=[hold], topology=request)
    [node] = of_sizes(4, jobs=[]).nodes
    snapshot = Snapshot(
        nodes=[evolve(node, labels={"rack": "r0"})],
        queues=[Queue(name="q")],
        jobs=[job],
        topologies=[Topology("net", ("rack",))],
    )
    told = explained(snapshot, "default/job")
    assert told.once_released == "it would start if Kueue decides as here: 1 task on n0"


def test_past_use_and_what_is_held_now_are_told_of_queues_that_are_ranked_by_it() -> None:
    used = Resource(milli_cpu=3_600_000)
    queues = [Queue(name="alice"), Queue(name="bob", usage=used, weight=2), Queue(name="zero")]
    waits = TaskInfo(uid="waits", name="waits", resreq=2 * CPU)
    jobs = [
        JobInfo(name=task.name, queue="bob", tasks=[task]) for task in (running("r", "n"), waits)
    ]
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n", allocatable=2 * CPU)],
        queues=queues,
        jobs=jobs,
    )
    for plugins, told in (
        (("capacity",), False),
        (("usage",), True),
        (("capacity", "usage"), True),
    ):
        named = [
            {"name": name, "arguments": {"halfLife": 3600} if name == "usage" else {}}
            for name in ("gang", "predicates", *plugins)
        ]
        config = SchedulerConfig.from_mapping(
            {"actions": "allocate", "tiers": [{"plugins": named}]}
        )
        result = Scheduler(config).schedule(snapshot)
        answer = explain(snapshot, result, "waits", config=config, try_changes=False)
        # An hour of one of two cpus is 0.35 of the cluster by a half-life of an hour; half is held.
        expected = (0.5 * log(2) + 0.5) / 2
        assert answer.queue.use == (pytest.approx(expected) if told else None)
        text = "past use and what it holds now: 42.3% per unit of weight"
        assert (text in str(answer)) is told
        without = evolve(snapshot, queues=[evolve(each, weight=0) for each in queues])
        result = Scheduler(config).schedule(without)
        assert explain(without, result, "waits", config=config).queue.use is None
