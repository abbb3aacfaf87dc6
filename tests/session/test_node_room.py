"""NodeRoom: on which nodes requests fit if they are empty."""

from __future__ import annotations

from hypothesis import given, settings
from tests.support.books import opened
from tests.support.clusters import cluster, job, node

from batchsched import Snapshot
from batchsched.session.policy_state import NodeRoom
from batchsched.state.vectors import fits
from batchsched.testing import snapshots


@given(snapshots(max_nodes=6))
@settings(max_examples=50, deadline=None)
def test_large_enough_nodes_are_those_of_a_plain_loop(snapshot: Snapshot) -> None:
    ledger = opened(snapshot).ledger
    room = NodeRoom(ledger)
    for task in ledger.tasks.values():
        request = task.init_resreq
        expected = {n.slot for n in ledger.nodes if fits(request, n.allocatable)}
        assert room.large_enough(request) == expected


def test_requests_for_the_same_sizes_of_nodes_share_one_set() -> None:
    nodes = [node("a", "2C2G"), node("b", "4C4G"), node("c", "4C4G")]
    ledger = opened(cluster(nodes, job("j", "3C1G", "4C2G", "5C1G"))).ledger
    room = NodeRoom(ledger)
    first, second, third = [room.large_enough(t.init_resreq) for t in ledger.tasks.values()]
    assert first == {1, 2}
    assert first is second
    assert not third
