"""However a cluster is read, the same is decided: with racks, devices and protection."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.possible import ORDERS, configuration
from tests.support.tiny_clusters import world
from tests.support.ways import WAYS, differing

from batchsched import NodeInfo, Queue, Snapshot


@settings(max_examples=60)
@given(st.integers(0, 1 << 30), st.sampled_from(ORDERS))
def test_eight_ways_of_reading_a_cluster_decide_the_same(seed: int, actions: str) -> None:
    snapshot, _ = world(Random(seed))
    assert not list(differing(snapshot, configuration(actions)))


def test_a_way_that_reads_something_else_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, _ = world(Random(3))
    config = configuration("allocate")
    empty = Snapshot(nodes=[NodeInfo(name="n0")], queues=[Queue(name="a")])
    monkeypatch.setitem(WAYS, "plainly", lambda _, config: WAYS["living"](empty, config))
    (difference,) = differing(snapshot, config)
    assert difference.startswith("plainly: ")
