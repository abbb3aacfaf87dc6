"""nodeorder: scores by hand, and that what is fast says what is plain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve, fields, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.books import opened, plugin_object
from tests.support.clusters import cluster, job, node

from batchsched import (
    Arguments,
    LabelSelector,
    NodeAffinity,
    NodeInfo,
    NodeSelectorTerm,
    Operator,
    PodAffinity,
    PodAffinityTerm,
    PreferredNodeTerm,
    Requirement,
    Resource,
    ScoringRequest,
    Session,
    Snapshot,
    TaskInfo,
    TaskStatus,
    WeightedPodTerm,
    default_registry,
)
from batchsched.placement.arrays import ArrayTable
from batchsched.plugin import NodeState, Reads, TaskState
from batchsched.state.ledger import Ledger
from batchsched.testing import snapshots


@frozen
class Weights:
    """The weights of the scores, by default those of kube-batch."""

    least_requested: int = 1
    most_requested: int = 0
    node_affinity: int = 1
    pod_affinity: int = 1
    balanced_resource: int = 1

    @property
    def arguments(self) -> dict[str, int]:
        return {f"{name.replace('_', '')}.weight": of for name, of in asdict(self).items()}


def made(arguments: Arguments) -> Weights:
    """What the plugin makes of arguments."""
    factory = default_registry().plugin_factory("nodeorder")
    assert factory is not None
    plugin: Any = factory(arguments)
    return Weights(**{field.name: getattr(plugin, field.name) for field in fields(Weights)})


OFF = dict.fromkeys(
    ("least_requested", "most_requested", "node_affinity", "pod_affinity", "balanced_resource"), 0
)
WEIGHTS = st.builds(Weights, **{name: st.integers(0, 3) for name in OFF})


def only(**weights: int) -> Weights:
    return Weights(**{**OFF, **weights})


def session(snapshot: Snapshot, weights: Weights) -> Session:
    return opened(snapshot, [("nodeorder", weights.arguments)])


def totals(of: Session, uid: str, *names: str) -> list[float]:
    task = of.task(uid)
    nodes = [of.node(name) for name in names] if names else of.nodes
    return of.placement.totals(task, [of.placement.raw_scores(task, n) for n in nodes])


def sized(cpu: int, memory: int, used: tuple[int, int], asked: tuple[int, int]) -> Snapshot:
    """A node n of this size with a task of that use, and a task t that asks."""
    return Snapshot(
        nodes=[NodeInfo(name="n", allocatable=Resource(milli_cpu=cpu, memory=memory))],
        queues=cluster([]).queues,
        jobs=[evolve(job("j", ""), tasks=[task("t", asked)])],
        other_tasks=[task("o", used, node_name="n", status=TaskStatus.RELEASING)],
    )


def task(uid: str, scoring: tuple[int, int], **more: Any) -> TaskInfo:
    return TaskInfo(uid=uid, name=uid, scoring_request=ScoringRequest(*scoring), **more)


@pytest.mark.parametrize(
    ("size", "used", "asked", "least", "most", "balanced"),
    [
        # free 7/10 and 5/10: (7 + 5) // 2; used 3 and 5: (3 + 5) // 2; 1 - 0.2
        ((1000, 1000), (200, 300), (100, 200), 6, 4, 8),
        # 10 * 667 // 1000 = 6 and 10 * 999 // 1000 = 9: (6 + 9) // 2 = 7; 3 and 0
        ((1000, 1000), (0, 0), (333, 1), 7, 1, 6),
        ((1000, 1000), (0, 0), (0, 0), 10, 0, 10),
        # full: nothing is free, all is used, and nothing is balanced
        ((1000, 1000), (500, 500), (500, 500), 0, 10, 0),
        # cpu is full, memory half: (0 + 5) // 2; (10 + 5) // 2
        ((1000, 1000), (500, 0), (500, 500), 2, 7, 0),
        # more cpu is asked than there is
        ((1000, 1000), (900, 0), (200, 500), 2, 2, 0),
        ((0, 1000), (0, 0), (0, 500), 2, 2, 0),
        ((1000, 0), (0, 0), (500, 0), 2, 2, 0),
        ((0, 0), (0, 0), (0, 0), 0, 0, 0),
        # int((1 - |0.1 - 0.8|) * 10): 0.3 is a little less in floats, or not: as computed
        ((10, 10), (0, 0), (1, 8), 5, 4, int((1 - abs(0.1 - 0.8)) * 10)),
    ],
)
def test_scores_by_hand(
    size: tuple[int, int],
    used: tuple[int, int],
    asked: tuple[int, int],
    least: int,
    most: int,
    balanced: int,
) -> None:
    snapshot = sized(*size, used, asked)
    assert totals(session(snapshot, only(least_requested=1)), "t") == [least]
    assert totals(session(snapshot, only(most_requested=1)), "t") == [most]
    assert totals(session(snapshot, only(balanced_resource=1)), "t") == [balanced]
    all_three = only(least_requested=2, most_requested=3, balanced_resource=5)
    assert totals(session(snapshot, all_three), "t") == [2 * least + 3 * most + 5 * balanced]


def test_the_default_weights_are_those_of_kube_batch() -> None:
    assert made(Arguments({})) == Weights(
        least_requested=1, most_requested=0, node_affinity=1, pod_affinity=1, balanced_resource=1
    )
    arguments = Arguments(
        {
            "leastrequested.weight": "2",
            "mostrequested.weight": 3,
            "nodeaffinity.weight": "4",
            "podaffinity.weight": 5,
            "balancedresource.weight": "0",
        }
    )
    assert made(arguments) == Weights(
        least_requested=2, most_requested=3, node_affinity=4, pod_affinity=5, balanced_resource=0
    )
    assert arguments.faults() == []


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        (TaskStatus.ALLOCATED, True),
        (TaskStatus.RUNNING, True),
        (TaskStatus.RELEASING, True),
        (TaskStatus.UNKNOWN, True),
        (TaskStatus.PIPELINED, True),
        (TaskStatus.CONDITIONAL, True),
        (TaskStatus.RESERVED, False),
        (TaskStatus.PENDING, False),
    ],
)
def test_all_tasks_on_the_node_count_but_reserved_ones(status: TaskStatus, counts: bool) -> None:
    snapshot = cluster([node("n", "9C9G")], job("j", "4500C0G", "0C0G", minimum=1))
    of = session(snapshot, only(least_requested=1))
    other = of.task("j-1")
    other.scoring_milli_cpu, other.scoring_memory = 9000, 0
    mine = of.task("j-2")
    mine.scoring_milli_cpu, mine.scoring_memory = 0, 0
    # By hand: what the ledger does not let happen, for want of room, is not at stake here.
    other.resreq = other.init_resreq = (0, 0)
    of.ledger.move(
        other, status, None if status is TaskStatus.PENDING else of.nodes[0], is_backfill=False
    )
    assert totals(of, "j-2") == [5 if counts else 10]


def test_a_task_that_names_no_request_counts_a_little() -> None:
    snapshot = cluster([node("n", "1C1G")], job("j", "", minimum=1))
    mine = Ledger(snapshot).tasks["j-1"]
    assert (mine.scoring_milli_cpu, mine.scoring_memory) == (100, 200 << 20)


# Node affinity


def labelled(name: str, **labels: str) -> NodeInfo:
    return evolve(node(name, "9C9G"), labels=labels)


def prefers(*weights: tuple[int, str]) -> NodeAffinity:
    return NodeAffinity(
        preferred=[
            PreferredNodeTerm(
                weight=weight,
                term=NodeSelectorTerm(
                    match_expressions=[Requirement(key=key, operator=Operator.EXISTS)]
                ),
            )
            for weight, key in weights
        ]
    )


def test_node_affinity_is_a_tenth_of_the_highest_among_the_nodes_compared() -> None:
    of_job = job("j", "", minimum=1)
    mine = evolve(of_job.tasks[0], node_affinity=prefers((30, "a"), (7, "b")))
    nodes = [labelled("n1", a=""), labelled("n2", b=""), labelled("n3", a="", b=""), node("n4", "")]
    of = session(cluster(nodes, evolve(of_job, tasks=[mine])), only(node_affinity=2))
    # raw 30, 7, 37, 0: 10 * raw // 37, twice
    assert totals(of, "j-1") == [16, 2, 20, 0]
    assert totals(of, "j-1", "n1", "n2") == [20, 4]
    assert totals(of, "j-1", "n2") == [20]
    assert totals(of, "j-1", "n4") == [0]


def test_a_task_without_preferences_finds_all_nodes_alike_beside_one_that_has_some() -> None:
    of_job = job("j", "", "", minimum=1)
    mine = evolve(of_job.tasks[0], node_affinity=prefers((30, "a")))
    snapshot = cluster(
        [labelled("n1", a=""), node("n2", "")], evolve(of_job, tasks=[mine, of_job.tasks[1]])
    )
    of = session(snapshot, only(node_affinity=1))
    assert totals(of, "j-1") == [10, 0]
    assert totals(of, "j-2") == [0, 0]


def test_a_node_can_be_preferred_by_name() -> None:
    named = Requirement(key="metadata.name", operator=Operator.IN, values=["n2"])
    term = PreferredNodeTerm(weight=5, term=NodeSelectorTerm(match_fields=[named]))
    of_job = job("j", "", minimum=1)
    mine = evolve(of_job.tasks[0], node_affinity=NodeAffinity(preferred=[term]))
    snapshot = cluster([node("n1", ""), node("n2", "")], evolve(of_job, tasks=[mine]))
    assert totals(session(snapshot, only(node_affinity=1)), "j-1") == [0, 10]


# Inter-pod affinity


def attracted(
    weight: int, app: str = "db", key: str = "zone", *, anti: bool = False
) -> Mapping[str, Any]:
    term = PodAffinityTerm(selector=LabelSelector(match_labels={"app": app}), topology_key=key)
    wish = PodAffinity(preferred=[WeightedPodTerm(weight=weight, term=term)])
    return {"pod_anti_affinity" if anti else "pod_affinity": wish}


def required(app: str = "db", key: str = "zone") -> PodAffinity:
    selector = LabelSelector(match_labels={"app": app})
    return PodAffinity(required=[PodAffinityTerm(selector=selector, topology_key=key)])


ZONES = [
    labelled("n1", zone="a"),
    labelled("n2", zone="a"),
    labelled("n3", zone="b"),
    labelled("n4"),
]


def pods(mine: Mapping[str, Any], *there: tuple[str, Mapping[str, Any]]) -> Session:
    tasks = [
        TaskInfo(
            uid=f"o{i}", name=f"o{i}", node_name=place, **{"status": TaskStatus.RUNNING, **more}
        )
        for i, (place, more) in enumerate(there)
    ]
    own = evolve(job("j", ""), tasks=[TaskInfo(uid="t", name="t", **mine)])
    snapshot = evolve(cluster(ZONES, own), other_tasks=tasks)
    return session(snapshot, only(pod_affinity=1))


DB = {"labels": {"app": "db"}}


@pytest.mark.parametrize(
    ("mine", "there", "expected"),
    [
        # its own wish: +5 in the whole zone of a task that it means
        (attracted(5), [("n1", DB)], [10, 10, 0, 0]),
        (attracted(5), [("n1", DB), ("n3", DB), ("n3", DB)], [5, 5, 10, 0]),
        (attracted(5), [("n4", DB)], [0, 0, 0, 0]),  # in no zone
        (attracted(5), [("n1", {**DB, "status": TaskStatus.RELEASING})], [0, 0, 0, 0]),
        (attracted(5), [("n1", {**DB, "namespace": "else"})], [0, 0, 0, 0]),
        # its dislike: -5 in a; with mn = -5 and mx = 0 nowhere is 10
        (attracted(5, anti=True), [("n1", DB)], [0, 0, 10, 10]),
        # others' wishes and dislikes of it
        (DB, [("n3", attracted(2))], [0, 0, 10, 0]),
        (DB, [("n3", attracted(2, anti=True))], [10, 10, 0, 10]),
        # others' required terms count 1; required anti-affinity nothing
        (DB, [("n1", {"pod_affinity": required()}), ("n3", attracted(4))], [2, 2, 10, 0]),
        (DB, [("n1", {"pod_anti_affinity": required()})], [0, 0, 0, 0]),
        # its own wish, +2 in a, and another's, +3 in b
        (
            {**DB, **attracted(2, "web")},
            [("n1", {"labels": {"app": "web"}}), ("n3", attracted(3))],
            [6, 6, 10, 0],
        ),
        # both: a: +3, b: -1; (3 + 1) / 4, 0 / 4, and no zone 1 / 4
        (
            {**attracted(3), **attracted(1, "web", anti=True)},
            [("n1", DB), ("n3", {"labels": {"app": "web"}})],
            [10, 10, 0, 2],
        ),
    ],
)
def test_inter_pod_affinity_by_hand(
    mine: Mapping[str, Any], there: list[tuple[str, Mapping[str, Any]]], expected: list[int]
) -> None:
    assert totals(pods(mine, *there), "t") == expected


def test_inter_pod_affinity_is_a_part_of_the_range_among_the_nodes_compared() -> None:
    of = pods(attracted(5), ("n1", DB), ("n3", DB), ("n3", DB))
    assert totals(of, "t", "n1", "n4") == [10, 0]
    assert totals(of, "t", "n1") == [10]
    assert totals(of, "t", "n1", "n3") == [5, 10]  # the range begins at 0


# What is fast


@given(snapshots(max_nodes=8), WEIGHTS)
@settings(max_examples=150, deadline=None)
def test_scoring_many_nodes_at_once_gives_the_scores_of_each(
    snapshot: Snapshot, weights: Weights
) -> None:
    of = session(snapshot, weights)
    ledger = of.ledger
    keys: dict[object, object] = {}
    for number, score in enumerate(plugin_object(of, "nodeorder").node_scores()):
        for mine in ledger.tasks.values():
            plain = [score.score(mine, n) for n in ledger.nodes]
            assert score.hints.specialise is not None
            values = score.hints.specialise(mine)
            if values is None:
                assert set(plain) <= {0}
                assert score.normalise is not None
                assert score.normalise(0, 0, 0) == 0
            else:
                assert values(ledger.nodes) == plain
                assert values([]) == []
            assert keys.setdefault((number, score.signature(mine)), plain) == plain


SIZES = st.integers(0, 40)


@given(
    st.lists(st.tuples(SIZES, SIZES, SIZES, SIZES), min_size=1, max_size=6), SIZES, SIZES, WEIGHTS
)
@settings(max_examples=300, deadline=None)
def test_small_and_full_and_empty_nodes_score_the_same_at_once(
    drawn: list[tuple[int, int, int, int]], cpu: int, memory: int, weights: Weights
) -> None:
    snapshot = Snapshot(
        nodes=[
            NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=c, memory=m))
            for i, (c, m, _, _) in enumerate(drawn)
        ],
        other_tasks=[
            task("t", (cpu, memory)),
            *(
                task(f"o{i}", (c, m), node_name=f"n{i}", status=TaskStatus.RUNNING)
                for i, (_, _, c, m) in enumerate(drawn)
            ),
        ],
    )
    of = session(snapshot, weights)
    ledger = of.ledger
    mine = ledger.tasks["t"]
    scores = list(plugin_object(of, "nodeorder").node_scores())
    uses = weights.least_requested or weights.most_requested or weights.balanced_resource
    assert len(scores) == bool(uses)
    for score in scores:
        plain = [_by_the_specification(weights, mine, n) for n in ledger.nodes]
        assert [score.score(mine, n) for n in ledger.nodes] == plain
        assert score.hints.specialise is not None
        values = score.hints.specialise(mine)
        assert values is not None
        assert values(ledger.nodes) == plain


@pytest.mark.parametrize(
    "weights",
    [
        only(least_requested=1),
        only(most_requested=1),
        only(balanced_resource=1),
        only(least_requested=2, most_requested=3, balanced_resource=5),
    ],
)
def test_scores_on_arrays_are_those_of_each_node(weights: Weights) -> None:
    sizes = [(1000, 1000), (1000, 2000), (1300, 700), (400, 1000), (700, 400)]
    full = [(100, 9000), (100, 400), (400, 350), (0, 500), (500, 0), (90, 90)]
    nodes = [
        NodeInfo(name=f"n{i}", allocatable=Resource(milli_cpu=c, memory=m, scalars={"gpu": i}))
        for i, (c, m) in enumerate([*sizes, *full])
    ]
    of = session(Snapshot(nodes=nodes, other_tasks=[task("t", (100, 350))]), weights)
    ledger = of.ledger
    mine = ledger.tasks["t"]
    [score] = plugin_object(of, "nodeorder").node_scores()
    table = ArrayTable(ledger)
    for some in (range(len(nodes)), range(len(sizes)), [0, 5], [0, 6], [0, 7]):
        found: Any = score.hints.vectorise(mine)(table.some(np.array(list(some))))
        plain = [_by_the_specification(weights, mine, ledger.nodes[i]) for i in some]
        assert found.tolist() == plain


def _by_the_specification(weights: Weights, mine: TaskState, of: NodeState) -> int:
    request = (
        of.scoring_milli_cpu + mine.scoring_milli_cpu,
        of.scoring_memory + mine.scoring_memory,
    )
    capacity = of.allocatable[:2]

    def part(d: int, amount: int) -> int:
        if capacity[d] == 0 or request[d] > capacity[d]:
            return 0
        return amount * 10 // capacity[d]

    least = sum(part(d, capacity[d] - request[d]) for d in (0, 1)) // 2
    most = sum(part(d, request[d]) for d in (0, 1)) // 2
    f = [request[d] / capacity[d] if capacity[d] else 1 for d in (0, 1)]
    balanced = 0 if f[0] >= 1 or f[1] >= 1 else int((1 - abs(f[0] - f[1])) * 10)
    return (
        weights.least_requested * least
        + weights.most_requested * most
        + weights.balanced_resource * balanced
    )


# The resource score


@pytest.mark.parametrize(
    ("request_", "idle", "expected"),
    [
        # cpu 100 - 100 * 1 / 4 = 75, memory 100 - 50 = 50: ((75 + 50) / 2) / 3
        (Resource(milli_cpu=1000, memory=50), Resource(milli_cpu=4000, memory=100), 62.5 / 3),
        # cpu 100 * 1 / 2 - 100 = -50, memory 100 as nothing is required
        (Resource(milli_cpu=2000), Resource(milli_cpu=1000, memory=100), 25 / 3),
        # scalars: gpu 75, fpga 100 * 1 / 4 - 100 = -75; their mean 0; cpu and memory 100
        (
            Resource(scalars={"gpu": 1000, "fpga": 4000}),
            Resource(scalars={"gpu": 4000, "fpga": 1000, "tpu": 9000}),
            100 / 3,
        ),
        (Resource(scalars={"gpu": 1000}), Resource(scalars={"gpu": 4000}), (100 + 2 * 75) / 3),
        # gpu 75, fpga 25: their mean counts
        (
            Resource(scalars={"gpu": 1000, "fpga": 3000}),
            Resource(scalars={"gpu": 4000, "fpga": 4000}),
            (100 + 2 * 50) / 3,
        ),
        (Resource(milli_cpu=1000), Resource(), ((-100 + 100) / 2) / 3),
    ],
)
def test_the_resource_score_by_hand(request_: Resource, idle: Resource, expected: float) -> None:
    own = evolve(job("j", ""), tasks=[TaskInfo(uid="t", name="t", resreq=request_)])
    of = session(cluster([NodeInfo(name="n", allocatable=idle)], own), Weights())
    score = of.plugins.node_order_on_resource(of.task("t"), of.nodes[0])
    assert score == pytest.approx(expected)


# What is declared


def test_scores_say_what_they_read_and_count_as_configured() -> None:
    """What they read of tasks is the same for tasks that are described in the same words."""
    wishes = {"node_affinity": prefers((30, "zone")), **attracted(5), **DB}
    of_job = job("j", "1C1G", "1C1G", "2C1G", minimum=9)
    tasks = [evolve(task, **wishes) for task in of_job.tasks]
    weights = Weights(node_affinity=7, pod_affinity=8)
    of = session(cluster(ZONES, evolve(of_job, tasks=tasks)), weights)
    scores = [score for _, score in of.plugins.node_scores]
    assert [(score.name, score.reads, score.weight) for score in scores] == [
        ("requested resources", Reads.ACCOUNTS, 1),
        ("node affinity", Reads.DESCRIPTION, 7),
        ("inter-pod affinity", Reads.CLUSTER, 8),
    ]
    one, alike, larger = of.jobs["default/j"].tasks
    for score in scores:
        assert score.signature(one) == score.signature(alike)
    requested, _, attraction = scores
    assert requested.signature(one) != requested.signature(larger)
    for score in (requested, attraction):
        assert score.hints.specialise is not None
        plain = [score.score(one, n) for n in of.nodes]
        values = score.hints.specialise(one)
        assert values is not None
        assert values(of.nodes) == plain
    assert requested.hints.vectorise is not None
    assert attraction.hints.watch is not None
    (watch,) = attraction.hints.watch(one)[:1]
    end, _ = watch.changed_since(0)
    of.allocate(alike, of.nodes[2])
    assert watch.changed_since(end)[1] == [2]
    assert [attraction.score(one, n) for n in of.nodes] == [0, 0, 10, 0]


def test_scores_that_tell_no_nodes_apart_are_left_out() -> None:
    snapshot = cluster(ZONES, job("j", "1C1G"))
    of = session(snapshot, Weights())
    assert [score.name for _, score in of.plugins.node_scores] == ["requested resources"]
    assert session(snapshot, only(node_affinity=1, pod_affinity=1)).plugins.node_scores == []
    for name in ("least_requested", "most_requested", "balanced_resource"):
        (found,) = session(snapshot, only(**{name: 1})).plugins.node_scores
        assert found[1].name == "requested resources"
