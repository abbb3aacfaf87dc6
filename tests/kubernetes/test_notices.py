import random

import pytest
from tests.support.kubernetes_objects import container, node, pod, pod_group

from batchsched import (
    Hold,
    HoldKind,
    KubernetesObjectError,
    NoticeCode,
    Resource,
    ScoringRequest,
    TaskStatus,
    schedule,
)
from batchsched.kubernetes import read_objects, snapshot_from_objects

RUNNING = {"phase": "Running"}


def queue(name="q", *, state=None, annotations=None, **spec):
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": spec,
        "status": {} if state is None else {"state": state},
    }


def read(*pods, nodes=None, pod_groups=None, queues=None, **more):
    return read_objects(
        nodes=[node()] if nodes is None else nodes,
        pods=list(pods),
        pod_groups=[pod_group()] if pod_groups is None else pod_groups,
        queues=[queue()] if queues is None else queues,
        **more,
    )


def only(notices):
    (notice,) = notices
    return notice


def task(snapshot, name="p1"):
    return next(t for job in snapshot.jobs for t in job.tasks if t.name == name)


def test_nothing_is_noticed_of_objects_that_are_honoured():
    assert read(pod(), pod("p2", nodeName="n1", status=RUNNING))[1] == ()


def test_notices_are_added_to_the_list_that_is_given():
    notices = ["kept"]
    arguments = {"nodes": [], "pods": [pod()], "pod_groups": []}
    snapshot = snapshot_from_objects(**arguments, notices=notices)
    assert (snapshot, tuple(notices[1:])) == read_objects(**arguments)
    assert notices[0] == "kept"
    assert len(notices) == 2


def test_a_notice_counts_all_objects_and_names_the_first_five_in_order_of_name():
    pods = [pod(f"p{i}", topologySpreadConstraints=[{}]) for i in range(7)]
    random.Random(5).shuffle(pods)
    notice = only(read(*pods)[1])
    assert (notice.code, notice.kind, notice.field) == (
        NoticeCode.FIELD_IGNORED,
        "Pod",
        "spec.topologySpreadConstraints",
    )
    assert notice.count == 7
    assert notice.examples == ("a/p0", "a/p1", "a/p2", "a/p3", "a/p4")
    assert str(notice) == (
        "7 x Pod spec.topologySpreadConstraints: ignored: pods are not spread over topology "
        "domains (a/p0, a/p1, a/p2, a/p3, a/p4, ...)"
    )


def test_strict_makes_every_notice_a_fault_with_its_path():
    with pytest.raises(KubernetesObjectError) as caught:
        read(
            pod("p1", resourceClaims=[{"name": "gpu"}]),
            pod("p2", nodeName="n9", status=RUNNING),
            queues=[queue(dequeueStrategy="fifo")],
            strict=True,
        )
    assert [str(fault) for fault in caught.value.faults] == [
        (
            "pods['a/p1'].spec.resourceClaims: ignored: pods may be placed on nodes without the "
            "devices that they claim"
        ),
        (
            "pods['a/p2'].spec.nodeName: on a node that was not given: holds nothing and is not "
            "scheduled"
        ),
        (
            "queues['q'].spec.dequeueStrategy: ignored: jobs behind one that cannot be placed are "
            "tried too"
        ),
    ]


def test_strict_changes_nothing_where_there_is_nothing_to_notice():
    assert read(pod(), strict=True) == read(pod())


PVC = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
CLIENTS_PVC = [{"name": "v", "persistent_volume_claim": {"claim_name": "c"}, "config_map": None}]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "spec.topologySpreadConstraints"),
        ({"topology_spread_constraints": [{"max_skew": 1}]}, "spec.topologySpreadConstraints"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"volumes": PVC}, "spec.volumes"),
        ({"volumes": CLIENTS_PVC}, "spec.volumes"),
        (
            {"metadata": {"annotations": {"volcano.sh/preemptable": "false"}}},
            "metadata.annotations['volcano.sh/preemptable']",
        ),
    ],
)
def test_fields_of_pods_that_change_scheduling_are_noticed(spec, field):
    notice = only(read(pod(**spec))[1])
    assert (notice.code, notice.kind, notice.field) == (NoticeCode.FIELD_IGNORED, "Pod", field)
    assert notice.examples == ("a/p1",)


@pytest.mark.parametrize(
    "spec",
    [
        {"topologySpreadConstraints": []},
        {"volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}]},
        {"volumes": None, "resourceClaims": None},
        {"preemptionPolicy": "PreemptLowerPriority"},
    ],
)
def test_fields_of_pods_that_change_nothing_are_not_noticed(spec):
    assert read(pod(**spec))[1] == ()


def test_what_ended_or_is_not_scheduled_here_is_not_looked_at():
    claims = {"resourceClaims": [{"name": "gpu"}]}
    snapshot, notices = read(
        pod("p1", status={"phase": "Succeeded"}, **claims),
        pod("p2", group="", schedulerName="other", nodeName="n1", status=RUNNING, **claims),
    )
    assert notices == ()
    assert task(snapshot).status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"networkTopology": {"mode": "hard"}}, "spec.networkTopology"),
    ],
)
def test_fields_of_pod_groups_that_change_scheduling_are_noticed(spec, field):
    notice = only(read(pod_groups=[pod_group(**spec)])[1])
    assert (notice.kind, notice.field, notice.examples) == ("PodGroup", field, ("a/g1",))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"parent": "dept"}, "spec.parent"),
        (
            {"annotations": {"volcano.sh/hierarchy": "/a"}},
            "metadata.annotations['volcano.sh/hierarchy']",
        ),
        (
            {"annotations": {"volcano.sh/hierarchy": "root/q"}, "parent": "root"},
            "metadata.annotations['volcano.sh/hierarchy']",
        ),
        (
            {
                "annotations": {
                    "volcano.sh/hierarchy": "root/a/q",
                    "volcano.sh/hierarchy-weights": "1/2",
                }
            },
            "metadata.annotations['volcano.sh/hierarchy-weights']",
        ),
        (
            {
                "annotations": {
                    "volcano.sh/hierarchy": "root/q",
                    "volcano.sh/hierarchy-weights": "1/" + 5000 * "9",
                }
            },
            "metadata.annotations['volcano.sh/hierarchy-weights']",
        ),
    ],
)
def test_fields_of_queues_that_change_scheduling_are_noticed(spec, field):
    notice = only(read(queues=[queue(**spec)])[1])
    assert (notice.kind, notice.field, notice.examples) == ("Queue", field, ("q",))


def test_values_of_queues_that_change_nothing_are_not_noticed():
    given = queue(state="Open", reclaimable=True, parent="root", capability={}, guarantee={})
    assert read(queues=[given])[1] == ()


def test_a_pod_with_scheduling_gates_is_not_scheduled():
    snapshot, _ = read(pod("p1", schedulingGates=[{"name": "x/y"}]), pod("p2"))
    assert (task(snapshot).status, task(snapshot).node_name) == (TaskStatus.PENDING, None)
    assert task(snapshot).holds == (Hold(HoldKind.GATE, "x/y"),)
    assert [bind.task_uid for bind in schedule(snapshot).binds] == ["uid-p2"]


def test_gates_of_a_pod_that_has_a_node_mean_nothing():
    given = pod(schedulingGates=[{"name": "x/y"}], nodeName="n1", status=RUNNING)
    snapshot, notices = read(given)
    assert task(snapshot).status is TaskStatus.RUNNING
    assert notices == ()


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_closed_queue_starts_nothing_new_and_what_runs_goes_on(state):
    reserved = {"annotations": {"scheduling.k8s.io/kube-batch-reserved-node": "n1"}}
    snapshot, notices = read(
        pod("p1"),
        pod("p2", nodeName="n1", status=RUNNING),
        pod("p3", metadata=reserved),
        queues=[queue(state=state)],
    )
    assert [(t.status, t.node_name) for t in snapshot.jobs[0].tasks] == [
        (TaskStatus.PENDING, None),
        (TaskStatus.RUNNING, "n1"),
        (TaskStatus.RESERVED, "n1"),
    ]
    assert notices == ()
    assert schedule(snapshot).binds == ()


def test_a_closed_default_queue_starts_no_pods_without_a_group():
    snapshot, _ = read(pod(group=""), pod_groups=[], queues=[queue("default", state="Closed")])
    assert schedule(snapshot).binds == ()


def test_a_pod_on_a_node_that_is_not_given_holds_nothing_and_is_not_scheduled():
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    snapshot, notices = read(
        pod("p1", nodeName="n9", status=RUNNING),
        pod("p2", nodeName="n9"),
        pod("p3", nodeName="n9", status=RUNNING, metadata=deleted),
        pod("p4", group="", schedulerName="other", nodeName="n9", status=RUNNING),
    )
    assert [(t.status, t.node_name) for t in snapshot.jobs[0].tasks] == [
        (TaskStatus.UNKNOWN, None),
        (TaskStatus.UNKNOWN, None),
        (TaskStatus.RELEASING, None),
    ]
    assert snapshot.other_tasks == ()
    notice = only(notices)
    assert (notice.code, notice.count) == (NoticeCode.NODE_MISSING, 4)
    assert schedule(snapshot).binds == ()


def test_a_reservation_on_a_node_that_is_not_given_is_the_cycles_to_drop():
    reserved = {"annotations": {"scheduling.k8s.io/kube-batch-reserved-node": "n9"}}
    snapshot, notices = read(pod(metadata=reserved))
    assert task(snapshot).status is TaskStatus.RESERVED
    assert notices == ()


def test_a_queue_that_is_not_given_is_noticed():
    notice = only(read(pod_groups=[pod_group(queue="nowhere")])[1])
    assert (notice.code, notice.kind) == (NoticeCode.QUEUE_MISSING, "PodGroup")
    assert "'nowhere'" in notice.consequence


def test_pods_of_other_schedulers_that_hold_nothing_are_noticed_by_scheduler():
    _, notices = read(
        pod("p1", group="", schedulerName="volcano"),
        pod("p2", group="gone", schedulerName="volcano"),
        pod("p3", group="", schedulerName="default-scheduler"),
        pod("p4", group="", schedulerName="volcano", nodeName="n1", status=RUNNING),
        pod("p5", group="", schedulerName="volcano", status={"phase": "Failed"}),
        pod_groups=[],
    )
    assert [(n.code, n.count, n.consequence) for n in notices] == [
        (NoticeCode.OTHER_SCHEDULER, count, f"left out: it is for the scheduler {name!r}")
        for name, count in (("default-scheduler", 1), ("volcano", 2))
    ]  # fmt: skip


HIGH = {"metadata": {"name": "research-high"}, "value": 9}


def priorities(*pods, classes, **group):
    snapshot, notices = read(*pods, pod_groups=[pod_group(**group)], priority_classes=classes)
    return snapshot.jobs[0].priority, [task.priority for task in snapshot.jobs[0].tasks], notices


def test_a_priority_class_that_is_not_given_is_noticed_with_what_may_be_meant():
    priority, _, notices = priorities(classes=[HIGH], priorityClassName="reserch-high")
    assert priority == 0
    notice = only(notices)
    assert (notice.code, notice.kind) == (NoticeCode.PRIORITY_CLASS_MISSING, "PodGroup")
    assert notice.consequence == (
        "priority class 'reserch-high' was not given (did you mean 'research-high'?): "
        "priority 0 is used"
    )


def test_the_global_default_counts_where_no_class_is_named_or_known():
    default = {"metadata": {"name": "normal"}, "value": 5, "globalDefault": True}
    assert priorities(pod(), classes=[HIGH, default]) == (5, [5], ())
    priority, _, notices = priorities(classes=[default], priorityClassName="gone")
    assert priority == 5
    assert "priority 5 is used" in only(notices).consequence


def test_of_several_global_defaults_the_least_counts():
    classes = [
        {"metadata": {"name": name}, "value": value, "globalDefault": True}
        for name, value in (("x", 7), ("y", 3), ("z", 9))
    ]
    assert priorities(classes=classes)[0] == 3


def test_a_pods_own_priority_goes_before_its_class_and_its_class_before_the_default():
    default = {"metadata": {"name": "normal"}, "value": 5, "globalDefault": True}
    pods = [
        pod("p1", priority=2, priorityClassName="research-high"),
        pod("p2", priorityClassName="research-high"),
        pod("p3"),
    ]
    assert priorities(*pods, classes=[HIGH, default])[1:] == ([2, 9, 5], ())


def test_a_pods_class_that_is_not_given_is_noticed_if_the_pod_has_no_priority():
    _, of_pods, notices = priorities(
        pod("p1", priorityClassName="gone"),
        pod("p2", priorityClassName="gone", priority=4),
        classes=[],
    )
    assert of_pods == [1, 4]
    notice = only(notices)
    assert (notice.code, notice.examples) == (NoticeCode.PRIORITY_CLASS_MISSING, ("a/p1",))


GIB = (1 << 30) * 1000


def test_ephemeral_storage_and_huge_pages_count():
    small = node("n1", **{"ephemeral-storage": "10Gi", "hugepages-2Mi": "1Gi"})
    large = node("n2", **{"ephemeral-storage": "30Gi", "hugepages-2Mi": "0"})
    snapshot, _ = read(
        pod("p1", containers=[container({"ephemeral-storage": "20Gi"})]),
        pod("p2", containers=[container({"hugepages-2Mi": "512Mi", "memory": "1Gi"})]),
        pod("p3", containers=[container({"ephemeral-storage": "31Gi"})]),
        nodes=[small, large],
    )
    assert task(snapshot).resreq == Resource(scalars={"ephemeral-storage": 20 * GIB})
    result = schedule(snapshot)
    assert {bind.task_uid: bind.node_name for bind in result.binds} == {
        "uid-p1": "n2",
        "uid-p2": "n1",
    }
    assert "lack free ephemeral-storage" in result.pending["uid-p3"].text


def test_storage_for_which_nobody_asks_is_no_dimension_of_the_cluster():
    has_both = node(**{"ephemeral-storage": "10Gi", "hugepages-2Mi": "1Gi"})
    asks = pod("p1", containers=[container({"hugepages-2Mi": "2Mi"})])
    elsewhere = pod(
        "p2", group="", schedulerName="other", nodeName="n1", status=RUNNING,
        containers=[container({"ephemeral-storage": "1Gi"})],
    )  # fmt: skip

    def scalars(*pods):
        return set(read(*pods, nodes=[has_both])[0].nodes[0].allocatable.scalars)

    assert scalars() == set()
    assert scalars(asks) == {"hugepages-2Mi"}
    assert scalars(elsewhere) == {"ephemeral-storage"}


def pod_level(resources, *containers, **spec):
    snapshot, notices = read(pod(resources=resources, containers=list(containers), **spec))
    assert notices == ()
    return task(snapshot)


def test_what_a_pod_requests_as_a_whole_replaces_what_its_containers_request():
    read_task = pod_level(
        {"requests": {"cpu": "3", "hugepages-2Mi": "4Mi"}},
        container({"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}),
        container(),
        initContainers=[container({"cpu": "9", "memory": "4Gi"})],
        overhead={"cpu": "250m"},
    )
    scalars = {"nvidia.com/gpu": 1000, "hugepages-2Mi": (4 << 20) * 1000}
    assert read_task.resreq == Resource(milli_cpu=3250, memory=1 << 30, scalars=scalars)
    assert read_task.init_resreq == Resource(milli_cpu=3250, memory=4 << 30, scalars=scalars)
    assert read_task.scoring_request == ScoringRequest(3000, (1 << 30) + (200 << 20))


def test_a_limit_of_the_pod_as_a_whole_counts_where_nothing_is_requested():
    limits = {"limits": {"cpu": "4", "memory": "2Gi"}}
    read_task = pod_level(limits, container({"cpu": "1"}))
    assert read_task.resreq == Resource(milli_cpu=1000, memory=2 << 30)
    assert read_task.scoring_request == ScoringRequest(1000, 2 << 30)


def test_devices_cannot_be_requested_for_the_pod_as_a_whole():
    assert pod_level({"requests": {"nvidia.com/gpu": "1"}}, container()).resreq == Resource()


def test_the_order_of_objects_plays_no_part_in_notices():
    pods = [pod(f"p{i}", nodeName="n9", status=RUNNING) for i in range(9)]
    groups = [
        pod_group("g1", networkTopology={"mode": "hard"}),
        pod_group("g2", priorityClassName="x"),
    ]
    queues = [queue("q", parent="a"), queue("r", parent="b", reclaimable=False)]
    expected = read(*pods, pod_groups=groups, queues=queues)
    assert expected == read(*pods[::-1], pod_groups=groups[::-1], queues=queues[::-1])


def test_a_node_whose_pods_hold_more_than_it_has_is_noticed_and_full_in_that_alone():
    """Devices that fail are taken out of `status.allocatable` while pods still use them."""
    runs = pod(
        containers=[container({"cpu": "1", "nvidia.com/gpu": "2"})], nodeName="n1", status=RUNNING
    )
    waits = pod("p2", containers=[container({"cpu": "1"})])
    asks = pod("p3", containers=[container({"cpu": "1", "nvidia.com/gpu": "1"})])
    broken = node(cpu="8", **{"nvidia.com/gpu": "1"})
    snapshot, notices = read(runs, waits, asks, nodes=[broken])
    notice = only(notices)
    assert (notice.code, notice.kind, notice.field, notice.examples, notice.count) == (
        NoticeCode.NODE_OVERCOMMITTED,
        "Node",
        "status.allocatable['nvidia.com/gpu']",
        ("n1",),
        1,
    )
    assert "it accepts no pods that request it" in notice.consequence
    result = schedule(snapshot)
    assert [bind.task_uid for bind in result.binds] == [task(snapshot, "p2").uid]
    assert task(snapshot, "p3").uid in result.pending
