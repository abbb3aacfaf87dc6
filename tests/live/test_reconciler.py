"""A cluster that is kept true to one that others change: rules one by one, and long random runs."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve
from tests.support.api_server import CPU, KINDS, ApiServer

from batchsched import (
    EventError,
    JobInfo,
    NodeInfo,
    Queue,
    Resource,
    Scheduler,
    SchedulerConfig,
    TaskInfo,
    TaskStatus,
)
from batchsched.live import (
    AttachedScheduler,
    Cluster,
    CorrectionKind,
    Deleted,
    InFlight,
    Reconciler,
    Seen,
)

JOB = JobInfo(name="j", queue="q")


def node(name: str, cpus: int = 1) -> NodeInfo:
    return NodeInfo(name=name, allocatable=Resource(milli_cpu=1000 * cpus))


def pod(uid: str = "t", status: TaskStatus = TaskStatus.PENDING, on: str | None = None) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, resreq=CPU, status=status, node_name=on)


def seen(task: TaskInfo, version: str = "") -> Seen:
    return Seen(task, version, job="default/j")


@pytest.fixture(name="kept")
def _kept() -> Reconciler:
    kept = Reconciler(Cluster(), give_up_after=30)
    kept.observe(Seen(Queue(name="q")), Seen(node("n1")), Seen(JOB))
    return kept


def in_cycle(kept: Reconciler, live: AttachedScheduler | None = None) -> list[tuple[str, str]]:
    cycle = (live or Scheduler().attach(kept.cluster)).schedule()
    kept.carry_out(cycle)
    return [(bind.task_uid, bind.node_name) for bind in cycle.binds]


def where(kept: Reconciler, uid: str = "t") -> tuple[str, str | None]:
    task = kept.cluster.task(uid)
    return task.status.value, task.node_name


def test_a_bind_is_in_flight_until_its_task_is_seen_on_the_node(kept):
    kept.observe(seen(pod(), "1"))
    assert in_cycle(kept) == [("t", "n1")]
    assert kept.in_flight == {"t": InFlight("bind", "n1", 0.0)}
    # What was seen before the bind took effect changes nothing.
    kept.observe(seen(evolve(pod(), labels={"a": "b"}), "2"))
    assert where(kept) == ("Bound", "n1")
    assert kept.cluster.task("t").labels == {"a": "b"}
    assert in_cycle(kept) == []
    assert kept.observe(seen(pod(status=TaskStatus.RUNNING, on="n1"), "3")) == ()
    assert (where(kept), dict(kept.in_flight)) == (("Running", "n1"), {})
    assert kept.pass_time(100) == ()


def test_a_bind_of_which_nothing_is_seen_is_given_up_and_tried_again(kept):
    kept.observe(seen(pod()))
    in_cycle(kept)
    assert kept.pass_time(29.9) == ()
    [told] = kept.pass_time(30)
    assert (told.kind, told.name) == (CorrectionKind.BIND_GIVEN_UP, "t")
    assert where(kept) == ("Pending", None)
    assert in_cycle(kept) == [("t", "n1")]


def test_a_bind_that_was_given_up_and_succeeded_after_all_counts(kept):
    kept.observe(seen(pod()), Seen(node("n2")))
    assert in_cycle(kept) == [("t", "n1")]
    kept.pass_time(30)
    kept.observe(Seen(evolve(node("n1"), unschedulable=True)))
    assert in_cycle(kept) == [("t", "n2")]
    [told] = kept.observe(seen(pod(status=TaskStatus.BOUND, on="n1")))
    assert str(told) == "task t is on n1, not on n2"
    assert (where(kept), dict(kept.in_flight)) == (("Bound", "n1"), {})


def test_a_task_that_another_scheduler_bound_is_where_it_is_seen(kept):
    kept.observe(seen(pod()))
    [told] = kept.observe(seen(pod(status=TaskStatus.RUNNING, on="n1")))
    assert told.kind is CorrectionKind.STARTED_AFTER_ALL
    assert in_cycle(kept) == []


def test_a_bind_that_was_refused_is_tried_again_at_once(kept):
    kept.observe(seen(pod()))
    in_cycle(kept)
    kept.refused("t")
    assert in_cycle(kept) == [("t", "n1")]
    with pytest.raises(EventError, match="nothing is in flight for task 'u'"):
        kept.refused("u")


def test_a_task_that_is_deleted_while_it_is_bound_is_gone_for_good(kept):
    kept.observe(seen(pod(), "1"))
    in_cycle(kept)
    [told] = kept.observe(Deleted("task", "t", "5"))
    assert str(told) == "task t was deleted while it was being bound to n1"
    assert kept.observe(seen(pod(status=TaskStatus.BOUND, on="n1"), "4")) == ()
    assert not kept.cluster.job("default/j").tasks
    assert not kept.in_flight


def test_an_evicted_task_is_leaving_until_it_is_gone_and_its_replacement_is_another(kept):
    kept.observe(Seen(evolve(JOB, name="high", priority=9)), seen(pod("low"), "1"))
    in_cycle(kept)
    kept.observe(seen(pod("low", TaskStatus.RUNNING, "n1"), "2"))
    kept.observe(Seen(pod("high"), job="default/high"))
    plugins = [{"name": name} for name in ("priority", "conformance", "predicates")]
    live = Scheduler(
        SchedulerConfig.from_mapping(
            {"actions": "allocate, preempt", "tiers": [{"plugins": plugins}]}
        )
    ).attach(kept.cluster)
    in_cycle(kept, live)
    assert kept.in_flight["low"].decision == "eviction"
    # Still seen running: the eviction is under way.
    kept.observe(seen(evolve(pod("low", TaskStatus.RUNNING, "n1"), labels={"a": "b"}), "3"))
    assert where(kept, "low") == ("Releasing", "n1")
    kept.observe(seen(pod("new"), "4"), Deleted("task", "low", "5"))
    assert in_cycle(kept, live) == [("high", "n1")]
    assert where(kept, "new") == ("Pending", None)


def test_an_eviction_of_which_nothing_is_seen_is_given_up(kept):
    kept.observe(Seen(evolve(JOB, name="high", priority=9)))
    kept.observe(seen(pod("low", TaskStatus.RUNNING, "n1")))
    kept.observe(Seen(pod("high"), job="default/high"))
    plugins = [{"name": name} for name in ("priority", "conformance", "predicates")]
    config = SchedulerConfig.from_mapping(
        {"actions": "allocate, preempt", "tiers": [{"plugins": plugins}]}
    )
    in_cycle(kept, Scheduler(config).attach(kept.cluster))
    [told] = kept.pass_time(31)
    assert (told.kind, where(kept, "low")) == (
        CorrectionKind.EVICTION_GIVEN_UP,
        ("Running", "n1"),
    )


def test_a_node_that_vanishes_with_a_bind_in_flight_is_closed_until_it_returns(kept):
    kept.observe(seen(pod("t")))
    in_cycle(kept)
    [told] = kept.observe(Deleted("node", "n1"))
    assert told.kind is CorrectionKind.NODE_GONE
    assert kept.cluster.node("n1").unschedulable
    kept.observe(seen(pod("u")))
    assert in_cycle(kept) == []
    assert kept.observe(Seen(node("n1", 2))) == ()
    assert where(kept) == ("Bound", "n1")
    assert in_cycle(kept) == [("u", "n1")]


def test_a_node_that_vanished_goes_when_nothing_is_on_it_any_more(kept):
    kept.observe(seen(pod("t")))
    in_cycle(kept)
    kept.observe(Deleted("node", "n1"))
    kept.pass_time(30)
    assert not kept.cluster.snapshot().nodes
    kept.observe(Seen(node("n1")), seen(pod("t", TaskStatus.RUNNING, "n1")))
    kept.observe(Deleted("node", "n1"))
    kept.observe(Deleted("task", "t"))
    assert not kept.cluster.snapshot().nodes


def test_a_task_on_a_node_that_was_not_seen_is_there():
    kept = Reconciler(Cluster())
    kept.observe(Seen(Queue(name="q")), Seen(JOB))
    [told] = kept.observe(seen(pod(status=TaskStatus.RUNNING, on="n9")))
    assert str(told) == "node n9 was not seen; it is closed until it is"
    kept.observe(seen(pod("u")))
    assert in_cycle(kept) == []
    kept.observe(Seen(node("n9", 2)))
    assert in_cycle(kept) == [("u", "n9")]


def test_tasks_wait_for_their_jobs_and_occupy_their_nodes_meanwhile():
    kept = Reconciler(Cluster())
    running = pod("r", TaskStatus.RUNNING, "n1")
    kept.observe(seen(running), seen(pod("w")), Seen(node("n1", 2)), Seen(Queue(name="q")))
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["r"]
    kept.observe(Seen(JOB))
    assert [task.uid for task in kept.cluster.job("default/j").tasks] == ["r", "w"]
    assert not kept.cluster.snapshot().other_tasks
    kept.observe(Deleted("job", "default/j"))
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["r"]


def test_queues_wait_for_those_above_them():
    kept = Reconciler(Cluster())
    leaf, middle = Queue(name="leaf", parent="middle"), Queue(name="middle", parent="top")
    kept.observe(Seen(leaf), Seen(Queue(name="own", parent="own")))
    kept.observe(Seen(middle))
    assert not kept.cluster.snapshot().queues
    kept.observe(Seen(Queue(name="top")))
    assert [queue.name for queue in kept.cluster.snapshot().queues] == ["leaf", "middle", "top"]
    kept.observe(Deleted("queue", "middle"))
    assert [queue.name for queue in kept.cluster.snapshot().queues] == ["top"]


def test_what_was_seen_before_is_not_news(kept):
    on_node = pod(status=TaskStatus.RUNNING, on="n1")
    for task, version in ((pod(), "a"), (on_node, "b"), (pod(), "a"), (on_node, "b")):
        kept.observe(seen(task, version))
    assert where(kept) == ("Running", "n1")
    # Where versions can be compared, what is older is not news although nobody saw it before.
    ordered = Reconciler(Cluster(), is_newer=lambda one, other: int(one) > int(other))
    ordered.observe(Seen(node("n1", 2), "20"))
    ordered.observe(Seen(node("n1", 1), "9"), Deleted("node", "n1", "19"))
    assert ordered.cluster.node("n1") == node("n1", 2)


def test_a_list_of_all_mends_what_was_missed(kept):
    kept.observe(seen(pod("a"), "1"), seen(pod("b"), "2"), Seen(node("n2"), "3"))
    in_cycle(kept)
    assert len(kept.in_flight) == 2
    kept.relist("task", [seen(pod("a", TaskStatus.RUNNING, "n1"), "7"), seen(pod("c"), "8")])
    assert [task.uid for task in kept.cluster.job("default/j").tasks] == ["a", "c"]
    assert not kept.in_flight
    kept.relist("node", [Seen(node("n1"), "1")])
    assert [each.name for each in kept.cluster.snapshot().nodes] == ["n1"]
    # In a list, what was known of deletions is forgotten.
    kept.relist("task", [seen(pod("b"), "9")])
    assert [task.uid for task in kept.cluster.job("default/j").tasks] == ["b"]


def test_all_of_a_job_follows_what_is_seen_of_it(kept):
    kept.observe(seen(pod("a", TaskStatus.RUNNING, "n1")), seen(pod("b")))
    for changed in (
        evolve(JOB, priority=7, max_available=1, deadline=9.0),
        evolve(JOB, min_available=2, estimate=60.0),
        evolve(JOB, preempts=False, claim_delay=5.0, evict_whole=True),
        JOB,
    ):
        kept.observe(Seen(changed))
        tasks = kept.cluster.job("default/j").tasks
        assert kept.cluster.job("default/j") == evolve(changed, tasks=tasks)
        assert [task.uid for task in tasks] == ["a", "b"]
    kept.observe(Seen(evolve(pod("b"), priority=5), job="default/k"), Seen(evolve(JOB, name="k")))
    assert [task.uid for task in kept.cluster.job("default/j").tasks] == ["a"]
    assert kept.cluster.job("default/k").tasks[0].priority == 5


@pytest.mark.parametrize("status", [TaskStatus.SUCCEEDED, TaskStatus.FAILED])
@pytest.mark.parametrize("runs", [True, False])
def test_a_task_that_ended_has_ended_wherever_it_was(kept, status, runs):
    kept.observe(seen(pod(status=TaskStatus.RUNNING, on="n1") if runs else pod()))
    kept.observe(seen(pod(status=status)))
    assert where(kept) == (status.value, None)


def test_nothing_is_half_done_if_something_seen_is_invalid(kept):
    kept.observe(seen(pod("a"), "1"))
    before = kept.cluster.snapshot()
    wrong = evolve(pod("b"), priority="high")
    with pytest.raises(EventError, match="priority"):
        kept.observe(Seen(node("n2"), "5"), seen(wrong, "6"))
    assert kept.cluster.snapshot() == before
    kept.observe(Seen(node("n2"), "5"), seen(pod("b"), "6"))
    assert len(kept.cluster.snapshot().nodes) == 2
    with pytest.raises(EventError) as told:
        kept.observe(
            "n1",  # type: ignore[arg-type]
            Seen(5),  # type: ignore[arg-type]
            Seen(evolve(JOB, tasks=[pod()])),
            Deleted("pod", "x"),  # type: ignore[arg-type]
            Seen(node("n1"), 7),  # type: ignore[arg-type]
        )
    assert [fault.path for fault in told.value.faults] == [
        "observations[0]", "observations[1].item", "observations[2].item.tasks",
        "observations[3]", "observations[4].version",
    ]  # fmt: skip
    with pytest.raises(EventError, match="expected objects of kind 'node', got"):
        kept.relist("node", [Seen(Queue(name="q"))])
    with pytest.raises(EventError, match=r"give_up_after: .* above 0, got 0"):
        Reconciler(Cluster(), give_up_after=0)


# ------------------------------------------------------------------ a long run with faults


def run(seed: int, cycles: int) -> tuple[ApiServer, Reconciler]:
    random = Random(seed)
    server = ApiServer(random)
    server.put("queue", "q", Queue(name="q"))
    for number in range(4):
        server.put("node", f"n{number}", node(f"n{number}", 2))
    kept = Reconciler(
        Cluster(), give_up_after=8, is_newer=None if seed % 2 else (lambda a, b: int(a) > int(b))
    )
    scheduler = Scheduler()
    live = scheduler.attach(kept.cluster)
    submitted = 0
    for number in range(cycles):
        server.work()
        if random.random() < 0.35 and len(server.jobs) < 12:
            submitted += 1
            size = random.choice((1, 1, 2, 3))
            job = JobInfo(name=f"j{submitted}", queue="q", min_available=random.randint(1, size))
            server.submit(job, size)
        if random.random() < 0.02:
            name = f"n{random.randrange(4)}"
            if name in server.nodes and len(server.nodes) > 2:
                server.drop("node", name)
            elif name not in server.nodes:
                server.put("node", name, node(name, 2))
        for uid in list(server.tasks):
            if random.random() < 0.002:
                server.replace(uid)
        kept.observe(*server.arrived())
        if number % 40 == 39:
            for kind in KINDS:
                kept.relist(kind, server.listed(kind))
        kept.pass_time(kept.cluster.now + 1)
        cycle = live.schedule(reasons=False)
        if number % 25 == 0:
            assert cycle == scheduler.schedule(kept.cluster.snapshot(), reasons=False)
        kept.carry_out(cycle)
        for bind in cycle.binds:
            server.ask("bind", bind.task_uid, bind.node_name)
        for eviction in cycle.evictions:
            server.ask("evict", eviction.task_uid)
        for name in server.nodes:  # the reconciler's books hold what it decided itself
            there = kept.cluster.content.on_node.get(name, ())
            promised = [uid for uid in there if uid in kept.in_flight]
            assert all(kept.cluster.task(uid).status.holds for uid in promised)
    return server, kept


def is_quiet(server: ApiServer, kept: Reconciler) -> None:
    """Without faults, all that waits runs and ends, and both agree on everything."""
    server.faulty = False
    server.outbox.clear()
    for name in ("n0", "n1", "n2", "n3"):
        server.put("node", name, node(name, 2))
    for kind in KINDS:
        kept.relist(kind, server.listed(kind))
    live = Scheduler().attach(kept.cluster)
    for _ in range(400):
        server.work()
        kept.observe(*server.arrived())
        kept.pass_time(kept.cluster.now + 1)
        cycle = live.schedule(reasons=False)
        kept.carry_out(cycle)
        for bind in cycle.binds:
            server.ask("bind", bind.task_uid, bind.node_name)
        if not server.jobs:
            break
    assert not server.jobs, "some jobs never ran to their end"
    kept.observe(*server.arrived())
    left = kept.cluster.snapshot()
    assert not left.jobs
    assert not left.other_tasks
    assert left.nodes == tuple(server.nodes[name] for name in sorted(server.nodes))


@pytest.mark.parametrize("seed", range(2))
def test_a_reconciled_cluster_stays_true_under_faults(seed):
    server, kept = run(seed, 150)
    assert len(server.finished) > 5
    is_quiet(server, kept)


@pytest.mark.slow
@pytest.mark.night
@pytest.mark.parametrize("seed", range(2, 6))
def test_nothing_is_lost_in_many_cycles_with_faults(seed):
    cycles = 5_000
    server, kept = run(seed, cycles)
    assert len(server.finished) > cycles / 10
    assert server.rejected < cycles / 50  # only what was bound after it had been given up
    is_quiet(server, kept)
