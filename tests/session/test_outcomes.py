"""Closing a session: phases, conditions, and why each task was left pending."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from tests.support.books import closed
from tests.support.clusters import action, cluster, job, node, scheduler, standing
from tests.support.invariants import check_cycle

from batchsched import (
    ConditionReason,
    CycleResult,
    JobInfo,
    JobPhase,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    Session,
    Snapshot,
    Taint,
    TaintEffect,
    TaskInfo,
    TaskStatus,
    Unfit,
    UnfitReason,
    WhyPending,
    default_registry,
    schedule,
)
from batchsched.plugin import ExtensionPoints, Need, QueueState

S = TaskStatus


def why(result: CycleResult) -> dict[str, WhyPending]:
    return {uid: reason.why for uid, reason in result.pending.items()}


def with_statuses(name: str, minimum: int, *statuses: TaskStatus) -> Any:
    tasks = standing(name, Resource(milli_cpu=1000), *statuses)
    return evolve(job(name, "", minimum=minimum), tasks=tasks)


# Phases


@pytest.mark.parametrize(
    ("statuses", "minimum", "phase"),
    [
        ([S.RUNNING, S.RUNNING], 2, JobPhase.RUNNING),
        ([S.BOUND, S.BINDING], 2, JobPhase.RUNNING),
        ([S.PENDING], 1, JobPhase.PENDING),
        ([], 0, JobPhase.RUNNING),
        ([S.RUNNING, S.PENDING], 2, JobPhase.UNKNOWN),  # some run, and it is not ready
        ([S.BOUND, S.PENDING], 2, JobPhase.PENDING),  # none runs
        ([S.RUNNING, S.SUCCEEDED], 2, JobPhase.PENDING),  # ready, and 1 < 2 hold resources
        ([S.SUCCEEDED, S.SUCCEEDED], 2, JobPhase.COMPLETED),
        ([S.SUCCEEDED], 0, JobPhase.COMPLETED),
        ([S.SUCCEEDED, S.FAILED], 1, JobPhase.PENDING),
        ([S.RUNNING, S.FAILED, S.SUCCEEDED], 1, JobPhase.RUNNING),
        ([S.RELEASING, S.PENDING], 1, JobPhase.PENDING),
        ([S.UNKNOWN, S.PENDING], 1, JobPhase.PENDING),
    ],
)
def test_the_phase_follows_the_tasks_and_the_condition(
    statuses: list[TaskStatus], minimum: int, phase: JobPhase
) -> None:
    snapshot = cluster([node("n1", "9C9G")], with_statuses("j", minimum, *statuses))
    result = schedule(snapshot, config=SchedulerConfig(actions=[]))
    assert result.jobs["default/j"].phase is phase


def test_a_job_that_becomes_ready_is_running_and_without_condition() -> None:
    result = schedule(cluster([node("n1", "4C4G")], job("j", "1C1G", "1C1G")))
    outcome = result.jobs["default/j"]
    assert (outcome.phase, outcome.condition) == (JobPhase.RUNNING, None)
    assert result.tasks["j-1"].status is S.BINDING


# Conditions


def test_an_unready_gang_is_told_what_the_nodes_had_to_say() -> None:
    taint = Taint(key="x", effect=TaintEffect.NO_SCHEDULE)
    snapshot = cluster(
        [
            *(node(f"n{i}", "1C4G") for i in (1, 2, 3)),
            *(evolve(node(f"t{i}", "8C8G"), taints=[taint]) for i in (1, 2)),
        ],
        job("j", "2C1G", "2C1G"),
    )
    condition = schedule(snapshot).jobs["default/j"].condition
    assert condition is not None
    assert condition.reason is ConditionReason.NOT_ENOUGH_RESOURCES
    assert condition.plugin == "gang"
    assert condition.message == (
        "0 of the 2 tasks that must start together are ready; "
        "0/5 nodes are available: 3 lack free cpu, 2 have a taint that it does not tolerate"
    )


def test_a_node_that_lacks_several_resources_is_told_once() -> None:
    result = schedule(cluster([node("n1", "1C1G")], job("j", "2C2G")))
    assert result.pending["j-1"].text == (
        "0/1 nodes are available: 1 lacks free cpu and memory; no node is large enough"
    )


def test_without_gang_there_is_no_condition() -> None:
    snapshot = cluster([node("n1", "1C1G")], job("j", "2C1G", "2C1G"))
    result = scheduler("allocate", without=["gang"]).schedule(snapshot)
    outcome = result.jobs["default/j"]
    assert (outcome.phase, outcome.condition) == (JobPhase.PENDING, None)


def test_jobs_left_out_have_no_outcome_and_say_why() -> None:
    snapshot = cluster(
        [node("n1", "9C9G")],
        job("few", "1C1G", minimum=3),
        job("lost", "1C1G@n1", "1C1G", queue="gone"),
    )
    result = schedule(snapshot)
    assert result.jobs == {}
    assert result.tasks == {}
    assert {uid: c.reason for uid, c in result.left_out.items()} == {
        "default/few": ConditionReason.NOT_ENOUGH_TASKS,
        "default/lost": ConditionReason.QUEUE_UNKNOWN,
    }
    assert why(result) == {"few-1": WhyPending.JOB_INVALID, "lost-2": WhyPending.QUEUE_UNKNOWN}
    assert result.pending["few-1"].text == "1 of the 3 tasks that it needs can start"
    assert result.pending["lost-2"].text == "queue 'gone' is not in the snapshot"


# Why pending


def test_no_node() -> None:
    result = schedule(cluster([node("n1", "2C2G")], job("j", "1C1G@n1", "1500C1G", minimum=1)))
    assert why(result) == {"j-2": WhyPending.NO_NODE}
    assert result.pending["j-2"].detail == "no node is large enough"
    result = schedule(cluster([node("n1", "2C2G")], job("j", "1C1G@n1", "2C1G", minimum=1)))
    assert why(result) == {"j-2": WhyPending.NO_NODE}
    assert result.pending["j-2"].text == "0/1 nodes are available: 1 lacks free cpu"


WITH_PROPORTION = SchedulerConfig.from_mapping(
    {"tiers": [{"plugins": ["gang"]}, {"plugins": ["predicates", "proportion", "nodeorder"]}]}
)


def test_not_reached() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("j", "1C1G@n1", "2C1G", "1C1G", minimum=3))
    result = schedule(snapshot, config=WITH_PROPORTION)
    assert why(result) == {"j-2": WhyPending.NO_NODE, "j-3": WhyPending.NOT_REACHED}
    assert result.pending["j-3"].text == "task 'j-2' of its job could not be placed before it"


def test_gang_incomplete_where_the_turn_was_undone() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("j", "1C1G", "1C1G", "1C1G"))
    result = scheduler(action("allocate", unready="discard")).schedule(snapshot)
    assert why(result) == dict.fromkeys(("j-1", "j-2", "j-3"), WhyPending.GANG_INCOMPLETE)
    assert result.pending["j-1"].text == ("only 2 of the 3 tasks that must start together fit now")
    assert result.pending["j-3"].text == (
        "only 2 of the 3 tasks that must start together fit now; alone it could start on "
        "1 of 1 nodes"
    )


def test_the_condition_of_a_gang_whose_turn_was_undone_tells_how_far_it_came() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("j", "1C1G", "1C1G", "1C1G"))
    result = scheduler(action("allocate", unready="discard")).schedule(snapshot)
    condition = result.jobs["default/j"].condition
    assert condition is not None
    assert condition.message == (
        "0 of the 3 tasks that must start together are ready; 2 placed, but rolled back "
        "since not enough others were; no node had room for task 'j-3' beside them"
    )


def test_the_held_tasks_of_an_unready_gang_are_not_pending() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("j", "1C1G", "1C1G", "1C1G"))
    result = scheduler(action("allocate", unready="hold")).schedule(snapshot)
    assert why(result) == {"j-3": WhyPending.NO_NODE}
    assert result.tasks["j-1"].status is S.ALLOCATED
    condition = result.jobs["default/j"].condition
    assert condition is not None
    assert condition.message == (
        "2 of the 3 tasks that must start together are ready; "
        "0/1 nodes are available: 1 lacks free cpu and memory"
    )


def test_queue_overused() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G@n1", "1C1G", minimum=1),
        job("b", "1C1G", queue="r"),
        queues=("q", "r"),
    )
    result = schedule(snapshot, config=WITH_PROPORTION)
    assert why(result) == {"a-2": WhyPending.QUEUE_OVERUSED}
    assert result.pending["a-2"].text == (
        "queue 'q' has its deserved share: it deserves 1 cpu, 1 GiB and has 1 cpu, 1 GiB"
    )
    share = result.pending["a-2"].share
    assert share is not None
    assert share.deserved == share.allocated == Resource(milli_cpu=1000, memory=1 << 30)


def test_not_considered() -> None:
    snapshot = cluster([node("n1", "2C2G")], job("j", "1C1G", "", minimum=1))
    result = scheduler("backfill").schedule(snapshot)
    assert why(result) == {"j-1": WhyPending.NOT_CONSIDERED}
    assert result.pending["j-1"].text == "no action of the cycle considered it"
    result = scheduler("allocate").schedule(snapshot)
    assert why(result) == {"j-2": WhyPending.NOT_CONSIDERED}


def test_every_pending_task_has_a_reason_and_no_other() -> None:
    snapshot = cluster(
        [node("n1", "3C3G")],
        job("a", "1C1G@n1", "9C1G", "1C1G", "", minimum=1),
        job("b", "1C1G", "1C1G", "1C1G", "1C1G"),
        job("few", "1C1G", minimum=3),
        job("lost", "1C1G", queue="gone"),
    )
    result = schedule(snapshot)
    left_out = {"few-1", "lost-1"}
    pending = {uid for uid, of in result.tasks.items() if of.status is S.PENDING}
    assert result.pending.keys() == pending | left_out


# What is told


def test_tasks_that_run_or_ended_are_told_as_they_are() -> None:
    snapshot = cluster(
        [node("n1", "9C9G")],
        with_statuses("j", 0, S.RUNNING, S.SUCCEEDED, S.FAILED, S.RELEASING, S.UNKNOWN),
    )
    result = schedule(snapshot)
    assert {uid: (o.status, o.node_name) for uid, o in result.tasks.items()} == {
        "j-0": (S.RUNNING, "n1"),
        "j-1": (S.SUCCEEDED, None),
        "j-2": (S.FAILED, None),
        "j-3": (S.RELEASING, "n1"),
        "j-4": (S.UNKNOWN, "n1"),
    }
    assert result.pending == {}


def test_reservations_of_jobs_that_are_not_conditionally_ready_end_with_the_cycle() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("r", "2C1G@n1"),
        job("k", "2C1G>n1", minimum=1),
        job("d", "1C1G>n1", "1C1G", minimum=2),
    )
    result = scheduler("backfill").schedule(snapshot)
    # Both together are too large for the node: all its reservations are dropped at open.
    assert result.reserved == ()
    snapshot = cluster(
        [node("n1", "4C4G")],
        job("r", "4C1G@n1"),
        job("k", "2C1G>n1", minimum=1),
        job("d", "1C1G>n1", "1C1G", minimum=2),
    )
    result = scheduler("backfill").schedule(snapshot)
    assert [p.task_uid for p in result.reserved] == ["k-1"]
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == [("d-1", "n1")]
    assert result.pending["d-1"].why is WhyPending.NOT_CONSIDERED


def reserved_on_n1() -> Session:
    """Open a session in which s-1 and s-2 need each other, and n1 is reserved for s-1."""
    nodes = [node("n1", "4C4G"), node("n2", "4C4G")]
    return scheduler("allocate").open(cluster(nodes, job("s", "1C1G>n1", "1C1G", minimum=2)))


def dropped(session: Session) -> list[tuple[str, str]]:
    return [(p.task_uid, p.node_name) for p in closed(session).dropped_reservations]


def test_a_reservation_that_is_taken_back_was_dropped() -> None:
    session = reserved_on_n1()
    session.unallocate(session.task("s-1"))
    assert dropped(session) == [("s-1", "n1")]


def test_a_reservation_that_is_made_again_was_not_dropped() -> None:
    session = reserved_on_n1()
    session.unallocate(session.task("s-1"))
    session.reserve(session.task("s-1"), session.node("n1"))
    session.pipeline(session.task("s-2"), session.node("n2"))
    result = closed(session)
    assert [promise.task_uid for promise in result.reserved] == ["s-1"]
    assert result.dropped_reservations == ()


@pytest.mark.parametrize(("name", "expected"), [("n1", []), ("n2", [("s-1", "n1")])])
def test_a_reservation_is_used_by_a_bind_to_its_node_alone(
    name: str, expected: list[tuple[str, str]]
) -> None:
    session = reserved_on_n1()
    with session.statement() as statement:
        for task in session.jobs["default/s"].tasks:
            statement.allocate(task, session.node(name))
        statement.commit()
    assert [bind.node_name for bind in session.binds] == [name, name]
    assert dropped(session) == expected


@pytest.mark.parametrize(("name", "expected"), [("n1", []), ("n2", [("s-1", "n1")])])
def test_a_reservation_on_another_node_is_not_the_one_that_was_there(
    name: str, expected: list[tuple[str, str]]
) -> None:
    session = reserved_on_n1()
    session.unallocate(session.task("s-1"))
    session.reserve(session.task("s-1"), session.node(name))
    session.pipeline(session.task("s-2"), session.node("n2"))
    assert dropped(session) == expected


def test_a_place_that_is_held_and_not_bound_has_ended_the_reservation() -> None:
    session = reserved_on_n1()
    with session.statement() as statement:
        statement.allocate(session.task("s-1"), session.node("n1"))
        statement.commit()
    result = closed(session)
    assert result.tasks["s-1"].status is S.ALLOCATED
    assert [promise.task_uid for promise in result.dropped_reservations] == ["s-1"]


def test_what_is_undone_drops_no_reservation() -> None:
    session = reserved_on_n1()
    session.pipeline(session.task("s-2"), session.node("n2"))
    with session.statement() as statement:
        statement.unallocate(session.task("s-1"))
    assert dropped(session) == []


def test_reservations_on_nodes_that_are_gone_are_dropped_even_of_jobs_left_out() -> None:
    snapshot = cluster(
        [node("n1", "4C4G")], job("a", "1C1G>n9", "1C1G@n1"), job("b", "1C1G>n1", queue="none")
    )
    expected = [("a-1", "n9"), ("b-1", "n1")]
    assert dropped(scheduler("allocate").open(snapshot)) == expected
    result = scheduler("allocate").schedule(snapshot)
    assert [(p.task_uid, p.node_name) for p in result.dropped_reservations] == expected


def test_a_node_without_anything_is_told_of() -> None:
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1")], queues=cluster([]).queues, jobs=[job("j", "1C0G")]
    )
    result = scheduler("allocate", without=["proportion"]).schedule(snapshot)
    assert result.pending["j-1"].text == (
        "0/1 nodes are available: 1 lacks free cpu; no node is large enough"
    )
    # Its queue deserves nothing, and has it.
    assert why(schedule(snapshot, config=WITH_PROPORTION)) == {"j-1": WhyPending.QUEUE_OVERUSED}


def test_reasons_tell_of_nodes_that_were_closed_only_until_the_end_of_the_cycle() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("r", "1C1G@n1"),
        job("s", "1C1G>n1", "1C1G>n1", "1C1G"),
        job("z", "1C1G"),
    )
    result = scheduler("allocate").schedule(snapshot)
    assert {promise.task_uid for promise in result.dropped_reservations} == {"s-1", "s-2"}
    # One task is no gang: it was the reservation that stood in its way, and is gone.
    assert result.pending["z-1"].text == (
        "there is room now; there was none when it was tried; 1/1 nodes are available"
    )
    for uid in ("s-1", "s-2"):  # they come before s-3, which found no place
        assert result.pending[uid].why is WhyPending.GANG_INCOMPLETE


def test_a_device_that_is_lost_keeps_no_other_one_idle() -> None:
    """n1 has lost the device that a task holds there; that of n2 is free."""

    def one(name: str, node_name: str | None = None) -> JobInfo:
        status = TaskStatus.PENDING if node_name is None else TaskStatus.RUNNING
        task = TaskInfo(
            uid=name,
            name=name,
            status=status,
            node_name=node_name,
            resreq=Resource(milli_cpu=1000, scalars={"gpu": 1000}),
        )
        return JobInfo(name=name, queue="q", tasks=[task])

    room = Resource(milli_cpu=2000, scalars={"gpu": 1000})
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1"), NodeInfo(name="n2", allocatable=room)],
        queues=[Queue(name="q")],
        jobs=[one("runs", "n1"), one("waits")],
    )
    result = schedule(snapshot)
    assert [bind.task_uid for bind in result.binds] == ["waits"]
    check_cycle(snapshot, result)


def test_a_queue_that_is_held_back_for_want_of_devices_is_told_of_though_a_node_has_room() -> None:
    class FirstQueueOnly:
        """Lends out devices to one queue only, whatever the nodes have."""

        def open(self, _view: object) -> ExtensionPoints:
            def allocatable(queue: QueueState, _need: Need) -> Unfit | None:
                if queue.name == "first":
                    return None
                return Unfit(UnfitReason.INSUFFICIENT_RESOURCE, "first-queue-only", "gpu")

            return ExtensionPoints(allocatable=allocatable)

    registry = default_registry()
    registry.register_plugin("first-queue-only", lambda _: FirstQueueOnly())
    config = SchedulerConfig.from_mapping(
        {
            "actions": ["allocate"],
            "tiers": [{"plugins": [{"name": "gang"}, {"name": "first-queue-only"}]}],
        },
        registry=registry,
    )
    gpu = Resource(milli_cpu=1000, scalars={"gpu": 1000})
    snapshot = Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=3 * gpu)],
        queues=[Queue(name="first"), Queue(name="second")],
        jobs=[
            JobInfo(name=name, queue=name, tasks=[TaskInfo(uid=name, name=name, resreq=gpu)])
            for name in ("first", "second")
        ],
    )
    result = Scheduler(config, registry=registry).schedule(snapshot)
    assert [bind.task_uid for bind in result.binds] == ["first"]
    reason = result.pending["second"]
    assert reason.lacking == "gpu"
    assert reason.detail == (
        "a node has room for it; when it was tried, there was not enough gpu in all for everything "
        "that it needs at once"
    )
    condition = result.jobs["default/second"].condition
    assert condition is not None
    assert condition.failure is not None
    assert condition.failure.refusal is not None
    # The invariant of reasons recounts what nodes have; this plugin lends out less than that.
    check_cycle(snapshot, result, config, registry=registry, without=["reasons"])


def test_a_task_of_a_job_that_became_ready_without_it_is_not_said_to_lack_company() -> None:
    snapshot = cluster(
        [node("n1", "2C2G")],
        job("a", "1C1G", creation_time=5),
        job("b", "", "", "1C1G", minimum=2),
        job("c", "1C1G", creation_time=6),
    )
    discard = {"name": "allocate", "arguments": {"unready": "discard"}}
    result = Scheduler(SchedulerConfig.from_mapping({"actions": [discard, "backfill"]})).schedule(
        snapshot
    )
    assert {bind.task_uid for bind in result.binds} == {"a-1", "b-1", "b-2", "c-1"}
    assert result.pending["b-3"].why is WhyPending.NO_NODE
