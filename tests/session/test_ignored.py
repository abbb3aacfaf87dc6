"""What data asks for and no configured plugin does is told, whatever field says it."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchsched import (
    JobInfo,
    NodeInfo,
    Preemptible,
    Queue,
    Resource,
    ResourceLimit,
    Scheduler,
    SchedulerConfig,
    Snapshot,
    TaskGroup,
    TaskInfo,
    Topology,
    TopologyRequest,
    schedule,
)
from batchsched.live import Cluster, JobArrived, JobRemoved
from batchsched.model.constraints import (
    HostPort,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    TaintEffect,
)
from batchsched.model.devices import DeviceClaim, DeviceRequest
from batchsched.model.notice import ASKED, NoticeCode

CPU = Resource(milli_cpu=1000)
NEAR = PodAffinity(required=[PodAffinityTerm(selector=LabelSelector(), topology_key="zone")])
RACK = TopologyRequest("network", required="rack")
GPU = DeviceClaim(name="gpu", requests=[DeviceRequest(name="gpu")])

ASKING: Mapping[str, object] = {
    "JobInfo.topology": RACK,
    "JobInfo.preemptible": Preemptible.SURPLUS,
    "JobInfo.preempts": False,
    "JobInfo.claim_delay": 60,
    "JobInfo.quota_reserved": True,
    "JobInfo.evict_whole": True,
    "JobInfo.min_available": 2,
    "JobInfo.groups": [TaskGroup("workers", min=1)],
    "TaskInfo.claims": [GPU],
    "TaskInfo.node_selector": {"disk": "ssd"},
    "TaskInfo.node_affinity": NodeAffinity(required=[NodeSelectorTerm(match_expressions=[])]),
    "TaskInfo.host_ports": [HostPort(port=80)],
    "TaskInfo.pod_affinity": NEAR,
    "TaskInfo.pod_anti_affinity": NEAR,
    "NodeInfo.max_tasks": 2,
    "NodeInfo.taints": [Taint(key="gpu", effect=TaintEffect.NO_SCHEDULE)],
    "NodeInfo.unschedulable": True,
    "NodeInfo.conditions": {"Ready": "False"},
    "Queue.limit": ResourceLimit(milli_cpu=1000),
    "Queue.guarantee": CPU,
    "Queue.deserved": CPU,
    "Queue.preempt_min_runtime": 60,
    "Queue.reclaim_min_runtime": 60,
}
"""For each field, a value that asks for something."""

RANKS = {
    *("JobInfo.priority", "JobInfo.deadline", "JobInfo.max_wait", "JobInfo.creation_time"),
    *("JobInfo.eligible_time", "JobInfo.estimate", "JobInfo.user", "JobInfo.plan"),
    *("TaskInfo.priority", "TaskInfo.priority_class_name", "TaskInfo.creation_time"),
    *("TaskInfo.estimate", "TaskInfo.attained_service", "TaskInfo.start_time"),
    *("TaskInfo.eviction_cost", "TaskInfo.checkpoint_time"),
    *("TaskInfo.scoring_request", "Queue.weight", "Queue.priority", "Queue.creation_time"),
    *("Queue.usage", "Queue.usage_by_user", "Queue.usage_half_life"),
}
"""What jobs, tasks and queues are ranked by, as a configuration chooses."""
ALWAYS = {
    *("JobInfo.queue", "JobInfo.tasks", "JobInfo.depends_on", "JobInfo.holds"),
    *("JobInfo.max_available", "JobInfo.min_groups", "TaskInfo.status", "TaskInfo.node_name"),
    *("TaskInfo.resreq", "TaskInfo.init_resreq", "TaskInfo.is_backfill", "TaskInfo.group"),
    *("TaskInfo.holds", "TaskInfo.leaving", "NodeInfo.allocatable", "Queue.parent", "Queue.state"),
    *("Queue.reclaimable",),
}
"""What counts under every configuration, or says nothing without another field here."""
SAYS = {
    *("JobInfo.name", "JobInfo.namespace", "JobInfo.labels", "JobInfo.uid", "TaskInfo.uid"),
    *("TaskInfo.name", "TaskInfo.namespace", "TaskInfo.labels", "TaskInfo.tolerations"),
    *("TaskInfo.index", "TaskInfo.is_on_each_node", "TaskInfo.devices", "TaskInfo.choices"),
    *("NodeInfo.name", "NodeInfo.labels", "NodeInfo.devices", "NodeInfo.counter_sets"),
    *("TaskInfo.left_devices", "TaskInfo.left_choices"),
    *("NodeInfo.closed_pools", "Queue.name", "JobInfo.last_evicted"),
}
"""What others ask for, or what has been chosen: it asks for nothing itself."""

EMPTY = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["priority"]}]})
BY_NAME = {asks.name: asks for asks in ASKED}


def test_every_field_of_the_data_is_one_that_asks_or_is_known_to_ask_for_nothing() -> None:
    fields = {
        f"{kind.__name__}.{each.name}"
        for kind in (JobInfo, TaskInfo, NodeInfo, Queue)
        for each in attrs.fields(kind)
    }
    assert BY_NAME.keys() == {*ASKING, "JobInfo.groups.topology"}
    assert {*RANKS, *ALWAYS, *SAYS, *ASKING} == fields
    assert len(RANKS) + len(ALWAYS) + len(SAYS) + len(ASKING) == len(fields)


def cluster(**given: object) -> Snapshot:
    """Return a job of two tasks on an idle node, with some fields: ``TaskInfo.claims``."""

    def of(kind: str) -> dict[str, object]:
        parts = ((name.partition("."), value) for name, value in given.items())
        return {field: value for (of_kind, _, field), value in parts if of_kind == kind}

    groups = "JobInfo.groups" in given
    tasks = [
        TaskInfo(
            uid=f"t{number}",
            name=f"t{number}",
            resreq=CPU,
            **{"group": "workers" if groups else None, **of("TaskInfo")},  # type: ignore[arg-type]
        )
        for number in range(2)
    ]
    job = {"min_available": 0 if groups else 1, **of("JobInfo")}
    return Snapshot(
        nodes=[NodeInfo(name="n1", allocatable=CPU, **of("NodeInfo"))],  # type: ignore[arg-type]
        queues=[Queue(name="q", **of("Queue"))],  # type: ignore[arg-type]
        jobs=[JobInfo(name="j", queue="q", tasks=tasks, **job)],  # type: ignore[arg-type]
        topologies=[Topology("network", levels=["rack"])],
    )


@pytest.mark.parametrize("name", ASKING)
def test_who_asks_for_what_no_plugin_does_is_told(name: str) -> None:
    asking = cluster(**{name: ASKING[name]})
    [notice] = schedule(asking, config=EMPTY).notices
    assert f"{notice.kind}.{notice.field}" == name
    assert notice.count == (2 if notice.kind == "TaskInfo" else 1)
    assert notice in Scheduler(EMPTY).ignores(asking)
    assert str(notice) in str(schedule(asking, config=EMPTY))
    for plugin in BY_NAME[name].plugins:
        with_it = SchedulerConfig.from_mapping({"tiers": [{"plugins": [plugin]}]})
        assert name not in {
            f"{each.kind}.{each.field}" for each in Scheduler(with_it).ignores(asking)
        }
    assert schedule(asking).notices == ()
    assert schedule(cluster(), config=EMPTY).notices == ()


def test_a_group_that_asks_for_a_rack_is_told() -> None:
    groups = [TaskGroup("workers", min=0, topology=RACK)]
    told = schedule(cluster(**{"JobInfo.groups": groups}), config=EMPTY).notices
    assert [each.field for each in told] == ["groups.topology", "groups"]


def test_what_excludes_nothing_is_not_told() -> None:
    nothing = {
        "TaskInfo.node_affinity": NodeAffinity(),
        "TaskInfo.pod_affinity": PodAffinity(),
        "NodeInfo.taints": [Taint(key="old", effect=TaintEffect.PREFER_NO_SCHEDULE)],
        "NodeInfo.conditions": {"Ready": "True"},
        "Queue.reclaim_min_runtime": 0,
    }
    assert schedule(cluster(**nothing), config=EMPTY).notices == ()


class Obeying:
    """A plugin of one's own that chooses devices."""

    obeys = ("TaskInfo.claims",)

    def open(self, _view: object) -> object:
        """Rank all jobs alike."""

        class Opened:
            def job_order_key(self, _job: object) -> int:
                return 0

        return Opened()


def test_a_plugin_of_ones_own_may_obey() -> None:
    from batchsched import default_registry  # noqa: PLC0415 - only here

    registry = default_registry()
    registry.register_plugin("own", Obeying)
    config = SchedulerConfig.from_mapping({"tiers": [{"plugins": ["own"]}]}, registry=registry)
    asking = cluster(**{"TaskInfo.claims": [GPU], "JobInfo.preemptible": False})
    told = schedule(asking, config=config, registry=registry).notices
    assert [each.field for each in told] == ["preemptible"]
    assert [each.code for each in told] == [NoticeCode.NOT_CONFIGURED]


JOBS = st.lists(
    st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans(), st.booleans()), max_size=4
)


@settings(max_examples=60, deadline=None)
@given(st.lists(JOBS, min_size=1, max_size=4))
def test_a_living_cluster_tells_what_one_from_scratch_tells(
    cycles: list[list[tuple[str, bool, bool, bool]]],
) -> None:
    living = Cluster(cluster())
    attached = Scheduler(EMPTY).attach(living)
    for changes in cycles:
        for name, claims, stays, goes in changes:
            there = any(job.name == name for job in living.snapshot().jobs)
            if there:
                living.apply(JobRemoved(f"default/{name}"))
            if not goes:
                task = TaskInfo(uid=name, name=name, resreq=CPU, claims=[GPU] if claims else [])
                job = JobInfo(name=name, queue="q", tasks=[task], preemptible=not stays)
                living.apply(JobArrived(job))
        result = attached.schedule()
        assert result.notices == schedule(living.snapshot(), config=EMPTY).notices
        living.carry_out(result, at_once=True)
