from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.support.kubernetes_objects import container, node, pod, pod_group

from batchsched import (
    KubernetesObjectError,
    NoticeCode,
    Queue,
    SnapshotError,
    TaskStatus,
    schedule,
)
from batchsched.kubernetes import snapshot_from_objects

RUNNING = {"phase": "Running"}
VOLCANO = "scheduling.volcano.sh/group-name"


def snapshot(*pods, **more):
    return snapshot_from_objects(nodes=[node()], pods=list(pods), **more)


def queue(name="q", **spec):
    return {"metadata": {"name": name}, "spec": spec}


def test_pod_groups_become_jobs():
    group = pod_group(minMember=2, priorityClassName="high")
    group["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    (job,) = snapshot(
        pod("p2"),
        pod("p1"),
        pod_groups=[group],
        priority_classes=[{"metadata": {"name": "high"}, "value": 9}],
    ).jobs
    assert (job.uid, job.queue, job.min_available) == ("a/g1", "q", 2)
    assert (job.priority, job.creation_time) == (9, 60.0)
    assert [task.name for task in job.tasks] == ["p1", "p2"]


def test_what_pod_groups_do_not_say_has_defaults():
    bare = {"metadata": {"name": "g"}}
    (job,) = snapshot(pod_groups=[bare]).jobs
    assert (job.uid, job.queue, job.min_available) == ("default/g", "default", 0)
    assert (job.priority, job.creation_time, job.tasks) == (0, 0.0, ())


def test_an_unknown_priority_class_counts_as_none():
    (job,) = snapshot(pod_groups=[pod_group(priorityClassName="gone")]).jobs
    assert job.priority == 0


def test_groups_are_looked_up_in_the_pods_namespace():
    groups = [pod_group(namespace="a"), pod_group(namespace="b")]
    read = snapshot(pod("p1", namespace="b"), pod_groups=groups)
    assert {job.uid: len(job.tasks) for job in read.jobs} == {"a/g1": 0, "b/g1": 1}


def test_volcanos_annotation_names_the_group_too():
    given = pod(group="", metadata={"annotations": {VOLCANO: "g1"}})
    (job,) = snapshot(given, pod_groups=[pod_group()]).jobs
    assert len(job.tasks) == 1


def test_kube_batchs_annotation_goes_before_volcanos():
    given = pod(group="g1", metadata={"annotations": {VOLCANO: "g2"}})
    read = snapshot(given, pod_groups=[pod_group("g1"), pod_group("g2")])
    assert {job.name: len(job.tasks) for job in read.jobs} == {"g1": 1, "g2": 0}


def test_queues_have_a_weight_and_a_creation_time():
    created = queue("a", weight=3)
    created["metadata"]["creationTimestamp"] = "1970-01-01T00:01:00Z"
    assert snapshot(queues=[queue("b"), created]).queues == (
        Queue(name="a", weight=3, creation_time=60.0),
        Queue(name="b", weight=1),
    )


def test_a_weight_of_zero_is_kept_and_not_taken_for_a_missing_one():
    assert snapshot(queues=[queue(weight=0)]).queues[0].weight == 0
    with pytest.raises(SnapshotError, match="weight"):
        snapshot(queues=[queue(weight=-1)])


def test_a_pod_without_a_group_is_a_job_of_its_own_in_the_default_queue():
    given = pod(group="", priority=5, metadata={"creationTimestamp": "1970-01-01T00:01:00Z"})
    read = snapshot(given)
    (job,) = read.jobs
    assert (job.uid, job.queue, job.min_available) == ("a/p1", "default", 1)
    assert (job.priority, job.creation_time) == (5, 60.0)
    assert [task.uid for task in job.tasks] == ["uid-p1"]
    assert read.queues == (Queue(name="default"),)
    assert read.other_tasks == ()


def test_a_pod_without_a_group_and_priority_is_a_job_of_priority_zero():
    (job,) = snapshot(pod(group="")).jobs
    assert job.priority == 0
    assert job.tasks[0].priority == 1


def test_the_default_queue_is_kept_as_given_and_added_only_where_it_is_used():
    lone = pod(group="")
    assert snapshot(lone, queues=[queue("default", weight=7)]).queues == (
        Queue(name="default", weight=7),
    )
    assert snapshot(lone, default_queue="lone").queues == (Queue(name="lone"),)
    assert snapshot(pod(), pod_groups=[pod_group()], queues=[queue()]).queues == (Queue(name="q"),)


def test_a_queue_that_is_not_given_is_no_fault_and_not_added():
    assert snapshot(pod(), pod_groups=[pod_group(queue="nowhere")]).queues == ()


def test_pods_of_other_schedulers_only_occupy_their_nodes():
    read = snapshot(
        pod("running", group="", schedulerName="other", nodeName="n1", status=RUNNING),
        pod("unnamed", group="", schedulerName=None, nodeName="n1", status=RUNNING),
        pod("pending", group="", schedulerName="other"),
        pod(
            "reserved",
            group="",
            schedulerName="other",
            metadata={"annotations": {"scheduling.k8s.io/kube-batch-reserved-node": "n1"}},
        ),
        pod("ended", group="", schedulerName="other", nodeName="n1", status={"phase": "Failed"}),
    )
    assert [task.name for task in read.other_tasks] == ["running", "unnamed"]
    assert read.jobs == read.queues == ()


def test_the_schedulers_name_can_be_chosen():
    given = pod(group="", schedulerName="mine", nodeName="n1", status=RUNNING)
    assert len(snapshot(given, scheduler_name="mine").jobs) == 1
    assert len(snapshot(given).other_tasks) == 1


def test_members_of_a_given_group_belong_to_it_whatever_scheduler_they_ask_for():
    (job,) = snapshot(pod(schedulerName="other"), pod_groups=[pod_group()]).jobs
    assert len(job.tasks) == 1


@pytest.mark.parametrize(
    ("status", "node_name"), [("Pending", None), ("Pending", "n1"), ("Running", "n1")]
)
def test_a_pod_whose_group_is_not_given_is_held_or_counts_only_for_what_it_holds(status, node_name):
    given = pod(nodeName=node_name, status={"phase": status})
    groups = [pod_group(namespace="b")]
    notices = []
    read = snapshot(given, pod_groups=groups, queues=[queue()], notices=notices)
    assert [len(job.tasks) for job in read.jobs] == ([0] if node_name else [1, 0])
    assert schedule(read).binds == ()
    assert [task.name for task in read.other_tasks] == (["p1"] if node_name else [])
    assert [(notice.code, notice.examples) for notice in notices] == [
        (NoticeCode.GROUP_MISSING, ("a/p1",))
    ]
    with pytest.raises(KubernetesObjectError) as caught:
        snapshot(given, pod_groups=groups, queues=[queue()], strict=True)
    assert str(caught.value) == (
        "pods['a/p1'].metadata.annotations['scheduling.k8s.io/group-name']: "
        "its pod group, or a group above that, was not given: it is not placed"
    )


def test_pods_may_outlive_their_group():
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    read = snapshot(
        pod("p1", metadata=deleted, nodeName="n1", status=RUNNING),
        pod("p2", nodeName="n1", status={"phase": "Succeeded"}),
        pod("p3", nodeName="n1", status={"phase": "Failed"}),
    )
    assert [task.name for task in read.other_tasks] == ["p1"]
    assert read.other_tasks[0].status is TaskStatus.RELEASING


def test_groups_of_other_schedulers_need_not_be_given():
    read = snapshot(pod(schedulerName="volcano", nodeName="n1", status=RUNNING))
    assert len(read.other_tasks) == 1


def test_a_lone_pod_with_the_name_of_a_group_is_a_job_of_another_name():
    read = snapshot(
        pod("g1", group="", nodeName="n1", status=RUNNING),
        pod_groups=[pod_group()],
        queues=[queue()],
    )
    assert [(job.uid, len(job.tasks)) for job in read.jobs] == [("a/Pod/g1", 1), ("a/g1", 0)]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (
            {"pods": [pod(), pod()]},
            "pods['a/p1']: expected a unique name, got it again",
        ),
        (
            {"pods": [], "pod_groups": [pod_group(), pod_group()]},
            "pod_groups['a/g1']: expected a unique name, got it again",
        ),
        (
            {"queues": [queue(), queue()]},
            "queues['q']: expected a unique name, got it again",
        ),
        ({"queues": [{"metadata": {}}]}, "queues[0].metadata.name: is missing"),
        ({"queues": [queue(weight="3")]}, "queues['q'].spec.weight: expected an integer, got '3'"),
        ({"queues": [queue(weight=1.0)]}, "queues['q'].spec.weight: expected an integer, got 1.0"),
        (
            {"pod_groups": [pod_group(queue=3)]},
            "pod_groups['a/g1'].spec.queue: expected a string, got 3",
        ),
        (
            {"priority_classes": [{"metadata": {"name": "c"}, "value": None}]},
            "priority_classes['c'].value: is missing",
        ),
        ({"queues": 5}, "queues: expected a collection of objects, got 5"),
        ({"queues": "q"}, "queues: expected a collection of objects, got 'q'"),
        (
            {"queues": queue()},
            "queues: expected a list of objects or a List object with items, got one",
        ),
        ({"queues": {"items": "q"}}, "queues: expected a list of objects or a List object"),
        ({"queues": [None]}, "queues[0]: expected a mapping, got None"),
        ({"namespaces": [{"metadata": {}}]}, "namespaces[0].metadata.name: is missing"),
        (
            {"now": "noon"},
            "now: expected an RFC 3339 time such as 2026-01-31T08:00:00Z, got 'noon'",
        ),
        (
            {"now": "2026-01-31T08:00:00"},
            "now: expected an RFC 3339 time such as 2026-01-31T08:00:00Z, got '2026-01",
        ),
        (
            {"now": datetime(2026, 1, 1)},
            "now: expected a datetime with a time zone, got datetime.datetime(2026, 1, 1, ",
        ),
        (
            {"now": True},
            "now: expected a time, got True; use RFC 3339, a datetime or seconds",
        ),
        ({"now": []}, "now: expected a time, got []"),
    ],
)
def test_every_fault_is_told_with_its_path(arguments, fault):
    with pytest.raises(KubernetesObjectError) as caught:
        snapshot_from_objects(**({"nodes": [], "pods": []} | arguments))
    assert str(caught.value.faults[0]).startswith(fault)


def test_list_objects_are_read_like_their_items():
    groups, queues, pods = [pod_group()], [queue()], [pod()]
    plain = snapshot(*pods, pod_groups=groups, queues=queues)
    for extra in ({"kind": "List"}, {"kind": "PodList", "apiVersion": "v1"}, {}):
        listed = snapshot_from_objects(
            nodes=extra | {"items": [node()]},
            pods=extra | {"items": pods},
            pod_groups=extra | {"items": tuple(groups)},
            queues=extra | {"items": queues},
        )
        assert listed == plain
    assert snapshot_from_objects(nodes={"kind": "List", "items": None}, pods=[]).nodes == ()


def test_objects_may_come_from_a_generator():
    read = snapshot_from_objects(
        nodes=(node(name) for name in "ab"), pods=iter([pod()]), pod_groups=iter([pod_group()])
    )
    assert [info.name for info in read.nodes] == ["a", "b"]
    assert len(read.jobs[0].tasks) == 1


def test_objects_are_not_changed():
    given = pod(containers=[container({"cpu": "1"})])
    before = repr(given)
    snapshot(given, pod_groups=[pod_group()])
    assert repr(given) == before


@pytest.mark.parametrize(
    ("now", "seconds"),
    [
        (None, 0.0),
        (12, 12),
        (12.5, 12.5),
        ("1970-01-01T00:02:00Z", 120.0),
        ("1970-01-01T01:02:00.250+01:00", 120.25),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        (datetime(1970, 1, 1, 0, 2, tzinfo=UTC), 120.0),
        (datetime(1970, 1, 1, 1, 2, tzinfo=timezone(timedelta(hours=1))), 120.0),
    ],
)
def test_now_is_read_in_every_notation(now, seconds):
    assert snapshot(now=now).now == seconds


def test_without_now_the_latest_time_that_is_told_counts():
    def at(minute):
        return f"1970-01-01T00:{minute:02}:00Z"

    deleted = pod(metadata={"creationTimestamp": at(1), "deletionTimestamp": at(59)})
    group = pod_group()
    group["metadata"]["creationTimestamp"] = at(2)
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": at(3)}
    reporting = node(status={"conditions": [condition]})
    assert snapshot(deleted, pod_groups=[pod_group()]).now == 60.0
    assert snapshot(deleted, pod_groups=[group]).now == 120.0
    read = snapshot_from_objects(nodes=[reporting], pods=[deleted], pod_groups=[group])
    assert read.now == 180.0
    assert snapshot(deleted, pod_groups=[group], now=5).now == 5
