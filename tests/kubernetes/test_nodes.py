import pytest
from tests.support.kubernetes_objects import node

from batchsched import KubernetesObjectError, Resource, Taint, TaintEffect
from batchsched.kubernetes import snapshot_from_objects


def read(*nodes):
    return snapshot_from_objects(nodes=list(nodes), pods=[]).nodes


def test_allocatable_is_read_in_the_units_of_the_model():
    given = node(cpu="7910m", memory="1Gi", **{"pods": "3", "nvidia.com/gpu": "2"})
    (info,) = read(given)
    assert info.allocatable == Resource(
        milli_cpu=7910, memory=1 << 30, scalars={"nvidia.com/gpu": 2000}
    )
    assert info.max_tasks == 3


def test_only_extended_resources_are_scalars():
    names = {
        "example.com/fpga": "1",
        "ephemeral-storage": "100Gi",
        "hugepages-2Mi": "1Gi",
        "attachable-volumes.kubernetes.io/disk": "9",
        "kubernetes.io/batch-cpu": "9",
        "notkubernetes.io.example/x": "1",
        "zero.example/none": "0",
    }
    (info,) = read(node(**names))
    assert dict(info.allocatable.scalars) == {
        "example.com/fpga": 1000,
        "notkubernetes.io.example/x": 1000,
    }


def test_capacity_counts_where_nothing_is_said_to_be_allocatable():
    given = node()
    given["status"] = {"capacity": {"cpu": "2"}}
    (info,) = read(given)
    assert info.allocatable == Resource(milli_cpu=2000)
    assert info.max_tasks is None


def test_labels_taints_and_conditions_are_kept():
    given = node(
        labels={"nodePool": "a", "topology.kubernetes.io/zone": "z1"},
        spec={
            "unschedulable": True,
            "taints": [
                {"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": "2026-01-01"},
                {"key": "k2", "effect": "NoExecute"},
            ],
        },
        status={
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "MemoryPressure", "status": "Unknown"},
            ]
        },
    )
    (info,) = read(given)
    assert info.labels == {"nodePool": "a", "topology.kubernetes.io/zone": "z1"}
    assert info.taints == (
        Taint(key="k", value="v", effect=TaintEffect.NO_SCHEDULE),
        Taint(key="k2", effect=TaintEffect.NO_EXECUTE),
    )
    assert info.unschedulable is True
    assert info.conditions == {"Ready": "True", "MemoryPressure": "Unknown"}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (node(cpu="8 c"), "nodes['n1'].status.allocatable.cpu: expected a quantity, got '8 c'"),
        (node(memory="-1"), "nodes['n1'].status.allocatable.memory: expected 0 or more, got '-1'"),
        (node(memory=True), "nodes['n1'].status.allocatable.memory: expected a quantity, got True"),
        (node(cpu=[1]), "nodes['n1'].status.allocatable.cpu: expected a quantity, got [1]"),
        (
            node(**{"x.io/y": "?"}),
            "nodes['n1'].status.allocatable['x.io/y']: expected a quantity, got '?'",
        ),
        (
            node(spec={"taints": [{"key": "k", "effect": "Never"}]}),
            (
                "nodes['n1'].spec.taints[0].effect: expected one of NoSchedule, "
                "PreferNoSchedule, NoExecute, got 'Never'"
            ),
        ),
        (
            node(spec={"taints": [{"effect": "NoSchedule"}]}),
            "nodes['n1'].spec.taints[0].key: is missing",
        ),
        (
            node(spec={"taints": [{"key": "k"}]}),
            "nodes['n1'].spec.taints[0].effect: is missing",
        ),
        (node(spec={"taints": ["k"]}), "nodes['n1'].spec.taints[0]: expected a mapping, got 'k'"),
        (node(spec={"taints": "k"}), "nodes['n1'].spec.taints: expected a list, got 'k'"),
        (
            node(spec={"unschedulable": "yes"}),
            "nodes['n1'].spec.unschedulable: expected true or false, got 'yes'",
        ),
        (
            node(status={"conditions": [{"type": "Ready"}]}),
            "nodes['n1'].status.conditions[0].status: is missing",
        ),
        (
            node(labels={"a": 1}),
            "nodes['n1'].metadata.labels['a']: expected strings, got 1 for 'a'",
        ),
        (node(labels=[]) | {"spec": 3}, "nodes['n1'].spec: expected a mapping, got 3"),
        ({"metadata": {}}, "nodes[0].metadata.name: is missing"),
        ({}, "nodes[0].metadata.name: is missing"),
        ({"metadata": {"name": ""}}, "nodes[0].metadata.name: is empty"),
        ({"metadata": {"name": 7}}, "nodes[0].metadata.name: expected a string, got 7"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "nodes[0].kind: expected Node, got 'Pod'"),
        ("n1", "nodes[0]: expected a mapping, got 'n1'; use plain dicts"),
    ],
)
def test_every_fault_is_told_with_its_path(given, fault):
    with pytest.raises(KubernetesObjectError) as caught:
        read(given)
    assert [str(found).startswith(fault) for found in caught.value.faults] == [True], str(
        caught.value
    )


def test_a_node_that_is_given_twice_is_a_fault():
    with pytest.raises(
        KubernetesObjectError,
        match=r"^nodes\['n1'\]: expected a unique name, got it again$",
    ):
        read(node(), node())
