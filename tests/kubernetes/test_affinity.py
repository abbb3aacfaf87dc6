import pytest
from tests.support.kubernetes_objects import pod, pod_group

from batchsched import (
    KubernetesObjectError,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    NoticeCode,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    WeightedPodTerm,
)
from batchsched.kubernetes import read_objects, snapshot_from_objects

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def task(affinity, *others, namespaces=None):
    snapshot = snapshot_from_objects(
        nodes=[],
        pods=[pod(affinity=affinity), *others],
        pod_groups=[pod_group()],
        namespaces=namespaces,
    )
    return next(task for job in snapshot.jobs for task in job.tasks if task.name == "p1")


def expression(key="k", operator="In", values=("v",)):
    return {"key": key, "operator": operator, "values": list(values)}


def requirement(key="k", operator=Operator.IN, values=("v",)):
    return Requirement(key=key, operator=operator, values=values)


def test_node_affinity():
    read = task(
        {
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [expression(), expression("g", "Gt", ["3"])]},
                        {"matchFields": [expression("metadata.name", "In", ["n1"])]},
                        {},
                    ]
                },
                PREFERRED: [
                    {"weight": 3, "preference": {"matchExpressions": [expression("x")]}},
                    {"weight": 4, "preference": {}},
                ],
            }
        }
    )
    assert read.node_affinity == NodeAffinity(
        required=(
            NodeSelectorTerm(
                match_expressions=(requirement(), requirement("g", Operator.GT, ("3",)))
            ),
            NodeSelectorTerm(match_fields=(requirement("metadata.name", values=("n1",)),)),
            NodeSelectorTerm(),
        ),
        preferred=(
            PreferredNodeTerm(
                weight=3, term=NodeSelectorTerm(match_expressions=(requirement("x"),))
            ),
            PreferredNodeTerm(weight=4, term=NodeSelectorTerm()),
        ),
    )
    assert read.pod_affinity is None
    assert read.pod_anti_affinity is None


def test_no_required_terms_accept_no_node_and_no_requirement_accepts_all():
    none = task({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}).node_affinity
    every = task({"nodeAffinity": {}}).node_affinity
    assert none is not None
    assert none.required == ()
    assert every is not None
    assert every.required is None


def test_pod_affinity_and_anti_affinity():
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"appName": "db"}}}
    far = {
        "topologyKey": "rack",
        "namespaces": ["x", "y"],
        "labelSelector": {"matchExpressions": [expression("a", "Exists", [])]},
    }
    nothing = {"topologyKey": "zone", "labelSelector": None}
    everything = {"topologyKey": "zone", "labelSelector": {}}
    read = task(
        {
            "podAffinity": {REQUIRED: [near, nothing, everything]},
            "podAntiAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": far}]},
        }
    )
    assert read.pod_affinity == PodAffinity(
        required=(
            PodAffinityTerm(
                topology_key="zone", selector=LabelSelector(match_labels={"appName": "db"})
            ),
            PodAffinityTerm(topology_key="zone", selector=None),
            PodAffinityTerm(topology_key="zone", selector=LabelSelector()),
        )
    )
    assert read.pod_anti_affinity == PodAffinity(
        preferred=(
            WeightedPodTerm(
                weight=5,
                term=PodAffinityTerm(
                    topology_key="rack",
                    namespaces=("x", "y"),
                    selector=LabelSelector(
                        match_expressions=(requirement("a", Operator.EXISTS, ()),)
                    ),
                ),
            ),
        )
    )
    assert read.node_affinity is None


def namespaced_term(selector, **more):
    term = {"topologyKey": "z", "labelSelector": {}, "namespaceSelector": selector} | more
    return {"podAffinity": {REQUIRED: [term]}}


def term_of(read):
    return read.pod_affinity.required[0]


OTHER = pod("o", namespace="b", group="", schedulerName="other")


def test_an_empty_namespace_selector_selects_all_namespaces():
    assert term_of(task(namespaced_term({}), OTHER)).namespaces == ("a", "b")


def test_namespaces_are_selected_by_label():
    namespaces = [
        {"metadata": {"name": "a", "labels": {"teamName": "red"}}},
        {"metadata": {"name": "c", "labels": {"teamName": "red"}}},
        {"metadata": {"name": "d", "labels": {"teamName": "blue"}}},
    ]
    selector = {"matchLabels": {"teamName": "red"}}
    read = task(namespaced_term(selector, namespaces=["d"]), OTHER, namespaces=namespaces)
    assert term_of(read).namespaces == ("a", "c", "d")


def test_namespaces_can_be_selected_by_name_without_being_given():
    selector = {"matchExpressions": [expression("kubernetes.io/metadata.name", "In", ["b"])]}
    assert term_of(task(namespaced_term(selector), OTHER)).namespaces == ("b",)


def test_a_selector_that_selects_no_namespace_means_no_pod():
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "nowhere"}}
    term = term_of(task(namespaced_term(selector), OTHER))
    assert term.namespaces == ()
    assert term.selector is None


AFFINITY = "pods['a/p1'].spec.affinity"


@pytest.mark.parametrize(
    ("affinity", "fault"),
    [
        (
            {"podAffinity": {REQUIRED: [{"labelSelector": {}}]}},
            f"podAffinity.{REQUIRED}[0].topologyKey: is missing",
        ),
        (
            {"podAffinity": {PREFERRED: [{"podAffinityTerm": {"topologyKey": "z"}}]}},
            f"podAffinity.{PREFERRED}[0].weight: is missing",
        ),
        (
            {"nodeAffinity": {PREFERRED: [{"weight": "1"}]}},
            f"nodeAffinity.{PREFERRED}[0].weight: expected an integer, got '1'",
        ),
        (
            {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [{"matchExpressions": [expression(operator="Near")]}]
                    }
                }
            },
            (
                f"nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: "
                "expected one of In, NotIn, Exists, DoesNotExist, Gt, Lt, got 'Near'"
            ),
        ),
        (
            {
                "podAntiAffinity": {
                    REQUIRED: [
                        {"topologyKey": "z", "labelSelector": {"matchExpressions": [{"key": "k"}]}}
                    ]
                }
            },
            f"podAntiAffinity.{REQUIRED}[0].labelSelector.matchExpressions[0].operator: is missing",
        ),
        (
            {"podAffinity": {REQUIRED: [{"topologyKey": "z", "namespaces": ["a", 1]}]}},
            f"podAffinity.{REQUIRED}[0].namespaces[1]: expected a string, got 1",
        ),
    ],
)
def test_every_fault_is_told_with_its_path(affinity, fault):
    with pytest.raises(KubernetesObjectError) as caught:
        task(affinity)
    (found,) = caught.value.faults
    assert str(found) == f"{AFFINITY}.{fault}"


def test_affinity_that_is_no_mapping_is_a_fault():
    with pytest.raises(KubernetesObjectError) as caught:
        task(["x"])
    assert str(caught.value) == f"{AFFINITY}: expected a mapping, got ['x']"


def test_labels_of_namespaces_that_are_not_given_select_none_which_is_noticed():
    term = namespaced_term({"matchLabels": {"team": "red"}})
    _, notices = read_objects(nodes=[], pods=[pod(group="", affinity=term)])
    assert [(notice.code, notice.field) for notice in notices] == [
        (NoticeCode.FIELD_IGNORED, "spec.affinity")
    ]
