"""Raw scores that depend on descriptions alone: computed once for each node, until it changes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from attrs import evolve
from tests.support.clusters import cluster, job, node

from batchsched import JobInfo, NodeAffinity, Scheduler, Snapshot
from batchsched.live import Cluster, JobArrived, NodeChanged, NodeRemoved
from batchsched.model.constraints import (
    NodeSelectorTerm,
    Operator,
    PreferredNodeTerm,
    Requirement,
)
from batchsched.placement.raw_scores import KeptRawScores
from batchsched.placement.score_index import Raw

NODES: Any = [SimpleNamespace(slot=slot) for slot in range(4)]


class Asked:
    """Computes raw scores and notes for which nodes."""

    def __init__(self) -> None:
        self.slots: list[int] = []

    def __call__(self, nodes: Sequence[Any]) -> list[Raw]:
        self.slots += [node.slot for node in nodes]
        return [(node.slot * 10,) for node in nodes]

    def since(self) -> list[int]:
        slots, self.slots = self.slots, []
        return slots


def test_each_node_is_computed_once_until_it_changes() -> None:
    kept, asked = KeptRawScores(most=2), Asked()
    scores = kept.of("s", asked)
    assert scores(NODES[:2]) == [(0,), (10,)]
    assert scores([NODES[3], NODES[1], NODES[0]]) == [(30,), (10,), (0,)]
    assert scores([]) == []
    assert asked.since() == [0, 1, 3]
    kept.nodes_changed([1, 2])
    assert scores(NODES) == [(0,), (10,), (20,), (30,)]
    assert asked.since() == [1, 2]
    assert kept.of("s", Asked()) is scores


def test_only_the_most_recently_used_are_kept() -> None:
    kept, asked = KeptRawScores(most=2), Asked()
    a, b, c = (kept.of(name, asked) for name in "abc")
    for scores in (a, b, a, c, a):
        scores(NODES[:1])
    assert asked.since() == [0, 0, 0]
    b(NODES[:1])
    assert asked.since() == [0]


def preferring(zone: str, name: str) -> JobInfo:
    wanted = Requirement(key="zone", operator=Operator.IN, values=[zone])
    term = PreferredNodeTerm(weight=10, term=NodeSelectorTerm(match_expressions=[wanted]))
    base = job(name, "1C1G", "1C1G", minimum=1)
    wish = NodeAffinity(preferred=[term])
    return evolve(base, tasks=[evolve(task, node_affinity=wish) for task in base.tasks])


def zones(*names: str) -> list:
    return [node(f"n{i}", "64C64G", labels={"zone": z}) for i, z in enumerate(names)]


def test_a_node_that_changes_in_a_living_cluster_is_preferred_by_what_it_is_now() -> None:
    living = Cluster(cluster(zones(*"abbbbbbbbbbb"), preferring("a", "first")))
    live = Scheduler().attach(living)

    def placed() -> set[str]:
        cycle = live.schedule()
        assert cycle.full() == Scheduler().schedule(living.snapshot())
        living.carry_out(cycle)
        return {bind.node_name for bind in cycle.binds}

    assert placed() == {"n0"}
    was, becomes = (zones(*names) for names in ("bbbbbbbbbbbb", "aaaaaaaaaaaa"))
    living.apply(NodeChanged(was[0]), NodeChanged(becomes[7]), JobArrived(preferring("a", "next")))
    assert placed() == {"n7"}
    living.apply(NodeRemoved("n11"), NodeChanged(becomes[3]), JobArrived(preferring("a", "last")))
    assert placed() == {"n3"}


def many(jobs: int, nodes: int) -> Snapshot:
    names = [f"z{number % 3}" for number in range(nodes)]
    return cluster(zones(*names), *(preferring(f"z{n % 3}", f"j{n}") for n in range(jobs)))


def test_preferred_terms_are_matched_once_for_each_zone() -> None:
    plain = NodeAffinity.weight_of
    with patch.object(NodeAffinity, "weight_of", autospec=True) as weight_of:
        weight_of.side_effect = plain
        Scheduler().schedule(many(9, 30))
    # Three different terms, and three zones.
    assert weight_of.call_count == 3 * 3
