import pytest
from kubernetes_test_objects import node, pod, pod_group

from batchsched.errors import UnknownNameError
from batchsched.kubernetes import binding_objects, eviction_objects, snapshot_from_objects
from batchsched.result import Bind, CycleResult, Eviction

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
    ],
)
def test_a_result_of_another_snapshot_is_refused(objects, result):
    with pytest.raises(UnknownNameError, match="'gone'"):
        objects(result, SNAPSHOT)
