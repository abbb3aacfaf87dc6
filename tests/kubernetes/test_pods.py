import pytest
from tests.support.kubernetes_objects import container, node, pod, pod_group

from batchsched import (
    HostPort,
    KubernetesObjectError,
    Resource,
    ScoringRequest,
    SnapshotError,
    TaintEffect,
    TaskStatus,
    Toleration,
    TolerationOperator,
)
from batchsched.kubernetes import snapshot_from_objects

DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
RESERVED = {"annotations": {"scheduling.k8s.io/kube-batch-reserved-node": "n1"}}
MIB = 1 << 20


def snapshot(*pods, **more):
    return snapshot_from_objects(
        nodes=[node()],
        pods=list(pods),
        pod_groups=[pod_group()],
        queues=[{"metadata": {"name": "q"}}],
        **more,
    )


def task(**spec):
    (job,) = snapshot(pod(**spec)).jobs
    return job.tasks[0]


def test_requests_are_summed_over_containers():
    read = task(
        containers=[
            container({"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": 1, "pods": "1"}),
            container({"cpu": 1, "nvidia.com/gpu": "1", "ephemeral-storage": "1Gi"}),
        ]
    )
    storage = (1 << 30) * 1000
    assert read.resreq == Resource(
        milli_cpu=1250,
        memory=1 << 30,
        scalars={"nvidia.com/gpu": 2000, "ephemeral-storage": storage},
    )
    assert read.init_resreq is None


def test_each_container_is_rounded_up_by_itself():
    assert task(containers=[container({"cpu": "1u"})] * 3).resreq == Resource(milli_cpu=3)


def test_init_containers_count_for_the_start_only():
    read = task(
        containers=[container({"cpu": "1", "memory": "1Gi"})],
        initContainers=[container({"cpu": "3"}), container({"memory": "4Gi", "cpu": "2"})],
    )
    assert read.resreq == Resource(milli_cpu=1000, memory=1 << 30)
    assert read.init_resreq == Resource(milli_cpu=3000, memory=4 << 30)
    assert read.scoring_request == ScoringRequest(1000, 1 << 30)


def test_small_init_containers_change_nothing():
    read = task(containers=[container({"cpu": "1"})], initContainers=[container({"cpu": "500m"})])
    assert read.init_resreq is None
    assert read.start_request is read.resreq


def test_sidecars_run_beside_the_containers_and_the_init_containers_after_them():
    sidecar = container({"cpu": "1"}, restartPolicy="Always")
    before = task(
        containers=[container({"cpu": "2"})],
        initContainers=[container({"cpu": "4"}), sidecar],
    )
    after = task(
        containers=[container({"cpu": "2"})],
        initContainers=[sidecar, container({"cpu": "4"})],
    )
    assert before.resreq == after.resreq == Resource(milli_cpu=3000)
    assert before.init_resreq == Resource(milli_cpu=4000)
    assert after.init_resreq == Resource(milli_cpu=5000)
    assert after.scoring_request == ScoringRequest(3000, 400 * MIB)


def test_overhead_is_added_to_both():
    read = task(
        containers=[container({"cpu": "1"})],
        initContainers=[container({"cpu": "2"})],
        overhead={"cpu": "250m", "memory": "120Mi"},
    )
    assert read.resreq == Resource(milli_cpu=1250, memory=120 * MIB)
    assert read.init_resreq == Resource(milli_cpu=2250, memory=120 * MIB)


def test_a_missing_request_is_the_limit():
    limited = container({"cpu": "1"})
    limited["resources"]["limits"] = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    read = task(containers=[limited])
    assert read.resreq == Resource(milli_cpu=1000, memory=1 << 30, scalars={"nvidia.com/gpu": 1000})
    assert read.scoring_request == ScoringRequest(1000, 1 << 30)


def test_scores_count_something_for_containers_that_name_no_request():
    read = task(
        containers=[container(), container({"cpu": "0", "memory": "1Mi"}), {"name": "bare"}]
    )
    assert read.scoring_request == ScoringRequest(200, 401 * MIB)
    assert read.resreq == Resource(memory=MIB)
    assert read.init_resreq is None


@pytest.mark.parametrize(
    ("phase", "metadata", "node_name", "status", "place"),
    [
        ("Pending", {}, None, TaskStatus.PENDING, None),
        ("Pending", {}, "n1", TaskStatus.BOUND, "n1"),
        ("Pending", DELETED, None, TaskStatus.RELEASING, None),
        ("Pending", DELETED, "n1", TaskStatus.RELEASING, "n1"),
        ("Pending", RESERVED, None, TaskStatus.RESERVED, "n1"),
        ("Pending", RESERVED, "n1", TaskStatus.BOUND, "n1"),
        ("Pending", RESERVED | DELETED, None, TaskStatus.RELEASING, None),
        ("Running", {}, "n1", TaskStatus.RUNNING, "n1"),
        ("Running", RESERVED, "n1", TaskStatus.RUNNING, "n1"),
        ("Running", DELETED, "n1", TaskStatus.RELEASING, "n1"),
        ("Succeeded", {}, "n1", TaskStatus.SUCCEEDED, None),
        ("Succeeded", DELETED, "n1", TaskStatus.SUCCEEDED, None),
        ("Failed", {}, "n1", TaskStatus.FAILED, None),
        ("Unknown", {}, "n1", TaskStatus.UNKNOWN, "n1"),
        ("Odd", DELETED, "n1", TaskStatus.UNKNOWN, "n1"),
        (None, {}, None, TaskStatus.PENDING, None),
        (None, {}, "n1", TaskStatus.BOUND, "n1"),
    ],
)
def test_phase_deletion_node_and_reservation_make_the_status(
    phase, metadata, node_name, status, place
):
    given = pod(
        metadata={key: dict(v) if key == "annotations" else v for key, v in metadata.items()},
        status={"phase": phase},
        nodeName=node_name,
    )
    (job,) = snapshot(given).jobs
    assert (job.tasks[0].status, job.tasks[0].node_name) == (status, place)


def test_plain_fields_are_kept():
    given = pod(
        metadata={
            "labels": {"appName": "web"},
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "annotations": {"scheduling.k8s.io/kube-batch-backfill": "true"},
        },
        priority=7,
        priorityClassName="high",
        nodeSelector={"diskType": "ssd"},
    )
    read = snapshot(given).jobs[0].tasks[0]
    assert (read.uid, read.name, read.namespace) == ("uid-p1", "p1", "a")
    assert (read.priority, read.priority_class_name) == (7, "high")
    assert read.creation_time == 60.0
    assert read.is_backfill is True
    assert read.labels == {"appName": "web"}
    assert read.node_selector == {"diskType": "ssd"}


def test_what_is_absent_has_the_defaults():
    bare = {"metadata": {"name": "x"}, "spec": {"schedulerName": "kube-batch"}}
    (job,) = snapshot_from_objects(nodes=[], pods=[bare]).jobs
    (read,) = job.tasks
    assert (read.uid, read.namespace, read.priority) == ("default/x", "default", 1)
    assert (read.creation_time, read.is_backfill, read.status) == (0.0, False, TaskStatus.PENDING)
    assert read.resreq == Resource()
    assert read.scoring_request == ScoringRequest(0, 0)


@pytest.mark.parametrize("said", ["false", "True", "1", ""])
def test_only_the_text_true_marks_backfill(said):
    given = pod(metadata={"annotations": {"scheduling.k8s.io/kube-batch-backfill": said}})
    assert snapshot(given).jobs[0].tasks[0].is_backfill is False


def test_a_priority_of_zero_is_a_priority():
    assert task(priority=0).priority == 0


def test_tolerations_are_read_with_their_defaults():
    read = task(
        tolerations=[
            {"key": "a", "value": "b"},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "c", "operator": "", "effect": "", "value": None},
        ]
    )
    assert read.tolerations == (
        Toleration(key="a", value="b"),
        Toleration(operator=TolerationOperator.EXISTS, effect=TaintEffect.NO_EXECUTE),
        Toleration(key="c"),
    )


def test_host_ports_are_those_of_containers_and_sidecars():
    ports = [
        {"containerPort": 1, "hostPort": 80},
        {"containerPort": 2},
        {"containerPort": 3, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"containerPort": 4, "hostPort": 0},
    ]
    read = task(
        containers=[container(ports=ports)],
        initContainers=[
            container(ports=[{"containerPort": 5, "hostPort": 81}]),
            container(ports=[{"containerPort": 6, "hostPort": 82}], restartPolicy="Always"),
        ],
    )
    assert read.host_ports == (
        HostPort(port=80),
        HostPort(port=53, protocol="UDP", address="10.0.0.1"),
        HostPort(port=82),
    )


def test_on_the_hosts_network_container_ports_are_host_ports():
    read = task(
        hostNetwork=True,
        containers=[
            container(ports=[{"containerPort": 8080}, {"containerPort": 1, "hostPort": 9}])
        ],
    )
    assert read.host_ports == (HostPort(port=8080), HostPort(port=9))


def test_equal_values_of_many_pods_are_one_object():
    given = [pod(f"p{n}", nodeSelector={"a": "b"}, tolerations=[{"key": "k"}]) for n in range(2)]
    first, second = snapshot(*given).jobs[0].tasks
    assert first.resreq is second.resreq
    assert first.node_selector is second.node_selector
    assert first.tolerations is second.tolerations
    assert first.scoring_request is second.scoring_request


CPU = "spec.containers[0].resources.requests.cpu"


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (pod(containers=[container({"cpu": "abc"})]), f"{CPU}: expected a quantity, got 'abc'"),
        (pod(containers=[container({"cpu": ""})]), f"{CPU}: expected a quantity, got an empty"),
        (pod(containers=[container({"cpu": "-1"})]), f"{CPU}: expected 0 or more, got '-1'"),
        (
            pod(containers=[container({"cpu": float("nan")})]),
            f"{CPU}: expected a quantity, got 'nan'",
        ),
        (pod(containers=[container({"cpu": {}})]), f"{CPU}: expected a quantity, got {{}}"),
        (
            pod(containers=[container({7: "1"})]),
            "spec.containers[0].resources.requests[7]: expected a string as the name",
        ),
        (
            pod(containers=[container({"cpu": "1"}), container({"a.b/c": "x"})]),
            "spec.containers[1].resources.requests['a.b/c']: expected a quantity, got 'x'",
        ),
        (
            pod(containers=[container() | {"resources": {"limits": {"memory": "1X"}}}]),
            "spec.containers[0].resources.limits.memory: expected a quantity, got '1X'",
        ),
        (
            pod(initContainers=[container({"memory": "1X"})]),
            "spec.initContainers[0].resources.requests.memory: expected a quantity, got '1X'",
        ),
        (pod(overhead={"cpu": "x"}), "spec.overhead.cpu: expected a quantity, got 'x'"),
        (pod(containers={}), "spec.containers: expected a list, got {}"),
        (pod(containers=[None]), "spec.containers[0]: expected a mapping, got None"),
        (
            pod(containers=[container(ports=[{"hostPort": "80"}])]),
            "spec.containers[0].ports[0].hostPort: expected an integer, got '80'",
        ),
        (pod(hostNetwork=1), "spec.hostNetwork: expected true or false, got 1"),
        (pod(priority="high"), "spec.priority: expected an integer, got 'high'"),
        (pod(priority=True), "spec.priority: expected an integer, got True"),
        (pod(nodeName=3), "spec.nodeName: expected a string, got 3"),
        (pod(priorityClassName=3), "spec.priorityClassName: expected a string, got 3"),
        (
            pod(nodeSelector={"a": True}),
            "spec.nodeSelector['a']: expected strings, got True for 'a'",
        ),
        (pod(nodeSelector=["a"]), "spec.nodeSelector: expected a mapping, got ['a']"),
        (
            pod(tolerations=[{"operator": "Like"}]),
            "spec.tolerations[0].operator: expected one of Equal, Exists, got 'Like'",
        ),
        (
            pod(tolerations=[{"key": "k", "effect": "x"}]),
            "spec.tolerations[0].effect: expected one of NoSchedule, ",
        ),
        (pod(metadata={"labels": {1: "a"}}), "metadata.labels[1]: expected strings, got 'a' for 1"),
        (pod(metadata={"uid": 5}), "metadata.uid: expected a string, got 5"),
        (
            pod(metadata={"creationTimestamp": "yesterday"}),
            "metadata.creationTimestamp: expected an RFC 3339 time such as",
        ),
        (
            pod(metadata={"creationTimestamp": "2026-13-01T00:00:00Z"}),
            "metadata.creationTimestamp: expected a time, got '2026-13-01T00:00:00Z': month must",
        ),
        (
            pod(metadata={"creationTimestamp": 5}),
            "metadata.creationTimestamp: expected a time, got 5; use RFC 3339 or a",
        ),
        (
            pod(metadata={"deletionTimestamp": "soon"}),
            "metadata.deletionTimestamp: expected an RFC 3339 time such as",
        ),
        (pod(status={"phase": 1}), "status.phase: expected a string, got 1"),
        (pod(status=[]), "status: expected a mapping, got []"),
    ],
)
def test_every_fault_is_told_with_its_path(given, fault):
    with pytest.raises(KubernetesObjectError) as caught:
        snapshot(given)
    (found,) = caught.value.faults
    assert str(found).startswith(f"pods['a/p1'].{fault}")


def test_all_faults_are_told_at_once():
    bad = container({"cpu": "a", "memory": "b"})
    with pytest.raises(KubernetesObjectError) as caught:
        snapshot_from_objects(
            nodes=[{}, node(cpu="c")],
            pods=[
                pod(containers=[bad, bad], priority="d"),
                pod("p2", group="gone"),
                pod("p3", status=7),
            ],
            pod_groups=[pod_group(minMember="e")],
            queues=[{"metadata": {"name": "q"}, "spec": {"weight": "f"}}],
            priority_classes=[{"metadata": {"name": "high"}}],
            now="g",
        )
    assert [fault.path for fault in caught.value.faults] == [
        "nodes[0].metadata.name",
        "nodes['n1'].status.allocatable.cpu",
        "queues['q'].spec.weight",
        "priority_classes['high'].value",
        "pods['a/p1'].spec.containers[0].resources.requests.cpu",
        "pods['a/p1'].spec.containers[0].resources.requests.memory",
        "pods['a/p1'].spec.containers[1].resources.requests.cpu",
        "pods['a/p1'].spec.containers[1].resources.requests.memory",
        "pods['a/p1'].spec.priority",
        "pods['a/p3'].status",
        "pod_groups['a/g1'].spec.minMember",
        "now",
    ]


def test_a_contradiction_between_objects_is_the_snapshots_to_refuse():
    with pytest.raises(SnapshotError, match="uid-p1"):
        snapshot(pod("p1"), pod("p2", metadata={"uid": "uid-p1"}))
