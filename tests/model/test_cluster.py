"""The data model: tasks, jobs, nodes and queues, before anything checks them."""

from __future__ import annotations

import copy
import pickle

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError
from hypothesis import given
from hypothesis import strategies as st

from batchsched import (
    Dependency,
    Hold,
    HoldKind,
    HostPort,
    JobEvent,
    JobInfo,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Plan,
    PodAffinity,
    Preemptible,
    Queue,
    QueueStatus,
    Resource,
    ResourceLimit,
    ScoringRequest,
    Taint,
    TaintEffect,
    TaskGroup,
    TaskInfo,
    TaskStatus,
    Toleration,
    TopologyRequest,
)
from batchsched.devices import CounterSet, Device, DeviceClaim, DevicePick, DeviceRequest

FULL_TASK = {
    "uid": "u1",
    "name": "worker-0",
    "namespace": "team",
    "status": TaskStatus.RUNNING,
    "node_name": "n1",
    "resreq": Resource(milli_cpu=500, scalars={"nvidia.com/gpu": 1000}),
    "init_resreq": Resource(milli_cpu=700, scalars={"nvidia.com/gpu": 1000}),
    "scoring_request": ScoringRequest(milli_cpu=500, memory=0),
    "priority": 7,
    "priority_class_name": "high",
    "creation_time": 12.5,
    "is_backfill": True,
    "is_on_each_node": True,
    "labels": {"app": "db"},
    "node_selector": {"disk": "ssd"},
    "node_affinity": NodeAffinity(required=[NodeSelectorTerm()]),
    "tolerations": (Toleration(key="a"),),
    "host_ports": (HostPort(port=80),),
    "pod_affinity": PodAffinity(),
    "pod_anti_affinity": PodAffinity(),
    "start_time": 20.0,
    "estimate": 60.0,
    "attained_service": 5.0,
    "group": "workers",
    "holds": (Hold(HoldKind.GATE, "example.com/license"),),
    "index": 3,
    "claims": (DeviceClaim(name="c", requests=[DeviceRequest(name="gpu")]),),
    "devices": (DevicePick(claim="c", request="gpu", device=("", "", "g0")),),
    "choices": {"slots": (1, "a")},
    "checkpoint_time": 15.0,
    "eviction_cost": 7,
    "leaving": "n0",
    "left_devices": (DevicePick(claim="c", request="gpu", device=("", "", "g7")),),
    "left_choices": {"slots": (2, "b")},
}
FULL_JOB = {
    "name": "train",
    "namespace": "team",
    "queue": "gpu",
    "min_available": 2,
    "max_available": 4,
    "groups": (TaskGroup("workers", min=1, max=3),),
    "min_groups": 1,
    "priority": 3,
    "creation_time": 1.5,
    "tasks": (TaskInfo(**FULL_TASK),),
    "labels": {"team": "red"},
    "user": "ann",
    "estimate": 90.0,
    "deadline": 500.0,
    "max_wait": 30.0,
    "preemptible": Preemptible.SURPLUS,
    "preempts": False,
    "claim_delay": 60.0,
    "last_evicted": 10.0,
    "evict_whole": True,
    "quota_reserved": True,
    "depends_on": (Dependency(job="team/prepare", on=JobEvent.SUCCEEDED),),
    "eligible_time": 2.5,
    "plan": Plan(start=40.0, nodes={"u1": "n1"}),
    "holds": (Hold(HoldKind.NOT_ADMITTED, "gpu", "no quota", until=7.0),),
    "topology": TopologyRequest(required="zone"),
}
FULL_NODE = {
    "name": "n1",
    "allocatable": Resource(milli_cpu=8000),
    "max_tasks": 110,
    "labels": {"zone": "z1"},
    "taints": (Taint(key="a", effect=TaintEffect.NO_SCHEDULE),),
    "unschedulable": True,
    "conditions": {"Ready": "True"},
    "devices": (Device(name="g0", counters={"gpu": {"slices": 1}}),),
    "counter_sets": (CounterSet(name="gpu", counters={"slices": 7}),),
    "closed_pools": (("d", "p"),),
}
FULL_QUEUE = {
    "name": "gpu",
    "weight": 3,
    "creation_time": 1.0,
    "parent": "research",
    "priority": 2,
    "guarantee": Resource(milli_cpu=1000),
    "deserved": Resource(milli_cpu=2000),
    "limit": ResourceLimit(milli_cpu=9000, scalars={"nvidia.com/gpu": 1000}),
    "state": QueueStatus.CLOSED,
    "reclaimable": False,
    "usage": Resource(milli_cpu=3_600_000.5),
    "usage_by_user": {"ann": Resource(milli_cpu=1_800_000)},
    "usage_half_life": 3600.0,
    "preempt_min_runtime": 60.0,
    "reclaim_min_runtime": 90.0,
}
EVERYTHING = [
    (TaskInfo, FULL_TASK),
    (JobInfo, FULL_JOB),
    (NodeInfo, FULL_NODE),
    (Queue, FULL_QUEUE),
]


def field_names(kind: type) -> set[str]:
    return {field.name for field in attrs.fields(kind) if field.init}


@pytest.mark.parametrize(("kind", "content"), EVERYTHING)
class TestEveryKind:
    def test_the_examples_here_give_every_field(self, kind: type, content: dict) -> None:
        assert set(content) == field_names(kind)

    def test_it_keeps_what_it_is_given(self, kind: type, content: dict) -> None:
        made = kind(**content)
        assert {name: getattr(made, name) for name in content} == content

    def test_it_is_a_value(self, kind: type, content: dict) -> None:
        made = kind(**content)
        for other in (
            kind(**content),
            pickle.loads(pickle.dumps(made)),
            copy.copy(made),
            copy.deepcopy(made),
            attrs.evolve(made),
        ):
            assert other == made
            assert hash(other) == hash(made)

    def test_it_cannot_be_changed(self, kind: type, content: dict) -> None:
        made = kind(**content)
        for name in content:
            with pytest.raises(FrozenInstanceError):
                setattr(made, name, None)
            with pytest.raises(FrozenInstanceError):
                delattr(made, name)
        with pytest.raises((FrozenInstanceError, AttributeError)):
            made.note = "new"

    def test_a_difference_in_any_field_makes_a_difference(self, kind: type, content: dict) -> None:
        made = kind(**content)
        required = {"uid": "other", "name": "other", "queue": "other"}
        for field in attrs.fields(kind):
            if not field.init:
                continue
            change = required.get(field.name, field.default)
            assert change != content[field.name]
            assert attrs.evolve(made, **{field.name: change}) != made

    def test_its_fields_are_given_by_name(self, kind: type, content: dict) -> None:
        with pytest.raises(TypeError):
            kind(*content.values())

    def test_mappings_and_collections_are_frozen(self, kind: type, content: dict) -> None:
        loose = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in content.items()
        }
        made = kind(**loose)
        assert made == kind(**content)
        assert hash(made) == hash(kind(**content))
        for name, value in content.items():
            if isinstance(value, dict):
                with pytest.raises(TypeError, match="cannot be changed"):
                    getattr(made, name)["new"] = 1
            if isinstance(value, tuple):
                assert type(getattr(made, name)) is tuple


class TestDefaults:
    def test_of_a_task(self) -> None:
        task = TaskInfo(uid="u", name="n")
        assert (task.namespace, task.status, task.node_name) == (
            "default",
            TaskStatus.PENDING,
            None,
        )
        assert (task.resreq, task.init_resreq, task.scoring_request) == (Resource(), None, None)
        assert (task.priority, task.priority_class_name, task.creation_time) == (1, "", 0)
        assert task.is_backfill is False
        assert (task.labels, task.node_selector, task.tolerations, task.host_ports) == (
            {},
            {},
            (),
            (),
        )
        assert task.node_affinity is task.pod_affinity is task.pod_anti_affinity is None

    def test_of_a_job(self) -> None:
        job = JobInfo(name="j", queue="q")
        assert (job.namespace, job.min_available, job.priority) == ("default", 1, 0)
        assert (job.creation_time, job.tasks) == (0, ())

    def test_of_a_node(self) -> None:
        node = NodeInfo(name="n")
        assert (node.allocatable, node.max_tasks, node.unschedulable) == (Resource(), None, False)
        assert (node.labels, node.taints, node.conditions) == ({}, (), {})

    def test_of_a_queue(self) -> None:
        assert (Queue(name="q").weight, Queue(name="q").creation_time) == (1, 0)


class TestTask:
    def test_what_it_needs_to_start_is_its_request_unless_given(self) -> None:
        request, more = Resource(milli_cpu=1), Resource(milli_cpu=2)
        assert TaskInfo(uid="u", name="n", resreq=request).start_request is request
        assert TaskInfo(uid="u", name="n", resreq=request, init_resreq=more).start_request is more

    def test_it_needs_no_less_to_start_than_to_run(self) -> None:
        request, nearly = Resource(milli_cpu=1.09, memory=1), Resource(milli_cpu=1, memory=2)
        starts = TaskInfo(uid="u", name="n", resreq=request, init_resreq=nearly).start_request
        assert starts == Resource(milli_cpu=1.09, memory=2)

    @pytest.mark.parametrize(
        ("resreq", "init_resreq", "expected"),
        [
            (Resource(), None, True),
            (Resource(milli_cpu=0.05), None, True),
            (Resource(scalars={"x": 0}), None, True),
            (Resource(milli_cpu=1), None, False),
            (Resource(scalars={"x": 1}), None, False),
            (Resource(), Resource(), True),
            (Resource(), Resource(memory=1), False),
        ],
    )
    def test_it_is_best_effort_if_it_needs_nothing_to_start(
        self, resreq: Resource, init_resreq: Resource | None, expected: bool
    ) -> None:
        task = TaskInfo(uid="u", name="n", resreq=resreq, init_resreq=init_resreq)
        assert task.is_best_effort is expected

    def test_its_full_name(self) -> None:
        assert TaskInfo(uid="u", name="n", namespace="team").full_name == "team/n"

    @pytest.mark.parametrize(
        ("resreq", "counted"),
        [
            (Resource(), (100, 200 << 20)),
            (Resource(milli_cpu=500), (500, 200 << 20)),
            (Resource(memory=1 << 30), (100, 1 << 30)),
            (Resource(milli_cpu=500, memory=1 << 30), (500, 1 << 30)),
            (Resource(milli_cpu=1500.7, memory=7.9), (1500, 7)),
            (Resource(milli_cpu=0.5, memory=0.5), (0, 0)),  # named, and next to nothing
            (Resource(scalars={"x": 1}), (100, 200 << 20)),
        ],
    )
    def test_in_scores_it_counts_as_one_container(
        self, resreq: Resource, counted: tuple[int, int]
    ) -> None:
        scoring = TaskInfo(uid="u", name="n", resreq=resreq).counts_in_scores()
        assert (scoring.milli_cpu, scoring.memory) == counted
        assert type(scoring.milli_cpu) is type(scoring.memory) is int

    def test_in_scores_it_counts_what_is_given(self) -> None:
        scoring = ScoringRequest(milli_cpu=0, memory=0)
        task = TaskInfo(uid="u", name="n", resreq=Resource(milli_cpu=500), scoring_request=scoring)
        assert task.counts_in_scores() is scoring


class TestJob:
    def test_its_uid_is_its_namespace_and_name(self) -> None:
        assert JobInfo(name="j", namespace="team", queue="q").uid == "team/j"
        job = JobInfo(name="j", queue="q")
        assert job.uid == "default/j"
        assert attrs.evolve(job, name="k").uid == "default/k"
        assert copy.deepcopy(job).uid == pickle.loads(pickle.dumps(job)).uid == "default/j"

    def test_its_uid_is_not_told_twice(self) -> None:
        assert "uid" not in repr(JobInfo(name="j", queue="q"))

    def test_its_uid_cannot_be_given(self) -> None:
        with pytest.raises(TypeError):
            JobInfo(name="j", queue="q", uid="x")

    @given(st.permutations(["a", "b", "c", "10", "9", "Z", "\u00e9"]))
    def test_tasks_are_kept_in_order_of_uid_however_they_are_given(self, uids: list[str]) -> None:
        job = JobInfo(name="j", queue="q", tasks=[TaskInfo(uid=uid, name="t") for uid in uids])
        assert [task.uid for task in job.tasks] == ["10", "9", "Z", "a", "b", "c", "\u00e9"]

    def test_tasks_may_come_from_a_generator(self) -> None:
        job = JobInfo(name="j", queue="q", tasks=(TaskInfo(uid=uid, name="t") for uid in "ba"))
        assert [task.uid for task in job.tasks] == ["a", "b"]

    @pytest.mark.parametrize("tasks", [None, 5, {"a": 1}, "tasks"])
    def test_what_is_no_collection_of_tasks_is_kept_for_the_snapshot_to_refuse(
        self, tasks: object
    ) -> None:
        assert JobInfo(name="j", queue="q", tasks=tasks).tasks == tasks
