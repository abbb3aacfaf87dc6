"""A request that excludes nothing changes nothing, and who starts with a stricter one starts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.support.possible import NotAsked
from tests.support.requests import not_as_without, starts_only_with_more
from tests.support.tiny_clusters import world

from batchsched import Snapshot, TaskStatus

pytestmark = pytest.mark.slow

BESIDES = (
    *("devices", "shared", "ports", "slots", "queues", "tree", "limits", "priorities"),
    *("protection", "runtimes", "selectors", "taints", "rival", "leaving", "critical"),
)
"""The features of clusters that may be beside the requests."""
ACTIONS = st.sampled_from(
    ["allocate", "allocate,preempt", "allocate,reclaim", "reclaim,allocate,preempt,backfill"]
)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    return world(Random(draw(st.integers(0, 1 << 30))), BESIDES)[0]


@settings(max_examples=60)
@given(clusters(), ACTIONS)
def test_a_request_that_excludes_nothing_changes_nothing(snapshot: Snapshot, actions: str) -> None:
    try:
        assert not list(not_as_without(snapshot, actions))
    except NotAsked:
        assume(False)


@settings(max_examples=60)
@given(clusters(), ACTIONS)
def test_who_starts_with_a_stricter_request_starts_with_a_weaker_one(
    snapshot: Snapshot, actions: str
) -> None:
    assert TaskStatus.PENDING in {t.status for job in snapshot.jobs for t in job.tasks}
    try:
        assert not list(starts_only_with_more(snapshot, actions))
    except NotAsked:
        assume(False)
