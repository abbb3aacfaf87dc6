"""The plugin capacity: who goes first, what each queue may take, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from attrs import evolve

from batchsched import (
    ConfigError,
    CycleResult,
    JobInfo,
    NodeInfo,
    Queue,
    QueueExcess,
    QueueStatus,
    Registry,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskInfo,
    TaskStatus,
    Unfit,
    UnfitReason,
    WhyPending,
    default_registry,
)
from batchsched.plugin import ExtensionPoints, Need, QueueState


def cpu(amount: float) -> Resource:
    return Resource(milli_cpu=int(amount * 1000))


def at_most(amount: float) -> ResourceLimit:
    return ResourceLimit(milli_cpu=int(amount * 1000))


def node(name: str, cpus: float, **more: object) -> NodeInfo:
    return NodeInfo(name=name, allocatable=cpu(cpus), **more)  # type: ignore[arg-type]


def job(
    queue: str,
    count: int,
    *,
    name: str = "",
    size: float = 1,
    minimum: int = 1,
    on: str | None = None,
    **more: object,
) -> JobInfo:
    """A job of tasks of equal size that wait, or all run on a node."""
    name = name or f"of-{queue}"
    tasks = [
        TaskInfo(
            uid=f"{name}-{number:02}",
            name=f"{name}-{number:02}",
            resreq=cpu(size),
            status=TaskStatus.PENDING if on is None else TaskStatus.RUNNING,
            node_name=on,
        )
        for number in range(count)
    ]
    return JobInfo(name=name, queue=queue, min_available=minimum, tasks=tasks, **more)  # type: ignore[arg-type]


def config(
    *actions: str, plugins: Iterable[str] = (), registry: Registry | None = None
) -> Scheduler:
    names = plugins or ("priority", "gang", "predicates", "capacity", "nodeorder")
    return Scheduler(
        SchedulerConfig.from_mapping(
            {"actions": ", ".join(actions), "tiers": [{"plugins": [{"name": n} for n in names]}]},
            registry=registry,
        ),
        registry=registry,
    )


def allocated(
    nodes: Iterable[NodeInfo], queues: Iterable[Queue], jobs: Iterable[JobInfo]
) -> tuple[dict[str, int], CycleResult]:
    """How many tasks of each queue allocate binds, and all that came of it."""
    snapshot = Snapshot(nodes=nodes, queues=queues, jobs=jobs)
    result = config("allocate").schedule(snapshot)
    queue_of = {task.uid: j.queue for j in snapshot.jobs for task in j.tasks}
    counts = dict.fromkeys(sorted({j.queue for j in snapshot.jobs}), 0)
    for bind in result.binds:
        counts[queue_of[bind.task_uid]] += 1
    return counts, result


class TestShares:
    def test_two_queues_share_by_weight(self) -> None:
        counts, _ = allocated(
            [node("n1", 12)],
            [Queue(name="a", weight=2), Queue(name="b")],
            [job("a", 20), job("b", 20)],
        )
        assert counts == {"a": 8, "b": 4}

    def test_what_one_queue_cannot_use_is_lent_to_others(self) -> None:
        # a waits for a task that fits no node: b takes all, and the half of it is on loan.
        counts, _ = allocated(
            [node("n1", 8), node("n2", 8)],
            [Queue(name="a"), Queue(name="b")],
            [job("a", 1, size=9), job("b", 20)],
        )
        assert counts == {"a": 0, "b": 16}

    def test_q3_a_guarantee_is_never_lent(self) -> None:
        counts, result = allocated(
            [node("n1", 10)],
            [Queue(name="a", guarantee=cpu(4)), Queue(name="b"), Queue(name="c")],
            [job("b", 10), job("c", 10)],
        )
        assert counts == {"b": 3, "c": 3}
        reason = result.pending["of-b-03"]
        assert reason.why is WhyPending.QUEUE_LIMIT
        assert reason.text == ("with guarantees, queues would hold 11 cpu, 1 more than there is")

    def test_departments_share_before_their_teams(self) -> None:
        counts, _ = allocated(
            [node("n1", 12)],
            [
                Queue(name="x"),
                Queue(name="x1", parent="x"),
                Queue(name="x2", parent="x"),
                Queue(name="y"),
                Queue(name="y1", parent="y"),
            ],
            [job("x1", 20), job("x2", 20), job("y1", 20)],
        )
        assert counts == {"x1": 3, "x2": 3, "y1": 6}

    def test_only_what_is_asked_for_counts(self) -> None:
        # a uses all memory, and is not late for cpus.
        tasks = [
            TaskInfo(
                uid="big",
                name="big",
                resreq=Resource(memory=10 << 30),
                status=TaskStatus.RUNNING,
                node_name="n1",
            )
        ]
        nodes = [NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000, memory=10 << 30))]
        counts, _ = allocated(
            nodes,
            [Queue(name="a"), Queue(name="b")],
            [JobInfo(name="j", queue="a", tasks=tasks), job("a", 4), job("b", 4)],
        )
        assert counts == {"a": 2, "b": 2}

    def test_what_others_hold_and_what_is_down_is_not_shared_out(self) -> None:
        snapshot = Snapshot(
            nodes=[node("n1", 10), node("n2", 50, unschedulable=True)],
            queues=[Queue(name="a"), Queue(name="b")],
            jobs=[job("a", 10), job("b", 10)],
            other_tasks=[
                TaskInfo(
                    uid="d", name="d", resreq=cpu(4), status=TaskStatus.RUNNING, node_name="n1"
                )
            ],
        )
        result = config("allocate").schedule(snapshot)
        assert sorted(bind.task_uid[:4] for bind in result.binds) == ["of-a"] * 3 + ["of-b"] * 3

    def test_a_queue_of_higher_priority_goes_first(self) -> None:
        counts, _ = allocated(
            [node("n1", 4)],
            [Queue(name="a"), Queue(name="b", priority=1)],
            [job("a", 4), job("b", 4)],
        )
        assert counts == {"a": 0, "b": 4}


class TestLimits:
    QUEUES = (
        Queue(name="x", limit=at_most(5)),
        Queue(name="x1", parent="x", limit=at_most(4)),
        Queue(name="x2", parent="x"),
    )

    def test_no_queue_on_the_path_holds_more_than_its_limit(self) -> None:
        counts, result = allocated([node("n1", 20)], self.QUEUES, [job("x1", 9), job("x2", 9)])
        assert sum(counts.values()) == 5
        assert WhyPending.QUEUE_LIMIT in {reason.why for reason in result.pending.values()}

    def test_the_reason_says_which_queue_how_much_and_by_how_much(self) -> None:
        _, result = allocated([node("n1", 20)], self.QUEUES, [job("x1", 6)])
        reason = result.pending["of-x1-04"]
        assert reason.text == "queue 'x1' would hold 5 cpu, 1 more than its limit"
        assert reason.refusal is not None
        assert reason.refusal.excess == QueueExcess(
            queue="x1", dimension="cpu", would_hold=5000, most=4000
        )

    def test_a_gang_that_the_limit_will_not_let_complete_holds_nothing(self) -> None:
        counts, result = allocated(
            [node("n1", 20)], self.QUEUES, [job("x1", 6, minimum=6), job("x2", 1)]
        )
        assert counts == {"x1": 0, "x2": 1}
        assert result.pending["of-x1-00"].text == ("6 cpu exceed the limit of 4 of queue 'x1'")

    def test_a_limit_counts_only_for_what_is_asked_for(self) -> None:
        queues = [Queue(name="a", limit=ResourceLimit(milli_cpu=0, memory=1))]
        tasks = [TaskInfo(uid="t", name="t", resreq=Resource(scalars={"gpu": 1}))]
        gpus = NodeInfo(name="n1", allocatable=Resource(scalars={"gpu": 1}))
        counts, _ = allocated([gpus], queues, [JobInfo(name="j", queue="a", tasks=tasks)])
        assert counts == {"a": 1}

    def test_a_limit_below_what_runs_lets_nothing_new_in(self) -> None:
        counts, _ = allocated(
            [node("n1", 20)],
            [Queue(name="a", limit=at_most(2))],
            [job("a", 5, name="old", on="n1"), job("a", 2)],
        )
        assert counts == {"a": 0}

    @pytest.mark.parametrize("state", [QueueStatus.CLOSED, QueueStatus.DRAINING])
    def test_nothing_starts_below_a_queue_that_is_not_open(self, state: QueueStatus) -> None:
        queues = [Queue(name="x", state=state), Queue(name="x1", parent="x"), Queue(name="y")]
        best_effort = JobInfo(name="e", queue="x1", tasks=[TaskInfo(uid="e", name="e")])
        snapshot = Snapshot(
            nodes=[node("n1", 9)], queues=queues, jobs=[job("x1", 2), job("y", 2), best_effort]
        )
        result = config("allocate", "backfill").schedule(snapshot)
        assert sorted(bind.task_uid for bind in result.binds) == ["of-y-00", "of-y-01"]
        for uid in ("of-x1-00", "e"):
            assert result.pending[uid].why is WhyPending.HELD
            assert result.pending[uid].text == f"queue 'x' is {state.value}"


class TestConfiguration:
    def test_proportion_and_capacity_together_are_an_error(self) -> None:
        with pytest.raises(ConfigError) as caught:
            config("allocate", plugins=["proportion", "capacity"])
        assert [str(fault) for fault in caught.value.faults] == [
            (
                "tiers[0].plugins[1]: plugin 'capacity' replaces 'proportion', "
                "which is configured at tiers[0].plugins[0]; remove one of them"
            )
        ]

    def test_ones_own_plugin_that_ranks_queues_keeps_working(self) -> None:
        class LastFirst:
            def open(self, _view: object) -> ExtensionPoints:
                return ExtensionPoints(queue_order_key=lambda q: -ord(q.name[0]))

        registry = default_registry()
        registry.register_plugin("last-first", lambda _: LastFirst())
        run = config(
            "allocate",
            plugins=["gang", "last-first", "capacity", "predicates"],
            registry=registry,
        ).schedule
        snapshot = Snapshot(
            nodes=[node("n1", 3)],
            queues=[Queue(name="a"), Queue(name="b"), Queue(name="a1", parent="a")],
            jobs=[job("a1", 3), job("b", 2)],
        )
        assert [bind.task_uid for bind in run(snapshot).binds] == [
            *("of-b-00", "of-b-01"),
            "of-a1-00",
        ]

    def test_ones_own_plugin_may_say_what_queues_may_take(self) -> None:
        class NoGangs:
            def open(self, _view: object) -> ExtensionPoints:
                def allocatable(_queue: QueueState, need: Need) -> Unfit | None:
                    if len(need.tasks) == 1:
                        return None
                    return Unfit(UnfitReason.QUEUE_LIMIT, detail="no gangs today")

                return ExtensionPoints(allocatable=allocatable)

        registry = default_registry()
        registry.register_plugin("no-gangs", lambda _: NoGangs())
        scheduler = config("allocate", plugins=["gang", "no-gangs"], registry=registry)
        snapshot = Snapshot(
            nodes=[node("n1", 9)],
            queues=[Queue(name="a")],
            jobs=[job("a", 2, name="gang", minimum=2), job("a", 1, name="single")],
        )
        result = scheduler.schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == ["single-00"]
        assert result.pending["gang-00"].text == "no gangs today"


class TestGangsForWhichThereIsNotEnough:
    """They are kept out as a whole, before any task of theirs is placed."""

    def test_what_takes_the_room_of_one_task_later_is_not_why(self) -> None:
        jobs = [
            job("a", 2, name="gang", size=2, minimum=2, priority=1),
            job("a", 1, name="single"),
        ]
        nodes = [node("n1", 1), node("n2", 2)]
        snapshot = Snapshot(nodes=nodes, queues=[Queue(name="a")], jobs=jobs)
        result = config("allocate").schedule(snapshot)
        assert [bind.task_uid for bind in result.binds] == ["single-00"]
        full = evolve(snapshot, nodes=nodes[1:])
        result = config("allocate").schedule(full)
        assert [bind.task_uid for bind in result.binds] == ["single-00"]
        for uid in ("gang-00", "gang-01"):
            assert result.pending[uid].why is WhyPending.GANG_INCOMPLETE
            assert result.pending[uid].text.startswith(
                "none of the 2 tasks that must start together fits now"
            )
        condition = result.jobs["default/gang"].condition
        assert condition is not None
        assert condition.message.startswith(
            "0 of the 2 tasks that must start together are ready; "
            "there is not enough cpu for everything that it needs at once"
        )

    def test_where_not_one_task_has_room_that_is_why(self) -> None:
        jobs = [job("a", 2, name="runs", on="n1"), job("a", 2, name="gang", minimum=2)]
        snapshot = Snapshot(nodes=[node("n1", 2)], queues=[Queue(name="a")], jobs=jobs)
        result = config("allocate").schedule(snapshot)
        assert result.pending["gang-00"].why is WhyPending.NO_NODE

    def test_no_node_is_large_enough_for_one_that_came_after_one_that_fits(self) -> None:
        tasks = [
            TaskInfo(uid="small", name="small", resreq=cpu(1)),
            TaskInfo(uid="wide", name="wide", resreq=cpu(4)),
        ]
        gang = JobInfo(name="gang", queue="a", min_available=2, tasks=tasks)
        snapshot = Snapshot(nodes=[node("n1", 2)], queues=[Queue(name="a")], jobs=[gang])
        result = config("allocate").schedule(snapshot)
        assert result.pending["small"].why is WhyPending.GANG_INCOMPLETE
        assert result.pending["wide"].why is WhyPending.NO_NODE

    def test_where_no_node_is_large_enough_the_condition_says_what_nodes_have(self) -> None:
        gang = job("a", 2, size=3, minimum=2)
        nodes = [node("n1", 2), node("n2", 2)]
        snapshot = Snapshot(nodes=nodes, queues=[Queue(name="a")], jobs=[gang])
        condition = config("allocate").schedule(snapshot).jobs["default/of-a"].condition
        assert condition is not None
        assert "0/2 nodes are available: 2 lack free cpu" in condition.message

    def test_the_condition_of_a_gang_that_a_limit_keeps_out_says_which(self) -> None:
        queues = [Queue(name="a", limit=at_most(1))]
        snapshot = Snapshot(nodes=[node("n1", 4)], queues=queues, jobs=[job("a", 2, minimum=2)])
        condition = config("allocate").schedule(snapshot).jobs["default/of-a"].condition
        assert condition is not None
        assert condition.message == (
            "0 of the 2 tasks that must start together are ready; "
            "2 cpu exceed the limit of 1 of queue 'a'"
        )

    def test_a_limit_is_told_before_what_others_hold(self) -> None:
        limit = ResourceLimit(memory=1)
        task = TaskInfo(uid="t", name="t", resreq=Resource(milli_cpu=2000, memory=2))
        snapshot = Snapshot(
            nodes=[NodeInfo(name="n1", allocatable=Resource(milli_cpu=1000, memory=9))],
            queues=[Queue(name="a", limit=limit)],
            jobs=[JobInfo(name="j", queue="a", tasks=[task])],
        )
        assert config("allocate").schedule(snapshot).pending["t"].why is WhyPending.QUEUE_LIMIT


def test_the_order_of_queues_and_jobs_in_the_input_does_not_matter() -> None:
    queues = [Queue(name="x"), Queue(name="x1", parent="x"), Queue(name="y", weight=2)]
    jobs = [job("x1", 5), job("y", 5)]
    first = Snapshot(nodes=[node("n1", 6)], queues=queues, jobs=jobs)
    second = Snapshot(nodes=[node("n1", 6)], queues=queues[::-1], jobs=jobs[::-1])
    run = config("allocate", "backfill").schedule
    assert run(first).binds == run(second).binds
