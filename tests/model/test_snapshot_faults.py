"""Every fault that a snapshot finds in what stands by itself, with its path and message."""

from __future__ import annotations

import pytest
from tests.support.snapshot_content import (
    INF,
    N1,
    NAN,
    Q,
    cut,
    faults_of,
    job,
    task,
    with_task,
)

from batchsched import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Queue,
    Requirement,
    Resource,
    ScoringRequest,
    Snapshot,
    TaskStatus,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)
from batchsched.model.validation.snapshot import task_problems


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
            with_task(resreq=Resource(milli_cpu=5.0, memory=1e300, scalars={"x": 0})),
            with_task(resreq=Resource(milli_cpu=2), init_resreq=Resource(milli_cpu=2.0)),
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
            ({"nodes": [NodeInfo(name=5)]}, "nodes[5].name: expected a string, got 5"),
            ({"nodes": [NodeInfo(name=[])]}, "nodes[[]].name: expected a string, got []"),
            (
                {"nodes": [NodeInfo(name="n"), NodeInfo(name="n", max_tasks=2)]},
                "nodes['n']: expected a unique name, got it again",
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
                "nodes['n'].labels['zone']: expected strings, got 1 for 'zone'",
            ),
            (
                {"nodes": [NodeInfo(name="n", labels=["zone"])]},
                "nodes['n'].labels: expected a mapping such as a dict, got ['zone']",
            ),
            (
                {"nodes": [NodeInfo(name="n", conditions={"Ready": True})]},
                "nodes['n'].conditions['Ready']: expected strings, got True for 'Ready'",
            ),
            (
                {"nodes": [NodeInfo(name="n", conditions=None)]},
                "nodes['n'].conditions: expected a mapping such as a dict, got None",
            ),
            ({"queues": [Queue(name="")]}, "queues[''].name: is empty"),
            ({"queues": [Queue(name=None)]}, "queues[None].name: expected a string, got None"),
            (
                {"queues": [Queue(name="q"), Queue(name="q", weight=2)]},
                "queues['q']: expected a unique name, got it again",
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
            ({"jobs": [job(7)]}, "jobs['default/7'].name: expected a string, got 7"),
            ({"jobs": [job("j", namespace="")]}, "jobs['/j'].namespace: is empty"),
            (
                {"jobs": [job("j", namespace=None)]},
                ("jobs['None/j'].namespace: expected a string, got None"),
            ),
            ({"jobs": [job("j", queue="")]}, "jobs['default/j'].queue: is empty"),
            (
                {"jobs": [job("j", queue=Q)]},
                (f"jobs['default/j'].queue: expected a string, got {cut(Q)}"),
            ),
            (
                {"jobs": [job("j"), job("j", priority=2)]},
                "jobs['default/j']: expected a unique name, got it again",
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
            ({"name": None}, "name: expected a string, got None"),
            ({"namespace": ""}, "namespace: is empty"),
            ({"namespace": 3}, "namespace: expected a string, got 3"),
            ({"priority_class_name": None}, "priority_class_name: expected a string, got None"),
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
                ("scoring_request: expected a ScoringRequest or None, got (1, 2)"),
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
            (5, "jobs['default/j'].tasks[5].uid: expected a string, got 5"),
            (None, "jobs['default/j'].tasks[None].uid: expected a string, got None"),
            ([], "jobs['default/j'].tasks[[]].uid: expected a string, got []"),
        ],
    )
    def test_of_the_uid_of_a_task(self, uid: object, fault: str) -> None:
        assert faults_of({"jobs": [job("j", task(uid))]}) == [fault]
