"""Every fault that a snapshot finds in amounts, places and what nodes hold."""

from __future__ import annotations

from fractions import Fraction
from math import nan

import attrs
import pytest
from tests.support.snapshot_content import (
    HUGE,
    INF,
    N1,
    NAN,
    cut,
    faults_of,
    job,
    task,
    with_task,
)

from batchsched import NodeInfo, Resource, Scheduler, Snapshot, TaskStatus

RESOURCE_FAULTS = [
    (Resource(milli_cpu=-1), ".milli_cpu: expected 0 or more, got -1"),
    (Resource(milli_cpu=-0.05), ".milli_cpu: expected 0 or more, got -0.05"),
    (
        Resource(milli_cpu=0.5),
        ".milli_cpu: expected a whole number of thousandths of a cpu, got 0.5; round it",
    ),
    (Resource(memory=7.9), ".memory: expected a whole number of bytes, got 7.9; round it"),
    (
        Resource(scalars={"x": 1e-3}),
        ".scalars['x']: expected a whole number of thousandths, got 0.001; round it",
    ),
    (Resource(milli_cpu=None), ".milli_cpu: expected a number, got None"),
    (Resource(milli_cpu="500m"), ".milli_cpu: expected a number, got '500m'"),
    (Resource(milli_cpu=True), ".milli_cpu: expected a number, got True"),
    (Resource(milli_cpu=Fraction(1, 2)), ".milli_cpu: expected a number, got Fraction(1, 2)"),
    (Resource(milli_cpu=NAN), ".milli_cpu: expected a finite number, got nan"),
    (Resource(memory=INF), ".memory: expected a finite number, got inf"),
    (Resource(memory=-INF), ".memory: expected a finite number, got -inf"),
    (Resource(memory=HUGE), f".memory: expected a finite number, got {cut(HUGE)}"),
    (Resource(memory=[]), ".memory: expected a number, got []"),
    (Resource(scalars={"x": -2}), ".scalars['x']: expected 0 or more, got -2"),
    (Resource(scalars={"x": NAN}), ".scalars['x']: expected a finite number, got nan"),
    (Resource(scalars={"x": None}), ".scalars['x']: expected a number, got None"),
    (Resource(scalars={"x": False}), ".scalars['x']: expected a number, got False"),
    (
        Resource(scalars={"cpu": 1}),
        ".scalars['cpu']: expected the name of a scalar, other than cpu and memory, got 'cpu'",
    ),
    (
        Resource(scalars={"memory": 1}),
        (
            ".scalars['memory']: expected the name of a scalar, other than cpu and memory, "
            "got 'memory'"
        ),
    ),
    (
        Resource(scalars={"": 1}),
        (".scalars['']: expected the name of a scalar, other than cpu and memory, got ''"),
    ),
    (
        Resource(scalars={3: 1}),
        ".scalars[3]: expected the name of a scalar, other than cpu and memory, got 3",
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
            "jobs['default/j'].tasks['a'].resreq.milli_cpu: expected 0 or more, got -1",
            "jobs['default/j'].tasks['b'].resreq.milli_cpu: expected 0 or more, got -1",
        ]

    def test_both_requests_may_be_at_fault(self) -> None:
        content = with_task(resreq=Resource(milli_cpu=-1), init_resreq=Resource(memory=-2))
        assert faults_of(content) == [
            "jobs['default/j'].tasks['t'].resreq.milli_cpu: expected 0 or more, got -1",
            "jobs['default/j'].tasks['t'].init_resreq.memory: expected 0 or more, got -2",
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
                f"jobs['default/j'].tasks['t'].init_resreq: expected at least resreq, "
                f"{resreq!r}, got {init_resreq!r}"
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
                    "status: expected a TaskStatus, got None; known: Pending, "
                    "Allocated, Pipelined, Conditional, Reserved, Binding, Bound, Running, "
                    "Releasing, Succeeded, Failed, Unknown"
                ),
            ),
            (
                {"status": TaskStatus.ALLOCATED, "node_name": "n1"},
                "status: expected a status outside of sessions, got Allocated; use Pending",
            ),
            (
                {"status": TaskStatus.CONDITIONAL, "node_name": "n1"},
                "status: expected a status outside of sessions, got Conditional; use Pending",
            ),
            ({"node_name": "n1"}, "node_name: expected None for a task that is Pending, got 'n1'"),
            ({"node_name": ""}, "node_name: expected None for a task that is Pending, got ''"),
            (
                {"status": TaskStatus.SUCCEEDED, "node_name": "n1"},
                "node_name: expected None for a task that has Succeeded, got 'n1'",
            ),
            (
                {"status": TaskStatus.FAILED, "node_name": "n1"},
                "node_name: expected None for a task that has Failed, got 'n1'",
            ),
            (
                {"status": TaskStatus.RUNNING},
                "node_name: expected a node for a task that is Running, got None",
            ),
            (
                {"status": TaskStatus.BOUND},
                "node_name: expected a node for a task that is Bound, got None",
            ),
            (
                {"status": TaskStatus.BINDING},
                "node_name: expected a node for a task that is Binding, got None",
            ),
            (
                {"status": TaskStatus.RESERVED},
                "node_name: expected a node for a task that is Reserved, got None",
            ),
            (
                {"status": TaskStatus.PIPELINED},
                "node_name: expected a node for a task that is Pipelined, got None",
            ),
            (
                {"status": TaskStatus.RUNNING, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot; known: 'n1'",
            ),
            (
                {"status": TaskStatus.BOUND, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot; known: 'n1'",
            ),
            (
                {"status": TaskStatus.BINDING, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot; known: 'n1'",
            ),
            (
                {"status": TaskStatus.RELEASING, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot; known: 'n1'",
            ),
            (
                {"status": TaskStatus.UNKNOWN, "node_name": "n2"},
                "node_name: there is no node 'n2' in this snapshot; known: 'n1'",
            ),
            (
                {"status": TaskStatus.RUNNING, "node_name": ""},
                "node_name: there is no node '' in this snapshot; known: 'n1'",
            ),
            ({"status": TaskStatus.RESERVED, "node_name": ""}, "node_name: is empty"),
            (
                {"status": TaskStatus.RESERVED, "node_name": 1},
                "node_name: expected a string, got 1",
            ),
            (
                {"status": TaskStatus.RUNNING, "node_name": []},
                ("node_name: expected a string, got []"),
            ),
            (
                {"status": TaskStatus.RUNNING, "node_name": N1},
                (f"node_name: expected a string, got {cut(N1)}"),
            ),
        ],
    )
    def test_of_a_task(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(with_task(**content)) == [f"jobs['default/j'].tasks['t'].{fault}"]

    def test_only_tasks_of_jobs_are_reserved(self) -> None:
        reserved = task(status=TaskStatus.RESERVED, node_name="n1")
        assert faults_of({"nodes": [N1], "other_tasks": [reserved]}) == [
            (
                "other_tasks['t'].status: expected another status for a task "
                "without a job, which is never placed, got Reserved"
            )
        ]

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (
                {"jobs": [job("a", task("u"), task("u"))]},
                (
                    "jobs['default/a'].tasks['u'].uid: expected a unique UID, got 'u', "
                    "which is also in jobs['default/a']"
                ),
            ),
            (
                {"jobs": [job("b", task("u")), job("a", task("u"))]},
                (
                    "jobs['default/b'].tasks['u'].uid: expected a unique UID, got 'u', "
                    "which is also in jobs['default/a']"
                ),
            ),
            (
                {"jobs": [job("a", task("u"))], "other_tasks": [task("u")]},
                (
                    "other_tasks['u'].uid: expected a unique UID, got 'u', "
                    "which is also in jobs['default/a']"
                ),
            ),
            (
                {"other_tasks": [task("u"), task("u")]},
                (
                    "other_tasks['u'].uid: expected a unique UID, got 'u', "
                    "which is also in other_tasks"
                ),
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
