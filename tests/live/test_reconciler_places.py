"""What is seen of racks, devices, groups and numbers, in any order, and kept."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve, fields
from tests.live.test_reconciler import JOB, in_cycle, node, pod, seen, where

from batchsched import (
    Budget,
    Domain,
    EventError,
    JobInfo,
    LabelSelector,
    NodeInfo,
    Queue,
    Scheduler,
    SchedulerConfig,
    Segment,
    Snapshot,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Topology,
    TopologyRequest,
)
from batchsched.devices import CounterSet, Device, DeviceClaim, DevicePick, DeviceRequest
from batchsched.kubernetes import WatchedObjects
from batchsched.live import Cluster, CorrectionKind, Deleted, HeldDevices, Reconciler, Seen

RUNNING = TaskStatus.RUNNING
GPU = DeviceClaim(name="gpu", requests=[DeviceRequest(name="gpu")])
PLUGINS = ("gang", "predicates", "devices", "topology")
CONFIG = SchedulerConfig.from_mapping(
    {"actions": "allocate", "tiers": [{"plugins": [{"name": name} for name in PLUGINS]}]}
)
QUEUE = Seen(Queue(name="q"))


def pick(name: str, pool: str = "") -> DevicePick:
    return DevicePick(claim="gpu", request="gpu", device=("", pool, name))


def with_gpu(task: TaskInfo, *names: str) -> TaskInfo:
    return evolve(task, claims=[GPU], devices=[pick(name) for name in names] or None)


def gpu_node(name: str = "n1", gpus: int = 2) -> NodeInfo:
    return evolve(node(name, 8), devices=[Device(name=f"g{number}") for number in range(gpus)])


@pytest.fixture(name="kept")
def _kept() -> Reconciler:
    kept = Reconciler(Cluster(), give_up_after=30)
    kept.observe(QUEUE, Seen(gpu_node()), Seen(JOB))
    return kept


def next_device(kept: Reconciler, uid: str) -> list[str]:
    """Which device one more task is given; it is decided on the books from scratch, too."""
    kept.observe(seen(with_gpu(pod(uid))))
    cycle = Scheduler(CONFIG).attach(kept.cluster).schedule()
    assert cycle == Scheduler(CONFIG).schedule(kept.cluster.snapshot())
    kept.carry_out(cycle)
    return [each.device[2] for bind in cycle.binds for each in bind.devices or ()]


# ------------------------------------------------------------------ what is seen of a task is kept


@pytest.mark.parametrize("known", ["nothing", "waiting", "in flight", "given up"])
def test_a_device_that_a_task_is_seen_with_is_given_to_no_other(kept, known):
    task = with_gpu(pod())
    if known != "nothing":
        kept.observe(seen(task))
    if known in ("in flight", "given up"):
        in_cycle(kept, Scheduler(CONFIG).attach(kept.cluster))
    if known == "given up":
        kept.pass_time(31)
    kept.observe(seen(with_gpu(pod(status=RUNNING, on="n1"), "g0")))
    assert kept.cluster.task("t").devices == (pick("g0"),)
    assert next_device(kept, "u") == ["g1"]
    kept.relist("task", [seen(with_gpu(pod(status=RUNNING, on="n1"), "g0")), seen(pod("u"))])
    assert kept.cluster.task("t").devices == (pick("g0"),)


def test_a_device_that_was_chosen_is_kept_where_what_is_seen_does_not_tell_it(kept):
    assert next_device(kept, "t") == ["g0"]
    chosen = kept.cluster.task("t").devices
    for item in (pod(status=TaskStatus.BOUND, on="n1"), pod(status=RUNNING, on="n1")):
        kept.observe(seen(with_gpu(item)))
        assert kept.cluster.task("t").devices == chosen
    # Its job may go before it, and another may come.
    kept.observe(Deleted("job", JOB.uid))
    assert kept.cluster.snapshot().other_tasks[0].devices == chosen
    kept.observe(Seen(JOB))
    assert kept.cluster.task("t").devices == chosen
    # A job that changes in what no event says comes anew, with its tasks.
    kept.observe(Seen(evolve(JOB, estimate=60.0)))
    assert kept.cluster.task("t").devices == chosen
    assert next_device(kept, "u") == ["g1"]


def test_choices_group_and_number_are_kept_as_seen(kept):
    kept.observe(Seen(evolve(JOB, groups=[TaskGroup(name="a", min=1), TaskGroup(name="b", min=0)])))
    kept.observe(seen(evolve(pod(), group="a", index=0)))
    there = evolve(pod(status=RUNNING, on="n1"), group="b", index=3, choices={"mine": "left"})
    kept.observe(seen(there))
    task = kept.cluster.task("t")
    assert (task.group, task.index, dict(task.choices)) == ("b", 3, {"mine": "left"})


def test_when_a_task_began_is_known_after_its_job_has_gone(kept):
    kept.observe(seen(pod(status=RUNNING, on="n1")))
    kept.pass_time(20)
    kept.observe(Deleted("job", JOB.uid))
    assert kept.cluster.task("t").start_time == 0


# ------------------------------------------------------------------ before its job, and after it


@pytest.mark.parametrize("status", [RUNNING, TaskStatus.RELEASING, TaskStatus.UNKNOWN])
def test_a_task_of_a_group_occupies_its_node_before_its_job_comes_and_after_it_has_gone(status):
    kept = Reconciler(Cluster())
    job = evolve(JOB, groups=[TaskGroup(name="workers", min=1)])
    running = evolve(pod(status=status, on="n1"), group="workers", index=0)
    waiting = evolve(pod("w"), group="workers", index=1)
    kept.observe(QUEUE, Seen(node("n1", 2)), seen(running), seen(waiting))
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["t"]
    kept.observe(Seen(job))
    assert [task.group for task in kept.cluster.job(job.uid).tasks] == ["workers"] * 2
    kept.observe(Deleted("job", job.uid))
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["t"]
    kept.observe(Deleted("task", "t"), Deleted("task", "w"))
    assert not kept.cluster.snapshot().other_tasks


def test_a_task_waits_for_its_group():
    kept = Reconciler(Cluster())
    running = evolve(pod(status=RUNNING, on="n1"), group="late")
    kept.observe(
        QUEUE, Seen(node("n1")), Seen(JOB), seen(running), seen(evolve(pod("w"), group="late"))
    )
    assert not kept.cluster.job(JOB.uid).tasks
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["t"]
    kept.observe(Seen(evolve(JOB, groups=[TaskGroup(name="late", min=1)])))
    assert [task.uid for task in kept.cluster.job(JOB.uid).tasks] == ["t", "w"]
    kept.observe(Seen(JOB))
    assert not kept.cluster.job(JOB.uid).tasks


RACKS = Topology("net", ("block", "rack"))
IN_RACKS = TopologyRequest("net", required="block", segments=[Segment(2, "rack")])
NESTED = TopologyRequest(
    "net", required="block", segments=[Segment(4, "block"), Segment(2, "rack")]
)


def rack_node(number: int, cpus: int = 2) -> NodeInfo:
    labels = {"block": f"b{number // 4}", "rack": f"r{number // 2}"}
    return evolve(node(f"n{number}", cpus), labels=labels)


def in_racks(request: TopologyRequest) -> Reconciler:
    kept = Reconciler(Cluster())
    nodes = [Seen(rack_node(number)) for number in range(8)]
    kept.observe(QUEUE, *nodes, Seen(RACKS), Seen(evolve(JOB, topology=request)))
    return kept


def numbered(uid: str, index: int, status: TaskStatus = RUNNING, on: str | None = "n0") -> Seen:
    return seen(evolve(pod(uid, status, on), index=index))


@pytest.mark.parametrize("on", [None, "n1"])
def test_a_replacement_whose_number_another_task_still_has_waits_for_it(on):
    kept = in_racks(IN_RACKS)
    kept.observe(numbered("a", 0), numbered("b", 1))
    kept.observe(numbered("c", 1, TaskStatus.PENDING if on is None else RUNNING, on))
    assert [task.uid for task in kept.cluster.job(JOB.uid).tasks] == ["a", "b"]
    others = kept.cluster.snapshot().other_tasks
    assert [task.node_name for task in others] == ([] if on is None else [on])
    # One that leaves gives its number away; so does one that has ended, and one that has gone.
    kept.observe(numbered("b", 1, TaskStatus.RELEASING))
    assert [task.index for task in kept.cluster.job(JOB.uid).tasks] == [0, None, 1]
    kept.observe(numbered("b", 1, TaskStatus.FAILED, None))
    assert [task.index for task in kept.cluster.job(JOB.uid).tasks] == [0, None, 1]
    kept.observe(Deleted("task", "b"))
    assert [task.uid for task in kept.cluster.job(JOB.uid).tasks] == ["a", "c"]
    assert not kept.cluster.snapshot().other_tasks


def test_tasks_of_nested_segments_come_and_go_one_by_one():
    kept = in_racks(NESTED)
    for number in range(3):
        kept.observe(numbered(f"t{number}", number, TaskStatus.PENDING, None))
        assert not kept.cluster.job(JOB.uid).tasks
    kept.observe(numbered("t3", 3, TaskStatus.PENDING, None))
    assert len(kept.cluster.job(JOB.uid).tasks) == 4
    kept.observe(*(numbered(f"t{number}", number, on=f"n{number}") for number in range(4)))
    kept.observe(Deleted("task", "t1"))
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["t0", "t2", "t3"]
    kept.observe(numbered("t9", 1, TaskStatus.PENDING, None))
    assert [task.uid for task in kept.cluster.job(JOB.uid).tasks] == ["t0", "t2", "t3", "t9"]


# ------------------------------------------------------------------ every part of a snapshot


SHARED = Snapshot(
    nodes=[
        rack_node(0),
        evolve(
            rack_node(1),
            devices=[Device(name="part", pool="p", counters={"whole": {"memory": 5}})],
        ),
    ],
    queues=[Queue(name="q")],
    jobs=[
        evolve(JOB, topology=TopologyRequest("rails", required="rail"), tasks=[pod("t"), pod("u")]),
        JobInfo(name="k", queue="q", tasks=[with_gpu(pod("v"))]),
    ],
    topologies=[RACKS, Topology("rails", ("rail",), [Domain("rail", "r1", ["n0", "n1"])])],
    devices=[Device(name=f"x{n}", pool="far") for n in range(3)]
    + [Device(name="y", pool="p", counters={"whole": {"memory": 4}})],
    counter_sets=[CounterSet(name="whole", pool="p", counters={"memory": 8})],
    budgets=[Budget(name="b", selector=LabelSelector(match_labels={"a": "b"}), min_available=1)],
    held=[DevicePick(claim="theirs", request="gpu", device=("", "far", "x0"))],
)


def test_each_part_of_a_snapshot_is_seen():
    reckoned = {"now", "evictions", "evictions_kept", "other_tasks"}
    parts = {each.name for each in fields(Snapshot) if each.init} - reckoned
    assert all(getattr(SHARED, part) for part in parts)


def observations(snapshot: Snapshot) -> list[Seen]:
    held: dict[str, list[DevicePick]] = {}
    for each in snapshot.held:
        held.setdefault(each.claim, []).append(each)
    return [
        *map(Seen, snapshot.queues),
        *map(Seen, snapshot.nodes),
        *map(Seen, snapshot.topologies),
        *map(Seen, snapshot.devices),
        *map(Seen, snapshot.budgets),
        *map(Seen, snapshot.counter_sets),
        *(Seen(HeldDevices(claim, picks)) for claim, picks in held.items()),
        *(Seen(evolve(job, tasks=())) for job in snapshot.jobs),
        *(Seen(task, job=job.uid) for job in snapshot.jobs for task in job.tasks),
        *map(Seen, snapshot.other_tasks),
    ]


def test_all_parts_of_a_snapshot_can_be_told_at_once():
    kept = Reconciler(Cluster())
    assert kept.observe_all(SHARED) == ()
    assert kept.cluster.snapshot() == SHARED
    cycle = Scheduler(CONFIG).attach(kept.cluster).schedule()
    assert cycle == Scheduler(CONFIG).schedule(SHARED)
    assert len(cycle.binds) == 3
    kept.observe_all(Snapshot())
    assert kept.cluster.snapshot() == Snapshot()


def test_a_cluster_that_had_something_before_is_as_the_first_list_says():
    kept = Reconciler(Cluster(SHARED))
    wanted = evolve(SHARED, topologies=[RACKS], jobs=[], devices=[], held=[])
    kept.observe_all(wanted)
    assert kept.cluster.snapshot() == wanted


@pytest.mark.parametrize("seed", range(20))
def test_all_parts_of_a_snapshot_can_be_told_one_by_one_in_any_order_and_taken_back(seed):
    kept = Reconciler(Cluster())
    told = observations(SHARED)
    Random(seed).shuffle(told)
    for each in told:
        kept.observe(each)
    there = kept.cluster.snapshot()
    in_order = evolve(there, devices=sorted(there.devices, key=lambda each: each.name))
    assert in_order == SHARED
    kept.relist("device", map(Seen, SHARED.devices))
    assert kept.cluster.snapshot() == SHARED
    Random(seed + 1).shuffle(told)
    for each in told:
        kept.observe(Deleted(each.kind, each.name))
    assert kept.cluster.snapshot() == Snapshot()


def test_a_job_waits_for_the_topologies_that_it_asks_for():
    kept = Reconciler(Cluster())
    job = evolve(JOB, topology=TopologyRequest("net", required="rack"))
    [told] = kept.observe(QUEUE, Seen(rack_node(0)), Seen(job), seen(pod(status=RUNNING, on="n0")))
    assert told.kind is CorrectionKind.JOB_WAITS
    assert str(told).startswith("job default/j waits for a topology: topology.topology: ")
    assert [task.uid for task in kept.cluster.snapshot().other_tasks] == ["t"]
    [told] = kept.observe(Seen(Topology("net", ("block",))))
    assert "topology.required" in str(told)
    assert kept.observe(Seen(RACKS)) == ()
    assert kept.cluster.job(job.uid).tasks[0].uid == "t"
    kept.observe(Deleted("topology", "net"))
    assert not kept.cluster.snapshot().jobs
    with pytest.raises(EventError, match=r"item\.groups"):
        kept.observe(Seen(evolve(JOB, groups=[5])))


def test_a_topology_lists_those_of_its_nodes_that_are_there():
    kept = Reconciler(Cluster())
    rails = Topology("rails", ("rail",), [Domain("rail", "r1", ["n0", "n1"])])
    kept.observe(Seen(rails), Seen(rack_node(0)))
    listed = [kept.cluster.snapshot().topologies[0].domains[0].nodes]
    kept.observe(Seen(rack_node(1)))
    listed.append(kept.cluster.snapshot().topologies[0].domains[0].nodes)
    kept.observe(Deleted("node", "n0"))
    listed.append(kept.cluster.snapshot().topologies[0].domains[0].nodes)
    assert listed == [("n0",), ("n0", "n1"), ("n1",)]


def test_watched_topologies_and_devices_reach_the_cluster():
    watch = WatchedObjects()

    def apply(version: str, kind: str, name: str, **content: object) -> None:
        metadata = {"name": name, "resourceVersion": "1", **content.pop("metadata", {})}
        whole = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
        watch.apply({"type": "ADDED", "object": whole})

    rack = "example.com/rack"
    levels = [{"nodeLabel": rack}]
    apply("kueue.x-k8s.io/v1beta1", "Topology", "net", spec={"levels": levels})
    apply(
        "v1", "Node", "n1", metadata={"labels": {rack: "r1"}}, status={"allocatable": {"cpu": "8"}}
    )
    apply(
        "resource.k8s.io/v1",
        "ResourceSlice",
        "slice",
        spec={
            "driver": "gpu.example.com",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "far"}],
        },
    )
    kept = Reconciler(Cluster())
    kept.observe_all(watch.dump().snapshot)
    there = kept.cluster.snapshot()
    assert [topology.name for topology in there.topologies] == ["net"]
    assert [device.name for device in there.devices] == ["far"]


def test_a_decision_is_not_given_up_before_the_next_list():
    with pytest.raises(EventError, match=r"list_every: .* below give_up_after, 30, got 60"):
        Reconciler(Cluster(), give_up_after=30, list_every=60)
    kept = Reconciler(Cluster(), give_up_after=90, list_every=60)
    kept.observe(QUEUE, Seen(node("n1")), Seen(JOB), seen(pod()))
    assert in_cycle(kept) == [("t", "n1")]
    # It starts, and the event is lost.
    assert kept.pass_time(60) == ()
    kept.relist("task", [seen(pod(status=RUNNING, on="n1"))])
    kept.pass_time(90)
    assert (where(kept), in_cycle(kept)) == (("Running", "n1"), [])


# ------------------------------------------------------------------ drawn histories


class _World:
    """A cluster as it is, with racks, devices, groups and replacements; it keeps its own books."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.items: dict[tuple[str, str], Seen] = {}
        self.made = 0
        self.put(QUEUE)
        for number in range(4):
            self.put(
                Seen(evolve(rack_node(number), devices=[Device(name="g0"), Device(name="g1")]))
            )

    def put(self, item: Seen) -> Seen:
        self.items[item.kind, item.name] = item
        return item

    def drop(self, key: tuple[str, str]) -> Deleted:
        del self.items[key]
        return Deleted(*key)  # type: ignore[arg-type]

    def named(self, kind: str) -> list[Seen]:
        return [item for key, item in self.items.items() if key[0] == kind]

    def change(self) -> Seen | Deleted | None:
        """Let something happen; return what is to be seen of it."""
        draw = self.random
        what = draw.choice(
            ["job", "task", "task", "place", "place", "leave", "drop", "topology", "change"]
        )
        if what == "topology":
            names = [item.name for item in self.named("topology")]
            if names and draw.random() < 0.3:
                return self.drop(("topology", names[0]))
            nodes = [item.name for item in self.named("node")]
            rails = Topology(
                "rails", ("rail",), [Domain("rail", "r", draw.sample(nodes, len(nodes) // 2))]
            )
            return self.put(Seen(draw.choice([RACKS, RACKS, rails])))
        if what == "job":
            request = draw.choice(
                [None, IN_RACKS, NESTED, TopologyRequest("rails", required="rail")]
            )
            groups = draw.choice([(), (TaskGroup(name="a", min=1), TaskGroup(name="b", min=0))])
            name = f"j{draw.randrange(3)}"
            return self.put(Seen(JobInfo(name=name, queue="q", topology=request, groups=groups)))
        tasks = self.named("task")
        if what == "task":
            self.made += 1
            group, index = draw.choice([None, "a", "b"]), draw.choice([None, 0, 1, 2, 3])
            task = evolve(pod(f"t{self.made}"), group=group, index=index)
            return self.put(
                Seen(draw.choice([task, with_gpu(task)]), job=f"default/j{draw.randrange(3)}")
            )
        if what == "drop":
            keys = [key for key in self.items if key[0] in ("job", "task", "node")]
            return self.drop(draw.choice(keys)) if keys else None
        if not tasks:
            return None
        one = draw.choice(tasks)
        task = one.item
        assert isinstance(task, TaskInfo)
        if what == "place" and task.status is TaskStatus.PENDING:
            on = f"n{draw.randrange(4)}"
            held = {
                each.device[2]
                for other in tasks
                if isinstance(other.item, TaskInfo) and other.item.node_name == on
                for each in other.item.devices or ()
            }
            free = [name for name in ("g0", "g1") if name not in held]
            if task.claims and not free:
                return None
            devices = [pick(free[0])] if task.claims else None
            return self.put(
                evolve(one, item=evolve(task, status=RUNNING, node_name=on, devices=devices))
            )
        if what == "leave" and task.status is RUNNING:
            status = draw.choice([TaskStatus.RELEASING, TaskStatus.FAILED, TaskStatus.SUCCEEDED])
            node_name = task.node_name if status.holds else None
            return self.put(
                evolve(
                    one,
                    item=evolve(
                        task,
                        status=status,
                        node_name=node_name,
                        devices=task.devices if status.holds else None,
                    ),
                )
            )
        return self.put(evolve(one, item=evolve(task, labels={"v": str(draw.randrange(9))})))


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(n, marks=pytest.mark.slow) for n in range(8, 60))]
)
def test_after_any_history_the_cluster_is_as_if_all_had_been_seen_at_once(seed):
    """Messages are lost, late and in another order; what was seen last of each object counts."""
    world, draw = _World(seed), Random(seed)
    kept = Reconciler(Cluster())
    kept.observe(*world.items.values())
    late: list[Seen | Deleted] = []
    for step in range(150):
        message = world.change()
        if message is None:
            continue
        if draw.random() < 0.2:
            late.append(message)
        else:
            named = {(each.kind, each.name) for each in late}
            if (message.kind, message.name) not in named:
                kept.observe(message)
            else:
                late.append(message)
        if late and draw.random() < 0.2:
            # Each object's messages stay in order, different objects' do not.
            last = {(each.kind, each.name): each for each in late}
            late.clear()
            told = list(last.values())
            draw.shuffle(told)
            kept.observe(*told)
        _books_agree(world, kept, {each.name for each in late})
        if step % 10 == 0:
            Scheduler(CONFIG).schedule(kept.cluster.snapshot(), reasons=False)
    last = {(each.kind, each.name): each for each in late}
    kept.observe(*last.values())
    fresh = Reconciler(Cluster())
    shuffled = list(world.items.values())
    draw.shuffle(shuffled)
    for each in shuffled:
        fresh.observe(each)
    assert _as_seen(kept) == _as_seen(fresh)
    relisted = Reconciler(Cluster())
    relisted.observe(*world.items.values())
    assert _as_seen(kept) == _as_seen(relisted)


def _as_seen(kept: Reconciler) -> Snapshot:
    """What is there, but for what only one can remember of nodes that have gone."""
    snapshot = kept.cluster.snapshot()
    nodes = [NodeInfo(name=e.name) if e.unschedulable else e for e in snapshot.nodes]
    return evolve(snapshot, nodes=nodes)


def _books_agree(world: _World, kept: Reconciler, unseen: set[str]) -> None:
    """Each task that is on a node holds what it was seen with, once."""
    for seen_task in world.named("task"):
        task = seen_task.item
        assert isinstance(task, TaskInfo)
        if task.uid in unseen or not task.status.holds:
            continue
        there = kept.cluster.task(task.uid)
        assert (there.node_name, there.status) == (task.node_name, task.status)
        assert there.devices == task.devices
