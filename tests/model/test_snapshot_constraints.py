"""Every fault that a snapshot finds in constraints."""

from __future__ import annotations

import pytest
from tests.support.snapshot_content import (
    NAN,
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
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodTerm,
)


def required(*requirements: object) -> NodeAffinity:
    return NodeAffinity(required=[NodeSelectorTerm(match_expressions=requirements)])


def near(**content: object) -> PodAffinity:
    return PodAffinity(required=[PodAffinityTerm(**{"topology_key": "zone", **content})])


IN_EXPRESSION = "required[0].match_expressions[0]"


IN_SELECTOR = "required[0].selector.match_expressions[0]"


REQUIREMENT_FAULTS = [
    (
        Requirement(key="", operator=Operator.EXISTS),
        ".key: is empty",
    ),
    (
        Requirement(key=None, operator=Operator.EXISTS),
        ".key: expected a string, got None",
    ),
    (
        Requirement(key="a", operator="In", values=["b"]),
        ".operator: expected an Operator, got 'In'; use Operator.IN",
    ),
    (
        Requirement(key="a", operator="=", values=["b"]),
        (
            ".operator: expected an Operator, got '='; known: In, NotIn, Exists, "
            "DoesNotExist, Gt, Lt"
        ),
    ),
    (
        Requirement(key="a", operator=Operator.IN),
        ".values: expected at least one value for operator In, got none",
    ),
    (
        Requirement(key="a", operator=Operator.NOT_IN),
        ".values: expected at least one value for operator NotIn, got none",
    ),
    (
        Requirement(key="a", operator=Operator.EXISTS, values=["b"]),
        ".values: expected no values for operator Exists, got ('b',)",
    ),
    (
        Requirement(key="a", operator=Operator.DOES_NOT_EXIST, values=["b"]),
        ".values: expected no values for operator DoesNotExist, got ('b',)",
    ),
    (
        Requirement(key="a", operator=Operator.IN, values=["b", 3]),
        ".values[1]: expected a string, got 3",
    ),
    (
        Requirement(key="a", operator=Operator.IN, values="ssd"),
        ".values: expected a collection of strings, got 'ssd'; use a tuple or a list",
    ),
    (
        Requirement(key="a", operator=Operator.IN, values=None),
        ".values: expected a collection of strings, got None; use a tuple or a list",
    ),
    ({"key": "a"}, ": expected a Requirement, got {'key': 'a'}"),
    (None, ": expected a Requirement, got None"),
]


class TestConstraintFaults:
    @pytest.mark.parametrize(("requirement", "fault"), REQUIREMENT_FAULTS)
    def test_of_requirements(self, requirement: object, fault: str) -> None:
        at = "jobs['default/j'].tasks['t']"
        content = with_task(node_affinity=required(requirement))
        assert faults_of(content) == [f"{at}.node_affinity.{IN_EXPRESSION}{fault}"]
        for name in ("pod_affinity", "pod_anti_affinity"):
            selector = LabelSelector(match_expressions=[requirement])
            content = with_task(**{name: near(selector=selector)})
            assert faults_of(content) == [f"{at}.{name}.{IN_SELECTOR}{fault}"]

    @pytest.mark.parametrize("operator", [Operator.GT, Operator.LT])
    @pytest.mark.parametrize("values", [(), ("1", "2"), ("one",), ("1.5",), ("9" * 30,), ("",)])
    def test_greater_and_less_need_one_integer(
        self, operator: Operator, values: tuple[str, ...]
    ) -> None:
        affinity = required(Requirement(key="a", operator=operator, values=values))
        assert faults_of(with_task(node_affinity=affinity)) == [
            (
                f"jobs['default/j'].tasks['t'].node_affinity.{IN_EXPRESSION}.values: "
                f"expected one integer for operator {operator.value}, got {values!r}"
            )
        ]

    @pytest.mark.parametrize("operator", [Operator.GT, Operator.LT])
    def test_a_label_selector_knows_no_order(self, operator: Operator) -> None:
        expression = Requirement(key="a", operator=operator, values=["1"])
        affinity = near(selector=LabelSelector(match_expressions=[expression]))
        assert faults_of(with_task(pod_affinity=affinity)) == [
            (
                f"jobs['default/j'].tasks['t'].pod_affinity.{IN_SELECTOR}.operator: "
                "expected In, NotIn, Exists or DoesNotExist in a label selector, "
                f"got {operator.value}"
            )
        ]

    @pytest.mark.parametrize(
        ("content", "fault"),
        [
            (
                {"labels": {"a": None}},
                "labels['a']: expected strings, got None for 'a'",
            ),
            ({"labels": {1: "b"}}, "labels[1]: expected strings, got 'b' for 1"),
            (
                {"labels": [("a", "b")]},
                ("labels: expected a mapping such as a dict, got [('a', 'b')]"),
            ),
            ({"labels": []}, "labels: expected a mapping such as a dict, got []"),
            ({"labels": None}, "labels: expected a mapping such as a dict, got None"),
            ({"labels": ""}, "labels: expected a mapping such as a dict, got ''"),
            (
                {"node_selector": {"a": True}},
                "node_selector['a']: expected strings, got True for 'a'",
            ),
            (
                {"node_selector": "a=b"},
                ("node_selector: expected a mapping such as a dict, got 'a=b'"),
            ),
            (
                {"tolerations": None},
                (
                    "tolerations: expected a collection of Toleration, got None; use a tuple or a "
                    "list"
                ),
            ),
            (
                {"tolerations": {"key": "a"}},
                (
                    "tolerations: expected a collection of Toleration, got {'key': 'a'}; use a "
                    "tuple or a list"
                ),
            ),
            ({"tolerations": ["a"]}, "tolerations[0]: expected a Toleration, got 'a'"),
            (
                {"tolerations": [Toleration(key="a"), Toleration()]},
                (
                    "tolerations[1].key: is empty; "
                    "use operator Exists without a key to tolerate everything"
                ),
            ),
            (
                {"tolerations": [Toleration(key=None)]},
                ("tolerations[0].key: expected a string, got None"),
            ),
            (
                {"tolerations": [Toleration(key="a", value=None)]},
                "tolerations[0].value: expected a string, got None",
            ),
            (
                {"tolerations": [Toleration(key="a", operator="Exists")]},
                (
                    "tolerations[0].operator: expected a TolerationOperator, got 'Exists'; "
                    "use TolerationOperator.EXISTS"
                ),
            ),
            (
                {"tolerations": [Toleration(key="a", operator="In", value="b")]},
                (
                    "tolerations[0].operator: expected a TolerationOperator, got 'In'; known: "
                    "Equal, Exists"
                ),
            ),
            (
                {
                    "tolerations": [
                        Toleration(key="a", operator=TolerationOperator.EXISTS, value="b")
                    ]
                },
                "tolerations[0].value: expected no value for operator Exists, got 'b'",
            ),
            (
                {"tolerations": [Toleration(key="a", effect="NoSchedule")]},
                (
                    "tolerations[0].effect: expected a TaintEffect or None, got 'NoSchedule'; use "
                    "TaintEffect.NO_SCHEDULE"
                ),
            ),
            (
                {"tolerations": [Toleration(key="a", effect="")]},
                (
                    "tolerations[0].effect: expected a TaintEffect or None, got ''; known: "
                    "NoSchedule, PreferNoSchedule, NoExecute"
                ),
            ),
            (
                {"host_ports": 80},
                "host_ports: expected a collection of HostPort, got 80; use a tuple or a list",
            ),
            ({"host_ports": [80]}, "host_ports[0]: expected a HostPort, got 80"),
            (
                {"host_ports": [HostPort(port=0)]},
                "host_ports[0].port: expected a port (an integer in 1..65535), got 0",
            ),
            (
                {"host_ports": [HostPort(port=1), HostPort(port=65536)]},
                "host_ports[1].port: expected a port (an integer in 1..65535), got 65536",
            ),
            (
                {"host_ports": [HostPort(port="80")]},
                "host_ports[0].port: expected a port (an integer in 1..65535), got '80'",
            ),
            (
                {"host_ports": [HostPort(port=True)]},
                "host_ports[0].port: expected a port (an integer in 1..65535), got True",
            ),
            (
                {"host_ports": [HostPort(port=80, protocol="tcp")]},
                ("host_ports[0].protocol: expected a protocol (TCP, UDP, SCTP), got 'tcp'"),
            ),
            (
                {"host_ports": [HostPort(port=80, address="")]},
                "host_ports[0].address: expected an address, got ''; 0.0.0.0 means all addresses",
            ),
            (
                {"host_ports": [HostPort(port=80, address=None)]},
                "host_ports[0].address: expected an address, got None; 0.0.0.0 means all addresses",
            ),
            ({"node_affinity": {}}, "node_affinity: expected a NodeAffinity or None, got {}"),
            (
                {"node_affinity": NodeAffinity(required=5)},
                (
                    "node_affinity.required: expected a collection of NodeSelectorTerm, got "
                    "5; use a tuple or a list"
                ),
            ),
            (
                {"node_affinity": NodeAffinity(required=[None])},
                "node_affinity.required[0]: expected a NodeSelectorTerm, got None",
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        required=[NodeSelectorTerm(), NodeSelectorTerm(match_expressions=None)]
                    )
                },
                (
                    "node_affinity.required[1].match_expressions: expected a collection of "
                    "Requirement, got None; use a tuple or a list"
                ),
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        required=[
                            NodeSelectorTerm(
                                match_fields=[
                                    Requirement(key="spec.unschedulable", operator=Operator.EXISTS)
                                ]
                            )
                        ]
                    )
                },
                (
                    "node_affinity.required[0].match_fields[0].key: expected metadata.name, "
                    "the only supported field of nodes, got 'spec.unschedulable'"
                ),
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        required=[
                            NodeSelectorTerm(
                                match_fields=[Requirement(key="", operator=Operator.EXISTS)]
                            )
                        ]
                    )
                },
                "node_affinity.required[0].match_fields[0].key: is empty",
            ),
            (
                {"node_affinity": NodeAffinity(preferred=None)},
                (
                    "node_affinity.preferred: expected a collection of PreferredNodeTerm, got "
                    "None; use a tuple or a list"
                ),
            ),
            (
                {"node_affinity": NodeAffinity(preferred=[NodeSelectorTerm()])},
                (
                    "node_affinity.preferred[0]: expected a PreferredNodeTerm, got "
                    "NodeSelectorTerm(match_expressions=(), match_fields=())"
                ),
            ),
            *(
                (
                    {
                        "node_affinity": NodeAffinity(
                            preferred=[PreferredNodeTerm(weight=weight, term=NodeSelectorTerm())]
                        )
                    },
                    (
                        "node_affinity.preferred[0].weight: expected a weight (an integer in "
                        f"1..100), got {weight!r}"
                    ),
                )
                for weight in (0, 101, -1, 1.0, NAN, None, True, "1")
            ),
            (
                {"node_affinity": NodeAffinity(preferred=[PreferredNodeTerm(weight=1, term=None)])},
                "node_affinity.preferred[0].term: expected a NodeSelectorTerm, got None",
            ),
            (
                {
                    "node_affinity": NodeAffinity(
                        preferred=[
                            PreferredNodeTerm(
                                weight=1, term=NodeSelectorTerm(match_expressions=["a"])
                            )
                        ]
                    )
                },
                (
                    "node_affinity.preferred[0].term.match_expressions[0]: expected a "
                    "Requirement, got 'a'"
                ),
            ),
            ({"pod_affinity": []}, "pod_affinity: expected a PodAffinity or None, got []"),
            (
                {"pod_anti_affinity": "x"},
                "pod_anti_affinity: expected a PodAffinity or None, got 'x'",
            ),
            (
                {"pod_affinity": PodAffinity(required=None)},
                (
                    "pod_affinity.required: expected a collection of PodAffinityTerm, got "
                    "None; use a tuple or a list"
                ),
            ),
            (
                {"pod_anti_affinity": PodAffinity(required=[1])},
                "pod_anti_affinity.required[0]: expected a PodAffinityTerm, got 1",
            ),
            (
                {"pod_affinity": near(topology_key="")},
                (
                    "pod_affinity.required[0].topology_key: expected a topology key (a node "
                    "label such as zone), got ''"
                ),
            ),
            (
                {"pod_affinity": near(topology_key=None)},
                (
                    "pod_affinity.required[0].topology_key: expected a topology key (a node "
                    "label such as zone), got None"
                ),
            ),
            (
                {"pod_affinity": near(namespaces="default")},
                (
                    "pod_affinity.required[0].namespaces: expected a collection of strings, got "
                    "'default'; use a tuple or a list"
                ),
            ),
            (
                {"pod_affinity": near(namespaces=["a", ""])},
                "pod_affinity.required[0].namespaces[1]: is empty",
            ),
            (
                {"pod_affinity": near(namespaces=[None])},
                "pod_affinity.required[0].namespaces[0]: expected a string, got None",
            ),
            (
                {"pod_affinity": near(selector={"a": "b"})},
                (
                    "pod_affinity.required[0].selector: expected a LabelSelector or None, "
                    "got {'a': 'b'}"
                ),
            ),
            (
                {"pod_affinity": near(selector=LabelSelector(match_labels={"app": 1}))},
                (
                    "pod_affinity.required[0].selector.match_labels['app']: "
                    "expected strings, got 1 for 'app'"
                ),
            ),
            (
                {"pod_affinity": near(selector=LabelSelector(match_labels=None))},
                (
                    "pod_affinity.required[0].selector.match_labels: expected a mapping such as a "
                    "dict, got None"
                ),
            ),
            (
                {"pod_affinity": near(selector=LabelSelector(match_expressions=5))},
                (
                    "pod_affinity.required[0].selector.match_expressions: expected a "
                    "collection of Requirement, got 5; use a tuple or a list"
                ),
            ),
            (
                {"pod_anti_affinity": PodAffinity(preferred=[PodAffinityTerm(topology_key="z")])},
                (
                    "pod_anti_affinity.preferred[0]: expected a WeightedPodTerm, got "
                    "PodAffinityTerm(selector=None, topology_key='z', namespaces=())"
                ),
            ),
            (
                {
                    "pod_affinity": PodAffinity(
                        preferred=[
                            WeightedPodTerm(weight=0, term=PodAffinityTerm(topology_key="z"))
                        ]
                    )
                },
                (
                    "pod_affinity.preferred[0].weight: expected a weight (an integer in "
                    "1..100), got 0"
                ),
            ),
            (
                {"pod_affinity": PodAffinity(preferred=[WeightedPodTerm(weight=1, term=None)])},
                "pod_affinity.preferred[0].term: expected a PodAffinityTerm, got None",
            ),
            (
                {
                    "pod_affinity": PodAffinity(
                        preferred=[WeightedPodTerm(weight=1, term=PodAffinityTerm(topology_key=""))]
                    )
                },
                (
                    "pod_affinity.preferred[0].term.topology_key: expected a topology key "
                    "(a node label such as zone), got ''"
                ),
            ),
        ],
    )
    def test_of_a_task(self, content: dict[str, object], fault: str) -> None:
        assert faults_of(with_task(**content)) == [f"jobs['default/j'].tasks['t'].{fault}"]

    @pytest.mark.parametrize(
        ("taints", "fault"),
        [
            (None, ": expected a collection of Taint, got None; use a tuple or a list"),
            (["a"], "[0]: expected a Taint, got 'a'"),
            ([Taint(key="", effect=TaintEffect.NO_EXECUTE)], "[0].key: is empty"),
            (
                [Taint(key=None, effect=TaintEffect.NO_EXECUTE)],
                ("[0].key: expected a string, got None"),
            ),
            (
                [Taint(key="a", effect=TaintEffect.NO_EXECUTE), Taint(key="a", effect="NoExecute")],
                "[1].effect: expected a TaintEffect, got 'NoExecute'; use TaintEffect.NO_EXECUTE",
            ),
            (
                [Taint(key="a", effect=None)],
                (
                    "[0].effect: expected a TaintEffect, got None; known: NoSchedule, "
                    "PreferNoSchedule, NoExecute"
                ),
            ),
            (
                [Taint(key="a", value=1, effect=TaintEffect.NO_EXECUTE)],
                "[0].value: expected a string, got 1",
            ),
        ],
    )
    def test_of_taints(self, taints: object, fault: str) -> None:
        content = {"nodes": [NodeInfo(name="n", taints=taints)]}
        assert faults_of(content) == [f"nodes['n'].taints{fault}"]

    def test_a_constraint_that_tasks_share_is_a_fault_of_each(self) -> None:
        ports = (HostPort(port=0),)
        tasks = [task(uid, host_ports=ports) for uid in "ab"]
        assert [fault.partition(":")[0] for fault in faults_of({"jobs": [job("j", *tasks)]})] == [
            "jobs['default/j'].tasks['a'].host_ports[0].port",
            "jobs['default/j'].tasks['b'].host_ports[0].port",
        ]
