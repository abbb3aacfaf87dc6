"""A key ranks nodes exactly, before their scores."""

from __future__ import annotations

import pytest
from tests.support.books import Saying, configured, session_of
from tests.support.clusters import cluster, job, node

from batchsched import PluginError
from batchsched.action import Fit
from batchsched.placement.indexed import IndexedPlacement
from batchsched.placement.plain_loop import LinearScanPlacement
from batchsched.plugin import NodeScore, NodeState, TaskState

NODES = [node(name, "4C4G") for name in ("n0", "n1", "n2", "n3")]
KEYS = {"n0": (1, 5), "n1": (1, 2), "n2": (1, 2), "n3": (2, 0)}
SCORES = {"n0": 9.0, "n1": 1.0, "n2": 1.5, "n3": 9.0}


def _key(_task: TaskState, of: NodeState) -> tuple[int, ...]:
    return KEYS[of.name]


def _scores() -> list[NodeScore]:
    return [NodeScore(score=lambda _task, of: SCORES[of.name])]


@pytest.mark.parametrize("engine", [IndexedPlacement, LinearScanPlacement])
@pytest.mark.parametrize("more", [{}, {"node_key_signature": lambda _task: None}])
def test_the_smallest_key_comes_first_then_the_score_then_node_order(
    engine: type, more: dict[str, object]
) -> None:
    plugin = Saying(node_key=_key, node_scores=_scores, **more)  # type: ignore[arg-type]
    session = session_of(
        cluster(NODES, job("j", "3C1G", "3C1G", "3C1G", "3C1G")),
        configured([("own", plugin)]),
        placement=engine,
    )
    found: list[str] = []
    for task in session.ledger.tasks.values():
        best = session.placement.best(task, Fit.NOW)
        assert best is not None
        found.append(best.name)
        session.allocate(task, best)
    assert found == ["n2", "n1", "n0", "n3"]


def test_nodes_that_are_ranked_all_are_in_the_order_of_scores() -> None:
    plugin = Saying(node_key=_key, node_scores=_scores)
    session = session_of(cluster(NODES, job("j", "1C1G")), configured([("own", plugin)]))
    (task,) = session.ledger.tasks.values()
    assert [each.name for each in session.placement.ranked(task)] == ["n0", "n3", "n2", "n1"]


def test_only_one_plugin_has_a_key() -> None:
    two = [("one", Saying(node_key=_key)), ("two", Saying(node_key=_key))]
    with pytest.raises(
        PluginError, match="'two', node_key: only one plugin may have it, and 'one'"
    ):
        session_of(cluster(NODES, job("j", "1C1G")), configured(two))


def test_a_signature_alone_is_an_error() -> None:
    plugin = Saying(node_key_signature=lambda _task: None)
    with pytest.raises(PluginError, match="expected node_key with node_key_signature"):
        session_of(cluster(NODES, job("j", "1C1G")), configured([("own", plugin)]))


@pytest.mark.parametrize("wrong", [3, (1.0,), [1], None, (True,)])
def test_a_key_is_a_tuple_of_integers(wrong: object) -> None:
    plugin = Saying(node_key=lambda _task, _node: wrong)
    session = session_of(cluster(NODES, job("j", "1C1G")), configured([("own", plugin)]))
    (task,) = session.ledger.tasks.values()
    with pytest.raises(PluginError, match="'own', node_key: expected a tuple of integers, got"):
        session.placement.best(task, Fit.NOW)
