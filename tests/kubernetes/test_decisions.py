import pytest
from tests.support.kubernetes_objects import container, node, pod, pod_group

from batchsched import (
    Bind,
    CycleResult,
    Eviction,
    Move,
    Promise,
    Scheduler,
    SchedulerConfig,
    UnknownNameError,
    next_snapshot,
)
from batchsched.kubernetes import (
    binding_objects,
    eviction_objects,
    nomination_patches,
    reservation_patches,
    snapshot_from_objects,
)

WITHOUT_UID = {"uid": None}
SNAPSHOT = snapshot_from_objects(
    nodes=[node()],
    pods=[pod("p1"), pod("p2"), pod("p3", metadata=WITHOUT_UID), pod("lone", group="")],
    pod_groups=[pod_group()],
)


def bind(uid, node_name="n1", **more):
    return Bind(task_uid=uid, node_name=node_name, **more)


def evict(uid):
    return Eviction(task_uid=uid, node_name="n1", action="preempt", for_task_uid="uid-p1")


def reserve(uid, node_name="n1"):
    return Promise(task_uid=uid, node_name=node_name)


def test_bindings_say_which_pod_goes_where_in_the_order_of_the_result():
    result = CycleResult(binds=(bind("uid-p2", "n2"), bind("uid-p1"), bind("uid-lone")))
    first, second, third = binding_objects(result, SNAPSHOT)
    assert first == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p2", "namespace": "a", "uid": "uid-p2"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n2"},
    }
    assert second["metadata"] == {"name": "p1", "namespace": "a", "uid": "uid-p1"}
    assert third["metadata"] == {"name": "lone", "namespace": "a", "uid": "uid-lone"}


def test_a_pod_keeps_its_nomination_until_it_is_bound_or_its_promise_ends():
    pods = [pod(name, status={"nominatedNodeName": "n1"}) for name in ("p1", "p2", "p3")]
    nominated = snapshot_from_objects(nodes=[node()], pods=pods, pod_groups=[pod_group()])
    kept = (Promise(task_uid="uid-p2", node_name="n1"),)
    patches = nomination_patches(
        CycleResult(binds=(bind("uid-p1"),), kept_promises=kept), nominated
    )
    assert [(each["metadata"]["name"], each["status"]) for each in patches] == [
        ("p3", {"nominatedNodeName": None})
    ]


def test_a_backfill_binding_marks_the_pod_for_the_next_snapshot():
    result = CycleResult(binds=(bind("uid-p1", is_backfill=True),))
    (binding,) = binding_objects(result, SNAPSHOT)
    annotations = binding["metadata"]["annotations"]
    bound = pod("p1", nodeName="n1", metadata={"annotations": annotations})
    following = snapshot_from_objects(nodes=[node()], pods=[bound], pod_groups=[pod_group()])
    assert following.jobs[0].tasks[0].is_backfill is True


def test_evictions_name_the_pod_and_its_uid_as_a_precondition():
    result = CycleResult(evictions=(evict("uid-p2"), evict("uid-p1")))
    first, second = eviction_objects(result, SNAPSHOT)
    assert first == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p2", "namespace": "a"},
        "deleteOptions": {"preconditions": {"uid": "uid-p2"}},
    }
    assert second["metadata"] == {"name": "p1", "namespace": "a"}


def running(name, node_name, cpu):
    return pod(
        name,
        group=name,
        nodeName=node_name,
        status={"phase": "Running"},
        containers=[container({"cpu": cpu})],
    )


def test_a_move_is_a_deletion_and_the_pod_that_waits_for_it_is_nominated():
    """Another pod replaces the deleted one: who makes it may nominate that to its new node."""
    whole = pod("whole", group="whole", containers=[container({"cpu": "8"})])
    snapshot = snapshot_from_objects(
        nodes=[node("n1"), node("n2")],
        pods=[running("a", "n1", "2"), running("b", "n2", "2"), whole],
        pod_groups=[pod_group(name, minMember=1) for name in ("a", "b", "whole")],
        queues=[{"metadata": {"name": "q"}, "spec": {"weight": 1}}],
    )
    scheduler = Scheduler(SchedulerConfig.from_mapping({"actions": "allocate, consolidate"}))
    result = scheduler.schedule(snapshot)
    (move,) = result.moves
    assert (move.task_uid, move.from_node, move.to_node) == ("uid-a", "n1", "n2")
    assert eviction_objects(result, snapshot) == [
        {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "a", "namespace": "a"},
            "deleteOptions": {"preconditions": {"uid": "uid-a"}},
        }
    ]
    (nominated,) = nomination_patches(result, snapshot)
    assert (nominated["metadata"]["name"], nominated["status"]) == (
        "whole",
        {"nominatedNodeName": "n1"},
    )
    assert binding_objects(result, snapshot) == []
    # Once it is gone, what replaces it is bound where it was to go, and the other is bound, too.
    after = next_snapshot(snapshot, result, now=snapshot.now + 1)
    bindings = binding_objects(scheduler.schedule(after), after)
    assert {each["metadata"]["name"]: each["target"]["name"] for each in bindings} == {
        "a": "n2",
        "whole": "n1",
    }


def test_evictions_come_before_moves():
    move = Move(task_uid="uid-p2", from_node="n1", to_node="n2", action="consolidate")
    result = CycleResult(evictions=(evict("uid-lone"),), moves=(move,))
    names = [each["metadata"]["name"] for each in eviction_objects(result, SNAPSHOT)]
    assert names == ["lone", "p2"]
    gone = CycleResult(moves=(Move(task_uid="x", from_node="n1", to_node="n2", action="y"),))
    with pytest.raises(UnknownNameError, match="'x'"):
        eviction_objects(gone, SNAPSHOT)


def test_a_pod_that_was_given_without_a_uid_is_named_without_one():
    result = CycleResult(binds=(bind("a/p3"),), evictions=(evict("a/p3"),))
    assert binding_objects(result, SNAPSHOT)[0]["metadata"] == {"name": "p3", "namespace": "a"}
    assert "deleteOptions" not in eviction_objects(result, SNAPSHOT)[0]


def test_nothing_decided_is_nothing_to_do():
    assert binding_objects(CycleResult(), SNAPSHOT) == []
    assert eviction_objects(CycleResult(), SNAPSHOT) == []


@pytest.mark.parametrize(
    ("objects", "result"),
    [
        (binding_objects, CycleResult(binds=(bind("gone"),))),
        (eviction_objects, CycleResult(evictions=(evict("gone"),))),
        (reservation_patches, CycleResult(reserved=(reserve("gone"),))),
    ],
)
def test_a_result_of_another_snapshot_is_refused(objects, result):
    with pytest.raises(UnknownNameError, match="'gone'"):
        objects(result, SNAPSHOT)


RESERVED_NODE = "scheduling.k8s.io/kube-batch-reserved-node"
KEEPING = Scheduler(
    SchedulerConfig.from_mapping(
        {
            "actions": [
                "allocate",
                {"name": "reserve", "arguments": {"starvingJobTimeThreshold": 1, "inOrder": True}},
            ]
        }
    )
)


def merged(target, patch):
    """Apply a merge patch, as the API server does."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key, {}), value)
        else:
            result[key] = value
    return result


def patched(pods, patches):
    by_uid = {patch["metadata"]["uid"]: patch for patch in patches}
    return [merged(pod, by_uid.get(pod["metadata"]["uid"], {})) for pod in pods]


def standing(snapshot):
    return {
        task.name: (task.status.value, task.node_name)
        for job in snapshot.jobs
        for task in job.tasks
    }


def test_reservations_are_written_to_pods_and_removed_again_cycle_after_cycle():
    def cluster(pods, now):
        return snapshot_from_objects(
            nodes=[node("n1"), node("n2")],
            pods=pods,
            pod_groups=[pod_group("s", minMember=2), pod_group("r")],
            queues=[{"metadata": {"name": "q"}}],
            now=now,
        )

    def asking(name, group, cpu="8", **spec):
        return pod(name, group=group, containers=[container({"cpu": cpu})], **spec)

    running = {"nodeName": "n2", "status": {"phase": "Running"}}
    waiting = [asking("s1", "s"), asking("s2", "s")]
    first = cluster([asking("r", "r", **running), *waiting], 10)
    result = KEEPING.schedule(first)
    patches = reservation_patches(result, first)
    # One half is Reserved, and the other, which is Allocated, has to be kept with it.
    assert [promise.task_uid for promise in result.reserved] == ["uid-s2"]
    assert [(p["metadata"]["uid"], p["metadata"]["annotations"]) for p in patches] == [
        ("uid-s1", {RESERVED_NODE: "n1"}),
        ("uid-s2", {RESERVED_NODE: "n2"}),
    ]
    assert patches[0]["kind"] == "Pod"
    assert patches[0]["metadata"]["name"] == "s1"
    assert patches[0]["metadata"]["namespace"] == "a"

    waiting = patched(waiting, patches)
    second = cluster([asking("r", "r", **running), *waiting], 11)
    assert standing(second) == standing(next_snapshot(first, result, now=11))
    result = KEEPING.schedule(second)
    assert reservation_patches(result, second) == []  # all is as it should be

    third = cluster(waiting, 12)
    result = KEEPING.schedule(third)
    assert {bind.task_uid for bind in result.binds} == {"uid-s1", "uid-s2"}
    waiting = patched(waiting, reservation_patches(result, third))
    assert all(RESERVED_NODE not in one["metadata"]["annotations"] for one in waiting)


def test_a_reservation_that_is_given_up_is_removed_and_a_new_one_written_in_its_place():
    def reserved(name, node_name):
        return pod(name, metadata={"annotations": {RESERVED_NODE: node_name}})

    pods = [reserved("p1", "n1"), reserved("p2", "n1"), reserved("p3", "n1")]
    snapshot = snapshot_from_objects(
        nodes=[node("n1"), node("n2")], pods=pods, pod_groups=[pod_group()]
    )
    result = CycleResult(reserved=(reserve("uid-p1", "n1"), reserve("uid-p2", "n2")))
    patches = reservation_patches(result, snapshot)
    assert [patch["metadata"]["annotations"][RESERVED_NODE] for patch in patches] == ["n2", None]
    after = snapshot_from_objects(
        nodes=[node("n1"), node("n2")], pods=patched(pods, patches), pod_groups=[pod_group()]
    )
    assert standing(after) == standing(next_snapshot(snapshot, result, now=snapshot.now))


def test_a_pod_without_a_uid_is_patched_by_its_name():
    result = CycleResult(reserved=(reserve("a/p3"),))
    (patch,) = reservation_patches(result, SNAPSHOT)
    assert patch["metadata"] == {
        "name": "p3",
        "namespace": "a",
        "annotations": {RESERVED_NODE: "n1"},
    }
