"""Snapshots: what they keep, and every fault that they find, with its path and message."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Iterable
from fractions import Fraction
from math import nan

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from batchsched.errors import BatchschedError, Fault, SnapshotError
from batchsched.model.cluster import JobInfo, NodeInfo, Queue, ScoringRequest, TaskInfo
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.model.resources import Resource
from batchsched.model.snapshot import Snapshot
from batchsched.model.status import TaskStatus
from batchsched.model.validation.snapshot import task_problems
from batchsched.scheduler import Scheduler

NAN, INF = float("nan"), float("inf")
HUGE = 10**400  # no float can hold it

N1 = NodeInfo(name="n1", allocatable=Resource(milli_cpu=4000, memory=1000, scalars={"x": 2}))
Q = Queue(name="q")


def cut(value: object) -> str:
    """Return what a message shows of a value: 80 characters at most."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def task(uid: str = "t", **content: object) -> TaskInfo:
    return TaskInfo(**{"uid": uid, "name": "worker", **content})


def job(name: str = "j", *tasks: TaskInfo, **content: object) -> JobInfo:
    return JobInfo(**{"name": name, "queue": "q", "tasks": tasks, **content})


def with_task(**content: object) -> dict[str, object]:
    """A snapshot's content with one task, after a sound one: what it shares is known by then."""
    tasks = task("a", labels={"a": "b"}), task(**content)
    return {"nodes": [N1], "queues": [Q], "jobs": [job("j", *tasks)]}


def faults_of(content: dict[str, object]) -> list[str]:
    with pytest.raises(SnapshotError) as caught:
        Snapshot(**content)
    return [str(fault) for fault in caught.value.faults]


def example_snapshot(seed: int = 0) -> Snapshot:
    """A sound snapshot with some of everything, given in an order that depends on the seed."""
    shuffle = random.Random(seed).shuffle

    def mixed(items: Iterable[object]) -> list[object]:
        listed = list(items)
        shuffle(listed)
        return listed

    request = Resource(milli_cpu=100, memory=10)
    statuses = [TaskStatus.PENDING, TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.RESERVED]
    return Snapshot(
        nodes=mixed(
            NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=1000, memory=100))
            for i in range(5)
        ),
        queues=mixed(Queue(name=f"q{i}", weight=i + 1) for i in range(4)),
        jobs=mixed(
            JobInfo(
                name=f"j{i}",
                namespace=f"ns{i % 3}",
                queue=f"q{i % 5}",  # one of them is of no queue, which is no fault
                tasks=mixed(
                    task(
                        f"{i}-{status.value}",
                        status=status,
                        node_name=None if status is TaskStatus.PENDING else f"n{i % 5}",
                        resreq=request,
                        labels={"app": f"a{i}"},
                    )
                    for status in statuses
                ),
            )
            for i in range(8)
        ),
        other_tasks=mixed(
            task(f"o{i}", status=TaskStatus.RUNNING, node_name=f"n{i}", resreq=request)
            for i in range(3)
        ),
        now=17.5,
    )


class TestContent:
    def test_everything_is_kept_in_a_total_order(self) -> None:
        snapshot = example_snapshot(seed=3)
        assert [node.name for node in snapshot.nodes] == ["n0", "n1", "n2", "n3", "n4"]
        assert [queue.name for queue in snapshot.queues] == ["q0", "q1", "q2", "q3"]
        uids = [found.uid for found in snapshot.jobs]
        assert uids == sorted(f"ns{i % 3}/j{i}" for i in range(8))
        assert [found.uid for found in snapshot.other_tasks] == ["o0", "o1", "o2"]
        for found in snapshot.jobs:
            assert [t.uid for t in found.tasks] == sorted(t.uid for t in found.tasks)
        assert snapshot.now == 17.5

    @given(st.integers(0, 2**32))
    def test_the_order_in_which_things_are_given_does_not_matter(self, seed: int) -> None:
        assert example_snapshot(seed) == example_snapshot()
        assert hash(example_snapshot(seed)) == hash(example_snapshot())
        assert repr(example_snapshot(seed)) == repr(example_snapshot())

    def test_names_are_ordered_by_code_point(self) -> None:
        names = ["\u00e9", "a", "Z", "n10", "n9", "n1"]
        snapshot = Snapshot(nodes=[NodeInfo(name=name) for name in names])
        assert [node.name for node in snapshot.nodes] == ["Z", "a", "n1", "n10", "n9", "\u00e9"]

    def test_it_may_be_empty(self) -> None:
        snapshot = Snapshot()
        assert (snapshot.nodes, snapshot.jobs, snapshot.queues) == ((), (), ())
        assert (snapshot.other_tasks, snapshot.now) == ((), 0)

    def test_any_collection_will_do(self) -> None:
        expected = Snapshot(nodes=(N1,), queues=(Q,), jobs=(job(),), other_tasks=(task(),))
        assert expected == Snapshot(
            nodes=iter([N1]),
            queues={"q": Q}.values(),
            jobs={job()},
            other_tasks=(t for t in [task()]),
        )

    def test_it_cannot_be_changed(self) -> None:
        snapshot = example_snapshot()
        for field in attrs.fields(Snapshot):
            with pytest.raises(FrozenInstanceError):
                setattr(snapshot, field.name, ())
        with pytest.raises((FrozenInstanceError, AttributeError)):
            snapshot.note = "new"

    def test_it_can_be_pickled_and_copied(self) -> None:
        snapshot = example_snapshot()
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            again = pickle.loads(pickle.dumps(snapshot, protocol))
            assert again == snapshot
            assert hash(again) == hash(snapshot)
            assert again.jobs[0].uid == snapshot.jobs[0].uid
        assert copy.deepcopy(snapshot) == snapshot
        assert copy.copy(snapshot) == snapshot

    @pytest.mark.parametrize(
        "change",
        [
            {"nodes": ()},
            {"jobs": ()},
            {"queues": ()},
            {"other_tasks": ()},
            {"now": 17.25},
        ],
    )
    def test_a_difference_in_anything_makes_a_difference(self, change: dict) -> None:
        snapshot = Snapshot(nodes=[N1], queues=[Q], jobs=[job()], other_tasks=[task()], now=17.5)
        assert attrs.evolve(snapshot, **change) != snapshot

    def test_a_difference_deep_inside_makes_a_difference(self) -> None:
        one, other = (Snapshot(jobs=[job("j", task(labels={"app": app}))]) for app in ("db", "web"))
        assert one != other

    def test_changing_a_copy_checks_it_again(self) -> None:
        snapshot = Snapshot(nodes=[N1], other_tasks=[task(status=TaskStatus.BOUND, node_name="n1")])
        with pytest.raises(SnapshotError, match="there is no node 'n1' in this snapshot"):
            attrs.evolve(snapshot, nodes=())

    def test_positional_arguments_are_refused(self) -> None:
        with pytest.raises(TypeError):
            Snapshot([N1])


class TestSound:
    """What is no fault."""

    @pytest.mark.parametrize(
        "content",
        [
            {"jobs": [job("j", queue="no such queue")]},
            {"jobs": [job("j", min_available=0)]},
            {"jobs": [job("j", min_available=5)]},
            {"jobs": [job("j", priority=-(10**299))]},
            {"jobs": [job("j", namespace="a"), job("j", namespace="b")]},
            {"jobs": [job("j", task("a"), task("b"))]},  # the same name twice
            {"nodes": [NodeInfo(name="q")], "queues": [Queue(name="q")]},
            {"nodes": [NodeInfo(name="n", max_tasks=0)]},
            {"nodes": [NodeInfo(name="n", labels={"a": ""}, conditions={"Ready": "Unknown"})]},
            {"now": -5},
            {"now": 10**300},
            with_task(status=TaskStatus.SUCCEEDED),
            with_task(status=TaskStatus.FAILED),
            with_task(status=TaskStatus.RELEASING),
            with_task(status=TaskStatus.UNKNOWN),
            with_task(status=TaskStatus.RELEASING, node_name="n1"),
            with_task(status=TaskStatus.UNKNOWN, node_name="n1"),
            with_task(status=TaskStatus.BINDING, node_name="n1"),
            with_task(status=TaskStatus.BOUND, node_name="n1"),
            with_task(status=TaskStatus.RUNNING, node_name="n1"),
            with_task(status=TaskStatus.RESERVED, node_name="n1"),
            with_task(status=TaskStatus.RESERVED, node_name="gone"),
            with_task(priority=-3, priority_class_name="", creation_time=-1),
            with_task(resreq=Resource(milli_cpu=0.5, memory=1e300, scalars={"x": 0})),
            with_task(resreq=Resource(milli_cpu=2), init_resreq=Resource(milli_cpu=1.95)),
            with_task(scoring_request=ScoringRequest(milli_cpu=0, memory=0)),
            with_task(labels={"": ""}, node_selector={"a": ""}),
            with_task(tolerations=[Toleration(operator=TolerationOperator.EXISTS)]),
            with_task(host_ports=[HostPort(port=1), HostPort(port=65535, protocol="SCTP")]),
            with_task(node_affinity=NodeAffinity(required=[])),
            with_task(node_affinity=NodeAffinity(required=[NodeSelectorTerm()])),
            with_task(
                node_affinity=NodeAffinity(
                    required=[
                        NodeSelectorTerm(
                            match_expressions=[
                                Requirement(key="g", operator=Operator.GT, values=["-1"]),
                                Requirement(key="g", operator=Operator.IN, values=["", "b"]),
                                Requirement(key="g", operator=Operator.EXISTS),
                            ],
                            match_fields=[
                                Requirement(
                                    key="metadata.name", operator=Operator.IN, values=["n1"]
                                )
                            ],
                        )
                    ],
                    preferred=[PreferredNodeTerm(weight=100, term=NodeSelectorTerm())],
                )
            ),
            with_task(
                pod_affinity=PodAffinity(
                    required=[PodAffinityTerm(topology_key="zone")],
                    preferred=[
                        WeightedPodTerm(
                            weight=1,
                            term=PodAffinityTerm(
                                topology_key="zone",
                                namespaces=["a"],
                                selector=LabelSelector(match_labels={"a": "b"}),
                            ),
                        )
                    ],
                )
            ),
        ],
    )
    def test_it_is_accepted(self, content: dict[str, object]) -> None:
        snapshot = Snapshot(**content)
        for one in (one for given_job in snapshot.jobs for one in given_job.tasks):
            assert list(task_problems(one, {"n1"})) == []  # nor by the thorough check


class TestPlainFaults:
    """Names, numbers and times."""

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            ({"now": NAN}, "now: expected a time (a finite number of seconds), got nan"),
            ({"now": INF}, "now: expected a time (a finite number of seconds), got inf"),
            ({"now": None}, "now: expected a time (a finite number of seconds), got None"),
            ({"now": True}, "now: expected a time (a finite number of seconds), got True"),
            ({"now": "noon"}, "now: expected a time (a finite number of seconds), got 'noon'"),
            ({"nodes": [NodeInfo(name="")]}, "nodes[''].name: is empty"),
            ({"nodes": [NodeInfo(name=5)]}, "nodes[5].name: expected a text, got 5"),
            ({"nodes": [NodeInfo(name=[])]}, "nodes[[]].name: expected a text, got []"),
            (
                {"nodes": [NodeInfo(name="n"), NodeInfo(name="n", max_tasks=2)]},
                "nodes['n']: this name is given twice",
            ),
            (
                {"nodes": [NodeInfo(name="n", max_tasks=-1)]},
                (
                    "nodes['n'].max_tasks: expected a number of tasks (an integer, 0 or more, "
                    "or None), got -1"
                ),
            ),
            (
                {"nodes": [NodeInfo(name="n", max_tasks=1.0)]},
                (
                    "nodes['n'].max_tasks: expected a number of tasks (an integer, 0 or more, "
                    "or None), got 1.0"
                ),
            ),
            (
                {"nodes": [NodeInfo(name="n", max_tasks=True)]},
                (
                    "nodes['n'].max_tasks: expected a number of tasks (an integer, 0 or more, "
                    "or None), got True"
                ),
            ),
            (
                {"nodes": [NodeInfo(name="n", unschedulable=None)]},
                "nodes['n'].unschedulable: expected True or False, got None",
            ),
            (
                {"nodes": [NodeInfo(name="n", labels={"zone": 1})]},
                "nodes['n'].labels['zone']: 1 for 'zone': keys and values are texts",
            ),
            (
                {"nodes": [NodeInfo(name="n", labels=["zone"])]},
                "nodes['n'].labels: expected a mapping such as a dict, got ['zone']",
            ),
            (
                {"nodes": [NodeInfo(name="n", conditions={"Ready": True})]},
                "nodes['n'].conditions['Ready']: True for 'Ready': keys and values are texts",
            ),
            (
                {"nodes": [NodeInfo(name="n", conditions=None)]},
                "nodes['n'].conditions: expected a mapping such as a dict, got None",
            ),
            ({"queues": [Queue(name="")]}, "queues[''].name: is empty"),
            ({"queues": [Queue(name=None)]}, "queues[None].name: expected a text, got None"),
            (
                {"queues": [Queue(name="q"), Queue(name="q", weight=2)]},
                "queues['q']: this name is given twice",
            ),
            (
                {"queues": [Queue(name="q", weight=-2)]},
                "queues['q'].weight: expected a weight (an integer, 0 or more), got -2",
            ),
            (
                {"queues": [Queue(name="q", weight=1.5)]},
                "queues['q'].weight: expected a weight (an integer, 0 or more), got 1.5",
            ),
            (
                {"queues": [Queue(name="q", weight=NAN)]},
                "queues['q'].weight: expected a weight (an integer, 0 or more), got nan",
            ),
            (
                {"queues": [Queue(name="q", creation_time=INF)]},
                (
                    "queues['q'].creation_time: expected a time (a finite number of seconds), got "
                    "inf"
                ),
            ),
            ({"jobs": [job("")]}, "jobs['default/'].name: is empty"),
            ({"jobs": [job(7)]}, "jobs['default/7'].name: expected a text, got 7"),
            ({"jobs": [job("j", namespace="")]}, "jobs['/j'].namespace: is empty"),
            (
                {"jobs": [job("j", namespace=None)]},
                ("jobs['None/j'].namespace: expected a text, got None"),
            ),
            ({"jobs": [job("j", queue="")]}, "jobs['default/j'].queue: is empty"),
            (
                {"jobs": [job("j", queue=Q)]},
                (f"jobs['default/j'].queue: expected a text, got {cut(Q)}"),
            ),
            (
                {"jobs": [job("j"), job("j", priority=2)]},
                "jobs['default/j']: this name is given twice",
            ),
            (
                {"jobs": [job("j", min_available=-1)]},
                (
                    "jobs['default/j'].min_available: expected a number of tasks (an integer, "
                    "0 or more), got -1"
                ),
            ),
            (
                {"jobs": [job("j", min_available=None)]},
                (
                    "jobs['default/j'].min_available: expected a number of tasks "
                    "(an integer, 0 or more), got None"
                ),
            ),
            (
                {"jobs": [job("j", priority="high")]},
                "jobs['default/j'].priority: expected a priority (an integer), got 'high'",
            ),
            (
                {"jobs": [job("j", priority=False)]},
                "jobs['default/j'].priority: expected a priority (an integer), got False",
            ),
            (
                {"jobs": [job("j", creation_time=NAN)]},
                (
                    "jobs['default/j'].creation_time: expected a time (a finite number of "
                    "seconds), got nan"
                ),
            ),
        ],
    )
    def test_of_nodes_queues_and_jobs(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(content) == [fault]

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            ({"name": ""}, "name: is empty"),
            ({"name": None}, "name: expected a text, got None"),
            ({"namespace": ""}, "namespace: is empty"),
            ({"namespace": 3}, "namespace: expected a text, got 3"),
            ({"priority_class_name": None}, "priority_class_name: expected a text, got None"),
            ({"priority": 1.0}, "priority: expected a priority (an integer), got 1.0"),
            ({"priority": True}, "priority: expected a priority (an integer), got True"),
            ({"is_backfill": 1}, "is_backfill: expected True or False, got 1"),
            ({"is_backfill": None}, "is_backfill: expected True or False, got None"),
            (
                {"creation_time": -INF},
                "creation_time: expected a time (a finite number of seconds), got -inf",
            ),
            (
                {"creation_time": None},
                "creation_time: expected a time (a finite number of seconds), got None",
            ),
            (
                {"scoring_request": (1, 2)},
                ("scoring_request: expected a ScoringRequest, got (1, 2)"),
            ),
            (
                {"scoring_request": ScoringRequest(milli_cpu=-1, memory=0)},
                (
                    "scoring_request.milli_cpu: expected a scoring amount (an integer, 0 or "
                    "more), got -1"
                ),
            ),
            (
                {"scoring_request": ScoringRequest(milli_cpu=0, memory=-1)},
                (
                    "scoring_request.memory: expected a scoring amount (an integer, 0 or "
                    "more), got -1"
                ),
            ),
            (
                {"scoring_request": ScoringRequest(milli_cpu=0, memory=0.5)},
                (
                    "scoring_request.memory: expected a scoring amount (an integer, 0 or "
                    "more), got 0.5"
                ),
            ),
            (
                {"scoring_request": ScoringRequest(milli_cpu=True, memory=0)},
                (
                    "scoring_request.milli_cpu: expected a scoring amount (an integer, 0 or "
                    "more), got True"
                ),
            ),
        ],
    )
    def test_of_tasks(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(with_task(**content)) == [f"jobs['default/j'].tasks['t'].{fault}"]
        others = {"nodes": [N1], "other_tasks": [task(**content)]}
        assert faults_of(others) == [f"other_tasks['t'].{fault}"]

    @pytest.mark.parametrize(
        ("uid", "fault"),
        [
            ("", "jobs['default/j'].tasks[''].uid: is empty"),
            (5, "jobs['default/j'].tasks[5].uid: expected a text, got 5"),
            (None, "jobs['default/j'].tasks[None].uid: expected a text, got None"),
            ([], "jobs['default/j'].tasks[[]].uid: expected a text, got []"),
        ],
    )
    def test_of_the_uid_of_a_task(self, uid: object, fault: str) -> None:
        assert faults_of({"jobs": [job("j", task(uid))]}) == [fault]


RESOURCE_FAULTS = [
    (Resource(milli_cpu=-1), ".milli_cpu: -1 is negative"),
    (Resource(milli_cpu=-0.05), ".milli_cpu: -0.05 is negative"),
    (Resource(milli_cpu=None), ".milli_cpu: expected a number, got None"),
    (Resource(milli_cpu="500m"), ".milli_cpu: expected a number, got '500m'"),
    (Resource(milli_cpu=True), ".milli_cpu: expected a number, got True"),
    (Resource(milli_cpu=Fraction(1, 2)), ".milli_cpu: expected a number, got Fraction(1, 2)"),
    (Resource(milli_cpu=NAN), ".milli_cpu: expected a finite number, got nan"),
    (Resource(memory=INF), ".memory: expected a finite number, got inf"),
    (Resource(memory=-INF), ".memory: expected a finite number, got -inf"),
    (Resource(memory=HUGE), f".memory: expected a finite number, got {cut(HUGE)}"),
    (Resource(memory=[]), ".memory: expected a number, got []"),
    (Resource(scalars={"x": -2}), ".scalars['x']: -2 is negative"),
    (Resource(scalars={"x": NAN}), ".scalars['x']: expected a finite number, got nan"),
    (Resource(scalars={"x": None}), ".scalars['x']: expected a number, got None"),
    (Resource(scalars={"x": False}), ".scalars['x']: expected a number, got False"),
    (
        Resource(scalars={"cpu": 1}),
        (
            ".scalars['cpu']: expected another name of a scalar; cpu and memory have fields "
            "of their own"
        ),
    ),
    (
        Resource(scalars={"memory": 1}),
        (
            ".scalars['memory']: expected another name of a scalar; cpu and memory have "
            "fields of their own"
        ),
    ),
    (
        Resource(scalars={"": 1}),
        (
            ".scalars['']: expected another name of a scalar; cpu and memory have fields of "
            "their own"
        ),
    ),
    (
        Resource(scalars={3: 1}),
        ".scalars[3]: expected another name of a scalar; cpu and memory have fields of their own",
    ),
    (Resource(scalars=None), ".scalars: expected a mapping such as a dict, got None"),
    (Resource(scalars=[("x", 1)]), ".scalars: expected a mapping such as a dict, got [('x', 1)]"),
    ({"cpu": 1}, ": expected a Resource, got {'cpu': 1}"),
    (None, ": expected a Resource, got None"),
    (500, ": expected a Resource, got 500"),
]


class TestResourceFaults:
    @pytest.mark.parametrize(("resource", "fault"), RESOURCE_FAULTS)
    def test_of_nodes(self, resource: object, fault: str) -> None:
        content = {"nodes": [NodeInfo(name="n", allocatable=resource)]}
        assert faults_of(content) == [f"nodes['n'].allocatable{fault}"]

    @pytest.mark.parametrize(("resource", "fault"), RESOURCE_FAULTS)
    @pytest.mark.parametrize("name", ["resreq", "init_resreq"])
    def test_of_tasks(self, name: str, resource: object, fault: str) -> None:
        if name == "init_resreq" and resource is None:
            name = "resreq"  # None is sound as the other
        content = with_task(**{name: resource})
        assert faults_of(content) == [f"jobs['default/j'].tasks['t'].{name}{fault}"]

    def test_a_fault_in_a_resource_that_tasks_share_is_a_fault_of_each(self) -> None:
        shared = Resource(milli_cpu=-1)
        content = {"jobs": [job("j", task("a", resreq=shared), task("b", resreq=shared))]}
        assert faults_of(content) == [
            "jobs['default/j'].tasks['a'].resreq.milli_cpu: -1 is negative",
            "jobs['default/j'].tasks['b'].resreq.milli_cpu: -1 is negative",
        ]

    def test_both_requests_may_be_at_fault(self) -> None:
        content = with_task(resreq=Resource(milli_cpu=-1), init_resreq=Resource(memory=-2))
        assert faults_of(content) == [
            "jobs['default/j'].tasks['t'].resreq.milli_cpu: -1 is negative",
            "jobs['default/j'].tasks['t'].init_resreq.memory: -2 is negative",
        ]

    @pytest.mark.parametrize(
        ("resreq", "init_resreq"),
        [
            (Resource(milli_cpu=2), Resource(milli_cpu=1, memory=5)),
            (Resource(memory=2), Resource(memory=1)),
            (Resource(scalars={"x": 1}), Resource(scalars={"y": 1})),
        ],
    )
    def test_to_start_a_task_needs_at_least_what_it_holds(
        self, resreq: Resource, init_resreq: Resource
    ) -> None:
        content = with_task(resreq=resreq, init_resreq=init_resreq)
        assert faults_of(content) == [
            (
                f"jobs['default/j'].tasks['t'].init_resreq: {init_resreq!r} is less than "
                f"resreq, {resreq!r}"
            )
        ]


class TestPlaceFaults:
    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (
                {"status": "Running"},
                ("status: expected a TaskStatus, got 'Running'; use TaskStatus.RUNNING"),
            ),
            (
                {"status": None},
                (
                    "status: expected a TaskStatus, got None; it is one of Pending, "
                    "Allocated, Pipelined, Conditional, Reserved, Binding, Bound, Running, "
                    "Releasing, Succeeded, Failed, Unknown"
                ),
            ),
            (
                {"status": TaskStatus.ALLOCATED, "node_name": "n1"},
                "status: Allocated exists only inside a session; give the task as Pending",
            ),
            (
                {"status": TaskStatus.CONDITIONAL, "node_name": "n1"},
                "status: Conditional exists only inside a session; give the task as Pending",
            ),
            ({"node_name": "n1"}, "node_name: 'n1': a task that is Pending is on no node"),
            ({"node_name": ""}, "node_name: '': a task that is Pending is on no node"),
            (
                {"status": TaskStatus.SUCCEEDED, "node_name": "n1"},
                "node_name: 'n1': a task that has Succeeded is on no node",
            ),
            (
                {"status": TaskStatus.FAILED, "node_name": "n1"},
                "node_name: 'n1': a task that has Failed is on no node",
            ),
            ({"status": TaskStatus.RUNNING}, "node_name: a task that is Running needs a node"),
            ({"status": TaskStatus.BOUND}, "node_name: a task that is Bound needs a node"),
            ({"status": TaskStatus.BINDING}, "node_name: a task that is Binding needs a node"),
            ({"status": TaskStatus.RESERVED}, "node_name: a task that is Reserved needs a node"),
            ({"status": TaskStatus.PIPELINED}, "node_name: a task that is Pipelined needs a node"),
            (
                {"status": TaskStatus.RUNNING, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot",
            ),
            (
                {"status": TaskStatus.BOUND, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot",
            ),
            (
                {"status": TaskStatus.BINDING, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot",
            ),
            (
                {"status": TaskStatus.RELEASING, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot",
            ),
            (
                {"status": TaskStatus.UNKNOWN, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot",
            ),
            (
                {"status": TaskStatus.RUNNING, "node_name": ""},
                "node_name: there is no node '' in this snapshot",
            ),
            ({"status": TaskStatus.RESERVED, "node_name": ""}, "node_name: is empty"),
            ({"status": TaskStatus.RESERVED, "node_name": 1}, "node_name: expected a text, got 1"),
            (
                {"status": TaskStatus.RUNNING, "node_name": []},
                ("node_name: expected a text, got []"),
            ),
            (
                {"status": TaskStatus.RUNNING, "node_name": N1},
                (f"node_name: expected a text, got {cut(N1)}"),
            ),
        ],
    )
    def test_of_a_task(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(with_task(**content)) == [f"jobs['default/j'].tasks['t'].{fault}"]

    def test_only_tasks_of_jobs_are_reserved(self) -> None:
        reserved = task(status=TaskStatus.RESERVED, node_name="n1")
        assert faults_of({"nodes": [N1], "other_tasks": [reserved]}) == [
            (
                "other_tasks['t'].status: Reserved is for tasks of jobs; "
                "a task without a job is never placed"
            )
        ]

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (
                {"jobs": [job("a", task("u"), task("u"))]},
                (
                    "jobs['default/a'].tasks['u'].uid: 'u' is the UID of a task of "
                    "jobs['default/a'] too"
                ),
            ),
            (
                {"jobs": [job("b", task("u")), job("a", task("u"))]},
                (
                    "jobs['default/b'].tasks['u'].uid: 'u' is the UID of a task of "
                    "jobs['default/a'] too"
                ),
            ),
            (
                {"jobs": [job("a", task("u"))], "other_tasks": [task("u")]},
                "other_tasks['u'].uid: 'u' is the UID of a task of jobs['default/a'] too",
            ),
            (
                {"other_tasks": [task("u"), task("u")]},
                "other_tasks['u'].uid: 'u' is the UID of a task of other_tasks too",
            ),
        ],
    )
    def test_a_uid_is_given_once(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(content) == [fault]


class TestNodeUse:
    """A node whose tasks hold more than it has is full, and valid: a device may have failed."""

    @pytest.mark.parametrize(
        "status",
        [status for status in TaskStatus if status.holds and status is not TaskStatus.ALLOCATED],
    )
    def test_tasks_may_hold_more_than_the_node_has(self, status: TaskStatus) -> None:
        held = {"status": status, "node_name": "n1", "resreq": Resource(milli_cpu=2500)}
        content = {"nodes": [N1], "jobs": [job("j", task("a", **held), task("b", **held))]}
        session = Scheduler().open(Snapshot(**content))
        assert session.node("n1").idle[0] == -1000

    def test_tasks_of_all_jobs_and_of_none_count_together(self) -> None:
        held = {"status": TaskStatus.RUNNING, "node_name": "n1", "resreq": Resource(memory=400)}
        content = {
            "nodes": [N1],
            "jobs": [job("j", task("a", **held)), job("k", task("b", **held))],
            "other_tasks": [task("c", **held)],
        }
        session = Scheduler().open(Snapshot(**content))
        assert session.node("n1").idle[1] == -200

    @pytest.mark.parametrize(
        "content",
        [
            {"status": TaskStatus.RESERVED, "node_name": "n1"},
            {"status": TaskStatus.RELEASING},
            {"status": TaskStatus.SUCCEEDED},
            {"status": TaskStatus.PENDING},
        ],
    )
    def test_tasks_that_hold_nothing_there_do_not_count(self, content: dict[str, object]) -> None:
        Snapshot(**with_task(resreq=Resource(milli_cpu=10**9), **content))

    def test_what_starting_takes_is_not_held(self) -> None:
        held = {"status": TaskStatus.RUNNING, "node_name": "n1", "resreq": Resource(milli_cpu=1)}
        Snapshot(**with_task(init_resreq=Resource(milli_cpu=5000), **held))

    def test_each_node_has_its_own_account(self) -> None:
        nodes = [attrs.evolve(N1, name=name) for name in ("n1", "n2")]
        tasks = [
            task(name, status=TaskStatus.BOUND, node_name=name, resreq=Resource(milli_cpu=4000))
            for name in ("n1", "n2")
        ]
        Snapshot(nodes=nodes, other_tasks=tasks)

    def test_only_sound_amounts_are_summed_up(self) -> None:
        held = {"status": TaskStatus.RUNNING, "node_name": "n1", "resreq": Resource(milli_cpu=nan)}
        assert faults_of(with_task(**held)) == [
            "jobs['default/j'].tasks['t'].resreq.milli_cpu: expected a finite number, got nan"
        ]


def required(*requirements: object) -> NodeAffinity:
    return NodeAffinity(required=[NodeSelectorTerm(match_expressions=requirements)])


def near(**content: object) -> PodAffinity:
    return PodAffinity(required=[PodAffinityTerm(**{"topology_key": "zone", **content})])


IN_EXPRESSION = "required[0].match_expressions[0]"
IN_SELECTOR = "required[0].selector.match_expressions[0]"

REQUIREMENT_FAULTS = [
    (
        Requirement(key="", operator=Operator.EXISTS),
        ".key: is empty",
    ),
    (
        Requirement(key=None, operator=Operator.EXISTS),
        ".key: expected a text, got None",
    ),
    (
        Requirement(key="a", operator="In", values=["b"]),
        ".operator: expected an Operator, got 'In'; use Operator.IN",
    ),
    (
        Requirement(key="a", operator="=", values=["b"]),
        (
            ".operator: expected an Operator, got '='; it is one of In, NotIn, Exists, "
            "DoesNotExist, Gt, Lt"
        ),
    ),
    (
        Requirement(key="a", operator=Operator.IN),
        ".values: operator In needs at least one value",
    ),
    (
        Requirement(key="a", operator=Operator.NOT_IN),
        ".values: operator NotIn needs at least one value",
    ),
    (
        Requirement(key="a", operator=Operator.EXISTS, values=["b"]),
        ".values: ('b',): operator Exists takes no values",
    ),
    (
        Requirement(key="a", operator=Operator.DOES_NOT_EXIST, values=["b"]),
        ".values: ('b',): operator DoesNotExist takes no values",
    ),
    (
        Requirement(key="a", operator=Operator.IN, values=["b", 3]),
        ".values[1]: expected a text, got 3",
    ),
    (
        Requirement(key="a", operator=Operator.IN, values="ssd"),
        ".values: expected a collection of texts, got 'ssd'; use a tuple or a list",
    ),
    (
        Requirement(key="a", operator=Operator.IN, values=None),
        ".values: expected a collection of texts, got None; use a tuple or a list",
    ),
    ({"key": "a"}, ": expected a Requirement, got {'key': 'a'}"),
    (None, ": expected a Requirement, got None"),
]


class TestConstraintFaults:
    @pytest.mark.parametrize(("requirement", "fault"), REQUIREMENT_FAULTS)
    def test_of_requirements(self, requirement: object, fault: str) -> None:
        at = "jobs['default/j'].tasks['t']"
        content = with_task(node_affinity=required(requirement))
        assert faults_of(content) == [f"{at}.node_affinity.{IN_EXPRESSION}{fault}"]
        for name in ("pod_affinity", "pod_anti_affinity"):
            selector = LabelSelector(match_expressions=[requirement])
            content = with_task(**{name: near(selector=selector)})
            assert faults_of(content) == [f"{at}.{name}.{IN_SELECTOR}{fault}"]

    @pytest.mark.parametrize("operator", [Operator.GT, Operator.LT])
    @pytest.mark.parametrize("values", [(), ("1", "2"), ("one",), ("1.5",), ("9" * 30,), ("",)])
    def test_greater_and_less_need_one_integer(
        self, operator: Operator, values: tuple[str, ...]
    ) -> None:
        affinity = required(Requirement(key="a", operator=operator, values=values))
        assert faults_of(with_task(node_affinity=affinity)) == [
            (
                f"jobs['default/j'].tasks['t'].node_affinity.{IN_EXPRESSION}.values: "
                f"{values!r}: operator {operator.value} needs exactly one integer"
            )
        ]

    @pytest.mark.parametrize("operator", [Operator.GT, Operator.LT])
    def test_a_label_selector_knows_no_order(self, operator: Operator) -> None:
        expression = Requirement(key="a", operator=operator, values=["1"])
        affinity = near(selector=LabelSelector(match_expressions=[expression]))
        assert faults_of(with_task(pod_affinity=affinity)) == [
            (
                f"jobs['default/j'].tasks['t'].pod_affinity.{IN_SELECTOR}.operator: "
                f"operator {operator.value} is for nodes; a label selector knows no order"
            )
        ]

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            ({"labels": {"a": None}}, "labels['a']: None for 'a': keys and values are texts"),
            ({"labels": {1: "b"}}, "labels[1]: 'b' for 1: keys and values are texts"),
            (
                {"labels": [("a", "b")]},
                ("labels: expected a mapping such as a dict, got [('a', 'b')]"),
            ),
            ({"labels": []}, "labels: expected a mapping such as a dict, got []"),
            ({"labels": None}, "labels: expected a mapping such as a dict, got None"),
            ({"labels": ""}, "labels: expected a mapping such as a dict, got ''"),
            (
                {"node_selector": {"a": True}},
                "node_selector['a']: True for 'a': keys and values are texts",
            ),
            (
                {"node_selector": "a=b"},
                ("node_selector: expected a mapping such as a dict, got 'a=b'"),
            ),
            (
                {"tolerations": None},
                (
                    "tolerations: expected a collection of Toleration, got None; use a tuple or a "
                    "list"
                ),
            ),
            (
                {"tolerations": {"key": "a"}},
                (
                    "tolerations: expected a collection of Toleration, got {'key': 'a'}; use a "
                    "tuple or a list"
                ),
            ),
            ({"tolerations": ["a"]}, "tolerations[0]: expected a Toleration, got 'a'"),
            (
                {"tolerations": [Toleration(key="a"), Toleration()]},
                (
                    "tolerations[1].key: is empty; "
                    "use operator Exists without a key to tolerate everything"
                ),
            ),
            (
                {"tolerations": [Toleration(key=None)]},
                ("tolerations[0].key: expected a text, got None"),
            ),
            (
                {"tolerations": [Toleration(key="a", value=None)]},
                "tolerations[0].value: expected a text, got None",
            ),
            (
                {"tolerations": [Toleration(key="a", operator="Exists")]},
                (
                    "tolerations[0].operator: expected a TolerationOperator, got 'Exists'; "
                    "use TolerationOperator.EXISTS"
                ),
            ),
            (
                {"tolerations": [Toleration(key="a", operator="In", value="b")]},
                (
                    "tolerations[0].operator: expected a TolerationOperator, got 'In'; it is "
                    "one of Equal, Exists"
                ),
            ),
            (
                {
                    "tolerations": [
                        Toleration(key="a", operator=TolerationOperator.EXISTS, value="b")
                    ]
                },
                "tolerations[0].value: 'b': operator Exists takes no value",
            ),
            (
                {"tolerations": [Toleration(key="a", effect="NoSchedule")]},
                (
                    "tolerations[0].effect: expected a TaintEffect, got 'NoSchedule'; use "
                    "TaintEffect.NO_SCHEDULE"
                ),
            ),
            (
                {"tolerations": [Toleration(key="a", effect="")]},
                (
                    "tolerations[0].effect: expected a TaintEffect, got ''; it is one of "
                    "NoSchedule, PreferNoSchedule, NoExecute"
                ),
            ),
            (
                {"host_ports": 80},
                "host_ports: expected a collection of HostPort, got 80; use a tuple or a list",
            ),
            ({"host_ports": [80]}, "host_ports[0]: expected a HostPort, got 80"),
            (
                {"host_ports": [HostPort(port=0)]},
                "host_ports[0].port: expected a port (an integer in 1..65535), got 0",
            ),
            (
                {"host_ports": [HostPort(port=1), HostPort(port=65536)]},
                "host_ports[1].port: expected a port (an integer in 1..65535), got 65536",
            ),
            (
                {"host_ports": [HostPort(port="80")]},
                "host_ports[0].port: expected a port (an integer in 1..65535), got '80'",
            ),
            (
                {"host_ports": [HostPort(port=True)]},
                "host_ports[0].port: expected a port (an integer in 1..65535), got True",
            ),
            (
                {"host_ports": [HostPort(port=80, protocol="tcp")]},
                (
                    "host_ports[0].protocol: expected a protocol, got 'tcp'; it is one of TCP, "
                    "UDP, SCTP"
                ),
            ),
            (
                {"host_ports": [HostPort(port=80, address="")]},
                "host_ports[0].address: expected an address, got ''; 0.0.0.0 is every address",
            ),
            (
                {"host_ports": [HostPort(port=80, address=None)]},
                "host_ports[0].address: expected an address, got None; 0.0.0.0 is every address",
            ),
            ({"node_affinity": {}}, "node_affinity: expected a NodeAffinity, got {}"),
            (
                {"node_affinity": NodeAffinity(required=5)},
                (
                    "node_affinity.required: expected a collection of NodeSelectorTerm, got "
                    "5; use a tuple or a list"
                ),
            ),
            (
                {"node_affinity": NodeAffinity(required=[None])},
                "node_affinity.required[0]: expected a NodeSelectorTerm, got None",
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        required=[NodeSelectorTerm(), NodeSelectorTerm(match_expressions=None)]
                    )
                },
                (
                    "node_affinity.required[1].match_expressions: expected a collection of "
                    "Requirement, got None; use a tuple or a list"
                ),
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        required=[
                            NodeSelectorTerm(
                                match_fields=[
                                    Requirement(key="spec.unschedulable", operator=Operator.EXISTS)
                                ]
                            )
                        ]
                    )
                },
                (
                    "node_affinity.required[0].match_fields[0].key: expected metadata.name, "
                    "the only field of nodes that is known, got 'spec.unschedulable'"
                ),
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        required=[
                            NodeSelectorTerm(
                                match_fields=[Requirement(key="", operator=Operator.EXISTS)]
                            )
                        ]
                    )
                },
                "node_affinity.required[0].match_fields[0].key: is empty",
            ),
            (
                {"node_affinity": NodeAffinity(preferred=None)},
                (
                    "node_affinity.preferred: expected a collection of PreferredNodeTerm, got "
                    "None; use a tuple or a list"
                ),
            ),
            (
                {"node_affinity": NodeAffinity(preferred=[NodeSelectorTerm()])},
                (
                    "node_affinity.preferred[0]: expected a PreferredNodeTerm, got "
                    "NodeSelectorTerm(match_expressions=(), match_fields=())"
                ),
            ),
            *(
                (
                    {
                        "node_affinity": NodeAffinity(
                            preferred=[PreferredNodeTerm(weight=weight, term=NodeSelectorTerm())]
                        )
                    },
                    (
                        "node_affinity.preferred[0].weight: expected a weight (an integer in "
                        f"1..100), got {weight!r}"
                    ),
                )
                for weight in (0, 101, -1, 1.0, NAN, None, True, "1")
            ),
            (
                {"node_affinity": NodeAffinity(preferred=[PreferredNodeTerm(weight=1, term=None)])},
                "node_affinity.preferred[0].term: expected a NodeSelectorTerm, got None",
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        preferred=[
                            PreferredNodeTerm(
                                weight=1, term=NodeSelectorTerm(match_expressions=["a"])
                            )
                        ]
                    )
                },
                (
                    "node_affinity.preferred[0].term.match_expressions[0]: expected a "
                    "Requirement, got 'a'"
                ),
            ),
            ({"pod_affinity": []}, "pod_affinity: expected a PodAffinity, got []"),
            ({"pod_anti_affinity": "x"}, "pod_anti_affinity: expected a PodAffinity, got 'x'"),
            (
                {"pod_affinity": PodAffinity(required=None)},
                (
                    "pod_affinity.required: expected a collection of PodAffinityTerm, got "
                    "None; use a tuple or a list"
                ),
            ),
            (
                {"pod_anti_affinity": PodAffinity(required=[1])},
                "pod_anti_affinity.required[0]: expected a PodAffinityTerm, got 1",
            ),
            (
                {"pod_affinity": near(topology_key="")},
                (
                    "pod_affinity.required[0].topology_key: expected a topology key, got ''; "
                    "it is a node label such as zone"
                ),
            ),
            (
                {"pod_affinity": near(topology_key=None)},
                (
                    "pod_affinity.required[0].topology_key: expected a topology key, got "
                    "None; it is a node label such as zone"
                ),
            ),
            (
                {"pod_affinity": near(namespaces="default")},
                (
                    "pod_affinity.required[0].namespaces: expected a collection of texts, got "
                    "'default'; use a tuple or a list"
                ),
            ),
            (
                {"pod_affinity": near(namespaces=["a", ""])},
                "pod_affinity.required[0].namespaces[1]: is empty",
            ),
            (
                {"pod_affinity": near(namespaces=[None])},
                "pod_affinity.required[0].namespaces[0]: expected a text, got None",
            ),
            (
                {"pod_affinity": near(selector={"app": "db"})},
                "pod_affinity.required[0].selector: expected a LabelSelector, got {'app': 'db'}",
            ),
            (
                {"pod_affinity": near(selector=LabelSelector(match_labels={"app": 1}))},
                (
                    "pod_affinity.required[0].selector.match_labels['app']: 1 for 'app': "
                    "keys and values are texts"
                ),
            ),
            (
                {"pod_affinity": near(selector=LabelSelector(match_labels=None))},
                (
                    "pod_affinity.required[0].selector.match_labels: expected a mapping such as a "
                    "dict, got None"
                ),
            ),
            (
                {"pod_affinity": near(selector=LabelSelector(match_expressions=5))},
                (
                    "pod_affinity.required[0].selector.match_expressions: expected a "
                    "collection of Requirement, got 5; use a tuple or a list"
                ),
            ),
            (
                {"pod_anti_affinity": PodAffinity(preferred=[PodAffinityTerm(topology_key="z")])},
                (
                    "pod_anti_affinity.preferred[0]: expected a WeightedPodTerm, got "
                    "PodAffinityTerm(selector=None, topology_key='z', namespaces=())"
                ),
            ),
            (
                {
                    "pod_affinity": PodAffinity(
                        preferred=[
                            WeightedPodTerm(weight=0, term=PodAffinityTerm(topology_key="z"))
                        ]
                    )
                },
                (
                    "pod_affinity.preferred[0].weight: expected a weight (an integer in "
                    "1..100), got 0"
                ),
            ),
            (
                {"pod_affinity": PodAffinity(preferred=[WeightedPodTerm(weight=1, term=None)])},
                "pod_affinity.preferred[0].term: expected a PodAffinityTerm, got None",
            ),
            (
                {
                    "pod_affinity": PodAffinity(
                        preferred=[WeightedPodTerm(weight=1, term=PodAffinityTerm(topology_key=""))]
                    )
                },
                (
                    "pod_affinity.preferred[0].term.topology_key: expected a topology key, "
                    "got ''; it is a node label such as zone"
                ),
            ),
        ],
    )
    def test_of_a_task(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(with_task(**content)) == [f"jobs['default/j'].tasks['t'].{fault}"]

    @pytest.mark.parametrize(
        ("taints", "fault"),
        [
            (None, ": expected a collection of Taint, got None; use a tuple or a list"),
            (["a"], "[0]: expected a Taint, got 'a'"),
            ([Taint(key="", effect=TaintEffect.NO_EXECUTE)], "[0].key: is empty"),
            (
                [Taint(key=None, effect=TaintEffect.NO_EXECUTE)],
                ("[0].key: expected a text, got None"),
            ),
            (
                [Taint(key="a", effect=TaintEffect.NO_EXECUTE), Taint(key="a", effect="NoExecute")],
                "[1].effect: expected a TaintEffect, got 'NoExecute'; use TaintEffect.NO_EXECUTE",
            ),
            (
                [Taint(key="a", effect=None)],
                (
                    "[0].effect: expected a TaintEffect, got None; it is one of NoSchedule, "
                    "PreferNoSchedule, NoExecute"
                ),
            ),
            (
                [Taint(key="a", value=1, effect=TaintEffect.NO_EXECUTE)],
                "[0].value: expected a text, got 1",
            ),
        ],
    )
    def test_of_taints(self, taints: object, fault: str) -> None:
        content = {"nodes": [NodeInfo(name="n", taints=taints)]}
        assert faults_of(content) == [f"nodes['n'].taints{fault}"]

    def test_a_constraint_that_tasks_share_is_a_fault_of_each(self) -> None:
        ports = (HostPort(port=0),)
        tasks = [task(uid, host_ports=ports) for uid in "ab"]
        assert [fault.partition(":")[0] for fault in faults_of({"jobs": [job("j", *tasks)]})] == [
            "jobs['default/j'].tasks['a'].host_ports[0].port",
            "jobs['default/j'].tasks['b'].host_ports[0].port",
        ]


class TestWrongCollections:
    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (
                {"nodes": None},
                "nodes: expected a collection of NodeInfo, got None; use a tuple or a list",
            ),
            (
                {"nodes": {"n1": 1}},
                "nodes: expected a collection of NodeInfo, got {'n1': 1}; use a tuple or a list",
            ),
            (
                {"queues": 5},
                ("queues: expected a collection of Queue, got 5; use a tuple or a list"),
            ),
            (
                {"jobs": "jobs"},
                ("jobs: expected a collection of JobInfo, got 'jobs'; use a tuple or a list"),
            ),
            (
                {"other_tasks": None},
                "other_tasks: expected a collection of TaskInfo, got None; use a tuple or a list",
            ),
            (
                {"jobs": [job("j", tasks=None)]},
                (
                    "jobs['default/j'].tasks: expected a collection of TaskInfo, got None; use a "
                    "tuple or a list"
                ),
            ),
            ({"nodes": ["n1"]}, "nodes[0]: expected a NodeInfo, got 'n1'"),
            ({"queues": [Q, None]}, "queues[1]: expected a Queue, got None"),
            ({"queues": [N1]}, f"queues[0]: expected a Queue, got {cut(N1)}"),
            ({"jobs": [{}, job()]}, "jobs[0]: expected a JobInfo, got {}"),
            ({"other_tasks": [None]}, "other_tasks[0]: expected a TaskInfo, got None"),
            (
                {"jobs": [job("j", task("t"), "u")]},
                "jobs['default/j'].tasks[1]: expected a TaskInfo, got 'u'",
            ),
        ],
    )
    def test_what_is_no_collection_or_the_wrong_one(
        self, content: dict[str, object], fault: str
    ) -> None:
        assert faults_of(content) == [fault]

    @pytest.mark.parametrize("name", ["nodes", "jobs", "queues", "other_tasks"])
    def test_an_error_inside_a_generator_is_not_swallowed(self, name: str) -> None:
        def failing():
            yield N1
            raise TypeError("from inside")

        with pytest.raises(TypeError, match="from inside"):
            Snapshot(**{name: failing()})


TEN_FAULTS = {
    "now": NAN,
    "nodes": [
        NodeInfo(name="n2", allocatable=Resource(milli_cpu=-1)),
        NodeInfo(name="n1", max_tasks=-1),
    ],
    "queues": [Queue(name="q", weight=-1)],
    "jobs": [
        job("k", task("d", status=TaskStatus.RUNNING)),
        job(
            "j",
            task("b", status=TaskStatus.BOUND, node_name="gone"),
            task("a", host_ports=[HostPort(port=0)]),
            min_available=-1,
            queue="",
        ),
    ],
    "other_tasks": [
        task("z", status=TaskStatus.RESERVED, node_name="n1"),
        task("a", name="again"),
    ],
}
TEN_LINES = [
    "now: expected a time (a finite number of seconds), got nan",
    ("nodes['n1'].max_tasks: expected a number of tasks (an integer, 0 or more, or None), got -1"),
    "nodes['n2'].allocatable.milli_cpu: -1 is negative",
    "queues['q'].weight: expected a weight (an integer, 0 or more), got -1",
    "jobs['default/j'].queue: is empty",
    ("jobs['default/j'].min_available: expected a number of tasks (an integer, 0 or more), got -1"),
    (
        "jobs['default/j'].tasks['a'].host_ports[0].port: expected a port (an integer in "
        "1..65535), got 0"
    ),
    "jobs['default/j'].tasks['b'].node_name: there is no node 'gone' in this snapshot",
    "jobs['default/k'].tasks['d'].node_name: a task that is Running needs a node",
    "other_tasks['a'].uid: 'a' is the UID of a task of jobs['default/j'] too",
    "other_tasks['z'].status: Reserved is for tasks of jobs; a task without a job is never placed",
]


class TestTheError:
    def test_all_faults_are_raised_at_once_one_line_each(self) -> None:
        with pytest.raises(SnapshotError) as caught:
            Snapshot(**TEN_FAULTS)
        assert str(caught.value).splitlines() == TEN_LINES
        assert [str(fault) for fault in caught.value.faults] == TEN_LINES
        assert len({line.partition(": ")[2] for line in TEN_LINES}) >= 10

    @given(st.randoms(use_true_random=False))
    def test_the_faults_do_not_depend_on_the_order_in_which_things_are_given(
        self, chance: random.Random
    ) -> None:
        shuffled = dict(TEN_FAULTS)
        for name in ("nodes", "jobs", "other_tasks"):
            shuffled[name] = chance.sample(TEN_FAULTS[name], len(TEN_FAULTS[name]))
        assert faults_of(shuffled) == TEN_LINES

    def test_it_carries_the_faults_as_data(self) -> None:
        with pytest.raises(SnapshotError) as caught:
            Snapshot(queues=[Queue(name="q", weight=-1)])
        message = "expected a weight (an integer, 0 or more), got -1"
        assert caught.value.faults == (Fault("queues['q'].weight", message),)

    def test_it_is_a_value_error_of_this_library(self) -> None:
        with pytest.raises(ValueError, match="weight") as caught:
            Snapshot(queues=[Queue(name="q", weight=-1)])
        assert isinstance(caught.value, BatchschedError)

    def test_it_can_be_pickled(self) -> None:
        with pytest.raises(SnapshotError) as caught:
            Snapshot(**TEN_FAULTS)
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is SnapshotError
        assert again.faults == caught.value.faults
        assert str(again) == str(caught.value)

    def test_a_fault_is_one_line_and_not_longer_than_it_must_be(self) -> None:
        class Table:
            def __repr__(self) -> str:
                return "row\n" * 1000

        class Unspeakable:
            def __repr__(self) -> str:
                raise RuntimeError("no")

        (fault,) = faults_of({"nodes": [Table()]})
        assert len(fault.splitlines()) == 1
        assert len(fault) < 500
        assert faults_of({"nodes": [Unspeakable()]}) == [
            ("nodes[0]: expected a NodeInfo, got <Unspeakable>")
        ]


def test_a_number_of_tasks_that_nobody_can_print_is_a_fault() -> None:
    with pytest.raises(SnapshotError, match=r"min_available: .* of 300 digits at most"):
        Snapshot(
            queues=[Queue(name="q")], jobs=[JobInfo(name="j", queue="q", min_available=10**5000)]
        )
